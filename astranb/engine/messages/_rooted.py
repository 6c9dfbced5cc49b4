"""Collectives with a root: broadcast and scatter go out from it, reduce and gather come in to it.

A chunk goes out through the dimensions from the last to the first: in each, those NPUs have it
that are where the root is in this dimension and in all that are still to come, and those get it
that are so in the latter; for the others the phase is over at once. It comes in by the same way
backwards. Within a dimension of ``n`` the root is number 0, and below number ``r`` stand

* ring: ``r + 1``;
* direct: all others, below the root;
* halvingDoubling: ``r + 2^k`` for every ``2^k > r`` (a binomial tree);
* doubleBinaryTree: ``2 r + 1`` and ``2 r + 2``; every other chunk by the mirror image of this tree.

A broadcast and a reduce send the whole chunk over each edge, a scatter and a gather a share for
each NPU below it. Out, a number sends to all below it as soon as it has the chunk; in, it takes
from those below it one after the other, or, where they are all others, as they come.

What is sent or has come passes the endpoint's memory first, as all messages do. With ``e`` for
that and ``w`` for a message, without congestion the last NPU of a ring ends after ``e + (n - 1)(w + e)``.
"""

from __future__ import annotations

from astranb.core.jit import kernel

from ._appoint import appoint_apart
from ._exchange import post_receive_apart, post_send_apart
from ._schedule import outward
from ._steps import member_at
from ._tables import (
    BROADCAST,
    BUNDLE,
    DIRECT,
    HALVING,
    KIND_BITS,
    REDUCE,
    RING_STEPS,
    SCATTER,
    STREAM,
    TREE,
    Machine,
)
from ._tree import pass_endpoint

__all__ = ["begin_rooted", "load_rooted", "rooted_passed", "rooted_received"]


@kernel
def load_rooted(m: Machine, stream: int, size: int, shape: int) -> None:
    """Set a phase of so many bytes; the shape is that of the algorithm's name."""
    s = m.streams[stream]
    root = m.operations[s.operation].peer
    s.message_bytes = size
    s.packet_bytes = size // s.nodes if s.collective == SCATTER else size
    s.left = shape
    s.free = 0  # of those below it, which have been taken
    if s.direction != 0:
        # All NPUs have the same number of a chunk.
        s.direction = -1 if shape == TREE and s.tag % 2 == 1 else 1
    s.parent = 0
    if s.group >= 0:
        while member_at(m, stream, s.parent) != root:
            s.parent += 1
    else:
        s.parent = (root // s.stride) % s.nodes
    s.node = (s.direction * (s.index - s.parent)) % s.nodes


@kernel
def _above(number: int) -> int:
    """Give the least power of two above a number."""
    power = 1
    while power <= number:
        power *= 2
    return power


@kernel
def _before(m: Machine, stream: int) -> int:
    """Give the number above this one, which is not the root."""
    s = m.streams[stream]
    if s.left == RING_STEPS:
        return int(s.node - 1)
    if s.left == HALVING:
        return int(s.node - _above(s.node) // 2)
    if s.left == TREE:
        return int((s.node - 1) // 2)
    return 0


@kernel
def _below(m: Machine, stream: int, place: int) -> int:
    """Give the number that stands at a place below this one, -1 for none."""
    s = m.streams[stream]
    number = s.nodes
    if s.left == HALVING:
        number = s.node + (_above(s.node) << place)
    elif s.left == TREE and place < 2:
        number = 2 * s.node + 1 + place
    elif s.left == RING_STEPS and place == 0:
        number = s.node + 1
    elif s.left == DIRECT and s.node == 0:
        number = 1 + place
    return int(number) if number < s.nodes else -1


@kernel
def _carried(m: Machine, stream: int, number: int) -> int:
    """Give the bytes of the message between a number and the one above it; of the root, of all."""
    s = m.streams[stream]
    if s.collective in (BROADCAST, REDUCE):
        return int(s.packet_bytes)
    count = 1
    if number == 0:
        count = s.nodes
    elif s.left == RING_STEPS:
        count = s.nodes - number
    elif s.left == HALVING:
        count = (s.nodes - 1 - number) // _above(number) + 1
    elif s.left == TREE:
        count = 0
        first = number
        last = number
        while first < s.nodes:
            count += min(last, s.nodes - 1) - first + 1
            first = 2 * first + 1
            last = 2 * last + 2
    return int(s.packet_bytes * count)


@kernel
def _member(m: Machine, stream: int, number: int) -> int:
    """Give the rank of a number, counted from the root."""
    s = m.streams[stream]
    return int(member_at(m, stream, (s.parent + s.direction * number) % s.nodes))


@kernel(inline=False)
def _expect(m: Machine, stream: int, number: int, size: int) -> None:
    """Expect a message from the NPU of a number."""
    s = m.streams[stream]
    handler = (stream << KIND_BITS) | STREAM
    post_receive_apart(m, _member(m, stream, number), s.npu, s.tag, size, handler)


@kernel(inline=False)
def _send(m: Machine, stream: int, number: int, size: int) -> None:
    """Send a message to the NPU of a number."""
    s = m.streams[stream]
    post_send_apart(m, s.npu, _member(m, stream, number), s.tag, size, 0)


@kernel(inline=False)
def begin_rooted(m: Machine, stream: int) -> None:
    """Begin: who has the chunk brings it through the memory, others expect it; or the phase is over."""
    s = m.streams[stream]
    if s.direction == 0:
        appoint_apart(m, s.npu, 0, BUNDLE, stream, 0)
        return
    out = outward(s.collective)
    first = _below(m, stream, 0)
    if (out and s.node == 0) or (not out and first < 0):
        s.message_bytes = _carried(m, stream, s.node)
        pass_endpoint(m, stream, 0, 1, 0)
    elif out:
        _expect(m, stream, _before(m, stream), _carried(m, stream, s.node))
    elif s.left == DIRECT:
        for number in range(1, s.nodes):
            _expect(m, stream, number, _carried(m, stream, number))
    else:
        _expect(m, stream, first, _carried(m, stream, first))


@kernel
def rooted_received(m: Machine, stream: int) -> None:
    """A message has come."""
    s = m.streams[stream]
    if outward(s.collective):
        s.message_bytes = _carried(m, stream, s.node)
        pass_endpoint(m, stream, 0, 0, 1)
        return
    # Those below the root of a direct collective bring the same, whoever it was.
    s.message_bytes = _carried(m, stream, _below(m, stream, s.free))
    reduced = 1 if s.collective == REDUCE else 0
    goes_on = 1 if s.node != 0 and _below(m, stream, s.free + 1) < 0 else 0
    pass_endpoint(m, stream, reduced, 0, goes_on)


@kernel(inline=False)
def rooted_passed(m: Machine, stream: int) -> bool:
    """A chunk has passed the memory; returns whether the NPU's part is over."""
    s = m.streams[stream]
    if s.direction == 0:
        return True
    if outward(s.collective):
        place = 0
        number = _below(m, stream, 0)
        while number >= 0:
            _send(m, stream, number, _carried(m, stream, number))
            place += 1
            number = _below(m, stream, place)
        return True
    if _below(m, stream, 0) >= 0:
        s.free += 1
        number = _below(m, stream, s.free)
        if number >= 0:
            if s.left != DIRECT:
                _expect(m, stream, number, _carried(m, stream, number))
            return False
    if s.node != 0:
        _send(m, stream, _before(m, stream), _carried(m, stream, s.node))
    return True
