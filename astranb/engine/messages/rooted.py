"""Algorithms with a root, a chunk's phase along a tree; and NCCL's trees, up to their root and down again.

With a root: broadcast and scatter go out from it, reduce and gather come in to it.
A chunk goes out through the dimensions from the last to the first. In each, an NPU has the chunk if
its coordinates in this and all following dimensions are the root's, and gets it if those in the
following ones are; for the others the phase ends at once. It comes in along the same path reversed.
Within a dimension of ``n`` the root is number 0, and the children of number ``r`` are

* ring: ``r + 1``;
* direct: all others, for the root;
* halvingDoubling: ``r + 2^k`` for every ``2^k > r`` (a binomial tree);
* doubleBinaryTree: ``2 r + 1`` and ``2 r + 2``; every other chunk uses the mirror image of this tree.

A broadcast and a reduce send the whole chunk over each edge, a scatter and a gather a share for
each NPU below it. Out, a number sends to all its children as soon as it has the chunk; in, it
receives from its children one after the other, or, for direct, in any order.

* chained (NCCL's trees, ``src/graph/trees.cc``): in the order of a channel (:mod:`.channels`) the ranks of
  each node form a chain, and the first ones of these a binary tree whose heights are the lowest set bits of
  their numbers.
"""

from __future__ import annotations

from astranb.core.jit import kernel

from .moves import expect, hop_ns, member, pass_memory
from .recording import record_stream
from .tables import (
    BROADCAST,
    BUNDLE,
    CHAINED,
    DIRECT,
    HALVING,
    REDUCE,
    RING_STEPS,
    SCATTER,
    TREE,
    MessageMachine,
)
from .timers import set_timer
from .transport import post_send

__all__ = ["begin_rooted", "binary_parent", "is_outward", "load_rooted", "rooted_passed", "rooted_received"]


@kernel
def is_outward(collective: int) -> bool:
    """Return whether a collective has a root from which it goes out."""
    return collective in (BROADCAST, SCATTER)


