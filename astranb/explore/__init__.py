"""Floor 7: many runs. The best algorithm or plan, a GPU's microbenchmarks, presets from measurements."""

from ._accounts import StepAccount, account
from ._best import best_algorithm
from ._fit import compare_to_measured, preset_from
from ._microbench import microbenchmarks
from ._plans import ModelPlan, PlanSearch, suggest

__all__ = [
    "ModelPlan",
    "PlanSearch",
    "StepAccount",
    "account",
    "best_algorithm",
    "compare_to_measured",
    "microbenchmarks",
    "preset_from",
    "suggest",
]
