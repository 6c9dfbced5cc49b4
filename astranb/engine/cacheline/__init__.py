"""The cache-line engine: every load and store of every thread block, line by line."""

from ._aggregate import Aggregate, phase_times
from ._contributions import Contributions, sums
from ._critical import LinePath
from ._engine import CacheLineEngine
from ._lanes import LANE_STATES
from ._lost import LOSSES
from ._recorder import FLIGHT_KINDS, Recorder
from ._spans import SPAN, SPAN_STATES
from ._walk import CAUSES
from ._where import SPOT, next_operation, spot_text
from .workload import Graph

__all__ = [
    "CAUSES",
    "FLIGHT_KINDS",
    "LANE_STATES",
    "LOSSES",
    "SPAN",
    "SPAN_STATES",
    "SPOT",
    "Aggregate",
    "CacheLineEngine",
    "Contributions",
    "Graph",
    "LinePath",
    "Recorder",
    "next_operation",
    "phase_times",
    "spot_text",
    "sums",
]
