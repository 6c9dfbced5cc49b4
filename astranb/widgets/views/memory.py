"""Use of issue slots, memories and links in a window: as fine as the recording has it."""

from __future__ import annotations

from typing import Any

import numpy as np

from astranb.core.density import flatten
from astranb.core.errors import InputError, near
from astranb.core.plural import plural
from astranb.core.units import format_bytes, format_time
from astranb.drawing.layout import bundle_name
from astranb.engine.cacheline import FLIGHT_KINDS, TRACK_STATES
from astranb.sim import Simulation
from astranb.widgets.feed import LineFeed, Message, View, pack

from .timeline import span_of, window_of

__all__ = ["VIEW", "activity", "activity_span"]

_ISSUING = [TRACK_STATES.index(name) for name in ("issue", "compute", "signal")]
_STRIPS = {"issue": "SM issue", "l2": "L2", "hbm": "HBM", "out": "links out"}
_MOST_FLIGHTS = 400_000  # of a window whose links are worked out flight by flight


def activity(feed: LineFeed, options: dict[str, Any]) -> Message:
    """Busy fractions of GPUs, and of the bundles of links of one of them.

    Options: ``from``, ``to`` (ps), ``columns``; ``first`` and ``last`` (one past) GPU in sight; ``bundles``:
    numbers of bundles shown one by one. Columns: a byte a row and column, 255 being all the time, of each
    GPU ``issue``, ``l2``, ``hbm`` and ``out`` (the links that leave it), then of each bundle. ``exact``:
    issue slots and links are exact for each column; L2 and HBM are known by the recording's ``bin_ps``.
    """
    sim = feed.sim
    start, end, edges = window_of(options)
    bundles = feed.layout.bundles
    gpus = len(sim.engine.machine.gpus)
    first = max(0, int(options.get("first", 0)))
    last = min(gpus, int(options.get("last", gpus)))
    chosen = [int(b) for b in options.get("bundles", []) if 0 <= int(b) < len(bundles)]
    about = {"from": start, "to": end, "columns": len(edges) - 1, "first": first, "last": max(first, last)}
    if not sim.engine.recorder.on:
        return {**about, "exact": False, "bin_ps": 0, "bundles": []}, pack("activity")
    recorded = sim.engine.recorder.activity(links=False)
    bin_ps = int(recorded["bin_ps"])
    # Line by line takes a tenth of a second; in fast-forward, Pause would wait for it.
    exact = not feed.session.fast_forward and bool((edges[1] - edges[0]) * 2 < bin_ps)
    exact = exact and sim.engine.recorder.oldest_ps <= start
    groups = [list(bundles[k][2]) for k in chosen] + feed.out_of[first:last]
    if exact:
        kept = sim.engine.recorder.since(0)[1]
        inside = (kept["start_ps"] < end) & (kept["start_ps"] + kept["wire_ps"] > start)
        exact = bool(inside.sum() <= _MOST_FLIGHTS)
    if exact:
        links = _from_flights(sim, kept[inside], start, end, edges, groups)
        tracks = sim.engine.tracks("sms")
        spent = tracks.spent(np.arange(first, last), edges, fold=True)[:, :, _ISSUING].sum(axis=2)
        engines = sim.engine.machine.gpus["sms"][first:last]
        issue = spent / np.diff(edges) / np.maximum(1, engines)[:, None]
    else:
        links = _resampled(sim.engine.recorder.busy(groups), bin_ps, edges)
        issue = _resampled(recorded["issue_busy"][first:last], bin_ps, edges)
    rows = {
        "issue": issue,
        "l2": _resampled(recorded["l2_busy"][first:last], bin_ps, edges),
        "hbm": _resampled(recorded["hbm_busy"][first:last], bin_ps, edges),
        "out": links[len(chosen) :],
        "bundles": links[: len(chosen)],
    }
    shares = {name: np.round(255 * np.clip(row, 0, 1)) for name, row in rows.items()}
    return {**about, "exact": exact, "bin_ps": bin_ps, "bundles": chosen}, pack("activity", **shares)


