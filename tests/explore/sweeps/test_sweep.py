"""Sweeps: each point once, whatever happens; the best found as by comparing all."""

from __future__ import annotations

import itertools
import json
import math
import resource
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.explore import Sweep, SweepResult
from astranb.explore.sweeps import executor, points, running
from astranb.explore.sweeps.result import pareto_rows
from astranb.explore.sweeps.spec import SweepStage, read_spec
from astranb.widgets.feed import unpack
from astranb.widgets.study_message import study_message

REPOSITORY = Path(__file__).parents[3]
RUN = {"infra": "switch:gpus={gpus}", "collective": "all_reduce", "fidelity": "analytical"}
AXES = {"gpus": [2, 4, 8], "size": ["1 MiB", "4 MiB"], "algorithm": ["ring", "allpairs"]}
MODEL = {"model": "gpt3-125m", "batch": 8}


def run(
    axes: dict[str, Any] = AXES, *, shared: dict[str, Any] = RUN, folder: Any = None, **more: Any
) -> SweepResult:
    return Sweep.of({"run": shared, "axes": axes, **more}).run(workers=0, folder=folder)


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The hashes of the points that were run."""
    hashes: list[str] = []

    def counted(batch: Any) -> Any:
        hashes.extend(digest for digest, _ in batch)
        return points.run_points(batch)

    monkeypatch.setattr(executor, "run_points", counted)
    return hashes


def without_seconds(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.drop(columns="seconds").sort_index(axis=1)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=3))
@settings(max_examples=10)
def test_a_grid_has_the_product_of_its_axes(sizes: list[int]) -> None:
    names = ["size", "seed", "channels"]
    axes = {name: list(range(1, size + 1)) for name, size in zip(names, sizes, strict=False)}
    found = Sweep.of({"axes": axes}).points()
    assert len(found) == math.prod(sizes)
    assert [tuple(point.axes.values()) for point in found] == list(itertools.product(*axes.values()))


@pytest.mark.parametrize("kind", ["random", "latin"])
def test_a_seed_repeats_the_points(kind: str) -> None:
    def drawn(seed: int) -> list[Any]:
        search = {"kind": kind, "n": 12, "seed": seed}
        axes = {"size": "1..40", "seed": "1..40"}
        return [point.axes for point in Sweep.of({"axes": axes, "search": search}).points()]

    assert drawn(1) == drawn(1) != drawn(2)
    assert len({tuple(one.values()) for one in drawn(1)}) == 12


def test_a_latin_hypercube_meets_each_part_of_each_axis() -> None:
    search = {"kind": "latin", "n": 8, "seed": 3}
    found = Sweep.of({"axes": {"size": "0..79", "seed": "0..7"}, "search": search}).points()
    assert sorted(point.axes["size"] // 10 for point in found) == list(range(8))
    assert sorted(point.axes["seed"] for point in found) == list(range(8))


def test_random_points_keep_to_constraints_and_end() -> None:
    found = Sweep.of(
        {"axes": {"seed": "1..30"}, "constraints": ["seed % 7 == 0"], "search": {"kind": "random", "n": 9}}
    )
    assert sorted(point.axes["seed"] for point in found.points()) == [7, 14, 21, 28]


def test_a_point_is_the_run_that_it_names() -> None:
    found = run()
    frame = found.to_dataframe()
    assert frame["status"].tolist() == ["done"] * 12
    number = found.best()[0]
    assert frame["time_ps"][number] == frame["time_ps"].min()
    sim = found.simulation(number)
    sim.run()
    assert sim.result.time_ps == frame["time_ps"][number]
    alone = anb.Simulation(
        "switch:gpus=8", anb.collectives.all_reduce("4 MiB", "ring"), fidelity="analytical"
    )
    alone.run()
    row = frame.query("gpus == 8 and size == '4 MiB' and algorithm == 'ring'").iloc[0]
    assert row["time_ps"] == alone.result.time_ps


def test_failed_links_are_an_axis(tmp_path: Path, ran: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    links = ["gpu[0]->dgx_h100.0.nvsw.0", "gpu[3]->dgx_h100.0.nvsw.1"]
    text = f"""
run: {{infra: dgx-h100, collective: all_reduce, algorithm: ring, size: 64 MiB, fidelity: congestion}}
axes:
  down: [[], ["{links[0]}"], ["{links[0]}", "{links[1]}"]]
