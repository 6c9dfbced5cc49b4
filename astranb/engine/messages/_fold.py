"""Symmetry: where all NPUs do the same at the same time, one is simulated and stands for all.

What it sends to another arrives there when what its counterpart sends arrives here, so that it
receives its own messages. The proof is by induction over the events of an instant, and needs

- the same operations on all ranks, collectives of all of them (no group, peer or graph of its own);
- a network that looks the same from each rank, and algorithms that go the same distances from
  each: rings, fully connected and switched dimensions; ring, direct, halving and doubling (of a
  power of two: XOR); not trees, not one logical ring over several dimensions;
- nothing that NPUs wait for one another at: no shared memory, and with congestion only
  links that have one sender.

The end of a run is the same to the bit, state and numbers of events too; a test compares both.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from astranb.net._astrasim2 import FULLY_CONNECTED, RING, SWITCH
from astranb.workload.astrasim2._durations import Memory
from astranb.workload.astrasim2._infra import InfraNetwork
from astranb.workload.astrasim2._inputs import Network, System
from astranb.workload.astrasim2._kinds import INTER, INTRA
from astranb.workload.astrasim2._operations import Operations

from . import _tables as t

__all__ = ["foldable", "unfold"]

_OF_ONE_PLACE: Final = {
    "npus": (),
    "places": ("first",),
    "queues": (),
    "allocators": (),
    "trees": (),
    "memories": (),
    "operations": ("npu", "first_child", "custom", "owner"),
}
"""Tables that have rows for each NPU, with the fields that say where a row stands."""


def foldable(
    operations: Sequence[Operations],
    network: Network | InfraNetwork,
    system: System,
    memory: Memory,
    *,
    aware: bool,
    compat: bool = False,
) -> bool:
    """Say whether one NPU can stand for all.

    Parameters
    ----------
    operations : sequence of Operations
        One for each rank; those that are one object are the same.
    network : Network or InfraNetwork
    system : System
    memory : Memory
    aware : bool
        Whether messages wait for one another on links.
    compat : bool
        Whether ASTRA-sim 2.0's peculiarities are kept.
    """
    if isinstance(network, InfraNetwork) or system.speeds:
        return False
    one = operations[0]
    kinds = one.rows["kind"]
    if len(operations) < 2 or any(other is not one for other in operations) or one.custom:
        return False
    if np.isin(kinds, (t.SEND, t.RECV)).any() or (one.rows["group"] >= 0).any():
        return False
    if memory.shared_by(network.npus) > 0 and (kinds == t.MEMORY).any():
        return False
    if not compat and (INTER[system.inter], INTRA[system.intra]) != (0, 0):
        # Who of several comes first decides the order of all.
        return False
    shapes = set(network.shapes)
    if not shapes <= {RING, FULLY_CONNECTED, SWITCH}:
        return False
    used = set(one.rows["collective"][kinds == t.COLLECTIVE].tolist())
    if any(collective >= t.BROADCAST for collective in used):  # it has a root
        return False
    algorithms = {a for number, row in system.algorithms.items() if number in used for a in row}
    if any(a.number in (t.TREE, t.IN_NETWORK) or (a.whole and len(network.shapes) > 1) for a in algorithms):
        return False
    if any(a.number == t.HALVING for a in algorithms) and any(n & (n - 1) for n in network.npus_count):
        return False
    if aware and system.queues > 1:
        # Two messages at once to the same NPU: their order at one instant is not the same for all.
        return False
    if aware:
        neighbours = all(a.number == t.RING_STEPS for a in algorithms)
        if system.rendezvous:  # leave goes the other way, over links that belong to others
            return False
        return len(network.shapes) == 1 and (shapes == {FULLY_CONNECTED} or neighbours)
    return True


def unfold(folded: t.Machine, full: t.Machine) -> t.Machine:
    """Bring the machine of all NPUs to the end that the folded one has come to.

    Parameters
    ----------
    folded : Machine
        At its end, all done.
    full : Machine
        At its start; changed.
    """
    count = len(full.npus)
    for name, places in _OF_ONE_PLACE.items():
        rows, ours = getattr(full, name), getattr(folded, name)
        for field in rows.dtype.names:
            if field not in places:
                rows[field] = np.tile(ours[field], count)
    for field in ("steps", "fired", "finished", "messages", "bytes", "ended", "delivered", "phases"):
        full.clock[field] = folded.clock[field] * count
    full.queue.now, full.queue.turns = folded.queue.now, folded.queue.turns
    return full
