"""Work that thread blocks post to their NIC: send buffers, doorbells, work requests."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.collectives import Collective, Program, algorithms, verify
from astranb.collectives.language.listing import list_operations
from astranb.net.shape import Shape

_TWO = Shape(2, rdma=True)


def _written(write, shape=_TWO, **options):
    return Collective.of("all_gather", "64 KiB", write, channels=1, **options).program(4, shape)


def _operations(program, rank):
    return {row["unit"]: row["operations"] for row in list_operations(program, rank)}


def _both(p):
    """Rank 0 sends its chunk to a rank of its node and to one of the other."""
    blocks = [p.block(r) for r in range(4)]
    came = [p.semaphore(r) for r in range(4)]
    blocks[0].copy(p.input(0)[0], p.output(1)[0], p.output(2)[0])
    for r in (1, 2, 3):
        blocks[0].signal(came[r])
    for r in (1, 2, 3):
        blocks[r].wait(came[r])


def test_a_nic_writes_what_is_for_another_node():
    found = _operations(_written(_both), 0)
    buffer = "rank 0 scratch[sent 0]"
    assert found["sm"] == [
        f"rank 0 input[0] -> rank 1 output[0], {buffer}",
        "signal semaphore 1 of rank 1",
        "signal semaphore 4 of rank 0",  # one doorbell for both signals
    ]
    assert found["nic"] == [
        "wait for semaphore 4 of rank 0",
        "compute 1",
        f"{buffer} -> rank 2 output[0]",
        "signal semaphore 2 of rank 2",
        "signal semaphore 3 of rank 3",
    ]


def test_blocks_store_where_there_is_no_nic_between():
    for shape in (None, Shape(2), Shape(4, rdma=True)):
        assert set(_operations(_written(_both, shape), 0)) == {"sm"}


def test_a_posted_chunk_needs_no_send_buffer_and_no_signal():
    def posts(p):
        blocks = [p.block(r) for r in range(4)]
        blocks[0].post(p.input(0)[0], p.output(3)[0])
        blocks[0].post(p.input(0)[0], p.output(1)[0])

    found = _operations(_written(posts), 0)
    assert found["sm"] == ["rank 0 input[0] -> rank 1 output[0]", "signal semaphore 0 of rank 0"]
    assert found["nic"][2:] == ["rank 0 input[0] -> rank 3 output[0]"]


def test_each_message_has_a_send_buffer_of_its_own():
    def twice(p):
        block = p.block(0)
        block.reduce([p.input(0)[0], p.scratch(0)[5]], p.output(2)[0])
        block.reduce([p.input(0)[0], p.scratch(0)[5]], p.output(2)[1])

    found = _operations(_written(twice), 0)["nic"]
    assert found[2:] == [f"rank 0 scratch[sent {k}] -> rank 2 output[{k}]" for k in (0, 1)]


@pytest.mark.parametrize("ranks,shape", [(4, _TWO), (8, Shape(4, rdma=True)), (3, Shape(1, rdma=True))])
def test_every_algorithm_is_right_with_nics(ranks, shape):
    for found in algorithms():
        if found.power_of_two and ranks & (ranks - 1):
            continue
        wanted = Collective.of(found.collective, "64 KiB", found.name, channels=2)
        assert verify(wanted.program(ranks, shape), found.collective) == [], found.name


@given(
    st.lists(
        st.tuples(st.sampled_from(["send", "receive", "signal", "wait", "compute"]), st.integers(0, 3)),
        max_size=30,
    ),
    st.sampled_from(["Simple", "LL"]),
    st.integers(0, 2),
)
def test_operations_are_the_same_whether_added_as_integers_or_as_objects(steps, protocol, depth):
    def write(*, as_objects):
        p = Program(
            "law", ranks=4, channels=1, input_chunks=4, output_chunks=4, protocol=protocol, shape=_TWO
        )
        wires, counted = p.connections(depth), [p.semaphore(rank) for rank in range(4)]
        blocks = [p.block(rank) for rank in range(4)]
        for block in blocks if as_objects else ():
            block.operations = []
        for number, (what, rank) in enumerate(steps):
            block, next_rank = blocks[rank], (rank + 1) % 4
            block.phase(f"phase {number % 3}")
            if what == "send":
                wires[rank, next_rank].send(block, p.input(rank)[number % 4])
            elif what == "receive":
                wires[rank - 1 & 3, rank].receive(block)
            elif what == "signal":
                block.signal(counted[next_rank], 1 + number)
            elif what == "wait":
                block.wait(counted[rank])
            else:
                block.compute(1 + number)
            assert p.at == -1
        return [[(op, op.line) for op in block.operations] for block in p.blocks]

    fast, plain = write(as_objects=False), write(as_objects=True)
    assert fast == plain
