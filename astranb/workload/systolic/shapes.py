"""Layer shapes (matrix products) and the layer table made from them, for each kind of parallelism.

The rules are those of ASTRA-sim 1.0's workload generator.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

from astranb.core.errors import InputError, near
from astranb.core.number_files import text_of, text_rows, whole
from astranb.workload.astrasim1 import Layer, LayerTable, Part

from .array import GOOGLE_TPU, Array, Gemm

__all__ = ["POLICIES", "MatrixProduct", "layer_table", "read_shapes"]

_MOST_BYTES: Final = 16 << 20
_MOST_SIZE: Final = 1 << 40


class MatrixProduct(NamedTuple):
    """A layer as a matrix product, with its own policy if layers differ."""

    name: str
    gemm: Gemm
    policy: str | None = None


class _Split(NamedTuple):
    """Division of a layer by a policy: parts of m and of n, and the groups that communicate."""

    m: int
    n: int
    model: bool
    data: bool


def _split(policy: str, npus: int, packages: int) -> _Split:
    inside = npus // packages
    return {
        "DATA": _Split(npus, 1, model=False, data=True),
        "MODEL": _Split(1, npus, model=True, data=False),
        "HYBRID_DATA_MODEL": _Split(packages, inside, model=True, data=True),
        "HYBRID_MODEL_DATA": _Split(inside, packages, model=True, data=True),
    }[policy]


POLICIES: Final = ("DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA")
"""Kinds of parallelism for shapes; with ``HYBRID_CUSTOMIZED`` each layer has one of them."""


def _layer(
    shape: MatrixProduct,
    split: _Split,
    npus: int,
    time_ns: Callable[[Gemm], int],
    element_bytes: int,
    update_ns: int,
    policy: str | None,
) -> Layer:
    m, k, n = shape.gemm
    if m < split.m or n < split.n:
        raise InputError(
            f"{shape.name[:40]}: m {m} and n {n} for {split.m} and {split.n} parts",
            hint="use fewer NPUs, or another policy",
        )
    rows, columns = m // split.m, n // split.n
    forward, ig, weight = (
        Gemm(rows, k, columns),
        Gemm(rows, columns, k),
        Gemm(k, rows, columns),
    )
    none = ("NONE", 0)
    gathered = ("ALLGATHER", m * n * element_bytes // npus) if split.model else none
    scattered = ("REDUCESCATTER", m * k * element_bytes // split.m) if split.model else none
    reduced = ("ALLREDUCE", n * k * element_bytes // split.n) if split.data else none
    return Layer(
        shape.name,
        Part(time_ns(forward), *gathered),
        Part(time_ns(ig), *scattered),
        Part(time_ns(weight), *reduced),
        update_ns,
        policy,
    )


def layer_table(
    shapes: Iterable[MatrixProduct],
    policy: str,
    npus: int,
    *,
    packages: int = 1,
    compute: Array | Callable[[Gemm], int] = GOOGLE_TPU,
    element_bytes: int = 2,
    update_ns: int = 100,
) -> LayerTable:
    """Return the layer table of shapes: what each NPU computes and communicates.

    Parameters
    ----------
    shapes : iterable of MatrixProduct
        Of the whole model: m is the batch, k the size of a layer's input, n that of its output.
    policy : str
        One of :data:`POLICIES`, or ``HYBRID_CUSTOMIZED`` if each shape has its own.
    npus, packages : int
        Number of NPUs and of packages: hybrid policies split within and between packages.
    compute : Array or callable
        A systolic array, or a function that returns the nanoseconds of a :class:`Gemm`.
    element_bytes : int
    update_ns : int
        Time after each collective.

    Raises
    ------
    InputError
        The policy is unknown, or a layer is too small for the NPUs.

    Examples
    --------
    >>> table = layer_table([MatrixProduct("a", Gemm(1024, 512, 128))], "DATA", 8)
    >>> table.layers[0].forward.compute_ns, table.layers[0].weight_gradient
    (1788, Part(compute_ns=1278, collective='ALLREDUCE', size=131072, work=None))
    """
    known = (*POLICIES, "HYBRID_CUSTOMIZED")
    if policy not in known:
        raise InputError(f"unknown policy {policy[:40]!r}", hint=near(policy[:40], known))
    if npus < 1 or packages < 1 or npus % packages:
        raise InputError(
            f"{npus} NPUs do not divide among {packages} packages", hint="use packages of the same size"
        )
    time_ns = compute.time_ns if isinstance(compute, Array) else compute
    layers = []
    for shape in shapes:
        own = shape.policy if policy == "HYBRID_CUSTOMIZED" else policy
        if own not in POLICIES:
            what = f"{shape.name[:40]}: unknown policy {str(own)[:40]!r}"
            raise InputError(what, hint=near(str(own)[:40], POLICIES))
        kept = own if policy == "HYBRID_CUSTOMIZED" else None
        split = _split(own, npus, packages)
        layers.append(_layer(shape, split, npus, time_ns, element_bytes, update_ns, kept))
    return LayerTable(policy, tuple(layers))


def read_shapes(path: str | Path) -> list[MatrixProduct]:
    """Read shapes from a CSV file: ``Layer,m,n,k`` and, if layers differ, a policy.

    Raises
    ------
    InputError
        The file cannot be read, or a line is invalid; the error names the line.
    """
    shapes = []
    for number, (where, row) in enumerate(text_rows(text_of(path, _MOST_BYTES), str(path)), 1):
        cells = [cell.strip() for cell in row]
        if number == 1 or not any(cells):
            continue
        if len(cells) not in (4, 5):
            raise InputError(f"{len(cells)} columns", where=where, hint="write Layer,m,n,k[,policy]")
        m, n, k = (
            whole(cell, 1, _MOST_SIZE, what=name, where=where)
            for name, cell in zip("mnk", cells[1:4], strict=True)
        )
        policy = cells[4] if len(cells) == 5 and cells[4] else None
        if policy is not None and policy not in POLICIES:
            raise InputError(f"unknown policy {policy[:40]!r}", where=where, hint=near(policy[:40], POLICIES))
        shapes.append(MatrixProduct(cells[0], Gemm(m, k, n), policy))
    if not shapes:
        raise InputError(
            "the file has no layers", where=str(path), hint="write Layer,m,n,k and a line for each layer"
        )
    return shapes
