"""Floor 5: the simulation. The verbs, stops, breakpoints, checkpoints, recording, results."""

from ._aggregate import Aggregate, phase_times
from ._breakpoints import Breakpoint
from ._contributions import Contributions
from ._inspect import SPAN, SPAN_STATES
from ._lanes import LANE_STATES, lanes_of
from ._recorder import FLIGHT_KINDS, Recorder
from ._result import Result
from ._simulation import Simulation
from ._stop import Stop

__all__ = [
    "FLIGHT_KINDS",
    "LANE_STATES",
    "SPAN",
    "SPAN_STATES",
    "Aggregate",
    "Breakpoint",
    "Contributions",
    "Recorder",
    "Result",
    "Simulation",
    "Stop",
    "lanes_of",
    "phase_times",
]
