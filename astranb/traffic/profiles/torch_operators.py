"""Operators of PyTorch with their operations, bytes and kernel, on one rank of a tensor group.

A model runs whole, as on one device, and each tensor is followed: with tensor parallelism it is the same on
all ranks, divided between them, or on each rank a part of a sum. What an operator costs a rank follows from
that, as does where ranks have to sum.

This module imports no PyTorch: what it needs of it is given to it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import prod
from time import perf_counter_ns
from typing import Any, Final, NamedTuple

from astranb.chakra.scaling import take_divisor
from astranb.core.errors import InputError
from astranb.workload.kernels import Attention, Kernel, Product, Stream, TimedKernel
from astranb.workload.models import Cost

from .units import UnitSegment

__all__ = ["Operator", "OperatorRecorder", "RecordedPass", "segments_of", "storage_of"]

_PRODUCTS: Final = {"mm": (0, 1), "addmm": (1, 2), "bmm": (0, 1), "baddbmm": (1, 2)}
"""Operators that multiply matrices, and the places of the two among their arguments."""
_ATTENTION: Final = "_scaled_dot_product_"
_ADDS: Final = ("add", "add_")
_LOSSES: Final = ("nll_loss_forward", "nll_loss2d_forward")
_LOSS_BYTES: Final = 12
"""Of a token, that ranks with parts of the words sum: the maximum, the sum of exponentials and the wanted
logit, in float32 (Megatron-LM's vocab_parallel_cross_entropy)."""
_FREE: Final = ("empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "_unsafe_view")
_PART, _SUM = "part", "sum"


class Operator(NamedTuple):
    """One operator as one rank does it.

    Attributes
    ----------
    name : str
    flops, touched : int
    kernel : Kernel, optional
    took_ns : int
        Measured; 0: not.
    """

    name: str
    flops: int
    touched: int
    kernel: Kernel | None
    took_ns: int = 0


@dataclass
class RecordedPass:
    """Operators of a part of a pass, and where ranks sum: bytes at positions among the operators."""

    operators: list[Operator] = field(default_factory=list)
    sums: list[tuple[int, int]] = field(default_factory=list)
    kept: dict[int, int] = field(default_factory=dict)
    used: set[int] = field(default_factory=set)

    def plus(self, other: RecordedPass) -> RecordedPass:
        """One after the other."""
        sums = [(len(self.operators) + at, size) for at, size in other.sums]
        return RecordedPass(
            self.operators + other.operators, self.sums + sums, self.kept | other.kept, self.used | other.used
        )

    def rows(self, unit: str, name: str) -> Iterator[dict[str, Any]]:
        """Yield a row for each kind of operator."""
        found: dict[str, Counter[str]] = {}
        for one in self.operators:
            found.setdefault(one.name, Counter()).update(count=1, flops=one.flops, bytes=one.touched)
        for operator, counted in found.items():
            yield {"unit": unit, "pass": name, "operator": operator, **counted}


def segments_of(recorded: RecordedPass, factor: float | None = None) -> tuple[UnitSegment, ...]:
    """Return the computations between sums.

    Parameters
    ----------
    recorded : RecordedPass
    factor : float, optional
        By which measured times are divided; default: kernels with shapes.
    """
    found: list[UnitSegment] = []
    first = 0
    for end, summed in [*recorded.sums, (len(recorded.operators), 0)]:
        some = recorded.operators[first:end]
        first = end
        if not some and found and summed and not found[-1].summed:
            found[-1] = found[-1]._replace(summed=summed)
        elif some or summed:
            found.append(UnitSegment(_cost(some, factor), summed))
    return tuple(found)


def _cost(operators: Sequence[Operator], factor: float | None) -> Cost:
    flops = sum(one.flops for one in operators)
    touched = sum(one.touched for one in operators)
    if factor is not None:
        took = round(sum(one.took_ns for one in operators) / factor)
        return Cost(flops, touched, kernels=(TimedKernel(max(1, took)),))
    kernels = tuple(one.kernel for one in operators if one.kernel is not None)
    return Cost(flops, touched, kernels=kernels)


def storage_of(tensor: Any) -> int:
    """Return the identity of a tensor's memory: views share it."""
    return int(tensor.untyped_storage()._cdata)  # noqa: SLF001 - the only identity that fake tensors have


def _size(tensor: Any) -> int:
    """Return the bytes of a tensor; of an expanded one those in memory."""
    whole = tensor.numel() * tensor.element_size()
    return min(whole, int(tensor.untyped_storage().nbytes())) if tensor.numel() else 0


class OperatorRecorder:
    """Records operators, and follows what each rank of a tensor group has of every tensor.

    Parameters
    ----------
    torch : module
        PyTorch.
    parts : int
        Ranks of the group.
    split : mapping of int to (str, int)
        Parameters that are divided, by their memory: name, and the dimension that is divided.
    measure : bool
        Whether to measure how long operators take here.
    """

    def __init__(
        self, torch: Any, parts: int = 1, split: Mapping[int, tuple[str, int]] | None = None, *,
        measure: bool = False,
    ) -> None:  # fmt: skip
        from torch.utils import flop_counter

        self.torch, self.parts, self.split, self.measure = torch, parts, dict(split or {}), measure
        self.into: RecordedPass | None = None
        self._leaves = torch.utils._pytree.tree_leaves  # noqa: SLF001 - PyTorch gives no public one
        self._counts = flop_counter
        self._state: dict[int, str] = {}
        self._alive: list[Any] = []
        self._shapes: set[tuple[int, ...]] = set()

    @contextmanager
    def recording(self, into: RecordedPass | None) -> Iterator[None]:
        """Record into something else for a while; None: nothing."""
        before, self.into = self.into, into
        try:
            yield
        finally:
            self.into = before

    @contextmanager
    def active(self) -> Iterator[None]:
        """See every operator that PyTorch runs meanwhile, and every tensor that a backward pass needs."""
        from torch.autograd.graph import saved_tensors_hooks
        from torch.utils._python_dispatch import TorchDispatchMode

        recorder = self

        class Mode(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, _types: Any, args: Any = (), kwargs: Any = None) -> Any:
                return recorder.run(func, args, kwargs or {})

        with Mode(), saved_tensors_hooks(self._keep, lambda tensor: tensor):
            yield

    def _keep(self, tensor: Any) -> Any:
        if self.into is not None:
            self._hold(tensor)
            key = storage_of(tensor)
            size = int(tensor.untyped_storage().nbytes())
            self.into.kept[key] = size // (self.parts if self.is_part(tensor) else 1)
        return tensor

    def run(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        """Run an operator, and record it."""
        begun = perf_counter_ns()
        out = func(*args, **kwargs)
        took = perf_counter_ns() - begun if self.measure else 0
        if self.into is not None and func.namespace != "prim":
            self._record(func, args, kwargs, out, took)
        return out

    # What a rank has of a tensor

    def _hold(self, tensor: Any) -> None:
        """Keep a tensor's memory, so that no other one has its identity."""
        self._alive.append(tensor.untyped_storage())

    def is_part(self, tensor: Any) -> bool:
        """Return whether each rank has a part of a tensor."""
        key = storage_of(tensor)
        return key in self.split or self._state.get(key) == _PART

    def _is_sum(self, tensor: Any) -> bool:
        return self._state.get(storage_of(tensor)) == _SUM

    def finish(self, tensors: Sequence[Any], into: RecordedPass) -> None:
        """Sum what is still a part of a sum on each rank: it goes to others."""
        for one in tensors:
            if self._is_sum(one):
                into.sums.append((len(into.operators), _size(one)))
                del self._state[storage_of(one)]

    def like(self, tensor: Any, other: Any) -> None:
        """Divide a tensor among ranks like another, such as a gradient."""
        if self.is_part(other):
            self._hold(tensor)
            self._state[storage_of(tensor)] = _PART

    # Recording

    def _tensors(self, value: Any) -> list[Any]:
        return [one for one in self._leaves(value) if isinstance(one, self.torch.Tensor)]

    def _record(self, func: Any, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any, took: int) -> None:
        into = self.into
        assert into is not None  # noqa: S101 - as run() checks
        name = func._schema.name.removeprefix("aten::")  # noqa: SLF001 - PyTorch gives no public one
        given, made = self._tensors((args, dict(kwargs))), self._tensors(out)
        into.used.update(map(storage_of, given))
        if _is_view(func) or name in _FREE:
            return
        for one in (*given, *made):
            self._hold(one)
        state = None
        product = _PRODUCTS.get(name)
        if self.parts > 1:
            state = self._followed(name, args, given, made, product)
        is_part = any(map(self.is_part, given)) or state == _PART
        for one in made:
            key = storage_of(one)
            if state is None:
                self._state.pop(key, None)
            else:
                self._state[key] = state
        parts = self.parts if is_part else 1
        flops = self._flops(func, name, args, kwargs, out) // parts
        touched = sum(
            _size(one) // (self.parts if self.is_part(one) else 1)
            for one in {storage_of(one): one for one in (*given, *made)}.values()
        )
        kernel = self._kernel(name, args, kwargs, out, touched, product, is_part=is_part)
        into.operators.append(Operator(name, flops, touched, kernel, took // parts))
        if name in _LOSSES and self.is_part(args[0]):
            rows = args[0].numel() // args[0].shape[1]
            into.sums.append((len(into.operators), rows * _LOSS_BYTES))
            for one in made:
                self._state.pop(storage_of(one), None)

    def _followed(
        self, name: str, args: Sequence[Any], given: Sequence[Any], made: Sequence[Any],
        product: tuple[int, int] | None,
    ) -> str | None:  # fmt: skip
        """Return what each rank has of the result; sums that it needs whole are done before."""
        sums = [one for one in given if self._is_sum(one)]
        if sums and name in _ADDS and len(sums) == len(given):
            return _SUM
        if sums and self.into is not None:
            self.finish(sums, self.into)
        if product is not None:
            first, second = args[product[0]], args[product[1]]
            found = self._of_weight(first, 1, second) or self._of_weight(second, 0, first)
            if found is not None:
                return found
        if name == "embedding" and storage_of(args[0]) in self.split:
            return _PART if self.split[storage_of(args[0])][1] else _SUM
        if name == "embedding_dense_backward" and any(tuple(one.shape) in self._shapes for one in made):
            return _PART
        if name.startswith(_ATTENTION) and any(map(self.is_part, given)):
            self._require_heads(given[0] if "backward" not in name else given[1])
        return _PART if any(map(self.is_part, given)) else None

    def divide(self, tensor: Any, name: str, dim: int) -> None:
        """Divide a parameter between the ranks.

        Raises
        ------
        InputError
            It cannot be divided evenly.
        """
        size = int(tensor.shape[dim])
        if size % self.parts:
            what = f"tensor parallelism {self.parts} does not divide {size} of {name} {list(tensor.shape)}"
            raise InputError(what, where="tensor", hint=f"{take_divisor(size)}, or pad it")
        self._hold(tensor)
        self.split[storage_of(tensor)] = name, dim
        self._shapes.add(tuple(tensor.shape))

    def _of_weight(self, matrix: Any, contracted: int, other: Any) -> str | None:
        """Return what ranks have of a product with a divided parameter; None: the matrix is none."""
        dim = self._split_dim(matrix)
        if dim is None:
            return None
        name, _ = self.split[storage_of(matrix)]
        has_part = self.is_part(other)
        if dim == contracted:
            if not has_part:
                what = f"{name} is divided by rows, and what it multiplies is whole"
                raise InputError(what, where="plan", hint="divide what comes before by columns (colwise)")
            return _SUM
        if has_part:
            what = f"{name} is divided by columns, and what it multiplies is divided already"
            raise InputError(what, where="plan", hint="divide it by rows (rowwise)")
        return _PART

    def _split_dim(self, matrix: Any) -> int | None:
        """Return the divided dimension of a matrix, if it is a divided parameter or its transpose."""
        known = self.split.get(storage_of(matrix))
        if known is None or matrix.dim() != 2:
            return None
        is_turned = matrix.stride(0) < matrix.stride(1)
        return 1 - known[1] if is_turned else known[1]

    def _require_heads(self, queries: Any) -> None:
        heads = int(queries.shape[1])
        if heads % self.parts:
            what = f"tensor parallelism {self.parts} does not divide {heads} heads"
            raise InputError(what, where="tensor", hint=take_divisor(heads))

    def _flops(self, func: Any, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any) -> int:
        """Count operations as PyTorch's own counter does."""
        count: Callable[..., int] | None = self._counts.flop_registry.get(func._overloadpacket)  # noqa: SLF001
        if count is not None:
            return int(count(*args, **kwargs, out_val=out))
        if name.startswith(_ATTENTION):
            shapes = [one.shape for one in args if isinstance(one, self.torch.Tensor)]
            if "backward" in name:
                return int(self._counts.sdpa_backward_flop_count(*shapes[:4]))
            return int(self._counts.sdpa_flop_count(*shapes[:3]))
        return 0

    def _kernel(
        self, name: str, args: Sequence[Any], kwargs: Mapping[str, Any], out: Any, touched: int,
        product: tuple[int, int] | None, *, is_part: bool,
    ) -> Kernel | None:  # fmt: skip
        """Return the kernel of an operator, on one rank."""
        parts = self.parts if is_part else 1
        if product is not None:
            return self._product(args[product[0]], args[product[1]])
        if name.startswith(_ATTENTION):
            back = "backward" in name
            q, k, v = (args[at + back].shape for at in range(3))
            causal = bool(kwargs.get("is_causal", any(one is True for one in args)))
            return Attention(
                q[0], q[2], k[2], max(1, q[1] // parts), max(1, k[1] // parts), q[3], v[3], causal, back
            )
        if name in ("convolution", "convolution_overrideable", "_slow_conv2d_forward"):
            weight, groups = args[1].shape, _groups(args)
            return Product(out.shape[0] * prod(out.shape[2:]), weight[0] // groups, prod(weight[1:]), groups)
        if name == "convolution_backward":
            gradient, weight, groups = args[0].shape, args[2].shape, int(args[9])
            shape = gradient[0] * prod(gradient[2:]), weight[0] // groups, prod(weight[1:])
            gradients = sum(map(bool, args[10][:2]))
            return Product(*shape, groups * gradients, launches=gradients)
        return Stream(touched, back=0.0) if touched else None

    def _product(self, first: Any, second: Any) -> Product:
        m, k, n = int(first.shape[-2]), int(first.shape[-1]), int(second.shape[-1])
        copies = int(first.shape[0]) if first.dim() > 2 else 1
        has_first, has_second = self.is_part(first), self.is_part(second)
        parts, dims = self.parts, (self._split_dim(first), self._split_dim(second))
        if copies > 1 and (has_first or has_second):
            copies //= parts
        elif dims[1] == 0 or dims[0] == 1 or (has_first and has_second):
            k //= parts
        elif has_first:
            m //= parts
        elif has_second:
            n //= parts
        return Product(m, n, k, max(1, copies), weights=first.dim() == 2)


def _groups(args: Sequence[Any]) -> int:
    return int(args[8]) if len(args) > 8 else 1


def _is_view(func: Any) -> bool:
    """Return whether an operator only gives another view of its input."""
    returned = func._schema.returns  # noqa: SLF001 - PyTorch gives no public one
    return bool(returned) and all(
        one.alias_info is not None and not one.alias_info.is_write for one in returned
    )
