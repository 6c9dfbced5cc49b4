"""The activations that a layer's backward pass needs, as :mod:`.memory` counts them."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

from .costs import Costs
from .job import Job
from .transformer import Transformer
from .weights import cached_width

__all__ = ["LayerActivations"]


class LayerActivations:
    """Activations that a rank keeps of a microbatch in a layer, in bytes.

    Parameters
    ----------
    model : Transformer
    job : Job
    part : int
        The rank's number in its tensor group.

    Examples
    --------
    >>> from astranb import models
    >>> job = Job(models.Parallelism(), 2048, 1, recompute="full")
    >>> one = LayerActivations(models.MODELS["gpt3-1.3b"], job)
    >>> one.kept(experts=False) == 2 * 2048 * models.MODELS["gpt3-1.3b"].hidden
    True
    """

    def __init__(self, model: Transformer, job: Job, part: int = 0) -> None:
        self.model, self.job, self.costs, self.part = model, job, Costs(model, job, part), part
        self._divided = job.parallelism.tensor if job.parallelism.sequence else 1

    def scores(self) -> int:
        """Bytes of unfused attention's scores."""
        job = self.job
        if job.attention != "unfused" or job.mode == "decode":
            return 0
        numbers = self.costs.tokens * job.sequence * self.costs.heads
        return numbers * (job.bytes_each + ((1 + job.bytes_each) if job.dropout else 0))

    def layer(self, *, experts: bool) -> int:
        """Bytes that a layer's backward pass needs of a microbatch, with nothing computed again."""
        m, job, costs = self.model, self.job, self.costs
        tokens, each = costs.tokens, job.bytes_each
        fed = job.fed_bytes
        if job.lora:
            # No gradients of frozen matrices, and so no inputs of them, but those of the adapters.
            adapted, fed = Fraction(each), Fraction(0)
        else:
            adapted = fed
        between = m.hidden * (2 * each + adapted + fed + (2 if job.dropout else 0)) // self._divided
        # Attention's output is kept for attention, and as the input of the projection.
        second = costs.heads * m.value_size * (adapted if adapted < each else 0)
        heads = costs.heads * (m.key_size + m.value_size) * each
        if m.is_latent:
            latent = (m.q_rank + m.kv_rank) * each
            heads *= 2
        else:
            latent = 0
            heads += cached_width(m, job.parallelism.tensor, self.part) * each
        inside = (2 if m.gated else 1) * each + fed
        found = tokens * (between + heads + second + latent) + self.scores()
        if not experts:
            return ceil(found + tokens * inside * costs.share_of(m.ffn))
        wide = inside * costs.share_of(m.expert_ffn)
        shared = inside * costs.share_of(m.shared_experts * m.expert_ffn)
        copies = int(costs.load * m.top_k * tokens) * (m.hidden * (each + fed) // self._divided + wide)
        router = 4 * tokens * m.experts // self._divided
        return ceil(found + tokens * shared + copies + router)

    def kept(self, *, experts: bool) -> int:
        """Bytes of them that are kept until the backward pass."""
        if self.job.recompute == "full":
            return self.costs.activation // self._divided
        less = self.scores() if self.job.recompute == "selective" else 0
        if self.job.recompute == "ops":
            less = self.again(experts=experts)
        return self.layer(experts=experts) - less

    def again(self, *, experts: bool) -> int:
        """Bytes of what is computed again operation by operation, as :meth:`Costs.again` has it.

        The inputs of norms, keys, and what the second product of an MLP makes of its input, with the product
        of both; without a gate what the activation makes.
        """
        m, job, costs = self.model, self.job, self.costs
        each = job.bytes_each
        fed = job.fed_bytes
        found = m.hidden * (each + 2 * fed + (2 if job.dropout else 0)) // self._divided
        if not m.is_latent:
            found += cached_width(m, job.parallelism.tensor, self.part) // 2 * each
        if not experts:
            found += ceil(((each if m.gated else 0) + fed) * costs.share_of(m.ffn))
        return costs.tokens * found
