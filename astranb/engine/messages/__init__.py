"""The message engine: operations, collectives and messages, as ASTRA-sim 2.0 computes them."""

from ._breakpoints import EVENTS
from ._engine import MessageEngine
from ._inspect import running_chunks, states_of
from ._state import UNITS
from .run import Run, RunResult, simulate

__all__ = [
    "EVENTS",
    "UNITS",
    "MessageEngine",
    "Run",
    "RunResult",
    "running_chunks",
    "simulate",
    "states_of",
]
