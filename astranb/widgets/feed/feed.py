"""Messages to every view: a scene once, then states; ``static/store.js`` receives them.

Times are float64 picoseconds: exact to 2**53 ps, two and a half simulated hours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

from astranb.widgets.session import Session

from .messages import Message

__all__ = ["VERSION", "Feed"]

VERSION = 5
"""Of the wire format; the scene carries it."""


_MOST_AT_ONCE = 10_000  # flights in a message that must be quick: 0.2 MB
_MOST_FAST = 2_000  # in fast-forward: Pause comes after what is on its way
_MOST_AT_REST = 2**20  # in one that may take a moment: 25 MB, all that the ring holds


class Feed(ABC):
    """Messages to one view: what it has been sent so far, and what it is sent next.

    Attributes
    ----------
    workbench : Workbench or None
        The workbench that it feeds.
    """

    engine: str
    """``"cacheline"`` or ``"operations"``: which views there are."""

    def __init__(self, session: Session) -> None:
        self.session, self.sim = session, session.sim
        self.workbench: Any = None
        self.curves: Any = None  # of watches, as they were found last (views/breakpoints.py)
        self._sequence = 0
        self._sent = 0  # flights, by number
        self._whole = 0  # up to here every one, or as many as are ever sent

    @property
    def coarse(self) -> bool:
        """Whether only some of the flights of late have been sent."""
        return self._whole < self._sent

    @property
    @abstractmethod
    def title(self) -> str:
        """Description of the run, in a line."""

    @abstractmethod
    def mark(self) -> None:
        """Record the present: when time has gone back, the view must forget what came later."""

    @abstractmethod
    def _scene(self) -> Message:
        """Return the part of the scene that follows from the engine."""

    @abstractmethod
    def _flights(self, since: int) -> tuple[int, int, int, Callable[[slice], list[bytes]]]:
        """Flights from a number on.

        Returns the number of the first, how many there are, up to which number they stay as they are, and
        what packs the columns of some of them.
        """

    def _news(self, *, fine: bool, most: int | None) -> Message:
        """Return what the view does not have yet."""
        self.mark()
        first, count, settled, packed = self._flights(self._whole if fine else self._sent)
        quick = _MOST_FAST if self.session.fast_forward or self.coarse else _MOST_AT_ONCE
        one_in = max(1, -(-count // (most or (_MOST_AT_REST if fine else quick))))
        if fine or (one_in == 1 and not self.coarse):
            self._whole = settled
        self._sent = settled
        news = {"first": first, "total": first + count, "one_in": one_in, "coarse": self.coarse}
        return news, packed(slice(None, None, one_in))

    @abstractmethod
    def timeline(self, *, with_spans: bool = True) -> Message:
        """Return what timelines draw without asking, with or without spans."""

    def scene(self) -> Message:
        """Everything that does not change: names, phases, pictures. The view starts anew."""
        self._sequence = self._sent = self._whole = 0
        own, buffers = self._scene()
        return {"type": "scene", "version": VERSION, "title": self.title, **own}, buffers

    def state(self, *, fine: bool = False, most: int | None = None) -> Message:
        """The state of the simulation, and what the view does not have yet.

        Parameters
        ----------
        fine : bool
            Send also what was left out while the run played: at rest there is time for it.
        most : int, optional
            Most flights to send; of more, every n-th is sent.
        """
        sim, session = self.sim, self.session
        news, buffers = self._news(fine=fine, most=most)
        self._sequence += 1
        return {
            "type": "state",
            "seq": self._sequence,
            "now_ps": sim.now_ps,
            "events": sim.events,
            "counts": sim.counts,
            "finished": sim.finished,
            "playing": session.running,
            "fast": session.fast_forward,
            "speed": session.speed,
            "status": session.status,
            "failed": session.failed,
            "narration": sim.narrate(),
            "progress": session.progress.report() if session.fast_forward else {},
            **news,
        }, buffers
