"""The thread that something belongs to: what others want done is done there."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

__all__ = ["Owner"]


class Owner:
    """Something that only the thread that made it may change."""

    def __init__(self) -> None:
        self._owner = threading.get_ident()
        self._loop = running_loop()

    def hand(self, call: Callable[[], None]) -> None:
        """Have something called by the owner's thread: at once, or between two slices.

        Some versions of the kernel bring a browser's messages in other threads, while a cell
        or a slice runs.
        """
        if threading.get_ident() == self._owner:
            self._loop = running_loop() or self._loop
            call()
        elif self._loop is not None:
            self._loop.call_soon_threadsafe(call)


def running_loop() -> asyncio.AbstractEventLoop | None:
    """The event loop of this thread, if it has one."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
