"""Floor 7: many runs. The best algorithm or plan, serving, microbenchmarks, presets from measurements."""

from ._accounts import StepAccount, account
from ._best import best_algorithm
from ._fit import compare_to_measured, preset_from
from ._microbench import microbenchmarks
from ._plans import ModelPlan, PlanSearch, suggest
from ._served import Iteration, Served
from ._serving import serve

__all__ = [
    "Iteration",
    "ModelPlan",
    "PlanSearch",
    "Served",
    "StepAccount",
    "account",
    "best_algorithm",
    "compare_to_measured",
    "microbenchmarks",
    "preset_from",
    "serve",
    "suggest",
]
