"""Signals behind stores, roles, slots and messages: what is written, what is refused, what is proved."""

from __future__ import annotations

from pathlib import Path

import pytest

from astranb.collectives import Collective, Program, lower, verify, write_algorithm
from astranb.collectives.language.fifo import FIRST_SLOT, index_name
from astranb.core.errors import InputError
from astranb.net.shape import Shape


def program(ranks=2, chunks=4, **rest):
    return Program("p", ranks=ranks, channels=1, input_chunks=chunks, output_chunks=chunks, **rest)


def built(write, kind="custom", ranks=2, size=4096, **rest):
    return Collective.of(kind, size, write, channels=1, **rest).program(ranks)


def errors(write, kind="all_gather", ranks=2):
    return [f for f in verify(built(write, kind, ranks), kind) if f.severity == "error"]


def here(text):
    """The number of the line of this file that has a text."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    (found,) = [number for number, line in enumerate(lines, 1) if text in line and "here(" not in line]
    return found


# Signals behind stores ------------------------------------------------------------


def exchange(*, first=False, behind=1):
    """Put to each other; what is put first is ordered by ``put_signal`` only if ``behind`` reaches it."""

    def write(p):
        arrived = [p.semaphore(rank) for rank in range(p.ranks)]
        for me in p.everyone:
            block, you = me.block(), me.right
            if first:
                block.put(me.input[0], you.output[me.number])
                block.copy(me.input[0], me.output[me.number])
            else:
                block.copy(me.input[0], me.output[me.number])
                block.put(me.input[0], you.output[me.number])
            block.signal(arrived[you.number], behind=behind)
            block.wait(arrived[me.number])

    return write


def test_it_orders_its_own_stores_and_no_earlier_ones():
    assert errors(exchange()) == []
    assert errors(exchange(first=True, behind=2)) == []
    (flaw, *_) = errors(exchange(first=True))
    assert flaw.kind == "fence"


def test_it_orders_those_that_were_posted_before_it():
    """They leave in their order: the last one vouches for all."""

    def write(p, plain=False):
        done = [p.semaphore(rank) for rank in range(p.ranks)]
        ignored = [p.semaphore(rank) for rank in range(p.ranks)]
        for me in p.everyone:
            block, you = me.block(), me.right
            if plain:
                block.put(me.input[0], you.output[me.number])
            else:
                block.put_signal(me.input[0], you.output[me.number], ignored[you.number])
            block.put_signal(me.input[0], you.scratch[0], done[you.number])
            block.copy(me.input[0], me.output[me.number])
            block.wait(done[me.number])

    assert errors(write) == []
    assert errors(lambda p: write(p, plain=True))


def test_a_relaxed_signal_may_overtake_one_that_is_posted():
    def write(p):
        arrived = [p.semaphore(rank) for rank in range(p.ranks)]
        for me in p.everyone:
            block, you = me.block(), me.right
            block.copy(me.input[0], me.output[me.number])
            block.put_signal(me.input[0], you.output[me.number], arrived[you.number])
            block.signal(arrived[you.number], relaxed=True)
            block.wait(arrived[me.number])
            block.wait(arrived[me.number], taken)

    taken = 1
    assert errors(write) == []
    whole = built(write, "all_gather")
    for block in whole.blocks:  # the second wait is left out: the first may be for the relaxed signal
        block.operations.pop()
    assert {f.kind for f in verify(whole, "all_gather") if f.severity == "error"} & {"fence", "completion"}


def test_the_nic_is_told_behind_the_stores_to_its_buffer():
    def write(p, posted=True):
        wires = p.connections(posted=posted)
        for me in p.everyone:
            block = me.block()
            block.copy(me.input[0], me.output[me.number])
            for you in me.others:
                wires[me, you].send(block, me.input[0])
            for you in me.others:
                block.copy(wires[you, me].receive(block), me.output[you.number])

    p = Collective.of("all_gather", 4096, write, channels=1).program(4, Shape(2, rdma=True))
    assert [f for f in verify(p, "all_gather") if f.severity == "error"] == []
    posted = [op for block in p.blocks if block.unit == "sm" for op in block.operations if op.behind]
    assert posted
    nics = [op for block in p.blocks if block.unit == "nic" for op in block.operations]
    assert nics
    assert not any(op.behind for op in nics)


@pytest.mark.parametrize(
    "wrong,says",
    [
        (
            lambda b, p: b.put_signal(p.input(0)[0], p.output(1)[0], p.semaphore(0)),
            "semaphore of rank 0.*use a",
        ),
        (lambda b, p: b.put_signal(p.input(1)[0], p.output(1)[0], p.semaphore(1)), "cannot put from"),
        (lambda b, p: b.signal(p.semaphore(1), behind=1), "behind 1 moves; give a number of moves"),
        (lambda b, p: b.signal(p.semaphore(1), behind=-1), "behind -1 moves"),
        (lambda b, p: b.put_signal(p.input(0)[0], p.output(1)[0], p.semaphore(1), 0), "at least 1, got 0"),
    ],
)
def test_what_cannot_be_posted(wrong, says):
    p = program()
    with pytest.raises(InputError, match=says):
        wrong(p.block(0), p)


# Roles -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "ask,says",
    [
        (lambda b: b.warps(4, 20), r"warps 4 to 19 of a block of 16; .*an end up to 16"),
        (lambda b: b.warps(-1, 2), "a first warp from 0"),
        (lambda b: b.warps(3, 3), "give a first warp"),
        (
            lambda b: (b.warps(0, 8), b.warps(4, 12)),
            "warps 0 to 7 have another role; give each warp one role",
        ),
        (lambda b: b.warps(0, 8).warps(0, 4), "only a thread block has roles"),
        (lambda b: (b.compute(), b.warps(0, 8)), "cannot have operations of its own; let a role do them"),
        (
            lambda b: (b.warps(0, 8), b.compute()),
            "cannot have operations of its own; let one of its roles do it",
        ),
        (lambda b: b.sync(b.warps(0, 8)), "name two or more of its roles"),
        (lambda b: b.warps(0, 8).product(128, 128, 64, (), b), "a role cannot compute a product"),
        (lambda b: b.sync(b.warps(0, 8), b), "name two or more of its roles"),
    ],
)
def test_what_roles_there_cannot_be(ask, says):
    with pytest.raises(InputError, match=says):
        ask(program().block(0, warps=16))


def test_a_block_must_say_how_many_warps_it_has():
    with pytest.raises(InputError, match=r"say how many it has: me.block\(warps=16\)"):
        program().block(0).warps(0, 4)


def roles(*, sync=True, fence=True):
    def write(p):
        for me in p.everyone:
            block = me.block(warps=8)
            one, two = block.warps(0, 4), block.warps(4, 8)
            for you in p.everyone:
                one.copy(you.input[0], me.scratch[you.number])
            if fence:
                one.fence()
            if sync:
                block.sync(one, two)
            for you in p.everyone:
                two.copy(me.scratch[you.number], me.output[you.number])

    return write


def test_roles_are_concurrent_unless_they_meet():
    assert errors(roles()) == []
    assert {f.kind for f in errors(roles(sync=False))} == {"race"}
    assert {f.kind for f in errors(roles(fence=False))} == {"fence"}


def test_a_semaphore_in_shared_memory_is_for_its_roles_alone():
    def write(p):
        for me in p.everyone:
            block = me.block(warps=8)
            one, two = block.warps(0, 4), block.warps(4, 8)
            mine = block.semaphore()
            one.signal(mine)
            two.wait(mine)
            me.block().signal(mine)

    assert {f.kind for f in errors(write, "custom")} == {"bounds"}
    assert "in the shared memory of another thread block" in errors(write, "custom")[0].message


def test_roles_and_posts_in_files(tmp_path):
    """Files have no roles; a signal that was posted becomes one that the block waits for, and it says so."""
    with pytest.raises(InputError, match="roles of a thread block cannot be written"):
        write_algorithm(built(roles(), "all_gather"), tmp_path / "roles.json")
    notes = write_algorithm(built(exchange(), "all_gather"), tmp_path / "posts.json")
    assert any("posted" in note for note in notes)


@pytest.mark.parametrize("protocol", ["LL", "LL128"])
def test_packets_take_the_place_of_posted_signals(protocol):
    def write(p):
        wires = p.connections(depth=1, posted=True)
        for me in p.everyone:
            block = me.block()
            for k in range(p.input_chunks):
                block.copy(me.input[k], me.output[me.number])
            for you in me.others:
                wires[me, you].send(block, me.input[0])
            for you in me.others:
                block.copy(wires[you, me].receive(block), me.output[you.number])
                wires[you, me].free(block)

    p = built(write, "all_gather", 3, protocol=protocol)
    assert [f for f in verify(p, "all_gather") if f.severity == "error"] == []
    assert not any(op.behind for block in p.blocks for op in block.operations)


# Slots and messages ------------------------------------------------------------------------


def stream(depth, *, posted=False, early=False, frees=True, messages=6):
    """A rank sends chunks one after another through the slots of a connection."""

    def write(p):
        p.input_chunks = p.output_chunks = messages
        wire = p.connections(depth, posted=posted)[0, 1]
        me, you = p.everyone
        sender, receiver = me.block(), you.block()
        for k in range(messages):
            sender.copy(me.input[k], me.output[k])
            wire.send(sender, me.input[k])  # waits for a slot
        for k in range(messages):
            part = wire.receive(receiver)
            if early:
                wire.free(receiver)
            receiver.copy(part, you.output[k])
            if frees and not early:
                wire.free(receiver)

    return write


@pytest.mark.parametrize("posted", [False, True])
@pytest.mark.parametrize("depth", [0, 1, 2, 5, 6, 9])
def test_the_last_messages_need_no_credit(depth, posted):
    p = built(stream(depth, posted=posted), "broadcast")
    assert verify(p, "broadcast") == []
    waits = [op for op in p.blocks[0].operations if op.kind == "wait"]
    frees = [op for op in p.blocks[1].operations if op.kind == "signal"]
    assert len(waits) == len(frees) == (max(0, 6 - depth) if depth else 0)
    assert all(op.relaxed for op in frees)


def test_credits_keep_a_slot_from_being_written_over():
    flaws = verify(built(stream(2, early=True), "broadcast"), "broadcast")
    assert {f.kind for f in flaws} == {"race"}
    assert "message 0" in flaws[0].message


def test_a_slot_that_nobody_frees():
    with pytest.raises(
        InputError, match=r"6 messages through 2 slots, of which 0 are freed.*call free"
    ) as found:
        built(stream(2, frees=False), "broadcast")
    assert f"test_asynchronous.py line {here('# waits for a slot')}" in str(found.value)


def test_slots_share_memory():
    p = built(stream(2), "broadcast")
    low = lower(p, kind="broadcast", size=4096)
    scratch = low.slices[low.slices["buffer"] == 2]
    assert len(scratch) == 6
    assert len({int(line) for line in scratch["line"]}) == 2


def test_connections_of_several_depths_do_not_share_slots():
    def write(p):
        p.input_chunks = p.output_chunks = 6
        me, you = p.everyone
        sender, receiver = me.block(), you.block()
        wires = [p.connections(depth)[0, 1] for depth in (0, 1, 2, 1)]
        for k in range(6):
            sender.copy(me.input[k], me.output[k])
            wires[k % 4].send(sender, me.input[k])
            receiver.copy(wires[k % 4].receive(receiver), you.output[k])
            wires[k % 4].free(receiver)

    p = built(write, "broadcast")
    assert verify(p, "broadcast") == []
    assert sorted(p.slots) == [1, 1, 2]


def message(*, chunks=2, posted=False, depth=0, reads=2):
    def write(p):
        p.input_chunks = p.output_chunks = 4
        wire = p.connections(depth, chunks, posted=posted)[0, 1]
        me, you = p.everyone
        sender, receiver = me.block(), you.block()
        for k in range(4):
            sender.copy(me.input[k], me.output[k])
        for first in (0, 2):
            with wire.message(sender) as m:
                m.put(me.input[first])
                m.put(me.input[first + 1])
            for k, part in enumerate(wire.receive_all(receiver, reads)):
                receiver.copy(part, you.output[first + k])
            wire.free(receiver)

    return write


@pytest.mark.parametrize("posted", [False, True])
@pytest.mark.parametrize("depth", [0, 1])
def test_a_message_of_several_chunks_has_one_signal(posted, depth):
    p = built(message(posted=posted, depth=depth), "broadcast")
    assert verify(p, "broadcast") == []
    signals = [op for op in p.blocks[0].operations if op.kind == "signal"]
    assert [op.behind for op in signals] == [2 * posted] * 2


def test_a_slice_of_a_buffer_is_a_message_too():
    def write(p):
        p.input_chunks = p.output_chunks = 4
        wire = p.connections()[0, 1]
        me, you = p.everyone
        sender, receiver = me.block(), you.block()
        sender.copy(me.input[0:4], me.output[0:4])
        for part in (slice(0, 1), slice(1, 4)):
            wire.send(sender, me.input[part])
            receiver.copy(wire.receive(receiver, you.output[part]), you.output[part])

    assert verify(built(write, "broadcast"), "broadcast") == []


def test_a_message_that_is_never_closed():
    def write(p):
        wire = p.connections()[0, 1]
        block = p.block(0)
        m = wire.message(block)  # no with
        m.put(p.input(0)[0])

    with pytest.raises(InputError, match=r"from rank 0 to rank 1 is not closed.*with wire.message") as found:
        built(write)
    assert f"test_asynchronous.py line {here('wire.message(block)  # no with')}" in str(found.value)


def test_an_exception_in_a_message_leaves_it_open():
    def write(p):
        wire = p.connections()[0, 1]
        try:
            with wire.message(p.block(0)) as m:
                m.put(p.input(0)[0])
                int("")
        except ValueError:
            pass

    with pytest.raises(InputError, match="is not closed"):
        built(write)


@pytest.mark.parametrize(
    "write,says",
    [
        (message(depth=2, chunks=1), r"more than 1 chunk; use p.connections\(depth=2, chunks=2\)"),
        (lambda p: p.connections(depth=-1), "connections cannot have -1 slots"),
        (
            lambda p: p.connections()[0, 1].receive_all(p.block(1), 0),
            "a message must have at least one chunk, got 0",
        ),
        (lambda p: p.connections()[0, 1].message(p.block(0)).close(), "the message has no chunk"),
    ],
)
def test_what_messages_there_cannot_be(write, says):
    with pytest.raises(InputError, match=says):
        built(write)


def test_names_of_slots_are_told_apart():
    names = {index_name(index) for index in (3, FIRST_SLOT + 3, 2 * FIRST_SLOT + 3)}
    assert names == {"3", "message 3", "message 3 of buffer 1"}


def test_connections_without_slots_have_places_of_their_own():
    def write(p):
        p.input_chunks = p.output_chunks = 4
        me, you = p.everyone
        blocks = [(me.block(), you.block()) for _ in range(2)]
        wires = [p.connections(), p.connections()]
        for k in range(4):
            (sender, receiver), wire = blocks[k % 2], wires[k % 2][0, 1]
            sender.copy(me.input[k], me.output[k])
            wire.send(sender, me.input[k])
            receiver.copy(wire.receive(receiver), you.output[k])

    assert verify(built(write, "broadcast"), "broadcast") == []


def test_a_message_is_of_the_slice_in_which_it_begins():
    """All of its parts are found again, although the loop over slices goes on while it is written."""

    def write(p):
        wire = p.connections()[0, 1]
        me, you = p.everyone
        sender, receiver = me.block(), you.block()
        for _ in p.cut_into(2):
            sender.copy(me.input[0:8], me.output[0:8])
        for k in range(8):
            with wire.message(sender) as m:
                for _ in p.slices():
                    m.put(me.input[k])
            parts = wire.receive_all(receiver, 2)
            for part, _ in zip(parts, p.slices(), strict=True):
                receiver.copy(part, you.output[k])

    assert verify(built(write, "broadcast", size=4096), "broadcast") == []
