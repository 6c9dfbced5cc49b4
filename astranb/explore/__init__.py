"""Floor 7: many runs. The best algorithm or plan, serving, microbenchmarks, presets from measurements."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .algorithms.algorithm_maps import AlgorithmMap as AlgorithmMap
    from .algorithms.algorithm_maps import algorithm_map as algorithm_map
    from .algorithms.collective_times import CollectiveTimes as CollectiveTimes
    from .algorithms.comparison import best_algorithm as best_algorithm
    from .algorithms.exported_costs import Exported as Exported
    from .algorithms.exported_costs import export_algorithm as export_algorithm
    from .calibration.expectation import Expectation as Expectation
    from .calibration.expectation import expected as expected
    from .calibration.expectation import library_run as library_run
    from .calibration.log_fit import FittedNumber as FittedNumber
    from .calibration.log_fit import LogFit as LogFit
    from .calibration.log_fit import fit_log as fit_log
    from .calibration.logs import CollectiveLog as CollectiveLog
    from .calibration.logs import LogRow as LogRow
    from .calibration.logs import joined_logs as joined_logs
    from .calibration.logs import read_log as read_log
    from .calibration.microbench import microbenchmarks as microbenchmarks
    from .calibration.preset_fit import compare_to_measured as compare_to_measured
    from .calibration.preset_fit import preset_from as preset_from
    from .calibration.slow_parts import Diagnosis as Diagnosis
    from .calibration.slow_parts import Suspect as Suspect
    from .calibration.slow_parts import diagnose as diagnose
    from .ensembles.late_starts import Skew as Skew
    from .ensembles.late_starts import skew as skew
    from .ensembles.random_runs import Ensemble as Ensemble
    from .ensembles.random_runs import Interval as Interval
    from .ensembles.random_runs import ensemble as ensemble
    from .failures.no_return import NoReturn as NoReturn
    from .failures.no_return import point_of_no_return as point_of_no_return
    from .failures.single_failures import survive as survive
    from .plans.model_plans import ModelPlan as ModelPlan
    from .plans.model_plans import PlanSearch as PlanSearch
    from .plans.model_plans import suggest as suggest
    from .plans.rates import ClusterRates as ClusterRates
    from .plans.rates import read_rates as read_rates
    from .plans.step_accounts import StepAccount as StepAccount
    from .plans.step_accounts import account as account
    from .plans.step_bills import StepBill as StepBill
    from .plans.step_bills import bill as bill
    from .plans.step_estimates import StepEstimate as StepEstimate
    from .plans.step_estimates import estimate_step as estimate_step
    from .recordings.corpus_runs import compare_on_clusters as compare_on_clusters
    from .recordings.corpus_runs import corpus_report as corpus_report
    from .recordings.job_networks import JobNetwork as JobNetwork
    from .recordings.job_networks import job_network as job_network
    from .runs.specs import CollectiveRun as CollectiveRun
    from .runs.specs import ExchangeRun as ExchangeRun
    from .runs.specs import JobsRun as JobsRun
    from .runs.specs import ModelRun as ModelRun
    from .runs.specs import RunSpec as RunSpec
    from .runs.specs import TraceRun as TraceRun
    from .runs.to_simulation import simulation_of as simulation_of
    from .serving.instances import serve as serve
    from .serving.served import Iteration as Iteration
    from .serving.served import Served as Served
    from .sweeps.function_sweep import sweep as sweep
    from .sweeps.result import SweepResult as SweepResult
    from .sweeps.sweep import Sweep as Sweep
    from .synthesis.condition import Condition as Condition
    from .synthesis.synthesizer import Synthesis as Synthesis
    from .synthesis.synthesizer import synthesize as synthesize

__getattr__, __dir__ = lazy(__name__)
