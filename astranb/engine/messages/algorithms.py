"""The algorithms of a chunk's phase: how its messages go between the NPUs of one dimension.

Each message first passes the endpoint's memory (the bundle), reduced where it has to be; then the
next one is sent and its counterpart expected. The order is ASTRA-sim 2.0's to the event.

Ring, direct, halving-doubling: one message after another, or a window of them.

Double binary tree: the whole chunk goes up one of two trees and down again, not pipelined.

In a switch: all send up once, the switch reduces or joins, and all get the result once.
A chunk of ``D`` bytes on ``n`` NPUs: an all-reduce goes up and down whole; a reduce-scatter comes
down as ``D / n``; an all-gather, of which each NPU has ``D``, comes down as ``(n - 1) D``; a
broadcast goes up from its root alone, and down to the others when all of them have begun. It takes

    e + up + reduce + down + e

where ``e`` is the endpoint's delay, up and down are one link each, and the switch begins to
reduce when the last of its NPUs' messages has arrived (it holds whole messages, as all of
ASTRA-sim 2.0's links do). This is the in-switch collective of ASTRA-sim 2.0's paper (Won et al.,
ISPASS 2023), which its program does not have.

With a root, and NCCL's trees: :mod:`.rooted`.

With ``e`` for the endpoint's memory and ``w`` for a message, without congestion the last NPU of a ring
ends after ``e + (n - 1)(w + e)``.
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import kernel

from .bus import enter_bus
from .moves import expect, hop_ns, member, pass_memory
from .ports import shared_by
from .recording import record_stream
from .rooted import begin_rooted, load_rooted, rooted_passed, rooted_received
from .tables import (
    ALL_GATHER,
    ALL_REDUCE,
    ALL_TO_ALL,
    AWAY_BITS,
    BROADCAST,
    BUNDLE,
    BUNDLE_REDUCED,
    CUSTOM,
    DIRECT,
    HALVING,
    IN_NETWORK,
    KIND_BITS,
    REDUCE,
    REDUCE_SCATTER,
    REDUCING,
    ROOTED,
    STREAM,
    SWITCH_DONE,
    TREE,
    MessageMachine,
)
from .ties import enters, uses_stream
from .timers import set_timer, set_timer_inline
from .transport import (
    cross_link,
    meet_at_switch,
    post_receive_inline,
    post_send,
    post_send_inline,
)

__all__ = [
    "at_switch",
    "begin_phase",
    "bundle_passed",
    "load_phase",
    "message_received",
    "switch_done",
]

# Nodes of a tree.
_LEAF: Final = 0
_INNER: Final = 1
_ROOT: Final = 2

# States, in the order in which a node goes through them.
_BEGIN: Final = 0
_TWO_CHILDREN: Final = 1
_ONE_CHILD: Final = 2
_TO_PARENT: Final = 3
_FROM_PARENT: Final = 4
_TO_CHILDREN: Final = 5
_END: Final = 6

# States of a chunk that is reduced in a switch.
_UP: Final = 0
_AT_SWITCH: Final = 1
_DOWN: Final = 2


# Ring, direct, halving-doubling.


@kernel
def _log2(size: int) -> int:
    """Return the whole part of the logarithm."""
    power = 0
    while size > 1:
        size >>= 1
        power += 1
    return power


@kernel
def _aim(m: MessageMachine, stream: int) -> None:
    """Find the peer of the next message of halving and doubling: at the distance, alternately up and down."""
    s = m.streams[stream]
    index = s.index
    if s.distance > 0:
        if (s.index // s.distance) % 2 == 0:
            index = (s.index + s.distance) % s.nodes
        else:
            index = (s.index - s.distance) % s.nodes
    s.packet_peer = member(m, stream, index)
    if m.config[0].folded == 1:
        s.left = s.distance


@kernel
def _load_steps(m: MessageMachine, stream: int, size: int, window: int) -> None:
    """Set the counters of a phase with this number of bytes."""
    s = m.streams[stream]
    n = s.nodes
    s.window = 1
    if s.algorithm == HALVING:
        s.to_send = _log2(n)
        s.message_bytes = size // 2
        s.distance = 1
        s.doubling = 1
        if s.collective == ALL_REDUCE:
            # Not twice the logarithm rounded down, where the size is not a power of two.
            s.to_send = _log2(n * n)
        elif s.collective == ALL_GATHER:
            s.message_bytes = size
            s.distance = n // 2
            s.doubling = 0
    else:
        s.message_bytes = size if s.collective == ALL_GATHER else size // n
        s.to_send = n - 1
        if s.collective == ALL_REDUCE:
            s.to_send = 2 * (n - 1)
        elif s.collective == ALL_TO_ALL and s.algorithm != DIRECT:
            s.to_send = n * (n - 1) // 2
        if s.algorithm == DIRECT:
            s.window = n - 1 if window < 0 else min(window, n - 1)
    s.inserted = 0
    s.sent = 0
    s.free = 0
    s.received = 0
    s.plain = 0
    s.reduced = 0
    s.toggle = 0


@kernel
def _insert_inline(m: MessageMachine, stream: int) -> None:
    """Prepare the next message: it passes the endpoint's memory first."""
    s = m.streams[stream]
    if s.plain == 0 and s.reduced == 0:
        s.plain = s.window
        if s.algorithm == HALVING:
            s.reduced = _log2(s.nodes) - 1
        elif s.algorithm == DIRECT and s.group < 0:
            s.reduced = s.window
        else:
            s.reduced = (s.nodes - 1) * s.window
        s.toggle = 1 - s.toggle
    kind = BUNDLE
    leaves = 1
    comes_back = 0
    if s.plain > 0:
        s.plain -= 1
    else:
        leaves = 0
        if s.reduced > s.window:
            comes_back = 1
        if s.collective == REDUCE_SCATTER or (s.collective == ALL_REDUCE and s.toggle == 1):
            kind = BUNDLE_REDUCED
        s.reduced -= 1
    s.inserted += 1
    size = s.message_bytes
    if s.algorithm == HALVING:
        _aim(m, stream)
        s.packet_bytes = size
        if s.doubling == 1:
            s.distance *= 2
            s.message_bytes //= 2
        else:
            s.distance //= 2
            s.message_bytes *= 2
        if s.distance == s.nodes and s.collective == ALL_REDUCE:
            s.doubling = 0
            s.distance //= 2
            s.message_bytes *= 2
    if m.config[0].bus == 1 and s.group < 0:
        reduced = 1 if kind == BUNDLE_REDUCED else 0
        enter_bus(m, s.npu, stream, size, reduced, leaves, comes_back)
        return
    set_timer_inline(m, s.npu, s.delay_ns, kind, stream, size)


