"""Who has sent how much to whom: from the operations of a run, without a recording."""

from __future__ import annotations

import numpy as np

from astranb.gpu import tables as t
from astranb.sim import Simulation

__all__ = ["traffic"]


def traffic(sim: Simulation) -> np.ndarray:
    """Bytes that moves have taken from each GPU to each other one so far.

    Parameters
    ----------
    sim : Simulation

    Returns
    -------
    ndarray of int64, shape (ranks, ranks)
        ``[a, b]``: payload from a to b, without headers, signals and polls; 0 on the
        diagonal. A load counts from the GPU that is read. Lines count when their loads are
        issued; what a switch adds up or multiplies counts once for every GPU.
    """
    ops, operands, ranks = sim.engine.machine.ops, sim.engine.machine.operands, len(sim.engine.machine.gpus)
    moves = np.flatnonzero((ops["kind"] == t.MOVE) & (ops["started_ps"] >= 0))
    row = ops[moves]
    done = row["lines"] - row["left"]
    whole = (row["lines"] - 1) * row["payload"].astype(np.int64) + row["last_bytes"]
    moved = np.minimum(done * row["payload"].astype(np.int64), whole)
    me = np.asarray(sim.engine.machine.blocks["gpu"][row["block"]])
    found = np.zeros((ranks, ranks), np.int64)
    for first, count, outward in (("first_source", "sources", False), ("first_target", "targets", True)):
        for k in range(int(row[count].max(initial=0))):
            has = row[count] > k
            other = np.asarray(operands["gpu"][row[first][has] + k])
            ends = (me[has], other) if outward else (other, me[has])
            np.add.at(found, ends, moved[has])
    np.fill_diagonal(found, 0)
    return found
