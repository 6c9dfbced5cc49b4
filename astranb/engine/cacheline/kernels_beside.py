"""Kernels beside a collective, on the same SMs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from astranb.collectives import Collective
from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.gpu import preset
from astranb.workload.astrasim2 import (
    ALGORITHM_WORDS,
    COLLECTIVE,
    COLLECTIVE_NAMES,
    COMPUTE,
    Operations,
    System,
)
from astranb.workload.kernels import DEFAULT_GPU, Attention, KernelTimes, Product, Stream, gpu_named, grids

from .calls import ALGORITHMS
from .workload import Graph

__all__ = ["beside"]


def beside(
    kernels: Sequence[Product | Attention | Stream],
    collective: Collective | None = None,
    gpu: str | Path = DEFAULT_GPU,
    ranks: int = 8,
    *,
    precision: str = "bf16",
    urgent: bool = True,
    first: str = "",
    stream_k: bool = False,
) -> Graph:
    """Return a workload of ranks that compute beside a collective, or one after the other, by cache lines.

    Parameters
    ----------
    kernels : sequence of Product, Attention or Stream
        One after another; none: the collective alone.
    collective : Collective, optional
        By an algorithm that messages have too, such as ``ring``; none: the kernels alone.
    gpu : str or Path
        Of every rank: a name or a file.
    ranks : int
    precision : str
        Of products: ``bf16``, ``fp16`` or ``fp8``.
    urgent : bool
        Whether the collective's thread blocks are given SMs before those of kernels.
    first : str
        ``"kernels"`` or ``"collective"``: the other one waits for it.
    stream_k : bool
        As of :class:`~astranb.workload.kernels.KernelTimes`.

    Raises
    ------
    InputError
        There is no such GPU, precision or order, or a thread block does not fit on its SMs.

    Examples
    --------
    >>> import astranb as anb
    >>> from astranb.workload import kernels
    >>> product = kernels.Product(512, 512, 512)
    >>> anb.beside([product], anb.collectives.all_reduce("64 KiB", "ring")).title
    '1 kernel beside all_reduce/ring'
    """
    times = KernelTimes(gpu_named(gpu), precision, sustained=1.0, stream_k=stream_k)
    machine = preset(gpu)
    launched = tuple(grid for one in kernels for grid in grids(one, times, machine))
    rows: list[dict[str, int]] = []
    chosen: dict[str, object] = {"all-reduce-implementation": ["ring"]}
    if launched:  # the duration is what other fidelities would take
        took_ns = sum(times.kernel_ns(one) for one in kernels)
        rows.append({"kind": COMPUTE, "duration_ns": took_ns})
    if collective is not None:
        known = collective.algorithm_name in ALGORITHMS.values()
        if not known or collective.name not in COLLECTIVE_NAMES:
            what = f"a workload has no {collective.name} by {collective.algorithm_name!r}"
            raise InputError(what, where="collective", hint=f"use {', '.join(ALGORITHMS.values())}")
        word = ALGORITHM_WORDS[collective.algorithm_name]
        size, name = collective.size, COLLECTIVE_NAMES[collective.name]
        part = size // ranks if collective.name in ("all_gather", "gather") else size
        rows.append({"kind": COLLECTIVE, "collective": name, "bytes": part, "priority": int(urgent)})
        chosen = {f"{collective.name.replace('_', '-')}-implementation": [word]}
    if first not in ("", "kernels", "collective"):
        raise InputError(f"no order {first!r}", where="first", hint="use kernels or collective")
    listed = [launched, *(() for _ in rows[1:])]
    if first == "collective":
        rows, listed = rows[::-1], listed[::-1]
    waits = bool(first) and len(rows) > 1
    one = Operations.of(rows, [(), (0,)] if waits else ())
    if launched:
        one = replace(one, grids=tuple(listed))
    system = System.from_document({**chosen, "preferred-dataset-splits": 1})
    parts = [plural(len(kernels), "kernel")] if launched else []
    parts += [] if collective is None else [collective.title]
    parts = parts[::-1] if first == "collective" else parts
    return Graph([one] * ranks, system, title=(", then " if waits else " beside ").join(parts))
