"""The network trace generator: from the description of a job to traffic for any network simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .figure import traffic_figure as traffic_figure
    from .graph import KIND_NAMES as KIND_NAMES
    from .graph import NODE as NODE
    from .graph import Label as Label
    from .graph import MessageGraph as MessageGraph
    from .loggp import LogGP as LogGP
    from .loggp import loggp_finish_ps as loggp_finish_ps
    from .pattern import Pattern as Pattern
    from .pattern_statistics import TrafficStatistics as TrafficStatistics
    from .pattern_statistics import statistics as statistics
    from .profiles import Profile as Profile
    from .profiles import profile_model as profile_model
    from .profiles import profile_of as profile_of
    from .profiles import profile_torch as profile_torch
    from .profiles import profile_traces as profile_traces
    from .program import template_of_program as template_of_program
    from .recorder import record as record
    from .store import read_pattern as read_pattern
    from .store import write_chakra as write_chakra
    from .store import write_pattern as write_pattern
    from .targets import TARGETS as TARGETS
    from .targets import Translation as Translation
    from .targets import read_traffic as read_traffic
    from .targets import translate as translate
    from .template import template_of as template_of

# Bokeh takes a second to load.
__getattr__, __dir__ = lazy(__name__)