"""
    file = tmp_path / "sweep.yml"
    file.write_text(text)
    assert main(["explore", str(file), "--workers=0", "-o", str(tmp_path / "found"), "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)["points"]
    assert [row["down"] for row in rows] == [[], links[:1], links]
    ring = anb.collectives.all_reduce("64 MiB", "ring")
    table = anb.explore.survive("dgx-h100", ring, [links[0], links], fidelity="congestion")
    slower = [row["time_ps"] / rows[0]["time_ps"] for row in rows[1:]]
    assert slower == sorted(table.slower)
    found = Sweep.of(file).run(workers=0, folder=tmp_path / "found")
    assert len(ran) == 3  # a second run runs nothing twice
    line, rest = found.command(2)
    assert (line.count("--down="), rest) == (2, [])
    assert "none" in found.text()


def test_links_that_fail_while_it_goes_are_an_axis() -> None:
    shared = {**RUN, "infra": "ring:gpus=4", "size": "1 MiB", "fidelity": "congestion"}
    axes = {"fail": [[], ["gpu[0]->gpu[1]@5us"]], "reroute": ["never", "2us"]}
    rows = run(axes, shared={**shared, "algorithm": "ring"}).rows
    assert [row["status"] for row in rows] == ["done", "failed", "failed", "done"]
    assert "--reroute needs --fail" in rows[1]["error"]
    assert "is down since 5 µs" in rows[2]["error"]
    assert rows[3]["time_ps"] > rows[0]["time_ps"]


def test_a_second_run_runs_nothing_twice(tmp_path: Path, ran: list[str]) -> None:
    first = run(folder=tmp_path)
    assert len(ran) == len(set(ran)) == 12
    again = run(folder=tmp_path)
    assert len(ran) == 12
    pd.testing.assert_frame_equal(first.to_dataframe(), again.to_dataframe(), check_dtype=False)
    more = run({**AXES, "gpus": [2, 4, 8, 16]}, folder=tmp_path)
    assert len(ran) == 16
    assert len(more.to_dataframe()) == 16


def test_equal_points_are_run_once(ran: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_bytes(b"")
    axes = {"plan": [{"tp": 2, "dp": 1}, {"tp": 2}, {"dp": 1, "tp": 2}]}
    found = run({**axes, "gpu": ["h100-sxm"]}, shared={**MODEL, "fidelity": "analytical"})
    assert len(found.to_dataframe()) == 3
    assert len(ran) == 2


def test_content_counts_not_names(tmp_path: Path) -> None:
    network = "topology: [Ring]\nnpus_count: [4]\nbandwidth: [50]\nlatency: [500]\n"
    for name, text in {"a.yml": network, "b.yml": network, "c.yml": network.replace("50]", "25]")}.items():
        (tmp_path / name).write_text(text)
    hashes = [points.content_hash({"network": str(tmp_path / f"{name}.yml")}) for name in "abc"]
    assert hashes[0] == hashes[1] != hashes[2]


def test_keys_of_files_and_paths_of_a_run_are_axes(tmp_path: Path) -> None:
    network = tmp_path / "net.yml"
    network.write_text("topology: [Ring]\nnpus_count: [4]\nbandwidth: [50]\nlatency: [500]\n")
    shared = {**MODEL, "dp": 4, "network": str(network), "fidelity": "congestion"}
    by_file = run({"network.bandwidth[0]": [50, 25]}, shared=shared).to_dataframe()
    by_path = run({"dim[0].bandwidth": ["50 GB/s", "25 GB/s"]}, shared=shared).to_dataframe()
    assert by_file["time_ps"].tolist() == by_path["time_ps"].tolist()
    assert by_file["time_ps"][0] < by_file["time_ps"][1]
    wrong = run({"network.bandwith[0]": [50], "dim[0].latncy": ["1 us"]}, shared=shared).to_dataframe()
    assert "did you mean 'bandwidth'" in wrong["error"][0]


def test_a_point_that_fails_is_a_row(tmp_path: Path, ran: list[str]) -> None:
    shared = {**MODEL, "dp": "{replicas}"}
    found = run({"replicas": [2, 3, 4]}, shared=shared, folder=tmp_path)
    frame = found.to_dataframe()
    assert frame["status"].tolist() == ["done", "failed", "done"]
    assert frame["error"][1].startswith("batch: 8 sequences are not 3 replicas")
    assert "1 failed" in found.text()
    Sweep.of({"run": shared, "axes": {"replicas": [2, 3, 4]}}).run(workers=0, folder=tmp_path)
    assert len(ran) == 3
    Sweep.of({"run": shared, "axes": {"replicas": [2, 3, 4]}}).run(workers=0, folder=tmp_path, retry=True)
    assert len(ran) == 4


def test_a_constraint_on_a_result_makes_points_infeasible() -> None:
    found = run({"dp": [1, 2, 4]}, shared=MODEL, constraints=["memory_bytes <= 8 GB"])
    frame = found.to_dataframe()
    assert set(frame["status"]) == {"done", "infeasible"}
    assert ((frame["memory_bytes"] <= 8e9) == (frame["status"] == "done")).all()
    assert all(frame["status"][number] == "done" for number in found.best(9))


@given(st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=12))
@settings(max_examples=50)
def test_a_pareto_front_is_what_nothing_beats(values: list[tuple[int, int, int]]) -> None:
    def beats(one: Any, other: Any) -> bool:
        return all(a <= b for a, b in zip(one, other, strict=True)) and one != other

    front = pareto_rows(values)
    assert sorted(front) == [n for n, one in enumerate(values) if not any(beats(two, one) for two in values)]


def test_objectives_may_be_large_or_computed() -> None:
    found = run({"dp": [1, 2, 4]}, shared=MODEL, objectives={"tokens_per_s": "max", "ranks * step_ps": "min"})
    frame = found.to_dataframe()
    assert found.best()[0] == frame["tokens_per_s"].idxmax()
    assert found.best(objective="ranks * step_ps")[0] == (frame["ranks"] * frame["step_ps"]).idxmin()
    with pytest.raises(InputError, match="no objective 'x'"):
        found.best(objective="x")


def test_stages_confirm_the_best(ran: list[str]) -> None:
    stages = [
        {"fidelity": "estimate"},
        {"fidelity": "analytical", "keep": 3},
        {"fidelity": "congestion", "keep": 1},
    ]
    found = run({"tp": [1, 2, 4], "dp": [1, 2]}, shared=MODEL, objectives={"step_ps": "min"}, stages=stages)
    assert len(ran) == 6 + 3 + 1
    frame = found.to_dataframe()
    assert frame["fidelity"].value_counts().to_dict() == {"estimate": 3, "analytical": 2, "congestion": 1}
    assert [(one["before"], one["fidelity"], one["points"]) for one in found.stages] == [
        ("estimate", "analytical", 3), ("analytical", "congestion", 1),
    ]  # fmt: skip
    assert 1 <= found.stages[0]["worst_ratio"] < 1.2
    assert "analytical against estimate: 3 points" in found.text()
    assert found.text().splitlines()[3].split()[-3:] == ["step_ps", "fidelity", "limit"]
    estimated = [number for number in frame.index if frame["fidelity"][number] == "estimate"]
    assert all(frame["limit"][number] == "computing" for number in estimated)
    assert all(math.isclose(sum(found.shares(number).values()), 1) for number in estimated)


_figures = st.tuples(
    st.sampled_from(["estimate", "analytical", "congestion"]), st.integers(1, 9), st.integers(1, 9)
)


@given(st.lists(_figures, min_size=1, max_size=12), st.booleans())
def test_the_best_are_of_one_fidelity(figures: list[tuple[str, int, int]], staged: bool) -> None:
    """Simulated points stood behind estimated ones, as 25 GB/s behind 500."""
    stages = [SweepStage(one, 9) for one in ("estimate", "analytical", "congestion")]
    goals = {"time_ps": "min", "ranks": "max"}
    spec = read_spec({"axes": {"size": list(range(len(figures)))}, "objectives": goals})
    spec = replace(spec, stages=stages if staged else [SweepStage()])
    rows = [
        {"size": number, "status": "done", "fidelity": one, "time_ps": time_ps, "ranks": ranks}
        for number, (one, time_ps, ranks) in enumerate(figures)
    ]
    points_of = [points.SweepPoint({"size": number}, {}) for number in range(len(rows))]
    found = SweepResult(spec, points_of, rows, [])
    order = ["congestion", "analytical", "estimate"]
    highest = next(one for one in order if any(row["fidelity"] == one for row in rows))
    alone = [number for number, row in enumerate(rows) if row["fidelity"] == highest]
    assert found.best(99) == sorted(alone, key=lambda number: float(cast("float", rows[number]["time_ps"])))
    assert set(found.pareto()) <= set(alone)
    sections = found.text().split("\n\n")[1:]
    assert sections
    for section in sections:
        lines = [line.split() for line in section.splitlines()[2:]]
        numbers = [int(words[0]) for words in lines if words[0].isdigit() and words[1] != "more"]
        assert len({rows[number]["fidelity"] for number in numbers}) == 1
        assert not staged or set(numbers) <= set(alone)


def test_pictures_are_of_one_fidelity() -> None:
    """The colour of a cell was the best of estimated and simulated times."""
    stages = [{"fidelity": "estimate"}, {"fidelity": "analytical", "keep": 3}]
    axes = {"tp": [1, 2, 4], "dp": [1, 2]}
    found = run(axes, shared=MODEL, objectives={"step_ps": "min"}, stages=stages)
    simulated = [number for number, row in enumerate(found.rows) if row["fidelity"] == "analytical"]
    assert [number for number, one in enumerate(found.comparable()) if one] == simulated
    cells = unpack("study", study_message(found)[1])["cell_point"]
    assert set(map(int, cells.tolist())) == set(simulated)
    rows = [found.rows[number] for number in simulated]
    alone = replace(found, rows=rows, points=[found.points[number] for number in simulated])
    assert found.sensitivity(distance=False) == alone.sensitivity(distance=False)


def test_different_points_are_kept() -> None:
    """Two of six places went to points that were there already, under other words."""
    plans = [
        {"tp": 1, "dp": 2}, {"dp": 2}, {"dp": 2, "tp": 1, "pp": 1}, {"tp": 2}, {"tp": 2, "dp": 1},
        {"dp": 1, "tp": 1}, {"tp": 1},
    ]  # fmt: skip
    stages = [{"fidelity": "estimate"}, {"fidelity": "analytical", "keep": 3}]
    found = run({"plan": plans}, shared=MODEL, objectives={"step_ps": "min"}, stages=stages)
    best = [found.points[number].axes for number in found.best(9)]
    assert {(one.get("tp", 1), one.get("dp", 1)) for one in best} == {(1, 2), (2, 1), (1, 1)}
    assert len(best) == 3
    assert found.stages[0]["alike"] >= 2
    assert "left out that describe the same as a better one" in found.text()


def test_points_that_only_look_alike_are_kept() -> None:
    """An estimate does not depend on how messages share links: such points are not the same."""
    shared = {**MODEL, "dp": 4, "network": str(REPOSITORY / "no"), "fidelity": "analytical"}
    found = points.description({**shared, "tp": 2})
    assert found != points.description({**shared, "tp": 4})
    one = {
        "infra": "switch:gpus=4",
        "collective": "all_reduce",
        "algorithm": "ring",
        "fidelity": "congestion",
    }
    same = [points.description({**one, "size": size}) for size in ("1 MiB", "1024 KiB", "1048576 B")]
    assert len(set(same)) == 1
    others = [{"size": "2 MiB"}, {"link[0].bandwidth": "10 GB/s"}, {"fidelity": "cacheline"}]
    assert len({*same, *(points.description({**one, "size": "1 MiB", **other}) for other in others)}) == 4


def test_all_points_failing_say_why(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(_subject: Any) -> Any:
        raise InputError("no such luck")

    monkeypatch.setattr(points, "figures_of", failing)
    file = tmp_path / "sweep.json"
    stages = [{"fidelity": "estimate"}, {"fidelity": "analytical", "keep": 2}]
    file.write_text(json.dumps({"run": MODEL, "axes": {"dp": [1, 2, 3, 4]}, "stages": stages}))
    command = ["explore", str(file), "--workers", "0"]
    assert main(command) == 2  # though three points were estimated
    out, err = capsys.readouterr()
    lines = [line for line in out.splitlines() if line.startswith("failed: ")]
    assert any("and 1 more: no such luck" in line for line in lines)
    assert any("8 sequences are not 3 replicas" in line for line in lines)
    assert len(lines) == 2
    assert err.count("\n") == 1
    assert main([*command, "--json"]) == 2
    document = json.loads(capsys.readouterr().out)  # with stages of too few points for a correlation
    assert document["reasons"] == lines


def test_constraints_that_no_point_satisfies_are_named() -> None:
    found = run({"dp": [1, 2]}, shared=MODEL, constraints=["memory_bytes <= 1 MB", "ranks < 99"])
    assert "infeasible: 2 points do not satisfy memory_bytes <= 1 MB" in found.text()
    assert "ranks < 99" not in found.text()


@pytest.mark.parametrize("sampler", ["tpe", "nsga2"])
def test_optuna_repeats_and_finds(sampler: str, ran: list[str], tmp_path: Path) -> None:
    def searched(folder: Path | None = None) -> SweepResult:
        search = {"kind": "optuna", "n": 10, "seed": 4, "sampler": sampler}
        objectives = {"time_ps": "min", "gpus": "max"}
        return run(
            search=search, folder=folder, objectives=objectives, constraints=["size != '4 MiB' or gpus > 2"]
        )

    first = searched()
    assert len(first.points) == len(ran) == len(set(ran)) == 10
    assert all(point.axes != {"gpus": 2, "size": "4 MiB"} for point in first.points)
    again = searched(tmp_path)
    pd.testing.assert_frame_equal(
        without_seconds(first.to_dataframe()), without_seconds(again.to_dataframe())
    )
    assert len(ran) == 20
    searched(tmp_path)
    assert len(ran) == 20


def test_what_ended_before_an_interrupt_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ended = 0

    def interrupted(batch: Any) -> Any:
        nonlocal ended
        ended += 1
        if ended == 6:
            raise KeyboardInterrupt
        return points.run_points(batch)

    with monkeypatch.context() as patch:
        patch.setattr(executor, "run_points", interrupted)
        with pytest.raises(KeyboardInterrupt):
            run(folder=tmp_path)
    hashes: list[str] = []

    def counted(batch: Any) -> Any:
        hashes.extend(one for one, _ in batch)
        return points.run_points(batch)

    monkeypatch.setattr(executor, "run_points", counted)
    found = run(folder=tmp_path)
    assert len(hashes) == 12 - 5
    pd.testing.assert_frame_equal(
        without_seconds(found.to_dataframe()), without_seconds(run().to_dataframe())
    )


@pytest.mark.parametrize(
    "given", [{"constraints": ["memry_bytes < 8 GB"]}, {"objectives": {"stepp_ps": "min"}}]
)
def test_a_figure_that_no_point_has_is_one_line(given: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"no figure and no option is called .*; did you mean"):
        run({"dp": [1]}, shared=MODEL, **given)


def test_a_sweep_that_is_stopped_says_what_was_not_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(running, "_SHOWN_S", 0)
    seen: list[SweepResult] = []

    def watch(found: SweepResult) -> bool:
        seen.append(found)
        return len(seen) < 5

    sweep = Sweep.of({"run": RUN, "axes": AXES})
    found = sweep.run(workers=0, folder=tmp_path, on_result=watch)
    assert found.counts() == {"done": 5, "not run": 7}
    assert [one.counts()["done"] for one in seen] == [1, 2, 3, 4, 5]
    assert sweep.run(workers=0, folder=tmp_path).counts() == {"done": 12}


def test_files_that_are_no_results_are_refused(tmp_path: Path) -> None:
    (tmp_path / "points.parquet").write_bytes(b"PAR1 but no more")
    with pytest.raises(InputError, match=r"points.parquet: cannot be read: .*; remove it"):
        run(folder=tmp_path)


ENDS = """
import os, signal, sys
from astranb.cli import entry
from astranb.explore.sweeps import executor
run, points, wanted = executor.run_points, [], sys.argv.pop(1)
def ending(batch):
    points.extend(batch)
    if len(points) == 6:
        os.kill(os.getpid(), getattr(signal, wanted))
    return run(batch)
