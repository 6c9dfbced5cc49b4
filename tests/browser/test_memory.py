"""A page's memory ends where Pyodide's addresses would become wrong."""

from __future__ import annotations

from pathlib import Path

from tests.browser.conftest import HERE, started


def test_there_is_an_error_before_anything_is_wrong(page_python: Path, tmp_path: Path) -> None:
    with started(page_python, HERE / "memory.py", tmp_path) as other:
        said, _ = other.communicate()
    assert (
        said.splitlines()[-1]
        == f"True {1_000_000 * (1 + 2 + 3 + 4)} {50_000 * len('😀b'.encode('utf-16-le')) // 2}"
    )
