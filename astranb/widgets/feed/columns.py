"""Data of a page without Python: answers, and columns that its header names by number."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from astranb.core.errors import AstranbError
from astranb.widgets.session import background_of

from .feed import Feed
from .messages import Message
from .view import Answer, Options

__all__ = ["QUICK_EVENTS", "Columns", "answers"]

QUICK_EVENTS = 5_000_000
"""Of so many a critical path, or the past, is found in some seconds."""
_MOST_ANSWER_BYTES = 4_000_000


class Columns:
    """Buffers, and by what numbers the header names them; equal ones are one."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}
        self.size = 0  # bytes

    @property
    def buffers(self) -> list[bytes]:
        """In the order of their numbers."""
        return list(self._known)

    def add(self, *buffers: bytes) -> list[int]:
        """Take buffers; gives their numbers."""
        numbers = []
        for one in buffers:
            if one not in self._known:
                self.size += len(one)
            numbers.append(self._known.setdefault(one, len(self._known)))
        return numbers

    def message(self, message: Message) -> dict[str, Any]:
        """Take a message."""
        return {"message": message[0], "buffers": self.add(*message[1])}


def answers(
    feed: Feed,
    columns: Columns,
    known: Mapping[str, Answer],
    questions: Mapping[str, Sequence[Options]],
    unchanging: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Answers to what views ask; without one the page shows that this needs a kernel.

    ``questions`` holds the options with which each is asked; the answers of the ``unchanging`` ones do
    not depend on time.
    """
    found = []
    for question, several in questions.items():
        for options in several if question in known else ():
            try:
                meta, buffers = known[question](feed, dict(options))
                if meta.get("working") and feed.sim.events <= QUICK_EVENTS:  # a page cannot ask again
                    background_of(feed.session).finish()
                    meta, buffers = known[question](feed, dict(options))
            except (AstranbError, IndexError):
                continue  # there is no such rank, or nothing to report
            size = len(json.dumps(meta)) + sum(map(len, buffers))
            if not meta.get("working") and size <= _MOST_ANSWER_BYTES:
                about = {"question": question, "options": options, "always": question in unchanging}
                found.append({**about, **columns.message((meta, buffers))})
    return found
