"""Programs are proved right or the fault is named, without running them."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import ALGORITHMS, Collective, draw_waits, verify
from astranb.collectives.proof.order import execute, order_of
from astranb.core.errors import Deadlock, InputError, WrongResult

SHIPPED = [(a.collective, a.name, p) for a in ALGORITHMS.values() for p in a.protocols]


CASES = [
    (*key, ranks)
    for key in SHIPPED
    for ranks in (2, 3, 4, 5, 8)
    if not (ALGORITHMS[key[:2]].power_of_two and ranks & (ranks - 1))
]


@pytest.mark.parametrize("kind,name,protocol,ranks", CASES)
def test_every_shipped_algorithm_is_right(kind, name, protocol, ranks):
    collective = Collective.of(kind, "64 KiB", name, protocol=protocol, channels=2, root=ranks - 1)
    per_node = ranks // 2 if ranks % 2 == 0 else ranks
    assert verify(collective.program(ranks, per_node), kind, root=ranks - 1) == []


def test_many_ranks_are_verified_too():
    assert verify(Collective.of("all_reduce", "1 MiB", "ring", channels=2).program(32), "all_reduce") == []


# Seeded bugs -----------------------------------------------------------------


def program(kind="all_reduce", name="ring", ranks=4, protocol="Simple"):
    return Collective.of(kind, "64 KiB", name, channels=1, protocol=protocol).program(ranks)


def edit(p, rank, number, **changes):
    """Change one operation of a rank's only block."""
    block = next(b for b in p.blocks if b.rank == rank)
    block.operations[number] = dataclasses.replace(block.operations[number], **changes)


def find(p, rank, kind, nth=0):
    """Number of the nth operation of a kind in a rank's only block."""
    block = next(b for b in p.blocks if b.rank == rank)
    return [i for i, op in enumerate(block.operations) if op.kind == kind][nth]


def remove(p, rank, number):
    del next(b for b in p.blocks if b.rank == rank).operations[number]


def missing_wait(p):
    remove(p, 1, find(p, 1, "wait"))


def missing_signal(p):
    remove(p, 1, find(p, 1, "signal", 5))


def swapped_signal(p):
    edit(p, 0, find(p, 0, "signal"), semaphore=p.semaphores[3])


def wrong_chunk(p):
    number = find(p, 2, "move", 1)
    op = next(b for b in p.blocks if b.rank == 2).operations[number]
    edit(p, 2, number, targets=(p.scratch(3)[(op.targets[0].index + 1) % 4],))


def wrong_source(p):
    number = find(p, 0, "move", 0)
    edit(p, 0, number, sources=(p.input(0)[3],))


def overlapping_write(p):
    block = p.block(0)
    block.copy(p.input(0)[0], p.output(0)[2])


def off_by_one_rank(p):
    number = find(p, 1, "move", 4)
    op = next(b for b in p.blocks if b.rank == 1).operations[number]
    edit(p, 1, number, targets=tuple(c._replace(rank=(c.rank + 1) % 4) for c in op.targets))


def missing_fence(p):
    edit(p, 1, find(p, 1, "signal"), relaxed=True)


def double_reduce(p):
    number = find(p, 2, "move", 1)
    op = next(b for b in p.blocks if b.rank == 2).operations[number]
    edit(p, 2, number, sources=(*op.sources, op.sources[-1]))


def lost_contribution(p):
    number = find(p, 2, "move", 1)
    op = next(b for b in p.blocks if b.rank == 2).operations[number]
    edit(p, 2, number, sources=op.sources[:1])


def small_signal(p):
    for number in range(2):
        edit(p, 0, find(p, 0, "signal", number), value=1)
    remove(p, 0, find(p, 0, "signal", 5))


def greedy_wait(p):
    last = find(p, 2, "wait", 5)
    edit(p, 2, last, value=99)


def wait_first(p):
    for rank in range(4):
        block = next(b for b in p.blocks if b.rank == rank)
        block.operations.insert(0, block.operations.pop(find(p, rank, "wait")))


def unwritten_scratch(p):
    number = find(p, 3, "move", 1)
    op = next(b for b in p.blocks if b.rank == 3).operations[number]
    edit(p, 3, number, sources=(p.scratch(3)[77], *op.sources[1:]))


