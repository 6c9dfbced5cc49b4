"""Several jobs on one network: placement, start, background traffic, and what varies from run to run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

__all__ = ["Job"]  # under another name

if TYPE_CHECKING:
    from .background import PATTERNS as PATTERNS
    from .background import BackgroundTraffic as BackgroundTraffic
    from .collective import collective_operations as collective_operations
    from .collective import collective_row as collective_row
    from .collective import flat as flat
    from .file import JobsFile as JobsFile
    from .file import read_jobs as read_jobs
    from .job import ClusterJob as ClusterJob
    from .job import ClusterJob as Job
    from .join import Jobs as Jobs
    from .placement import PLACEMENTS as PLACEMENTS
    from .placement import FreeGpus as FreeGpus
    from .start import Start as Start
    from .start import started as started
    from .start import starts_ps as starts_ps
    from .variation import SHAPES as SHAPES
    from .variation import Failures as Failures
    from .variation import Jitter as Jitter
    from .variation import LinkFault as LinkFault
    from .variation import Stragglers as Stragglers
    from .variation import Variation as Variation
    from .variation import Varied as Varied

__getattr__, __dir__ = lazy(__name__)
