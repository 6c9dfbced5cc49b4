import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import astranb
from astranb.core.code import kernel_sources, source_hash
from astranb.core.entry import Entry
from astranb.core.files import locked, whole_file
from astranb.core.jit import JIT, kernel

PACKAGE = Path(astranb.__file__).parent


def test_every_kernel_file_is_in_the_hash():
    with_kernels = {f for f in PACKAGE.rglob("*.py") if "@kernel" in f.read_text() and f.name != "jit.py"}
    assert with_kernels
    assert with_kernels <= set(kernel_sources())


def test_the_records_are_in_the_hash_too():
    """A field that moves moves in the machine code."""
    assert PACKAGE / "gpu" / "tables.py" in kernel_sources()
    assert PACKAGE / "net" / "link.py" in kernel_sources()


def test_an_edit_in_a_called_function_changes_the_hash(tmp_path):
    copy = tmp_path / "astranb"
    shutil.copytree(PACKAGE, copy, ignore=shutil.ignore_patterns("__pycache__"))
    before = source_hash(copy)
    link = copy / "net" / "link.py"
    link.write_text(link.read_text().replace("max(now_ps", "max(now_ps + 0"))
    assert source_hash(copy) != before


def test_an_edited_callee_is_seen_by_a_new_process(tmp_path):
    """The trap of Numba's own cache: the entry's file is the same, only a function it calls has changed."""
    if not JIT:
        pytest.skip("ASTRANB_JIT=0: there is no compiled code to be stale")
    copy = tmp_path / "astranb"
    (copy / "core").mkdir(parents=True)
    for name in (
        "__init__",
        "core/__init__",
        "core/code",
        "core/compiler",
        "core/entry",
        "core/errors",
        "core/files",
        "core/handle",
        "core/host",
        "core/jit",
        "core/lazy",
        "core/progress",
        "core/targets",
        "core/version",
        "core/wasm",
    ):
        shutil.copy(PACKAGE / f"{name}.py", copy / f"{name}.py")
    (copy / "callee.py").write_text(
        "from .core.jit import kernel\n\n@kernel\ndef more(x):\n    return x + 1\n"
    )
    (copy / "caller.py").write_text(
        "import numpy as np\nfrom .core.entry import Entry\nfrom .core.jit import kernel\n"
        "from .callee import more\n\n"
        "@kernel\ndef first(a):\n    return more(a[0])\n\n"
        "print(Entry(first, [np.dtype('i8')])(np.array([41])))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "ASTRANB_CACHE_DIR": str(tmp_path / "cache")}

    def run():
        command = [sys.executable, "-m", "astranb.caller"]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=True
        )
        return done.stdout.strip()

    assert run() == "42"
    assert run() == "42"
    (copy / "callee.py").write_text(
        "from .core.jit import kernel\n\n@kernel\ndef more(x):\n    return x + 2\n"
    )
    assert run() == "43"


WAITING = """
import sys
import numpy as np
from astranb.core.entry import Entry
from astranb.core.files import locked, whole_file
from astranb.core.jit import kernel

@kernel
def twice(a):
    return 2 * a[0]

print("ready", flush=True)
print(Entry(twice, [np.dtype("i8")])(np.array([21])), "numba" in sys.modules)
"""


@pytest.mark.skipif(not JIT or sys.platform == "win32", reason="nothing is compiled, or no locks")
def test_what_another_process_compiles_is_waited_for(tmp_path):
    program = tmp_path / "waiting.py"
    program.write_text(WAITING)
    environment = {**os.environ, "ASTRANB_CACHE_DIR": str(tmp_path / "cache")}

    def start():
        return subprocess.Popen([sys.executable, program], env=environment, text=True, stdout=subprocess.PIPE)

    with start() as first:
        assert first.communicate(timeout=120)[0] == "ready\n42 True\n"
    (compiled,) = (tmp_path / "cache").rglob("twice.o")
    code = compiled.read_bytes()
    compiled.unlink()
    with locked(compiled.with_name("twice.lock")):
        second = start()
        assert second.stdout.readline() == "ready\n"
        with pytest.raises(subprocess.TimeoutExpired):
            second.wait(timeout=1)
        with whole_file(compiled) as file:
            file.write(code)
    with second:
        assert second.communicate(timeout=120)[0] == "42 False\n"


@kernel
def _total(a):
    total = 0
    for i in range(len(a)):
        total += a[i]
    return total


def test_an_entry_refuses_arrays_that_are_not_as_declared():
    entry = Entry(_total, [np.dtype("i8")])
    with pytest.raises(TypeError, match="contiguous"):
        entry(np.zeros(3, "i4"))
    with pytest.raises(TypeError, match="contiguous"):
        entry(np.zeros(6, "i8")[::2])
    with pytest.raises(TypeError, match="takes 1"):
        entry()
