"""The costs of a transformer's parts on one rank: floating-point operations and bytes.

A product of matrices of m by k and k by n takes 2 m k n operations; attention over s tokens 2 s for
each number of a query's head and of a value's, the mask not subtracted (Narayanan et al. 2021, arXiv
2104.04473, appendix). Backward passes take twice the operations, and bytes, of the forward pass.

Element-wise operations (norms, residuals, softmax, dropout) are each a pass over memory, as without
fusion. For each number a layer norm takes 8 operations (sum; subtract, square, sum; subtract, divide,
scale, shift) and an RMS norm 4 (square, sum; divide, scale), both with one read and one write; a
residual 1, with two reads and one write; the softmax of attention 5 (maximum, subtract, exponential,
sum, divide), with one read and one write; dropout 2 (mask, scale), with one read, one write and a mask
of one byte (as Korthikanti et al. 2022, arXiv 2205.05198, section 4, count it).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final

from .job import Job
from .program import Cost
from .transformer import Transformer

__all__ = ["Costs"]

_NORM_FLOPS: Final = {"layer": 8, "rms": 4}
_SOFTMAX_FLOPS: Final = 5
_DROPOUT_FLOPS: Final = 2


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
        """Tokens of a microbatch on one rank."""
        if self.job.mode == "decode":
            return self.job.micro
        return self.job.micro * self.job.sequence // self.job.parallelism.context

    @property
    def activation(self) -> int:
        """Bytes of a microbatch's activations between layers, for one rank's tokens."""
        return self.tokens * self.model.hidden * self.job.bytes_each

    @property
    def message(self) -> int:
        """Bytes of activations that are sent to the next stage."""
        degrees = self.job.parallelism
        return self.activation // (degrees.tensor if degrees.sequence else 1)

    @property
    def cache_block(self) -> int:
        """Bytes of keys and values of a microbatch's tokens, on one rank."""
        wide = self.model.cache_width * self.tokens * self.job.bytes_each
        return wide if self.model.is_latent else wide // self.job.parallelism.tensor

    def _product(self, parameters: int, wide: int) -> Cost:
        """Products with a number of parameters; ``wide`` is the numbers per token, in and out."""
        flops = 2 * self.tokens * parameters
        return Cost(flops, (parameters + self.tokens * wide) * self.job.bytes_each)

    def projections(self) -> Cost:
        """The projections of queries, keys, values and of attention's output."""
        m, t = self.model, self.job.parallelism.tensor
        block = m.attention
        wide = 2 * m.hidden + (m.heads * (m.key_size + m.value_size) + m.cache_width) // t
        return self._product(block.split // t + block.whole, wide)

    def attention(self, seen: int) -> Cost:
        """Attention of a microbatch's tokens to ``seen`` tokens of each sequence."""
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
        """The experts of the busiest rank.

        It computes the number of tokens that it sends to experts, times :attr:`load`.
        """
        m, degrees = self.model, self.job.parallelism
        numbers = (m.experts // degrees.expert) * m.expert // degrees.tensor
        wide = int(self.load * m.top_k * self.tokens * (2 * m.hidden + m.expert_ffn // degrees.tensor))
        flops = 2 * self.tokens * m.top_k * m.expert // degrees.tensor
        return Cost(int(self.load * flops), (numbers + wide) * self.job.bytes_each, useful=flops)

    @property
    def load(self) -> Fraction:
        """Tokens of the rank with the busiest expert, relative to an even distribution.

        Of ``E`` experts, ``e`` on each rank, one has ``f`` times the mean and the others share the
        rest evenly: ``(f + (e - 1) (E - f) / (E - 1)) / e``.
        """
        count, each = self.model.experts, self.model.experts // self.job.parallelism.expert
        busiest = Fraction(str(self.job.expert_imbalance))
        if busiest == 1 or each == count:
            return Fraction(1)
        return (busiest + (each - 1) * (count - busiest) / (count - 1)) / each

    @property
    def dispatched(self) -> int:
        """Bytes of a microbatch's tokens that are dispatched to the busiest rank's experts."""
        degrees = self.job.parallelism
        even = self.model.top_k * self.activation // (degrees.tensor if degrees.sequence else 1)
        return int(self.load * even)

    def embedding(self) -> Cost:
        """The look-up of words, and the addition of positions."""
        return Cost(self.tokens * self.model.hidden, 2 * self.activation, vector=True)

    @property
    def words(self) -> int:
        """Words of the head on one rank, padded to divide evenly."""
        return -(-self.model.vocab // self.job.parallelism.tensor)

    def head(self) -> Cost:
        """The head, from activations to words; for prefill and decoding, of the last token only."""
        m, job = self.model, self.job
        tokens = self.tokens if job.mode == "training" else job.micro
        numbers = self.words * m.hidden + tokens * (m.hidden + self.words)
        return Cost(2 * tokens * m.hidden * self.words, numbers * job.bytes_each)

    @property
    def _between(self) -> int:
        """Numbers between layers on one rank; sequence parallelism divides them."""
        degrees = self.job.parallelism
        return self.tokens * self.model.hidden // (degrees.tensor if degrees.sequence else 1)

    def _elementwise(self, numbers: int, flops: int, passes: int, *, dropout: bool = False) -> Cost:
        """Operations for each number, and passes over memory; with dropout if the job has it."""
        size, mask = passes * self.job.bytes_each, 0
        if dropout and self.job.dropout:
            flops, size, mask = flops + _DROPOUT_FLOPS, size + 2 * self.job.bytes_each, 1
        return Cost(flops * numbers, (size + mask) * numbers, vector=True)

    def norm(self) -> Cost:
        """The norm before attention, an MLP or the head."""
        return self._elementwise(self._between, _NORM_FLOPS[self.model.norm], 2)

    def residual(self) -> Cost:
        """The addition of the input to the output of attention or an MLP, and dropout of the output."""
        return self._elementwise(self._between, 1, 3, dropout=True)

    def softmax(self, seen: int) -> Cost:
        """The softmax of a rank's heads over ``seen`` tokens each, and its dropout."""
        numbers = self.tokens * seen * self.model.heads // self.job.parallelism.tensor
        return self._elementwise(numbers, _SOFTMAX_FLOPS, 2, dropout=True)
