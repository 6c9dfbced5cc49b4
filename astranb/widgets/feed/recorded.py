"""Messages to a timeline of recorded traces: a scene, and one state, which never changes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from astranb.chakra import RecordedTracks
from astranb.core.errors import InputError
from astranb.core.plural import plural

from .feed import VERSION, Feed
from .messages import Message

__all__ = ["RecordedSession", "TraceFeed"]


class RecordedSession:
    """In the place of a session: all has happened, and nothing moves."""

    playing = blocked = False

    def __init__(self, tracks: RecordedTracks) -> None:
        self.sim = self
        self.now_ps = tracks.end_ns * 1000

    def hand(self, call: Callable[[], None]) -> None:
        """Answer at once."""
        call()

    def inspect(self, path: str, _at_ps: float | None = None) -> dict[str, Any]:
        """There is nothing behind a span."""
        raise InputError(f"{path}: a recording has spans only", where="timeline")


class TraceFeed(Feed):
    """The feed of a timeline of recorded traces."""

    engine = "trace"

    def __init__(self, tracks: RecordedTracks, title: str) -> None:
        session: Any = RecordedSession(tracks)
        super().__init__(session)
        self.tracks, self._title = tracks, title

    @property
    def title(self) -> str:
        """The name of the job."""
        return self._title

    @property
    def counts(self) -> str:
        """Number of spans of how many ranks."""
        spans, ranks = len(self.tracks), len(self.tracks.traces)
        return f"{plural(spans, 'span')} of {plural(ranks, 'rank')}"

    def mark(self) -> None:
        """Time does not move."""

    def _flights(self, _since: int) -> tuple[int, int, int, Callable[[slice], list[bytes]]]:
        return 0, 0, 0, lambda _: []

    def _scene(self) -> Message:
        empty: dict[str, list[Any]] = {
            name: []
            for name in ("gpus", "phases", "kinds", "states", "blocks", "boxes", "bundles", "tiles", "units")
        }
        return {
            **empty,
            "picture": 0,
            "recording": True,
            "width": 1,
            "height": 1,
            "hint": f"{self.counts}: {self.tracks.how}",
        }, []

    def timeline(self, *, with_spans: bool = True) -> Message:
        """There is nothing that timelines draw without asking, with spans or without."""
        del with_spans
        about = {"type": "timeline", "now_ps": self.session.sim.now_ps, "picture": 0}
        return {**about, "left_out": 0, "bin_ps": 1, "bins": 0}, []

    def state(self, *, fine: bool = False, most: int | None = None) -> Message:
        """The end of the recording."""
        del fine, most
        self._sequence += 1
        return {
            "type": "state", "seq": self._sequence, "now_ps": self.session.sim.now_ps, "events": 1,
            "counts": {}, "finished": True, "playing": False, "fast": False, "speed": 1, "status": "",
            "failed": False, "narration": "", "progress": {}, "changed": "", "first": 0, "total": 0,
            "one_in": 1, "coarse": False, "recording": True, "gaps": [], "oldest_ps": 0, "version": VERSION,
        }, []  # fmt: skip
