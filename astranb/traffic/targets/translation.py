"""Result of a translation: what it wrote, and what the target cannot express."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

__all__ = ["Translation"]


@dataclass(frozen=True)
class Translation:
    """Files written for a simulator.

    Attributes
    ----------
    files : tuple of Path
        Written, all or none.
    messages : int
        Messages of the graph that are in them.
    not_expressed : tuple of str
        What the target cannot express: one sentence each, with a count.
    """

    files: tuple[Path, ...]
    messages: int
    not_expressed: tuple[str, ...]
