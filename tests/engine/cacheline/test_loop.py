"""Times worked out by hand from the presets and link records, to the picosecond."""

import dataclasses
from contextlib import suppress
from itertools import pairwise

import pytest

import astranb as anb
from astranb.collectives import Collective
from astranb.core.errors import WrongResult
from astranb.core.ticks import transfer_ps
from astranb.gpu import preset

H100 = preset("h100-sxm")
SLICE = transfer_ps(H100.line_bytes * H100.l2_slices, H100.l2_Bps)
CHANNEL = transfer_ps(H100.line_bytes * H100.hbm_channels, H100.hbm_Bps)


def finish(sim):
    """Run to the end; these programs are no collectives, so that a wrong result is no fault."""
    with suppress(WrongResult):
        sim.run()


def run(write, *, size=128, gpus=2, infra=None, kind="broadcast"):
    """Run a program of one-line chunks; contents are not the point, so a wrong result is fine."""
    sim = anb.Simulation(
        infra or f"switch:gpus={gpus}", Collective.of(kind, size, write, channels=1), gpu="h100-sxm"
    )
    finish(sim)
    return sim


def l2_hit():
    return 2 * H100.noc_ps + SLICE + H100.l2_ps


def hbm_miss():
    return l2_hit() + CHANNEL + H100.row_miss_ps + H100.hbm_ps


def hop(sim, link, size):
    row = sim.engine.machine.links[link]
    return transfer_ps(size, int(row.bandwidth_Bps)) + int(row.latency_ps)


def one_way(sim, size):
    """GPU 0 to GPU 1 through the switch, first bit out to last bit in."""
    way = sim.engine.machine.routes[
        int(sim.engine.machine.operands[sim.engine.machine.operands["out_routes"] > 0][0].out_route)
    ]
    links = sim.engine.machine.route_links[int(way.first) : int(way.last)]
    return sum(hop(sim, k, size) + int(sim.engine.machine.links[k].forward_ps) for k in links)


def test_the_presets_reproduce_the_measured_latencies():
    """Clocks to L2 and HBM: H100 219 and 834 at 1.98 GHz (mt4g), A100 205.7 at 1.41 GHz (gpu-benches)."""
    assert l2_hit() == pytest.approx(219 / 1.98e9 * 1e12, rel=0.02)
    assert hbm_miss() == pytest.approx(834 / 1.98e9 * 1e12, rel=0.02)
    a100 = preset("a100-sxm")
    slice_ps = transfer_ps(a100.line_bytes * a100.l2_slices, a100.l2_Bps)
    near = 2 * a100.noc_ps + slice_ps + a100.l2_ps
    assert near == pytest.approx(205.7 / 1.41e9 * 1e12, rel=0.02)
    channel = transfer_ps(a100.line_bytes * a100.hbm_channels, a100.hbm_Bps)
    assert 363e3 * 0.98 < near + a100.hbm_ps + channel + a100.row_miss_ps < 392e3 * 1.02


def test_a_local_copy_of_one_line():
    sim = run(lambda p: p.block(0).copy(p.input(0)[0], p.output(0)[0]))
    op = sim.engine.machine.ops[0]
    # The load is issued at once and misses; the store follows when the data is there, and is acknowledged.
    assert int(op.issued_ps) == hbm_miss()
    assert int(op.ended_ps) == hbm_miss() + l2_hit()


def test_the_second_read_of_a_line_hits():
    def twice(p):
        block = p.block(0)
        block.copy(p.input(0)[0], p.output(0)[0])
        block.copy(p.output(0)[0], p.scratch(0)[0])
        block.copy(p.input(0)[0], p.scratch(0)[1])

    sim = run(twice)
    second, third = sim.engine.machine.ops[1], sim.engine.machine.ops[2]
    assert int(second.issued_ps) - int(second.started_ps) == l2_hit()
    assert int(third.issued_ps) - int(third.started_ps) == l2_hit()


def test_a_put_of_one_line():
    sim = run(lambda p: p.block(0).put(p.input(0)[0], p.output(1)[0]))
    there, back = one_way(sim, 128 + 16), one_way(sim, 16)
    expected = hbm_miss() + l2_hit() + 2 * H100.noc_ps + there + back
    assert int(sim.engine.machine.ops[0].ended_ps) == expected == sim.result.time_ps


def test_a_get_of_one_line():
    sim = run(lambda p: p.block(0).get(p.input(1)[0], p.output(0)[0]))
    there, back = one_way(sim, 16), one_way(sim, 128 + 16)
    assert int(sim.engine.machine.ops[0].issued_ps) == hbm_miss() + 2 * H100.noc_ps + there + back


def test_a_short_last_line_is_short_on_the_wire():
    sim = run(lambda p: p.block(0).put(p.input(0)[0], p.output(1)[0]), size=5)
    out = sim.engine.machine.links[sim.engine.machine.links["src"] == sim.engine.fabric.gpus[0]]
    assert out["bytes"].sum() == 5 + 16


