"""Floor 7: many runs. The best algorithm or plan, serving, microbenchmarks, presets from measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from ._accounts import StepAccount as StepAccount
    from ._accounts import account as account
    from ._algorithm_map import AlgorithmMap as AlgorithmMap
    from ._algorithm_map import algorithm_map as algorithm_map
    from ._best import best_algorithm as best_algorithm
    from ._bill import StepBill as StepBill
    from ._bill import bill as bill
    from ._collective_times import CollectiveTimes as CollectiveTimes
    from ._corpus_runs import compare_on_clusters as compare_on_clusters
    from ._corpus_runs import corpus_report as corpus_report
    from ._diagnose import Diagnosis as Diagnosis
    from ._diagnose import Suspect as Suspect
    from ._diagnose import diagnose as diagnose
    from ._ensemble import Ensemble as Ensemble
    from ._ensemble import Interval as Interval
    from ._ensemble import ensemble as ensemble
    from ._estimate import StepEstimate as StepEstimate
    from ._estimate import estimate_step as estimate_step
    from ._exported import Exported as Exported
    from ._exported import export_algorithm as export_algorithm
    from ._fit import compare_to_measured as compare_to_measured
    from ._fit import preset_from as preset_from
    from ._job_network import JobNetwork as JobNetwork
    from ._job_network import job_network as job_network
    from ._log_fit import FittedNumber as FittedNumber
    from ._log_fit import LogFit as LogFit
    from ._log_fit import fit_log as fit_log
    from ._logs import CollectiveLog as CollectiveLog
    from ._logs import LogRow as LogRow
    from ._logs import joined_logs as joined_logs
    from ._logs import read_log as read_log
    from ._microbench import microbenchmarks as microbenchmarks
    from ._no_return import NoReturn as NoReturn
    from ._no_return import point_of_no_return as point_of_no_return
    from ._plans import ModelPlan as ModelPlan
    from ._plans import PlanSearch as PlanSearch
    from ._plans import suggest as suggest
    from ._rates import ClusterRates as ClusterRates
    from ._rates import read_rates as read_rates
    from ._served import Iteration as Iteration
    from ._served import Served as Served
    from ._serving import serve as serve
    from ._skew import Skew as Skew
    from ._skew import skew as skew
    from ._survive import survive as survive
    from .sweeps.function_sweep import sweep as sweep
    from .sweeps.result import SweepResult as SweepResult
    from .sweeps.sweep import Sweep as Sweep
    from .synthesis.condition import Condition as Condition
    from .synthesis.synthesize import Synthesis as Synthesis
    from .synthesis.synthesize import synthesize as synthesize

__all__ = [
    "AlgorithmMap",
    "ClusterRates",
    "CollectiveLog",
    "CollectiveTimes",
    "Condition",
    "Diagnosis",
    "Ensemble",
    "Exported",
    "FittedNumber",
    "Interval",
    "Iteration",
    "JobNetwork",
    "LogFit",
    "LogRow",
    "ModelPlan",
    "NoReturn",
    "PlanSearch",
    "Served",
    "Skew",
    "StepAccount",
    "StepBill",
    "StepEstimate",
    "Suspect",
    "Sweep",
    "SweepResult",
    "Synthesis",
    "account",
    "algorithm_map",
    "best_algorithm",
    "bill",
    "compare_on_clusters",
    "compare_to_measured",
    "corpus_report",
    "diagnose",
    "ensemble",
    "estimate_step",
    "export_algorithm",
    "fit_log",
    "job_network",
    "joined_logs",
    "microbenchmarks",
    "point_of_no_return",
    "preset_from",
    "read_log",
    "read_rates",
    "serve",
    "skew",
    "suggest",
    "survive",
    "sweep",
    "synthesize",
]

# The options of ``astranb run`` are in a folder of this one: the command line must not load all of it.
__getattr__, __dir__ = lazy(
    __name__,
    {
        "AlgorithmMap": "_algorithm_map",
        "ClusterRates": "_rates",
        "CollectiveLog": "_logs",
        "CollectiveTimes": "_collective_times",
        "Condition": "synthesis.condition",
        "Diagnosis": "_diagnose",
        "Ensemble": "_ensemble",
        "Exported": "_exported",
        "FittedNumber": "_log_fit",
        "Interval": "_ensemble",
        "JobNetwork": "_job_network",
        "Iteration": "_served",
        "LogFit": "_log_fit",
        "LogRow": "_logs",
        "ModelPlan": "_plans",
        "NoReturn": "_no_return",
        "PlanSearch": "_plans",
        "Served": "_served",
        "Skew": "_skew",
        "StepAccount": "_accounts",
        "StepBill": "_bill",
        "StepEstimate": "_estimate",
        "Suspect": "_diagnose",
        "Sweep": "sweeps.sweep",
        "SweepResult": "sweeps.result",
        "Synthesis": "synthesis.synthesize",
        "account": "_accounts",
        "algorithm_map": "_algorithm_map",
        "best_algorithm": "_best",
        "bill": "_bill",
        "compare_to_measured": "_fit",
        "compare_on_clusters": "_corpus_runs",
        "corpus_report": "_corpus_runs",
        "diagnose": "_diagnose",
        "ensemble": "_ensemble",
        "estimate_step": "_estimate",
        "export_algorithm": "_exported",
        "fit_log": "_log_fit",
        "job_network": "_job_network",
        "joined_logs": "_logs",
        "microbenchmarks": "_microbench",
        "point_of_no_return": "_no_return",
        "preset_from": "_fit",
        "read_log": "_logs",
        "read_rates": "_rates",
        "serve": "_serving",
        "skew": "_skew",
        "suggest": "_plans",
        "survive": "_survive",
        "sweep": "sweeps.function_sweep",
        "synthesize": "synthesis.synthesize",
    },
)
