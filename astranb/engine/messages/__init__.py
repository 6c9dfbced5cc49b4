"""The message engine: operations, collectives and messages, as ASTRA-sim 2.0 computes them."""

from .breakpoints import EVENTS
from .engine import MessageEngine
from .implementations import outer_dimension, rails_of
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
    "outer_dimension",
    "rails_of",
    "simulate",
    "trace_messages",
]