def reused_slot(p):
    """Two steps put to the same place, and nobody says that it is free again."""
    for block in p.blocks:
        for i, op in enumerate(block.operations):
            if op.kind == "move":
                fold = [
                    tuple(c._replace(index=0) if c.buffer == "scratch" else c for c in side)
                    for side in (op.sources, op.targets)
                ]
                block.operations[i] = dataclasses.replace(op, sources=fold[0], targets=fold[1])


def output_left_out(p):
    number = find(p, 0, "move", 3)
    op = next(b for b in p.blocks if b.rank == 0).operations[number]
    edit(p, 0, number, targets=tuple(c for c in op.targets if c.rank != 0))


def beyond_the_buffer(p):
    number = find(p, 0, "move", 0)
    edit(p, 0, number, sources=(p.input(0)[0]._replace(index=4),))


def somebody_elses_semaphore(p):
    other = next(semaphore for semaphore in p.semaphores if semaphore.rank != p.blocks[0].rank)
    edit(p, 0, find(p, 0, "wait"), semaphore=other)


BUGS = [
    (missing_wait, {"race", "result"}, r"race: rank \d block 0 operation \d+ .*in no order"),
    (missing_signal, {"semaphore", "deadlock"}, r"waits for 6, all signals together add 5"),
    (
        swapped_signal,
        {"semaphore", "deadlock", "race"},
        r"waits for \d, all signals together add \d|deadlock",
    ),
    (wrong_chunk, {"result", "race"}, r"scratch\[\d\], which has not been written|wrong result"),
    (wrong_source, {"result"}, r"wrong result on rank \d, output chunk \d"),
    (overlapping_write, {"race"}, r"race: .* writes and .* writes rank 0 output\[2\]"),
    (off_by_one_rank, {"race", "result"}, r"race|wrong result"),
    (missing_fence, {"fence"}, r"missing fence: rank 1 block 0 operation \d+ .*scratch"),
    (double_reduce, {"result"}, r"contribution is there 2 times"),
    (lost_contribution, {"result"}, r"contribution of rank 2 is missing"),
    (small_signal, {"semaphore", "deadlock"}, r"all signals together add 5"),
    (greedy_wait, {"semaphore"}, r"rank 2 block 0 operation \d+ .*waits for 99"),
    (wait_first, {"deadlock"}, r"deadlock: rank \d block 0 operation 0 .* <- "),
    (unwritten_scratch, {"result"}, r"reads rank 3 scratch\[77\], which has not been written"),
    (reused_slot, {"race", "fence"}, r"scratch\[0\]"),
    (output_left_out, {"result", "race"}, r"it was never written|which has not been written"),
    (beyond_the_buffer, {"bounds"}, r"beyond its buffer of 4 chunks"),
    (somebody_elses_semaphore, {"bounds"}, r"waits for a semaphore of rank \d"),
]


@pytest.mark.parametrize("seed,kinds,says", BUGS, ids=lambda x: getattr(x, "__name__", ""))
def test_a_seeded_bug_is_found_and_named(seed, kinds, says):
    import re

    p = program()
    assert verify(p, "all_reduce") == []
    seed(p)
    faults = [f for f in verify(p, "all_reduce") if f.severity == "error"]
    assert faults
    assert {f.kind for f in faults} & kinds
    assert any(re.search(says, f.message) for f in faults), [f.message for f in faults]
    assert all(f.message.startswith("all_reduce/ring") and "\n" not in f.message for f in faults)


def test_bugs_in_packets():
    p = program("all_gather", "allpairs", protocol="LL")
    block = p.blocks[0]
    block.operations.append(block.operations[0])
    assert "packets" in {f.kind for f in verify(p, "all_gather")}
    p = program("all_gather", "allpairs", protocol="LL")
    remove(p, 2, 0)
    faults = verify(p, "all_gather")
    assert any(f.kind == "packets" and "which is never written" in f.message for f in faults)
    # A packet vouches for itself, not for what its sender stored before it.
    p = program("broadcast", "allpairs", ranks=2, protocol="LL")
    p.blocks[0].operations.insert(
        0, dataclasses.replace(p.blocks[0].operations[0], targets=(p.scratch(1)[0],))
    )
    p.blocks[1].operations.append(
        dataclasses.replace(p.blocks[1].operations[0], sources=(p.scratch(1)[0],), targets=(p.output(1)[0],))
    )
    assert {f.kind for f in verify(p, "broadcast")} == {"fence"}


