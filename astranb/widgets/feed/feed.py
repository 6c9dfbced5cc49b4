"""What every view is sent: a scene once, then states; ``static/store.js`` is its counterpart.

Times are float64 picoseconds: exact to 2**53 ps, two and a half simulated hours.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from astranb.widgets.session import Session

from .messages import Message

__all__ = ["VERSION", "Feed"]

VERSION = 4
"""Of the wire format; the scene carries it."""


class Feed(ABC):
    """What one view has been sent so far, and what it is sent next.

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

    @property
    @abstractmethod
    def title(self) -> str:
        """What is simulated, in a line."""

    @abstractmethod
    def mark(self) -> None:
        """Record the present: when time has gone back, the view must forget what came later."""

    @abstractmethod
    def _scene(self) -> Message:
        """What of the scene follows from the engine."""

    @abstractmethod
    def _news(self, *, fine: bool, most: int | None) -> Message:
        """What the view does not have yet."""

    @abstractmethod
    def timeline(self, *, with_spans: bool = True) -> Message:
        """Give what timelines draw without asking, with or without spans."""

    def scene(self) -> Message:
        """Everything that does not change: names, phases, pictures. The view starts anew."""
        self._sequence = 0
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
