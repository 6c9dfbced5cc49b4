"""Double binary tree: the whole chunk goes up one of two trees and down again, not pipelined."""

from __future__ import annotations

from typing import Final

from astranb.core.jit import kernel

from ._appoint import appoint_apart
from ._bus import enter_bus
from ._exchange import post_receive_apart, post_send_apart
from ._steps import member_at
from ._tables import BUNDLE, BUNDLE_REDUCED, KIND_BITS, STREAM, Machine

__all__ = ["begin_tree", "load_tree", "pass_endpoint", "tree_bundle_passed", "tree_received"]

_LEAF: Final = 0
_INNER: Final = 1
_ROOT: Final = 2

# States, in the order in which a node passes them.
_BEGIN: Final = 0
_TWO_CHILDREN: Final = 1
_ONE_CHILD: Final = 2
_TO_PARENT: Final = 3
_FROM_PARENT: Final = 4
_TO_CHILDREN: Final = 5
_END: Final = 6


@kernel
def load_tree(m: Machine, stream: int, size: int, tree: int) -> None:
    """Find a node's place: nodes are numbered in order, the root is the last one or the first.

    Parameters
    ----------
    m : Machine
    stream : int
        Its phase has a power of two of nodes.
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
def _expect(m: Machine, stream: int, index: int) -> None:
    """Expect the chunk from another node."""
    s = m.streams[stream]
    handler = (stream << KIND_BITS) | STREAM
    post_receive_apart(m, member_at(m, stream, index), s.npu, s.tag, s.message_bytes, handler)


@kernel
def _pass_on(m: Machine, stream: int, index: int) -> None:
    """Send the chunk to another node."""
    s = m.streams[stream]
    post_send_apart(m, s.npu, member_at(m, stream, index), s.tag, s.message_bytes, 0)


@kernel(inline=False)
def pass_endpoint(m: Machine, stream: int, reduced: int, leaves: int, comes_back: int) -> None:
    """Bring the chunk through the endpoint's memory, over its bus where that is shared."""
    s = m.streams[stream]
    if m.config[0].bus == 1 and s.group < 0:
        enter_bus(m, s.npu, stream, s.message_bytes, reduced, leaves, comes_back)
        return
    kind = BUNDLE_REDUCED if reduced == 1 else BUNDLE
    appoint_apart(m, s.npu, s.delay_ns, kind, stream, s.message_bytes)


@kernel
def begin_tree(m: Machine, stream: int) -> None:
    """Begin: a leaf sends, others expect their children's chunks."""
    s = m.streams[stream]
    if s.node == _LEAF:
        s.state = _TO_PARENT
        pass_endpoint(m, stream, 0, 1, 0)
    elif s.node == _INNER:
        s.state = _TWO_CHILDREN
        _expect(m, stream, s.left)
        _expect(m, stream, s.right)
    else:
        s.state = _ONE_CHILD
        _expect(m, stream, s.left)


@kernel
def tree_received(m: Machine, stream: int) -> None:
    """A chunk has come."""
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
    pass_endpoint(m, stream, reduced, 0, comes_back)


@kernel
def tree_bundle_passed(m: Machine, stream: int) -> bool:
    """A chunk has passed the memory; returns whether the node's part is over."""
    s = m.streams[stream]
    if s.node == _LEAF:
        if s.state == _END:
            return True
        s.state = _FROM_PARENT
        _pass_on(m, stream, s.parent)
        _expect(m, stream, s.parent)
        return False
    if s.node == _INNER:
        if s.free < 1:
            s.free += 1
            return False
        if s.state == _TO_PARENT:
            s.state = _FROM_PARENT
            _pass_on(m, stream, s.parent)
            _expect(m, stream, s.parent)
            return False
        _pass_on(m, stream, s.left)
        _pass_on(m, stream, s.right)
        return True
    _pass_on(m, stream, s.left)
    return True
