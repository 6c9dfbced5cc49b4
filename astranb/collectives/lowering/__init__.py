"""Lowering: from semaphores to packets, and from programs to the tables that the machine runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .fences import paces as paces
    from .lower import Extents as Extents
    from .lower import Lowered as Lowered
    from .lower import check_packets as check_packets
    from .messages import Pairing as Pairing
    from .messages import announced as announced
    from .messages import pair as pair
    from .packets import to_packets as to_packets

__getattr__, __dir__ = lazy(__name__)
