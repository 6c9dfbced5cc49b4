"""Traffic in the formats of network simulators."""

from ._registry import TARGETS, Target, translate
from ._translation import Translation

__all__ = ["TARGETS", "Target", "Translation", "translate"]
