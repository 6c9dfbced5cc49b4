"""Traffic in the formats of network simulators."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .read import read_traffic as read_traffic
    from .registry import TARGETS as TARGETS
    from .registry import TrafficTarget as TrafficTarget
    from .registry import translate as translate
    from .translation import Translation as Translation

__getattr__, __dir__ = lazy(__name__)
