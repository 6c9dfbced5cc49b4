"""The message engine: operations, collectives and messages, as ASTRA-sim 2.0 computes them."""

from ._breakpoints import EVENTS
from ._engine import MessageEngine
from ._files import load
from ._inspect import running_chunks, states_of
from ._loop import BREAK, DTYPES, ENDED, REACHED, STEPS, TIME
from ._run import Inputs, Result, Run, simulate
from ._state import UNITS

__all__ = [
    "BREAK",
    "DTYPES",
    "ENDED",
    "EVENTS",
    "REACHED",
    "STEPS",
    "TIME",
    "UNITS",
    "Inputs",
    "MessageEngine",
    "Result",
    "Run",
    "load",
    "running_chunks",
    "simulate",
    "states_of",
]
