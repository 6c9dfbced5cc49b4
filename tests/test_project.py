"""The rules of the project that its files can be checked for."""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Container, Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pandas as pd
import pytest

import astranb
from tests.checkout import in_root
from tests.node import NODE

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "astranb"

FLOORS = {
    "core": 0,
    "hardware": 1,
    "infragraph": 1,
    "chakra": 1,
    "net": 2,
    "gpu": 2,
    "collectives": 3,
    "workload": 4,
    "engine": 5,
    "sim": 6,
    "explore": 7,
    "traffic": 7,
    "export": 7,
    "browser": 7,
    "cli": 8,
    "widgets": 8,
    "experimental": 9,
}
"""Each folder of the package and its floor: it may import from lower floors and from its own."""

TOP = {"__init__", "__main__"}
"""Modules above all floors: the public names and the program."""

LONGER_THAN_800_LINES = {
    "collectives/formats/mscclpp.py": "reads and writes one format",
    "sim/simulation.py": "every verb of the one Simulation, with its documentation",
}
"""Files of the package that may be longer, each with the reason."""

HEAVY = ("IPython", "PIL", "anywidget", "bokeh", "infragraph", "ipywidgets", "jupyterlab", "numba", "pandas")
"""Packages that `import astranb` must not load: each costs more than astranb itself."""

_ALLOWED_ADDRESS = "http://www.w3.org/2000/svg"
_FORBIDDEN_IN_SCRIPTS = {
    "an address": r"https?:" + "//",
    "markup from text": r"innerHTML|outerHTML|insertAdjacentHTML|document\.write",
    "code from text": r"\beval\s*\(|\bnew\s+Function\b",
    "a place on one machine": r"/(?:home|root|work|Users)/",
}

Modules = dict[str, set[str]]


def _name(file: Path, package: Path) -> str:
    """Return the dotted name of a file of the package; that of its folder for an ``__init__``."""
    parts = file.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


def _nodes(tree: ast.AST, *, inside: bool) -> Iterator[ast.AST]:
    """Walk over a file, with or without what is inside functions and classes."""
    for node in ast.iter_child_nodes(tree):
        if inside or not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node
            yield from _nodes(node, inside=inside)


def _imports(file: Path, package: Path, *, inside: bool = True) -> Iterator[str]:
    """Yield what a file imports from the package, wherever the import is, as dotted names.

    The version may be read from everywhere: `astranb.__init__` defines it before anything else.
    """
    folder = file.parent.relative_to(package).parts
    for node in _nodes(ast.parse(file.read_text(encoding="utf-8"), str(file)), inside=inside):
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


def _files(package: Path) -> dict[str, Path]:
    """Return the files of a package by their dotted names."""
    return {_name(file, package): file for file in sorted(package.rglob("*.py"))}


def _graph(package: Path) -> Modules:
    """Return, for each file of a package, the files of it that it imports.

    Imports inside functions and imports for type checkers count, too: the file cannot be
    understood without the other one. ``from . import name`` is an edge to ``name`` where that is
    a file, otherwise to the folder.
    """
    files = _files(package)
    return {
        name: {_file_of(target, files) for target in _imports(file, package)} - {name}
        for name, file in files.items()
    }


def _file_of(target: str, files: Container[str]) -> str:
    """Find the file of an imported name; an unknown folder stands for itself."""
    parts = target.split(".")
    within = (".".join(parts[:length]) for length in range(len(parts), 0, -1))
    return next((name for name in within if name in files), parts[0] if parts[0] in FLOORS else "__init__")


def _forwards(file: Path, package: Path) -> dict[str, str]:
    """Return what the imports at the top level of an ``__init__`` bind: each name and its origin."""
    if file.name != "__init__.py":
        return {}
    return {target.split(".")[-1]: target for target in _imports(file, package, inside=False)}


