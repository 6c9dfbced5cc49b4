"""Integers of 64 bits where NumPy's own have 32."""

import ast
import re
from pathlib import Path

import numpy as np

import astranb
from astranb.core import wide

PACKAGE = Path(astranb.__file__).parent

INDEX_METHODS = {
    "argmax", "argmin", "argpartition", "argsort", "choose", "cumprod", "cumsum", "nonzero", "reduceat",
    "repeat", "searchsorted",
}  # fmt: skip
"""Methods of arrays that give, or refuse, integers by the width of a pointer: a function does it here."""

OF_OTHERS = {
    ("core/arrays.py", "reduceat"),  # reduce_at, which gives it what it takes
    ("widgets/desk.py", "choose"),
    ("widgets/page_editor.py", "choose"),
}
"""Calls whose method is not that of an array, or whose result is widened as needed."""


def _narrow(tree: ast.AST):
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        called = node.func
        if not isinstance(called, ast.Attribute):
            continue
        of_numpy = isinstance(called.value, ast.Name) and called.value.id == "np"
        if called.attr in INDEX_METHODS and not of_numpy:
            yield called.attr, node.lineno
        by_int = any(isinstance(one, ast.Name) and one.id == "int" for one in node.args)
        if called.attr in {"astype", "dtype", "view"} and by_int:
            yield f"{called.attr}(int)", node.lineno


def test_no_method_of_an_array_depends_on_the_width_of_a_pointer():
    found = []
    for file in sorted(PACKAGE.rglob("*.py")):
        place = file.relative_to(PACKAGE).as_posix()
        for name, line in _narrow(ast.parse(file.read_text("utf-8"))):
            if (place, name) not in OF_OTHERS:
                found.append(f"{place}:{line}: {name}")
    assert found == []


def test_nothing_changes_where_the_width_is_right():
    before = {name: getattr(np, name) for name in dir(np)}
    wide.install()
    assert all(getattr(np, name) is one for name, one in before.items())


def test_only_one_module_asks_where_it_runs():
    asking = [
        file.relative_to(PACKAGE).as_posix()
        for file in sorted(PACKAGE.rglob("*.py"))
        if re.search(
            r"""["']emscripten["']|["']wasm32["'] *[=!]=|import pyodide""",
            file.read_text("utf-8"),
        )
    ]
    assert asking == ["core/host.py"]
