"""A wheel holds machine code, and nothing is compiled where it is installed."""

import zipfile
from pathlib import Path

import pytest

import astranb as anb
from astranb.core.ahead import load_entries
from astranb.core.code import source_hash
from astranb.core.targets import PORTABLE
from benchmarks.wheel import first_step, install_wheel


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    install_wheel(folder)
    return folder


@pytest.mark.slow
def test_a_wheel_holds_object_files_of_all_entries_for_all_targets(folder):
    (wheel,) = (folder / "wheels").iterdir()
    assert wheel.name.endswith("-py3-none-any.whl")
    names = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("astranb/_objects/")}
    prefix = f"astranb/_objects/{source_hash()}"
    objects = {f"{prefix}/{t.name}/{entry}.o" for t in PORTABLE for entry in load_entries()}
    modules = {f"{prefix}/wasm32/{entry}.wasm" for entry in load_entries()}
    assert names == objects | modules
    assert source_hash(folder / "site" / "astranb") == source_hash()


@pytest.mark.slow
def test_an_installed_wheel_compiles_nothing(folder, tmp_path):
    seconds, package, state = first_step(folder / "site", tmp_path)
    assert Path(package).is_relative_to(folder)
    assert list(tmp_path.rglob("*")) == []
    assert seconds < 10  # `make bench` holds it against 2 s
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("1 MiB", "ring"))
    sim.run()
    assert sim.state_hash() == state
