"""Recordings of PyTorch, and the traces of a job made from them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .pieces import OUTSIDE as OUTSIDE
    from .pytorch import ROOTS as ROOTS

__getattr__, __dir__ = lazy(__name__)
