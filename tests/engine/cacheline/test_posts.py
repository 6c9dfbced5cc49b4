"""Signals behind stores, and roles of a thread block: what the machine does with them."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

import astranb as anb
from astranb.collectives import ALGORITHMS, Algorithm, Collective, verify
from astranb.core.errors import Deadlock, InputError
from astranb.gpu import preset
from astranb.gpu import tables as t
from astranb.net import Network
from astranb.workload.kernels import Product
from tests.engine.cacheline.support import NETWORKS, check_path


def relay(p):
    """Some warps move, others tell the other rank when the data is there."""
    arrived = [p.semaphore(rank) for rank in range(p.ranks)]
    for me in p.everyone:
        block = me.block(warps=16)
        mover, poster = block.warps(0, 12), block.warps(12, 16)
        stored = block.semaphore()
        for you in me.others:
            mover.put(me.input[0], you.output[me.number])
            mover.signal(stored, behind=1)
            poster.wait(stored)
            poster.signal(arrived[you.number], relaxed=True)
        mover.copy(me.input[0], me.output[me.number])
        block.sync(mover, poster)
        poster.wait(arrived[me.number], p.ranks - 1)


def posts(p):
    """Every rank puts its chunk to all others, in slices, and waits for none of its own stores."""
    wires = p.connections(posted=True)
    blocks = [me.block() for me in p.everyone]
    for me, block in zip(p.everyone, blocks, strict=True):
        for _ in p.cut_into(3):
            for you in me.others:
                wires[me, you].send(block, me.input[0])
            block.copy(me.input[0], me.output[me.number])
    for me, block in zip(p.everyone, blocks, strict=True):
        for _ in p.cut_into(3):
            for you in me.others:
                block.copy(wires[you, me].receive(block), me.output[you.number])


def made(write, size="24 KiB", infra="switch:gpus=3", **rest):
    return anb.Simulation(infra, Collective.of("all_gather", size, write, channels=1), **rest)


BOTH = pytest.mark.parametrize("write", [relay, posts])


def signals(sim, *, behind=True):
    ops = sim.engine.machine.ops
    return np.flatnonzero((ops["kind"] == t.NOTIFY) & ((ops["before"] > 0) == behind))


@BOTH
@pytest.mark.parametrize("network", NETWORKS[:5])
def test_its_steps_make_no_difference(write, network, tmp_path):
    """Steps of any size, going back, and a state that is saved and loaded lead to the same end."""
    if network.buffers == 3:
        network = Network(buffers=3, arbitration="fair")
    whole, sim = made(write, network=network), made(write, network=network)
    whole.run()
    assert whole.finished
    chance = random.Random(1)
    while not sim.finished:
        sim.step(chance.randrange(1, 4000))
        if chance.random() < 0.3:
            before = sim.state_hash()
            sim.step(50)
            sim.back(50) if not sim.finished else None
            assert sim.finished or sim.state_hash() == before
        if chance.random() < 0.1:
            sim.save(tmp_path / "half.anb")
            sim = anb.Simulation.load(tmp_path / "half.anb")
    assert sim.state_hash() == whole.state_hash()


@BOTH
def test_without_a_compiler_it_is_the_same(write):
    text = (
        f"from tests.engine.cacheline.test_posts import made, {write.__name__} as write\n"
        "sim = made(write, size='1536 B'); sim.run(); print(sim.state_hash(), sim.result.time_ps)"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", text], env={**os.environ, "ASTRANB_JIT": jit}, capture_output=True,
            text=True, check=True,
        ).stdout
        for jit in ("0", "1")
    }  # fmt: skip
    assert len(found) == 1


def test_a_posted_signal_leaves_after_its_stores_and_the_time_of_a_fence():
    sim = made(posts)
    sim.run()
    machine = sim.engine.machine
    ops, fence_ps = machine.ops, int(machine.gpus["fence_ps"][0])
    assert fence_ps > 0
    found = signals(sim)
    assert len(found) == 18
    for signal in found:
        moves = ops[signal - ops["before"][signal] : signal]
        stored_ps = int(moves["ended_ps"][moves["kind"] == t.MOVE].max())
        assert ops["issued_ps"][signal] >= stored_ps + fence_ps
        assert ops["started_ps"][signal] <= stored_ps  # the block has gone on meanwhile
    for block in range(len(machine.blocks)):
        mine = [int(ops["issued_ps"][signal]) for signal in found if ops["block"][signal] == block]
        assert all(later - earlier >= fence_ps for earlier, later in pairwise(mine))
    assert (machine.blocks["posted"] == 0).all()
    assert (machine.blocks["unacked"] == 0).all()


def test_a_block_goes_on_where_a_fence_would_stop_it():
    times = {}
    for posted in (False, True):

        def write(p, posted=posted):
            p.input_chunks = p.output_chunks = 8
            wires = p.connections(posted=posted)
            for me in p.everyone:
                block = me.block()
                for k in range(8):
                    wires[me, me.right].send(block, me.input[k])
                for k in range(8):
                    block.copy(wires[me.left, me].receive(block), me.output[k])

        sim = anb.Simulation("switch:gpus=2", Collective.of("custom", "64 KiB", write, channels=1))
        sim.run()
        times[posted] = sim.result.time_ps
    assert times[True] < 0.6 * times[False]


def test_many_signals_are_under_way_and_none_is_lost():
    """More than may be under way at once: one line each, over a long link."""

    def write(p):
        p.input_chunks = p.output_chunks = 100
        arrived = p.semaphore(1)
        sender, receiver = p.block(0), p.block(1)
        for k in range(100):
            sender.put_signal(p.input(0)[k], p.output(1)[k], arrived)
        receiver.wait(arrived, 100)

    collective = Collective.of("custom", 100 * 128, write, channels=1)
    sim = anb.Simulation("switch:gpus=2", collective, gpu=preset("h100-sxm").but(fence_ps=0))
    sim.engine.machine.links["latency_ps"] = 5_000_000
    most = 0
    while not sim.finished:
        sim.step(7)
        most = max(most, int(sim.engine.machine.blocks["posted"].max()))
    assert most == t.POSTED
    assert (sim.engine.machine.ops["ended_ps"] >= 0).all()


@BOTH
def test_the_critical_path_is_the_time(write):
    sim = made(write)
    sim.run()
    check_path(sim)


def test_roles_take_one_place_together():
    sim = made(relay)
    machine = sim.engine.machine
    blocks = machine.blocks
    assert blocks["role"].tolist() == [0, 1] * 3
    assert (blocks["sm"][0::2] == blocks["sm"][1::2]).all()
    assert blocks["warps"].tolist() == [12, 4] * 3
    sm = int(blocks["sm"][0])
    room = t.ROOM // int(machine.gpus["blocks_on_sm"][0])
    assert machine.sms["free"][sm] == t.ROOM - room
    assert machine.sms["resident"][sm] == 1
    sim.run()
    assert machine.sms["free"][sm] == t.ROOM
    assert machine.sms["resident"][sm] == 0


def test_roles_wait_together_for_a_place():
    """A thread block begins with all its roles, when one before it has ended with all of its."""

    def write(p):
        for me in p.everyone:
            for _ in range(3):
                block = me.block(warps=8)
                first, second = block.warps(0, 4), block.warps(4, 8)
                first.copy(me.input[0], me.scratch[len(p.blocks)])
                block.sync(first, second)
                second.spend(5_000_000)

    collective = Collective.of("custom", "8 KiB", write, channels=1)
    sim = anb.Simulation("switch:gpus=2", collective, gpu=preset("h100-sxm").but(sms=1, blocks_per_sm=1))
    sim.step(40)
    sim.run()
    blocks = sim.engine.machine.blocks
    started = blocks["started_ps"].reshape(-1, 2)
    ended = blocks["ended_ps"].reshape(-1, 2)
    assert (started[:, 0] == started[:, 1]).all()
    for rank in (started[:3], started[3:]):
        assert rank[:, 0].tolist() == sorted(set(rank[:, 0].tolist()))
    assert (started[1:3, 0] >= ended[:2].max(axis=1)).all()
    assert verify(collective.program(2), "custom", slots=(1, 1)) == []


def test_a_barrier_of_roles_takes_no_polls_and_some_twenty_clocks():
    def write(p):
        for me in p.everyone:
            block = me.block(warps=8)
            roles = [block.warps(0, 4), block.warps(4, 8)]
            roles[0].spend(1_000_000)
            block.sync(*roles)
            for role in roles:
                role.compute()

    sim = anb.Simulation("switch:gpus=2", Collective.of("custom", "8 KiB", write, channels=1))
    sim.run()
    machine = sim.engine.machine
    assert (machine.blocks["polls"] == 0).all()
    assert machine.clock[0].hops == 0
    waits = np.flatnonzero(machine.ops["kind"] == t.WAIT)
    raised = machine.ops["issued_ps"][np.flatnonzero(machine.ops["kind"] == t.NOTIFY)].max()
    late_ps = machine.ops["ended_ps"][waits] - raised
    slot_ps = int(machine.gpus["issue_ps"][0])
    assert 0 < late_ps.max() <= 2 * t.WAKE_SLOTS * slot_ps
    assert 15_000 < t.WAKE_SLOTS * slot_ps + 4_000 < 30_000  # ps: 22 clocks of an H100, about


def test_roles_that_wait_for_each_other_are_a_deadlock_that_is_named():
    def write(p):
        for me in p.everyone:
            block = me.block(warps=8)
            one, two = block.warps(0, 4), block.warps(4, 8)
            first, second = block.semaphore(), block.semaphore()
            one.wait(first)
            one.signal(second)
            two.wait(second)
            two.signal(first)

    collective = Collective.of("custom", "8 KiB", write, channels=1)
    (flaw,) = [f for f in verify(collective.program(2), "custom") if f.severity == "error"][:1]
    assert flaw.kind == "deadlock"
    with pytest.raises(Deadlock, match=r"block 0 waits at operation 0 .*block 1 waits at operation 0"):
        anb.Simulation("switch:gpus=2", collective).run()


def test_events_of_posted_signals_are_named():
    sim = made(posts)
    sim.break_on("post")
    assert "post" in sim.run().text
    assert "a signal leaves behind the stores" in sim.narrate()
    with pytest.raises(InputError, match="did you mean 'post'"):
        sim.break_on("pots")


def test_a_copy_engine_posts_too():
    def write(p):
        arrived = [p.semaphore(rank) for rank in range(p.ranks)]
        for me in p.everyone:
            engine, block = p.engine(me.number), me.block()
            for you in me.others:
                engine.put_signal(me.input[0], you.output[me.number], arrived[you.number])
            block.copy(me.input[0], me.output[me.number])
            block.wait(arrived[me.number], p.ranks - 1)

    sim = made(write)
    assert verify(Collective.of("all_gather", 4096, write, channels=1).program(3), "all_gather") == []
    sim.run()
    check_path(sim)
    assert len(signals(sim)) == 6


def test_roles_run_beside_kernels(monkeypatch):
    """In a workload: the roles of a thread block begin when what is before them has ended."""
    monkeypatch.setitem(ALGORITHMS, ("all_gather", "ring"), Algorithm("all_gather", "ring", "", relay))
    collective = Collective.of("all_gather", "24 KiB", "ring", channels=1)
    work = anb.beside([Product(256, 256, 256)], collective, first="kernels", ranks=3)
    sim = anb.Simulation("switch:gpus=3", work)
    while not sim.finished:
        sim.step(5_000)
    blocks = sim.engine.machine.blocks
    roles = np.flatnonzero(blocks["role"] > 0)
    assert len(roles) == len(blocks[blocks["warps"] == 12]) == 12  # three ranks, four channels
    assert (blocks["sm"][roles] == blocks["sm"][roles - 1]).all()
    assert (blocks["started_ps"][roles] == blocks["started_ps"][roles - 1]).all()


@BOTH
def test_sms_can_be_taken_away_before_it_begins(write):
    sim = made(write)
    sim.set("gpu[1].sms", 2)
    sim.run()
    assert sim.finished
