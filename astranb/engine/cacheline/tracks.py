"""Tracks: what every SM, or every thread block, did when; kept up as time goes on.

The table of operations holds the operation that each thread block was at; the recording holds when
an SM issued, and when it had no slot to issue with. Together they give for any time whether an SM
issued, computed, waited or was stalled, and on what. Results are kept: only the time since is added,
and time that was taken back is cut off.
"""

from __future__ import annotations

import numpy as np

from astranb.core.density import Stretch, flatten, join
from astranb.gpu import tables as t

from .spans import operation_spans
from .state import CacheLineState
from .time_classes import STARTED_LATE

__all__ = ["TRACK_KINDS", "TRACK_STATES", "Tracks"]

TRACK_STATES = (
    "issue", "data: no slot", "compute", "signal", "data", "data: packets", "fence", "semaphore: copy engine",
    "semaphore", "issue or data", STARTED_LATE,
)  # fmt: skip
"""States of a track (names as in ``time_classes.py``); where several thread blocks share an SM, the
first one that holds counts.

``issue``: instructions of moves back to back. ``signal``: one is, or is about to be, issued.
``data: no slot``: a warp is ready, every outstanding slot is taken. ``data``: loads are under
way. ``data: packets``: loads are repeated until a packet is there. ``fence``: until stores are
acknowledged, and the time of the fence itself. ``semaphore``: one is polled, which a thread
block or a copy engine will raise. ``issue or data``: thread blocks share issue slots, so that
their tracks cannot distinguish them, nor can an SM's where the recording has lost it.
``started late``: its rank has not started.
"""

ISSUE, NO_SLOT, COMPUTE, SIGNAL, DATA, PACKETS, FENCE, ENGINE, SEMAPHORE, MOVING, LATE = range(
    len(TRACK_STATES)
)

TRACK_KINDS = ("sms", "blocks")

_MOST = 2**24  # changes of state that are kept, about 30 bytes each; of older time less is known


Columns = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]  # tracks, states, starts, ends


