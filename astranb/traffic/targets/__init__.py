"""Traffic in the formats of network simulators."""

from ._read import read_traffic
from ._registry import TARGETS, TrafficTarget, translate
from ._translation import Translation

__all__ = ["TARGETS", "TrafficTarget", "Translation", "read_traffic", "translate"]
