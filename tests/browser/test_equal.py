"""The same in CPython and in Pyodide: every state, time, text, answer and column."""

from __future__ import annotations

from contextlib import redirect_stdout, suppress
from io import StringIO
from pathlib import Path

from astranb.core.errors import AstranbError
from tests.browser import scenarios
from tests.browser.conftest import started
from tests.browser.machines import MACHINES
from tests.browser.workloads import LAYERS, MESSAGES


def saved(folder: Path) -> None:
    """Save a run of each kind, somewhere in its middle."""
    for kind in (MACHINES, LAYERS, MESSAGES):
        for name, make in kind.items():
            sim = make()
            with suppress(AstranbError):  # some are stuck before
                sim.step(700)
            sim.save(folder / f"{name}.anb")


def test_both_say_the_same(page_python: Path, tmp_path: Path) -> None:
    saved(tmp_path)
    with started(page_python, Path(scenarios.__file__), tmp_path) as other:
        mine = StringIO()
        with redirect_stdout(mine):
            scenarios.main(str(tmp_path))
        theirs, _ = other.communicate()
    expected, found = mine.getvalue().splitlines(), theirs.splitlines()
    assert other.returncode == 0, "\n".join(found[-30:])
    assert [pair for pair in zip(expected, found, strict=False) if pair[0] != pair[1]] == []
    assert len(found) == len(expected) > 1500
