"""Synthesised collective algorithms."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .text import MOST_SENDS as MOST_SENDS

__getattr__, __dir__ = lazy(__name__)
