"""Floor 7: many runs. The best algorithm or plan, serving, microbenchmarks, presets from measurements."""

from ._accounts import StepAccount, account
from ._best import best_algorithm
from ._bill import StepBill, bill
from ._diagnose import Diagnosis, Suspect, diagnose
from ._ensemble import Ensemble, Interval, ensemble
from ._fit import compare_to_measured, preset_from
from ._log_fit import FittedNumber, LogFit, fit_log
from ._logs import CollectiveLog, LogRow, joined_logs, read_log
from ._microbench import microbenchmarks
from ._plans import ModelPlan, PlanSearch, suggest
from ._rates import ClusterRates, read_rates
from ._served import Iteration, Served
from ._serving import serve

__all__ = [
    "ClusterRates",
    "CollectiveLog",
    "Diagnosis",
    "Ensemble",
    "FittedNumber",
    "Interval",
    "Iteration",
    "LogFit",
    "LogRow",
    "ModelPlan",
    "PlanSearch",
    "Served",
    "StepAccount",
    "StepBill",
    "Suspect",
    "account",
    "best_algorithm",
    "bill",
    "compare_to_measured",
    "diagnose",
    "ensemble",
    "fit_log",
    "joined_logs",
    "microbenchmarks",
    "preset_from",
    "read_log",
    "read_rates",
    "serve",
    "suggest",
]