def _only_forwards(file: Path) -> bool:
    """Return whether a file is an ``__init__`` without functions or classes other than a lazy import."""
    body = ast.parse(file.read_text(encoding="utf-8")).body
    defined = {n.name for n in body if isinstance(n, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
    return file.name == "__init__.py" and defined <= {"__getattr__", "__dir__"}


def _definitions(package: Path) -> Modules:
    """Return, for each file of a package, the files that *define* what it imports.

    A name that comes through an ``__init__`` is followed to the file that defines it, and an
    import of a whole folder counts as an import of everything that its ``__init__`` forwards. So an
    ``__init__`` that only forwards adds nothing of its own and is left out.
    """
    files = _files(package)
    forwards = {name: _forwards(file, package) for name, file in files.items()}

    def origins(target: str) -> set[str]:
        name = _file_of(target, files)
        attribute = target[len(name) + 1 :].partition(".")[0]
        if attribute:
            known = forwards.get(name, {}).get(attribute)
            return origins(known) if known else {name}
        return {name}.union(*map(origins, forwards.get(name, {}).values()))

    faces = {name for name, file in files.items() if _only_forwards(file)}
    return {
        name: set().union(*map(origins, _imports(file, package))) - {name} - faces
        for name, file in files.items()
        if name not in faces
    }


def _upward(graph: Modules) -> list[str]:
    """List the imports that go to a higher floor."""
    wrong = []
    for name, targets in graph.items():
        here = name.split(".")[0]
        for target in sorted(targets):
            there = target.split(".")[0]
            if here not in TOP and (there in TOP or FLOORS[there] > FLOORS[here]):
                wrong.append(f"{name} imports {target}")
    return wrong


def _circle(graph: Modules) -> list[str]:
    """Find a circle of imports, if there is one."""
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _levels(package: Path) -> dict[str, Modules]:
    """Return, for each folder, the imports between its parts.

    The parts are the folder's own files, taken as one (``"."``), and each subfolder with everything
    below it. When no folder has a circle among its parts, no two folders of the package
    import each other, at any depth: a circle of folders passes through two parts of the smallest
    folder that contains all of them. What counts is where names are defined, see :func:`_definitions`.
    """
    files = _files(package)
    folders = {name: file.parent.relative_to(package).parts for name, file in files.items()}
    levels: dict[str, Modules] = {}
    for name, targets in _definitions(package).items():
        for target in targets:
            here, there = (*folders[name], "."), (*folders.get(target, (target,)), ".")
            if here != there:
                depth, (a, b) = next(
                    (k, pair) for k, pair in enumerate(zip(here, there, strict=False)) if pair[0] != pair[1]
                )
                levels.setdefault("/".join(here[:depth]), {}).setdefault(a, set()).add(b)
    return levels


def _circles_of_folders(package: Path) -> dict[str, list[str]]:
    """Return the folders whose parts import each other in a circle, each with one such circle."""
    found = {folder: _circle(level) for folder, level in _levels(package).items()}
    return {folder: circle for folder, circle in sorted(found.items()) if circle}


def test_every_folder_has_a_floor_and_every_floor_exists() -> None:
    assert {name.split(".")[0] for name in _files(PACKAGE)} == FLOORS.keys() | TOP


def test_the_root_has_no_private_modules() -> None:
    assert {file.stem for file in PACKAGE.glob("_*.py")} == TOP


def test_no_two_classes_have_one_name() -> None:
    names = Counter(
        node.name
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_no_file_imports_from_a_floor_above() -> None:
    assert _upward(_graph(PACKAGE)) == []


def test_no_circle_between_files() -> None:
    assert _circle(_graph(PACKAGE)) == []


def test_no_circle_between_folders() -> None:
    assert _circles_of_folders(PACKAGE) == {}


def _write(package: Path, sources: dict[str, str]) -> Path:
    """Write a package for the tests of the rules."""
    for name, source in sources.items():
        file = package / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source)
    return package


def test_the_rules_about_imports_see_what_they_should(tmp_path: Path) -> None:
    sources = {
        "__init__.py": "",
        "core/__init__.py": "from .units import ps",
        "core/units.py": "def f():\n    from astranb.sim import run",
        "net/__init__.py": "import astranb.gpu.sm",
        "gpu/__init__.py": "if TYPE_CHECKING:\n    from .sm import SM",
        "gpu/sm.py": "from ..net import link",
        "explore/__init__.py": "from ..core import units",
        "sim/__init__.py": "from .. import __version__, gpu",
    }
    graph = _graph(_write(tmp_path / "astranb", sources))
    assert graph["gpu.sm"] == {"net"}
    assert graph["explore"] == {"core.units"}
    assert graph["sim"] == {"gpu"}
    assert graph["gpu"] == {"gpu.sm"}
    assert _upward(graph) == ["core.units imports sim"]
    assert set(_circle(graph)) == {"net", "gpu.sm"}


@pytest.mark.parametrize(
    "sources,circles",
    [
        # A folder that forwards its subfolders, which import each other in one direction.
        (
            {
                "workload/__init__.py": "from .models import Model\nfrom .plans import Plan",
                "workload/models/__init__.py": "from ._model import Model",
                "workload/models/_model.py": "class Model: ...",
                "workload/plans/__init__.py": "class Plan:\n    from astranb.workload.models import Model",
                "sim/__init__.py": "from astranb.workload import Model, Plan",
            },
            {},
        ),
        # The same where they need each other: named through the folder that forwards.
        (
            {
                "workload/__init__.py": "from .models import Model\nfrom .plans import Plan",
                "workload/models/__init__.py": "from ._model import Model",
                "workload/models/_model.py": "def f():\n    from astranb.workload import Plan",
                "workload/plans/__init__.py": "class Plan:\n    from astranb.workload.models import Model",
            },
            {"workload": {"models", "plans"}},
        ),
        # A folder's own files and its subfolder; for types only, too.
        (
            {
                "sim/__init__.py": "",
                "sim/run.py": "from .views import table",
                "sim/views/__init__.py": "",
                "sim/views/table.py": "if TYPE_CHECKING:\n    from ..run import Run",
            },
            {"sim": {".", "views"}},
        ),
        # Three folders of which no two files form a circle; one is imported as a whole.
        (
            {
                "engine/a/one.py": "from astranb.engine import b",
                "engine/b/__init__.py": "from .two import x",
                "engine/b/two.py": "from ..c.three import y",
                "engine/c/three.py": "from ..a.four import z",
                "engine/a/four.py": "",
            },
            {"engine": {"a", "b", "c"}},
        ),
    ],
)
def test_circles_of_folders_are_found(
    tmp_path: Path, sources: dict[str, str], circles: dict[str, set[str]]
) -> None:
    package = _write(tmp_path / "astranb", {"__init__.py": "", **sources})
    assert {folder: set(circle) for folder, circle in _circles_of_folders(package).items()} == circles


def test_importing_astranb_is_light() -> None:
    code = "import sys, astranb; print(*(name for name in sys.argv[1:] if name in sys.modules))"
    run = subprocess.run((sys.executable, "-c", code, *HEAVY), capture_output=True, text=True, check=True)
    assert run.stdout.split() == []


def test_no_file_is_too_long() -> None:
    files = [file for file in PACKAGE.rglob("*") if file.suffix in {".py", ".js", ".css"}]
    long = {
        file.relative_to(PACKAGE).as_posix()
        for file in files
        if len(file.read_text(encoding="utf-8").splitlines()) > 800
    }
    assert long == LONGER_THAN_800_LINES.keys(), "give the reason in LONGER_THAN_800_LINES"


def _faults(script: str) -> list[str]:
    """List the forbidden things that a script holds."""
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


READERS_OF_NUMBERS = {"core/archive.py", "core/number_files.py"}
"""Files of the package that read files of numbers: all others ask them, so that bounds are kept."""

_BUILDS_PACKAGES = {"browser"}
_READS_NUMBERS = {
    "np": {"load", "loadtxt", "genfromtxt", "fromfile", "fromstring", "fromregex", "memmap", "lib"},
    "numpy": {"load", "loadtxt", "genfromtxt", "fromfile", "fromstring", "fromregex", "memmap", "lib"},
    "pd": {name for name in dir(pd) if name.startswith("read_")},
    "pandas": {name for name in dir(pd) if name.startswith("read_")},
    "csv": {"reader", "DictReader"},
    "pq": {"read_table", "read_pandas", "ParquetFile", "ParquetDataset", "read_metadata"},
    "zipfile": {"ZipFile"},
}


def _reads_numbers(source: str) -> list[str]:
    """List what reads a file of numbers in a source file, also under another name."""
    tree = ast.parse(source)
    found, called = [], {name: name for name in _READS_NUMBERS}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                known = next((k for k in _READS_NUMBERS if alias.name == k), None)
                known = known or {"pyarrow.parquet": "pq"}.get(alias.name)
                if known:
                    called[alias.asname or alias.name] = known
        elif isinstance(node, ast.ImportFrom):
            known = {"pyarrow.parquet": "pq"}.get(node.module or "", node.module or "")
            found += [a.name for a in node.names if a.name in _READS_NUMBERS.get(known, ())]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            known = called.get(node.value.id, "")
            if node.attr in _READS_NUMBERS.get(known, ()):
                found.append(f"{node.value.id}.{node.attr}")
    return found


def test_files_of_numbers_are_read_in_one_place() -> None:
    readers = {
        file.relative_to(PACKAGE).as_posix()
        for file in PACKAGE.rglob("*.py")
        if file.relative_to(PACKAGE).parts[0] not in _BUILDS_PACKAGES
        and _reads_numbers(file.read_text(encoding="utf-8"))
    }
    assert readers == READERS_OF_NUMBERS


@pytest.mark.parametrize(
    "source, found",
    [
        ("import numpy as np\nnp.load(file)", ["np.load"]),
        ("import numpy\nnumpy.loadtxt(file)", ["numpy.loadtxt"]),
        ("def f():\n    import pandas as frames\n    frames.read_csv(file)", ["frames.read_csv"]),
        ("import pyarrow.parquet as parquet\nparquet.read_table(file)", ["parquet.read_table"]),
        ("from pyarrow.parquet import ParquetFile", ["ParquetFile"]),
        ("from csv import reader", ["reader"]),
        ("from zipfile import ZipFile", ["ZipFile"]),
        ("import csv, json\ncsv.writer(file); json.load(file)", []),
    ],
)
def test_a_second_reader_of_numbers_is_found(source: str, found: list[str]) -> None:
    assert _reads_numbers(source) == found


def test_the_version_stands_in_one_place() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" not in project["project"]
    assert project["tool"]["hatch"]["version"]["path"] == "astranb/__init__.py"
    written = re.compile(rf"""["']{re.escape(astranb.__version__)}["']""")
    holders = [file for file in PACKAGE.rglob("*.py") if written.search(file.read_text(encoding="utf-8"))]
    assert holders == [PACKAGE / "__init__.py"]


IN_ROOT = {
    ".ci": "what CI runs",
    ".gitignore": "git",
    ".pre-commit-config.yaml": "pre-commit",
    "CHANGELOG.md": "people",
    "CONTRIBUTING.md": "people",
    "LICENSE": "people",
    "Makefile": "make",
    "README.md": "people",
    "astranb": "the package",
    "benchmarks": "make bench",
    "changes": "towncrier",
    "constraints.txt": "scripts/install.sh",
    "docs": "the documentation",
    "eslint.config.mjs": "ESLint",
    "examples": "files for tutorials and tests",
    "hatch_build.py": "hatchling",
    "notebooks": "working notebooks",
    "package-lock.json": "npm",
    "package.json": "npm",
    "pyproject.toml": "Python's tools",
    "scripts": "programs for the checkout",
    "tests": "pytest",
    "tsconfig.json": "TypeScript",
    "tutorials": "lessons",
}
"""Files and folders of the root, and for whom they are there: all else has another place."""


def test_nothing_else_is_in_the_root() -> None:
    assert in_root(REPOSITORY) == IN_ROOT.keys()


def test_a_test_that_leaves_a_file_in_the_root_fails(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    shutil.copy(REPOSITORY / "tests" / "conftest.py", tmp_path / "tests")
    (tmp_path / ".gitignore").write_text("build/\n")
    (tmp_path / "tests" / "test_stray.py").write_text(
        "from pathlib import Path\n\n\n"
        "def test_leaves():\n    Path('idmap.txt').touch()\n\n\n"
        "def test_builds(tmp_path):\n    Path('build').mkdir()\n    (tmp_path / 'x').touch()\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"]
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": str(REPOSITORY)}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert "test_leaves left idmap.txt in the checkout" in done.stdout, done.stdout + done.stderr
    assert "1 failed, 1 passed" in done.stdout


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


@pytest.mark.parametrize("node", sorted({str(one) for one in (NODE, shutil.which("node")) if one}))
def test_other_packages_in_the_environment_are_no_modules_of_ours(node: str, tmp_path: Path) -> None:
    """JupyterLab's own yarn is CommonJS without a package.json of its own: Node asks the folders above."""
    shutil.copy(REPOSITORY / "package.json", tmp_path)
    (tmp_path / ".venv").mkdir()
    yarn = tmp_path / ".venv" / "yarn.js"
    yarn.write_text("const { basename } = require('path'); console.log(basename(__filename));\n")
    done = subprocess.run([node, str(yarn)], capture_output=True, text=True, check=False)
    assert done.stdout == "yarn.js\n", done.stderr


def test_our_modules_need_no_package_that_says_so() -> None:
    assert NODE, "Node comes with the group `test`"
    ours = (PACKAGE / "widgets" / "static" / "messages.js").as_uri()
    script = f"import({ours!r}).then(found => console.log(Object.keys(found).length > 0))"
    done = subprocess.run([NODE, "--eval", script], capture_output=True, text=True, check=False)
    assert done.stdout == "true\n", done.stderr
