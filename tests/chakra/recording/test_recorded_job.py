"""Jobs recorded on all ranks: linked, converted and simulated."""

from __future__ import annotations

import contextlib
import gzip
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.chakra import (
    CollectiveType,
    LinkedJob,
    NodeType,
    RankFiles,
    Trace,
    TraceBuilder,
    link_job,
    read,
    read_kineto,
    read_ranks,
    recorded_files,
    write,
    write_job,
)
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.engine.messages import Run
from astranb.workload.astrasim2 import DimensionNetwork, System, Workload, load
from astranb.workload.astrasim2.traces import operations_of
from tests.chakra.formats.test_from_elsewhere import damaged

from .test_syncs import ROOT, event, launched, op

DATA = Path(__file__).resolve().parents[2] / "data" / "recorded"
SYSTEM = {
    "preferred-dataset-splits": 1,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"],
    "reduce-scatter-implementation": ["ring"],
    "all-to-all-implementation": ["direct"],
}


def simulated_us(job: LinkedJob, folder: Path, bandwidth_gbps: float, latency_ns: float) -> np.ndarray:
    """Return the time of the recorded steps of each rank, all of them on one switch."""
    ranks = len(job.traces)
    write_job(job, folder / "job")
    (folder / "system.json").write_text(json.dumps(SYSTEM))
    network = (
        f"topology: [Switch]\nnpus_count: [{ranks}]\nbandwidth: [{bandwidth_gbps}]\nlatency: [{latency_ns}]"
    )
    (folder / "network.yml").write_text(network)
    files = (folder / "job", folder / "system.json", folder / "network.yml")
    run = Run(load(*files, groups=folder / "job.groups.json"))
    run.finish()
    run.result()
    ends = np.split(run.machine.operations["end_ns"], np.cumsum([len(one) for one in job.traces])[:-1])
    return np.array([end.max() / 1000 for end in ends]) - job.begun_us


def replayed_us(job: LinkedJob) -> float:
    """Return the time of the steps of one rank if collectives keep their recorded durations."""
    operations = operations_of(job.traces[0], replay=True)
    system = System.from_document(SYSTEM | {"replay-only": 1})
    run = Run(Workload([operations], DimensionNetwork(["Switch"], [1], [100], [1000]), system))
    run.finish()
    return float(run.machine.operations["end_ns"].max()) / 1000


def measured_us(job: LinkedJob) -> np.ndarray:
    return np.array(job.lengths_us)


@pytest.fixture(scope="module")
def jobs() -> dict[str, LinkedJob]:
    return {name: link_job(recorded_files(DATA / name)) for name in ("two", "four")}


def messages(trace: Trace) -> list[str]:
    """Return a word for each communication of a rank."""
    kinds = {int(one): one.name.lower() for one in CollectiveType}
    told = []
    for row in np.flatnonzero(trace.type >= NodeType.COMM_SEND).tolist():
        if trace.type[row] == NodeType.COMM_COLL:
            told.append(f"{kinds[int(trace.comm_type[row])]} {trace.comm_size[row]} in {trace.pg_name[row]}")
        else:
            ends = f"{trace.comm_src[row]}>{trace.comm_dst[row]}"
            told.append(f"{ends} {trace.comm_size[row]} tag {trace.comm_tag[row]}")
    return told


