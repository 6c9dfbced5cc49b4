"""The list of fullest buffers against the machine's own tables."""

from __future__ import annotations

import numpy as np
import pytest

import astranb as anb
from astranb.engine.cacheline.paths import resolve
from astranb.net import Pfc, Roce


def simulation(**network):
    return anb.Simulation(
        "dgx-h100", anb.collectives.all_reduce("256 KiB", "ring"), network=anb.Network(**network)
    )


def state(sim, path):
    return dict(map(tuple, sim.inspect(path)["state"]))


def test_nothing_is_listed_where_nothing_waits():
    sim = simulation()
    assert len(sim.buffers()) == 0
    sim.run()
    assert len(sim.buffers()) == 0


def test_without_buffers_the_longest_queues_come_first():
    sim = simulation()
    sim.goto("600 ns")
    rows = sim.buffers(10_000)
    assert (rows.wait_ps > 0).all()
    assert rows.wait_ps.is_monotonic_decreasing
    assert (rows.capacity == 0).all()
    machine = sim.engine.machine
    servers = (machine.links, machine.l2_slices, machine.hbm_channels)
    busy = sum(int((np.asarray(table["free_at_ps"]) > sim.now_ps).sum()) for table in servers)
    assert len(rows) == sim.engine.buffers(3)["all"] == busy > 40
    for path, wait_ps in zip(rows.path[:40], rows.wait_ps[:40], strict=True):
        place = resolve(path, sim.engine.fabric, machine)
        table = {"link": machine.links, "l2": machine.l2_slices, "hbm": machine.hbm_channels}[place.kind]
        assert int(table[place.row].free_at_ps) - sim.now_ps == wait_ps
    assert list(sim.buffers(3).path) == list(rows.path[:3])


def test_finite_buffers_are_listed_by_how_full_they_are():
    sim = simulation(buffers=8)
    sim.goto("700 ns")
    rows = sim.buffers(10_000)
    share = (rows.taken / rows.capacity.where(rows.capacity > 0)).fillna(0)
    assert share.is_monotonic_decreasing
    assert set(rows.capacity) <= {0, 8}
    assert rows.taken[0] == 8
    for _, row in rows[rows.capacity > 0].iloc[:40].iterrows():
        found = state(sim, row.path)
        assert found["free buffers behind it"] == str(row.capacity - row.taken)
        assert found["waiting in front of the link"] == str(row.waiting)


@pytest.mark.parametrize("arbitration", ["fair", "round_robin"])
def test_queues_of_classes_without_limits_have_no_capacity(arbitration):
    sim = simulation(arbitration=arbitration)
    sim.goto("500 ns")
    rows = sim.buffers()
    assert (rows.capacity == 0).all()
    assert rows.waiting[0] > 0
    assert state(sim, rows.path[0])["waiting in front of the link"] == str(rows.waiting[0])


def test_behind_ethernet_links_bytes_wait_below_a_threshold():
    sim = anb.Simulation(
        "clos:servers=2",
        anb.collectives.all_reduce("64 KiB", "allpairs"),
        network=anb.Network(roce=Roce(pfc=Pfc("8 KiB", "4 KiB"))),
    )
    listed = None
    while not sim.finished and listed is None:
        sim.step(2000)
        rows = sim.buffers()
        if (rows.taken > 0).any():
            listed = rows[rows.taken > 0].iloc[0]
    assert listed is not None
    assert (listed.capacity, listed.unit) == (8 << 10, "bytes")
