"""Messages to a view of a run of operations: its network, and the messages on it that it lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from astranb.drawing.layout import Detail, Layout, bundle_of, lay_out
from astranb.engine.operations import ACTIVITIES, COMMUNICATION, STATES, About
from astranb.widgets.session import Session
from astranb.workload.astrasim2.kinds import RECV

from .feed import Feed
from .messages import Message, pack

__all__ = ["OperationFeed", "colours_of"]

_T = TypeVar("_T")

_MOST_NAMES = 2000
_MOST_COLOURS = 10
_MOST_MARKS = 4096


def colours_of(about: About, *, rendezvous: bool = False) -> tuple[list[str], np.ndarray]:
    """Return the legend of messages, and each operation's entry: its name, or its kind where there are many.

    Returns
    -------
    names : list of str
    entry : ndarray of int64
        Of each operation.
    """
    names: list[str] = []
    entry = np.zeros(len(about.npu), np.int64)
    some = np.flatnonzero(np.isin(about.kind, COMMUNICATION) & (about.kind != RECV))
    if len(some):
        what = about.kind[some] * 1000 + about.collective[some] + 1
        for key in (np.where(about.name[some] >= 0, about.name[some], -1 - what), what):
            _, first, of = np.unique(key, return_index=True, return_inverse=True)
            if len(first) <= _MOST_COLOURS:
                break
        of = of.reshape(-1)
        word = about.label if key is not what else about.what
        # In the order of the operations, not of their numbers.
        place = np.argsort(np.argsort(first))
        names = [word(int(some[row])) for row in np.sort(first)]
        entry[some] = place[of]
    if rendezvous:
        entry[about.kind == RECV] = len(names)
        names.append("ready to receive")
    return names, entry


class OperationFeed(Feed):
    """The feed of a run of operations.

    Examples
    --------
    >>> import astranb as anb
    >>> from astranb.widgets.session import session_of
    >>> collective = anb.collectives.all_reduce("64 KiB", "ring")
    >>> sim = anb.Simulation("ring:gpus=4", collective, fidelity="analytical")
    >>> feed = OperationFeed(session_of(sim))
    >>> len(feed.scene()[0]["boxes"])
    4
    >>> sim.run().why
    'end'
    >>> meta, buffers = feed.state()
    >>> meta["first"], meta["total"] == len(buffers[0]) // 8
    (0, True)
    """

    engine = "operations"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self._found: tuple[Any, dict[Any, Any]] = (None, {})
        self.graph = self.sim.engine.link_graph()
        self.layout = self._laid_out()
        bundles = bundle_of(self.layout, len(self.graph.src))
        self.drawn = self.graph.drawn[bundles[self.graph.drawn] >= 0]
        self.bundle_of = bundles[self.drawn]
        self.kinds, self.kind_of = colours_of(
            self.sim.engine.about, rendezvous=bool(self.sim.engine.config().get("rendezvous"))
        )
        # How the recording's numbers and those of the flights that were sent belong together.
        self._marks = [(0, 0)]

    def found(self, name: Any, make: Callable[[], _T]) -> _T:
        """Return what several questions need; it is kept until time moves."""
        moment = (self.sim.events, tuple(self.sim.edits))
        if self._found[0] != moment:
            self._found = (moment, {})
        kept = self._found[1]
        if name not in kept:
            kept[name] = make()
        one: _T = kept[name]
        return one

    def _laid_out(self) -> Layout:
        """Place the network: of many ranks one group in full, the others as boxes with a number."""
        graph = self.graph
        detail = Detail("collapsed" if graph.folded else "everything", 0)
        opened = {graph.instances[0]} if graph.folded and not self.sim.engine.about.infra else ()
        return lay_out(graph, graph.drawn, opened=opened, detail=detail)

    @property
    def tracks(self) -> list[str]:
        """The tracks of a rank."""
        return list(self.sim.engine.tracks)

    @property
    def title(self) -> str:
        """Description of the run, in a line."""
        engine = self.sim.engine
        return f"{engine.title}: {engine.crowd} on {engine.about.network}"

    def mark(self) -> None:
        """Record the present: when time has gone back, the view must forget what came later."""
        recorded = self.sim.engine.recorded_flights()
        while self._marks[-1][0] > recorded:
            self._marks.pop()
        self._sent = min(self._sent, self._marks[-1][1])
        self._whole = min(self._whole, self._sent)

    def _picture(self) -> dict[str, Any]:
        """The part of the scene that places everything."""
        graph, layout = self.graph, self.layout
        boxes = []
        for b in layout.boxes:
            one = b.count == 1
            paths = {"path": graph.paths[b.node]} if one and graph.paths[b.node] != b.name else {}
            label = f"rank {b.rank}" if one and b.rank >= 0 else (one and graph.label(b.node)) or b.label
            boxes.append(
                {
                    "name": b.name, "label": label, "kind": "NPU" if one and b.rank >= 0 else b.kind,
                    "rank": b.rank if one else -1, "ranks": [b.rank, b.last_rank], "count": b.count,
                    "x": b.x, "y": b.y, "w": b.width, "h": b.height, "rail": b.rail, **paths,
                }
            )  # fmt: skip
        return {
            "level": layout.detail.level,
            "hot": 0,
            "note": " · ".join([*layout.shapes, *([graph.note] if graph.note else [])]),
            "focus": "",
            "opened": [],
            "width": layout.width,
            "height": layout.height,
            "hidden": 0,
            "boxes": boxes,
            "frames": [
                {"name": f.name, "x": f.x, "y": f.y, "w": f.width, "h": f.height} for f in layout.frames
            ],
            "bundles": [
                {
                    "from": a, "to": b, "rate": int(graph.rate_Bps[list(lanes)].sum()),
                    **self._named(a, b, lanes), "bent": layout.bent[number],
                    "port": layout.ports[number], "family": "unspecified",
                }
                for number, (a, b, lanes) in enumerate(layout.bundles)
            ],
            "tiles": [],
        }  # fmt: skip

    def _named(self, a: int, b: int, lanes: tuple[int, ...]) -> dict[str, str]:
        """A bundle's name, and what is inspected where it is clicked."""
        engine, boxes = self.sim.engine, self.layout.boxes
        name = f"{boxes[a].name}->{boxes[b].name}"
        path = engine.link_path(int(lanes[0]))
        return {"name": name, **({"path": path} if path else {})}

    def _scene(self) -> Message:
        sim = self.sim
        self._marks = [(0, 0)]
        names = [f"rank[{rank}]" for rank in range(min(sim.ranks, _MOST_NAMES))]
        dims = [*(f"dim[{dim}]" for dim in range(len(sim.engine.about.topology))), *sim.engine.places]
        return {
            "ranks": sim.ranks,
            "tracks": self.tracks,
            "dims": list(sim.engine.about.topology),
            "states": list(STATES),
            "names": [*names, *dims],
            "counted": "operations done",
            "hint": "Click a rank, a message or an operation in a picture; or type a path.",
            "example": f"rank[{min(3, sim.ranks - 1)}].waiting > 0",
            "units": list(sim.engine.traits.units),
            "alike": sim.engine.stands_for,
            "titles": {"exposed": "Layers"} if "layers" in sim.result.tables else {},
            "kinds": self.kinds,
            "activities": list(ACTIVITIES),
            "queues": sim.engine.fidelity == "congestion",
            "recording": sim.engine.recording,
            "picture": 0,
            **{name: [] for name in ("gpus", "phases", "blocks")},
            **self._picture(),
        }, pack("scene", bundle_of=self.bundle_of)

    def _news(self, *, fine: bool, most: int | None) -> Message:
        engine = self.sim.engine
        news, buffers = super()._news(fine=fine, most=most)
        return {
            "changed": engine.last_event().path,
            "recording": engine.recording,
            "gaps": [],
            "oldest_ps": 0,
            **news,
        }, buffers

    def _flights(self, since: int) -> tuple[int, int, int, Callable[[slice], list[bytes]]]:
        engine = self.sim.engine
        mark, first = next(one for one in reversed(self._marks) if one[1] <= since)
        found = engine.flights(mark)
        flights = found.flights
        place = np.searchsorted(self.drawn, flights.link)
        place[place == len(self.drawn)] = 0
        kept = np.flatnonzero(self.drawn[place] == flights.link) if len(self.drawn) else np.zeros(0, np.int64)
        settled = first + int(np.searchsorted(kept, found.settled))
        if found.total > self._marks[-1][0]:
            self._marks.append((found.total, settled))
        if len(self._marks) > _MOST_MARKS:
            del self._marks[1 : _MOST_MARKS // 2]

        def packed(which: slice) -> list[bytes]:
            rows = kept[which]
            some = flights.at(rows)
            own = np.maximum(some.operation, 0)
            kind = self.kind_of[own]
            number = engine.about.numbers(own)
            return pack(
                "state",
                start=some.start_ps,
                end=some.end_ps,
                what=(place[rows] << 4) | kind,
                wait=np.minimum(some.start_ps - some.queued_ps, 2**32 - 1),
                source=some.source,
                target=some.target,
                number=np.where(some.operation >= 0, number, 2**32 - 1),
                chunk=some.chunk,
                phase=np.minimum(some.phase, 2**16 - 1),
                step=np.minimum(some.step, 2**16 - 1),
                bytes=some.bytes,
            )

        return first, len(kept), settled, packed

    def timeline(self, *, with_spans: bool = True) -> Message:
        """Notify views that there is something new to ask for."""
        del with_spans
        meta = {"type": "timeline", "now_ps": self.sim.now_ps, "left_out": 0, "bin_ps": 1, "bins": 0}
        return {**meta, "picture": 0}, []