executor.run_points = ending
entry()
"""
"""A command that gets a signal while it runs its sixth point."""


def explore(tmp_path: Path, *command: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run a sweep as a command, in one process."""
    file = tmp_path / "sweep.json"
    file.write_text(json.dumps({"run": RUN, "axes": AXES}))
    more = ["explore", str(file), "-o", str(tmp_path / "results"), "--workers", "0"]
    return subprocess.run(
        [sys.executable, *command, *more],
        capture_output=True,
        text=True,
        cwd=REPOSITORY,
        check=False,
        **options,
    )


def test_a_sweep_that_is_killed_goes_on(tmp_path: Path, ran: list[str]) -> None:
    ended = explore(tmp_path, "-c", ENDS, "SIGKILL")
    assert ended.returncode == -signal.SIGKILL
    results = tmp_path / "results"
    kept = sorted(results.glob("batch-*"))
    assert len(kept) == 5
    assert not (results / "points.parquet").exists()
    resumed = run(folder=results)
    assert len(ran) == 12 - 5
    assert sorted(file.name for file in results.iterdir()) == [".lock", "points.parquet"]
    pd.testing.assert_frame_equal(
        without_seconds(resumed.to_dataframe()), without_seconds(run().to_dataframe())
    )


@pytest.mark.parametrize("name, code", [("SIGINT", 130), ("SIGTERM", 143), ("SIGALRM", 0)])
def test_a_command_that_is_stopped_tells_what_it_has(tmp_path: Path, name: str, code: int) -> None:
    """By Ctrl-C, by SIGTERM as of ``timeout``, or by the alarm of a time limit."""
    ended = explore(tmp_path, "-c", ENDS, name)
    assert (ended.returncode, ended.stderr) == (code, "astranb: interrupted\n" if code else "")
    first, second, *rest = ended.stdout.splitlines()
    assert set(first.removeprefix("sweep: 12 points: ").split(", ")) == {"5 done", "7 not run"}
    assert second == "stopped: 5 of 12 points have ended"
    assert sum(line.split()[:1] in [[str(number)] for number in range(12)] for line in rest) == 5
    kept = pd.concat(map(pd.read_parquet, (tmp_path / "results").glob("*.parquet")))
    assert kept["hash"].nunique() == 5


