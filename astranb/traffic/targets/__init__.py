"""Traffic in the formats of network simulators."""

from ._registry import TARGETS, TrafficTarget, translate
from ._translation import Translation

__all__ = ["TARGETS", "TrafficTarget", "Translation", "translate"]
