"""The network trace generator: from the description of a job to traffic for any network simulator."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

from .graph import KIND_NAMES, NODE, Label, MessageGraph
from .loggp import LogGP, loggp_finish_ps
from .pattern import Pattern
from .pattern_statistics import TrafficStatistics, statistics
from .profiles import Profile, profile_model, profile_of, profile_torch, profile_traces
from .program import template_of_program
from .recorder import record
from .store import read_pattern, write_chakra, write_pattern
from .targets import TARGETS, Translation, read_traffic, translate
from .template import template_of

if TYPE_CHECKING:
    from .figure import traffic_figure as traffic_figure

__all__ = [
    "KIND_NAMES",
    "NODE",
    "TARGETS",
    "Label",
    "LogGP",
    "MessageGraph",
    "Pattern",
    "Profile",
    "TrafficStatistics",
    "Translation",
    "loggp_finish_ps",
    "profile_model",
    "profile_of",
    "profile_torch",
    "profile_traces",
    "read_pattern",
    "read_traffic",
    "record",
    "statistics",
    "template_of",
    "template_of_program",
    "traffic_figure",
    "translate",
    "write_chakra",
    "write_pattern",
]

# Bokeh takes a second to load.
__getattr__, _ = lazy(__name__, {"traffic_figure": "figure"})
