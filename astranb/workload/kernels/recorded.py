"""Kernels as PyTorch records them: products and attention by the shapes of operands, grids of launches.

Operators and their arguments are those of PyTorch (aten/src/ATen/native/native_functions.yaml); shapes and
types are as ``torch.profiler.ExecutionTraceObserver`` writes them, grids as Kineto does
(libkineto/src/CuptiActivity.cpp: ``grid``, ``block``, ``registers per thread``, ``shared memory``).
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from astranb.core.errors import InputError
from astranb.gpu import Preset
from astranb.gpu.tables import ROOM

from .kernel_grids import Grid
from .work import Attention, Product

__all__ = ["OPERATORS", "Launch", "ShapedKernel", "shaped_kernel"]

_MOST_TEXT: Final = 1 << 16
"""Characters of the shapes, types or values of one operator."""
_MOST_SIZE: Final = 1 << 40
"""No dimension is larger."""

_FACTORS: Final = {
    "mm": (0, 1), "_scaled_mm": (0, 1), "bmm": (0, 1), "matmul": (0, 1), "linear": (0, 1),
    "addmm": (1, 2), "_addmm_activation": (1, 2), "baddbmm": (1, 2),
}  # fmt: skip
"""Of products, which arguments are the two matrices; the other is added."""

_ATTENTION: Final = {
    "_flash_attention_forward": (0, 8, False), "_flash_attention_backward": (1, 11, False),
    "_efficient_attention_forward": (0, 9, False), "_scaled_dot_product_flash_attention": (0, 4, True),
    "_scaled_dot_product_cudnn_attention": (0, 6, True),
}  # fmt: skip
"""Of attention, where queries, keys and values begin, the argument that says whether a token attends only to
those before it, and whether heads come before tokens."""

OPERATORS: Final = frozenset(f"aten::{name}" for name in (*_FACTORS, *_ATTENTION))
"""Operators that compute a product or attention."""

_PRECISIONS: Final = {
    "c10::BFloat16": ("bf16", 2), "c10::Half": ("fp16", 2), "c10::Float8_e4m3fn": ("fp8", 1),
    "c10::Float8_e4m3fnuz": ("fp8", 1), "c10::Float8_e5m2": ("fp8", 1), "c10::Float8_e5m2fnuz": ("fp8", 1),
    "float": ("float32", 4), "double": ("float64", 8),
}  # fmt: skip
"""Types of tensors: the precision, and the bytes of a number."""

_THREADS_OF_AN_SM: Final = 2048
"""Of A100, H100 and B200 (CUDA C++ Programming Guide, compute capabilities 8.0, 9.0 and 10.0); 32 wavefronts
of 64 on a compute unit of MI300X (AMD CDNA 3 white paper)."""
_WAVES: Final = (4, 2, 1)
"""Parts of a kernel of many waves: enough that what needs SMs meanwhile does not wait for its end. A
nanosecond can be divided into each."""


@dataclass(frozen=True)
class ShapedKernel:
    """A kernel with the shapes and type of its operands.

    Attributes
    ----------
    kernel : Product or Attention
    precision : str
        ``bf16``, ``fp16``, ``fp8``; or ``float32`` and ``float64``, of which no rates are known.
    number_bytes : int
        Of a number of its operands.

    Examples
    --------
    >>> halves = "['Tensor(c10::Half)', 'Tensor(c10::Half)']"
    >>> found = shaped_kernel("aten::mm", "[[64, 32], [32, 16]]", halves)
    >>> found.kernel.m, found.kernel.n, found.kernel.k, found.precision, found.touched
    (64, 16, 32, 'fp16', 7168)
    """

    kernel: Product | Attention
    precision: str
    number_bytes: int

    @property
    def flops(self) -> int:
        """Floating-point operations."""
        return self.kernel.flops

    @property
    def touched(self) -> int:
        """Bytes of operands and results, each once."""
        one = self.kernel
        if isinstance(one, Attention):
            return self.number_bytes * one.numbers
        result_bytes = max(2, self.number_bytes)  # products of fp8 have results of two bytes
        return one.copies * (self.number_bytes * one.k * (one.m + one.n) + result_bytes * one.m * one.n)


@dataclass(frozen=True)
class Launch:
    """The launch of a kernel of which only the duration is known besides.

    Attributes
    ----------
    blocks : int
        Thread blocks.
    threads : int
        Of a block.
    registers : int
        Of a thread.
    shared_bytes : int
        Shared memory of a block.

    Examples
    --------
    >>> from astranb.gpu import preset
    >>> grid = Launch(20, 512, 110, 332).grid("dispatch", 5_000_000, preset("h100-sxm"))
    >>> grid.blocks, grid.step_ps, round(grid.held / ROOM, 2)
    (20, 5000000, 0.86)
    """

    blocks: int
    threads: int = 1
    registers: int = 0
    shared_bytes: int = 0

    def grid(self, name: str, duration_ps: int, preset: Preset) -> Grid:
        """Return the thread blocks that hold SMs for the duration: those of an SM are one.

        Where there are more than fit at a time, they come in up to four waves, which together take the
        duration.
        """
        own = max(
            self.threads / _THREADS_OF_AN_SM,
            4 * self.registers * self.threads / preset.register_bytes,
            self.shared_bytes / preset.shared_bytes,
        )
        held = max(1, min(ROOM, math.ceil(own * ROOM)))
        beside = min(ROOM // held, -(-self.blocks // preset.sms))
        waves = next(parts for parts in _WAVES if parts == 1 or self.blocks >= parts * beside * preset.sms)
        return Grid(
            name, rows=min(preset.sms, self.blocks), splits=waves, step_ps=duration_ps // waves,
            held=held * beside,
        )  # fmt: skip


def shaped_kernel(operator: str, shapes: str, types: str, values: str = "[]") -> ShapedKernel | None:
    """Return the product or attention that an operator computes; None where it computes neither.

    Parameters
    ----------
    operator : str
        As ``aten::mm``.
    shapes, types, values : str
        Of its arguments, each a list as text: ``[[64, 32], [32, 16]]``.

    Raises
    ------
    InputError
        It multiplies matrices, and those have no product.

    Examples
    --------
    >>> types = "['Tensor(c10::BFloat16)', 'Tensor(c10::BFloat16)', 'Tensor(c10::BFloat16)']"
    >>> linear = shaped_kernel("aten::linear", "[[8, 128, 512], [1024, 512], [1024]]", types).kernel
    >>> linear.m, linear.n, linear.k, linear.bias
    (1024, 1024, 512, True)
    >>> shaped_kernel("aten::add", "[[8], [8]]", types) is None
    True
    """
    if operator not in OPERATORS:
        return None
    name = operator.removeprefix("aten::")
    tensors = [_shape(one) for one in _listed(shapes)]
    at = _FACTORS[name][0] if name in _FACTORS else _ATTENTION[name][0]
    kinds = _listed(types)
    kind = kinds[at] if at < len(kinds) else None
    text = kind.removeprefix("Tensor(").removesuffix(")") if isinstance(kind, str) else ""
    precision = _PRECISIONS.get(text)
    if precision is None:
        return None
    kernel = _product(name, tensors) if name in _FACTORS else _attention(name, tensors, _listed(values))
    return None if kernel is None else ShapedKernel(kernel, *precision)


def _listed(text: str) -> list[Any]:
    """Read a list as Python writes it; an empty one where it is none."""
    if len(text) > _MOST_TEXT:
        return []
    for word, name in (("'", '"'), ("True", "true"), ("False", "false"), ("None", "null")):
        text = text.replace(word, name)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return []
    return found if isinstance(found, list) else []


def _shape(one: Any) -> tuple[int, ...]:
    """Return the sizes of a tensor; none of anything else."""
    if not isinstance(one, list) or not all(type(size) is int and 0 < size < _MOST_SIZE for size in one):
        return ()
    return tuple(one)


def _product(name: str, tensors: Sequence[tuple[int, ...]]) -> Product | None:
    first, second = _FACTORS[name]
    if second >= len(tensors) or min(len(tensors[first]), len(tensors[second])) < 2:
        return None
    one, other = tensors[first], tensors[second]
    right = other[::-1] if name == "linear" else other
    flat = len(right) == 2
    fits = one[-1] == right[-2] and (flat or one[:-2] == right[:-2])
    if not fits or (name not in ("matmul", "linear") and len(one) != len(right)):
        what = f"aten::{name} of {_words(one)} and {_words(other)} is not a product of matrices"
        raise InputError(what, hint=_CORRECT)
    copies = 1 if flat else math.prod(right[:-2])
    rows = math.prod(one[:-1]) if flat else one[-2]
    bias = first == 1 or (name == "linear" and len(tensors) > 2 and tensors[2] != ())
    return Product(rows, right[-1], one[-1], copies, weights=flat, cast=False, bias=bias)


_CORRECT: Final = "correct the shapes in the trace, or set roofline-enabled to 0"


def _attention(name: str, tensors: Sequence[tuple[int, ...]], values: Sequence[Any]) -> Attention | None:
    at, mask, heads_first = _ATTENTION[name]
    if any(len(one) != 4 for one in tensors[at : at + 3]) or len(tensors) < at + 3:
        return None  # sequences of several lengths in one tensor
    sizes = [
        (one[0], one[2], one[1], one[3]) if heads_first else one for one in tensors[at : at + 3]
    ]  # sequences, tokens, heads, numbers of a head
    (sequences, queries, heads, size), (others, keys, kept, other_size), value = sizes
    if (others, other_size) != (sequences, size) or value[:3] != (sequences, keys, kept) or heads % kept:
        what = f"aten::{name} of {', '.join(map(_words, tensors[at : at + 3]))} is not attention"
        raise InputError(what, hint=_CORRECT)
    causal = bool(values[mask]) if mask < len(values) else False
    return Attention(
        sequences, queries, keys, heads, kept, size, value[3], causal=causal,
        is_backward=name.endswith("_backward"),
    )  # fmt: skip


def _words(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))
