"""Floor 7: many runs. The best algorithm, microbenchmarks of a GPU, presets from measurements."""

from ._accounts import StepAccount, account
from ._best import best_algorithm
from ._fit import compare_to_measured, preset_from
from ._microbench import microbenchmarks

__all__ = [
    "StepAccount",
    "account",
    "best_algorithm",
    "compare_to_measured",
    "microbenchmarks",
    "preset_from",
]
