"""Experimental names: what plug-ins are written with. They may change in any release.

A name leaves this module for its own package when it is settled. A distribution that uses these requires the
releases that it was tested with, as ``astranb>=0.1,<0.2``; any other release refuses its plug-ins.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .core.lazy import lazy

__all__ = [
    "Algorithm",
    "CostModel",
    "Feed",
    "FileFormat",
    "LineFeed",
    "OperationFeed",
    "Panel",
    "Plugin",
    "TrafficTarget",
    "Translation",
    "View",
    "installed",
]

if TYPE_CHECKING:
    from astranb.collectives import Algorithm
    from astranb.core.file_formats import FileFormat
    from astranb.core.plugins import Plugin, installed
    from astranb.traffic.targets import TrafficTarget, Translation
    from astranb.widgets.feed import Feed, LineFeed, OperationFeed, Panel, View
    from astranb.workload.kernels import CostModel

__getattr__, __dir__ = lazy(
    "astranb",
    {
        "Algorithm": "collectives",
        "CostModel": "workload.kernels",
        "Feed": "widgets.feed",
        "FileFormat": "core.file_formats",
        "LineFeed": "widgets.feed",
        "OperationFeed": "widgets.feed",
        "Panel": "widgets.feed",
        "Plugin": "core.plugins",
        "TrafficTarget": "traffic.targets",
        "Translation": "traffic.targets",
        "View": "widgets.feed",
        "installed": "core.plugins",
    },
)
