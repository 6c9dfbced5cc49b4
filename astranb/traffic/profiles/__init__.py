"""Profiles: what every rank of a job does, from a model's sizes, PyTorch code or traces of a few ranks."""

from .profile import Profile, profile_model, profile_of
from .torch_model import profile_torch
from .traces import profile_traces

__all__ = ["Profile", "profile_model", "profile_of", "profile_torch", "profile_traces"]
