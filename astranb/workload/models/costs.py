"""The costs of a transformer's parts on one rank: floating-point operations and bytes.

A product of matrices of m by k and k by n takes 2 m k n operations; attention over s tokens 2 s for
each number of a query's head and of a value's, the mask not subtracted (Narayanan et al. 2021, arXiv
2104.04473, appendix). Backward passes take twice the operations, and bytes, of the forward pass.

**Kernels** give the time: the products with their shapes, attention, and passes over memory that
libraries fuse. A layer has two norms (a read and a write of each number), two residual additions (two
reads, a write; dropout besides), rotary positions (queries and keys, read and written), and the
activation of the MLP (its inputs read, its output written); the vocabulary's loss passes over the logits
in bfloat16 and in float32. PyTorch without compilation has a pass for each operation in these
(:data:`_PASSES`). Operations and bytes beside them are the roofline's.

With ``elementwise``, norms, residuals, the softmax of attention and dropout are operations of their own,
each a pass over memory, as without fusion. For each number a layer norm takes 8 operations (sum;
subtract, square, sum; subtract, divide, scale, shift) and an RMS norm 4 (square, sum; divide, scale),
both with one read and one write; a residual 1, with two reads and one write; the softmax of attention 5
(maximum, subtract, exponential, sum, divide), with one read and one write; dropout 2 (mask, scale), with
one read, one write and a mask of one byte (Korthikanti et al. 2022, arXiv 2205.05198, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Final, NamedTuple

from astranb.chakra.scaling import share
from astranb.workload.kernels import Attention, Kernel, Product, Stream, expert_kernels, experts_used

from .job import Job
from .program import Cost
from .transformer import Transformer
from .weights import cached_width

__all__ = ["Costs"]

_NORM_FLOPS: Final = {"layer": 8, "rms": 4}
_SOFTMAX_FLOPS: Final = 5
_DROPOUT_FLOPS: Final = 2
_INFERENCE_BYTES: Final = 8
"""Per number, of a residual addition and a norm in one kernel: two read, two written."""


class _Pass(NamedTuple):
    """Bytes per number that an operation reads and writes, forward and backward, and its kernels."""

    forward: int
    backward: int
    launches: int = 1


_FUSED: Final = {
    "layer": _Pass(4, 6), "rms": _Pass(4, 6), "residual": _Pass(6, 9), "positions": _Pass(4, 6),
    "gated": _Pass(6, 9), "plain": _Pass(4, 6), "loss": _Pass(14, 7, 4),
}  # fmt: skip
_PASSES: Final = {
    "megatron": _FUSED,
    "pytorch": _FUSED | {
        "layer": _Pass(4, 10), "rms": _Pass(36, 76, 6), "residual": _Pass(6, 6),
        "positions": _Pass(20, 20, 3), "gated": _Pass(10, 18, 2), "loss": _Pass(18, 22, 4),
    },
}  # fmt: skip
"""By library. Numbers are of queries and keys for positions, of the output for activations, logits for
losses.

Megatron-LM's loss reads bfloat16 and writes float32 (6), reads it for the maximum (4), and writes
exponentials (4 of 8, the sums fused), as its vocabulary-parallel cross entropy does. PyTorch's kernels read
and write, of bfloat16 (2 bytes) and float32 (4), as torchtitan's Llama of 2024 calls them
(torchtitan/models/llama/model.py and norms.py of github.com/pytorch/torchtitan 0413364):

