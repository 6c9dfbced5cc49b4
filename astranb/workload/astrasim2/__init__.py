"""ASTRA-sim 2.0's workload and system layer on its two analytical networks, to the nanosecond.

Operations of each rank wait for one another; a collective is cut into chunks, each chunk goes
through phases, one in each dimension, and each phase is messages between endpoints. The state
is tables, the time whole nanoseconds, and the loop can stop after any event.
"""

from __future__ import annotations

from ._documents import read_memory, read_network, read_system
from ._durations import Memory
from ._infra import InfraNetwork
from ._inputs import Algorithm, Network, System
from ._kinds import COLLECTIVE, COMPUTE, MEMORY, RECV, REPLAY, SEND
from ._operations import COLLECTIVE_NAMES, Operations
from .workload import Workload

__all__ = [
    "COLLECTIVE",
    "COLLECTIVE_NAMES",
    "COMPUTE",
    "MEMORY",
    "RECV",
    "REPLAY",
    "SEND",
    "Algorithm",
    "InfraNetwork",
    "Memory",
    "Network",
    "Operations",
    "System",
    "Workload",
    "read_memory",
    "read_network",
    "read_system",
]
