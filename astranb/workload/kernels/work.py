"""The kernels of a computation, by their shapes; each knows those of its backward pass."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, TypeAlias

__all__ = [
    "SORTS",
    "Attention",
    "HostUpdate",
    "Kernel",
    "Product",
    "Stream",
    "TimedKernel",
    "expert_kernels",
    "experts_used",
]

SORTS: Final = ("matrices", "attention", "element-wise", "optimizer", "host", "launches")
"""Sorts of time in a report: those of kernels, and the time that computations wait for their launches."""

_NUMBER_BYTES: Final = 2
_GRADIENT_BYTES: Final = 8
"""Per parameter, to add a microbatch's gradient to the sum in float32: one read, one write."""


@dataclass(frozen=True)
class Product:
    """Products of matrices, m by k times k by n.

    Parameters
    ----------
    m, n, k : int
    copies : int
        Equal products in one kernel, as of the experts of a layer (a grouped GEMM).
    weights : bool
        Whether the k by n matrix is parameters; their gradients are added to a sum in float32.
    plain : bool
        Whether the matrices are never in fp8 or fp4 (router, head, unfused attention).
    cast : bool
        Whether the first matrix is cast before, where the precision is fp8 or fp4.
    bias : bool
        Whether a vector is added to each row of the output: while it is written, without a kernel of its own;
        the vector's gradient is a sum over the output's, in a pass that reads it.
    launches : int
        Kernels. (Training libraries launch a product for each expert; those of inference one for all.)
    sums : bool
        Whether its output is the gradient of parameters, and none of its inputs is parameters.
    experts : bool
        Whether the parameters are those of experts.
    frozen : bool
        Whether the parameters are not trained, so that the backward pass has no gradient of them.

    Examples
    --------
    >>> Product(8192, 4096, 1024).flops
    68719476736
    """

    m: int
    n: int
    k: int
    copies: int = 1
    weights: bool = True
    plain: bool = False
    cast: bool = True
    bias: bool = False
    launches: int = 1
    sums: bool = False
    experts: bool = False
    frozen: bool = False

    @property
    def sort(self) -> str:
        """Sort of its time in a report."""
        return "matrices" if self.weights else "attention"

    @property
    def flops(self) -> int:
        """Floating-point operations."""
        return 2 * self.m * self.n * self.k * self.copies

    def backward(self) -> tuple[Kernel, ...]:
        """Two products of the backward pass: the gradients of the input and of the other matrix, if any."""
        return _backward(self)


@dataclass(frozen=True)
class Attention:
    """Attention in one kernel (FlashAttention), or of one new token of each sequence.

    Parameters
    ----------
    sequences : int
    queries, keys : int
        New tokens of each sequence, and the tokens that they attend to: all, or a window's.
    heads, kept_heads : int
        Heads of queries, and of keys and values.
    key_size, value_size : int
        Numbers of a head.
    causal : bool
        Whether a token attends only to those before it: half of the operations, where queries are keys.
    is_backward : bool
    kept_size : int
        Numbers of two bytes that a head keeps of a token; 0: those of a key and a value. (Latent vectors
        are both; in fp8 there are half as many.)
    version : int
        Of FlashAttention: 2 (one for all GPUs), 1 (in Triton, from before 2); 0: the best for this GPU;
        8: the same in fp8.

    Examples
    --------
    >>> Attention(1, 8192, 8192, 32, 8, 128, 128).flops
    549755813888
    """

    sequences: int
    queries: int
    keys: int
    heads: int
    kept_heads: int
    key_size: int
    value_size: int
    causal: bool = True
    is_backward: bool = False
    kept_size: int = 0
    version: int = 0

    sort = "attention"
    launches = 1

    @property
    def pairs(self) -> int:
        """Pairs of a query and a key that it attends to."""
        pairs = self.sequences * self.heads * self.queries * self.keys
        if self.causal and self.queries > 1:
            # Each query sees the keys before it: all of them but half of the queries' square; or, of a
            # window, the last ones: all but half of the window's square.
            pairs -= self.sequences * self.heads * min(self.queries, self.keys) ** 2 // 2
        return pairs

    @property
    def flops(self) -> int:
        """Floating-point operations; backward 2.5 times those of forward (Dao 2023, arXiv 2307.08691)."""
        forward = 2 * self.pairs * (self.key_size + self.value_size)
        return forward * 5 // 2 if self.is_backward else forward

    @property
    def kept_numbers(self) -> int:
        """Numbers of keys and values."""
        each = self.kept_size or self.key_size + self.value_size
        return self.sequences * max(self.keys, self.queries) * self.kept_heads * each

    @property
    def numbers(self) -> int:
        """Numbers read and written: keys and values, queries and the output."""
        own = self.sequences * self.queries * self.heads * (self.key_size + self.value_size)
        return (self.kept_numbers + own) * (2 if self.is_backward else 1)

    def backward(self) -> tuple[Kernel, ...]:
        """Return the kernel of the backward pass."""
        return (replace(self, is_backward=True),)


