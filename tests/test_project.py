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
from pathlib import Path

import pandas as pd
import pytest

import astranb
from tests.checkout import in_root
from tests.node import NODE

REPOSITORY = Path(__file__).resolve().parents[1]
PACKAGE = REPOSITORY / "astranb"

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


def test_the_root_has_only_faces_and_the_program() -> None:
    assert {file.stem for file in PACKAGE.glob("*.py")} == {"__init__", "__main__", "experimental", "export"}


def test_no_two_classes_have_one_name() -> None:
    names = Counter(
        node.name
        for file in PACKAGE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ClassDef)
    )
    assert [name for name, count in names.items() if count > 1] == []


def test_the_contracts_of_imports_hold() -> None:
    """Floors, circles and faces: ``[tool.importlinter]`` of pyproject.toml."""
    code = "from importlinter.cli import lint_imports as lint; raise SystemExit(lint(no_cache=True))"
    run = subprocess.run(
        (sys.executable, "-c", code), cwd=REPOSITORY, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stdout


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
    assert project["tool"]["hatch"]["version"]["path"] == "astranb/core/version.py"
    written = re.compile(rf"""["']{re.escape(astranb.__version__)}["']""")
    holders = [file for file in PACKAGE.rglob("*.py") if written.search(file.read_text(encoding="utf-8"))]
    assert holders == [PACKAGE / "core" / "version.py"]


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