@kernel
def load_rooted(m: MessageMachine, stream: int, size: int, shape: int) -> None:
    """Set a phase with this number of bytes; the shape is that of the algorithm's name."""
    s = m.streams[stream]
    root = m.operations[s.operation].peer
    s.message_bytes = size
    s.packet_bytes = size // s.nodes if s.collective == SCATTER else size
    s.left = shape
    s.free = 0  # children received so far
    if shape == CHAINED:
        s.parent = 0
        s.node = s.index
        return
    if s.direction != 0:
        # All NPUs number the chunks alike.
        s.direction = -1 if shape == TREE and s.tag % 2 == 1 else 1
    s.parent = 0
    if s.group >= 0:
        while member(m, stream, s.parent) != root:
            s.parent += 1
    else:
        s.parent = (root // s.stride) % s.nodes
    s.node = (s.direction * (s.index - s.parent)) % s.nodes


@kernel
def binary_parent(number: int, count: int) -> int:
    """Return the parent in a binary tree whose root is 0 and whose heights are the lowest set bits."""
    bit = number & -number
    parent = (number ^ bit) | (bit << 1)
    return parent if parent < count else number ^ bit


@kernel
def _binary_child(number: int, count: int, place: int) -> int:
    """Return a child in this tree by its position among the children, -1 for none."""
    if number == 0:
        top = 1
        while 2 * top < count:
            top *= 2
        return top if place == 0 and count > 1 else -1
    low = (number & -number) >> 1
    if low > 0 and place == 0:
        return number - low
    while low > 0 and number + low >= count:
        low >>= 1
    return number + low if low > 0 and place == 1 else -1


@kernel
def _chained_child(m: MessageMachine, stream: int, place: int) -> int:
    """Return a child of this number where chains hang below a binary tree of their heads, -1 for none."""
    s = m.streams[stream]
    chain = m.groups[s.group].chain
    on_chain = s.node % chain
    if on_chain + 1 < chain:
        if place == 0:
            return int(s.node + 1)
        place -= 1
    if on_chain > 0:
        return -1
    child = _binary_child(s.node // chain, s.nodes // chain, place)
    return int(child * chain) if child >= 0 else -1


@kernel
def _above(number: int) -> int:
    """Return the least power of two above a number."""
    power = 1
    while power <= number:
        power *= 2
    return power


@kernel
def _parent(m: MessageMachine, stream: int) -> int:
    """Return the parent of this number, which is not the root."""
    s = m.streams[stream]
    if s.left == CHAINED:
        chain = m.groups[s.group].chain
        if s.node % chain > 0:
            return int(s.node - 1)
        return int(binary_parent(s.node // chain, s.nodes // chain) * chain)
    if s.left == RING_STEPS:
        return int(s.node - 1)
    if s.left == HALVING:
        return int(s.node - _above(s.node) // 2)
    if s.left == TREE:
        return int((s.node - 1) // 2)
    return 0


@kernel
def _child(m: MessageMachine, stream: int, place: int) -> int:
    """Return a child of this number by its position among the children, -1 for none."""
    s = m.streams[stream]
    if s.left == CHAINED:
        return _chained_child(m, stream, place)
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
def _carried(m: MessageMachine, stream: int, number: int) -> int:
    """Return the bytes of the message between a number and its parent; for the root, all bytes."""
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
def _member_from_root(m: MessageMachine, stream: int, number: int) -> int:
    """Return the rank of a number, counted from the root."""
    s = m.streams[stream]
    return int(member(m, stream, (s.parent + s.direction * number) % s.nodes))


@kernel(inline=False)
def _rooted_expect(m: MessageMachine, stream: int, number: int, size: int) -> None:
    """Expect a message from the NPU with a number."""
    expect(m, stream, _member_from_root(m, stream, number), size)


@kernel(inline=False)
def _rooted_send(m: MessageMachine, stream: int, number: int, size: int) -> None:
    """Send a message to the NPU with a number."""
    s = m.streams[stream]
    if m.watch[0].noting == 1:
        record_stream(m, stream, 0)
    target = _member_from_root(m, stream, number)
    post_send(m, s.npu, target, s.tag, size, 0, hop_ns(m, stream, target))


@kernel(inline=False)
def begin_rooted(m: MessageMachine, stream: int) -> None:
    """Begin: an NPU with the chunk passes it through the memory, the others expect it; or the phase ends."""
    s = m.streams[stream]
    if s.direction == 0:
        set_timer(m, s.npu, 0, BUNDLE, stream, 0)
        return
    out = is_outward(s.collective)
    first = _child(m, stream, 0)
    if (out and s.node == 0) or (not out and first < 0):
        s.message_bytes = _carried(m, stream, s.node)
        pass_memory(m, stream, 0, 1, 0)
    elif out:
        _rooted_expect(m, stream, _parent(m, stream), _carried(m, stream, s.node))
    elif s.left == DIRECT:
        for number in range(1, s.nodes):
            _rooted_expect(m, stream, number, _carried(m, stream, number))
    else:
        _rooted_expect(m, stream, first, _carried(m, stream, first))


@kernel
def rooted_received(m: MessageMachine, stream: int) -> None:
    """A message has arrived."""
    s = m.streams[stream]
    if is_outward(s.collective):
        s.message_bytes = _carried(m, stream, s.node)
        pass_memory(m, stream, 0, 0, 1)
        return
    # All children of the root of a direct collective send the same number of bytes.
    s.message_bytes = _carried(m, stream, _child(m, stream, s.free))
    reduced = 1 if s.collective == REDUCE else 0
    goes_on = 1 if s.node != 0 and _child(m, stream, s.free + 1) < 0 else 0
    pass_memory(m, stream, reduced, 0, goes_on)


@kernel(inline=False)
def rooted_passed(m: MessageMachine, stream: int) -> bool:
    """A chunk has passed the memory; returns whether the NPU's part ends."""
    s = m.streams[stream]
    if s.direction == 0:
        return True
    if is_outward(s.collective):
        place = 0
        number = _child(m, stream, 0)
        while number >= 0:
            _rooted_send(m, stream, number, _carried(m, stream, number))
            place += 1
            number = _child(m, stream, place)
        return True
    if _child(m, stream, 0) >= 0:
        s.free += 1
        number = _child(m, stream, s.free)
        if number >= 0:
            if s.left != DIRECT:
                _rooted_expect(m, stream, number, _carried(m, stream, number))
            return False
    if s.node != 0:
        _rooted_send(m, stream, _parent(m, stream), _carried(m, stream, s.node))
    return True
