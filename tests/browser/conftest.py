"""Pyodide in Node, with what a page holds of Python."""

from __future__ import annotations

import gzip
import json
import subprocess
from pathlib import Path

import pytest

from astranb.browser import Pack, bring, node, runtime

HERE = Path(__file__).parent


def unpacked(pack: Pack) -> dict[str, bytes]:
    """Return the files of a pack, as ``static/packed.js`` reads them."""
    data = gzip.decompress(pack.data)
    length = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + length])
    first = -(-(8 + length) // 8) * 8
    places = zip(header["files"], header["places"], strict=True)
    return {name: data[first + at : first + at + size] for name, (at, size) in places}


def written(folder: Path) -> Path:
    """Write Pyodide with exactly what a page holds into a folder."""
    files = bring()
    for pack in runtime():
        for name, data in unpacked(pack).items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
    (folder / "pyodide.mjs").write_bytes(files["pyodide.mjs"].read_bytes())
    (folder / "package.json").write_bytes(files["package.json"].read_bytes())
    return folder


@pytest.fixture(scope="session")
def page_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make a folder of Pyodide with exactly what a page holds."""
    return written(tmp_path_factory.mktemp("pyodide"))


def started(page_python: Path, script: Path, given: Path) -> subprocess.Popen[str]:
    """Start a script's ``main`` in Pyodide; it is given the folder ``given``."""
    command = [*node(), str(HERE / "pyodide.mjs"), str(page_python), str(script), str(given)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
