"""Floor 6: the simulation. The verbs, stops, breakpoints, checkpoints, results, comparisons."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .comparison import Comparison as Comparison
    from .comparison import Shown as Shown
    from .comparison import compare as compare
    from .position import Position as Position
    from .position import read_position as read_position
    from .replay import Replay as Replay
    from .result import Result as Result
    from .simulation import Simulation as Simulation
    from .stop import Stop as Stop
    from .view import ObjectView as ObjectView
    from .watch import Watch as Watch
    from .watch import series_of as series_of

__getattr__, __dir__ = lazy(__name__)
