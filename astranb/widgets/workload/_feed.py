"""What the page of a workload is sent: the messages of ``astranb.widgets._feed``, without columns."""

from __future__ import annotations

from typing import Any

from astranb.engine.operations.about import STATES
from astranb.widgets._feed import VERSION, Message

from ._session import WorkloadSession

__all__ = ["WorkloadFeed"]

_MOST_NAMES = 2000


class WorkloadFeed:
    """What one view is sent.

    Parameters
    ----------
    session : WorkloadSession
    """

    def __init__(self, session: WorkloadSession) -> None:
        self.session, self.sim = session, session._workload  # noqa: SLF001 - its own simulation, typed
        self.bench: Any = None  # the workbench that it feeds
        self._sequence = 0
        self.index: tuple[Any, Any] | None = None  # spans as they were found last, and for what

    @property
    def lanes(self) -> list[str]:
        """The lanes of a rank."""
        return list(self.sim.engine.lanes)

    @property
    def title(self) -> str:
        """What is simulated, in a line."""
        return f"{self.sim.title}: {self.sim.crowd} on {' x '.join(self.sim.engine.about.topology)}"

    def mark(self) -> None:
        """Do nothing: no view has anything that going back would change."""

    def scene(self) -> Message:
        """Everything that does not change. The view starts anew."""
        sim = self.sim
        self._sequence = 0
        names = [f"rank[{rank}]" for rank in range(min(sim.ranks, _MOST_NAMES))]
        dims = [*(f"dim[{dim}]" for dim in range(len(sim.engine.about.topology))), *sim.engine.places]
        return {
            "type": "scene",
            "version": VERSION,
            "title": self.title,
            "ranks": sim.ranks,
            "lanes": self.lanes,
            "dims": list(sim.engine.about.topology),
            "states": list(STATES),
            "names": [*names, *dims],
            "counted": "operations done",
            "hint": "Click a rank, or an operation in the graph or on the timeline; or type a path.",
            "example": f"rank[{min(3, sim.ranks - 1)}].waiting > 0",
            "units": list(sim.engine.units),
            "alike": sim.engine.stands_for,
            "titles": {"exposed": "Layers"} if "layers" in sim.result.tables else {},
            "recording": True,
            "picture": 0,
            **{name: [] for name in ("gpus", "phases", "kinds", "blocks", "boxes", "bundles", "frames")},
        }, []

    def state(self, *, fine: bool = False) -> Message:
        """Where the simulation stands."""
        del fine  # nothing is ever left out
        sim, session = self.sim, self.session
        self._sequence += 1
        return {
            "type": "state",
            "seq": self._sequence,
            "now_ps": sim.now_ps,
            "events": sim.events,
            "counts": sim.counts,
            "finished": sim.finished,
            "playing": session.running,
            "fast": session.hurried,
            "speed": session.speed,
            "status": session.status,
            "failed": session.failed,
            "narration": sim.narrate(),
            "pace": session.pace.tell() if session.hurried else {},
            "changed": sim.engine.changed(),
            "first": 0,
            "total": 0,
            "one_in": 1,
            "coarse": False,
            "recording": True,
            "gaps": [],
            "oldest_ps": 0,
        }, []

    def timeline(self, *, with_spans: bool = False) -> Message:
        """Tell the views that there is something new to ask for."""
        del with_spans
        meta = {"type": "timeline", "now_ps": self.sim.now_ps, "left_out": 0, "bin_ps": 1, "bins": 0}
        return {**meta, "picture": 0}, []