def test_a_signal_wakes_a_waiting_block():
    def ping(p):
        gate = p.semaphore(1)
        p.block(0).signal(gate)
        p.block(1).wait(gate)

    sim = run(ping)
    signal, wait = sim.engine.machine.ops[0], sim.engine.machine.ops[1]
    arrives = H100.noc_ps + one_way(sim, 16 + 16) + H100.noc_ps
    assert (
        int(signal.ended_ps)
        == arrives + SLICE + H100.atomic_ps + H100.l2_ps + H100.noc_ps + one_way(sim, 16) + H100.noc_ps
    )
    # Polls go round and round; the first that reads after the arrival ends the wait.
    poll = l2_hit() + H100.poll_ps // 2
    last_read = int(wait.ended_ps) - poll + H100.noc_ps
    assert last_read >= arrives > last_read - poll - H100.issue_ps
    assert int(sim.engine.machine.blocks[1].polls) == -(-(arrives - H100.noc_ps) // poll)


def test_lines_queue_for_a_link_in_order():
    """Each line waits for those before it on the same lane."""
    sim = run(lambda p: p.block(0).put(p.input(0)[0], p.output(1)[0]), size=8 * 16 * 128)
    link = next(
        k
        for k in range(len(sim.engine.machine.links))
        if sim.engine.machine.links[k].src == sim.engine.fabric.gpus[0]
    )
    row = sim.engine.machine.links[link]
    wire = transfer_ps(144, int(row.bandwidth_Bps))
    flights, one_in = sim.engine.recorder.flights(0, sim.now_ps)
    mine = flights[flights["link"] == link]
    assert one_in == 1
    assert len(mine) == row.messages > 1
    starts = mine["start_ps"]
    assert (starts[1:] - starts[:-1] >= wire).all()
    assert (mine["end_ps"] - starts == wire + int(row.latency_ps)).all()
    assert row.busy_ps == row.messages * wire
    assert (
        sim.engine.machine.links["messages"][
            sim.engine.machine.links["src"] == sim.engine.fabric.gpus[0]
        ].sum()
        == 16
    )


def test_an_sm_issues_one_instruction_a_slot():
    sim = run(lambda p: p.block(0).copy(p.input(0)[0], p.output(0)[0]), size=8 * 40 * 128)
    issued = []
    sim.reset()
    while not sim.finished:
        before = int(sim.engine.machine.clock[0].instructions)
        try:
            sim.step()
        except WrongResult:
            break
        if int(sim.engine.machine.clock[0].instructions) > before:
            issued.append(sim.now_ps)
    assert len(issued) == 80  # a load and a store for each of 40 lines
    assert min(b - a for a, b in pairwise(issued)) == H100.issue_ps


def test_outstanding_slots_limit_a_copy_from_afar():
    """Little's law: with s slots and a round trip of t, no more than s/t lines a second."""

    def pull(p):
        p.block(0).get(p.input(1)[0], p.output(0)[0])

    few = anb.gpu.preset("h100-sxm")
    slots = 8
    few = dataclasses.replace(few, max_outstanding=slots)
    collective = Collective.of("broadcast", 8 * 512 * 128, pull, channels=1)
    sim = anb.Simulation("switch:gpus=2", collective, gpu=few)
    finish(sim)
    assert sim.engine.machine.sms["outstanding"].max() == 0
    trip = 2 * H100.noc_ps + one_way(sim, 16) + one_way(sim, 144) + l2_hit()
    assert int(sim.engine.machine.ops[0].ended_ps) > 512 / slots * trip
    wide = anb.Simulation("switch:gpus=2", collective, gpu="h100-sxm")
    finish(wide)
    assert int(wide.engine.machine.ops[0].ended_ps) < int(sim.engine.machine.ops[0].ended_ps) / 4


def test_moves_that_do_not_depend_on_each_other_are_one_loop():
    """Eight moves of a line each take hardly longer than one: other warps carry them out."""

    def lines(count):
        def write(p):
            block = p.block(0)
            for chunk in range(count):
                block.copy(p.input(0)[chunk], p.scratch(0)[chunk])

        return int(run(write, size=8 * 128).engine.machine.ops["issued_ps"].max())

    assert lines(8) < lines(1) + 8 * 2 * H100.issue_ps + H100.row_miss_ps


def test_a_move_that_writes_what_another_reads_waits_for_it():
    def write(p):
        block = p.block(0)
        block.copy(p.input(0)[0], p.output(0)[0])
        block.copy(p.input(0)[1], p.input(0)[0])

    first, second = run(write, size=8 * 128).engine.machine.ops[:2]
    assert second.ahead == 0
    assert int(second.started_ps) >= int(first.issued_ps)
