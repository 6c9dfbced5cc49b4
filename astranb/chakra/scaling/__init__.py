"""From a few ranks to many: the parallel plan, and what follows from it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .parallelism import GROUPS as GROUPS
    from .parallelism import NEXT_STAGE as NEXT_STAGE
    from .parallelism import PEERS as PEERS
    from .parallelism import SCHEDULES as SCHEDULES
    from .parallelism import Parallelism as Parallelism
    from .parallelism import divisors as divisors
    from .parallelism import numbered_groups as numbered_groups
    from .parallelism import plan_document as plan_document
    from .parallelism import plan_text as plan_text
    from .parallelism import share as share
    from .parallelism import take_divisor as take_divisor
    from .repeated_modules import RepeatedModules as RepeatedModules
    from .repeated_modules import commonest_repeats as commonest_repeats
    from .restage import StageRow as StageRow
    from .restage import restaged as restaged

__getattr__, __dir__ = lazy(__name__)
