"""Floor 5: the simulation. The verbs, stops, breakpoints, checkpoints, recording, results, explanations."""

from ._aggregate import Aggregate, phase_times
from ._breakpoints import Breakpoint
from ._change import Change, WhatIf
from ._compare import Comparison, Shown
from ._contributions import Contributions, sums
from ._critical import CriticalPath, Segment
from ._edits import Parameter
from ._inspect import SPAN, SPAN_STATES
from ._lanes import LANE_STATES, lanes_of
from ._lost import LOSSES
from ._perfetto import perfetto
from ._recorder import FLIGHT_KINDS, Recorder
from ._replay import Replay
from ._result import Result
from ._simulation import Simulation
from ._stop import Stop
from ._view import ObjectView
from ._walk import CAUSES
from ._watch import Watch, series_of
from ._where import SPOT, spot_text
from ._why import Step, Why

__all__ = [
    "CAUSES",
    "FLIGHT_KINDS",
    "LANE_STATES",
    "LOSSES",
    "SPAN",
    "SPAN_STATES",
    "SPOT",
    "Aggregate",
    "Breakpoint",
    "Change",
    "Comparison",
    "Contributions",
    "CriticalPath",
    "ObjectView",
    "Parameter",
    "Recorder",
    "Replay",
    "Result",
    "Segment",
    "Shown",
    "Simulation",
    "Step",
    "Stop",
    "Watch",
    "WhatIf",
    "Why",
    "lanes_of",
    "perfetto",
    "phase_times",
    "series_of",
    "spot_text",
    "sums",
]
