"""The trace: its schema, and that it says exactly what the simulation says."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.engine.cacheline import SPAN_STATES
from tests.drawing.support import MARKUP, hostile_simulation

NEEDS = {
    "X": {"name", "cat", "pid", "tid", "ts", "dur", "args"},
    "C": {"name", "pid", "ts", "args"},
    "s": {"name", "cat", "id", "pid", "tid", "ts"},
    "f": {"name", "cat", "id", "pid", "tid", "ts", "bp"},
    "M": {"name", "pid", "tid", "args"},
}


def write(sim: anb.Simulation, path: Path, **options: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    written = sim.result.to_perfetto(path, **options)
    raw = path.read_bytes()
    document = json.loads(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    assert document["displayTimeUnit"] == "ns"
    assert {k: document["otherData"][k] for k in written} == written
    return written, document["traceEvents"]


def spans_of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["ph"] == "X" and event["cat"] == kind]


def test_every_event_has_what_its_kind_needs(ring: anb.Simulation, tmp_path: Path) -> None:
    _, events = write(ring, tmp_path / "t.json")
    assert {event["ph"] for event in events} == set(NEEDS)
    for event in events:
        assert event.keys() >= NEEDS[event["ph"]]
        if event["ph"] != "M":
            assert isinstance(event["ts"], float)
            assert event["ts"] >= 0
    named = {(e["pid"], e["tid"]) for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {(e["pid"], e["tid"]) for e in events if e["ph"] in "Xsf"} == named
    processes = {e["pid"]: e["args"]["name"] for e in events if e["name"] == "process_name"}
    assert processes[1] == "GPU0 dgx_h100.0.xpu.0"
    assert processes[9] == "links"


def test_its_spans_are_those_of_the_simulation(ring: anb.Simulation, tmp_path: Path) -> None:
    _, events = write(ring, tmp_path / "t.json.gz")
    shown = [
        (e["pid"] - 1, e["tid"] - 1, e["name"], e["args"]["start_ps"], e["args"]["end_ps"])
        for e in spans_of(events, "block")
    ]
    expected_spans = [(s.gpu, s.block, SPAN_STATES[s.state], s.start_ps, s.end_ps) for s in ring.spans()]
    assert shown == expected_spans
    for event in events:
        if event["ph"] == "X":
            assert event["ts"] == event["args"]["start_ps"] / 1e6
            assert event["dur"] == (event["args"]["end_ps"] - event["args"]["start_ps"]) / 1e6


@pytest.mark.parametrize("most_lines", [100_000, 700])
def test_spans_of_one_track_do_not_overlap(ring: anb.Simulation, tmp_path: Path, most_lines: int) -> None:
    _, events = write(ring, tmp_path / "t.json", most_lines=most_lines)
    tracks = defaultdict(list)
    for event in events:
        if event["ph"] == "X":
            args = event["args"]
            tracks[event["pid"], event["tid"]].append((args["start_ps"], args["end_ps"]))
    for track in tracks.values():
        track.sort()
        assert all(a[1] <= b[0] for a, b in pairwise(track))


def test_a_line_is_on_the_wire_for_as_long_as_its_bytes_take(ring: anb.Simulation, tmp_path: Path) -> None:
    written, events = write(ring, tmp_path / "t.json")
    _, flights = ring.engine.recorder.since(0)
    lines = spans_of(events, "link")
    assert written["lines"] == written["line_spans"] == len(lines) == len(flights)
    taken: dict[int, int] = defaultdict(int)
    for line in lines:
        taken[line["tid"] - 1] += line["args"]["end_ps"] - line["args"]["start_ps"]
    busy = ring.engine.machine.links["busy_ps"]
    assert taken == {int(k): int(busy[k]) for k in np.flatnonzero(busy)}


def test_of_many_lines_neighbours_are_merged_and_it_says_so(ring: anb.Simulation, tmp_path: Path) -> None:
    written, events = write(ring, tmp_path / "t.json", most_lines=700)
    lines = spans_of(events, "link")
    assert len(lines) == written["line_spans"] <= 700
    assert written["merged_gap_ps"] > 0
    assert sum(e["args"].get("lines", 1) for e in lines) == written["lines"] > 700
    busy = sum(e["args"].get("busy_ps", e["args"]["end_ps"] - e["args"]["start_ps"]) for e in lines)
    assert busy == int(ring.engine.machine.links["busy_ps"].sum())


def test_every_wait_has_an_arrow_from_its_signal(ring: anb.Simulation, tmp_path: Path) -> None:
    _, events = write(ring, tmp_path / "t.json")
    first = {e["id"]: e for e in events if e["ph"] == "s"}
    last = {e["id"]: e for e in events if e["ph"] == "f"}
    waits = int((ring.engine.machine.ops["kind"] == 2).sum())
    assert len(first) == len(last) == waits > 0
    within = defaultdict(list)
    for event in spans_of(events, "block"):
        within[event["pid"], event["tid"]].append((event["ts"], event["ts"] + event["dur"], event["name"]))
    for number, end in last.items():
        begin = first[number]
        assert begin["ts"] <= end["ts"]
        assert begin["pid"] != end["pid"]  # a ring signals its neighbour
        assert (
            any(a <= end["ts"] <= b and name == "waiting" for a, b, name in within[end["pid"], end["tid"]])
            or end["args"]["issued_ps"] < end["args"]["passed_ps"]
        )


def test_counters_follow_the_recording(ring: anb.Simulation, tmp_path: Path) -> None:
    written, events = write(ring, tmp_path / "t.json")
    recorded = ring.engine.recorder.activity()
    fold = written["counter_bin_ps"] // recorded["bin_ps"]
    counters = {
        e["ts"]: e["args"]["busy"]
        for e in events
        if e["ph"] == "C" and (e["pid"], e["name"]) == (1, "L2 busy")
    }
    busy = recorded["l2_busy"][0]
    at = int(busy.argmax())
    expected = busy[at // fold * fold : (at // fold + 1) * fold].sum() / fold
    assert counters[(at // fold) * written["counter_bin_ps"] / 1e6] == pytest.approx(expected, abs=1e-4)


def test_a_run_in_the_middle_and_one_without_a_recording(tmp_path: Path) -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"), record=False)
    written, events = write(sim, tmp_path / "start.json")
    assert written["spans"] == written["lines"] == written["counters"] == 0
    sim.step(3000)
    written, events = write(sim, tmp_path / "middle.json")
    assert written["spans"] == len(sim.spans()) > 0
    assert not written["finished"]
    assert {e["ph"] for e in events} <= {"X", "M", "s", "f"}


def test_the_same_run_gives_the_same_bytes(ring: anb.Simulation, tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        ring.result.to_perfetto(tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def test_hostile_names_and_impossible_places(tmp_path: Path) -> None:
    _, events = write(hostile_simulation(), tmp_path / "t.json")
    names = [e["args"]["name"] for e in events if e["name"] == "process_name"]
    assert any(MARKUP in name for name in names)
    with pytest.raises(InputError, match="cannot be written"):
        hostile_simulation().result.to_perfetto(tmp_path / "no" / "t.json")
