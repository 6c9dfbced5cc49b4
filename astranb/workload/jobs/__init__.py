"""Several jobs on one network: placement, start, background traffic, and what varies from run to run."""

from __future__ import annotations

from .background import PATTERNS, BackgroundTraffic
from .collective import collective_operations, flat
from .job import ClusterJob
from .job import ClusterJob as Job
from .join import Jobs
from .placement import PLACEMENTS, FreeGpus

__all__ = [
    "PATTERNS",
    "PLACEMENTS",
    "BackgroundTraffic",
    "ClusterJob",
    "FreeGpus",
    "Job",
    "Jobs",
    "collective_operations",
    "flat",
]
