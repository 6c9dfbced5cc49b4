"""Floor 5: the engines. One protocol, and what answers it: cache lines, messages, layer tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .breakpoints import Breakpoint as Breakpoint
    from .breakpoints import at_time as at_time
    from .breakpoints import called as called
    from .breakpoints import with_unit as with_unit
    from .completion import complete as complete
    from .critical_path import CriticalPath as CriticalPath
    from .critical_path import Segment as Segment
    from .edits import RECORD as RECORD
    from .edits import REROUTE as REROUTE
    from .edits import Edit as Edit
    from .edits import Parameter as Parameter
    from .edits import is_rerouted as is_rerouted
    from .edits import last_of_each as last_of_each
    from .edits import left_of as left_of
    from .edits import no_other_routes as no_other_routes
    from .fidelity import FIDELITIES as FIDELITIES
    from .fidelity import fidelity_of as fidelity_of
    from .protocol import Engine as Engine
    from .protocol import Movable as Movable
    from .stops import BACK as BACK
    from .stops import BREAK as BREAK
    from .stops import DEADLOCK as DEADLOCK
    from .stops import ENDED as ENDED
    from .stops import EXHAUSTED as EXHAUSTED
    from .stops import REACHED as REACHED
    from .stops import STEPS as STEPS
    from .stops import STRANDED as STRANDED
    from .stops import TIME as TIME
    from .stops import TOO_LATE as TOO_LATE
    from .what_if import Change as Change
    from .what_if import WhatIf as WhatIf
    from .why import Why as Why

__getattr__, __dir__ = lazy(__name__)
