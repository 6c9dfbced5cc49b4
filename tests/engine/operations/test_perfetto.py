"""The Perfetto trace of a run of operations."""

import itertools
import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from astranb.engine.operations.perfetto import slots
from tests.engine.operations.support import mixed


def test_a_trace_for_perfetto_has_every_operation_once(tmp_path):
    sim = mixed()
    sim.run()
    written = sim.result.to_perfetto(tmp_path / "trace.json")
    document = json.loads((tmp_path / "trace.json").read_text())
    spans = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert written["operations"] == sim.counts["operation"] == 26
    assert len(spans) == written["operations"] + written["phases"]
    tracks: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for span in spans:
        key = (span["pid"], span["tid"])
        tracks.setdefault(key, []).append((span["args"]["start_ps"], span["args"]["end_ps"]))
    for found in tracks.values():
        ordered = sorted(found)
        assert all(one[1] <= other[0] for one, other in itertools.pairwise(ordered))
    named = {(e["pid"], e["tid"]) for e in document["traceEvents"] if e["name"] == "thread_name"}
    assert named == set(tracks)
    arrows = [event["ph"] for event in document["traceEvents"] if event["name"] == "message"]
    assert arrows == ["s", "f"]


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 50), st.integers(0, 20)), max_size=40))
def test_no_two_spans_of_a_slot_overlap(spans):
    ordered = sorted((key, start, start + length) for key, start, length in spans)
    key, start, end = (np.array([one[k] for one in ordered], np.int64) for k in range(3))
    found = slots(key, start, end)
    seen: dict[tuple[int, int], int] = {}
    for one, slot in zip(ordered, found.tolist(), strict=True):
        assert seen.get((one[0], slot), 0) <= one[1]
        seen[(one[0], slot)] = one[2]
