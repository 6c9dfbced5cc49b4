"""Layout of a system in a picture: deterministic, from the fabric alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .bundles import bundle_name as bundle_name
    from .bundles import bundle_of as bundle_of
    from .bundles import describe as describe
    from .collapse import Detail as Detail
    from .collapse import Units as Units
    from .layout import lay_out as lay_out
    from .parts import Box as Box
    from .parts import Frame as Frame
    from .parts import Layout as Layout

__getattr__, __dir__ = lazy(__name__)
