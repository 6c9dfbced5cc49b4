"""The public reader (mlc-chakra of PyPI) reads what we write: its jsonizer prints the nodes that we wrote."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from chakra.src.jsonizer import jsonizer

from astranb.chakra import (
    Trace,
    TraceBuilder,
    json_trace,
    link_job,
    merge,
    recorded_files,
    write,
)
from astranb.workload.models import Parallelism, workload

DATA = Path(__file__).resolve().parents[2] / "data" / "recorded"


def _built(version: str) -> Trace:
    step = TraceBuilder(version=version, model="toy")
    first = step.compute("forward", num_ops=10**12, tensor_size="1 GB", duration_us=7)
    step.collective("all_reduce", "1 MiB", group="1", dims=[True, False], after=first)
    step.send(64, 1, rank=0, tag=3, after=[first])
    step.memory_load("1 MB")
    return step.build()


def _traces() -> dict[str, Trace]:
    linked = link_job(recorded_files(DATA / "two"))
    generated = workload("gpt3-125m", Parallelism(data=2, tensor=2))
    return {
        "schema 0.0.4": _built("0.0.4"),
        "schema 1.0.0": _built("1.0.0"),
        "linked": linked.traces[0],
        "merged": merge(linked.traces, "{}"),
        "generated": generated.trace(1),
    }


@pytest.mark.parametrize("name", ["schema 0.0.4", "schema 1.0.0", "linked", "merged", "generated"])
@pytest.mark.parametrize("end", [".et", ".et.gz"])
def test_its_jsonizer_prints_what_was_written(name, end, tmp_path, monkeypatch):
    trace = _traces()[name]
    file, out = tmp_path / f"t{end}", tmp_path / "t.json"
    write(trace, file)
    words = ["chakra_jsonizer", "--input_filename", str(file), "--output_filename", str(out)]
    monkeypatch.setattr(sys, "argv", words)
    jsonizer.main()
    again = json_trace(out)
    assert (len(again), again.version) == (len(trace), trace.version)
    for column in ("id", "type", "duration_us", "comm_size", "comm_type", "num_ops", "comm_dst", "comm_tag"):
        assert getattr(again, column).tolist() == getattr(trace, column).tolist(), column
    for column in ("data_deps", "ctrl_deps"):
        theirs, ours = getattr(again, column), getattr(trace, column)
        assert (theirs.offset.tolist(), theirs.flat.tolist()) == (ours.offset.tolist(), ours.flat.tolist())
    rows = range(len(trace))
    assert [again.names[row] or "" for row in rows] == [trace.names[row] or "" for row in rows]
    assert [again.pg_name[row] for row in rows] == [trace.pg_name[row] for row in rows]
