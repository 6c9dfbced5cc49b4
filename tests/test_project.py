"""The rules of the project that its files can be checked for."""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Container, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import astranb

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "astranb"

FLOORS = {
    "core": 0,
    "infragraph": 1,
    "chakra": 1,
    "net": 2,
    "gpu": 2,
    "collectives": 3,
    "workload": 4,
    "sim": 5,
    "explore": 6,
    "traffic": 6,
    "widgets": 7,
    "export": 7,
    "cli": 8,
}
"""Each folder or module of the package and its floor: it may import what is on lower floors."""

SAME_FLOOR = {
    ("gpu", "net"),
    ("export", "widgets"),
}
"""Who may import whom on one floor."""

TOP = {"__init__", "__main__"}
"""Modules above all floors: the package's face and its program."""

LONGER_THAN_400_LINES: dict[str, str] = {
    "collectives/formats/msccl_xml.py": "reads and writes one format",
    "collectives/formats/mscclpp.py": "reads and writes one format",
    "collectives/language/program.py": "the language of algorithms",
    "widgets/static/store.js": "one object that all views share",
    "widgets/static/timeline.js": "one picture with its answer, its rows and its pointer",
}
"""Files of the package that may be longer, each with the reason."""

HEAVY = ("IPython", "PIL", "anywidget", "bokeh", "infragraph", "ipywidgets", "jupyterlab", "numba", "pandas")
"""What `import astranb` must not load: each costs more than astranb itself."""

_ALLOWED_ADDRESS = "http://www.w3.org/2000/svg"
_FORBIDDEN_IN_SCRIPTS = {
    "an address": r"https?:" + "//",
    "markup from text": r"innerHTML|outerHTML|insertAdjacentHTML|document\.write",
    "code from text": r"\beval\s*\(|\bnew\s+Function\b",
    "a place on one machine": r"/(?:home|root|work|Users)/",
}

Modules = dict[str, set[str]]


def _name(file: Path, package: Path) -> str:
    """Give the dotted name of a file of the package; that of its folder for an ``__init__``."""
    parts = file.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _is_for_types(node: ast.AST) -> bool:
    """Tell an ``if TYPE_CHECKING:`` block."""
    return isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"


def _nodes(tree: ast.AST, *, types: bool) -> Iterator[ast.AST]:
    """Walk over a file, with or without what is there for type checkers only."""
    for node in ast.iter_child_nodes(tree):
        if types or not _is_for_types(node):
            yield node
            yield from _nodes(node, types=types)


def _imports(file: Path, package: Path, *, types: bool) -> Iterator[str]:
    """Yield what a file imports from the package, wherever the import stands, as dotted names.

    The version may be read from everywhere: `astranb.__init__` defines it before anything else.
    """
    folder = file.parent.relative_to(package).parts
    for node in _nodes(ast.parse(file.read_text(encoding="utf-8"), str(file)), types=types):
        if isinstance(node, ast.Import):
            for alias in node.names:
                if alias.name.split(".")[0] == package.name:
                    yield ".".join(alias.name.split(".")[1:]) or "__init__"
        elif isinstance(node, ast.ImportFrom):
            module = node.module.split(".") if node.module else []
            if node.level:
                base = [*folder[: len(folder) - node.level + 1], *module]
            elif module[:1] == [package.name]:
                base = module[1:]
            else:
                continue
            for alias in node.names:
                if alias.name != "__version__":
                    yield ".".join([*base, alias.name])


def _graph(package: Path, *, types: bool = True) -> Modules:
    """Give, for each file of a package, the files of it that it imports (for types, too, or not).

    An import inside a function counts: it makes the file depend on the other all the same.
    ``from . import name`` is an edge to ``name`` where that is a file, else to the folder.
    """
    files = {_name(file, package): file for file in sorted(package.rglob("*.py"))}
    graph: Modules = {}
    for name, file in files.items():
        targets = {_file_of(target, files) for target in _imports(file, package, types=types)}
        graph[name] = targets - {name}
    return graph


def _file_of(target: str, files: Container[str]) -> str:
    """Find the file that an imported name is in (a folder without ``__init__`` stands for itself)."""
    parts = target.split(".")
    within = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((name for name in within if name in files), parts[0] if parts[0] in FLOORS else "__init__")


def _upward(graph: Modules) -> list[str]:
    """List the imports that go to the same floor or a higher one."""
    wrong = []
    for name, targets in graph.items():
        here = name.split(".")[0]
        for target in sorted(targets):
            there = target.split(".")[0]
            if here in TOP or here == there or (here, there) in SAME_FLOOR:
                continue
            if there in TOP or FLOORS[there] >= FLOORS[here]:
                wrong.append(f"{name} imports {target}")
    return wrong


