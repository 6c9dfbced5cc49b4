"""Object files for other processors, and what is done with a Numba that is not as expected."""

import os
import subprocess
import sys

import numpy as np
import pytest

from astranb.core.jit import JIT
from astranb.core.targets import PORTABLE

pytestmark = pytest.mark.skipif(not JIT, reason="ASTRANB_JIT=0: nothing is compiled")

TOY = """
from typing import Any, NamedTuple
import numpy as np
from astranb.core.entry import Entry
from astranb.core.jit import kernel, prefetch

ROW = np.dtype([("a", "i8"), ("b", "i4")])

class Machine(NamedTuple):
    rows: Any
    out: Any

@kernel(inline=False)
def more(m, i):
    m.rows[i].a += i * 3 + m.rows[i].b

@kernel
def toy(rows, out):
    m = Machine(rows, out)
    total = 0
    for i in range(len(rows)):
        prefetch(rows, i + 2)
        more(m, i)
        total += rows[i].a // 7
    out[0] = total
    return total // 3

ENTRY = Entry(toy, [ROW, np.dtype("i8")])

def outcome(run):
    rows, out = np.zeros(1000, ROW).view(np.recarray), np.zeros(1, "i8")
    rows.b = np.arange(1000) % 251
    return [int(run(rows, out)), int(run(rows, out)), int(out[0]), int(rows.a.sum())]

"""

PLAIN = "print(outcome(toy))\n"

OBJECTS = """
import sys
from pathlib import Path
import llvmlite.binding as llvm
from astranb.core.code import read_object
from astranb.core.compiler import emit, lower
from astranb.core.targets import PORTABLE

text = lower(ENTRY.function, ENTRY.parts, ENTRY.symbol, portable=True)
folder = Path(sys.argv[1])
processor = llvm.get_process_triple().split("-")[0].replace("arm64", "aarch64")
from_triple, parse = llvm.Target.from_triple, llvm.parse_assembly
for target in PORTABLE:
    file = folder / f"{target.name}.o"
    file.write_bytes(emit(text, target))
    # LLVM loads the object files of any system where the processor is the same.
    if processor in target.name and ("v3" not in target.name or sys.argv[2] == "v3"):
        llvm.Target.from_default_triple = lambda: from_triple(target.triple)
        llvm.parse_assembly = lambda _: parse(f'target triple = "{target.triple}"')
        ENTRY._machine_code = lambda: read_object(file, own=False)
        ENTRY._code = None
        print(outcome(ENTRY))
        llvm.parse_assembly = parse
"""

FAILING = """
from numba.core.ccallback import CFunc

def renamed(_callback):
    raise AttributeError("_library")

CFunc._library = property(renamed, lambda _callback, _library: None)
"""


def _run(tmp_path, code, *args):
    (tmp_path / "toy.py").write_text(TOY + code)
    command = [sys.executable, "toy.py", *args]
    environment = {**os.environ, "ASTRANB_CACHE_DIR": str(tmp_path / "cache")}
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return _run(tmp_path_factory.mktemp("plain"), PLAIN).stdout


def test_one_text_makes_object_files_for_all_targets(tmp_path, plain):
    import llvmlite.binding as llvm

    from astranb.core.targets import portable_names

    level = "v3" if any(name.endswith("v3") for name in portable_names()) else "v1"
    found = _run(tmp_path, OBJECTS, str(tmp_path), level).stdout.splitlines(keepends=True)
    same = llvm.get_process_triple().split("-")[0].replace("arm64", "aarch64")
    assert len(found) == sum(same in t.name and (level == "v3" or "v3" not in t.name) for t in PORTABLE)
    assert set(found) == {plain}
    for target in PORTABLE:
        _checksum, header, code = (tmp_path / f"{target.name}.o").read_bytes().split(b"\n", 2)
        assert code[:4] == (b"\x7fELF" if "linux" in target.name else b"\xcf\xfa\xed\xfe")
        machine = {"linux-x86": (18, 62), "linux-aar": (18, 183), "macos-x86": (4, 7), "macos-aar": (4, 12)}
        at, number = machine[target.name[:9]]
        assert int.from_bytes(code[at : at + 2], "little") == number
        assert b"llvm" not in header


def test_types_have_the_same_layout_on_all_targets():
    """So LLVM code with the offsets of one of them is right for all."""
    from llvmlite import ir

    types = [ir.IntType(bits) for bits in (1, 8, 16, 32, 64, 128)]
    types += [ir.FloatType(), ir.DoubleType(), ir.IntType(8).as_pointer()]
    types += [ir.LiteralStructType([small, large]) for small in types for large in types]
    layouts = set()
    for target in PORTABLE:
        data = target.machine().target_data
        layouts.add(tuple((t.get_abi_size(data), t.get_abi_alignment(data)) for t in types))
        assert str(data).startswith("e-")  # little-endian
    assert len(layouts) == 1


def test_a_numba_that_differs_is_used_through_its_public_interface(tmp_path, plain):
    first = _run(tmp_path, FAILING + "print(outcome(ENTRY))\n")
    assert first.stdout == plain
    assert "toy is compiled and cached by numba.njit, which is slower (Numba " in first.stderr
    assert first.stderr.count("\n") == 1
    (kept,) = (tmp_path / "cache").rglob("*.nbc")
    written = kept.stat().st_mtime_ns
    again = _run(tmp_path, FAILING + "print(outcome(ENTRY))\n")
    assert again.stdout == plain
    assert again.stderr == ""
    assert kept.stat().st_mtime_ns == written


@pytest.mark.slow
def test_a_simulation_is_the_same_with_a_numba_that_differs(tmp_path):
    code = (
        "import astranb as anb\n"
        "sim = anb.Simulation('dgx-h100', anb.collectives.all_reduce('64 KiB', 'ring'))\n"
        "sim.run()\nprint(sim.now_ps, sim.events, sim.state_hash())\n"
    )
    assert _run(tmp_path, code).stdout == _run(tmp_path, FAILING + code).stdout


def test_an_error_in_a_kernel_is_not_taken_for_another_numba():
    from numba.core.errors import NumbaError

    from astranb.core.compiler import lower
    from astranb.core.jit import kernel

    @kernel
    def wrong(rows):
        return rows.no_such_field

    with pytest.raises(NumbaError, match="no_such_field"):
        lower(wrong, [np.dtype("i8")], "wrong")
