"""``astranb run jobs``: the same results as from Python, and a line for every mistake in the file."""

from __future__ import annotations

import json
from contextlib import chdir
from pathlib import Path

import pytest

import astranb as anb
from astranb.chakra import TraceBuilder, write
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.workload.jobs import read_jobs
from astranb.workload.models import Parallelism, workload

JOBS = """\
infra: clos:servers=2,spines=1,spine_bandwidth=100
jobs:
  - {name: step, model: gpt3-125m, plan: {dp: 2, tp: 2}, batch: 4, ranks: "0-1,8-9"}
  - {name: ring, collective: all_reduce, size: 16 MiB, algorithm: ring, ranks: [2, 10], start: 100 us,
     repeat: 3}
  - {background: {load: 0.1, size: 256 KiB, until: 1 ms, seed: 3}, gpus: 4, ranks: scattered}
"""
VARIATION = "variation: {seed: 2, jitter: {cv: 0.1}, stragglers: {factor: 1.5, ranks: 2}}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "jobs.yaml"
    path.write_text(JOBS)
    return path


def simulated() -> anb.Simulation:
    step = workload("gpt3-125m", Parallelism(data=2, tensor=2), batch=4)
    ring = anb.collectives.all_reduce("16 MiB", "ring")
    jobs = [
        anb.Job(step, [0, 1, 8, 9], name="step"),
        anb.Job(ring, [2, 10], start="100 us", repeat=3, name="ring"),
        anb.Job.background(0.1, "256 KiB", until="1 ms", seed=3, gpus=4, ranks="scattered"),
    ]
    sim = anb.Simulation("clos:servers=2,spines=1,spine_bandwidth=100", jobs=jobs, fidelity="congestion")
    sim.run()
    return sim


def test_a_file_gives_what_python_gives(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "jobs", str(file), "--fidelity", "congestion", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    sim = simulated()
    assert found["state_hash"] == sim.state_hash()
    assert found["jobs"] == sim.result.jobs(alone=True).to_dict("records")
    assert max(one["slowdown"] for one in found["jobs"]) > 1.01  # all share the only spine


def test_the_text_says_how_much_slower_each_job_is(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "jobs", str(file), "--fidelity", "congestion"]) == 0
    text = capsys.readouterr().out
    assert "step: 4 GPUs (0-1,8-9), from 0 ps to " in text
    assert "times as long as alone" in text


