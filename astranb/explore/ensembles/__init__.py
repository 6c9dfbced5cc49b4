"""Runs that differ by chance or by their starts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .random_runs import Ensemble as Ensemble
    from .random_runs import ensemble as ensemble

__getattr__, __dir__ = lazy(__name__)
