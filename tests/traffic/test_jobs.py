"""Recorded traffic as one of several jobs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import astranb as anb
from astranb.cli import main
from astranb.traffic import Pattern, read_pattern, record, statistics, write_pattern
from astranb.workload.astrasim2 import DimensionNetwork
from astranb.workload.models import ModelStep, Parallelism, workload

RING = DimensionNetwork(["Ring"], [8], [50], [500])
DOUBLE = DimensionNetwork(["Ring"], [16], [50], [500])


@pytest.fixture(scope="module")
def step() -> ModelStep:
    return workload("gpt3-125m", Parallelism(data=4, pipeline=2), batch=8)


@pytest.fixture(scope="module")
def pattern(step: ModelStep) -> Pattern:
    return record(step.on(RING))


@pytest.mark.parametrize("fidelity", ["analytical", "congestion"])
def test_the_only_job_is_the_replay(pattern: Pattern, fidelity: str) -> None:
    replays = [
        anb.Simulation(RING, pattern, fidelity=fidelity),
        anb.Simulation(RING, jobs=[anb.Job(pattern)], fidelity=fidelity),
        anb.Simulation(RING, jobs=[anb.Job(pattern.unfold())], fidelity=fidelity),
    ]
    for sim in replays:
        sim.run()
    assert len({(sim.result.time_ps, sim.events) for sim in replays}) == 1


def test_recorded_traffic_shares_links_with_the_step_that_it_is_of(step: ModelStep, pattern: Pattern) -> None:
    jobs = [anb.Job(pattern, range(0, 16, 2), start="1 us"), anb.Job(step, range(1, 16, 2))]
    sim = anb.Simulation(DOUBLE, jobs=jobs, fidelity="congestion")
    sim.run()
    found = sim.result.jobs(alone=True)
    assert found["alone_ps"].nunique() == 1  # the step's operations keep their durations, too
    assert found["slowdown"].min() > 1.1


def test_a_file_of_jobs_names_recorded_traffic(
    tmp_path: Path, pattern: Pattern, capsys: pytest.CaptureFixture[str]
) -> None:
    file = write_pattern(pattern, tmp_path / "step.parquet")
    path = tmp_path / "jobs.yaml"
    path.write_text(
        f"infra: clos:servers=2\njobs: [{{pattern: {file}, ranks: by node}}, {{pattern: {file}}}]"
    )
    assert main(["run", "jobs", str(path), "--fidelity", "congestion", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["jobs"]
    assert first["duration_ps"] == second["duration_ps"] > 0
    path.write_text(f"infra: dgx-h100\njobs: [{{pattern: {tmp_path / 'none.parquet'}}}]")
    assert main(["run", "jobs", str(path)]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_recorded_jobs_keep_their_names(step: ModelStep, tmp_path: Path) -> None:
    jobs = [anb.Job(step, range(0, 16, 2), name="a"), anb.Job(step, range(1, 16, 2), name="b", start="1 us")]
    sim = anb.Simulation(DOUBLE, jobs=jobs, fidelity="congestion")
    both = record(sim, fidelity="congestion")
    again = read_pattern(write_pattern(both, tmp_path / "two.parquet"))
    graph = again.unfold()
    for label, rank in zip(graph.nodes["label"].tolist(), graph.nodes["rank"].tolist(), strict=True):
        assert graph.labels[label].job == "ab"[rank % 2]
    sim.run()
    replay = anb.Simulation(DOUBLE, again, fidelity="congestion")
    replay.run()
    assert replay.now_ps == pytest.approx(sim.now_ps, rel=0.01)
    assert set(statistics(graph).by_operation()["job"]) == {"a", "b"}
