"""The verbs of a simulation for whole workloads: steps are operations, messages and phases."""

from ._compare import WorkloadComparison
from ._either import compare, load_any
from ._lost import LOSSES, lost_times
from ._result import WorkloadResult
from ._simulation import WorkloadSimulation

__all__ = [
    "LOSSES",
    "WorkloadComparison",
    "WorkloadResult",
    "WorkloadSimulation",
    "compare",
    "load_any",
    "lost_times",
]
