"""The activations that a layer's backward pass needs, as :mod:`.memory` counts them."""

from __future__ import annotations

from .costs import Costs
from .job import Job
from .transformer import Transformer

__all__ = ["LayerActivations"]


class LayerActivations:
    """What a rank keeps of a microbatch in a layer, in bytes.

    Parameters
    ----------
    model : Transformer
    job : Job

    Examples
    --------
    >>> from astranb.workload.models import MODELS, Parallelism
    >>> one = LayerActivations(MODELS["gpt3-1.3b"], Job(Parallelism(), 2048, 1, recompute="full"))
    >>> one.kept(experts=False) == 2 * 2048 * MODELS["gpt3-1.3b"].hidden
    True
    """

    def __init__(self, model: Transformer, job: Job) -> None:
        self.model, self.job, self.costs = model, job, Costs(model, job)
        self._divided = job.parallelism.tensor if job.parallelism.sequence else 1

    def scores(self) -> int:
        """Bytes of unfused attention's scores."""
        job = self.job
        if job.attention != "unfused" or job.mode == "decode":
            return 0
        numbers = self.costs.tokens * job.sequence * self.model.heads // self.job.parallelism.tensor
        return numbers * (job.bytes_each + ((1 + job.bytes_each) if job.dropout else 0))

    def layer(self, *, experts: bool) -> int:
        """Bytes that a layer's backward pass needs of a microbatch, with nothing computed again."""
        m, job, tensor = self.model, self.job, self.job.parallelism.tensor
        tokens, each = self.costs.tokens, job.bytes_each
        fed = 1 if job.precision == "fp8" else each
        between = m.hidden * (2 * each + 2 * fed + (2 if job.dropout else 0)) // self._divided
        # Attention's output is kept for attention, and as the input of the projection.
        second = m.heads * m.value_size * (fed if fed < each else 0)
        heads = m.heads * (m.key_size + m.value_size) * each
        if m.is_latent:
            latent = (m.q_rank + m.kv_rank) * each
            heads += m.heads * (m.key_size + m.value_size) * each
        else:
            latent = 0
            heads += m.cache_width * each
        inside = (2 if m.gated else 1) * each + fed
        found = tokens * (between + (heads + second) // tensor + latent) + self.scores()
        if not experts:
            return found + tokens * inside * m.ffn // tensor
        wide = inside * m.expert_ffn // tensor
        copies = int(self.costs.load * m.top_k * tokens) * (m.hidden * (each + fed) // self._divided + wide)
        router = 4 * tokens * m.experts // self._divided
        return found + tokens * m.shared_experts * wide + copies + router

    def kept(self, *, experts: bool) -> int:
        """Bytes of them that are kept until the backward pass."""
        if self.job.recompute == "full":
            return self.costs.activation // self._divided
        less = self.scores() if self.job.recompute == "selective" else 0
        return self.layer(experts=experts) - less
