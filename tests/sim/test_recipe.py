"""Recipes and positions: who has the inputs of a run goes to the same moment by running."""

from __future__ import annotations

import hashlib
import json
import random
import zlib
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core import planes
from astranb.core.archive import read_archive, write_archive
from astranb.core.errors import Deadlock, InputError
from astranb.core.packed import MOST_RATIO
from astranb.core.planes import BEGIN, pack, unpack
from astranb.sim import Simulation, read_position
from tests.sim.test_time_travel import CASES, Case


def travelled(case: Case, seed: int) -> Simulation:
    """Take a run to a random moment, with random changes and breakpoints on the way."""
    draw, sim = random.Random(seed), case.make()
    for _ in range(draw.randrange(1, 5)):
        with suppress(Deadlock):
            sim.step(draw.randrange(400))
        path, values = draw.choice(list(case.edits))
        sim.set(path, draw.choice(list(values)))
    sim.break_when(draw.choice(list(case.conditions)))
    sim.break_at("3 ms").enabled = False
    return sim


@pytest.mark.parametrize("name", CASES)
def test_a_recipe_leads_to_the_same_moment(name: str, tmp_path: Path) -> None:
    for seed in range(2):
        sim = travelled(CASES[name], seed)
        again = Simulation.of_saved_bytes(sim.recipe())
        assert (again.events, again.now_ps, again.edits) == (sim.events, sim.now_ps, sim.edits)
        assert again.state_hash() == sim.state_hash()
        assert again.start_hash() == sim.start_hash() == CASES[name].make().start_hash()
        assert [vars(p) for p in again.breakpoints] == [vars(p) for p in sim.breakpoints]
        sim.save(tmp_path / "a.anb")
        assert (tmp_path / "a.anb").read_bytes() == again.recipe()
        whole = Simulation.load(tmp_path / "a.anb")
        for one in (sim, again, whole):
            one.clear()
            with suppress(Deadlock):
                one.run()
        assert sim.state_hash() == again.state_hash() == whole.state_hash()
        if sim.edits:
            for one in (sim, again):
                one.undo()
            assert sim.state_hash() == again.state_hash()


@pytest.mark.parametrize("name", CASES)
def test_a_position_leads_to_the_same_moment(name: str) -> None:
    sim, other = travelled(CASES[name], 7), CASES[name].make()
    with suppress(Deadlock):
        other.step(150)
    position = json.loads(json.dumps(sim.position(), allow_nan=False))
    other.enter(read_position(position))
    assert other.position() == position
    assert other.edits == sim.edits
    for one in (sim, other):
        one.back(60)
    assert sim.state_hash() == other.state_hash()


def test_a_recipe_after_routes_have_changed() -> None:
    sim = Simulation("ring:gpus=4", anb.collectives.all_reduce("16 KiB", "ring"))
    link = str(sim.engine.fabric.name(0)).partition("#")[0]
    sim.step(300)
    sim.take_down(link, both=True)
    sim.step(100)
    sim.reroute()
    sim.step(400)
    again = Simulation.of_saved_bytes(sim.recipe())
    assert (again.events, again.state_hash()) == (sim.events, sim.state_hash())
    other = Simulation("ring:gpus=4", anb.collectives.all_reduce("16 KiB", "ring"))
    other.enter(read_position(sim.position()))
    assert other.state_hash() == sim.state_hash()


def test_a_recipe_shows_what_was_recorded_from_the_start() -> None:
    sim = Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
    sim.step(3000)
    again = Simulation.of_saved_bytes(sim.recipe())
    assert len(sim.result.table("flights"))
    assert str(again.result.table("flights")) == str(sim.result.table("flights"))


def test_a_recipe_is_small() -> None:
    sim = Simulation("dgx-h100", anb.collectives.all_reduce("1 MiB", "ring"))
    assert len(sim.recipe()) < 10_000
    sim = Simulation("dgx-h100", anb.collectives.all_reduce("1 GiB", "ring"), fidelity="congestion")
    sim.run()
    assert len(sim.recipe()) < 10_000


