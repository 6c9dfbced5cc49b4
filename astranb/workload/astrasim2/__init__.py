"""ASTRA-sim 2.0's inputs: operations of ranks, and the system, network and memory they run on."""

from __future__ import annotations

from .documents import read_logical_dimensions, read_memory, read_network, read_system
from .footprint import Footprint
from .kinds import COLLECTIVE, COMPUTE, DELAY, MEMORY, RECV, REPLAY, SEND
from .memory import Memory
from .network import DimensionNetwork, InfraNetwork
from .operations import COLLECTIVE_NAMES, Operations, RankOperations
from .parts import Label, RecordedParts
from .placed_job import PlacedJob
from .system import ALGORITHM_WORDS, DimensionAlgorithm, System
from .whole_dimensions import along_dimensions, spanned_dimensions
from .workload import Workload, load

__all__ = [
    "ALGORITHM_WORDS",
    "COLLECTIVE",
    "COLLECTIVE_NAMES",
    "COMPUTE",
    "DELAY",
    "MEMORY",
    "RECV",
    "REPLAY",
    "SEND",
    "DimensionAlgorithm",
    "DimensionNetwork",
    "Footprint",
    "InfraNetwork",
    "Label",
    "Memory",
    "Operations",
    "PlacedJob",
    "RankOperations",
    "RecordedParts",
    "System",
    "Workload",
    "along_dimensions",
    "load",
    "read_logical_dimensions",
    "read_memory",
    "read_network",
    "read_system",
    "spanned_dimensions",
]
