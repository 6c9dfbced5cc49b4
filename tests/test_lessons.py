"""Cells of lessons and notebooks are what a reader would write."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.test_notebooks import NOTEBOOKS

_FACTORS = {factor for k in range(1, 6) for factor in (1000**k, 1000**-k, 1024**k)}
_UNIT = re.compile(r"(\w+\.)*units\.\w+|[KMGT]i?B")
_TAKE_APART = ("split", "rsplit", "partition", "rpartition")
_INSIDES = ("engine", "fabric")


def _number(node: ast.expr) -> object:
    """Return the value of a number that is written out, as ``1e6`` or ``46 * 2**40``; else None."""
    written = all(isinstance(one, ast.Constant | ast.BinOp | ast.operator) for one in ast.walk(node))
    return eval(ast.unparse(node)) if written else None


def _changes_unit(node: ast.AST) -> bool:
    """Return whether a power of 1000 or 1024 multiplies or divides what is neither a number nor a unit."""
    if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.Mult | ast.Div | ast.FloorDiv):
        return False
    numbers = _number(node.left), _number(node.right)
    units = (_UNIT.fullmatch(ast.unparse(side)) for side in (node.left, node.right))
    return None in numbers and not _FACTORS.isdisjoint(numbers) and not any(units)


def _faults(cell: str) -> Iterator[str]:
    """Name what a reader would not write in a cell."""
    tree = ast.parse("\n".join("" if line.startswith(("%", "!")) else line for line in cell.splitlines()))
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if _changes_unit(node):
            yield f"a unit changed by hand: {ast.unparse(node)}"
        elif isinstance(node, ast.Subscript) and ast.unparse(node.slice) == "'state'":
            yield f"the inspector's rows: {ast.unparse(node)}"
        elif isinstance(node, ast.ImportFrom | ast.Import):
            names = [one.name for one in node.names] if isinstance(node, ast.Import) else [node.module or ""]
            yield from (f"a deep import: {name}" for name in names if re.match(r"astranb\.\w+\.", name))
        elif isinstance(node, ast.Attribute):
            where = ast.unparse(node)
            if (node.attr in _INSIDES and id(node) not in called) or node.attr == "expand":
                yield f"insides: {where}"
            elif "subprocess" in cell:  # the text of another program
                continue
            elif node.attr in _TAKE_APART or where.startswith("re."):
                yield f"a text taken apart: {where}"


@pytest.mark.parametrize("file", NOTEBOOKS, ids=lambda file: file.stem)
def test_cells_are_what_a_reader_would_write(file: Path) -> None:
    cells = json.loads(file.read_text(encoding="utf-8"))["cells"]
    found = [
        f"cell {number}: {fault}"
        for number, cell in enumerate(cells)
        if cell["cell_type"] == "code"
        for fault in _faults("".join(cell["source"]))
    ]
    assert found == []


@pytest.mark.parametrize(
    "cell, fault",
    [
        ("print(f'{took_ps / 1e6:.2f} us')", "a unit changed by hand: took_ps / 1000000.0"),
        ("ns = sim.now_ps // 1000", "a unit changed by hand: sim.now_ps // 1000"),
        ("time_us * 1000", "a unit changed by hand: time_us * 1000"),
        ("(end - start) * 1e-9", "a unit changed by hand: (end - start) * 1e-09"),
        ("size / 2**30", "a unit changed by hand: size / 2 ** 30"),
        ("size // (1 << 20)", "a unit changed by hand: size // (1 << 20)"),
        ('dict(sim.inspect("gpu[3]")["state"])', "the inspector's rows: sim.inspect('gpu[3]')['state']"),
        ('sim.result.explain().split("What")[0]', "a text taken apart: sim.result.explain().split"),
        ('links.str.rsplit(".", n=1)', "a text taken apart: links.str.rsplit"),
        ('re.findall("GPU[0-9]+", text)', "a text taken apart: re.findall"),
        ("from astranb.workload.astrasim1 import Part", "a deep import: astranb.workload.astrasim1"),
        ("import astranb.workload.models as models", "a deep import: astranb.workload.models"),
        ("port = sim.engine.find(name)", "insides: sim.engine"),
        ("one.expand()", "insides: one.expand"),
    ],
)
def test_what_a_reader_would_not_write_is_found(cell: str, fault: str) -> None:
    assert fault in list(_faults(cell))


@pytest.mark.parametrize(
    "cell",
    [
        "size = 1 << 20",
        "steps = 2 * (npus - 1)",
        "share = 100 * part / whole",
        "sizes = [2**power * MiB for power in range(11)]",
        "sim.goto(1000 * anb.units.us)",
        "all_reduce(1024 * MiB)",
        "per_ns = 46 * 2**40 * units.ns / units.s",
        "chunks = size // 4 // 8 // 500_000",
        "print(size / anb.units.MiB)",
        "for factor in (1000, 2000):\n    sim.step(factor)",
        "%%collective mine\np.engine(0).put(here, there)",
        "done = subprocess.run(command, text=True)\nlines = done.stdout.split()",
        "from astranb.workload import models",
    ],
)
def test_what_a_reader_would_write_is_no_fault(cell: str) -> None:
    assert list(_faults(cell)) == []
