"""Floor 5: the simulation. The verbs, stops, breakpoints, checkpoints, recording, results."""

from ._breakpoints import Breakpoint
from ._compare import Comparison
from ._contributions import Contributions
from ._edits import Parameter
from ._inspect import SPAN, SPAN_STATES
from ._perfetto import perfetto
from ._recorder import FLIGHT_KINDS, Recorder
from ._replay import Replay
from ._result import Result
from ._simulation import Simulation
from ._stop import Stop
from ._watch import Watch, series_of

__all__ = [
    "FLIGHT_KINDS",
    "SPAN",
    "SPAN_STATES",
    "Breakpoint",
    "Comparison",
    "Contributions",
    "Parameter",
    "Recorder",
    "Replay",
    "Result",
    "Simulation",
    "Stop",
    "Watch",
    "perfetto",
    "series_of",
]
