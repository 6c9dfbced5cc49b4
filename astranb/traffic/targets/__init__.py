"""Traffic in the formats of network simulators."""

from .read import read_traffic
from .registry import TARGETS, TrafficTarget, translate
from .translation import Translation

__all__ = ["TARGETS", "TrafficTarget", "Translation", "read_traffic", "translate"]
