"""A workload: what a simulation is made of, and its reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from ._durations import Memory
from ._infra import InfraNetwork
from ._inputs import Network, System
from ._operations import Operations

__all__ = ["Workload"]


@dataclass(frozen=True)
class Workload:
    """The operations of all ranks, and the machine that they run on.

    Parameters
    ----------
    operations : sequence of Operations
        One for each rank.
    network : Network or InfraNetwork
    system : System
    memory : Memory, optional
        The remote memory; none by default.
    groups : mapping of int to sequence of int, optional
        The ranks of each numbered group.
    compat : bool
        Whether to keep ASTRA-sim 2.0's peculiarities: bandwidths in GiB/s, a whole last chunk, and
        messages that pay for one dimension only.
    title : str
        The name of the workload.
    """

    operations: Sequence[Operations]
    network: Network | InfraNetwork
    system: System
    memory: Memory = Memory()
    groups: Mapping[int, Sequence[int]] = field(default_factory=dict)
    compat: bool = False
    title: str = "workload"
