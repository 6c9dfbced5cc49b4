"""Files and functions that documents, docstrings and comments name are there."""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.documents import REPOSITORY, blocks

FOLDERS = (
    "astranb",
    "benchmarks",
    "docs",
    "examples",
    "notebooks",
    "scripts",
    "tests",
    "tutorials",
    "changes",
)
"""Folders of the repository, whose files a text can name."""

OF_OTHERS = {
    "deep_ep/buffers/legacy.py": "DeepEP",
    "benchmarks/llama3-8b_h200_202506_trainy-whitefiber.md": "pytorch/torchtitan",
    "docs/performance-summary-archive.md": "NVIDIA-NeMo/Megatron-Bridge",
    "docs/performance-summary.md": "NVIDIA-NeMo/Megatron-Bridge",
    "docs/source/performance/performance_long_sequence.md": "NVIDIA/NeMo",
    "docs/source/performance/performance_summary.md": "NVIDIA/NeMo",
    "gpt.py": "a user's own, as an example",
    "mine.py": "a user's own, as an example",
    "my_loops.py": "a user's own, as an example",
    "msccl/language/ir.py": "MSCCL",
    "norms.py": "torchtitan",
    "python/mscclpp/__main__.py": "MSCCL++",
    "scripts/train/benchmarking/README.md": "mosaicml/llm-foundry",
    "simulation/run.py": "HPCC",
    "src/converter/pytorch_converter.py": "mlcommons/chakra",
    "src/converter/text_converter.py": "mlcommons/chakra",
    "src/generator/generator.py": "mlcommons/chakra",
    "src/jsonizer/jsonizer.py": "mlcommons/chakra",
    "src/visualizer/visualizer.py": "mlcommons/chakra",
    "torch/distributed/_symmetric_memory/__init__.py": "PyTorch",
    "torch/optim/adamw.py": "PyTorch",
    "torchtitan/models/llama/model.py": "torchtitan",
    "vis.js": "pyvis",
}
"""Files of other programs, each with the program. ``FILE.py``, in capitals, stands for any."""

_PATH = re.compile(
    r"(?<![\w/.<>{}*\\-])(?P<file>(?:[\w.-]+/)*[\w-]+(?:\.[\w-]+)*\.(?:py|js|mjs|css|d\.ts|sh|md|ipynb|csv|json))\b"
    r"(?![\w/(=-])(?:: (?P<name>[a-z_]\w+)\b(?=[`,)]))?"
)
_CODE = {".py", ".js", ".mjs", ".css", ".ts", ".sh"}
_FENCED = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
_HASH = re.compile(r"(?:^|\s)#(?!!).*$", re.MULTILINE)
_SLASHES = re.compile(r"(?:^|\s)//[^\n]*|/\*.*?\*/", re.MULTILINE | re.DOTALL)
_COMMENT = {
    **dict.fromkeys((".py", ".sh", ".toml", "Makefile", "run"), _HASH),
    **dict.fromkeys((".js", ".mjs", ".ts", ".css"), _SLASHES),
}


@cache
def files() -> dict[str, list[str]]:
    """Return the files of the repository: the paths of each name."""
    found: dict[str, list[str]] = {}
    for folder in (*FOLDERS, "."):
        for path in (REPOSITORY / folder).glob("*" if folder == "." else "**/*"):
            if path.is_file() and "__pycache__" not in path.parts:
                found.setdefault(path.name, []).append(path.relative_to(REPOSITORY).as_posix())
    return found


def resolved(file: str) -> list[str]:
    """Return the files whose path ends with this one."""
    wanted = file.removeprefix("./")
    while wanted.startswith("../"):
        wanted = wanted[3:]
    return [path for path in files().get(Path(file).name, ()) if f"/{path}".endswith(f"/{wanted}")]


def texts(text: str, kind: str) -> Iterator[tuple[int, str]]:
    """Yield the prose of a file with its line: a document without its blocks, or docstrings and comments."""
    if kind == ".ipynb":
        cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "markdown"]
        yield from ((1, _FENCED.sub("", "".join(cell["source"]))) for cell in cells)
        return
    if kind == ".md":
        yield 1, _FENCED.sub(lambda block: "\n" * block[0].count("\n"), text)
        return
    for comment in _COMMENT[kind].finditer(text):
        yield text.count("\n", 0, comment.start()) + 1, comment[0]
    for node in ast.walk(ast.parse(text)) if kind == ".py" else ():
        match node:
            case ast.Expr(value=ast.Constant(value=str(said))):
                yield node.lineno, said


def defines(file: str, name: str) -> bool:
    """Return whether a file defines a function, a class, a constant or a key of this name."""
    text = (REPOSITORY / file).read_text(encoding="utf-8")
    return re.search(rf"\b(?:def|class|function|const|let)\s+{name}\b|\b{name}\b[^\n]*[=:]", text) is not None


def stale(text: str, kind: str) -> Iterator[str]:
    """Yield the line and what a text names that is not there."""
    made = {block.file for block in blocks(text)} if kind == ".md" else set()
    for first, prose in texts(text, kind):
        for match in _PATH.finditer(prose):
            file, name = match["file"], match["name"]
            code, ours = Path(file).suffix in _CODE, "/" in file and file.split("/")[0] in FOLDERS
            if not (code or ours) or file in made or file in OF_OTHERS or Path(file).stem.isupper():
                continue
            found = resolved(file)
            line = first + prose.count("\n", 0, match.start())
            if not found:
                yield f"{line}: {file}"
            elif name and not any(defines(one, name) for one in found):
                yield f"{line}: {file}: {name}"


def test_named_files_and_functions_are_there() -> None:
    every = [REPOSITORY / path for paths in files().values() for path in paths]
    sources = {path: path.suffix or path.name for path in every}
    sources = {path: kind for path, kind in sources.items() if kind in {".md", ".ipynb", *_COMMENT}}
    assert len(sources) > 500
    assert [
        f"{path.relative_to(REPOSITORY)}:{wrong}"
        for path, kind in sources.items()
        for wrong in stale(path.read_text(encoding="utf-8"), kind)
    ] == []


@pytest.mark.parametrize(
    "text, kind, found",
    [
        ("See `net/link.py: cross` and\n`net/link.py: gone`.", ".md", ["2: net/link.py: gone"]),
        ("`net/gone.py`, `link.py`, `FILE.py`, `torch/optim/adamw.py`", ".md", ["1: net/gone.py"]),
        ("`docs/gone.md`, `docs/fidelity.md`, `job.json`", ".md", ["1: docs/gone.md"]),
        ("`net/new.py`:\n\n```python\n```\n\n`net/new.py` is new.", ".md", []),
        ('"""As ``a/b.py``."""\nx = "net/other.py"\n# and c.py', ".py", ["3: c.py", "1: a/b.py"]),
        ("// answers (views/compare.py: gone)\nopen('gone.js')", ".js", ["1: views/compare.py: gone"]),
        ("# tests/gone.py\nrun tests/other.py", "Makefile", ["1: tests/gone.py"]),
        (
            '{"cells": [{"cell_type": "markdown", "source": ["See\\n", "a/b.py"]}, {"cell_type": "code"}]}',
            ".ipynb",
            ["2: a/b.py"],
        ),
    ],
)
def test_what_is_not_there_is_found(text: str, kind: str, found: list[str]) -> None:
    assert list(stale(text, kind)) == found
