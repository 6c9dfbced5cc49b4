"""Contents of a buffer, against watching every store."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.collectives import contents
from astranb.core.errors import InputError
from astranb.engine.cacheline.memory import buffer_of
from astranb.gpu import tables as t

BUFFERS = ("input", "output", "scratch", "packets")


def watch(sim: anb.Simulation, events: int, written: dict[tuple[int, int], int]) -> None:
    """Record the operation that stored to each line of each slice last (slices share slots)."""
    for _ in range(events):
        sim.step(1)
        machine = sim.engine.machine
        clock = machine.clock[0]
        request = machine.requests[int(clock.last_arg)] if clock.last_kind == t.L2 else None
        if request is not None and request.kind == t.STORE:
            slice_ = int(machine.operands["slice"][int(request.operand)])
            written[slice_, int(request.line - machine.slices["line"][slice_])] = int(request.op)


def check(sim: anb.Simulation, written: dict[tuple[int, int], int]) -> int:
    """Compare every buffer of every rank with what was watched; gives how many lines have come."""
    table, came = sim.engine.machine.slices, 0
    held = contents(sim.engine.program, sim.engine.machine.ops, sim.engine.machine.operands, table)
    for rank in range(sim.engine.program.ranks):
        for name in BUFFERS:
            if not ((table["gpu"] == rank) & (table["buffer"] == BUFFERS.index(name))).any():
                continue
            found, rows = buffer_of(sim.engine, rank, name), sim.memory(rank, name)
            lines = [(int(p), k) for p in found.slices for k in range(int(table["lines"][p]))]
            empty = t.INITIAL if name == "input" else t.UNWRITTEN
            assert found.writer.tolist() == [written.get(place, empty) for place in lines]
            came += int(found.arrived.sum())
            for row, slice_ in zip(rows, found.slices, strict=True):
                at = table[int(slice_)]
                if at.writing >= 0:
                    mine = [written.get((int(slice_), k)) == at.writing for k in range(at.lines)]
                    assert 0 < row.arrived == sum(mine) <= at.arrived  # a line may be two packets
                    assert not row.final
                elif at.writer != t.UNWRITTEN:  # whole: as the check of results sees it
                    assert row.arrived == at.lines
                    assert row.contributions.tolist() == held.times[int(slice_)].tolist()
                else:
                    assert row.arrived == 0 > row.source
    return came


@pytest.mark.parametrize(
    "algorithm, protocol, events",
    [("ring", "Simple", 2000), ("allpairs", "Simple", 1500), ("allpairs", "LL", 4000)],
)
def test_every_line_is_of_whom_wrote_it(algorithm: str, protocol: str, events: int) -> None:
    collective = anb.collectives.all_reduce("8 KiB", algorithm, channels=2, protocol=protocol)
    sim = anb.Simulation("dgx-h100", collective)
    written: dict[tuple[int, int], int] = {}
    came = [check(sim, written)]
    for _ in range(6):
        watch(sim, events, written)
        came.append(check(sim, written))
    assert came == sorted(came)
    assert came[-1] > came[0]
    past, then = sim.fork(record=False), dict(written)
    watch(sim, 1500, written)
    past.back(1000)  # and a replica that records nothing knows the past
    past.step(1000)
    check(past, then)
    sim.run()
    for rank in range(8):
        output = sim.memory(rank, "output")
        assert output.final.all()
        assert (output.contributions == 1).all()


def test_partial_lines_carry_what_they_were_made_of() -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring", channels=1))
    seen: set[int] = set()
    while not sim.finished:
        sim.step(1201)
        rows = sim.memory(4, "scratch")
        rows = rows[(rows.arrived > 0) & (rows.arrived < rows.lines)]
        for row in rows:  # what the ring hands on is a sum of consecutive ranks, ended by the one before
            ranks = np.flatnonzero(row.contributions)
            assert row.source == 3
            assert {(3 - k) % 8 for k in range(len(ranks))} == set(ranks.tolist())
            seen.add(len(ranks))
    assert len(seen) > 3


def test_memory_too_large_for_every_line_is_known_by_the_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astranb.engine.cacheline.build._LANDED", 100)
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    monkeypatch.undo()
    known = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    for when in ("3 us", "6 us", "9 us"):
        sim.goto(when)
        known.goto(when)
        assert not buffer_of(sim.engine, 1, "scratch").by_line
        for name in ("output", "scratch"):
            assert sim.memory(1, name).arrived.tolist() == known.memory(1, name).arrived.tolist()
    assert sim.state_hash() == known.state_hash()


def test_a_loaded_run_knows_what_has_arrived(tmp_path: Path) -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring", channels=1))
    began = 0
    for events in (3500, 11_300, 19_300):
        sim.step(events - sim.events)
        sim.save(tmp_path / "ring.anb")
        again = anb.Simulation.load(tmp_path / "ring.anb")
        for run in (sim, again):
            run.step(500)
        for rank, name in itertools.product(range(8), ("input", "output", "scratch")):
            here, there = sim.memory(rank, name), again.memory(rank, name)
            assert here.tobytes() == there.tobytes()
            began += int(((here.arrived > 0) & (here.arrived < here.lines)).sum())
        known, of = (buffer_of(run.engine, 1, "scratch") for run in (sim, again))
        assert of.by_line
        assert of.writer.tolist() == known.writer.tolist()
    assert began > 5  # slices under way


@pytest.mark.parametrize("where", [(8, "output"), (0, "outputs"), (0, "packets")])
def test_mistakes_are_one_clear_line(where: tuple[Any, ...]) -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
    with pytest.raises(InputError):
        sim.memory(*where)
