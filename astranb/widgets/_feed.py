"""What a view is sent: small JSON with columns (``_messages.py``), and only what the view lacks.

``static/store.js`` is its counterpart. Times are float64 picoseconds: exact to 2**53 ps, two and a half
simulated hours.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from astranb.core.units import format_bytes
from astranb.engine.cacheline import FLIGHT_KINDS, SPAN_STATES
from astranb.gpu import tables as t
from astranb.sim import Simulation

from ._layout import Layout, lay_out
from ._messages import pack
from ._picture import bundle_name, bundle_of, picture
from ._session import Session

__all__ = ["VERSION", "Feed", "Message", "used_links"]

VERSION = 3
"""Of the wire format; the scene carries it."""

Message = tuple[dict[str, Any], list[bytes]]

_MOST_AT_ONCE = 10_000  # flights in a message that must be quick: 0.2 MB
_MOST_IN_A_HURRY = 2_000  # while it runs as fast as it can: Pause comes after what is on its way
_MOST_AT_REST = 2**20  # in one that may take a moment: 25 MB, all that the ring holds
_MOST_SPANS = 60_000
_COLUMNS = 512  # of an activity strip: about as many as a screen has room for
_STRIPS = ("issue", "l2", "hbm", "link", "out")
_MOST_CELLS = 1_000_000  # of all activity together


def used_links(sim: Simulation) -> np.ndarray:
    """Links that lie on any way of the program."""
    return np.unique(np.asarray(sim.engine.machine.route_links))


class Feed:
    """What one view has been sent so far, and what it is sent next.

    Parameters
    ----------
    session : Session

    Examples
    --------
    >>> import astranb as anb
    >>> from astranb.widgets._session import session_of
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
    >>> feed = Feed(session_of(sim))
    >>> sim.step(2000).events
    2000
    >>> meta, buffers = feed.state()
    >>> meta["first"], meta["total"] == len(buffers[0]) // 8
    (0, True)
    >>> feed.state()[0]["first"] == meta["total"]  # nothing is sent twice
    True
    """

    def __init__(self, session: Session) -> None:
        self.session, self.sim = session, session.sim
        used = used_links(self.sim)
        of_rank = {int(node): rank for rank, node in enumerate(self.sim.engine.fabric.gpus)}
        self.out_of: list[list[int]] = [[] for _ in of_rank]  # of each rank the used links that leave it
        for link, node in zip(used.tolist(), self.sim.engine.fabric.links["src"][used].tolist(), strict=True):
            if node in of_rank:
                self.out_of[of_rank[node]].append(link)
        self.picture = 0
        self.look()
        self._sent = 0  # flights, by number
        self._whole = 0  # up to here every one, or as many as are ever sent
        self._sequence = 0
        self.bench: Any = None  # the workbench that it feeds

    @property
    def coarse(self) -> bool:
        """Whether only some of the flights of late have been sent."""
        return self._whole < self._sent

    def look(self, opened: Collection[str] = (), focus: str = "") -> None:
        """Lay out anew: with instances opened, or one of them alone."""
        self.opened = tuple(opened)
        self.layout: Layout = lay_out(
            self.sim.engine.fabric, used_links(self.sim), opened=opened, focus=focus
        )
        self.units = self.layout.units
        self.drawn = bundle_of(self.layout, len(self.sim.engine.machine.links))
        self.picture += 1

    def mark(self) -> None:
        """Note the present: when time has gone back, the view must forget what it has of later."""
        self._sent = min(self._sent, int(self.sim.engine.machine.recorder[0].flights))
        self._whole = min(self._whole, self._sent)

    def scene(self) -> Message:
        """Everything that does not change: boxes, bundles, names, phases. The view starts anew."""
        sim = self.sim
        self._sent = self._whole = self._sequence = 0
        drawn, buffers = picture(sim, self.layout, self.picture, self.opened)
        scene = {
            "type": "scene",
            "version": VERSION,
            "title": f"{sim.engine.work.title}, {format_bytes(sim.engine.work.size)}, on {sim.engine.infra.name}",
            "gpus": [sim.engine.fabric.graph.name(int(node)) for node in sim.engine.fabric.gpus],
            "phases": list(sim.engine.program.phase_names),
            "kinds": list(FLIGHT_KINDS),
            "states": list(SPAN_STATES),
            "blocks": [int(g) for g in sim.engine.machine.blocks["gpu"]],
            "recording": sim.engine.recorder.on,
            "managed": sim.engine.network.managed,
            "buffers": sim.engine.network.buffers,
            **drawn,
        }
        return scene, buffers

    def state(self, *, fine: bool = False, most: int | None = None) -> Message:
        """Where the simulation stands, and the flights that the view does not have yet.

        Parameters
        ----------
        fine : bool
            Make good what was left out in a hurry: at rest there is time for it.
        most : int, optional
            Most flights to send; of more, every n-th is sent.
        """
        sim, session = self.sim, self.session
        total = sim.engine.recorder.mark()
        self.mark()
        first, new = sim.engine.recorder.since(self._whole if fine else self._sent)
        quick = _MOST_IN_A_HURRY if session.hurried or self.coarse else _MOST_AT_ONCE
        most = most or (_MOST_AT_REST if fine else quick)
        one_in = max(1, -(-len(new) // most))
        flights = np.asarray(new[::one_in])
        if fine or (one_in == 1 and not self.coarse):
            self._whole = total
        self._sent = total
        self._sequence += 1
        meta = {
            "type": "state",
            "seq": self._sequence,
            "now_ps": sim.now_ps,
            "events": sim.events,
            "finished": sim.finished,
            "playing": session.running,
            "fast": session.hurried,
            "speed": session.speed,
            "status": session.status,
            "failed": session.failed,
            "narration": sim.narrate(),
            "pace": session.pace.tell() if session.hurried else {},
            "changed": self._changed(),
            "first": first,
            "total": total,
            "one_in": one_in,
            "coarse": self.coarse,
            "recording": not sim.engine.machine.recorder[0].paused,
            "gaps": sim.unrecorded if sim.engine.recorder.on else [],
            "oldest_ps": sim.engine.recorder.oldest_ps,
        }
        return meta, pack(
            "state",
            start=flights["start_ps"],
            end=flights["end_ps"],
            what=(flights["link"].astype("u4") << 4) | flights["kind"],
            wait=np.minimum(flights["start_ps"] - flights["queued_ps"], 2**32 - 1),
        )

    def timeline(self, *, with_spans: bool = True) -> Message:
        """How busy memories and links were, and spans of all thread blocks.

        Parameters
        ----------
        with_spans : bool
            Whether spans are wanted: a view with a kernel asks for those in sight (``_spans.py``).
        """
        sim = self.sim
        spans = sim.spans(0, sim.now_ps if with_spans else -1)
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
            at = int(self.drawn[machine.requests["link"][arg]])
            if at >= 0:
                return bundle_name(self.sim, self.layout, at)
            return self.layout.boxes[-2 - at].name if at < -1 else ""
        else:
            gpu = machine.requests["gpu" if kind == t.RETURN else "target"][arg]
        return fabric.graph.name(int(fabric.gpus[int(gpu)]))

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
