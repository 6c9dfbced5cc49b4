"""Experimental names: what plug-ins are written with. They may change in any release.

A name leaves this module for its own package when it is settled. A distribution that uses these requires the
releases that it was tested with, as ``astranb>=0.1,<0.2``; any other release refuses its plug-ins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.lazy import lazy

if TYPE_CHECKING:
    from .collectives import Algorithm as Algorithm
    from .core.file_formats import FileFormat as FileFormat
    from .core.plugins import Plugin as Plugin
    from .core.plugins import installed as installed
    from .traffic.targets import TrafficTarget as TrafficTarget
    from .traffic.targets import Translation as Translation
    from .widgets.feed import Feed as Feed
    from .widgets.feed import LineFeed as LineFeed
    from .widgets.feed import OperationFeed as OperationFeed
    from .widgets.feed import Panel as Panel
    from .widgets.feed import View as View
    from .workload.kernels import CostModel as CostModel

__getattr__, __dir__ = lazy(__name__)
