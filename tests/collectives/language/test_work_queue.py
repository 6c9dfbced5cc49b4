"""What thread blocks let their NIC do: send buffers, doorbells, work requests."""

from __future__ import annotations

import pytest

from astranb.collectives import Collective, algorithms, verify
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
