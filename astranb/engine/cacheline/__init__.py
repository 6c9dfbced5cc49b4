"""The cache-line engine: every load and store of every thread block, line by line."""

from .aggregate import Aggregate, phase_times
from .contributions import Contributions, sums
from .critical_path import CAUSES, LinePath
from .engine import CacheLineEngine
from .lost_time import LOSSES
from .program_times import line_rows
from .recorder import FLIGHT_KINDS, Recorder
from .source_lines import SPOT, next_operation, spot_text
from .spans import SPAN, SPAN_STATES
from .time_classes import BLOCK_COLUMNS
from .tracks import TRACK_STATES
from .workload import Graph

__all__ = [
    "BLOCK_COLUMNS",
    "CAUSES",
    "FLIGHT_KINDS",
    "LOSSES",
    "SPAN",
    "SPAN_STATES",
    "SPOT",
    "TRACK_STATES",
    "Aggregate",
    "CacheLineEngine",
    "Contributions",
    "Graph",
    "LinePath",
    "Recorder",
    "line_rows",
    "next_operation",
    "phase_times",
    "spot_text",
    "sums",
]