def test_gloo_collectives_and_messages_are_communication(jobs):
    two, four = jobs["two"], jobs["four"]
    assert two.groups == {"0": [0, 1]}
    assert four.groups == {"0": [0, 1, 2, 3], "1": [0, 1], "2": [2, 3]}
    assert (two.collectives, two.messages, four.collectives, four.messages) == (14, 2, 18, 4)
    for rank, trace in enumerate(four.traces):
        own, low = str(1 + rank // 2), rank - rank % 2
        told = messages(trace)
        assert sorted(told[: len(told) // 2]) == sorted(told[len(told) // 2 :])
        assert {
            "all_to_all 16000 in 0", f"all_reduce 20000 in {own}", f"all_gather 2800 in {own}",
            "broadcast 20000 in 0", f"{low}>{low + 1} 12000 tag 7", "all_reduce 36000 in 0", "barrier 1 in 0",
        } <= set(told)  # fmt: skip
    assert [len(steps) for steps in four.steps_ms] == [2] * 4
    assert four.steps_ms[3][1] * 1000 == pytest.approx(four.steps_us[3][1])
    assert np.array(four.begun_ms) * 1000 == pytest.approx(four.begun_us)
    assert four.notes == ["groups of 56 collectives inferred from their order on all ranks"]


@pytest.mark.parametrize("name", ["two", "four"])
def test_recorded_steps_are_given_back_on_a_stated_network(jobs, name, tmp_path):
    """A replay of recorded durations, so a check of dependencies: only transfers are the network's.

    1 GB/s and 100 µs are assumed for gloo over the loopback device, not fitted.
    """
    job = jobs[name]
    error = simulated_us(job, tmp_path, 1.0, 100_000) / measured_us(job) - 1
    assert np.abs(error).max() < 0.1, error


def test_a_run_with_a_broadcast_is_drawn(jobs, tmp_path):
    simulated_us(jobs["two"], tmp_path, 1.0, 100_000)
    files = (tmp_path / "job", tmp_path / "system.json", tmp_path / "network.yml")
    sim = anb.Simulation.of_files(*files)
    sim.run()
    sim.result.to_perfetto(tmp_path / "drawn.json")
    drawn = json.loads((tmp_path / "drawn.json").read_text())["traceEvents"]
    assert {"rooted", "ring"} <= {one["args"].get("algorithm") for one in drawn if "args" in one}


def test_nothing_waits_for_what_ended_later(jobs):
    for job in jobs.values():
        for trace in job.traces:
            ends = trace.start_us + trace.duration_us
            parents = trace.parents
            assert (parents.flat < parents.owner).all()
            ops = (trace.type == NodeType.COMP)[parents.flat] & (trace.type == NodeType.COMP)[parents.owner]
            owners, before = parents.owner[ops], parents.flat[ops]
            late = ends[before] - np.maximum(ends[owners], trace.start_us[owners])
            assert late.max() <= 50  # rests of at most 10 µs each are added to an operation's first piece


def test_a_slower_network_delays_what_waits_for_it(jobs, tmp_path):
    fast, slow = (simulated_us(jobs["four"], tmp_path, one, 100_000) for one in (1.0, 0.01))
    # A step sends at least 1.5 times the buckets of DDP, 2.5 MB, at 10 MB/s: 0.38 s more.
    assert (slow - fast > 2 * 1.5 * 2.5e6 / 10e6 * 1e6 * 0.9).all()


def test_recordings_of_different_jobs_are_refused(tmp_path):
    two, four = recorded_files(DATA / "two"), recorded_files(DATA / "four")
    for some, said in [
        (four[:2], "the recording is of 4 ranks, but 2 are given"),
        ([two[0], four[1]], "the recording is of 4 ranks, but 2 are given"),
        (two[::-1], "the recording of rank 1 is in the place of rank 0's"),
        (
            [RankFiles(two[0].host, four[0].device), two[1]],
            "the recording is of 4 ranks|no operation of the host",
        ),
    ]:
        with pytest.raises(InputError, match=said):
            link_job(some)
    later = json.loads(gzip.decompress(two[1].device.read_bytes()))
    later["baseTimeNanoseconds"] += 10**12
    (tmp_path / "later.json").write_text(json.dumps(later))
    with pytest.raises(InputError, match="it ends before that of later"):
        link_job([two[0], RankFiles(two[1].host, tmp_path / "later.json")])
    with pytest.raises(InputError, match="no recording found"):
        recorded_files(tmp_path / "none")
    assert two[0].host is not None
    shutil.copy(two[0].host, tmp_path / "half.0.et.json.gz")
    with pytest.raises(InputError, match=r"half\.0\.kineto\.json\.gz: the file is missing"):
        recorded_files(tmp_path / "half")


def test_recordings_of_different_jobs_with_the_same_numbers_are_refused(tmp_path):
    first, second = reduced(tmp_path)
    assert first.host is not None
    other = json.loads(first.host.read_text())
    for node in other["nodes"][2:]:
        node["name"] = node["name"].replace("aten::", "mine::")
    (tmp_path / "other.json").write_text(json.dumps(other))
    said = (
        r"3 of 3 operations have other names: 'mine::a' of the host is 'aten::a' in the device's trace; give"
    )
    with pytest.raises(InputError, match=said):
        link_job([RankFiles(tmp_path / "other.json", first.device), second])
    for file, version in ((first.device, "2.20.5"), (second.device, "2.21")):
        document = json.loads(file.read_text())
        document["distributedInfo"] |= {"backend": "nccl", "nccl_version": version}
        file.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"1\.kineto.*its nccl_version is '2.21', and '2.20.5' on rank 0"):
        link_job([first, second])


def test_ranks_that_call_different_collectives_are_refused(tmp_path):
    two = recorded_files(DATA / "two")
    other = json.loads(gzip.decompress(two[1].device.read_bytes()))
    named = [one for one in other["traceEvents"] if one["name"] == "gloo:barrier"]
    named[0]["name"] = "gloo:all_reduce"
    (tmp_path / "other.json").write_text(json.dumps(other))
    with pytest.raises(InputError, match="is all_reduce, and barrier on rank 0"):
        link_job([two[0], RankFiles(two[1].host, tmp_path / "other.json")])


def test_the_command_line_links_all_ranks(tmp_path, capsys):
    assert main(["chakra", "link", str(DATA / "two"), "--output", str(tmp_path / "job"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["rank"] for row in told["ranks"]] == [0, 1]
    assert (told["collectives"], told["messages"]) == (14, 2)
    assert [len(one) for one in read_ranks(tmp_path / "job")] == [row["nodes"] for row in told["ranks"]]
    assert json.loads((tmp_path / "job.groups.json").read_text()) == {"0": [0, 1]}
    # One rank's host trace alone has no communication, and says so.
    host = tmp_path / "host.json"
    host.write_bytes(gzip.decompress((DATA / "two.0.et.json.gz").read_bytes()))
    assert main(["chakra", "convert", str(host), "--output", str(tmp_path / "one.et")]) == 0
    assert "NO COMMUNICATION: 16 calls of torch.distributed are computations" in capsys.readouterr().err


def test_a_linked_job_runs_without_more_and_takes_what_was_measured(tmp_path, capsys):
    """The network is fitted to the same recording: its transfers on average, one by one they are noise."""
    prefix = str(tmp_path / "job")
    assert main(["chakra", "link", str(DATA / "four"), "--output", prefix, "--json"]) == 0
    linked = json.loads(capsys.readouterr().out)
    assert 0 < linked["network"]["median_error"] < linked["network"]["worst_error"]
    assert main(["run", "trace", prefix, "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    assert f"described by {prefix}.system.json and {prefix}.network.yml, beside the traces" in run["notes"]
    for row, linked_row in zip(run["per_rank"], linked["ranks"], strict=True):
        took_us = row["end_ps"] / 1e6 - linked_row["begun_us"]
        assert took_us == pytest.approx(sum(linked_row["steps_us"]), rel=0.05)
    write(TraceBuilder().build(), tmp_path / "bare.0.et")
    assert main(["run", "trace", str(tmp_path / "bare")]) == 2
    assert "run trace: --system is missing" in capsys.readouterr().err


def test_a_run_finds_the_groups_beside_the_traces(jobs, tmp_path, capsys):
    simulated_us(jobs["four"], tmp_path, 1.0, 100_000)
    files = ["--system", str(tmp_path / "system.json"), "--network", str(tmp_path / "network.yml")]
    named = ["--comm-group", str(tmp_path / "job.groups.json")]
    said = []
    for more in ([], named):
        assert main(["run", "trace", str(tmp_path / "job"), *files, *more]) == 0
        said.append(capsys.readouterr())
    assert said[0].out == said[1].out
    assert f"groups of ranks: those of {tmp_path / 'job.groups.json'}, beside the traces" in said[0].err
    assert "groups of ranks" not in said[1].err
    (tmp_path / "job.groups.json").unlink()
    assert main(["run", "trace", str(tmp_path / "job"), *files]) == 2
    assert "describe the groups (--comm-group)" in capsys.readouterr().err


def test_a_profile_of_kineto_alone_is_converted(tmp_path, capsys):
    made = reduced(tmp_path)[1].device
    assert main(["chakra", "convert", str(made), "-o", str(tmp_path / "one.et")]) == 0
    assert "Kineto trace: " in capsys.readouterr().out
    trace = read(tmp_path / "one.et")
    assert (trace.type == NodeType.COMM_COLL).sum() == 1
    assert main(["chakra", "convert", str(made), "-o", str(tmp_path / "x"), "--npus", "2"]) == 2
    assert "a profile is one rank's" in capsys.readouterr().err


def on_gpu(folder: Path, rank: int, events: list[dict[str, Any]], ops: list[dict[str, Any]]) -> RankFiles:
    host = folder / f"{rank}.et.json"
    files = RankFiles(host, folder / f"{rank}.kineto.json")
    nodes = [op(1, "[pytorch|profiler|execution_trace|process]", 0, 0), op(2, ROOT, 1, 900), *ops]
    host.write_text(json.dumps({"schema": "1.1.1-chakra.0.0.4", "nodes": nodes}))
    step = event("ProfilerStep#3", "user_annotation", 0, 1000)
    info = {"distributedInfo": {"rank": rank, "world_size": 2}}
    files.device.write_text(json.dumps(info | {"traceEvents": [step, *events]}))
    return files


def reduced(folder: Path) -> list[RankFiles]:
    """Rank 1 comes 300 µs late to an all-reduce that takes 10 µs; the host waits for it."""
    made = []
    for rank, late in enumerate((0, 300)):
        first = launched("a", 100 + late, 1, 7)
        reduced = launched("all_reduce", 200 + late, 2, 20)
        tensor = {"values": [[1, 2, 0, 1000, 4, "cuda:0"]], "shapes": [[1000]], "types": ["Tensor(float)"]}
        kernel = reduced[-1]
        kernel["name"] = "ncclDevKernel_AllReduce_Sum_f32"
        kernel["ts"], kernel["dur"] = 250 + late, 310 - late
        wait = event("cudaStreamSynchronize", "cuda_runtime", 220 + late, 345 - late, correlation=60)
        last = launched("b", 600, 3, 7)
        events = [*first, event("cudaStreamWaitEvent", "cuda_runtime", 195 + late, 1), *reduced, wait, *last]
        ops = [
            op(10, "aten::a", 2, 1),
            op(11, "aten::all_reduce", 2, 2) | {"inputs": tensor},
            op(12, "aten::b", 2, 3),
        ]
        made.append(on_gpu(folder, rank, events, ops))
    return made


def test_waits_for_the_device_and_for_other_ranks_are_not_counted_twice(tmp_path):
    job = link_job(reduced(tmp_path))
    early, _ = job.traces
    rows = {name: row for row in range(len(early)) if (name := early.names[row])}
    reduce, wait_row = rows["ncclDevKernel_AllReduce_Sum_f32"], rows["cudaStreamSynchronize"]
    assert (int(early.comm_size[reduce]), int(early.duration_us[reduce])) == (4000, 10)
    assert int(early.integers("wait_ns")[reduce]) == 300_000
    assert int(early.duration_us[wait_row]) == 5
    assert reduce in early.parents.of(wait_row)
    assert rows["a"] in early.parents.of(reduce)  # its stream waited, and had nothing else to wait for
    assert not early.is_cpu_op[reduce]
    assert np.abs(simulated_us(job, tmp_path, 10.0, 1000.0) - 1000).max() < 60


def test_work_of_the_device_without_a_launch_is_kept_with_the_time_before_it(tmp_path):
    """A graph of kernels: their launches are not recorded, nor what the second stream waited for."""
    first, hidden = launched("a", 100, 1, 7), event("b", "kernel", 400, 200, correlation=80, stream=7)
    other = event("c", "kernel", 605, 20, correlation=81, stream=8)
    wait = event("cudaStreamSynchronize", "cuda_runtime", 120, 510, correlation=82)
    files = on_gpu(tmp_path, 0, [*first, hidden, other, wait], [op(10, "aten::a", 2, 1)])
    job = link_job([RankFiles(None, files.device)], one_rank=True)
    trace = job.traces[0]
    rows = {name: row for row in range(len(trace)) if (name := trace.names[row])}
    assert trace.duration_us[rows["b"]] == 200
    (pause,) = np.flatnonzero(trace.integers("duration_ns") == 220_000)  # idle from 180 on
    assert trace.is_idle[pause]
    assert pause in trace.parents.of(rows["b"])
    before, short = trace.parents.of(rows["c"]).tolist()
    assert (before, trace.is_idle[short], trace.duration_us[short]) == (rows["b"], True, 5)
    assert rows["c"] in trace.parents.of(rows["cudaStreamSynchronize"])
    assert abs(replayed_us(job) - 1000) < 60


def test_threads_that_waited_for_a_third_do_not_wait_for_each_other(tmp_path):
    """All of them go on at the same microsecond."""
    events = [event("aten::a", "cpu_op", 100, 400)]
    for thread in (2, 3):
        events += [event("aten::b", "cpu_op", at, 50) | {"tid": thread} for at in (50, 500)]
    files = on_gpu(tmp_path, 0, events, [])
    trace = link_job([RankFiles(None, files.device)], one_rank=True).traces[0]
    assert sum(name == "aten::b" for name in map(trace.names.__getitem__, range(len(trace)))) == 4
    alone = on_gpu(tmp_path, 1, [], []).device
    document = json.loads(alone.read_text())
    sync = event("Stream Sync", "cuda_sync", 1, 5, correlation=1, stream=7)
    alone.write_text(json.dumps(document | {"traceEvents": [sync]}))
    with pytest.raises(InputError, match="no work of a host or a device is recorded; record activities"):
        link_job([RankFiles(None, alone)], one_rank=True)


def test_profiles_of_all_ranks_are_linked_without_host_traces(tmp_path, capsys):
    for rank, files in enumerate(reduced(tmp_path)):
        shutil.copy(files.device, tmp_path / f"job.{rank}.kineto.json")
    assert main(["chakra", "link", str(tmp_path / "job")]) == 0
    assert capsys.readouterr().out.startswith("2 ranks: 1 collective, 0 messages, 1 group")
    (tmp_path / "job.1.et.json").write_text("{}")
    with pytest.raises(InputError, match=r"job\.0\.et\.json: the file is missing"):
        recorded_files(tmp_path / "job")


def test_a_job_without_communication_says_so(tmp_path):
    files = on_gpu(tmp_path, 0, launched("a", 100, 1, 7), [op(10, "aten::a", 2, 1)])
    document = json.loads(files.device.read_text())
    files.device.write_text(json.dumps(document | {"distributedInfo": {"rank": 0, "world_size": 1}}))
    for one in (files, RankFiles(None, files.device)):  # Kineto alone will do
        job = link_job([one])
        assert "a" in job.traces[0].names.values
        assert any(note.startswith("NO COMMUNICATION") for note in job.notes)


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_real_job_is_recorded_linked_and_simulated(ranks, tmp_path):
    pytest.importorskip("torch", reason="PyTorch is an extra of its own: pip install 'astranb[torch]'")
    script = Path(__file__).with_name("recorded_job.py")
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    command = [sys.executable, str(script), str(tmp_path / "job"), str(ranks)]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    job = link_job(recorded_files(tmp_path / "job"))
    assert len(job.traces) == ranks
    assert job.messages == ranks
    assert len(job.groups) == (1 if ranks == 2 else 3)
    assert (simulated_us(job, tmp_path, 1.0, 100_000) > 0).all()


def test_the_public_dlrm_step_is_given_back(tmp_path):
    """Eight ranks on V100s, github.com/facebookresearch/param 1e115ff, et_replay/tests/inputs: not blind.

    The network is assumed: one switch of 100 GB/s and 1 µs.
    """
    folder = os.environ.get("ASTRANB_DLRM")
    if not folder:
        pytest.skip("ASTRANB_DLRM is not the folder of dlrm_pytorch_et and dlrm_kineto (PARAM's files)")
    found = [
        RankFiles(
            Path(folder, "dlrm_pytorch_et", f"dlrm_eg_{rank}.json"),
            next(Path(folder, "dlrm_kineto").glob(f"worker{rank}_*.json")),
        )
        for rank in range(8)
    ]
    job = link_job(found)
    assert (job.collectives, job.messages) == (8, 0)
    error = simulated_us(job, tmp_path, 100.0, 1000.0) / measured_us(job) - 1
    assert np.abs(error).max() < 0.02, error


@pytest.mark.parametrize(
    "name, world, rank",
    [
        ("trace_diff/control/control", 8, 3),
        ("trace_diff/test/test", 2, 1),
        ("negative_queue_length_values_check/rank0", 16, 0),
    ],
)
def test_single_ranks_of_public_jobs_are_given_back(name, world, rank):
    """github.com/facebookresearch/HolisticTraceAnalysis f4d0062, tests/data: Kineto, five or six steps.

    The other ranks are not public, so collectives keep their recorded durations: it is a check of what waits
    for what on the host and the device.
    """
    folder = os.environ.get("ASTRANB_HTA")
    if not folder:
        pytest.skip("ASTRANB_HTA is not the folder tests/data of HolisticTraceAnalysis")
    file = Path(folder, f"{name}.json.gz")
    info = read_kineto(file).members["distributedInfo"]
    assert (info["world_size"], info["rank"]) == (world, rank)
    job = link_job([RankFiles(None, file)], one_rank=True)
    assert job.collectives >= 60
    error = replayed_us(job) / job.lengths_us[0] - 1
    assert abs(error) < 0.1, error


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_recordings_are_refused_or_read_and_never_crash(tmp_path, data):
    files = reduced(tmp_path)
    which = data.draw(st.sampled_from([files[0].host, files[0].device, files[1].device]))
    which.write_text(json.dumps(damaged(json.loads(which.read_text()), data.draw)))
    with contextlib.suppress(InputError):
        link_job(files)


def test_a_world_of_more_ranks_than_there_are_is_refused(tmp_path):
    files = reduced(tmp_path)
    document = json.loads(files[0].device.read_text())
    document["distributedInfo"]["world_size"] = 27_163_343_010
    files[0].device.write_text(json.dumps(document))
    with pytest.raises(InputError, match=r"distributedInfo: world_size is 27,163,343,010; a job has up to"):
        link_job(files)
