"""The cache-line engine: every load and store of every thread block, line by line."""

from ._aggregate import Aggregate, phase_times
from ._contributions import Contributions, sums
from ._critical import CriticalPath, Segment
from ._edits import Parameter
from ._inspect import SPAN, SPAN_STATES
from ._lanes import LANE_STATES, lanes_of
from ._lost import LOSSES
from ._recorder import FLIGHT_KINDS, Recorder
from ._view import ObjectView
from ._walk import CAUSES
from ._where import SPOT, spot_text

__all__ = [
    "CAUSES",
    "FLIGHT_KINDS",
    "LANE_STATES",
    "LOSSES",
    "SPAN",
    "SPAN_STATES",
    "SPOT",
    "Aggregate",
    "Contributions",
    "CriticalPath",
    "ObjectView",
    "Parameter",
    "Recorder",
    "Segment",
    "lanes_of",
    "phase_times",
    "spot_text",
    "sums",
]
