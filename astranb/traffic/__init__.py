"""The network trace generator: from the description of a job to traffic for any network simulator."""

from __future__ import annotations

from ._graph import KIND_NAMES, NODE, Label, MessageGraph
from ._profile import Profile, profile_model, profile_of
from ._profile_torch import profile_torch
from ._profile_traces import profile_traces

__all__ = [
    "KIND_NAMES",
    "NODE",
    "Label",
    "MessageGraph",
    "Profile",
    "profile_model",
    "profile_of",
    "profile_torch",
    "profile_traces",
]
