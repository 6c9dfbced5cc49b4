"""A broadcast from its root: along a ring, to all at once, or down a tree of NPUs.

A chunk goes through the dimensions from the last to the first: in each, those NPUs have it that
are where the root is in this dimension and in all that are still to come, and those get it that
are so in the latter; for the others the phase is over at once. Within a dimension of ``n`` the
root is number 0, and number ``r`` passes the whole chunk on to

* ring: ``r + 1``;
* direct: all others, from the root;
* halvingDoubling: ``r + 2^k`` for every ``2^k > r`` (a binomial tree);
* doubleBinaryTree: ``2 r + 1`` and ``2 r + 2``; every other chunk by the mirror image of this tree.

What is sent or has come passes the endpoint's memory first, as all messages do. With ``e`` for
that and ``w`` for a message, without congestion the last NPU of a ring ends after ``e + (n - 1)(w + e)``.
"""

from __future__ import annotations

from astranb.core.jit import kernel, kernel_apart

from ._appoint import appoint_apart
from ._exchange import post_receive_apart, post_send_apart
from ._steps import member_at
from ._tables import BUNDLE, DIRECT, HALVING, KIND_BITS, RING_STEPS, STREAM, TREE, Machine
from ._tree import pass_endpoint

__all__ = ["begin_broadcast", "broadcast_passed", "broadcast_received", "load_broadcast"]


@kernel
def load_broadcast(m: Machine, stream: int, size: int, shape: int) -> None:
    """Set a phase of so many bytes; the shape is that of the algorithm's name."""
    s = m.streams[stream]
    root = m.operations[s.operation].peer
    s.message_bytes = size
    s.left = shape
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
def _member(m: Machine, stream: int, number: int) -> int:
    """Give the rank of a number, counted from the root."""
    s = m.streams[stream]
    return int(member_at(m, stream, (s.parent + s.direction * number) % s.nodes))


@kernel_apart
def begin_broadcast(m: Machine, stream: int) -> None:
    """Begin: the root's chunk passes the memory, others expect it; who has no part goes on."""
    s = m.streams[stream]
    if s.direction == 0:
        appoint_apart(m, s.npu, 0, BUNDLE, stream, 0)
        return
    if s.node == 0:
        pass_endpoint(m, stream, 0, 1, 0)
        return
    before = 0
    if s.left == RING_STEPS:
        before = s.node - 1
    elif s.left == HALVING:
        power = 1
        while 2 * power <= s.node:
            power *= 2
        before = s.node - power
    elif s.left == TREE:
        before = (s.node - 1) // 2
    handler = (stream << KIND_BITS) | STREAM
    post_receive_apart(m, _member(m, stream, before), s.npu, s.tag, s.message_bytes, handler)


@kernel
def broadcast_received(m: Machine, stream: int) -> None:
    """The chunk has come."""
    pass_endpoint(m, stream, 0, 0, 1)


@kernel_apart
def _pass_on(m: Machine, stream: int, number: int) -> None:
    """Send the chunk to the NPU of a number."""
    s = m.streams[stream]
    post_send_apart(m, s.npu, _member(m, stream, number), s.tag, s.message_bytes, 0)


@kernel_apart
def broadcast_passed(m: Machine, stream: int) -> bool:
    """The chunk has passed the memory: pass it on; the NPU's part is over then."""
    s = m.streams[stream]
    if s.direction == 0:
        return True
    first = s.node + 1
    last = s.node + 1
    if s.left == DIRECT:
        last = s.nodes - 1 if s.node == 0 else 0
    elif s.left == TREE:
        first = 2 * s.node + 1
        last = first + 1
    elif s.left == HALVING:
        power = 1
        while power <= s.node:
            power *= 2
        while s.node + power < s.nodes:
            _pass_on(m, stream, s.node + power)
            power *= 2
        return True
    number = first
    while number <= last and number < s.nodes:
        _pass_on(m, stream, number)
        number += 1
    return True
