"""Floor 5: the simulation. The verbs, stops, breakpoints, checkpoints, recording, results, explanations."""

from ._breakpoints import Breakpoint
from ._change import Change, WhatIf
from ._compare import Comparison, Shown
from ._perfetto import perfetto
from ._replay import Replay
from ._result import Result
from ._simulation import Simulation
from ._stop import Stop
from ._watch import Watch, series_of
from ._why import Step, Why

__all__ = [
    "Breakpoint",
    "Change",
    "Comparison",
    "Replay",
    "Result",
    "Shown",
    "Simulation",
    "Step",
    "Stop",
    "Watch",
    "WhatIf",
    "Why",
    "perfetto",
    "series_of",
]
