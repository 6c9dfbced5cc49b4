"""Proofs: of a program without running it, and of the result of a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .check import Promise as Promise
    from .check import contents as contents
    from .check import promise as promise
    from .order import execute as execute

__getattr__, __dir__ = lazy(__name__)