def activity_span(feed: LineFeed, options: dict[str, Any]) -> Message:
    """Describe the stretch of time around ``time`` in which a row was busy, or in which it was idle.

    Options: ``gpu`` and ``strip`` (``issue``, ``l2``, ``hbm`` or ``out``), or ``bundle``: the number of one;
    ``time`` (ps), and ``gap``: gaps that are shorter, in ps, do not end a stretch, as they are not drawn.
    """
    sim, time_ps, gap_ps = feed.sim, int(options["time"]), max(1, int(options.get("gap", 1)))
    recorder, bundles = sim.engine.recorder, feed.layout.bundles
    if not (recorder.on and 0 <= time_ps <= sim.now_ps):
        return {"found": False}, []
    strip, links = str(options.get("strip", "")), None
    if options.get("bundle") is not None:
        number = int(options["bundle"])
        if not 0 <= number < len(bundles):
            raise InputError(f"no bundle {number}", where="activity_span", hint=f"0 to {len(bundles) - 1}")
        links, name = list(bundles[number][2]), "link"
        path = bundle_name(sim.engine.fabric, feed.layout, number)
    else:
        gpu = int(options["gpu"])
        if strip not in _STRIPS or not 0 <= gpu < len(feed.out_of):
            raise InputError(
                f"no row {strip!r} of GPU {gpu}", where="activity_span", hint=near(strip, _STRIPS)
            )
        path, name = f"gpu[{gpu}]", _STRIPS[strip]
        links = feed.out_of[gpu] if strip == "out" else None
    if links is not None:
        if recorder.oldest_ps > time_ps:
            return {"found": False}, []
        kept = recorder.since(0)[1]
        kept = kept[np.isin(kept["link"], links)]
        begun, ended = (
            kept["start_ps"].astype(np.int64),
            (kept["start_ps"] + kept["wire_ps"]).astype(np.int64),
        )
    else:
        activity = recorder.activity(links=False)
        values, bin_ps = activity[f"{strip}_busy"][gpu], int(activity["bin_ps"])
        begun = np.flatnonzero(values > 0) * bin_ps
        ended = begun + bin_ps
    start, end, busy = _stretch(begun, ended, time_ps, gap_ps, sim.now_ps)
    if not busy:
        return span_of(path, f"{name}: idle", start, end, []), []
    if links is None:
        inside = values[start // bin_ps : -(-end // bin_ps)]
        facts = [("busy", f"{inside.mean():.0%} on average"), ("known by", f"bins of {format_time(bin_ps)}")]
        return span_of(path, f"{name}: busy", start, end, facts), []
    mine = kept[(begun < end) & (ended > start)]
    wire = np.minimum(mine["start_ps"] + mine["wire_ps"], end) - np.maximum(mine["start_ps"], start)
    kinds, counts = np.unique(mine["kind"], return_counts=True)
    waited = int((mine["start_ps"] - mine["queued_ps"]).mean())
    facts = [
        ("busy", f"{wire.sum() / max(1, end - start) / len(links):.0%} of {plural(len(links), 'lane')}"),
        ("carried", f"{format_bytes(int(mine['bytes'].sum()))} in {plural(len(mine), 'message')}"),
        *((FLIGHT_KINDS[kind], f"{count:,}") for kind, count in zip(kinds, counts.tolist(), strict=True)),
        ("queued before", f"{format_time(waited)} on average"),
    ]
    return span_of(path, f"{name}: busy", start, end, facts), []


def _stretch(
    begun: np.ndarray, ended: np.ndarray, time_ps: int, gap_ps: int, now_ps: int
) -> tuple[int, int, bool]:
    """The stretch around a time without longer gaps between what was carried, or the gap; and which it is."""
    order = np.argsort(begun, kind="stable")
    begun, until = begun[order], np.maximum.accumulate(ended[order])
    breaks = np.flatnonzero(begun[1:] - until[:-1] >= gap_ps)
    first = begun[np.append(0, breaks + 1)] if len(begun) else begun
    last = until[np.append(breaks, len(until) - 1)] if len(begun) else begun
    at = int(np.searchsorted(first, time_ps, "right")) - 1
    if at >= 0 and time_ps < last[at]:
        return int(first[at]), min(int(last[at]), now_ps), True
    start = int(last[at]) if at >= 0 else 0
    return start, min(int(first[at + 1]), now_ps) if at + 1 < len(first) else now_ps, False


def _resampled(rows: np.ndarray, bin_ps: int, edges: np.ndarray) -> np.ndarray:
    """Means over columns of what is known by bins, taken as even within a bin."""
    places = np.arange(rows.shape[1] + 1) * bin_ps
    sums = np.concatenate([np.zeros((len(rows), 1)), np.cumsum(rows, axis=1)], axis=1) * bin_ps
    until = np.array([np.interp(edges, places, row) for row in sums]).reshape(len(rows), len(edges))
    return np.asarray(np.diff(until, axis=1) / np.diff(edges))


def _from_flights(
    sim: Simulation, kept: np.ndarray, start: int, end: int, edges: np.ndarray, groups: list[list[int]]
) -> np.ndarray:
    """Means over columns of the time for which the wires of groups of links carried bits."""
    group_of: dict[int, list[int]] = {}
    for number, lanes in enumerate(groups):
        for lane in lanes:
            group_of.setdefault(lane, []).append(number)
    busy = np.zeros((len(groups), len(edges) - 1))
    link = kept["link"].astype(np.int64)
    begin, wires = kept["start_ps"], kept["start_ps"] + kept["wire_ps"]
    whole = flatten(start, end, len(sim.engine.fabric.links), 1, link, np.zeros_like(link), begin, wires)
    used = np.array(sorted(set(group_of) & set(np.unique(link).tolist())), np.int64)
    if len(used):
        until = whole.spent(np.repeat(used, len(edges)), np.tile(edges, len(used)))
        spent = np.diff(until.reshape(len(used), len(edges)), axis=1)
        for place, one in enumerate(used.tolist()):
            for number in group_of[one]:
                busy[number] += spent[place]
    sizes = np.array([max(1, len(lanes)) for lanes in groups])[:, None]
    return np.asarray(busy / np.diff(edges) / sizes)


VIEW = View(LineFeed, {"activity": activity, "activity_span": activity_span})
