"""Floor 6: the simulation. The verbs, stops, breakpoints, checkpoints, results, comparisons."""

from .compare import Comparison, Shown, compare
from .position import Position, read_position
from .replay import Replay
from .result import Result
from .simulation import Simulation
from .stop import Stop
from .view import ObjectView
from .watch import Watch, series_of

__all__ = [
    "Comparison",
    "ObjectView",
    "Position",
    "Replay",
    "Result",
    "Shown",
    "Simulation",
    "Stop",
    "Watch",
    "compare",
    "read_position",
    "series_of",
]