- RMS norm: cast (6), square (8), mean (4), product (8), cast (6), weights (4); backward the same for the
  weights (4, and 8 for their own gradient), cast (6), product (8, and 16 for the mean's), mean and square
  (16), addition of both (12), cast (6);
- positions: cast (6), complex product (8), cast (6);
- SwiGLU: SiLU (4) and product (6); backward two products (12) and SiLU's (6);
- residual: addition (6); backward two gradients are added (6);
- loss: cast (6), maximum and sum (4), difference (8); backward the loss's (4), the softmax's (12), cast (6).

A layer norm is one kernel; backward one for its input (6) and one for its parameters (4)."""


@dataclass(frozen=True)
class Costs:
    """The forward costs of one microbatch.

    Parameters
    ----------
    model : Transformer
    job : Job
    part : int
        The rank's number in its tensor group. Where this does not divide the model, the first rank has the
        most; one without a head computes no attention, and adds nothing to its sum.
    """

    model: Transformer
    job: Job
    part: int = 0

    def share_of(self, width: int) -> int:
        """The rank's share of a width that tensor parallelism divides."""
        return share(width, self.job.parallelism.tensor, self.part)

    @property
    def heads(self) -> int:
        """Heads of queries of the rank."""
        return self.model.heads // self.model.head_groups * self.share_of(self.model.head_groups)

    @property
    def kv_heads(self) -> int:
        """Its heads of keys and values."""
        return self.share_of(self.model.kv_heads)

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
        return self._cached * self.tokens * self.job.bytes_each

    @property
    def _cached(self) -> int:
        return cached_width(self.model, self.job.parallelism.tensor, self.part)

    def _products(self, *shapes: tuple[int, int], then: tuple[Kernel, ...] = (), plain: bool = False) -> Cost:
        """Products of a microbatch's tokens with parameters, of shapes (inputs, outputs)."""
        parameters = sum(into * out for into, out in shapes)
        wide = sum(into + out for into, out in shapes)
        size = (parameters + self.tokens * wide) * self.job.bytes_each
        cast, bias = self.job.mode == "training", self.model.biases and not plain
        frozen = self.job.lora > 0
        kernels = tuple(
            Product(self.tokens, out, into, plain=plain, cast=cast, bias=bias, frozen=frozen)
            for into, out in shapes
        )
        flops = 2 * self.tokens * parameters
        return Cost(flops, size, kernels=kernels + then, frozen=flops * frozen)

    def _adapter(self, into: int, out: int) -> Cost:
        """The adapter beside a frozen matrix: dropout, two products in bfloat16, and the addition of theirs.

        Dropout reads and writes its input, with a mask of a byte; the addition reads two and writes one.
        """
        rank, each = self.job.lora, self.job.bytes_each
        if not rank:
            return Cost(0, 0)
        kernels = (
            Stream((2 * each + 1) * self.tokens * into, back=1.0),
            Product(self.tokens, rank, into, plain=True),
            Product(self.tokens, out, rank, plain=True),
            Stream(3 * each * self.tokens * out, back=float(Fraction(into, out))),
        )
        numbers = (into + out) * rank
        size = (numbers + self.tokens * (into + out + 2 * rank)) * each
        return Cost(2 * self.tokens * numbers, size, kernels=kernels)

    def _passes(self, numbers: int, name: str) -> tuple[Kernel, ...]:
        """The library's passes over memory of one of :data:`_PASSES`."""
        one = _PASSES[self.job.framework][name]
        size = numbers * one.forward * self.job.bytes_each // 2
        return (Stream(size, one.launches, one.backward / one.forward),)

    def _fused(self, numbers: int, name: str) -> tuple[Kernel, ...]:
        """The same, unless they are operations of their own."""
        return () if self.job.elementwise else self._passes(numbers, name)

    def around(self) -> Cost:
        """The residual addition and the norm between two halves of layers, fused.

        Libraries of inference do both in one kernel, which reads two numbers and writes two, and casts to
        fp8, with scales that are known before (vLLM's fused_add_rms_norm, TensorRT-LLM's rmsnorm plugin).
        """
        each = max(1, self.model.norms // 2)  # norms of a half; those of outputs are a pass of their own
        if self.job.mode != "training":
            size = self._between * _INFERENCE_BYTES * (each + 1) * self.job.bytes_each // 4
            return Cost(0, 0, kernels=() if self.job.elementwise else (Stream(size),))
        mask = self._between if self.job.dropout and not self.job.elementwise else 0
        extra = (Stream(mask),) if mask else ()
        kernels = each * self._fused(self._between, self.model.norm) + self._fused(self._between, "residual")
        return Cost(0, 0, kernels=kernels + extra)

    def queries(self) -> Cost:
        """The projections of queries, keys and values, and the rotation of positions."""
        m, heads = self.model, self.heads
        if m.is_latent:
            latent = [(m.hidden, m.q_rank), (m.hidden, m.kv_rank + m.rope_size)]
            if self.job.mode != "training" or not m.q_rank:
                # One product makes both latent vectors (SGLang's and TensorRT-LLM's fused_qkv_a_proj).
                latent = [(m.hidden, m.q_rank + m.kv_rank + m.rope_size)]
            return self._products(
                *latent, (m.q_rank or m.hidden, heads * m.key_size),
                (m.kv_rank, heads * (m.head_size + m.v_size)),
                then=self._fused(self.tokens * heads * m.key_size, "positions"),
            ).plus(self._adapter(m.hidden, heads * m.key_size + self._cached))  # fmt: skip
        if not heads:
            return Cost(0, 0)
        wide = heads * m.key_size + self._cached
        turned = self.tokens * (heads + self.kv_heads) * m.key_size
        then = () if m.positions else self._fused(turned, "positions")
        if m.qk_norm and self.job.mode != "training":
            then = (*self._fused(turned, "rms"), *then)
        return self._products((m.hidden, wide), then=then).plus(self._adapter(m.hidden, wide))

    def output(self) -> Cost:
        """The projection of attention's output."""
        m = self.model
        if not self.heads:
            return Cost(0, 0)
        into = self.heads * m.value_size
        return self._products((into, m.hidden)).plus(self._adapter(into, m.hidden))

    def attention(self, seen: int, *, causal: bool = True) -> Cost:
        """Attention of a microbatch's tokens to ``seen`` tokens of each sequence, or each to as many."""
        m, heads = self.model, self.heads
        if not heads:
            return Cost(0, 0)
        flops = 2 * self.tokens * seen * heads * (m.key_size + m.value_size)
        size = self.tokens * heads * (m.key_size + m.value_size) * self.job.bytes_each
        size += max(self.job.micro * seen, self.tokens) * self._cached * self.job.cache_bytes
        return Cost(flops, size, kernels=self._attention(seen, heads, causal=causal))

    def _attention(self, seen: int, heads: int, *, causal: bool) -> tuple[Kernel, ...]:
        """The kernels of attention."""
        m, sequences = self.model, self.job.micro
        each, version = self.tokens // sequences, 2 if self.job.framework == "pytorch" else 0
        version = {"flash1": 1, "fp8": 8}.get(self.job.attention, version)
        halves = 2 // self.job.cache_bytes if self.job.mode != "training" else 1
        if (self.job.attention != "unfused" and not self.job.elementwise) or each == 1:
            if not m.is_latent:
                kept = self.kv_heads
                wide = 0 if halves == 1 else (m.key_size + m.value_size) // halves
                return (
                    Attention(
                        sequences, each, seen, heads, kept, m.key_size, m.value_size, kept_size=wide,
                        version=version, causal=causal,
                    ),
                )  # fmt: skip
            if each > 1:
                sizes = heads, heads, m.key_size, m.value_size
                return (Attention(sequences, each, seen, *sizes, version=version, causal=causal),)
            # Latent vectors are read once for all heads, as keys and as values.
            wide = m.kv_rank + m.rope_size
            return (Attention(sequences, 1, seen, heads, 1, wide, m.kv_rank, kept_size=wide // halves),)
        copies, scores = sequences * heads, sequences * heads * each * seen
        passes = _passes_of_softmax(dropout=self.job.dropout)
        softmax = () if self.job.elementwise else (Stream(int(scores * passes * self.job.bytes_each)),)
        return (
            Product(each, seen, m.key_size, copies, weights=False, plain=True),
            *softmax,
            Product(each, m.value_size, seen, copies, weights=False, plain=True),
        )

    def mlp(self) -> tuple[Cost, Cost]:
        """A dense MLP: what opens it, with the activation, and what closes it."""
        return self._mlp(self.model.ffn)

    def _mlp(self, width: int) -> tuple[Cost, Cost]:
        m, part = self.model, self.share_of(width)
        matrices = 2 if m.gated else 1
        shape = (m.hidden, matrices * part)
        opening = self._products(
            shape, then=self._passes(self.tokens * part, "gated" if m.gated else "plain")
        )
        return opening, self._products((part, m.hidden))

    def again(self, *, experts: bool) -> Cost:
        """Operations of a layer that are computed again where others are kept: ``--recompute=ops``.

        Passes between products, and every second product: of those of queries, keys, values, attention's
        output, the gate, the MLP's inside and its output these are keys, output and inside; without a gate
        the MLP's output (github.com/pytorch/torchtitan, ``selective_ac_option = "op"``: attention and every
        other matrix product are saved). Experts are kept.
        """
        m = self.model
        found = self.around().plus(self.around()).plus(self.output())
        if self.heads and not m.is_latent:
            turned = self.tokens * (self.heads + self.kv_heads) * m.key_size
            then = () if m.positions else self._fused(turned, "positions")
            found = found.plus(self._products((m.hidden, self._cached // 2), then=then))
        if not experts:
            part = self.share_of(m.ffn)
            second = (m.hidden, part) if m.gated else (part, m.hidden)
            then = self._passes(self.tokens * part, "gated" if m.gated else "plain")
            found = found.plus(self._products(second, then=then))
        return found

    def around_experts(self) -> Cost:
        """The router and the experts that every token goes to."""
        m = self.model
        router = self._products((m.hidden, m.experts), plain=True)
        if not m.shared_experts:
            return router
        opening, closing = self._mlp(m.shared_experts * m.expert_ffn)
        return router.plus(opening).plus(closing)

    def experts(self) -> Cost:
        """The experts of the busiest rank.

        It computes the number of tokens that it sends to experts, times :attr:`load`.
        """
        m = self.model
        count, part = self.used_experts, self.share_of(m.expert_ffn)
        each = m.expert // m.expert_ffn * part
        numbers = count * each
        tokens = int(self.load * m.top_k * self.tokens)
        wide = tokens * (2 * m.hidden + part)
        flops = 2 * self.tokens * m.top_k * each
        kernels = expert_kernels(
            tokens, m.hidden, part, count, gated=m.gated, number_bytes=self.job.bytes_each,
            cast=self.job.mode == "training", frozen=self.job.lora > 0,
        )  # fmt: skip
        size = (numbers + wide) * self.job.bytes_each
        frozen = flops if self.job.lora else 0
        return Cost(int(self.load * flops), size, useful=flops, kernels=kernels, frozen=frozen)

    @property
    def used_experts(self) -> int:
        """Experts of a rank that some token of those that share them goes to: all but with few tokens."""
        m, parts = self.model, self.job.parallelism.expert
        return experts_used(self.tokens * parts, m.top_k, m.experts, parts)

    @property
    def load(self) -> Fraction:
        """Tokens of the rank with the busiest expert, relative to an even distribution.

        Of ``E`` experts, ``e`` on each rank, one has ``f`` times the mean and the others share the
        rest evenly: ``(f + (e - 1) (E - f) / (E - 1)) / e``. With a capacity all have as many.
        """
        if self.job.expert_capacity:
            return Fraction(str(self.job.expert_capacity))
        count, each = self.model.experts, self.model.experts // self.job.parallelism.expert
        busiest = Fraction(str(self.job.expert_imbalance))
        if busiest == 1 or each == count:
            return Fraction(1)
        return (busiest + (each - 1) * (count - busiest) / (count - 1)) / each

    @property
    def dispatched(self) -> int:
        """Bytes of a microbatch's tokens that are dispatched to the busiest rank's experts."""
        degrees = self.job.parallelism
        size = self.activation // (degrees.tensor if degrees.sequence else 1)
        return int(self.load * self.copies * size)

    @property
    def copies(self) -> Fraction:
        """Mean number of copies of a token: one to each of its experts, or to each place that has some.

        Places are the nodes of the group, or its ranks where it has one node. Of ``n`` places one has none of
        ``k`` experts with probability ``(1 - 1 / n) ** k``.
        """
        degrees, top_k = self.job.parallelism, self.model.top_k
        if not self.job.dispatch_node:
            return Fraction(top_k)
        nodes = -(-degrees.expert * degrees.tensor * degrees.context // self.job.dispatch_node)
        places = min(nodes, degrees.expert) if nodes > 1 else degrees.expert
        return places * (1 - (1 - Fraction(1, places)) ** top_k)

    def embedding(self) -> Cost:
        """The look-up of words, and the addition of positions."""
        kernels = (Stream(2 * self.activation),)
        return Cost(self.tokens * self.model.hidden, 2 * self.activation, vector=True, kernels=kernels)

    @property
    def words(self) -> int:
        """Words of the head on one rank, padded to divide evenly."""
        return -(-self.model.vocab // self.job.parallelism.tensor)

    def head(self) -> Cost:
        """The head, from activations to words; for prefill and decoding, of the last token only."""
        m, job = self.model, self.job
        tokens = self.tokens if job.mode == "training" else job.micro
        numbers = self.words * m.hidden + tokens * (m.hidden + self.words)
        frozen = job.lora > 0
        kernels: tuple[Kernel, ...] = (Product(tokens, self.words, m.hidden, plain=True, frozen=frozen),)
        if job.mode == "training":
            kernels += self._passes(tokens * self.words, "loss")
        flops = 2 * tokens * m.hidden * self.words
        return Cost(flops, numbers * job.bytes_each, kernels=kernels, frozen=flops * frozen)

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
        touched = (size + mask) * numbers
        return Cost(flops * numbers, touched, vector=True, kernels=(Stream(touched, back=2.0),))

    def norm(self) -> Cost:
        """The norm before attention, an MLP or the head."""
        return self._elementwise(self._between, _NORM_FLOPS[self.model.norm], 2)

    def residual(self) -> Cost:
        """The addition of the input to the output of attention or an MLP, and dropout of the output."""
        return self._elementwise(self._between, 1, 3, dropout=True)

    def softmax(self, seen: int) -> Cost:
        """The softmax of a rank's heads over ``seen`` tokens each, and its dropout."""
        numbers = self.tokens * seen * self.heads
        return self._elementwise(numbers, _SOFTMAX_FLOPS, 2, dropout=True)


def _passes_of_softmax(*, dropout: bool) -> float:
    """Passes over the scores: read and written; with dropout again, and a mask of a byte."""
    return 4.5 if dropout else 2.0
