"""LL and LL128: packets in the place of semaphores."""

import pytest

import astranb as anb
from astranb.collectives import ALGORITHMS, Collective, verify
from astranb.core.errors import InputError

BY_PACKETS = sorted(key for key, found in ALGORITHMS.items() if "LL" in found.protocols)


def program(write, kind="all_gather", ranks=3, protocol="LL"):
    return Collective.of(kind, "4 KiB", write, channels=1, protocol=protocol).program(ranks)


def around(p):
    """An all-gather around a ring, as for Simple."""
    ready = [p.semaphore(r) for r in range(p.ranks)]
    for me in p.everyone:
        block = me.block()
        block.phase("start")
        block.copy(me.input[0], me.output[me.number], me.right.output[me.number])
        block.signal(ready[me.right.number])
        for step in range(1, p.ranks):
            chunk = (me.number - step) % p.ranks
            block.phase(f"step {step}")
            block.wait(ready[me.number])
            if step < p.ranks - 1:
                block.copy(me.output[chunk], me.right.output[chunk])
                block.signal(ready[me.right.number])


@pytest.mark.parametrize("kind,name", BY_PACKETS)
def test_nothing_is_read_or_written_elsewhere_but_packets(kind, name):
    made = program(name, kind, ranks=4)
    assert made.semaphores == []
    # Thread blocks meet at a barrier before each message through slots.
    kinds = {op.kind for block in made.blocks for op in block.operations}
    assert kinds == ({"move", "compute"} if name in ("ring", "tree", "pxn") else {"move"})
    for block in made.blocks:
        for op in block.operations:
            assert all(chunk.rank == block.rank for chunk in op.sources)
            assert all(chunk.rank == block.rank or chunk.buffer == "packets" for chunk in op.targets)


@pytest.mark.parametrize("protocol", ["LL", "LL128"])
@pytest.mark.parametrize("ranks", [2, 3, 5])
def test_an_algorithm_of_ones_own_needs_no_second_text(protocol, ranks):
    assert verify(program(around, ranks=ranks, protocol=protocol), "all_gather") == []


def test_the_first_move_that_reads_an_arrival_stores_it():
    moves = [
        (list(map(str, op.sources)), list(map(str, op.targets)))
        for op in program(around).blocks[1].operations
    ]
    assert moves == [
        (["rank 1 input[0]"], ["rank 1 output[1]", "rank 2 packets[0]"]),
        (["rank 1 packets[0]"], ["rank 1 output[0]", "rank 2 packets[1]"]),
        (["rank 1 packets[2]"], ["rank 1 output[2]"]),
    ]


def test_what_another_rank_would_read_is_sent_where_the_read_is_allowed():
    made = program("allpairs_oneshot", "all_reduce")
    assert made.phases == ["put", "reduce"]
    sent = [op for op in made.blocks[0].operations if op.targets[0].buffer == "packets"]
    assert [str(op.sources[0]) for op in sent] == [f"rank 0 input[{chunk}]" for chunk in range(3)]
    assert {made.phases[op.phase] for op in sent} == {"put"}


def test_signals_within_a_rank_remain():
    def two_blocks(p):
        done = [p.semaphore(r) for r in range(2)]
        for me in p.everyone:
            first, second = me.block(), me.block()
            first.copy(me.input[0], me.scratch[0])
            first.signal(done[me.number])
            second.wait(done[me.number])
            second.copy(me.scratch[0], me.output[0])

    made = program(two_blocks, "barrier", ranks=2)
    assert [[op.kind for op in block.operations] for block in made.blocks] == [
        ["move", "signal"],
        ["wait", "move"],
    ] * 2
    assert len(made.semaphores) == 2


def test_a_chunk_that_is_written_twice_has_packets_twice():
    def twice(p):
        ready = p.semaphore(1)
        one, two = p.block(0), p.block(1)
        for chunk in range(2):
            one.put(p.input(0)[chunk], p.scratch(1)[0])
            one.signal(ready)
            two.wait(ready)
            two.copy(p.scratch(1)[0], p.output(1)[chunk])

    receiver = program(twice, "broadcast", ranks=2).blocks[1]
    assert len({op.sources[0] for op in receiver.operations}) == 2


def _engine(p):
    p.engine(0).put(p.input(0)[0], p.output(1)[0])


def _no_signal(p):
    p.block(0).put(p.input(0)[0], p.output(1)[0])


def _read_at_once(p):
    p.block(0).get(p.input(1)[0], p.output(0)[1])


def _in_a_switch(p):
    p.block(0).switch_store(p.input(0)[0], *(p.output(r)[0] for r in range(p.ranks)))


def _two_wait(p):
    ready = p.semaphore(1)
    p.block(0).put(p.input(0)[0], p.output(1)[0])
    p.blocks[0].signal(ready)
    for _ in range(2):
        p.block(1).wait(ready)


@pytest.mark.parametrize(
    "write,text",
    [
        (_engine, "LL cannot be used by a copy engine; use the protocol Simple"),
        (_no_signal, r"needs a signal after rank 0 stores to rank 1 output\[0\]"),
        (_read_at_once, "needs a signal of rank 1 before rank 0 reads it"),
        (_in_a_switch, "needs a signal|cannot be used with a switch"),
        (_two_wait, "needs a semaphore for each block that waits"),
    ],
)
def test_what_packets_cannot_do(write, text):
    with pytest.raises(InputError, match=text):
        program(write, ranks=2)


def test_a_run_by_packets_ends_as_promised():
    for protocol in ("LL", "LL128"):
        sim = anb.Simulation("switch:gpus=4", Collective.of("all_gather", "9 KiB", around, protocol=protocol))
        assert sim.run().why == "end"
