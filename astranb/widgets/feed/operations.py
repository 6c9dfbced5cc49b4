"""What a view of a run of operations is sent: no columns, its views ask for what they draw."""

from __future__ import annotations

from typing import Any

from astranb.engine.operations.about import STATES
from astranb.widgets.session import Session

from .feed import Feed
from .messages import Message

__all__ = ["OperationFeed"]

_MOST_NAMES = 2000


class OperationFeed(Feed):
    """The feed of a run of operations."""

    engine = "operations"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.index: tuple[Any, Any] | None = None  # spans as they were found last (views/ranks.py)

    @property
    def tracks(self) -> list[str]:
        """The tracks of a rank."""
        return list(self.sim.engine.tracks)

    @property
    def title(self) -> str:
        """What is simulated, in a line."""
        engine = self.sim.engine
        return f"{engine.title}: {engine.crowd} on {engine.about.network}"

    def mark(self) -> None:
        """Do nothing: no view has anything that going back would change."""

    def _scene(self) -> Message:
        sim = self.sim
        names = [f"rank[{rank}]" for rank in range(min(sim.ranks, _MOST_NAMES))]
        dims = [*(f"dim[{dim}]" for dim in range(len(sim.engine.about.topology))), *sim.engine.places]
        return {
            "ranks": sim.ranks,
            "tracks": self.tracks,
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

    def _news(self, *, fine: bool, most: int | None) -> Message:
        del fine, most  # nothing is ever left out
        return {
            "changed": self.sim.engine.concerned(),
            "first": 0,
            "total": 0,
            "one_in": 1,
            "coarse": False,
            "recording": True,
            "gaps": [],
            "oldest_ps": 0,
        }, []

    def timeline(self, *, with_spans: bool = True) -> Message:
        """Notify views that there is something new to ask for."""
        del with_spans
        meta = {"type": "timeline", "now_ps": self.sim.now_ps, "left_out": 0, "bin_ps": 1, "bins": 0}
        return {**meta, "picture": 0}, []
