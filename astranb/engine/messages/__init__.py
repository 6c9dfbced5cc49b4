"""The message engine: operations, collectives and messages, as ASTRA-sim 2.0 computes them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .breakpoints import EVENTS as EVENTS
    from .breakpoints import event_breakpoint as event_breakpoint
    from .engine import MessageEngine as MessageEngine
    from .implementations import group_shapes as group_shapes
    from .inputs import MessageInputs as MessageInputs
    from .message_trace import MessageTrace as MessageTrace
    from .message_trace import trace_messages as trace_messages
    from .paths import number_of as number_of
    from .paths import operation_row as operation_row
    from .paths import unknown as unknown
    from .run import Run as Run
    from .run import RunResult as RunResult
    from .run import simulate as simulate
    from .state import UNITS as UNITS
    from .tables import BEGINS as BEGINS
    from .tables import ENDS as ENDS
    from .tables import ON_NOTHING as ON_NOTHING
    from .tables import PHASE_BEGINS as PHASE_BEGINS
    from .tables import PHASE_ENDS as PHASE_ENDS

__getattr__, __dir__ = lazy(__name__)
