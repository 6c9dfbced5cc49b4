"""The message engine: operations, collectives and messages, as ASTRA-sim 2.0 computes them."""

from .breakpoints import EVENTS
from .engine import MessageEngine
from .run import Run, RunResult, simulate
from .state import UNITS

__all__ = ["EVENTS", "UNITS", "MessageEngine", "Run", "RunResult", "simulate"]
