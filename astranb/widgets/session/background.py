"""Long answers, worked out a little at a time between the kernel's other work."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator
from time import perf_counter
from typing import Any

from astranb.core.errors import AstranbError

from .session import Session

__all__ = ["Background", "background_of"]

_SLICE_S = 0.006
_MOST_KEPT = 16


class _Question:
    """One question that is being worked on."""

    def __init__(self, steps: Generator[float, None, Any]) -> None:
        self.steps = steps
        self.progress = 0.0
        self.done = False
        self.result: Any = None
        self.error: AstranbError | None = None

    def go_on(self, until_s: float) -> None:
        """Work until the answer is there, or a time has come."""
        try:
            while not self.done and perf_counter() < until_s:
                self.progress = next(self.steps)
        except StopIteration as end:
            self.result, self.done = end.value, True
        except AstranbError as error:
            self.error, self.done = error, True


class Background:
    """The long questions about one simulation, and their answers."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._work: dict[Any, _Question] = {}

    def ask(self, key: Any, make: Callable[[], Generator[float, None, Any]]) -> tuple[bool, float, Any]:
        """Ask for an answer; ask again until it is there.

        Parameters
        ----------
        key : hashable
            Which question.
        make : callable
            Begins the work; each step gives the part that is done.

        Returns
        -------
        done : bool
        progress : float
        result : object
            None until it is done.

        Raises
        ------
        AstranbError
            What the work came to.
        """
        work = self._work.get(key)
        if work is None:
            work = self._work[key] = _Question(make())
            while len(self._work) > _MOST_KEPT:
                self._work.pop(next(iter(self._work)))
            if not self._session.meanwhile(lambda: _alternate(work)):
                work.go_on(float("inf"))
        if work.error is not None:
            self._work.pop(key)
            raise work.error
        return work.done, work.progress, work.result

    def finish(self) -> None:
        """Finish all questions at once."""
        for work in list(self._work.values()):
            work.go_on(float("inf"))


async def _alternate(work: _Question) -> None:
    while not work.done:
        work.go_on(perf_counter() + _SLICE_S)
        for _ in range(5):
            await asyncio.sleep(0)


def background_of(session: Session) -> Background:
    """Return the background work of a session, made on first use."""
    if session.background is None:
        session.background = Background(session)
    found: Background = session.background
    return found
