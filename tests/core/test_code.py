"""The cache of machine code: what is damaged or open to others is never run."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from astranb.core import code
from astranb.core.code import read_object, sealed
from astranb.core.jit import JIT

CODE = b"names\n\x7fELF and so on" * 20
PROGRAM = """
import sys
import numpy as np
from astranb.core.entry import Entry
from astranb.core.jit import kernel

@kernel
def last(a, n):
    total = 0
    for i in range(n[0]):
        total += a[i]
    return total

entry = Entry(last, [np.dtype("i8"), np.dtype("i8")])
print(entry(np.arange(4), np.array([4])), "numba" in sys.modules)
if len(sys.argv) > 1:
    try:
        entry(np.arange(4), np.array([5]))
    except IndexError as error:
        print(error)
"""


def test_every_damage_is_seen(tmp_path: Path):
    file = tmp_path / "x.o"
    assert read_object(file, own=True) is None
    whole = sealed(CODE)
    file.write_bytes(whole)
    assert read_object(file, own=True) == CODE
    for place in range(len(whole)):
        file.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        assert read_object(file, own=True) is None
        file.write_bytes(whole[:place])
        assert read_object(file, own=True) is None
    file.unlink()
    file.mkdir()
    assert read_object(file, own=True) is None


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="no owners of files")
def test_what_others_can_write_is_not_used(tmp_path: Path, monkeypatch, capsys):
    file = tmp_path / "x.o"
    file.write_bytes(sealed(CODE))
    for mode in (0o620, 0o602):
        file.chmod(mode)
        assert read_object(file, own=True) is None
        assert read_object(file, own=False) == CODE
    file.chmod(0o600)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert read_object(file, own=True) is None
    monkeypatch.undo()

    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    (tmp_path / "temporary").mkdir()
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    monkeypatch.setenv("ASTRANB_CACHE_DIR", str(open_to_all))
    folder = code.cache_folder()
    assert folder.is_relative_to(tmp_path / "temporary")
    assert folder.stat().st_mode & 0o077 == 0
    assert not list(open_to_all.iterdir())
    assert capsys.readouterr().err.count("\n") == 1
    code.cache_folder()
    assert capsys.readouterr().err == ""
    # Another process finds the same folder; where somebody else has taken its name, none is shared.
    code._cache_folder.cache_clear()
    assert code.cache_folder() == folder
    code._cache_folder.cache_clear()
    folder.parent.chmod(0o777)
    other = code.cache_folder()
    assert other.parent != folder.parent
    code._cache_folder.cache_clear()


def run(tmp_path: Path, *words: str, **more: str) -> list[str]:
    (tmp_path / "program.py").write_text(PROGRAM)
    environment = {**os.environ, "ASTRANB_CACHE_DIR": str(tmp_path / "cache"), **more}
    command = [sys.executable, str(tmp_path / "program.py"), *words]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout.splitlines()


@pytest.mark.skipif(not JIT, reason="ASTRANB_JIT=0: nothing is compiled")
def test_damaged_machine_code_is_compiled_anew(tmp_path: Path):
    assert run(tmp_path) == ["6 True"]
    assert run(tmp_path) == ["6 False"]
    (file,) = (tmp_path / "cache").rglob("last.o")
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    file.chmod(0o666)
    (tmp_path / "cache" / "last.seconds").write_text("nonsense")
    assert run(tmp_path) == ["6 True"]
    assert run(tmp_path) == ["6 False"]


@pytest.mark.skipif(not JIT, reason="ASTRANB_JIT=0: nothing is compiled")
def test_kernels_with_bounds_checks_are_kept_beside_the_others(tmp_path: Path):
    assert run(tmp_path)[0] == "6 True"
    for _ in range(2):
        assert run(tmp_path, "beyond", ASTRANB_BOUNDS="1")[1] == "index is out of bounds"
    assert len(list((tmp_path / "cache").rglob("last.o"))) == 2
    assert run(tmp_path) == ["6 False"]
