"""The examples of collectives: short, right on any number of ranks that they are for, run, and exported."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import astranb as anb
from astranb.collectives import Collective, verify
from astranb.core.errors import InputError

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "collectives"
MOST_LINES = 25
ANY, POWERS = (2, 3, 5, 8), (2, 4, 8, 16)
ALGORITHMS: dict[str, tuple[str, str, tuple[int, ...]]] = {
    "bruck": ("bruck", "all_gather", ANY),
    "pat": ("pat", "all_gather", ANY),
    "recursive_doubling": ("recursive_doubling", "all_reduce", POWERS[:3]),
    "swing": ("swing", "all_reduce", POWERS),
    "sliced_chain": ("sliced_chain", "broadcast", ANY),
    "two_trees": ("two_trees", "all_reduce", ANY),
    "nvls_beside_ring": ("nvls_beside_ring", "all_reduce", ANY),
    "rails": ("rails", "all_reduce", (8, 16)),
    "all_to_all_v": ("direct", "all_to_all_v", ANY),
    "sweep": ("sliced_ring", "all_reduce", ANY),
}
"""Of each file that has an algorithm: its function, the collective, and numbers of ranks."""
SCRIPTS = ("late_rank", "exports")
REFUSED = {
    ("nvls_beside_ring", "xml"): "no switch operations",
    ("all_to_all_v", "xml"): "chunks of different sizes",
    ("all_to_all_v", "json"): "chunks of different sizes",
}
"""Programs that a format cannot express, and the words of the error."""


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"example_{name}", FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def collective_of(name: str, size: str = "64 KiB", **options: Any) -> Collective:
    """Return the collective of an example."""
    module = load(name)
    function, collective, _ = ALGORITHMS[name]
    if name == "all_to_all_v":
        return Collective.of(module.uneven, algorithm=module.direct, **options)
    return Collective.of(collective, size, getattr(module, function), **options)


def test_there_are_twelve() -> None:
    assert {file.stem for file in FOLDER.glob("*.py")} == {*ALGORITHMS, *SCRIPTS}
    assert len(ALGORITHMS) + len(SCRIPTS) == 12


@pytest.mark.parametrize("name", [*ALGORITHMS, *SCRIPTS])
def test_an_example_is_short_and_says_what_it_is(name: str) -> None:
    text = (FOLDER / f"{name}.py").read_text(encoding="utf-8")
    tree = ast.parse(text)
    assert ast.get_docstring(tree)
    about = {
        line
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.FunctionDef) and ast.get_docstring(node)
        for line in range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)
    }
    code = [
        line
        for number, line in enumerate(text.splitlines(), 1)
        if line.strip() and number not in about and not line.lstrip().startswith("#")
    ]
    assert len(code) <= MOST_LINES


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_is_proved_for_any_number_of_ranks(name: str) -> None:
    for ranks in ALGORITHMS[name][2]:
        per_node = ranks // 2 if name == "rails" else None
        collective = collective_of(name, channels=2)
        assert verify(collective.program(ranks, per_node), collective.name) == [], ranks


@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_runs_and_is_explained_at_its_lines(name: str) -> None:
    infra = "single-tier:servers=2,server=dgx-h100" if name == "rails" else "dgx-h100"
    sim = anb.Simulation(infra, collective_of(name, channels=1), record=False)
    assert sim.run().why == "end"
    lines = sim.result.by_line()
    assert int(lines["path_ps"].sum()) == sim.now_ps
    assert (lines["block_ps"] > 0).sum() > 1


@pytest.mark.parametrize("ending", ["xml", "json"])
@pytest.mark.parametrize("name", ALGORITHMS)
def test_an_algorithm_leaves_for_gpus_and_comes_back(name: str, ending: str, tmp_path: Path) -> None:
    collective = collective_of(name, channels=1)
    file = tmp_path / f"algorithm.{ending}"
    program = collective.program(8, 4 if name == "rails" else None)
    if (name, ending) in REFUSED:
        with pytest.raises(InputError, match=REFUSED[name, ending]):
            anb.collectives.write_algorithm(program, file)
        return
    notes = anb.collectives.write_algorithm(program, file)
    plan = anb.collectives.read_algorithm(file)
    here, there = (
        anb.Simulation("switch:gpus=8", one, record=False)
        for one in (collective, Collective.of(collective.name, collective.size, plan))
    )
    here.run()
    there.run()
    more = there.now_ps / here.now_ps - 1
    assert notes or abs(more) <= 0.01, f"{100 * more:+.1f} % and no note"


def test_a_sweep_finds_the_best_parameters() -> None:
    found = load("sweep").swept(sizes=["64 KiB"], slices=[1, 2])
    frame = found.to_dataframe()
    assert frame["proved"].all()
    assert len(frame) == 4
    posted = frame[frame["params.posted"] & (frame["params.slices"] == 2)]["time_ps"].item()
    fenced = frame[~frame["params.posted"] & (frame["params.slices"] == 2)]["time_ps"].item()
    assert posted < fenced
    assert found.figure() is not None


def test_a_late_rank_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    load("late_rank").late_rank(size="64 KiB", late="20 us")
    printed = capsys.readouterr().out.splitlines()
    assert len(printed) == 4
    assert all("20.0 us of the critical path before rank 3 started" in line for line in printed)


def test_exports_say_what_they_cost(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    load("exports").exports(load("pat").pat, ranks=4, size="64 KiB", folder=str(tmp_path))
    printed = capsys.readouterr().out
    assert "pat.xml" in printed
    assert "pat.json" in printed
    assert "thread blocks become" in printed