def test_one_semaphore_for_two_rounds_is_a_race():
    """A fast rank's second signal counts for a slow one's first: found in our own library, once."""

    def shared(p):
        n = p.ranks
        arrived = [p.semaphore(r) for r in range(n)]
        for me in p.everyone:
            block, r = me.block(), me.number
            for you in me.others:
                block.put(me.input[you.number], you.scratch[r])
                block.signal(arrived[you.number])
            block.wait(arrived[r], n - 1)
            block.reduce(
                [me.input[r], *(me.scratch[you.number] for you in me.others)],
                me.output[r],
                *(you.output[r] for you in me.others),
            )
            for you in me.others:
                block.signal(arrived[you.number])
            block.wait(arrived[r], n - 1)

    faults = verify(Collective.of("all_reduce", 4096, shared).program(4), "all_reduce")
    assert {f.kind for f in faults} == {"race"}


def test_a_block_waits_only_for_stores_to_memory_that_it_calls_by_the_same_name():
    """Messages of one slot are the same memory: the first one stored again is in the way of the next one."""
    program = Collective.of("all_reduce", "8 KiB", "ring", protocol="Simple", channels=1).program(4)
    operations = program.blocks[0].operations
    again, behind = operations[0], 15  # before the fifth message, of four slots
    assert operations[behind].kind == "move"
    assert not verify(program, "all_reduce")
    operations.insert(behind, again)
    (flaw,) = verify(program, "all_reduce")
    assert (flaw.kind, flaw.severity) == ("fence", "error")
    assert "writes rank 1 scratch[message 0]" in flaw.message
    operations.insert(behind + 1, dataclasses.replace(again, kind="fence", sources=(), targets=()))
    assert not verify(program, "all_reduce")


def test_a_signal_that_nobody_waits_for_is_a_warning():
    p = program()
    p.blocks[0].signal(p.semaphore(2))
    (fault,) = verify(p, "all_reduce")
    assert fault.severity == "warning"
    assert "no block waits" in fault.message


@settings(max_examples=40, deadline=None)
@given(
    name=st.sampled_from(["ring", "allpairs", "tree", "halving_doubling"]),
    rank=st.integers(0, 3),
    kind=st.sampled_from(["wait", "signal", "move"]),
    nth=st.integers(0, 30),
)
def test_what_is_found_right_runs_right(name, rank, kind, nth):
    """Take one operation out: what verify lets pass ends with the right result."""

    def broken(p):
        ALGORITHMS["all_reduce", name].write(p)
        blocks = [b for b in p.blocks if b.rank == rank]
        places = [(b, i) for b in blocks for i, op in enumerate(b.operations) if op.kind == kind]
        if places:
            block, i = places[nth % len(places)]
            del block.operations[i]

    collective = Collective.of("all_reduce", 2048, broken, channels=1)
    errors = [f for f in verify(collective.program(4), "all_reduce") if f.severity == "error"]
    sim = anb.Simulation("switch:gpus=4", collective, record=False) if not errors else None
    if sim:
        sim.run()
        return
    dead = {f.kind for f in errors} & {"deadlock", "semaphore"}
    if dead or {f.kind for f in errors} == {"result"}:
        # No timing can save it, so that the run must fail as well.
        with pytest.raises((Deadlock, WrongResult, InputError)):
            anb.Simulation("switch:gpus=4", collective, record=False).run()


def test_the_order_is_one_of_causes():
    run = execute(program())
    order = order_of(run)
    last = [len(block.operations) - 1 for block in run.blocks]
    # In a ring every last operation comes after every first one, and no first after a last.
    for a in range(4):
        for b in range(4):
            assert order.is_visible((a, 0), (b, last[b]))
            assert a == b or not order.is_read((a, last[a]), (b, 0))


def test_a_deadlock_is_drawn():
    p = program()
    wait_first(p)
    fault = next(f for f in verify(p, "all_reduce") if f.kind == "deadlock")
    picture = draw_waits(fault)
    assert picture.startswith("<svg")
    assert picture.count("<rect") == len(fault.waits) >= 2
    assert draw_waits(dataclasses.replace(fault, waits=("<b>",))).count("<b>") == 0