def test_runs_are_repeated_with_other_random_numbers(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(JOBS + VARIATION)
    assert main(["run", "jobs", str(file), "--runs", "3", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs"] == 3
    assert len(set(found["times_ps"]["step"])) == 3
    assert found["statistics"]["step"]["mean"]["low_ps"] < found["statistics"]["step"]["mean"]["value_ps"]
    assert main(["run", "jobs", str(file), "--fidelity", "congestion"]) == 0
    assert (
        "varies: jitter 0.1 (lognormal); 2 stragglers, 1.5 times as long; seed 2" in capsys.readouterr().out
    )


def test_jobs_run_by_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "jobs.json"
    ring = {"collective": "all_reduce", "size": 4096, "algorithm": "ring"}
    path.write_text(json.dumps({"infra": "dgx-h100", "jobs": [{**ring, "gpus": 2}, {**ring, "gpus": 2}]}))
    assert main(["run", "jobs", str(path), "--fidelity", "cacheline", "--json"]) == 0
    assert [one["slowdown"] for one in json.loads(capsys.readouterr().out)["jobs"]] == [1, 1]


@pytest.mark.parametrize(
    "text, message",
    [
        ("jobs: []", ":1, jobs: no jobs are given"),
        ("infra: dgx-h100", "'jobs' is missing"),
        ("jobs: {a: 1}", "a list is expected"),
        (
            "jobs:\n  - {name: a}",
            ":2, jobs[0]: a job is one of model, collective, workload, pattern",
        ),
        ("jobs: [{model: gpt3-125m, collective: all_reduce}]", "this has model and collective"),
        ("jobs: [{model: gpt3-125m, plans: {dp: 2}}]", "unknown key 'plans'; did you mean 'plan' or"),
        ("jobs: [{model: gpt3-125m, plan: {dp: 0}}]", "0 is out of range"),
        ("jobs: [{model: gpt3-1}]", "jobs[0]: unknown model 'gpt3-1'"),
        ("jobs: [{model: gpt3-125m, ranks: 3-1}]", "write the smaller number first"),
        ("jobs: [{model: gpt3-125m, ranks: 3-b}]", "'3-b' is not a range of ranks"),
        ("jobs: [{collective: all_reduce}]", "'size' is missing"),
        ("jobs: [{collective: all_reduce, size: 1 MX, gpus: 2}]", "jobs[0]: unknown size unit"),
        ("jobs: [{background: {load: 2, until: 1 ms}}]", "2 is out of range"),
        ("jobs: [{background: {load: 0.1, until: 1 ms}, seed: 2}]", "seed is one of background's own"),
        ("jobs: [{model: gpt3-125m, start: [1]}]", "jobs[0]"),
        ("jobs: [{workload: x}]", "'system' is missing"),
        ("jobs: [{model: gpt3-125m}]\nvariation: {jitter: {cv: 0}}", ":2, variation.jitter"),
        ("jobs: [{model: gpt3-125m}]\nvariation: {jitter: {size: 0}}", "unknown key 'size'"),
        ("jobs: [{model: gpt3-125m}]", "infrastructure is missing"),
        (
            "infra: dgx-h100\njobs: [{model: gpt3-125m, plan: {dp: 9}}]",
            "it needs 9 GPUs, but the network has 8",
        ),
        (
            "infra: dgx-h100\njobs: [{model: gpt3-125m, ranks: [1]}, {model: gpt3-125m, ranks: [1]}]",
            "job job 1: rank 1 has job job 0 already; give each GPU one job",
        ),
    ],
)
def test_a_mistake_is_named_with_its_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str, message: str
) -> None:
    path = tmp_path / "jobs.yaml"
    path.write_text(text)
    assert main(["run", "jobs", str(path)]) == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


@pytest.mark.parametrize(
    "options, message",
    [
        ("--runs 3", "nothing varies from run to run"),
        ("--runs 3 --fidelity cacheline", "--runs does not apply to several jobs at --fidelity cacheline"),
        ("--price 3", "--price; it belongs to astranb run model"),
        ("--model gpt3-125m", "unknown option --model"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    file: Path, capsys: pytest.CaptureFixture[str], options: str, message: str
) -> None:
    assert main(["run", "jobs", str(file), *options.split()]) == 2
    assert message in capsys.readouterr().err


def test_traces_are_jobs(tmp_path: Path) -> None:
    workload("gpt3-125m", Parallelism(data=2), gpu="h100-sxm").write(tmp_path / "step")
    (tmp_path / "system.json").write_text('{"all-reduce-implementation": ["ring"]}')
    network = "topology: [Ring]\nnpus_count: [2]\nbandwidth: [50]\nlatency: [500]\n"
    (tmp_path / "network.yml").write_text(network)
    files = ", ".join(f"{k}: {tmp_path / v}" for k, v in (
        ("workload", "step"), ("system", "system.json"), ("network", "network.yml"),
    ))  # fmt: skip
    path = tmp_path / "jobs.yaml"
    path.write_text(f"infra: dgx-h100\njobs: [{{{files}, ranks: [5, 2]}}]")
    found = read_jobs(path)
    sim = anb.Simulation(found.infra, found.jobs)
    sim.run()
    assert [rank for rank, row in enumerate(sim.result.per_rank()) if row["end_ps"]] == [2, 5]
    with pytest.raises(InputError, match="No such file"):
        read_jobs(tmp_path / "none.yaml")


@pytest.mark.parametrize("more", ["", VARIATION])
def test_messages_of_traces_that_do_not_fit_are_named_by_job(
    more: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sender, receiver = TraceBuilder(), TraceBuilder()
    for one, other in ((1000, 2000), (2000, 1000)):
        sender.send(one, 1, rank=0)
        receiver.recv(other, 0, rank=1)
    for rank, step in enumerate((sender, receiver)):
        write(step.build(), tmp_path / f"step.{rank}.et")
    (tmp_path / "system.json").write_text('{"all-reduce-implementation": ["ring"]}')
    network = "topology: [Ring]\nnpus_count: [2]\nbandwidth: [50]\nlatency: [500]\n"
    (tmp_path / "network.yml").write_text(network)
    files = "workload: step, system: system.json, network: network.yml"
    path = tmp_path / "jobs.yaml"
    path.write_text(f"infra: dgx-h100\njobs: [{{name: mine, {files}, ranks: [5, 2]}}]\n{more}")
    with chdir(tmp_path):
        assert main(["run", "jobs", str(path)]) == 0
    said = capsys.readouterr().err
    assert "mine: 2 messages received in another order of sizes than sent: rank 0 to 1, tag 0: 1,000" in said
