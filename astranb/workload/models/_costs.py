"""What the parts of a transformer take on one rank: operations of matrices, and bytes touched.

A product of matrices of m by k and k by n takes 2 m k n operations; attention over s tokens 2 s for
each number of a query's head and of a value's, the mask not taken off (Narayanan et al. 2021, arXiv
2104.04473, appendix). Backward passes take twice the operations, and bytes, of the forward pass.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ._job import Job
from ._program import Cost
from ._transformer import Transformer

__all__ = ["Costs"]


@dataclass(frozen=True)
class Costs:
    """The forward costs of one microbatch.

    Parameters
    ----------
    model : Transformer
    job : Job
    """

    model: Transformer
    job: Job

    @property
    def tokens(self) -> int:
        """Tokens of a microbatch that a rank computes."""
        if self.job.mode == "decode":
            return self.job.micro
        return self.job.micro * self.job.sequence // self.job.parallelism.context

    @property
    def activation(self) -> int:
        """Bytes of a microbatch's activations between layers, of one rank's tokens."""
        return self.tokens * self.model.hidden * self.job.bytes_each

    @property
    def message(self) -> int:
        """Bytes of it that go to the next stage."""
        ways = self.job.parallelism
        return self.activation // (ways.tensor if ways.sequence else 1)

    @property
    def cache_block(self) -> int:
        """Bytes of keys and values of a microbatch's tokens, of one rank."""
        wide = self.model.cache_width * self.tokens * self.job.bytes_each
        return wide if self.model.is_latent else wide // self.job.parallelism.tensor

    def _product(self, parameters: int, wide: int) -> Cost:
        """Products with so many parameters, of activations with so many numbers a token, in and out."""
        flops = 2 * self.tokens * parameters
        return Cost(flops, (parameters + self.tokens * wide) * self.job.bytes_each)

    def projections(self) -> Cost:
        """Queries, keys, values, and what comes out of attention."""
        m, t = self.model, self.job.parallelism.tensor
        block = m.attention
        wide = 2 * m.hidden + (m.heads * (m.key_size + m.value_size) + m.cache_width) // t
        return self._product(block.split // t + block.whole, wide)

    def attention(self, seen: int) -> Cost:
        """Attention of a microbatch's tokens to so many of each sequence."""
        m, t = self.model, self.job.parallelism.tensor
        heads = m.heads // t
        flops = 2 * self.tokens * seen * heads * (m.key_size + m.value_size)
        kept = m.cache_width // (1 if m.is_latent else t)
        numbers = self.tokens * heads * (m.key_size + m.value_size) + self.job.micro * seen * kept
        return Cost(flops, numbers * self.job.bytes_each)

    def mlp(self) -> Cost:
        """A dense MLP."""
        m, t = self.model, self.job.parallelism.tensor
        matrices = 3 if m.gated else 2
        return self._product(m.mlp.split // t, 2 * m.hidden + matrices * m.ffn // t)

    def around_experts(self) -> Cost:
        """The router and the experts that every token goes to."""
        m, t = self.model, self.job.parallelism.tensor
        block = m.around_experts
        return self._product(block.split // t + block.whole, 2 * m.hidden + m.experts)

    def experts(self) -> Cost:
        """The experts of the rank that has most to do; where all are used alike, of any.

        It has as many tokens as went to experts from it, times :attr:`load`.
        """
        m, ways = self.model, self.job.parallelism
        numbers = (m.experts // ways.expert) * m.expert // ways.tensor
        wide = int(self.load * m.top_k * self.tokens * (2 * m.hidden + m.expert_ffn // ways.tensor))
        flops = 2 * self.tokens * m.top_k * m.expert // ways.tensor
        return Cost(int(self.load * flops), (numbers + wide) * self.job.bytes_each, useful=flops)

    @property
    def load(self) -> Fraction:
        """Tokens of the rank with the busiest expert, of what they would be were all used alike.

        Of ``E`` experts, ``e`` on each rank, one has ``f`` times the mean and the others share the
        rest alike: ``(f + (e - 1) (E - f) / (E - 1)) / e``.
        """
        count, each = self.model.experts, self.model.experts // self.job.parallelism.expert
        busiest = Fraction(str(self.job.expert_imbalance))
        if busiest == 1 or each == count:
            return Fraction(1)
        return (busiest + (each - 1) * (count - busiest) / (count - 1)) / each

    @property
    def dispatched(self) -> int:
        """Bytes of a microbatch's tokens on their way to experts, of the rank to which most go."""
        ways = self.job.parallelism
        alike = self.model.top_k * self.activation // (ways.tensor if ways.sequence else 1)
        return int(self.load * alike)

    def embedding(self) -> Cost:
        """Words looked up, and positions added."""
        return Cost(self.tokens * self.model.hidden, 2 * self.activation, vector=True)

    @property
    def words(self) -> int:
        """Words whose part of the head a rank has: padded to be divided."""
        return -(-self.model.vocab // self.job.parallelism.tensor)

    def head(self) -> Cost:
        """The head: activations to words; of a prefill and of decoding, the last token's only."""
        m, job = self.model, self.job
        tokens = self.tokens if job.mode == "training" else job.micro
        numbers = self.words * m.hidden + tokens * (m.hidden + self.words)
        return Cost(2 * tokens * m.hidden * self.words, numbers * job.bytes_each)
