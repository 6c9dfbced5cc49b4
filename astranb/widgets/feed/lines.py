"""Messages to a view of a run by cache lines: only what it lacks, as columns."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from astranb.drawing.layout import Layout, bundle_name, bundle_of, describe, lay_out
from astranb.engine.cacheline import FLIGHT_KINDS, SPAN, SPAN_STATES, CacheLineEngine
from astranb.gpu import tables as t
from astranb.widgets.session import Session

from .feed import Feed
from .messages import Message, pack

__all__ = ["LineFeed", "names_of", "picture_of", "used_links"]

_MOST_SPANS = 60_000
_COLUMNS = 512  # of an activity strip: about as many as a screen has room for
_STRIPS = ("issue", "l2", "hbm", "link", "out")
_MOST_CELLS = 1_000_000  # of all activity together


def used_links(engine: CacheLineEngine) -> np.ndarray:
    """Links that lie on any route of the program, in ascending order."""
    used = np.zeros(len(engine.machine.links), bool)
    used[np.asarray(engine.machine.route_links)] = True
    return np.flatnonzero(used)


def names_of(engine: CacheLineEngine) -> dict[str, Any]:
    """The part of the scene that neither time nor another picture changes."""
    return {
        "gpus": [engine.fabric.graph.name(int(node)) for node in engine.fabric.gpus],
        "phases": list(engine.program.phase_names),
        "kinds": list(FLIGHT_KINDS),
        "states": list(SPAN_STATES),
        "units": list(engine.traits.units),
        "managed": engine.network.managed,
        "buffers": engine.network.buffers,
    }


def picture_of(engine: CacheLineEngine, layout: Layout) -> dict[str, Any]:
    """The part of the scene that places everything."""
    rates = engine.machine.links["bandwidth_Bps"]
    boxes: list[dict[str, Any]] = [
        {
            "name": b.name, "label": b.label, "kind": b.kind, "rank": b.rank if b.count == 1 else -1,
            "ranks": [b.rank, b.last_rank], "count": b.count,
            "x": b.x, "y": b.y, "w": b.width, "h": b.height, "rail": b.rail,
        }
        for b in layout.boxes
    ]  # fmt: skip
    bundles = [
        {
            "from": a, "to": b, "rate": int(rates[list(lanes)].sum()),
            "name": bundle_name(engine.fabric, layout, number), "bent": layout.bent[number],
            "port": layout.ports[number], "family": engine.fabric.family(lanes[0]),
        }
        for number, (a, b, lanes) in enumerate(layout.bundles)
    ]  # fmt: skip
    frames = [{"name": f.name, "x": f.x, "y": f.y, "w": f.width, "h": f.height} for f in layout.frames]
    return {
        "level": layout.detail.level,
        "hot": layout.detail.hot,
        "note": describe(layout),
        "focus": layout.focus,
        "width": layout.width,
        "height": layout.height,
        "hidden": layout.hidden,
        "boxes": boxes,
        "frames": frames,
        "bundles": bundles,
        "tiles": [list(names) for names in layout.tiles],
    }


class LineFeed(Feed):
    """The feed of a run by cache lines.

    Examples
    --------
    >>> import astranb as anb
    >>> from astranb.widgets.session import session_of
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
    >>> feed = LineFeed(session_of(sim))
    >>> sim.step(2000).events
    2000
    >>> meta, buffers = feed.state()
    >>> meta["first"], meta["total"] == len(buffers[0]) // 8
    (0, True)
    >>> feed.state()[0]["first"] == meta["total"]  # nothing is sent twice
    True
    """

    engine = "cacheline"

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        fabric = self.sim.engine.fabric
        used = self.used = used_links(self.sim.engine)
        of_rank = {int(node): rank for rank, node in enumerate(fabric.gpus)}
        self.out_of: list[list[int]] = [[] for _ in of_rank]  # of each rank the used links that leave it
        for link, node in zip(used.tolist(), fabric.links["src"][used].tolist(), strict=True):
            if node in of_rank:
                self.out_of[of_rank[node]].append(link)
        self.picture = 0
        self.look()

    @property
    def title(self) -> str:
        """Description of the run, in a line."""
        title: str = self.sim.engine.title
        return title

    def look(self, opened: Collection[str] = (), focus: str = "") -> None:
        """Lay out anew: with instances opened, or one of them alone."""
        self.opened = tuple(opened)
        self.layout: Layout = lay_out(self.sim.engine.fabric, self.used, opened=opened, focus=focus)
        self.units = self.layout.units
        self.bundle_of = bundle_of(self.layout, len(self.sim.engine.machine.links))
        self.picture += 1

    def mark(self) -> None:
        """Record the present: when time has gone back, the view must forget what came later."""
        self._sent = min(self._sent, int(self.sim.engine.machine.recording.recorder[0].flights))
        self._whole = min(self._whole, self._sent)

    def drawn(self) -> Message:
        """The part of the scene that places everything; the column is the bundle of each link."""
        meta = picture_of(self.sim.engine, self.layout)
        return {**meta, "picture": self.picture, "opened": list(self.opened)}, pack(
            "picture", bundle_of=self.bundle_of
        )

    def _scene(self) -> Message:
        engine = self.sim.engine
        drawn, buffers = self.drawn()
        return {
            **names_of(engine),
            "blocks": [int(g) for g in engine.machine.blocks["gpu"]],
            "recording": engine.recorder.on,
            **drawn,
        }, buffers

    def _news(self, *, fine: bool, most: int | None) -> Message:
        engine = self.sim.engine
        engine.recorder.mark()
        news, buffers = super()._news(fine=fine, most=most)
        return {
            "changed": self._changed(),
            "recording": not engine.machine.recording.recorder[0].paused,
            "gaps": self.sim.unrecorded if engine.recorder.on else [],
            "oldest_ps": engine.recorder.oldest_ps,
            **news,
        }, buffers

    def _flights(self, since: int) -> tuple[int, int, int, Callable[[slice], list[bytes]]]:
        first, new = self.sim.engine.recorder.since(since)
        total = first + len(new)

        def packed(which: slice) -> list[bytes]:
            flights = np.asarray(new[which])
            return pack(
                "state",
                start=flights["start_ps"],
                end=flights["end_ps"],
                what=(flights["link"].astype("u4") << 4) | flights["kind"],
                wait=np.minimum(flights["start_ps"] - flights["queued_ps"], 2**32 - 1),
            )

        return first, len(new), total, packed

    def timeline(self, *, with_spans: bool = True) -> Message:
        """Return the use of memories and links, and spans of all thread blocks.

        Parameters
        ----------
        with_spans : bool
            Whether spans are wanted: a view with a kernel asks for those in sight (``sim.spans``).
        """
        sim = self.sim
        spans = sim.spans(0, sim.now_ps) if with_spans else np.zeros(0, SPAN)
        left_out = max(0, len(spans) - _MOST_SPANS)
        if left_out:  # the longest are kept
            length = spans["end_ps"] - spans["start_ps"]
            spans = spans[np.sort(np.argpartition(length, left_out)[left_out:])]
        bin_ps, strips = self._strips()
        meta = {
            "type": "timeline",
            "now_ps": sim.now_ps,
            "left_out": left_out,
            "bin_ps": bin_ps,
            "bins": strips["link"].shape[1],
            "picture": self.picture,
        }
        return meta, pack(
            "timeline",
            start=spans["start_ps"],
            end=spans["end_ps"],
            what=(spans["block"].astype("u4") << 3) | spans["state"],
            phase=spans["phase"],
            **{name: np.round(255 * np.clip(strips[name], 0, 1)) for name in _STRIPS},
        )

    def _changed(self) -> str:
        """Name what the event handled last was about."""
        machine, fabric = self.sim.engine.machine, self.sim.engine.fabric
        clock = machine.clock[0]
        if clock.events == 0:
            return ""
        kind, arg = int(clock.last_kind), int(clock.last_arg)
        if kind == t.LAUNCH:
            gpu = machine.blocks["gpu"][arg]
        elif kind == t.ISSUE:
            gpu = machine.sms["gpu"][arg]
        elif kind == t.HOP:
            at = int(self.bundle_of[machine.requests["link"][arg]])
            if at >= 0:
                return bundle_name(fabric, self.layout, at)
            return self.layout.boxes[-2 - at].name if at < -1 else ""
        else:
            gpu = machine.requests["gpu" if kind == t.RETURN else "target"][arg]
        return str(fabric.graph.name(int(fabric.gpus[int(gpu)])))

    def _strips(self) -> tuple[int, dict[str, np.ndarray]]:
        """Busy fractions over time, folded to as many columns as are shown: rows are GPUs or bundles."""
        activity = self.sim.engine.recorder.activity(links=False)
        bins, bin_ps, bundles = int(activity["bins"]), int(activity["bin_ps"]), self.layout.bundles
        if not bins:
            return 1, {name: np.zeros((0, 0)) for name in _STRIPS}
        cells = len(bundles) + 4 * len(self.out_of)
        columns = min(_COLUMNS, max(16, _MOST_CELLS // cells))
        fold = -(-bins // columns)
        width = -(-bins // fold)
        lanes = self.sim.engine.recorder.busy([lanes for *_, lanes in bundles])
        strips = {}
        for name, rows in (
            ("issue", activity["issue_busy"]),
            ("l2", activity["l2_busy"]),
            ("hbm", activity["hbm_busy"]),
            ("link", lanes),
            ("out", self.sim.engine.recorder.busy(self.out_of)),
        ):
            padded = np.zeros((len(rows), width * fold))
            padded[:, :bins] = rows
            strips[name] = padded.reshape(len(rows), width, fold).mean(axis=2)
        return bin_ps * fold, strips
