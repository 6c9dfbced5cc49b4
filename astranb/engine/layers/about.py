"""Names and dependencies of a layer table's operations: computations of layers and their collectives."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from astranb.engine.operations import About

from . import tables as t
from .dependencies import dependencies, slots_of
from .run import LayerRun

__all__ = ["PARTS", "ProgramRows", "about_of"]

PARTS = ("FWD", "IG", "WG")
"""The parts of a layer: forward pass, input gradient, weight gradient."""

_NUMBERS = {
    "ALLREDUCE": t.ALL_REDUCE, "REDUCESCATTER": t.REDUCE_SCATTER, "ALLGATHER": t.ALL_GATHER,
    "ALLTOALL": t.ALL_TO_ALL,
}  # fmt: skip
_COMPUTE, _COLLECTIVE = 0, 1  # kinds of operations of every workload


class ProgramRows(NamedTuple):
    """The rows of the program that operations, as people see them, consist of.

    Attributes
    ----------
    at : ndarray of int64
        The program's row of each operation.
    of : ndarray of int64
        The operation of each of the program's rows: of a wait what is waited for, -1 where there is
        none.
    slot : ndarray of int64
        Part of a layer of each operation: three times the layer, plus the part.
    """

    at: np.ndarray
    of: np.ndarray
    slot: np.ndarray


def about_of(run: LayerRun) -> tuple[About, ProgramRows]:
    """Gather what does not change in a run.

    A computation waits for the one before it, and for the collectives that the program has waited for
    between them; a collective waits for the same.
    """
    m, layers = run.machine, run.inputs.table.layers
    at, slot = slots_of(m)
    collective = np.asarray(m.operations.kind)[at] == t.ISSUE
    names: list[str] = []
    number, size = [], []
    for layer in layers:
        for part, word in zip(layer.parts, PARTS, strict=True):
            names += [f"{layer.name} {word}", f"{layer.name} {word} comm"]
            number.append(_NUMBERS.get(part.collective, -1))
            size.append(part.size)
    of, first, parents = dependencies(m, at, slot)
    about = About(
        np.zeros(len(at), np.int64),
        np.where(collective, _COLLECTIVE, _COMPUTE),
        np.where(collective, np.array(number, np.int64)[slot], -1),
        np.where(collective, np.array(size, np.int64)[slot], 0),
        2 * slot + collective,
        names,
        [run.inputs.network.topologies[dim] for dim in run.built.levels.physical],
        first,
        parents,
        len(at),
        1,
    )
    return about, ProgramRows(at, of, slot)