@pytest.mark.parametrize("seconds, sizes", [(0.01, [1, 16, 16, 6]), (0.2, [1, 5, 5, 5, 5]), (3.0, [1] * 5)])
def test_a_batch_takes_a_second(seconds: float, sizes: list[int]) -> None:
    """Thirteen points of two seconds were given to a worker at once: a stop after 25 s kept none."""
    given: list[int] = []

    class Cluster(executor._OnDask):
        def __init__(self) -> None:
            self._woken = cast("Any", SimpleNamespace(wait=lambda _: True, clear=lambda: None))
            self.at_once = 1

        def _begun(self, tasks: Any) -> Any:
            given.append(len(tasks))
            return executor._Batch(tasks, cast("Any", SimpleNamespace(done=lambda: True)), cast("Any", None))

        def _rows(self, batch: Any) -> Any:
            return [{"hash": digest, "seconds": seconds} for digest, _ in batch.tasks]

        def _forget(self, batch: Any) -> None:
            pass

    tasks: list[tuple[str, dict[str, Any]]] = [(str(number), {}) for number in range(40)]
    rows = [row for rows in Cluster().run(tasks, 16) for row in rows]
    assert [row["hash"] for row in rows] == [digest for digest, _ in tasks]
    ahead = 1  # two are under way before the first has ended
    assert given[: len(sizes) + ahead] == [1, *sizes][: len(given)]


def test_a_time_limit_stops_a_point_under_way(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """One run of an hour or so, stopped in its second second; nothing is lost, and nothing hangs."""
    file = tmp_path / "sweep.json"
    shared = {"infra": "dgx-h100", "collective": "all_reduce", "algorithm": "ring"}
    file.write_text(json.dumps({"run": shared, "axes": {"size": ["1 KiB", "4 GiB"]}}))
    assert main(["explore", str(file), "--workers", "0", "--time-limit", "2s", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["stopped"]
    assert document["counts"]["not run"] >= 1
    assert main(["explore", str(file), "--time-limit", "2 parsecs"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_full_disk_is_one_line_and_keeps_what_was_done(tmp_path: Path) -> None:
    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))

    results = tmp_path / "results"
    run({**AXES, "gpus": [2]}, folder=results)
    before = (results / "points.parquet").read_bytes()
    ended = explore(tmp_path, "-m", "astranb", preexec_fn=small_files)
    assert ended.returncode == 2
    assert ended.stderr.count("\n") == 1
    assert "cannot be written: File too large" in ended.stderr
    assert (results / "points.parquet").read_bytes() == before
    assert not list(results.glob("batch-*"))
