"""The writer of trace events: what each kind of event holds, and how the file is framed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from astranb.core.perfetto import counter, flow, process, rows_of, slice_, thread, write_trace


def test_times_are_microseconds_and_exact_picoseconds_are_arguments() -> None:
    made = slice_("load", 1, 2, 1_500_000, 2_000_001, category="block", op=7)
    assert (made["ph"], made["pid"], made["tid"], made["cat"]) == ("X", 1, 2, "block")
    assert (made["ts"], made["dur"]) == (1.5, 0.500001)
    assert made["args"] == {"start_ps": 1_500_000, "end_ps": 2_000_001, "op": 7}
    assert counter("L2 busy", 3, 2_000_000, busy=0.5) == {
        "ph": "C", "name": "L2 busy", "pid": 3, "ts": 2.0, "args": {"busy": 0.5},
    }  # fmt: skip


def test_names_and_order_of_tracks() -> None:
    assert [(e["name"], e["args"]) for e in process(4, "links")] == [
        ("process_name", {"name": "links"}),
        ("process_sort_index", {"sort_index": 4}),
    ]
    assert [e["args"] for e in thread(4, 9, "sm.0", 1)] == [{"name": "sm.0"}, {"sort_index": 1}]
    assert [e["args"] for e in thread(4, 9, "sm.0")] == [{"name": "sm.0"}, {"sort_index": 9}]


def test_an_arrow_binds_to_the_enclosing_slice_and_may_have_no_end() -> None:
    start, end = flow("signal", 5, (1, 2, 1000), (3, 4, 2000), category="semaphore", value=1)
    assert (start["ph"], end["ph"], end["bp"]) == ("s", "f", "e")
    assert start["id"] == end["id"] == 5
    assert start["args"] == end["args"] == {"value": 1}
    assert [e["ph"] for e in flow("message", 6, (1, 2, 0), None, category="message")] == ["s"]


def test_a_file_of_several_batches_is_json_and_the_same_bytes_each_time(tmp_path: Path) -> None:
    other: dict[str, Any] = {"title": "t"}

    def events():
        for number, ps in rows_of([range(5000), [n * 10 for n in range(5000)]]):
            yield slice_(str(number), 0, 0, ps, ps + 5, category="c")
        other["slices"] = 5000

    for name in ("a.json", "b.json.gz", "c.json.gz"):
        write_trace(events(), other, tmp_path / name)
    plain = (tmp_path / "a.json").read_bytes()
    assert gzip.decompress((tmp_path / "b.json.gz").read_bytes()) == plain
    assert (tmp_path / "b.json.gz").read_bytes() == (tmp_path / "c.json.gz").read_bytes()
    document = json.loads(plain)
    assert len(document["traceEvents"]) == 5000
    assert document["displayTimeUnit"] == "ns"
    assert document["otherData"] == {"title": "t", "slices": 5000}


def test_a_trace_without_events(tmp_path: Path) -> None:
    write_trace(iter(()), {}, tmp_path / "none.json")
    assert json.loads((tmp_path / "none.json").read_text())["traceEvents"] == []