@kernel(inline=False)
def _insert(m: MessageMachine, stream: int) -> None:
    """As :func:`_insert_inline`, not inlined: the start of a phase need not be as fast as the rest."""
    _insert_inline(m, stream)


@kernel
def _width(m: MessageMachine, stream: int) -> int:
    """Return how many NPUs of a phase in a row share a node, if it is the same number in all of its nodes."""
    s = m.streams[stream]
    width = 1
    if s.group >= 0:
        width = m.groups[s.group].width
    elif s.stride == 1:
        width = m.config[0].width
    return int(width) if width < s.nodes and s.nodes % width == 0 else 1


@kernel(inline=False)
def _peer(m: MessageMachine, stream: int, distance: int) -> int:
    """Return the NPU at a distance, in nodes and for the rest in places of a node: all sends differ."""
    s = m.streams[stream]
    width = _width(m, stream)
    nodes, places = abs(distance) // width, abs(distance) % width
    sign = 1 if distance > 0 else -1
    far = (s.index // width + sign * nodes) % (s.nodes // width)
    return int(far * width + (s.index % width + sign * places) % width)


@kernel
def _send_next(m: MessageMachine, stream: int) -> None:
    """Send the next message that has passed the memory, and expect its counterpart."""
    s = m.streams[stream]
    if s.inserted == s.sent or s.to_send == 0 or s.free == 0:
        return
    size = s.message_bytes
    away = 0
    if s.algorithm == HALVING:
        dst = s.packet_peer
        src = dst
        size = s.packet_bytes
        away = s.left
    else:
        ahead = 1
        if s.algorithm == DIRECT:
            ahead = 1 + s.sent % (s.nodes - 1)
        ahead *= s.direction
        if m.config[0].routed == 1 and s.algorithm == DIRECT:
            up = _peer(m, stream, ahead)
            down = _peer(m, stream, -ahead)
        else:
            up = s.index + ahead
            down = s.index - ahead
            if up < 0:
                up += s.nodes
            elif up >= s.nodes:
                up -= s.nodes
            if down < 0:
                down += s.nodes
            elif down >= s.nodes:
                down -= s.nodes
        dst = member(m, stream, up)
        src = member(m, stream, down)
        away = up - s.index
    here = s.npu
    tag = s.tag
    if m.watch[0].noting == 1:
        record_stream(m, stream, s.sent + 1)
    if m.config[0].folded == 1:
        # An NPU that represents others sends as far as those that it represents receive from.
        tag += (away % s.nodes) << AWAY_BITS
    post_send_inline(m, here, dst, tag, size, shared_by(m, stream), hop_ns(m, stream, dst))
    if m.config[0].folded == 1 and m.config[0].congestion == 1:
        # The NPU that sends to this one does the same as this one to the next.
        src = here
        here = dst
    post_receive_inline(m, src, here, tag, size, (stream << KIND_BITS) | STREAM)
    s.to_send -= 1
    s.sent += 1
    s.free -= 1


@kernel
def _steps_passed(m: MessageMachine, stream: int) -> bool:
    """A message has passed the memory: send the next ones; returns whether the phase ends."""
    s = m.streams[stream]
    s.free += 1
    count = 1
    if s.algorithm == DIRECT and s.collective == ALL_REDUCE and s.to_send <= s.nodes - 1:
        if s.received < s.nodes - 1:
            return False
        count = s.window
    for _ in range(count):
        _send_next(m, stream)
    return bool(s.to_send == 0 and s.free == s.window)


# Double binary tree.


@kernel
def _load_tree(m: MessageMachine, stream: int, size: int, tree: int) -> None:
    """Find a node's position in the tree: nodes are numbered in order, the root is the last or the first.

    Parameters
    ----------
    m : MessageMachine
    stream : int
        Its phase has a number of nodes that is a power of two.
    size : int
        Bytes.
    tree : int
        0: the root is the last node, 1: the first.
    """
    s = m.streams[stream]
    s.message_bytes = size
    s.state = _BEGIN
    s.free = 0  # bundles that have been reduced
    root = s.nodes - 1 if tree == 0 else 0
    shift = 1 if tree == 0 else 0  # the other nodes are 1 .. n - 1 of a full tree
    s.parent = -1
    s.left = -1
    s.right = -1
    if s.index == root:
        s.node = _ROOT
        s.left = s.nodes // 2 - shift
    else:
        number = s.index + shift
        height = number & -number
        s.node = _INNER if height > 1 else _LEAF
        if height > 1:
            s.left = number - height // 2 - shift
            s.right = number + height // 2 - shift
        if number == s.nodes // 2:
            s.parent = root
        elif number & (2 * height) == 0:
            s.parent = number + height - shift
        else:
            s.parent = number - height - shift


@kernel
def _tree_expect(m: MessageMachine, stream: int, index: int) -> None:
    """Expect the chunk from another node."""
    expect(m, stream, member(m, stream, index), m.streams[stream].message_bytes)


@kernel
def _tree_send(m: MessageMachine, stream: int, index: int) -> None:
    """Send the chunk to another node."""
    s = m.streams[stream]
    if m.watch[0].noting == 1:
        record_stream(m, stream, 0)
    post_send(m, s.npu, member(m, stream, index), s.tag, s.message_bytes, 0, 0)


@kernel
def _begin_tree(m: MessageMachine, stream: int) -> None:
    """Begin: a leaf sends, the others expect their children's chunks."""
    s = m.streams[stream]
    if s.node == _LEAF:
        s.state = _TO_PARENT
        pass_memory(m, stream, 0, 1, 0)
    elif s.node == _INNER:
        s.state = _TWO_CHILDREN
        _tree_expect(m, stream, s.left)
        _tree_expect(m, stream, s.right)
    else:
        s.state = _ONE_CHILD
        _tree_expect(m, stream, s.left)


@kernel
def _tree_received(m: MessageMachine, stream: int) -> None:
    """A chunk has arrived."""
    s = m.streams[stream]
    reduced = 1
    comes_back = 1
    if s.node == _LEAF:
        reduced = comes_back = 0
        s.state = _END
    elif s.state == _TWO_CHILDREN:
        comes_back = 0
        s.state = _ONE_CHILD
    elif s.state == _ONE_CHILD and s.node == _INNER:
        s.state = _TO_PARENT
    else:
        s.state = _TO_CHILDREN
    pass_memory(m, stream, reduced, 0, comes_back)


@kernel
def _tree_passed(m: MessageMachine, stream: int) -> bool:
    """A chunk has passed the memory; returns whether the node's part ends."""
    s = m.streams[stream]
    if s.node == _LEAF:
        if s.state == _END:
            return True
        s.state = _FROM_PARENT
        _tree_send(m, stream, s.parent)
        _tree_expect(m, stream, s.parent)
        return False
    if s.node == _INNER:
        if s.free < 1:
            s.free += 1
            return False
        if s.state == _TO_PARENT:
            s.state = _FROM_PARENT
            _tree_send(m, stream, s.parent)
            _tree_expect(m, stream, s.parent)
            return False
        _tree_send(m, stream, s.left)
        _tree_send(m, stream, s.right)
        return True
    _tree_send(m, stream, s.left)
    return True


# In a switch.


@kernel
def _begin_switch(m: MessageMachine, stream: int) -> None:
    """Begin: the chunk passes the endpoint's memory; receivers of a broadcast wait at the switch at once."""
    s = m.streams[stream]
    if s.collective == BROADCAST and s.node != 0:
        at_switch(m, stream)
        return
    pass_memory(m, stream, 0, 1, 0)


@kernel
def _dimension(m: MessageMachine, stream: int) -> int:
    """Return the dimension of the network in which the switch is."""
    s = m.streams[stream]
    dim = s.queue // m.config[0].queues % m.config[0].dims
    return int(m.schedule[dim].links)


@kernel(inline=False)
def _switch_passed(m: MessageMachine, stream: int) -> bool:
    """A chunk has passed the memory; returns whether the phase ends."""
    s = m.streams[stream]
    if s.state == _DOWN:
        return True
    s.state = _AT_SWITCH
    handler = (stream << KIND_BITS) | REDUCING
    if m.watch[0].noting == 1:
        record_stream(m, stream, 1)
    cross_link(m, s.npu, 2 * _dimension(m, stream), s.message_bytes, handler, 0)
    return False


@kernel(inline=False)
def at_switch(m: MessageMachine, stream: int) -> None:
    """A chunk is at the switch; when all are, the switch reduces them."""
    s = m.streams[stream]
    key = m.config[0].npus + _dimension(m, stream)
    row = meet_at_switch(m, stream, member(m, stream, 0), key, s.tag, s.nodes)
    delay_ns = m.config[0].switch_ns
    while row >= 0:
        following = m.streams[row].left
        if delay_ns > 0:
            set_timer(m, m.streams[row].npu, delay_ns, SWITCH_DONE, row, 0)
        else:
            switch_done(m, row)
        row = following


@kernel(inline=False)
def switch_done(m: MessageMachine, stream: int) -> None:
    """The switch sends a stream its result."""
    s = m.streams[stream]
    if (s.collective == BROADCAST and s.node == 0) or (s.collective == REDUCE and s.node != 0):
        s.state = _DOWN
        set_timer(m, s.npu, 0, BUNDLE, stream, 0)
        return
    size = s.message_bytes
    if s.collective == REDUCE_SCATTER:
        size //= s.nodes
    elif s.collective == ALL_GATHER:
        size *= s.nodes - 1
    if m.watch[0].noting == 1:
        record_stream(m, stream, 2)
    cross_link(m, s.npu, 2 * _dimension(m, stream) + 1, size, 0, (stream << KIND_BITS) | STREAM)


# Any algorithm.


@kernel
def load_phase(m: MessageMachine, stream: int, phase: int) -> None:
    """Set a stream to a phase, a row of the table of phases."""
    p = m.phases[phase]
    if p.collective >= BROADCAST:
        load_rooted(m, stream, p.bytes, p.window)
    if p.algorithm == TREE:
        _load_tree(m, stream, p.bytes, p.tree)
    elif p.algorithm == IN_NETWORK:
        m.streams[stream].message_bytes = p.bytes
        m.streams[stream].state = _UP
    elif p.algorithm != CUSTOM and p.algorithm != ROOTED:
        _load_steps(m, stream, p.bytes, p.window)


@kernel
def begin_phase(m: MessageMachine, stream: int) -> None:
    """Begin a stream's phase, which is not one of a custom collective."""
    algorithm = m.streams[stream].algorithm
    if algorithm == TREE:
        _begin_tree(m, stream)
    elif algorithm == IN_NETWORK:
        _begin_switch(m, stream)
    elif algorithm == ROOTED:
        begin_rooted(m, stream)
    else:
        if m.config[0].folded == 1 and m.config[0].ports == 0:
            s = m.streams[stream]
            enters(m, s.npu, stream, 0)
        for _ in range(m.streams[stream].window):
            _insert(m, stream)


@kernel
def message_received(m: MessageMachine, stream: int) -> None:
    """A message of a stream has arrived."""
    uses_stream(m, stream, 1)
    m.streams[stream].received += 1
    if m.streams[stream].cost >= 0:
        m.streams[stream].delay_ns = 0
    algorithm = m.streams[stream].algorithm
    if algorithm == TREE:
        _tree_received(m, stream)
    elif algorithm == IN_NETWORK:
        m.streams[stream].state = _DOWN
        pass_memory(m, stream, 0, 0, 0)
    elif algorithm == ROOTED:
        rooted_received(m, stream)
    else:
        _insert_inline(m, stream)


@kernel
def bundle_passed(m: MessageMachine, stream: int) -> bool:
    """A message of a stream has passed the endpoint's memory; returns whether the phase ends."""
    uses_stream(m, stream, 0)
    algorithm = m.streams[stream].algorithm
    if algorithm == TREE:
        return _tree_passed(m, stream)
    if algorithm == IN_NETWORK:
        return _switch_passed(m, stream)
    if algorithm == ROOTED:
        return rooted_passed(m, stream)
    return _steps_passed(m, stream)
