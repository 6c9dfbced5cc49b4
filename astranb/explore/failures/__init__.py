"""Links and nodes that fail: what a machine loses, and the last moment to avoid a hang."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .link_failures import LinkFailures as LinkFailures

__getattr__, __dir__ = lazy(__name__)
