"""Options of ``astranb run``, from words to a simulation; they are also the axes of sweeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .arguments import Parser as Parser
    from .arguments import algorithm_of as algorithm_of
    from .arguments import collective_of as collective_of
    from .arguments import flag_of as flag_of
    from .arguments import function_of as function_of
    from .arguments import given as given
    from .arguments import is_contract as is_contract
    from .arguments import params_of as params_of
    from .arguments import positive as positive
    from .arguments import whole as whole
    from .inputs import Subject as Subject
    from .inputs import collective_asked as collective_asked
    from .inputs import ensemble_of as ensemble_of
    from .inputs import network_of as network_of
    from .inputs import search_of as search_of
    from .inputs import simulation_of as simulation_of
    from .inputs import step_of as step_of
    from .inputs import table_row as table_row
    from .model import DEGREES as DEGREES
    from .model import MODEL_OPTIONS as MODEL_OPTIONS
    from .model import NETWORK_OPTIONS as NETWORK_OPTIONS
    from .model import add_model_options as add_model_options
    from .model import degrees_of as degrees_of
    from .model import memory_limit_of as memory_limit_of
    from .model import sharing_steps as sharing_steps
    from .model import times_of as times_of
    from .model import traced_degrees as traced_degrees
    from .model import workload_of as workload_of
    from .run_options import COLLECTIVE as COLLECTIVE
    from .run_options import EXCHANGE as EXCHANGE
    from .run_options import FILE_WORDS as FILE_WORDS
    from .run_options import JOBS as JOBS
    from .run_options import LAYERS as LAYERS
    from .run_options import MODEL as MODEL
    from .run_options import TRACES as TRACES
    from .run_options import add_options as add_options
    from .run_options import line_of as line_of
    from .run_options import option_names as option_names
    from .run_options import options_of as options_of
    from .run_options import takes_several as takes_several

__getattr__, __dir__ = lazy(__name__)
