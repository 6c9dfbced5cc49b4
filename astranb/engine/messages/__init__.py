"""The message engine: operations, collectives and messages, as ASTRA-sim 2.0 computes them."""

from .breakpoints import EVENTS
from .engine import MessageEngine
from .implementations import group_shapes
from .message_trace import MessageTrace, trace_messages
from .run import Run, RunResult, simulate
from .state import UNITS

__all__ = [
    "EVENTS",
    "UNITS",
    "MessageEngine",
    "MessageTrace",
    "Run",
    "RunResult",
    "group_shapes",
    "simulate",
    "trace_messages",
]
