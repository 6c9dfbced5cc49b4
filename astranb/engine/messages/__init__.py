"""The message engine: operations, collectives and messages, as ASTRA-sim 2.0 computes them."""

from ._about import ALGORITHMS, KINDS, About
from ._breakpoints import EVENTS
from ._critical import CAUSES, Piece
from ._files import load
from ._inspect import STATES, running_chunks, states_of
from ._loop import BREAK, DTYPES, ENDED, REACHED, STEPS, TIME
from ._run import Inputs, Result, Run, simulate
from ._spans import LANES, Spans, shares, spans_of
from ._state import UNITS, State

__all__ = [
    "ALGORITHMS",
    "BREAK",
    "CAUSES",
    "DTYPES",
    "ENDED",
    "EVENTS",
    "KINDS",
    "LANES",
    "REACHED",
    "STATES",
    "STEPS",
    "TIME",
    "State",
    "UNITS",
    "About",
    "Inputs",
    "Piece",
    "Result",
    "Run",
    "Spans",
    "load",
    "running_chunks",
    "shares",
    "simulate",
    "spans_of",
    "states_of",
]
