"""ASTRA-sim 2.0's inputs: operations of ranks, and the system, network and memory they run on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .checked import check_operations as check_operations
    from .checked import check_shown as check_shown
    from .checked import check_system as check_system
    from .documents import read_logical_dimensions as read_logical_dimensions
    from .documents import read_memory as read_memory
    from .documents import read_network as read_network
    from .documents import read_system as read_system
    from .durations import at_speed as at_speed
    from .durations import durations_ns as durations_ns
    from .footprint import Footprint as Footprint
    from .kinds import COLLECTIVE as COLLECTIVE
    from .kinds import COMPUTE as COMPUTE
    from .kinds import DELAY as DELAY
    from .kinds import MEMORY as MEMORY
    from .kinds import RECV as RECV
    from .kinds import REPLAY as REPLAY
    from .kinds import SEND as SEND
    from .memory import Memory as Memory
    from .memory import Pool as Pool
    from .network import DimensionNetwork as DimensionNetwork
    from .network import InfraNetwork as InfraNetwork
    from .operations import COLLECTIVE_NAMES as COLLECTIVE_NAMES
    from .operations import Operations as Operations
    from .operations import RankOperations as RankOperations
    from .placed_job import PlacedJob as PlacedJob
    from .recorded_parts import Label as Label
    from .recorded_parts import RecordedParts as RecordedParts
    from .system import ALGORITHM_WORDS as ALGORITHM_WORDS
    from .system import COSTS as COSTS
    from .system import DimensionAlgorithm as DimensionAlgorithm
    from .system import System as System
    from .trace_kernels import shaped_of as shaped_of
    from .traces import operations_of as operations_of
    from .whole_dimensions import along_dimensions as along_dimensions
    from .whole_dimensions import spanned_dimensions as spanned_dimensions
    from .workload import Workload as Workload
    from .workload import load as load

__getattr__, __dir__ = lazy(__name__)
