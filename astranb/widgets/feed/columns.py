"""Columns of a page without a Python kernel: buffers that its header names by number."""

from __future__ import annotations

from typing import Any

from .messages import Message

__all__ = ["Columns"]


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
        """The place of each buffer, for the header, and the buffers."""
        places, start = [], 0
        for buffer in self.buffers:
            places.append((start, len(buffer)))
            start += -(-len(buffer) // 8) * 8
        return {"places": places, "buffers": self.buffers}
