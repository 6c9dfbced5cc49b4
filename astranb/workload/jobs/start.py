"""Late starts of ranks, and the workload that has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from astranb.chakra import Distinct
from astranb.core.errors import InputError
from astranb.core.units import time_ps
from astranb.workload.astrasim2 import DELAY, Operations, RankOperations, Workload

__all__ = ["Start", "delayed", "started", "starts_ps"]

Start = Mapping[int, str | int] | Sequence[str | int]
"""Starts of ranks: of some by their numbers, or of all in their order."""

_MOST_PS: Final = 2**61  # 26 days


def starts_ps(start: Start | None, ranks: int) -> list[int]:
    """Read when each rank starts.

    Parameters
    ----------
    start : mapping of int to str or int, or sequence of str or int, optional
        How late ranks start: of those that do, or of all; without a unit in picoseconds.
    ranks : int
        How many there are.

    Returns
    -------
    list of int
        In ps, one a rank; empty where none starts late.

    Raises
    ------
    InputError
        There is no such rank, or no such time.

    Examples
    --------
    >>> starts_ps({3: "20 us"}, 4), starts_ps(["1 ns", 0], 2), starts_ps(None, 4)
    ([0, 0, 0, 20000000], [1000, 0], [])
    """
    if start is None:
        return []
    if isinstance(start, Mapping):
        given = dict(start)
    elif isinstance(start, Sequence | np.ndarray) and not isinstance(start, str):
        if len(start) != ranks:
            what = f"{ranks:,} ranks need as many starts, got {len(start):,}"
            raise InputError(what, where="start", hint="give one a rank, or start={3: '20 us'}")
        given = dict(enumerate(start))
    else:
        hint = "write start={3: '20 us'}: rank 3 starts 20 us late"
        raise InputError(f"cannot read the starts of ranks {start!r:.60}", where="start", hint=hint)
    found = [0] * ranks
    for rank, value in given.items():
        if isinstance(rank, bool) or not isinstance(rank, int | np.integer) or not 0 <= rank < ranks:
            hint = f"there are ranks 0 to {ranks - 1:,}"
            raise InputError(f"unknown rank {rank!r:.40}", where="start", hint=hint)
        late = int(value) if isinstance(value, np.integer) else value
        found[int(rank)] = time_ps(late, where=f"start of rank {rank}")
        if found[int(rank)] > _MOST_PS:
            raise InputError(f"{value!r} is more than 26 days", where=f"start of rank {rank}")
    return found if any(found) else []


def started(workload: Workload, late_ps: Sequence[int]) -> Workload:
    """Delay the operations of some ranks.

    Parameters
    ----------
    workload : Workload
    late_ps : sequence of int
        Of all ranks, as :func:`starts_ps` reads it; messages count whole nanoseconds, so they are rounded.

    Returns
    -------
    Workload
    """
    if not len(late_ps):
        return workload
    operations = RankOperations.of(workload.operations)
    patterns, pattern = list(operations.patterns), operations.pattern.copy()
    made: dict[tuple[int, int], int] = {}
    for rank, ps in enumerate(late_ps):
        key = int(pattern[rank]), round(ps / 1000) * 1000
        if key[1] and key not in made:
            made[key] = len(patterns)
            patterns.append(delayed(patterns[key[0]], key[1], "late start"))
        pattern[rank] = made.get(key, pattern[rank])
    return replace(workload, operations=replace(operations, patterns=patterns, pattern=pattern))


def delayed(one: Operations, start_ps: int, name: str) -> Operations:
    """Delay operations until a time.

    Parameters
    ----------
    one : Operations
    start_ps : int
    name : str
        What the delay is called.

    Returns
    -------
    Operations
        With a delay before them, on which all depend that depended on nothing.
    """
    if not start_ps or not len(one.rows):
        return one
    first = np.zeros(1, one.rows.dtype)
    first["kind"], first["duration_ns"], first["group"] = DELAY, start_ps // 1000, -1
    first["involved"] = (1 << 62) - 1
    free = np.diff(one.dep_start) == 0
    deps = np.insert(one.deps + 1, one.dep_start[:-1][free], 0)
    lengths = np.maximum(np.diff(one.dep_start), 1)
    names = one.names
    return Operations(
        np.concatenate([first, one.rows]),
        np.concatenate([[0, 0], np.cumsum(lengths)]).astype(np.int64),
        deps,
        {row + 1: each for row, each in one.custom.items()},
        names and Distinct(np.concatenate([[len(names.values)], names.index]), (*names.values, name)),
        one.grids and ((), *one.grids),
        {row + 1: each for row, each in one.kernels.items()},
    )
