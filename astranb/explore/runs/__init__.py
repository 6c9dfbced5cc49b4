"""Runs as typed specifications: from words of options and sweeps to simulations."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .from_words import FILE_WORDS as FILE_WORDS
    from .from_words import RUNS as RUNS
    from .from_words import line_of as line_of
    from .from_words import option_names as option_names
    from .from_words import spec_of as spec_of
    from .from_words import takes_several as takes_several
    from .model_steps import DEGREES as DEGREES
    from .model_steps import NETWORK_FIELDS as NETWORK_FIELDS
    from .model_steps import degrees_of as degrees_of
    from .model_steps import memory_limit_of as memory_limit_of
    from .model_steps import sharing_steps as sharing_steps
    from .model_steps import times_of as times_of
    from .model_steps import traced_degrees as traced_degrees
    from .model_steps import workload_of as workload_of
    from .readers import algorithm_of as algorithm_of
    from .readers import are_missing as are_missing
    from .readers import both_given as both_given
    from .readers import cache_bytes as cache_bytes
    from .readers import collective_of as collective_of
    from .readers import file_named as file_named
    from .readers import flag_of as flag_of
    from .readers import function_of as function_of
    from .readers import is_contract as is_contract
    from .readers import number as number
    from .readers import params_of as params_of
    from .readers import positive as positive
    from .readers import root_of as root_of
    from .readers import truth as truth
    from .readers import whole as whole
    from .specs import COLLECTIVE as COLLECTIVE
    from .specs import EXCHANGE as EXCHANGE
    from .specs import EXCHANGES as EXCHANGES
    from .specs import JOBS as JOBS
    from .specs import LAYERS as LAYERS
    from .specs import MODEL as MODEL
    from .specs import TRACES as TRACES
    from .specs import CollectiveRun as CollectiveRun
    from .specs import ExchangeRun as ExchangeRun
    from .specs import JobsRun as JobsRun
    from .specs import ModelRun as ModelRun
    from .specs import RunSpec as RunSpec
    from .specs import StepSpec as StepSpec
    from .specs import TraceRun as TraceRun
    from .specs import arguments_of as arguments_of
    from .specs import described as described
    from .specs import flag as flag
    from .specs import given as given
    from .specs import made_of as made_of
    from .specs import parameter_of as parameter_of
    from .specs import setting as setting
    from .to_simulation import Subject as Subject
    from .to_simulation import collective_asked as collective_asked
    from .to_simulation import ensemble_of as ensemble_of
    from .to_simulation import infra_of as infra_of
    from .to_simulation import network_of as network_of
    from .to_simulation import search_of as search_of
    from .to_simulation import simulation_of as simulation_of
    from .to_simulation import step_of as step_of
    from .to_simulation import subject_of as subject_of

__getattr__, __dir__ = lazy(__name__)
