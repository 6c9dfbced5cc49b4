"""Work of copy engines and NICs, written as requests of thread blocks over MSCCL++'s port channels."""

from __future__ import annotations

import json

import pytest

import astranb as anb
from astranb.collectives import Collective, read_algorithm, verify, write_algorithm
from astranb.core.errors import InputError
from astranb.explore import export_algorithm
from astranb.net.shape import Shape
from tests.collectives.support import run

NODES = "single-tier:servers=2,server=server,factor=1"
CPU = "a thread of the CPU executes what MSCCL++ asks over port channels: no time is given for it"

MEMORY = "read back, semaphores lie elsewhere in memory, so other accesses meet: times change a little"


def names(file, rank=0, block=0):
    """The operations of a thread block of a file, with the channels of those over ports."""
    ops = json.loads(file.read_text())["gpus"][rank]["threadblocks"][block]["ops"]
    return [(op["name"], op.get("channel_type", "")) for op in ops]


def exchange_by_engines(p):
    """An all-gather by copy engines: each copies to all others, then tells its thread block."""
    arrived = [[p.semaphore(r) for _ in range(p.ranks)] for r in range(p.ranks)]
    for me in p.everyone:
        block, engine = me.block(), p.engine(me.number)
        ready, done = me.semaphore(), me.semaphore()
        block.copy(me.input[0], me.output[me.number])
        block.copy(me.input[0], me.scratch[0])
        block.signal(ready)
        engine.wait(ready)
        for other in me.others:
            engine.put(me.scratch[0], other.output[me.number])
            engine.signal(arrived[other.number][me.number])
        engine.signal(done)
        block.wait(done)
        for other in me.others:
            block.wait(arrived[me.number][other.number])


def one_by_one(p):
    """The same, with a doorbell and an end for each copy."""
    arrived = [[p.semaphore(r) for _ in range(p.ranks)] for r in range(p.ranks)]
    for me in p.everyone:
        block, engine = me.block(), p.engine(me.number)
        ready, done = me.semaphore(), me.semaphore()
        block.copy(me.input[0], me.output[me.number])
        for other in me.others:
            block.signal(ready)
            engine.wait(ready)
            engine.put(me.input[0], other.output[me.number])
            engine.signal(arrived[other.number][me.number])
            engine.signal(done)
            block.wait(done)
        for other in me.others:
            block.wait(arrived[me.number][other.number])


