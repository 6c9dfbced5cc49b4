"""Recordings keep their durations: laws on random and damaged ones, by arithmetic over their events."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astranb.chakra import (
    NodeType,
    RankFiles,
    Trace,
    durations_ns,
    link_job,
    read_kineto,
    read_ranks,
    statistics,
)
from astranb.chakra.recording.kineto import is_communication
from astranb.cli import main

from .test_syncs import ROOT, op

DATA = Path(__file__).resolve().parents[2] / "data" / "recorded"
DEVICE = ("kernel", "gpu_memcpy", "gpu_memset")
HOST = ("cpu_op", "user_annotation", "cuda_runtime", "cuda_driver")
COMMUNICATION = (
    "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevComm*, unsigned long, ncclWork*)",
    "ncclDevKernel_Generic_4(ncclDevKernelArgsStorage<4096ul>)",
    "ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)",
    "rcclGenericKernel<1, false>(ncclDevComm*)",
    "mscclKernel_Sum_half_Simple_false(ncclDevComm*, mscclAlgo*, mscclWork*)",
    "void mscclpp::allreduce_kernel<float>(float*)",
    "void nvshmemi_transfer_rma<int>(int*)",
    "void deep_ep::intranode::dispatch<8, 768>(int4*, float*)",
    "void deep_ep::internode_ll::combine<true, 7168, 9>(void*)",
    "void c10d::symmetric_memory::(anonymous namespace)::two_shot_all_reduce_kernel<float>(float**)",
)
COMPUTATION = (
    "ampere_sgemm_128x64_nn",
    "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float> >(at::native::ReduceOp<float>)",
    "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<ncclDevComm>(int)",
)
SPECIAL = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


# The oracle: arithmetic over the events of a recording, in whole nanoseconds.


def ns(us: float) -> int:
    return round(us * 1000)


def of(document: dict[str, Any], *categories: str) -> list[dict[str, Any]]:
    return [one for one in document["traceEvents"] if one.get("ph") == "X" and one["cat"] in categories]


def spans(events: Iterable[dict[str, Any]]) -> list[tuple[int, int]]:
    return [(ns(one["ts"]), ns(one["ts"]) + ns(one["dur"])) for one in events]


def covered(some: Iterable[tuple[int, int]]) -> int:
    """Length of the time in which at least one of some spans lasts."""
    total = reached = 0
    for start, end in sorted(some):
        total += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return total


def length_ns(document: dict[str, Any]) -> int:
    every = spans(of(document, *HOST, *DEVICE))
    return max(end for _, end in every) - min(start for start, _ in every)


def kernels(document: dict[str, Any]) -> Counter[tuple[str, int]]:
    return Counter((one["name"], ns(one["dur"])) for one in of(document, *DEVICE))


def divided(document: dict[str, Any]) -> dict[str, int]:
    """The time of a GPU: computing, else communicating, else copying."""
    device = of(document, *DEVICE)
    copies = spans(one for one in device if one["cat"] != "kernel")
    sends = spans(one for one in device if one["cat"] == "kernel" and one["name"] in COMMUNICATION)
    works = spans(one for one in device if one["cat"] == "kernel" and one["name"] not in COMMUNICATION)
    compute, both, every = covered(works), covered([*works, *sends]), covered([*works, *sends, *copies])
    return {"compute_ns": compute, "communication_ns": both - compute, "memory_ns": every - both}


# Recordings.


def event(
    category: str, name: str, start_ns: int, length_ns: int, tid: int = 1, **args: Any
) -> dict[str, Any]:
    return {
        "ph": "X", "cat": category, "name": name, "pid": 0, "tid": tid, "ts": start_ns / 1000,
        "dur": length_ns / 1000, "args": {key.replace("_", " "): value for key, value in args.items()},
    }  # fmt: skip


def document(events: list[dict[str, Any]], rank: int = 0, world: int = 1) -> dict[str, Any]:
    info = {"backend": "nccl", "rank": rank, "world_size": world}
    return {"schemaVersion": 1, "distributedInfo": info, "traceEvents": events}


METADATA = {
    "Collective_name": "allreduce", "dtype": "Float", "In_msg_nelems": 262144, "Out_msg_nelems": 262144,
    "Group_size": 1, "Process_Group_Name": "0",
}  # fmt: skip
GAPS_NS = st.one_of(st.integers(0, 50_000), st.integers(0, 500_000_000))
LENGTHS_NS = st.one_of(st.just(0), st.integers(1, 900), st.integers(1, 3_000_000))


@st.composite
def recordings(draw: st.DrawFn) -> dict[str, Any]:
    """Recordings of a GPU: gaps, overlapping streams, nested operations, launches and metadata left out."""
    events: list[dict[str, Any]] = []
    clock = {thread: draw(GAPS_NS) for thread in (1, 2)}
    free: dict[int, int] = {}
    begun = draw(st.integers(0, 10**9))
    for number in range(draw(st.integers(1, 12))):
        thread = draw(st.sampled_from([1, 1, 1, 2]))
        at = clock[thread] + draw(GAPS_NS)
        took = draw(st.integers(2000, 2_000_000))
        clock[thread] = at + took
        if draw(st.integers(0, 4)):
            events.append(event("cpu_op", f"aten::op{number}", at, took, thread, External_id=number))
            events += [  # nested, and one after the other
                event("cpu_op", "aten::inner", at + (1 + inner) * took // 5, took // 6, thread)
                for inner in range(draw(st.integers(0, 3)))
            ]
        if not draw(st.integers(0, 3)):
            continue
        stream = draw(st.sampled_from([7, 7, 20, 24]))
        launched = at + took // 2
        ready = max(launched, free.get(stream, 0)) if draw(st.integers(0, 5)) else launched
        start = max(ready + draw(GAPS_NS) - draw(st.sampled_from([0, 0, 0, 5000])), 0)  # a clock that is off
        length = draw(LENGTHS_NS)
        free[stream] = start + length
        more: dict[str, Any] = {"stream": stream, "device": 0, "correlation": 100 + number}
        category = draw(st.sampled_from(["kernel"] * 5 + ["gpu_memcpy", "gpu_memset"]))
        name = {"gpu_memcpy": "Memcpy HtoD (Pageable -> Device)", "gpu_memset": "Memset (Device)"}.get(
            category
        )
        if name is None:
            name = draw(st.sampled_from([*COMMUNICATION, *COMPUTATION, *COMPUTATION]))
            if name == COMMUNICATION[0] and draw(st.booleans()):
                more |= METADATA
        if draw(st.integers(0, 3)):
            call = "cudaMemcpyAsync" if category == "gpu_memcpy" else "cudaLaunchKernel"
            events.append(event("cuda_runtime", call, launched, 1500, thread, correlation=100 + number))
        events.append(event(category, name, start, length, 90, **more))
        if not draw(st.integers(0, 5)):
            wait = event(
                "cuda_runtime", "cudaDeviceSynchronize", clock[thread], start + length - clock[thread]
            )
            if wait["dur"] > 0:
                events.append(wait | {"tid": thread})
                clock[thread] = start + length
    if not events:
        events.append(event("cpu_op", "aten::op", 0, 1000))
    if draw(st.booleans()):  # a step that is not all of it
        low = draw(st.integers(0, max(clock.values())))
        events.append(event("user_annotation", "ProfilerStep#3", low, draw(st.integers(1, 10**9))))
    for one in events:
        one["ts"] = (ns(one["ts"]) + begun) / 1000
    return document(draw(st.permutations(events)))


def written(folder: Path, recorded: Sequence[dict[str, Any]]) -> list[RankFiles]:
    files = [RankFiles(None, folder / f"job.{rank}.kineto.json") for rank in range(len(recorded))]
    for file, one in zip(files, recorded, strict=True):
        file.device.write_text(json.dumps(one))
    return files


def device_rows(trace: Trace) -> np.ndarray:
    return np.flatnonzero(~trace.is_cpu_op & ~trace.is_idle)


def assert_laws(trace: Trace, recorded: dict[str, Any]) -> None:
    """Durations one by one, and that the time of the rank adds up to that of the recording."""
    took = durations_ns(trace) + trace.integers("wait_ns")
    made = Counter((str(trace.names[row]), int(took[row])) for row in device_rows(trace).tolist())
    assert made == kernels(recorded)
    found = statistics([trace])
    assert found.makespan_ns == pytest.approx(length_ns(recorded), abs=2)  # a start is rounded to the ns
    (row,) = found.by_rank
    assert min(row.values()) >= 0
    assert sum(row[f"{name}_ns"] for name in PARTS) == found.makespan_ns
    for name, right in divided(recorded).items() if kernels(recorded) else ():  # else a host computes
        assert row[name] == pytest.approx(right, abs=2 * len(trace))


PARTS = ("compute", "communication", "memory", "waiting", "host", "idle")


@SPECIAL
@given(recordings())
def test_a_converted_recording_has_its_durations_and_its_length(tmp_path, recorded):
    job = link_job(written(tmp_path, [recorded]), one_rank=True)
    assert_laws(job.traces[0], recorded)
    assert job.lengths_us[0] * 1000 == pytest.approx(length_ns(recorded), abs=2)


@settings(SPECIAL, max_examples=25)
@given(recordings())
def test_what_link_writes_run_reads_and_replays_for_no_less_time_than_a_kernel_takes(tmp_path, recorded):
    files = written(tmp_path, [recorded])
    code, out = called("chakra", "link", str(tmp_path / "job"))
    assert code == 0, out
    code, out = called("run", "trace", str(tmp_path / "job"), "--json")
    assert code == 0, out
    (rank,) = json.loads(out)["per_rank"]
    assert min(value for value in rank.values() if not isinstance(value, bool)) >= 0
    assert rank["end_ps"] >= 1000 * max((took for _, took in kernels(recorded)), default=0)
    parts = ("compute_ps", "exposed_comm_ps", "memory_ps", "idle_ps")
    assert sum(rank[name] for name in parts) == rank["end_ps"]
    assert files[0].device.exists()


def called(*args: str) -> tuple[int, str]:
    out, error = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
        code = main(list(args))
    return code, out.getvalue() if code == 0 else error.getvalue()


def two_ranks(metadata: Sequence[dict[str, Any]], late_ns: int = 300_000) -> list[dict[str, Any]]:
    """A product, then an all-reduce of 100 µs; the second rank comes late to it."""
    recorded = []
    for rank, more in enumerate(metadata):
        late = rank * late_ns
        start = 1_080_000 + late
        recorded.append(
            document(
                [
                    event("cpu_op", "aten::mm", 1_000_000, 20_000, External_id=1),
                    event("cuda_runtime", "cudaLaunchKernel", 1_005_000, 10_000, correlation=1),
                    event("kernel", COMPUTATION[0], 1_030_000, 6_600, 7, stream=7, correlation=1),
                    event("cpu_op", "record_param_comms", 1_040_000 + late, 20_000, External_id=2),
                    event("cuda_runtime", "cudaLaunchKernel", 1_045_000 + late, 10_000, correlation=2),
                    event(
                        "kernel", COMMUNICATION[0], start, 100_000 + late_ns - late, 20, stream=20,
                        correlation=2, **more,
                    ),
                ],
                rank,
                len(metadata),
            )
        )  # fmt: skip
    return recorded


@pytest.mark.parametrize("dropped", [(), ("In_msg_nelems",), ("dtype",), tuple(METADATA)])
def test_a_collective_of_unknown_size_is_said_to_be_that_and_keeps_its_duration(tmp_path, dropped):
    more = {name: value for name, value in METADATA.items() if name not in dropped}
    written(tmp_path, two_ranks([more, more]))
    (tmp_path / "job.network.yml").write_text("of an older recording")
    prefix = str(tmp_path / "job")
    code, out = called("chakra", "link", prefix, "--json")
    assert code == 0
    linked = json.loads(out)
    said = [note for note in linked["notes"] if "unknown size" in note]
    traces = read_ranks(prefix)
    rows = [int(np.flatnonzero(trace.type == NodeType.COMM_COLL)[0]) for trace in traces]
    took = [int(durations_ns(trace)[row]) for trace, row in zip(traces, rows, strict=True)]
    if dropped:
        assert said == ["2 collectives are of unknown size: durations as recorded"]
        assert (linked["network"], (tmp_path / "job.network.yml").exists()) == (None, False)
        assert [int(trace.comm_size[row]) for trace, row in zip(traces, rows, strict=True)] == [-1, -1]
        assert took == [400_000, 100_000]
    else:
        assert not said
        assert took == [100_000, 100_000]  # the last to come does not wait
        assert linked["network"]["bandwidth_GBps"] == pytest.approx(2**20 / 100_000, rel=0.01)
    code, out = called("run", "trace", prefix, "--json")
    assert code == 0, out
    for row in json.loads(out)["per_rank"]:
        assert row["compute_ps"] >= 6_600_000
        assert row["exposed_comm_ps"] > 0
    code, out = called("chakra", "statistics", prefix)
    assert ("unknown" in out) == bool(dropped)


@pytest.mark.parametrize("name", COMMUNICATION)
def test_communication_whose_launch_is_not_recorded_is_communication(tmp_path, name):
    events = [
        event("kernel", name, 5000, 6600, 7, stream=7),
        event("kernel", COMPUTATION[1], 0, 9000, 8, stream=8),
    ]
    (found,) = link_job(written(tmp_path, [document(events)]), one_rank=True).traces
    (row,) = statistics([found]).by_rank
    assert (row["compute_ns"], row["communication_ns"], row["overlapped_ns"]) == (9000, 2600, 4000)
    assert [is_communication(one) for one in COMPUTATION] == [False] * len(COMPUTATION)


def test_what_was_launched_before_the_first_step_is_kept_and_meets_no_other_rank(tmp_path):
    """Rank 0 recorded an all-reduce before the step, which rank 1 did not."""
    recorded = two_ranks([METADATA, METADATA])
    for one in recorded:
        one["traceEvents"].append(event("user_annotation", "ProfilerStep#1", 1_000_000, 800_000))
    early = event("cuda_runtime", "cudaLaunchKernel", 900_000, 10_000, correlation=9)
    kernel = event("kernel", COMMUNICATION[0], 950_000, 60_000, 20, stream=20, correlation=9, **METADATA)
    recorded[0]["traceEvents"] += [early, kernel]
    job = link_job(written(tmp_path, recorded))
    assert job.collectives == 1
    assert "1 collective has no counterpart on other ranks: durations as recorded" in job.notes
    for trace, one in zip(job.traces, recorded, strict=True):
        took = durations_ns(trace) + trace.integers("wait_ns")
        made = Counter((str(trace.names[row]), int(took[row])) for row in device_rows(trace).tolist())
        assert made == kernels(one)
    assert called("chakra", "link", str(tmp_path / "job"))[0] == 0
    code, out = called("run", "trace", str(tmp_path / "job"))
    assert code == 0, out


@settings(SPECIAL, max_examples=20)
@given(st.data())
def test_a_damaged_job_is_refused_or_linked_and_then_it_runs(tmp_path, data):
    """Recorded on two CPUs: events left out, starts shifted, durations of 0, arguments left out."""
    for rank in range(2):
        one = json.loads(gzip.decompress((DATA / f"two.{rank}.kineto.json.gz").read_bytes()))
        events = one["traceEvents"]
        for _ in range(data.draw(st.integers(0, 6))):
            at = data.draw(st.integers(0, len(events) - 1))
            change = data.draw(st.sampled_from(["drop", "shift", "zero", "bare"]))
            if change == "drop":
                del events[at]
            elif change == "shift":
                events[at]["ts"] += data.draw(st.sampled_from([-1e5, -50.0, 0.5, 3e4]))
            elif change == "zero":
                events[at]["dur"] = 0
            else:
                events[at]["args"] = {}
        (tmp_path / f"job.{rank}.kineto.json").write_text(json.dumps(one))
    prefix = str(tmp_path / "job")
    code, said = called("chakra", "link", prefix)
    if code:
        assert code == 2
        assert "Traceback" not in said
        return
    code, said = called("run", "trace", prefix, "--json")
    assert code in (0, 3), said  # ranks that wait for what was left out never end
    traces = read_ranks(prefix)
    found = statistics(traces)
    for row in found.by_rank:
        assert min(row.values()) >= 0
        assert sum(row[f"{name}_ns"] for name in PARTS) == found.makespan_ns


def test_run_and_its_explanation_have_one_exposed_communication(tmp_path):
    """A job recorded on CPUs, whose computations ASTRA-sim's own figure leaves out."""
    prefix = str(tmp_path / "two")
    assert called("chakra", "link", str(DATA / "two"), "--output", prefix)[0] == 0
    code, out = called("run", "trace", prefix)
    assert code == 0
    printed = [tuple(int(word) for word in line.split() if word.isdecimal()) for line in out.splitlines()]
    rows = json.loads(called("run", "trace", prefix, "--json")[1])
    assert printed == [(row["end_ps"] // 1000, row["exposed_comm_ps"] // 1000) for row in rows["per_rank"]]
    share = sum(exposed for _, exposed in printed) / sum(end for end, _ in printed)
    assert share == pytest.approx(rows["breakdown"]["exposed_comm"], abs=1e-6)
    assert f"exposed comm {share:.0%}" in called("run", "trace", prefix, "--explain")[1]
    assert 0 < share < 0.5


def test_the_length_of_a_recording_is_what_its_summary_says(tmp_path):
    recorded = two_ranks([METADATA, METADATA])[0]
    recorded["traceEvents"].append(event("cuda_sync", "Event Sync", 1_070_000, 900_000, stream=7))
    (file,) = written(tmp_path, [recorded])
    assert len(read_kineto(file.device).events) == len(recorded["traceEvents"])
    code, out = called("chakra", "info", str(file.device), "--json")
    assert (code, json.loads(out)["span_us"]) == (0, length_ns(recorded) // 1000)


def test_a_host_trace_joined_with_its_device_keeps_durations_too(tmp_path):
    """The join of mlcommons/chakra has whole microseconds: nanoseconds are beside them."""
    nodes = [op(1, "[pytorch|profiler|execution_trace|process]", 0, 0), op(2, ROOT, 1, 900)]
    nodes += [op(10 + number, f"aten::op{number}", 2, number) for number in range(1, 4)]
    (tmp_path / "host.json").write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes}))
    names, took = (COMPUTATION[0], COMMUNICATION[0], COMMUNICATION[1]), (6600, 12_345, 700)
    events = []
    for number, (name, length) in enumerate(zip(names, took, strict=True), 1):
        at, ids = 100_000 * number, {"External_id": number, "correlation": number}
        events += [
            event("cpu_op", f"aten::op{number}", at, 8000, Record_function_id=number, **ids)
            | {"args": {"External id": number, "Record function id": number}},
            event("cuda_runtime", "cudaLaunchKernel", at + 2000, 1000, **ids),
            event("kernel", name, at + 50_250, length, 7, stream=7, **ids),
        ]
    recorded = document(events)
    (tmp_path / "device.json").write_text(json.dumps(recorded))
    files = [str(tmp_path / name) for name in ("host.json", "device.json", "joined.json", "one.0.et")]
    assert called("chakra", "link", *files[:2], "--output", files[2])[0] == 0
    assert called("chakra", "convert", files[2], "--output", files[3])[0] == 0
    (trace,) = read_ranks(tmp_path / "one")
    made = durations_ns(trace)[device_rows(trace)]
    assert sorted(made.tolist()) == sorted(took)
    (row,) = statistics([trace]).by_rank
    assert (row["compute_ns"], row["communication_ns"]) == (took[0], took[1] + took[2])
    (tmp_path / "system.json").write_text('{"replay-only": 1}')
    code, out = called("run", "trace", str(tmp_path / "one"), "--system", str(tmp_path / "system.json"))
    assert code == 0, out
