"""Floor 7: many runs. The best algorithm or plan, serving, microbenchmarks, presets from measurements."""

from ._accounts import StepAccount, account
from ._best import best_algorithm
from ._diagnose import Diagnosis, Suspect, diagnose
from ._ensemble import Ensemble, Interval, ensemble
from ._fit import compare_to_measured, preset_from
from ._log_fit import FittedNumber, LogFit, fit_log
from ._logs import CollectiveLog, LogRow, joined_logs, read_log
from ._microbench import microbenchmarks
from ._no_return import NoReturn, point_of_no_return
from ._plans import ModelPlan, PlanSearch, suggest
from ._served import Iteration, Served
from ._serving import serve
from ._survive import survive

__all__ = [
    "CollectiveLog",
    "Diagnosis",
    "Ensemble",
    "FittedNumber",
    "Interval",
    "Iteration",
    "LogFit",
    "LogRow",
    "ModelPlan",
    "NoReturn",
    "PlanSearch",
    "Served",
    "StepAccount",
    "Suspect",
    "account",
    "best_algorithm",
    "compare_to_measured",
    "diagnose",
    "ensemble",
    "fit_log",
    "joined_logs",
    "microbenchmarks",
    "point_of_no_return",
    "preset_from",
    "read_log",
    "serve",
    "suggest",
    "survive",
]
