"""ASTRA-sim 2.0's workload and system layer on its two analytical networks, to the nanosecond.

Operations of each rank wait for one another; a collective is cut into chunks, each chunk goes
through phases, one in each dimension, and each phase is messages between endpoints. The state
is tables, the time whole nanoseconds, and the loop can stop after any event.
"""

from __future__ import annotations

from ._documents import read_memory, read_network, read_system
from ._durations import Memory
from ._files import load
from ._infra import InfraNetwork
from ._inputs import Algorithm, Network, System
from ._loop import BREAK, DTYPES, ENDED, REACHED, STEPS, TIME
from ._operations import COLLECTIVE_NAMES, Operations
from ._run import Inputs, Result, Run, simulate
from ._tables import COLLECTIVE, COMPUTE, MEMORY, RECV, REPLAY, SEND

__all__ = [
    "BREAK",
    "COLLECTIVE",
    "COLLECTIVE_NAMES",
    "COMPUTE",
    "DTYPES",
    "ENDED",
    "MEMORY",
    "REACHED",
    "RECV",
    "REPLAY",
    "SEND",
    "STEPS",
    "TIME",
    "Algorithm",
    "InfraNetwork",
    "Inputs",
    "Memory",
    "Network",
    "Operations",
    "Result",
    "Run",
    "System",
    "load",
    "read_memory",
    "read_network",
    "read_system",
    "simulate",
]