@pytest.mark.parametrize("size", ["4 KiB", "256 KiB"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_a_copy_engine_is_a_port_channel(tmp_path, ranks, size):
    file = tmp_path / "plan.json"
    found = export_algorithm(f"switch:gpus={ranks}", Collective.of("send_recv", size, "engine"), file)
    assert found.slower == pytest.approx(1, abs=1e-4)
    assert found.notes == (CPU, MEMORY)
    assert names(file) == [("pws", "port"), ("wait", "port")]
    (channels,) = json.loads(file.read_text())["gpus"][0]["channels"]
    assert channels["channel_type"] == "port"


@pytest.mark.parametrize(
    "algorithm, flush", [(exchange_by_engines, ("flush", "port")), (one_by_one, ("pwsf", "port"))]
)
@pytest.mark.parametrize("ranks", [2, 4])
def test_an_algorithm_of_ones_own_with_copy_engines(tmp_path, algorithm, flush, ranks):
    file = tmp_path / "plan.json"
    collective = Collective.of("all_gather", "64 KiB", algorithm, channels=1)
    found = export_algorithm(f"switch:gpus={ranks}", collective, file)
    assert found.slower == pytest.approx(1, abs=0.01)
    assert (flush if ranks > 2 else ("pwsf", "port")) in names(file)
    assert any("skips a flush" in note for note in found.notes) == (("flush", "port") in names(file))
    plan = read_algorithm(file)
    assert verify(Collective.of("all_gather", "64 KiB", plan).program(ranks), "all_gather") == []


def test_what_is_stored_is_there_before_a_request(tmp_path):
    """All threads store, one of them asks: they meet before it does."""
    file = tmp_path / "plan.json"
    write_algorithm(Collective.of("all_gather", "4 KiB", exchange_by_engines, channels=1).program(3), file)
    assert names(file)[:6] == [
        ("copy", ""), ("copy", ""), ("nop", ""), ("pws", "port"), ("pws", "port"), ("flush", "port")
    ]  # fmt: skip


@pytest.mark.parametrize("size", ["256 KiB", "1 MiB"])  # of a smaller one a poll more is a percent
def test_nics_between_nodes_are_port_channels(tmp_path, size):
    file = tmp_path / "plan.json"
    found = export_algorithm(NODES, Collective.of("all_reduce", size, "hierarchical", channels=1), file)
    assert found.slower == pytest.approx(1, abs=0.01)
    assert CPU in found.notes
    found = json.loads(file.read_text())["gpus"][0]
    assert {one["channel_type"] for one in found["channels"]} == {"memory", "port"}
    for one in found["channels"]:  # within a node by stores, to the other one by the NIC
        near = {peer // 2 == found["id"] // 2 for peer in one["connected_to"]}
        assert near == {one["channel_type"] == "memory"}


@pytest.mark.parametrize("per_node", [2, 4])
def test_hierarchical_over_two_nodes_is_right_when_read_back(tmp_path, per_node):
    shape, ranks = Shape(per_node, rdma=True), 2 * per_node
    program = Collective.of("all_reduce", "64 KiB", "hierarchical", channels=2).program(ranks, shape)
    assert {block.unit for block in program.blocks} == {"sm", "nic"}
    write_algorithm(program, tmp_path / "plan.json")
    plan = read_algorithm(tmp_path / "plan.json")
    again = Collective.of("all_reduce", "64 KiB", plan).program(ranks, shape)
    assert {block.unit for block in again.blocks} == {"sm", "nic"}
    assert verify(again, "all_reduce") == []
    write_algorithm(again, tmp_path / "again.json")
    third = read_algorithm(tmp_path / "again.json").summary()
    assert {**third, "name": ""} == {**plan.summary(), "name": ""}


@pytest.mark.parametrize("name", ["get", "put"])
def test_what_only_signals_another_node_does_it_by_a_nic(tmp_path, name):
    found = export_algorithm(
        NODES, Collective.of("all_gather", "16 KiB", name, channels=1), tmp_path / "plan.json"
    )
    assert found.slower == pytest.approx(1, abs=0.01)


def test_a_copy_engine_that_reaches_another_node_becomes_a_nic(tmp_path):
    found = export_algorithm(NODES, Collective.of("send_recv", "16 KiB", "engine"), tmp_path / "plan.json")
    assert "copy engines that reach another node become NICs" in found.notes


def test_signals_over_ports_and_memory_together(tmp_path):
    """One semaphore that a copy engine of one rank and a thread block of another one raise."""

    def both(p):
        arrived = [p.semaphore(r) for r in range(3)]
        for me in p.everyone:
            block, engine, bell = me.block(), p.engine(me.number), me.semaphore()
            near, far = (p.rank((me.number + k) % 3) for k in (1, 2))
            block.copy(me.input[0], me.output[me.number])
            block.signal(bell)
            engine.wait(bell)
            engine.put(me.input[0], far.output[me.number])
            engine.signal(arrived[far.number])
            block.put(me.input[0], near.output[me.number])
            block.signal(arrived[near.number])
            block.wait(arrived[me.number], 2)

    file = tmp_path / "plan.json"
    found = export_algorithm("switch:gpus=3", Collective.of("all_gather", "48 KiB", both, channels=1), file)
    assert [kind for name, kind in names(file) if name == "wait"] in (["memory", "port"], ["port", "memory"])
    assert found.slower == pytest.approx(1, abs=0.01)
    assert any("one for each pair" in note for note in found.notes)


def test_lists_and_thread_blocks_that_become_others_are_said(tmp_path):
    def two_engines(p):
        arrived = [p.semaphore(r) for r in range(2)]
        for me in p.everyone:
            block, bell = me.block(), me.semaphore()
            block.copy(me.input[0], me.output[me.number])
            block.signal(bell)
            for part in range(2):
                engine = p.engine(me.number)
                engine.wait(bell)
                engine.put(me.input[0], (me.right.output if part == 0 else me.right.scratch)[me.number])
                engine.signal(arrived[me.right.number])
            block.wait(arrived[me.number], 2)

    def two_blocks(p):
        arrived = [[p.semaphore(r) for _ in range(2)] for r in range(2)]
        for me in p.everyone:
            engine = p.engine(me.number)
            for part in range(2):
                block, bell = me.block(), me.semaphore()
                if part == 0:
                    block.copy(me.input[0], me.output[me.number])
                block.signal(bell)
                engine.wait(bell)
                engine.put(me.input[0], (me.right.output if part == 0 else me.right.scratch)[me.number])
                engine.signal(arrived[me.right.number][part])
                block.wait(arrived[me.number][part])

    for algorithm, said in (
        (two_engines, "copy engines and NICs of a thread block become one"),
        (two_blocks, "a copy engine or NIC of several thread blocks becomes one for each"),
    ):
        collective = Collective.of("all_gather", "8 KiB", algorithm, channels=1)
        notes = write_algorithm(collective.program(2), tmp_path / "plan.json")
        assert any(note.startswith(said) for note in notes)
        run(read_algorithm(tmp_path / "plan.json"), "all_gather", gpus=2, size="8 KiB")


def test_packets_over_ports_are_written_again(tmp_path):
    def forwards(p):
        for me in p.everyone:
            block, engine, bell = me.block(), p.engine(me.number), me.semaphore()
            mine, theirs = p.packets(me.number), p.packets(me.right.number)
            block.copy(me.input[0], me.output[me.number])
            block.copy(me.input[0], mine[me.number])
            block.signal(bell)
            engine.wait(bell)
            engine.put(mine[me.number], theirs[me.number])
            block.copy(mine[me.right.number], me.output[me.right.number])

    program = Collective.of("all_gather", "8 KiB", forwards, channels=1, protocol="LL").program(2)
    write_algorithm(program, tmp_path / "plan.json")
    assert ("ppkt", "port") in names(tmp_path / "plan.json")
    run(read_algorithm(tmp_path / "plan.json"), "all_gather", gpus=2, size="8 KiB")


def rung(p):
    """A thread block of rank 0 and a copy engine that it rings."""
    block, engine, bell = p.block(0), p.engine(0), p.semaphore(0)
    block.signal(bell)
    engine.wait(bell)
    return block, engine


def without_a_doorbell(p):
    p.engine(0).put(p.input(0)[0], p.output(1)[0])


def within_a_rank(p):
    rung(p)[1].copy(p.input(0)[0], p.output(0)[0])


def from_another_rank(p):
    rung(p)[1].copy(p.input(1)[0], p.output(0)[0])


def a_sum(p):
    rung(p)[1].reduce([p.input(0)[0], p.input(0)[1]], p.scratch(1)[0])


def in_a_switch(p):
    rung(p)[1].switch_store(p.input(0)[0], p.scratch(1)[0])


def without_a_signal(p):
    rung(p)[1].put(p.input(0)[0], p.scratch(1)[0])


def for_another_block(p):
    done = p.semaphore(0)
    rung(p)[1].signal(done)
    p.block(0).wait(done)


def of_another_rank(p):
    bell = p.semaphore(0)
    p.block(1).signal(bell)
    p.engine(0).wait(bell)


def of_two_blocks(p):
    engine = rung(p)[1]
    bell = p.semaphore(0)
    p.block(0).signal(bell)
    engine.wait(bell)


def a_signal_of_another_block(p):
    engine, bell, arrived = rung(p)[1], p.semaphore(0), p.semaphore(1)
    engine.put(p.input(0)[0], p.scratch(1)[0])
    p.block(0).signal(bell)
    engine.wait(bell)
    engine.signal(arrived)
    p.block(1).wait(arrived)


def while_under_way(p):
    rung(p)[1].waitcnt(1)


REFUSED = {
    without_a_doorbell: "that waits for no doorbell cannot be written",
    within_a_rank: "copies within rank 0: a port channel leads to another rank; let a thread block copy it",
    from_another_rank: r"reads rank 1 input\[0\]: a port channel only puts; let the other rank put it",
    a_sum: "that adds or uses a switch cannot be written",
    in_a_switch: "that adds or uses a switch cannot be written",
    without_a_signal: "a put to rank 1 that no signal announces; signal the rank that gets the data",
    for_another_block: "signals rank 0, where another thread block waits",
    of_another_rank: "waits for other than one thread block there",
    of_two_blocks: "that waits for two thread blocks cannot be written",
    a_signal_of_another_block: "a put to rank 1, for whose signal another thread block rings",
    while_under_way: "cannot be written with 'waitcnt'",
}


@pytest.mark.parametrize("write", REFUSED, ids=lambda write: write.__name__)
def test_what_no_port_channel_does_is_refused_with_the_line(tmp_path, write):
    program = Collective.of("all_reduce", "4 KiB", write, channels=1).program(2)
    with pytest.raises(InputError, match=rf"test_port_requests.py line \d+: .*{REFUSED[write]}"):
        write_algorithm(program, tmp_path / "plan.json")
    assert not (tmp_path / "plan.json").exists()


def test_a_file_of_msccl_has_no_copy_engines(tmp_path):
    program = anb.collectives.send_recv("4 KiB", "engine").program(2)
    with pytest.raises(
        InputError, match=r"cannot be written to a file of MSCCL; use thread blocks, or write"
    ):
        write_algorithm(program, tmp_path / "algorithm.xml")
