"""A recording of a run: what the kernel would send a page, and columns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .feed import Message

__all__ = ["Columns", "PlayedRecording"]


class Columns:
    """Buffers, and by what numbers the header names them."""

    def __init__(self) -> None:
        self.buffers: list[bytes] = []

    def add(self, *buffers: bytes) -> list[int]:
        """Take buffers; gives their numbers."""
        first = len(self.buffers)
        self.buffers += buffers
        return list(range(first, len(self.buffers)))

    def message(self, message: Message) -> dict[str, Any]:
        """Take a message."""
        return {"message": message[0], "buffers": self.add(*message[1])}

    def placed(self) -> dict[str, Any]:
        """Where each stands, for the header, and the buffers themselves."""
        places, start = [], 0
        for buffer in self.buffers:
            places.append((start, len(buffer)))
            start += -(-len(buffer) // 8) * 8
        return {"places": places, "buffers": self.buffers}


@dataclass(frozen=True)
class PlayedRecording:
    """What a page plays.

    Attributes
    ----------
    fields : dict
        What ``static/offline.js`` reads, beside what every page has.
    objects : list of str
        Paths of what is looked into.
    title, caption : str
        Of the page, and a sentence about what it holds.
    """

    fields: dict[str, Any]
    objects: list[str]
    title: str
    caption: str