class Tracks:
    """The tracks of one kind of a simulation.

    Parameters
    ----------
    engine : CacheLineState
    kind : str
        ``"sms"``: a track for each SM and copy engine that has thread blocks; ``"blocks"``:
        one for each thread block.

    Attributes
    ----------
    gpu : ndarray of int64, shape (tracks,)
        Ascending.
    number : ndarray of int64, shape (tracks,)
        Of the SM within its GPU, or of the thread block within its.
    engine : ndarray of int64, shape (tracks,)
        ``COPY_ENGINE`` or ``NIC`` if it is one, or a list of one; else 0.

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
    >>> sim.run("2 us").why
    'time'
    >>> tracks = Tracks(sim.engine, "sms")
    >>> ps = tracks.spent(np.array([0]), np.array([0, sim.now_ps]))[0, 0]
    >>> TRACK_STATES[int(np.argmax(ps))], int(ps.sum()) <= sim.now_ps
    ('fence', True)
    """

    def __init__(self, engine: CacheLineState, kind: str) -> None:
        self._engine, self.kind = engine, kind
        machine = engine.machine
        if kind == "sms":
            placed = machine.blocks["sm"] >= 0
            # Blocks that have no place yet may take any SM or copy engine of their GPU.
            blocks, sms = machine.blocks[~placed], machine.sms
            kinds = t.NIC + 1
            waits = np.unique(blocks["gpu"] * kinds + blocks["engine"])
            units = np.flatnonzero(np.isin(sms["gpu"] * kinds + sms["engine"], waits))
            used = np.union1d(machine.blocks["sm"][placed], units)
            self.gpu = machine.sms["gpu"][used].astype(np.int64)
            self.number = used - machine.gpus["first_sm"][self.gpu]
            self.engine = machine.sms["engine"][used]
            self._track_of = np.full(len(machine.sms), -1, np.int64)
            self._track_of[used] = np.arange(len(used))
        else:
            self.gpu = machine.blocks["gpu"].astype(np.int64)
            first = np.searchsorted(self.gpu, self.gpu)
            self.number = np.arange(len(self.gpu)) - first
            self.engine = machine.blocks["engine"]
            self._track_of = np.arange(len(self.gpu))
        ops = machine.ops
        raised = (ops["kind"] == t.NOTIFY) & (machine.blocks["engine"][ops["block"]] == 1)
        self._by_engine = np.zeros(len(machine.semaphores) + 1, bool)  # the last one: no semaphore
        self._by_engine[ops["semaphore"][raised]] = True
        self._stretches: list[Stretch] = []
        self._folds: list[tuple[Stretch, Stretch]] = []
        self._known_ps = 0  # worked out up to here
        self._reached: np.ndarray | None = None  # the operation that each thread block was at then
        self._bursts = 0  # of the recording, by number
        self._lowest: tuple[int, int] | None = None  # time and bursts when it was taken back furthest

    def __len__(self) -> int:
        """Number of tracks."""
        return len(self.gpu)

    def rewound(self) -> None:
        """Time has gone back: discard what is known of later at the next request."""
        here = (self._engine.now_ps, int(self._engine.machine.recording.recorder[0].bursts))
        self._lowest = here if self._lowest is None else min(self._lowest, here)

    # Keeping up --------------------------------------------------------------

    def refresh(self) -> list[Stretch]:
        """Work out what has happened since; returns everything, in order."""
        engine = self._engine
        now_ps = engine.now_ps
        if self._lowest is not None and self._lowest[0] < self._known_ps:
            self._cut(self._lowest[0])
        if self._lowest is not None:
            self._bursts = min(self._bursts, self._lowest[1])
        self._lowest = None
        if now_ps <= self._known_ps:
            return self._stretches
        self._stretches.append(self._work_out(self._known_ps, now_ps, since=self._reached))
        self._reached = engine.machine.blocks["op"].copy()
        self._bursts = int(engine.machine.recording.recorder[0].bursts)
        self._known_ps = now_ps
        # A stretch is joined with the one before unless that is much longer: there are never many.
        while len(self._stretches) > 1 and len(self._stretches[-2]) <= 2 * len(self._stretches[-1]) + 64:
            later = self._stretches.pop()
            self._stretches[-1] = join(self._stretches[-1], later)
        if sum(map(len, self._stretches)) > _MOST:
            first = self._stretches[0]
            self._stretches[0] = self._work_out(first.start_ps, first.end_ps, recorded=False)
        self._folds = [pair for pair in self._folds if any(pair[0] is one for one in self._stretches)]
        return self._stretches

    def _cut(self, time_ps: int) -> None:
        while self._stretches and self._stretches[-1].start_ps >= time_ps:
            self._stretches.pop()
        if self._stretches and self._stretches[-1].end_ps > time_ps:
            self._stretches[-1] = self._stretches[-1].until(time_ps)
        self._folds.clear()
        self._known_ps, self._reached = time_ps, None

    def _work_out(
        self, start_ps: int, end_ps: int, *, recorded: bool = True, since: np.ndarray | None = None
    ) -> Stretch:
        """Work out the states in a stretch of time that lies in the past."""
        machine = self._engine.machine
        spans = operation_spans(self._engine, start_ps, end_ps, since=since)
        ops = machine.ops[spans["op"]]
        state = np.array([MOVING, SIGNAL, SEMAPHORE, FENCE])[spans["state"]]
        state[(state == MOVING) & np.isin(ops["kind"], (t.COMPUTE, t.SPEND, t.TILE))] = COMPUTE
        state[(state == SEMAPHORE) & self._by_engine[ops["semaphore"]]] = ENGINE
        state[(state == MOVING) & (ops["spins"] > 0)] = PACKETS
        track = spans["block"].astype(np.int64)
        begin, end = spans["start_ps"], spans["end_ps"]
        if self.kind == "sms":
            track = self._track_of[machine.blocks["sm"][track]]
        columns = [(track, state, begin, end)]
        if self.kind == "sms" and recorded and self._engine.recorder.on:
            bursts, since = self._recorded(start_ps)
            moving = state == MOVING
            # Before what is recorded it stays undivided; after it, what is no burst waits for data.
            divided = np.maximum(begin, since[track])[moving]
            end = np.where(moving, np.minimum(end, since[track]), end)
            data = (track[moving], np.full(len(divided), DATA), divided, spans["end_ps"][moving])
            columns = [(track, state, begin, end), data, *bursts]
        late_ps = self._engine.late_ps[self.gpu]
        late = np.flatnonzero(late_ps > start_ps)
        if len(late):
            columns.append((late, np.full(len(late), LATE), np.zeros_like(late), late_ps[late]))
        merged = (np.concatenate(part) for part in zip(*columns, strict=True))
        return flatten(start_ps, end_ps, len(self), len(TRACK_STATES), *merged)

    def _recorded(self, start_ps: int) -> tuple[list[Columns], np.ndarray]:
        """Bursts since the last time, and from when on those of each track are complete."""
        machine, now_ps = self._engine.machine, self._engine.now_ps
        current, sms = machine.recording.current, machine.sms
        first, bursts = self._engine.recorder.bursts_since(self._bursts)
        used = np.flatnonzero(self._track_of >= 0)
        since = np.full(len(self), start_ps)
        if first > self._bursts:
            since = current["start_ps"][used].astype(np.int64)
            np.minimum.at(since, self._track_of[bursts["sm"]], bursts["start_ps"])
        states = np.array([ISSUE, COMPUTE, SIGNAL, NO_SLOT])
        issuing = used[current["state"][used] >= 0]
        stalled = used[sms["stalled"][used] == 1]
        # A slot is free again, and the SM has not issued yet: this is not recorded.
        unrecorded_ps = sms["stalled_ps"] - current["stalled_ps"]
        freed = used[unrecorded_ps[used] > 0]
        freed_ps = sms["stalled_since_ps"] + np.where(sms["stalled"] == 1, 0, unrecorded_ps)
        columns = [
            (bursts["sm"], states[bursts["state"]], bursts["start_ps"], bursts["end_ps"]),
            (
                issuing,
                states[current["state"][issuing]],
                *(current[n][issuing] for n in ("start_ps", "end_ps")),
            ),
            *(
                (rows, np.full(len(rows), NO_SLOT), sms["stalled_since_ps"][rows], until_ps[rows])
                for rows, until_ps in ((stalled, np.full(len(sms), now_ps)), (freed, freed_ps))
            ),
        ]
        return [(self._track_of[sm], state, begin, end) for sm, state, begin, end in columns], since

    # Looking -----------------------------------------------------------------

    def spent(self, tracks: np.ndarray, edges_ps: np.ndarray, *, fold: bool = False) -> np.ndarray:
        """Time that tracks spent in each state, between each two edges.

        Parameters
        ----------
        tracks : ndarray of int64, shape (rows,)
            Ascending. GPUs with ``fold``.
        edges_ps : ndarray of int64, shape (columns + 1,)
            Ascending.
        fold : bool
            Whether a row is all tracks of a GPU together.

        Returns
        -------
        ndarray of int64, shape (rows, columns, states)
            Picoseconds, exact.
        """
        edges = np.asarray(edges_ps, np.int64)
        total = np.zeros((len(tracks), len(edges) - 1, len(TRACK_STATES)), np.int64)
        for one in self.refresh():
            low = max(0, int(np.searchsorted(edges, one.start_ps, "right")) - 1)
            high = min(len(edges), int(np.searchsorted(edges, one.end_ps, "left")) + 1)
            if high - low < 2:
                continue
            source = self._fold(one) if fold else one
            rows, times = np.repeat(tracks, high - low), np.tile(edges[low:high], len(tracks))
            until = source.spent(rows, times).reshape(len(tracks), high - low, len(TRACK_STATES))
            total[:, low : high - 1] += np.diff(until, axis=1)
        return total

    def spans(self, track: int, start_ps: int, end_ps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """States, starts and ends in ps of a track's spans that overlap a window, in their order."""
        parts = [
            one.spans(track, start_ps, end_ps)
            for one in self.refresh()
            if one.end_ps > start_ps and one.start_ps < end_ps
        ]
        if not parts:
            return np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64)
        state, start, end = (np.concatenate(columns) for columns in zip(*parts, strict=True))
        goes_on = (state[1:] == state[:-1]) & (start[1:] == end[:-1])  # over the edge of a stretch
        first, last = np.append(True, ~goes_on)[: len(state)], np.append(~goes_on, True)[: len(state)]
        return state[first], start[first], end[last]

    def count(self, tracks: np.ndarray, start_ps: int, end_ps: int) -> int:
        """About how many spans of tracks overlap a window: a few too many, never too few."""
        found = 0
        for one in self.refresh():
            if one.end_ps > start_ps and one.start_ps < end_ps:
                base = np.asarray(tracks) * one.pitch - one.start_ps
                low = np.searchsorted(one.key, base + max(start_ps, one.start_ps), "right")
                high = np.searchsorted(one.key, base + min(end_ps, one.end_ps), "left")
                found += int((high - low + 1).sum())
        return found

    @property
    def changes(self) -> int:
        """Changes of state that are known."""
        return sum(map(len, self.refresh()))

    def _fold(self, one: Stretch) -> Stretch:
        for stretch, folded in self._folds:
            if stretch is one:
                return folded
        self._folds.append((one, one.folded(self.gpu, len(self._engine.machine.gpus))))
        return self._folds[-1][1]
