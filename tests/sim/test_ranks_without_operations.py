"""Ranks without operations, at the front, in the middle and at the end: every view has them as idle ranks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

import astranb as anb
from astranb.chakra import TraceBuilder
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.engine.fidelity import FIDELITIES
from astranb.widgets.files import files_of
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND, DimensionNetwork, Operations, System, Workload
from tests.widgets.test_page_host import Page

RANKS = 4
IDLE = {
    "front": (0,),
    "middle": (1,),
    "end": (3,),
    "two at the end": (2, 3),
    "both ends": (0, 3),
    "all but the first": (1, 2, 3),
    "all but the last": (0, 1, 2),
}
SYSTEM = System.from_document({"all-reduce-implementation": ["ring"]})


def operations(rank: int, busy: list[int]) -> Operations:
    """A job in which two ranks exchange a message, others compute, and some do nothing."""
    if rank not in busy:
        return Operations.of([])
    rows: list[dict[str, int]] = [{"kind": COMPUTE, "duration_ns": 3000 + rank}]
    if len(busy) > 1 and rank in busy[:2]:
        other = busy[0] if rank == busy[1] else busy[1]
        rows.append({"kind": SEND if rank == busy[0] else RECV, "peer": other, "bytes": 4096})
    return Operations.of(rows, [[], [0]][: len(rows)])


def traces(folder: Path, idle: tuple[int, ...]) -> Path:
    """Write a job in which two ranks exchange a message, others compute, and some do nothing."""
    busy = [rank for rank in range(RANKS) if rank not in idle]
    for rank in range(RANKS):
        built = TraceBuilder()
        if rank in busy:
            first = built.compute("a", duration_us=3 + rank)
            if len(busy) > 1 and rank == busy[0]:
                built.send("4 KiB", busy[1], after=[first])
            elif len(busy) > 1 and rank == busy[1]:
                built.recv("4 KiB", busy[0], after=[first])
        (folder / f"job.{rank}.et").write_bytes(built.build().data)
    return folder / "job"


def _of(sim: anb.Simulation, rank: int) -> str:
    """Name a rank."""
    return f"gpu[{rank}]" if sim.fidelity == "cacheline" else f"rank[{rank}]"


@pytest.fixture(params=sorted(IDLE))
def idle(request: pytest.FixtureRequest) -> tuple[int, ...]:
    """The ranks that do nothing."""
    return IDLE[request.param]


@pytest.fixture(params=FIDELITIES)
def make(request: pytest.FixtureRequest, idle: tuple[int, ...]) -> Callable[[], anb.Simulation]:
    """Make the job's simulation at a fidelity."""
    busy = [rank for rank in range(RANKS) if rank not in idle]
    job = [operations(rank, busy) for rank in range(RANKS)]
    network = DimensionNetwork(["Switch"], [RANKS], [50], [500])

    def made() -> anb.Simulation:
        return anb.Simulation("switch:gpus=4", Workload(job, network, SYSTEM), fidelity=request.param)

    return made


def test_every_question_has_an_answer(make: Callable[[], anb.Simulation], idle: tuple[int, ...]) -> None:
    sim = make()
    for _ in range(3):
        sim.step()
        assert sim.narrate()
    sim.back()
    sim.run()
    assert sim.finished
    rows = sim.result.per_rank()
    assert [row["end_ps"] == 0 or row["rank"] not in idle for row in rows] == [True] * RANKS
    for path in sim.paths(most=500):
        assert sim.inspect(path)
        with suppress(InputError):  # of links and dimensions there is no why
            assert str(sim.why(path))
    assert str(sim.why())
    assert sim.result.explain()
    assert sim.result.summary()
    assert sum(part.length_ps for part in sim.critical_path().segments) == sim.result.time_ps
    for table in sim.result.tables:
        sim.result.to_dataframe(table)
    sim.lost_time()
    if sim.fidelity == "cacheline":
        sim.spans()
    sim.result.by_cause()
    sim.reset()
    assert sim.now_ps == 0


def test_saved_loaded_and_forked_it_goes_on_alike(make: Callable[[], anb.Simulation], tmp_path: Path) -> None:
    sim = make()
    sim.step(3)
    sim.save(tmp_path / "run.anb")
    other = anb.Simulation.load(tmp_path / "run.anb")
    for one in (sim, other, sim.fork()):
        one.run()
    assert other.state_hash() == sim.state_hash()
    for rank in range(RANKS):
        assert other.inspect(_of(other, rank)) == sim.inspect(_of(sim, rank))


def test_pages_pictures_and_files_are_written(make: Callable[[], anb.Simulation], tmp_path: Path) -> None:
    sim = make()
    sim.run()
    files = files_of(sim)
    assert files.to_html(tmp_path / "run.html").stat().st_size > 1000
    files.to_svg(tmp_path / "run.svg")
    sim.result.to_perfetto(tmp_path / "run.json")
    sim.result.write_frames(tmp_path / "frames")


def test_a_live_page_answers_for_every_rank(make: Callable[[], anb.Simulation]) -> None:
    sim = make()
    page = Page(sim)
    assert page.view("ready")[0]["type"] == "scene"
    page.view("to_end")
    for rank in range(RANKS):
        assert page.view("select", path=_of(sim, rank)) is not None
        assert page.view("inspect", path=_of(sim, rank)) is not None


@pytest.mark.parametrize("fidelity", FIDELITIES)
def test_a_job_without_any_operation_takes_no_time(fidelity: str, tmp_path: Path) -> None:
    network = DimensionNetwork(["Switch"], [RANKS], [50], [500])
    job = Workload([operations(rank, []) for rank in range(RANKS)], network, SYSTEM)
    sim = anb.Simulation("switch:gpus=4", job, fidelity=fidelity)
    sim.run()
    assert sim.result.time_ps == 0
    assert [row["end_ps"] for row in sim.result.per_rank()] == [0] * RANKS
    sim.save(tmp_path / "run.npz")
    assert anb.Simulation.load(tmp_path / "run.npz").state_hash() == sim.state_hash()
    for path in sim.paths(most=500):
        assert sim.inspect(path)
    assert files_of(sim).to_html(tmp_path / "run.html").stat().st_size > 1000


@pytest.mark.parametrize("verb", ["info", "check", "statistics"])
def test_recordings_without_operations_are_described(
    verb: str, idle: tuple[int, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["chakra", verb, str(traces(tmp_path, idle))]) == 0
    said = capsys.readouterr().err.splitlines()
    assert all(": no communication has a duration: simulate it" in line for line in said)
