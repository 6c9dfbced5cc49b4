"""Algorithms of one collective against each other: the fastest one, over sizes and numbers of ranks."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .collective_times import CollectiveTimes as CollectiveTimes
    from .collective_times import times_on as times_on
    from .link_bound import LinkBound as LinkBound

__getattr__, __dir__ = lazy(__name__)
