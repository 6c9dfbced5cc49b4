"""The verbs of a simulation for whole workloads: steps are operations, messages and phases."""

from ._about import ALGORITHMS, KINDS, About
from ._breakpoints import EVENTS
from ._compare import WorkloadComparison
from ._critical import CAUSES, Piece
from ._either import compare, load_any
from ._inspect import STATES, running_chunks, states_of
from ._lost import LOSSES, lost_times
from ._result import WorkloadResult
from ._simulation import WorkloadSimulation
from ._spans import LANES, Spans, shares, spans_of
from ._state import UNITS

__all__ = [
    "ALGORITHMS",
    "CAUSES",
    "EVENTS",
    "KINDS",
    "LANES",
    "LOSSES",
    "STATES",
    "UNITS",
    "About",
    "Piece",
    "Spans",
    "WorkloadComparison",
    "WorkloadResult",
    "WorkloadSimulation",
    "compare",
    "load_any",
    "lost_times",
    "running_chunks",
    "shares",
    "spans_of",
    "states_of",
]