@dataclass(frozen=True)
class Stream:
    """A pass over memory: element-wise operations, norms, an update.

    Parameters
    ----------
    size : int
        Bytes read and written.
    launches : int
        Kernels.
    back : float
        Bytes of the backward pass relative to those.
    sort : str
        One of :data:`SORTS`.
    data : str
        What it moves (:data:`astranb.workload.models.MEMORY_PARTS`), where its sort does not say so.
    """

    size: int
    launches: int = 1
    back: float = 1.5
    sort: str = "element-wise"
    data: str = ""

    flops = 0

    def backward(self) -> tuple[Kernel, ...]:
        """Return the pass of the backward pass."""
        if not self.back:
            return ()
        return (replace(self, size=int(self.size * self.back)),)


@dataclass(frozen=True)
class HostUpdate:
    """An optimizer's step in the host's memory, which the GPU waits for.

    Parameters
    ----------
    sent : int
        Bytes of gradients to the host and of parameters back.
    size : int
        Bytes that the host's memory reads and writes.
    """

    sent: int
    size: int

    sort = "host"
    flops = 0
    launches = 0

    def backward(self) -> tuple[Kernel, ...]:
        """Return nothing: it has no backward pass."""
        return ()


@dataclass(frozen=True)
class TimedKernel:
    """A kernel of which the duration is known, as from a trace or a measurement, and not the shape.

    Parameters
    ----------
    duration_ns : int
        The same on every GPU.
    """

    duration_ns: int

    sort = "matrices"
    flops = 0
    launches = 0

    def backward(self) -> tuple[Kernel, ...]:
        """Return nothing: what was measured is all of it."""
        return ()


def experts_used(tokens: int, top: int, experts: int, parts: int = 1) -> int:
    """Return the experts of one of several parts that some token goes to, on average, rounded up.

    Each token leaves one out with ``1 - top / experts``.

    Examples
    --------
    >>> [experts_used(tokens, 2, 8) for tokens in (1, 2, 4, 64)]
    [2, 4, 6, 8]
    """
    left_out = (1 - top / experts) ** tokens
    return max(1, math.ceil(experts // parts * (1 - left_out) - 1e-9))


def expert_kernels(
    tokens: int,
    hidden: int,
    width: int,
    experts: int,
    *,
    gated: bool = True,
    number_bytes: int = 2,
    cast: bool = False,
    frozen: bool = False,
) -> tuple[Kernel, ...]:
    """Return the kernels of the experts of a rank.

    Tokens are permuted by expert, two grouped products with the activation between them follow, and
    tokens are permuted back. Tokens are spread evenly; where there are fewer than experts, only as many
    experts as tokens are read.

    Parameters
    ----------
    tokens : int
        Tokens that arrive, each counted once for each expert that it goes to.
    hidden, width : int
        Numbers of a token, and between an expert's matrices.
    experts : int
    gated : bool
        Whether the first product makes twice the width.
    number_bytes : int
        Bytes of a number between the kernels.
    cast : bool
        Whether inputs are cast to fp8 by kernels of their own, as in training, where a transposed copy is
        kept; otherwise the permutation and the activation write fp8. In training each expert has kernels of
        its own, one after another on the host (``GroupedLinear`` of Transformer Engine).
    frozen : bool
        Whether their parameters are not trained.

    Examples
    --------
    >>> [one.copies for one in expert_kernels(4, 1024, 512, 16) if isinstance(one, Product)]
    [4, 4]
    """
    used, matrices = max(1, min(experts, tokens)), 2 if gated else 1
    each = max(1, -(-tokens // used))
    moved, launches = Stream(2 * tokens * hidden * number_bytes), used if cast else 1
    return (
        moved,
        Product(
            each, matrices * width, hidden, used, cast=cast, launches=launches, experts=True, frozen=frozen
        ),
        Stream((matrices + 1) * tokens * width * number_bytes),
        Product(each, hidden, width, used, cast=cast, launches=launches, experts=True, frozen=frozen),
        moved,
    )


@lru_cache(1 << 12)
def _backward(one: Product) -> tuple[Product | Stream, ...]:
    """Return the products of a backward pass, and the addition to the sum of gradients.

    The gradient of the output is cast once, with its transpose, for both products.
    """
    inward = replace(one, n=one.k, k=one.n, bias=False)
    if one.frozen:
        return (inward,)
    other = replace(one, m=one.n, n=one.k, k=one.m, bias=False, sums=one.weights, cast=False)
    if not one.weights:
        return inward, other
    added = Stream(_GRADIENT_BYTES * one.n * one.k * one.copies, launches=0, sort="matrices")
    if one.bias:
        return inward, other, added, Stream(_NUMBER_BYTES * one.m * one.n * one.copies)
    return inward, other, added


Kernel: TypeAlias = Product | Attention | Stream | HostUpdate | TimedKernel
