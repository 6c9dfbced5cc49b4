"""Snapshots beside recipes: used where they can be believed, never needed."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import Deadlock
from astranb.core.number_files import arrays_of, bytes_of
from astranb.engine.edits import is_rerouted
from astranb.sim import Simulation, snapshots
from astranb.sim.driver import Driver
from tests.sim.test_recipe import travelled
from tests.sim.test_time_travel import CASES


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of one's own, in which any run is long."""
    monkeypatch.setattr(snapshots, "LEAST_EVENTS", 1)
    own = tmp_path / "cache" / "kernels"
    own.mkdir(parents=True, mode=0o700)
    monkeypatch.setattr(snapshots, "cache_folder", lambda: own)
    return tmp_path / "cache" / "snapshots"


@pytest.fixture
def replayed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The events up to which runs were simulated again."""
    found: list[int] = []
    replay = Driver.replay

    def noted(driver: Driver, field: str, target: int, *more: Any) -> None:
        found.append(target)
        replay(driver, field, target, *more)

    monkeypatch.setattr(Driver, "replay", noted)
    return found


def ring() -> Simulation:
    sim = Simulation("switch:gpus=2", anb.collectives.all_reduce("1 KiB", "ring"))
    sim.step(150)
    sim.set("gpu[1].l2", "300 ns")
    sim.step(100)
    return sim


@pytest.mark.parametrize("name", CASES)
def test_with_and_without_its_snapshot_a_run_is_the_same(
    name: str, folder: Path, replayed: list[int], tmp_path: Path
) -> None:
    sim = travelled(CASES[name], 0)
    while not sim.events:
        sim.step(7)
    sim.save(tmp_path / "a.anb")
    replayed.clear()
    quick = Simulation.load(tmp_path / "a.anb")
    assert is_rerouted(sim.driver.edits) or not replayed
    for path in folder.glob("*.snapshot"):
        path.unlink()
    slow = Simulation.load(tmp_path / "a.anb")
    assert replayed
    for one in (quick, slow):
        assert (one.events, one.now_ps, one.edits) == (sim.events, sim.now_ps, sim.edits)
        assert one.state_hash() == sim.state_hash()
        assert one.driver.edits == sim.driver.edits
        assert one.unrecorded == sim.unrecorded
        assert one.recipe() == sim.recipe()
    draw = random.Random(0)
    for _ in range(3):
        back, on = draw.randrange(200), draw.randrange(300)
        for one in (sim, quick, slow):
            one.clear()
            one.back(back)
            with suppress(Deadlock):
                one.step(on)
        assert sim.state_hash() == quick.state_hash() == slow.state_hash()
        assert str(sim.result.per_rank()) == str(quick.result.per_rank())


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _of_another_key(path: Path) -> None:
    (path.parent / "key").unlink()


def _others_can_read_the_key(path: Path) -> None:
    (path.parent / "key").chmod(0o644)


def _others_can_write(path: Path) -> None:
    path.parent.chmod(0o777)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _of_another_run(path: Path) -> None:
    other = ring()
    other.step(9)
    other.save(path.parent.parent / "other.anb")
    found = next(one for one in path.parent.glob("*.snapshot") if one != path)
    path.write_bytes(found.read_bytes())  # what is right under another name is wrong
    assert snapshots._read(path.parent, found.name) is not None
    assert snapshots._read(path.parent, path.name) is None


@pytest.mark.parametrize(
    "harm",
    [_flip, _of_another_key, _others_can_read_the_key, _others_can_write, _cut, _empty, _of_another_run],
)
def test_a_snapshot_that_cannot_be_believed_is_not_used(
    harm: Callable[[Path], None], folder: Path, replayed: list[int], tmp_path: Path
) -> None:
    sim = ring()
    sim.save(tmp_path / "a.anb")
    (path,) = folder.glob("*.snapshot")
    harm(path)
    replayed.clear()
    again = Simulation.load(tmp_path / "a.anb")
    assert replayed
    assert again.state_hash() == sim.state_hash()


def test_a_forged_state_under_the_right_key_is_not_used(folder: Path, replayed: list[int]) -> None:
    """The hash of the state is in the recipe, whoever wrote the snapshot."""
    sim = ring()
    recipe = sim.recipe()
    sim.engine.machine.links["latency_ps"] += 1
    snapshots.keep(recipe, sim.driver)
    assert len(list(folder.glob("*.snapshot"))) == 1
    replayed.clear()
    again = Simulation.of_saved_bytes(recipe)
    assert replayed
    assert again.recipe() == recipe
    assert again.state_hash() == ring().state_hash()


@pytest.mark.parametrize("edits", ['[{"when": 3}]', '[{"rows": [0], "when": 3}]', "[3]", "3", "none"])
def test_a_snapshot_of_another_form_is_not_used(edits: str, folder: Path, replayed: list[int]) -> None:
    """Its seal is right: an older version of the same user wrote it."""
    sim = ring()
    recipe = sim.recipe()
    snapshots.keep(recipe, sim.driver)
    (path,) = folder.glob("*.snapshot")
    tables = arrays_of(path.read_bytes()[32:], path.name)
    content = bytes_of({**tables, "edits": np.frombuffer(edits.encode(), np.uint8)})
    path.write_bytes(snapshots._seal((folder / "key").read_bytes(), path.name, content) + content)
    replayed.clear()
    again = Simulation.of_saved_bytes(recipe)
    assert replayed
    assert (again.recipe(), again.state_hash()) == (recipe, sim.state_hash())


@pytest.mark.parametrize("is_, was", [('"latency_ps"', '"latency_ns"'), ('"<i8"', '"<f8"')])
def test_a_snapshot_of_another_layout_is_not_used(
    is_: str, was: str, folder: Path, replayed: list[int]
) -> None:
    """Tables of the same lengths whose fields have other names, or types, are not these."""
    sim = ring()
    recipe = sim.recipe()
    snapshots.keep(recipe, sim.driver)
    (path,) = folder.glob("*.snapshot")
    tables = arrays_of(path.read_bytes()[32:], path.name)
    layout = tables["layout"].tobytes().decode()
    assert is_ in layout
    tables["layout"] = np.frombuffer(layout.replace(is_, was).encode(), np.uint8)
    content = bytes_of(tables)
    path.write_bytes(snapshots._seal((folder / "key").read_bytes(), path.name, content) + content)
    replayed.clear()
    again = Simulation.of_saved_bytes(recipe)
    assert replayed
    assert again.state_hash() == sim.state_hash()


def test_another_version_does_not_use_a_snapshot(
    folder: Path, replayed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe = ring().recipe()
    for version in ("0.0.1", "0.0.2"):
        monkeypatch.setattr(snapshots, "__version__", version)
        for expected in (True, False):
            replayed.clear()
            Simulation.of_saved_bytes(recipe)
            assert bool(replayed) == expected
    assert len(list(folder.glob("*.snapshot"))) == 2


@pytest.mark.parametrize("part", [b"", b"half a key"])
def test_a_key_that_is_not_whole_is_made_again(part: bytes, folder: Path, replayed: list[int]) -> None:
    folder.mkdir(mode=0o700)
    (folder / "key").write_bytes(part)
    (folder / "key").chmod(0o600)
    recipe = ring().recipe()
    Simulation.of_saved_bytes(recipe)
    assert (folder / "key").stat().st_size == 32
    assert {path.suffix for path in folder.iterdir()} == {"", ".snapshot"}
    replayed.clear()
    Simulation.of_saved_bytes(recipe)
    assert not replayed


def test_a_save_without_memory_for_a_snapshot_is_a_save(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: object) -> bytes:
        raise MemoryError

    monkeypatch.setattr(snapshots, "bytes_of", full)
    ring().save(tmp_path / "a.anb")
    assert (tmp_path / "a.anb").exists()
    assert not list(folder.glob("*.snapshot"))


def test_the_key_is_for_this_user_only(folder: Path, tmp_path: Path) -> None:
    ring().save(tmp_path / "a.anb")
    state = (folder / "key").stat()
    assert state.st_size == 32
    if hasattr(os, "geteuid"):
        assert state.st_mode & 0o777 == 0o600
        assert folder.stat().st_mode & 0o777 == 0o700


def test_snapshots_take_so_much_room_and_no_more(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sim = ring()
    sim.save(tmp_path / "0.anb")
    (first,) = folder.glob("*.snapshot")
    size = first.stat().st_size
    monkeypatch.setattr(snapshots, "_MOST_ALL", 3 * size + size // 2)
    for number in range(1, 5):
        if first.exists():
            os.utime(first, (number, number))  # long ago
        sim.step(1)
        sim.save(tmp_path / f"{number}.anb")
    assert not first.exists()
    assert sum(path.stat().st_size for path in folder.glob("*.snapshot")) <= 3 * size + size // 2
    assert len(list(folder.glob("*.snapshot"))) == 3
    monkeypatch.setattr(snapshots, "_MOST_EACH", 1000)
    sim.step(1)
    sim.save(tmp_path / "5.anb")
    assert len(list(folder.glob("*.snapshot"))) == 3


def test_of_a_short_run_no_snapshot_is_kept(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LEAST_EVENTS", 10_000)
    sim = ring()
    sim.save(tmp_path / "a.anb")
    assert Simulation.load(tmp_path / "a.anb").state_hash() == sim.state_hash()
    assert not folder.exists()


def test_a_cache_that_cannot_be_written_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshots, "LEAST_EVENTS", 1)
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(snapshots, "cache_folder", lambda: tmp_path / "file" / "kernels")
    sim = ring()
    sim.save(tmp_path / "a.anb")
    assert Simulation.load(tmp_path / "a.anb").state_hash() == sim.state_hash()


def test_a_run_opened_by_simulating_keeps_a_snapshot(folder: Path, replayed: list[int]) -> None:
    recipe = ring().recipe()
    assert not folder.exists()
    Simulation.of_saved_bytes(recipe)
    assert replayed
    replayed.clear()
    Simulation.of_saved_bytes(recipe)
    assert not replayed
