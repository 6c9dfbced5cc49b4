"""Profiles: what every rank of a job does, from a model's sizes, PyTorch code or traces of a few ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .profile import Profile as Profile
    from .profile import profile_model as profile_model
    from .profile import profile_of as profile_of
    from .torch_model import profile_torch as profile_torch
    from .traces import profile_traces as profile_traces

__getattr__, __dir__ = lazy(__name__)