@pytest.fixture(scope="module")
def recipe() -> bytes:
    sim = Simulation("switch:gpus=2", anb.collectives.all_reduce("1 KiB", "ring"))
    sim.step(100)
    sim.set("gpu[1].l2", "300 ns")
    return sim.recipe()


def remade(recipe: bytes, **changes: Any) -> bytes:
    """Change the document of a recipe: ``position__events=9`` is within ``position``."""
    members = read_archive(recipe, "", "", "")
    document = json.loads(members["recipe.json"])
    for name, value in changes.items():
        *within, last = name.split("__")
        inner = document
        for part in within:
            inner = inner[part]
        inner[last] = value
    return write_archive({**members, "recipe.json": json.dumps(document).encode()})


def refused(data: bytes) -> str:
    """Return the line with which a recipe is refused."""
    with pytest.raises(InputError) as found:
        Simulation.of_saved_bytes(data, "a.anb")
    text = str(found.value)
    assert "\n" not in text
    assert text.startswith("a.anb")
    assert found.value.exit_code == 2
    return text


def test_a_recipe_that_is_damaged_is_refused(recipe: bytes) -> None:
    assert Simulation.of_saved_bytes(remade(recipe)).events == 100
    for changes in ({"position__events": 101}, {"position__hash": "0" * 32}):
        text = refused(remade(recipe, **changes))
        assert f"saved by astranb {anb.__version__}" in text
        assert "load(path, unequal=True)" in text
    assert "the run ends after" in refused(remade(recipe, position__events=10**12))
    text = refused(remade(recipe, format="astranb recipe 9", version="7.1"))
    assert "by astranb 7.1; open it with that version" in text
    assert "inputs.work, size: size must be at least 1 B" in refused(remade(recipe, inputs__work__size=0))
    assert "no algorithm 'rng'" in refused(remade(recipe, inputs__work__algorithm="rng"))
    assert "inputs.launch" in refused(remade(recipe, inputs__launch=7))
    assert "unknown field 'lunch'" in refused(remade(recipe, inputs__lunch="none"))
    wrong: list[dict[str, Any]] = [
        {"position__events": -1}, {"position__events": "many"}, {"position": None}, {"position__edits": [3]},
        {"position__edits": None}, {"inputs__infra": 7}, {"inputs": {}}, {"engine": "fast"}, {"inputs": 3},
        {"checkpoint_bytes": 1e300}, {"position__hash": None}, {"notes": 3}, {"shared": 3}, {"parts": []},
        {"position__hash": ""}, {"position__hash": "0" * 31 + "g"}, {"position__hash": "0" * 33},
        {"inputs__presets": []}, {"inputs__work": {"ref": 0}}, {"inputs__work": {"is": "Preset"}},
        {"inputs__late_ps": [1]}, {"inputs__program": {"array": "0"}},
    ]  # fmt: skip
    for change in wrong:
        refused(remade(recipe, **change))
    members = read_archive(recipe, "", "", "")
    twice = members["recipe.json"].replace(b'"launch":', b'"launch": "graph", "launch":')
    assert twice != members["recipe.json"]
    refused(write_archive({**members, "recipe.json": twice}))
    for cut in (0, 5, len(recipe) // 2, len(recipe) - 1):
        refused(recipe[:cut])


def test_a_recipe_whose_state_is_not_reached_can_be_opened_all_the_same(
    recipe: bytes, tmp_path: Path
) -> None:
    other = remade(recipe, position__hash="0" * 32, version="0.0.7")
    assert "saved by astranb 0.0.7, this is" in refused(other)
    assert Simulation.of_saved_bytes(other, unequal=True).events == 100
    (tmp_path / "a.anb").write_bytes(remade(recipe, position__events=10**9))
    again = Simulation.load(tmp_path / "a.anb", unequal=True)
    assert again.finished
    assert again.edits == Simulation.of_saved_bytes(recipe).edits


def test_breakpoints_that_do_not_fit_are_not_a_state_that_is_not_reached(recipe: bytes) -> None:
    point = {"text": "x", "at_ps": 10**9, "rows": [], "object": "", "enabled": True}
    other = remade(recipe, position__breakpoints=[point], position__hash="0" * 32)
    found = Simulation.of_saved_bytes(other, unequal=True)  # they are those of the run all the same
    assert [one.text for one in found.breakpoints] == ["x"]
    for changes in ({}, {"position__hash": "0" * 32}):
        wrong = remade(recipe, position__breakpoints=[{**point, "rows": 7}], **changes)
        with pytest.raises(InputError) as error:
            Simulation.of_saved_bytes(wrong, "a.anb", unequal=True)
        assert str(error.value).startswith("a.anb, breakpoints: the breakpoints of this state are not of")
    assert "astranb" not in refused(remade(recipe, position__breakpoints=[{**point, "rows": 7}]))


def test_the_input_that_differs_is_named(recipe: bytes) -> None:
    program = remade(recipe, inputs__work__algorithm="allpairs")
    assert "the program of all_reduce/ring" not in refused(program)  # another one, by name
    parts = json.loads(read_archive(recipe, "", "", "")["recipe.json"])["parts"]
    name = "the program of all_reduce/ring"
    text = refused(remade(recipe, parts={**parts, name: "0"}, position__hash="0" * 32))
    assert f"{name} differ" in text
    assert "its inputs are equal" in refused(remade(recipe, position__hash="0" * 32))


def test_a_recipe_names_no_place_of_this_machine(tmp_path: Path) -> None:
    from astranb.workload import astrasim2

    network, system = tmp_path / "network.yml", tmp_path / "system.json"
    network.write_text("topology: [Ring]\nnpus_count: [4]\nbandwidth: [50]\nlatency: [500]\n")
    system.write_text('{"all-reduce-implementation": ["ring"]}')
    one = astrasim2.Operations.of([{"kind": astrasim2.COLLECTIVE, "bytes": 4096}])
    described = astrasim2.read_network(network)
    workload = astrasim2.Workload([one] * 4, described, astrasim2.read_system(_json(system)))
    document = read_archive(Simulation(workload).recipe(), "", "", "")["recipe.json"]
    assert str(tmp_path).encode() not in document


def _json(path: Path) -> Any:
    from astranb.workload.astrasim2.documents import read_json

    return read_json(path)


def test_an_algorithm_from_a_file_is_in_the_recipe(tmp_path: Path) -> None:
    from astranb.collectives import all_reduce, read_algorithm, write_algorithm

    file = tmp_path / "pairs.json"
    write_algorithm(all_reduce("4 KiB", "allpairs").program(4), file)
    sim = Simulation("switch:gpus=4", all_reduce("8 KiB", read_algorithm(file)))
    sim.step(300)
    made = sim.recipe()
    assert read_archive(made, "", "", "")["algorithm/pairs.json"] == file.read_bytes()
    file.unlink()
    again = Simulation.of_saved_bytes(made)
    assert again.state_hash() == sim.state_hash()
    assert again.rebuilt(size="16 KiB").engine.work.size == 16384
    for one in (sim, again):
        one.run()
    assert again.state_hash() == sim.state_hash()


def test_an_algorithm_that_is_a_function_is_in_the_recipe_as_its_program() -> None:
    from astranb.collectives import Collective

    def pass_on(p: Any, *, distance: int = 1) -> None:
        for me in p.everyone:
            me.block().put(me.input[0], p.rank((me.number + distance) % p.ranks).output[0])

    what = Collective.of("custom", "8 KiB", pass_on, params={"distance": 3})
    sim = Simulation("switch:gpus=4", what)
    sim.step(200)
    made = sim.recipe()
    again = Simulation.of_saved_bytes(made)
    assert again.state_hash() == sim.state_hash()
    assert again.title == sim.title
    assert again.recipe() == made
    assert again.source.parts == sim.source.parts


def test_a_function_named_as_an_algorithm_is_not_taken_for_it() -> None:
    from astranb.collectives import all_reduce
    from astranb.collectives.library import find

    written = find("all_reduce", "allpairs").write

    def ring(p: Any) -> None:
        written(p)

    sim = Simulation("switch:gpus=4", all_reduce("4 KiB", ring))
    made = sim.recipe()
    work = json.loads(read_archive(made, "", "", "")["recipe.json"])["inputs"]["work"]
    assert work["algorithm"] == {"function": "ring"}
    again = Simulation.of_saved_bytes(made)
    assert (again.title, again.recipe()) == (sim.title, made)
    for changes in ({}, {"gpu": {"sms": 64}}, {"network": {"arbitration": "fair"}}, {"start": {1: "2 us"}}):
        one, other = sim.rebuilt(**changes), again.rebuilt(**changes)
        assert other.state_hash() == one.state_hash()
        assert other.rebuilt().recipe() == one.recipe()
    refused = "the function is not in the file; its program cannot be lowered again"
    for wrong in ({"size": "8 KiB"}, {"gpu": {"unroll": 2}}, {"network": {"coalesce": 4}}, {"channels": 2}):
        with pytest.raises(InputError, match=refused):
            again.rebuilt(**wrong)
    for right in (ring, "ring"):
        one, other = (run.rebuilt(algorithm=right, size="8 KiB") for run in (sim, again))
        assert other.state_hash() == one.state_hash()
    assert again.rebuilt(algorithm=ring).state_hash() == sim.state_hash()
    assert again.rebuilt(algorithm="ring").state_hash() != sim.state_hash()


def test_a_function_that_a_run_depends_on_is_refused_in_a_line() -> None:
    sim = Simulation("switch:gpus=2", anb.collectives.all_reduce("1 KiB", "ring"))
    sim.engine.launch = len  # as nothing that can be given does
    with pytest.raises(InputError, match="a function cannot be written to a file"):
        sim.recipe()


def packed(header: Any, content: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    whole = len(text).to_bytes(4, "little") + text + content
    return BEGIN + hashlib.blake2b(whole, digest_size=16).digest() + zlib.compress(whole)


def test_tables_are_packed_and_unpacked() -> None:
    draw = np.random.default_rng(3)
    tables = {
        "records": np.zeros(5, [("a", "<i4"), ("b", "|u1"), ("c", "<f8")]),
        "wide": draw.integers(-5, 5, (3, 4, 2)),
        "none": np.zeros((0, 7), np.int32),
        "flags": draw.random(9) < 0.5,
    }
    tables["records"]["c"] = draw.random(5)
    found = unpack(pack(tables), "", "", "")
    assert list(found) == list(tables)
    for name, table in tables.items():
        assert found[name].dtype == table.dtype
        assert found[name].shape == table.shape
        assert np.array_equal(found[name], table)
    with pytest.raises(ValueError, match="unknown type of numbers"):
        pack({"objects": np.array([None])})


@pytest.mark.parametrize(
    "header",
    [
        None, 3, {}, [3], [["a", "O", [1]]], [["a", "<i8", [-1]]], [["a", "<i8", [1 << 40, 1 << 40]]],
        [["a", "<i8", [2]]], [["a", [], [1]]], [["a", [["x", "<i8", [3]]], [1]]], [["a", "<i8", [True]]],
        [["a", [["x", "<i8"], ["x", "<i8"]], [1]]], [["a", "<U9", [1]]], [[3, "<i8", [1]]], [["a", {}, [1]]],
        [["a", "|u1", [8]], ["a", "|u1", [0]]], [["a", "<i8", 1]], [["a", "|u1", [7]]], [["a", "<i8", [[1]]]],
    ],
)  # fmt: skip
def test_tables_that_somebody_has_made_up_are_refused(header: Any) -> None:
    with pytest.raises(InputError, match="not a table"):
        unpack(packed(header, bytes(8)), "here", "a table", "make one")


def test_a_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planes, "_MOST", 1 << 16)
    with pytest.raises(InputError, match="not a table"):
        unpack(pack({"zeros": np.zeros(1 << 20)}), "here", "a table", "make one")


def test_tables_that_pack_well_are_as_large_as_they_ask_for(monkeypatch: pytest.MonkeyPatch) -> None:
    tables = {"zeros": np.zeros((1 << 24) + 1, np.int8)}
    made = pack(tables)
    assert len(made) * MOST_RATIO > 1 << 24
    assert (unpack(made, "", "", "")["zeros"] == 0).all()
    for cut in (made[:-1], made + b"0", made[:-1] + b"0"):
        with pytest.raises(InputError, match="not a table, or damaged"):
            unpack(cut, "here", "a table", "make one")
    monkeypatch.setattr(planes, "free_bytes", lambda: 1 << 20)
    with pytest.raises(InputError, match="GB of memory"):
        unpack(made, "here", "a table", "make one")


@pytest.mark.parametrize(
    "changes",
    [
        {"events": 1e3}, {"events": True}, {"events": 1 << 70}, {"edits": {}}, {"edits": [[1, "a"]]},
        {"edits": [[9, "a", "b", 0], [3, "a", "b", 0]]}, {"edits": [[901, "a", "b", 0]]},
        {"edits": [[1, "a" * 2000, "b", 0]]}, {"edits": [[1, "a", "b"]]}, {"edits": [[1, "a", "b", -1]]},
        {"edits": [[1, "a", 3, 0]]}, {"breakpoints": [{"text": "x"}]}, {"breakpoints": [3]}, {"watches": [3]},
        {"hash": 3}, {"watches": ["a"] * 20_000},
    ],
)  # fmt: skip
def test_what_is_no_position_is_refused(changes: dict[str, Any]) -> None:
    right = {"events": 900, "edits": [], "breakpoints": [], "watches": [], "hash": ""}
    assert read_position(right).events == 900
    with pytest.raises(InputError, match="not the state of a run"):
        read_position({**right, **changes})
    with pytest.raises(InputError):
        read_position(list(changes))


def test_a_position_of_another_run_is_refused() -> None:
    sim = Simulation("switch:gpus=2", anb.collectives.all_reduce("1 KiB", "ring"))
    right = {"events": 50, "edits": [], "breakpoints": [], "watches": [], "hash": ""}

    def refused(**changes: Any) -> str:
        with pytest.raises(InputError) as found:
            sim.enter(read_position({**right, **changes}))
        return str(found.value)

    assert "the run ends after" in refused(events=10**9)
    assert "not the one that was saved" in refused(hash="0" * 32)
    assert "<img>" in refused(edits=[[3, "<img>.bandwidth", "1 GB/s", 0]])
    assert "nobody" in refused(watches=["gpu[0].nobody"])
    point: dict[str, Any] = {"text": "x", "at_ps": None, "rows": [], "object": "", "enabled": True}
    wrong: list[dict[str, Any]] = [
        {"rows": [{"owner": 99, "place": 10**12, "relation": 0, "value": 0}]}, {"at_ps": -(1 << 70)},
        {"rows": [{"nothing": 3}]}, {"rows": 7}, {"rows": [{"owner": 0}]}, {"text": 4},
    ]  # fmt: skip
    for made_up in wrong:
        assert "breakpoints of this state" in refused(breakpoints=[{**point, **made_up}])
    sim.enter(read_position(right))
    assert sim.events == 50


def test_a_fork_without_a_recording_saves_the_switches_made_before(tmp_path: Path) -> None:
    sim = anb.Simulation("ring:gpus=4", anb.collectives.all_reduce("4 KiB", "ring"))
    sim.step(50)
    sim.record(on=False)
    sim.step(50)
    fork = sim.fork(record=False)
    fork.step(10)
    fork.save(tmp_path / "fork")
    loaded = anb.Simulation.load(tmp_path / "fork")
    assert loaded.edits == fork.edits == [(50, "record", "off")]
    assert loaded.state_hash() == fork.state_hash()
    for move in (fork.record, lambda: fork.set("record", "on")):
        with pytest.raises(InputError, match="no room for a recording"):
            move()
