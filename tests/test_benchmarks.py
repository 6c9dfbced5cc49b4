"""The table of `make bench` prints no figure that was not measured, or that is another process's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import benchmarks.__main__ as table
from benchmarks import NotMeasured, device_kernels, libraries, measured
from benchmarks.resident import most_of_command, most_resident
from scripts.generated import generated, write_generated

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
    monkeypatch.setattr(
        "benchmarks.__main__.subprocess.run", lambda command, **_: done.append(" ".join(command))
    )

    def rows(_row: Any, _shown: list[str]) -> bool:
        done.append("rows")
        return True

    monkeypatch.setattr(table, "browser", rows)
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


def test_pages_say_of_libraries_what_was_simulated() -> None:
    found = libraries.points()
    for (command, page), text in libraries.blocks(found).items():
        assert generated(command, page) == text, f"{page.name}: run python -m benchmarks.libraries --page"
    now = [one for one in found if not one.fidelity.endswith(libraries.FIRST)]
    roles = {role: [one for one in now if one.role == role] for role in ("known", "fitted")}
    assert len(roles["known"]) + len(roles["fitted"]) == len(now)
    assert {one.row.id for one in roles["fitted"]} <= set(libraries.FITTED)
    known = {row.id for row in libraries.rows()}
    assert set(libraries.FITTED) <= known
    first = [one for one in found if one not in now]
    assert len(first) > 50
    assert all(one.role == "blind" and one.row.blind for one in first)


def test_tables_have_every_size_that_was_measured() -> None:
    """By messages to 1 GiB; a send has no algorithm by messages."""
    found = {(one.row.id, one.size) for one in libraries.points() if one.fidelity == "congestion"}
    rows = [row for row in libraries.rows() if row.collective != "send_recv"]
    assert found == {(row.id, size) for row in rows for size in libraries.sizes_of(row)}


@pytest.mark.parametrize("name,size", [("h100-ar-dgxc", 1 << 24), ("mi355x-a2a-vultr-2", 1 << 20)])
@pytest.mark.parametrize("fidelity", ["congestion", "analytical"])
def test_a_point_that_is_kept_is_simulated_so(name: str, size: int, fidelity: str) -> None:
    row = next(row for row in libraries.rows() if row.id == name)
    kept = [
        one for one in libraries.points() if (one.row.id, one.size, one.fidelity) == (name, size, fidelity)
    ]
    assert libraries.simulate(row, size, fidelity).simulated_us == pytest.approx(
        kept[0].simulated_us, rel=1e-4
    )


def test_what_is_generated_is_replaced_between_comments(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    before = "| a | <!-- generated: it -->old<!-- end --> | b |\n\n<!-- generated: that -->\n"
    page.write_text(before + "| c |\n<!-- end -->\n")
    for text in ("new", "newer"):
        write_generated("it", text, page)
        write_generated("that", "| d |", page)
        assert page.read_text() == before.replace("old", text) + "\n| d |\n\n<!-- end -->\n"
        assert (generated("it", page), generated("that", page)) == (text, "| d |")
    with pytest.raises(ValueError, match=r"page\.md has no <!-- generated: more -->"):
        write_generated("more", "new", page)
    page.write_text("<!-- generated: it -->old\n")
    with pytest.raises(ValueError, match=r"page\.md has no <!-- end --> behind"):
        generated("it", page)


def test_a_kernel_that_only_loads_through_a_switch_takes_what_was_measured() -> None:
    """One round of loads and no barrier, 16 B to 64 KiB: what a machine by cache lines is made of."""
    rows = [
        row for row in device_kernels.rows() if row["kernel"] == "oneshot_mc" and int(row["bytes"]) <= 2**16
    ]
    assert len(rows) == 8
    for row in rows:
        assert device_kernels.simulated_us(row) == pytest.approx(float(row["us"]), rel=0.1)
