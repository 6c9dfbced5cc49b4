"""Waits of streams and of the host in Kineto's traces, as dependencies."""

from __future__ import annotations

import json
from typing import Any

import pytest

from astranb.chakra import link, pytorch_trace
from astranb.core.document import DocumentNode as Value
from astranb.core.document import DocumentSource

ROOT = "[pytorch|profiler|execution_trace|thread]"


def op(number: int, name: str, parent: int, record: int) -> dict[str, Any]:
    nothing: dict[str, list[Any]] = {"values": [], "shapes": [], "types": []}
    attrs = [{"name": "rf_id", "type": "uint64", "value": record}]
    said = {"id": number, "name": name, "ctrl_deps": parent, "attrs": attrs}
    return said | {"inputs": nothing, "outputs": nothing}


def event(name: str, category: str, start: float, length: float, **args: Any) -> dict[str, Any]:
    device = category in ("kernel", "gpu_memcpy", "cuda_sync")
    return {
        "ph": "X", "cat": category, "name": name, "pid": 0, "tid": 90 if device else 1, "ts": start,
        "dur": length, "args": {key.replace("_id", " id"): value for key, value in args.items()},
    }  # fmt: skip


def launched(name: str, at: float, number: int, stream: int) -> list[dict[str, Any]]:
    """An operation of the host, its launch and what runs on the device."""
    said = {"External_id": 100 + number, "Record function_id": number}
    kernel = event(name, "kernel", at + 50, 30, correlation=number, stream=stream)
    kernel["args"]["External id"] = 100 + number
    host = event(f"aten::{name}", "cpu_op", at, 8)
    host["args"] = {key.replace("_id", " id"): value for key, value in said.items()}
    return [host, event("cudaLaunchKernel", "cuda_runtime", at + 2, 2, correlation=number), kernel]


def waits(start: float, number: int, stream: int, other: int, record: int) -> list[dict[str, Any]]:
    sync = event("Stream Wait Event", "cuda_sync", start + 60, 1, correlation=number, stream=stream)
    sync["args"] |= {
        "wait_on_stream": other, "wait_on_cuda_event_record_corr_id": record, "wait_on_cuda_event_id": 3,
    }  # fmt: skip
    return [event("cudaStreamWaitEvent", "cuda_runtime", start, 1, correlation=number), sync]


@pytest.fixture
def files(tmp_path):
    """Two kernels of stream 7, then stream 20 waits for the first of them only, then the host for all."""
    names = ["a", "b", "c", "d", "e"]
    nodes = [op(1, "[pytorch|profiler|execution_trace|process]", 0, 0), op(2, ROOT, 1, 900)]
    nodes += [op(10 + at, f"aten::{name}", 2, 1 + at) for at, name in enumerate(names)]
    events = [
        *launched("a", 100, 1, 7),
        event("cudaEventRecord", "cuda_runtime", 120, 1, correlation=50),
        *launched("b", 130, 2, 7),
        *waits(150, 51, 20, 7, 50),
        *launched("c", 160, 3, 20),
        *launched("d", 170, 4, 20),
        event("cudaDeviceSynchronize", "cuda_runtime", 200, 100, correlation=60),
        *launched("e", 400, 5, 7),
    ]
    (tmp_path / "host.json").write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes}))
    return tmp_path, events


def joined(folder, events):
    (folder / "device.json").write_text(json.dumps({"traceEvents": events}))
    found = link(folder / "host.json", folder / "device.json")
    trace = pytorch_trace(Value(found.document, DocumentSource("linked")))
    names = {int(trace.id[row]): trace.names[row] for row in range(len(trace))}
    before = {
        str(trace.names[row]): {names[int(one)] for one in trace.data_deps.of(row)}
        for row in range(len(trace))
    }
    return found, before


def test_streams_wait_for_what_was_recorded_and_the_host_for_the_device(files):
    found, before = joined(*files)
    # c for a; aten::e for the last of each stream.
    assert found.waits == 3
    assert "a" in before["c"]
    assert "b" not in before["c"]
    assert "a" not in before["d"]  # behind c in its stream
    assert {"b", "d"} <= before["aten::e"]


def test_the_host_waits_for_one_stream_or_one_event(files):
    folder, events = files
    events = [one for one in events if one["name"] != "cudaDeviceSynchronize"]
    call = event("cudaStreamSynchronize", "cuda_runtime", 200, 100, correlation=60)
    told = event("Stream Sync", "cuda_sync", 200, 100, correlation=60, stream=20)
    _, before = joined(folder, [*events, call, told])
    assert before["aten::e"] >= {"d"}
    assert "b" not in before["aten::e"]
    told = event("Event Sync", "cuda_sync", 200, 100, correlation=60, stream=-1)
    told["args"] |= {"wait_on_stream": 7, "wait_on_cuda_event_record_corr_id": 50}
    call["name"] = "cudaEventSynchronize"
    _, before = joined(folder, [*events, call, told])
    assert before["aten::e"] >= {"a"}
    assert not before["aten::e"] & {"b", "d"}


@pytest.mark.parametrize(
    "missing", ["correlation", "wait_on_stream", "wait_on_cuda_event_record_corr_id", "stream"]
)
def test_a_wait_of_which_too_little_is_said_is_left_out(files, missing):
    folder, events = files
    for one in events:
        if one["cat"] == "cuda_sync":
            one["args"].pop(missing, None)
    found, before = joined(folder, events)
    assert found.waits == 2
    assert "a" not in before["c"]


@pytest.mark.parametrize("value", [None, [], {}, "x", -1, 10**30, 2.5])
def test_nonsense_is_left_out_too(files, value):
    folder, events = files
    for one in events:
        if one["cat"] == "cuda_sync":
            one["args"] |= dict.fromkeys(
                ("stream", "wait_on_stream", "wait_on_cuda_event_record_corr_id"), value
            )
    assert joined(folder, events)[0].waits == 2
