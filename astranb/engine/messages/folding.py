"""Symmetry: if all NPUs do the same at the same time, one is simulated and represents all.

A message that it sends to another NPU arrives there when its counterpart's arrives here, so it
receives its own messages. The proof is by induction over the events of one time, and needs

- the same operations on all ranks, and collectives of all of them (no group, peer or custom collective);
- a network that looks the same from each rank, and algorithms that go the same distances from
  each: rings, fully connected and switched dimensions; ring, direct, halving and doubling (of a
  power of two: XOR); not trees, not one logical ring over several dimensions;
- no resource that several NPUs share: no shared memory, and with congestion only links that
  have one sender.

The state at the end of the run is the same to the bit, also the number of events; a test compares both.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.net.astrasim2 import FULLY_CONNECTED, RING, SWITCH
from astranb.workload.astrasim2 import InfraNetwork, Workload
from astranb.workload.astrasim2.kinds import INTER, INTRA

from . import tables as t

__all__ = ["foldable", "unfold"]

_ROWS_OF_NPUS: Final = {
    "npus": (),
    "places": ("first",),
    "queues": (),
    "allocators": (),
    "trees": (),
    "memories": (),
    "bus": (),
    "ports": (),
    "operations": ("npu", "first_child", "custom", "owner"),
}
"""Tables that have rows for each NPU, with the fields that depend on the NPU."""


def foldable(workload: Workload, *, congestion: bool) -> bool:
    """Say whether one NPU can represent all.

    Parameters
    ----------
    workload : Workload
        Ranks whose operations are one object do the same.
    congestion : bool
        Whether messages queue on links.
    """
    operations, network, system = workload.operations, workload.network, workload.system
    if isinstance(network, InfraNetwork) or system.speeds:
        return False
    one = operations[0]
    kinds = one.rows["kind"]
    if len(operations) < 2 or any(other is not one for other in operations) or one.custom:
        return False
    if np.isin(kinds, (t.SEND, t.RECV)).any() or (one.rows["group"] >= 0).any():
        return False
    if workload.memory.shared_by(network.npus) > 0 and (kinds == t.MEMORY).any():
        return False
    if not workload.compat and (INTER[system.inter], INTRA[system.intra]) != (0, 0):
        # The first of several NPUs determines the order of all.
        return False
    shapes = set(network.shapes)
    if not shapes <= {RING, FULLY_CONNECTED, SWITCH}:
        return False
    used = set(one.rows["collective"][kinds == t.COLLECTIVE].tolist())
    if any(collective >= t.BROADCAST for collective in used):  # those have a root
        return False
    algorithms = {a for number, row in system.algorithms.items() if number in used for a in row}
    if any(a.number in (t.TREE, t.IN_NETWORK) or (a.whole and len(network.shapes) > 1) for a in algorithms):
        return False
    if any(a.number == t.HALVING for a in algorithms):
        if any(n & (n - 1) for n in network.npus_count):
            return False
        if not (congestion or workload.compat) and shapes != {SWITCH}:
            return False  # half of the NPUs send ahead by the port by which the others send back
    if congestion and system.queues > 1:
        # Two messages at once to the same NPU: their order at one time is not the same for all.
        return False
    if congestion:
        neighbours = all(a.number == t.RING_STEPS for a in algorithms)
        if system.rendezvous:  # messages in the other direction use links of other NPUs
            return False
        return len(network.shapes) == 1 and (shapes == {FULLY_CONNECTED} or neighbours)
    return True


def unfold(folded: t.MessageMachine, full: t.MessageMachine) -> t.MessageMachine:
    """Write the end state of the folded machine into the machine of all NPUs.

    Parameters
    ----------
    folded : Machine
        At its end, with all NPUs done.
    full : Machine
        At its start; is changed.
    """
    count = len(full.npus)
    for name, own in _ROWS_OF_NPUS.items():
        rows, folded_rows = getattr(full, name), getattr(folded, name)
        for field in rows.dtype.names:
            if field not in own:
                rows[field] = np.tile(folded_rows[field], len(rows) // len(folded_rows))
    for field in ("steps", "fired", "finished", "messages", "bytes", "ended", "delivered", "phases"):
        full.clock[field] = folded.clock[field] * count
    full.queue.now, full.queue.turns = folded.queue.now, folded.queue.turns
    for field in ("first", "last"):
        full.grants[field] = folded.grants[field]
    return full