def _circle(graph: Modules) -> list[str]:
    """Find a circle of imports, if there is one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _folders(graph: Modules) -> Modules:
    """Give the imports between folders (and modules that stand beside them)."""
    folders: Modules = {name.split(".")[0]: set() for name in graph}
    for name, targets in graph.items():
        here = name.split(".")[0]
        folders[here] |= {target.split(".")[0] for target in targets} - {here}
    return folders


def test_every_folder_has_a_floor() -> None:
    assert {name.split(".")[0] for name in _graph(PACKAGE)} <= FLOORS.keys() | TOP


def test_no_file_imports_from_a_floor_above() -> None:
    assert _upward(_graph(PACKAGE)) == []


def test_no_circle_of_imports() -> None:
    # Two files of a folder may name each other's types; two folders may not.
    assert _circle(_graph(PACKAGE, types=False)) == []
    assert _circle(_folders(_graph(PACKAGE))) == []


def test_the_rules_about_imports_see_what_they_should(tmp_path: Path) -> None:
    package = tmp_path / "astranb"
    sources = {
        "__init__.py": "",
        "core/__init__.py": "from .units import ps",
        "core/units.py": "def f():\n    from astranb.sim import run",
        "net/__init__.py": "import astranb.gpu.sm",
        "gpu/__init__.py": "if TYPE_CHECKING:\n    from .sm import SM",
        "gpu/sm.py": "from ..net import link\nfrom ..core import units",
        "sim/__init__.py": "from .. import __version__, gpu",
    }
    for name, source in sources.items():
        file = package / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    graph = _graph(package)
    assert graph["gpu.sm"] == {"net", "core.units"}
    assert graph["sim"] == {"gpu"}
    assert (graph["gpu"], _graph(package, types=False)["gpu"]) == ({"gpu.sm"}, set())
    assert _upward(graph) == ["core.units imports sim", "net imports gpu.sm"]
    assert set(_circle(_graph(package, types=False))) == {"net", "gpu.sm"}
    assert _circle(_folders(graph))


def test_importing_astranb_is_light() -> None:
    code = "import sys, astranb; print(*(name for name in sys.argv[1:] if name in sys.modules))"
    run = subprocess.run((sys.executable, "-c", code, *HEAVY), capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_no_file_is_too_long() -> None:
    files = [file for file in PACKAGE.rglob("*") if file.suffix in {".py", ".js", ".css"}]
    long = {
        file.relative_to(PACKAGE).as_posix()
        for file in files
        if len(file.read_text(encoding="utf-8").splitlines()) > 400
    }
    assert long == LONGER_THAN_400_LINES.keys(), "split the file, or name it above with the reason"


def _faults(script: str) -> list[str]:
    """Say what a script holds that none may."""
    text = script.replace(_ALLOWED_ADDRESS, "")
    return [fault for fault, pattern in _FORBIDDEN_IN_SCRIPTS.items() if re.search(pattern, text)]


def test_scripts_fetch_nothing_and_make_no_markup_from_text() -> None:
    scripts = [file for file in PACKAGE.rglob("*") if file.suffix in {".js", ".mjs", ".css", ".html", ".svg"}]
    faults = {file.name: _faults(file.read_text(encoding="utf-8")) for file in scripts}
    assert {name: found for name, found in faults.items() if found} == {}


@pytest.mark.parametrize(
    "script,fault",
    [
        ("import d3 from 'https://cdn.example/d3.js'", "an address"),
        ("el.innerHTML = name", "markup from text"),
        ("eval (text)", "code from text"),
        ("load('/home/me/trace')", "a place on one machine"),
    ],
)
def test_what_a_script_may_not_hold_is_found(script: str, fault: str) -> None:
    assert _faults(script) == [fault]
    assert _faults(f'document.createElementNS("{_ALLOWED_ADDRESS}", "svg")') == []


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "astranb/__init__.py"
    written = re.compile(rf"""["']{re.escape(astranb.__version__)}["']""")
    holders = [file for file in PACKAGE.rglob("*.py") if written.search(file.read_text(encoding="utf-8"))]
    assert holders == [PACKAGE / "__init__.py"]


def test_the_pins_name_no_machine_and_no_index() -> None:
    pins = (REPOSITORY / "constraints.txt").read_text(encoding="utf-8")
    wanted = re.compile(r"[\w.-]+==[\w.]+( ; .+)?")
    lines = [line for line in pins.splitlines() if line and not line.lstrip().startswith("#")]
    assert [line for line in lines if not wanted.fullmatch(line)] == []
    assert not re.search(r"://|/(?:home|root|work|tmp)/", pins)


def test_the_tools_for_javascript_are_pinned_and_name_no_machine_and_no_index() -> None:
    wanted = json.loads((REPOSITORY / "package.json").read_text(encoding="utf-8"))["devDependencies"]
    locked = json.loads((REPOSITORY / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    assert {name: locked[f"node_modules/{name}"]["version"] for name in wanted} == wanted
    assert [name for name, package in locked.items() if name and "integrity" not in package] == []
    assert [name for name, package in locked.items() if "resolved" in package] == []


def test_no_two_style_sheets_say_how_one_class_looks() -> None:
    """All of them hold in every view."""
    sheets: dict[str, set[str]] = {}
    for file in (PACKAGE / "widgets/static").glob("*.css"):
        for selectors in re.findall(r"([^{}]+)\{", file.read_text()):
            for name in re.findall(r"(?:^|,)\s*\.(anb-[\w-]+)\s*(?=,|$)", selectors):
                sheets.setdefault(name, set()).add(file.name)
    assert {name: files for name, files in sheets.items() if len(files) > 1} == {}
