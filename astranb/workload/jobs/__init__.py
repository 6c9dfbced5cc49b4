"""Several jobs on one network: placement, start, background traffic, and what varies from run to run."""

from __future__ import annotations

from .background import PATTERNS, BackgroundTraffic
from .collective import collective_operations, flat
from .file import JobsFile, read_jobs
from .job import ClusterJob
from .job import ClusterJob as Job
from .join import Jobs
from .placement import PLACEMENTS, FreeGpus
from .start import Start, started, starts_ps
from .variation import SHAPES, Failures, Jitter, LinkFault, Stragglers, Variation, Varied

__all__ = [
    "PATTERNS",
    "PLACEMENTS",
    "SHAPES",
    "BackgroundTraffic",
    "ClusterJob",
    "Failures",
    "FreeGpus",
    "Jitter",
    "Job",
    "Jobs",
    "JobsFile",
    "LinkFault",
    "Start",
    "Stragglers",
    "Variation",
    "Varied",
    "collective_operations",
    "flat",
    "read_jobs",
    "started",
    "starts_ps",
]
