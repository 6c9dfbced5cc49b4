"""Floor 5: the simulation. The verbs, stops, breakpoints, checkpoints, recording, results."""

from ._breakpoints import Breakpoint
from ._contributions import Contributions, sums
from ._inspect import SPAN, SPAN_STATES
from ._perfetto import perfetto
from ._recorder import FLIGHT_KINDS, Recorder
from ._result import Result
from ._simulation import Simulation
from ._stop import Stop
from ._where import SPOT, spot_text

__all__ = [
    "FLIGHT_KINDS",
    "SPAN",
    "SPAN_STATES",
    "SPOT",
    "Breakpoint",
    "Contributions",
    "Recorder",
    "Result",
    "Simulation",
    "Stop",
    "perfetto",
    "spot_text",
    "sums",
]
