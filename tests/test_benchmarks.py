"""What the table of `make bench` must not do: print a figure that was not measured, or another process's."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

import benchmarks.__main__ as table
from benchmarks import NotMeasured, measured
from benchmarks.resident import most_of_command, most_resident

MEGABYTE = 1 << 20


def test_a_part_that_measured_nothing_is_an_error_and_others_go_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def empty(row: Any, _bare: float) -> None:
        row("frames", sum(measured([], "no frames")), "frames/s")

    def infinite(row: Any, _bare: float) -> None:
        row("rate", float("nan"), "1/s")

    def whole(row: Any, _bare: float) -> None:
        row("something", 3.0, "s")

    monkeypatch.setattr(table, "events_per_second", lambda: 1.0)
    monkeypatch.setattr(table, "_PARTS", {"empty": empty, "infinite": infinite, "whole": whole})
    monkeypatch.setattr(sys, "argv", ["bench", "--no-browser"])
    assert table.main() == 1
    said = capsys.readouterr()
    assert said.err.splitlines() == [
        "empty: nothing was measured: no frames",
        "infinite: nothing was measured: rate",
    ]
    assert "something" in said.out
    monkeypatch.setattr(table, "_PARTS", {"whole": whole})
    assert table.main() == 0
    with pytest.raises(NotMeasured, match="lines"):
        measured((), "lines")


def test_rows_of_a_browser_bring_it_first(monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    monkeypatch.setattr(table, "events_per_second", lambda: 1.0)
    monkeypatch.setattr(table.subprocess, "run", lambda command, **_: done.append(" ".join(command)))
    monkeypatch.setattr(table, "browser", lambda _row, _shown: done.append("rows") or True)
    monkeypatch.setattr(sys, "argv", ["bench", "--only", "clicks"])
    assert table.main() == 0
    assert done == ["sh scripts/browser.sh --install", "rows"]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc/self/status is Linux's")
def test_the_memory_of_a_process_is_its_own() -> None:
    """Resource usage of a child begins with the memory of the process that started it."""
    held = bytearray(b"\1" * (600 * MEGABYTE))
    code = "from benchmarks.resident import most_resident; print(most_resident())"
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert 2 * MEGABYTE < int(said) < 100 * MEGABYTE
    printed, command = most_of_command("collective", "list")
    assert "ring" in printed
    assert 2 * MEGABYTE < command < 400 * MEGABYTE < len(held) < most_resident()
