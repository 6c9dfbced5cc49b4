"""DeepEP's normal kernels: many tokens, each over the network once to a node, then over NVLink.

Source: DeepEP V1 @dd758ca, csrc/kernels/legacy/intranode.cu and internode.cu, with the chunks of
deep_ep/buffers/legacy.py. A channel is two SMs. Its warps are thread blocks here: those that serve
one peer wait and signal by themselves. Receive buffers have room for all tokens, so that no sender
waits for credits.

Before each goes a small kernel in which ranks meet, set the positions in their buffers to zero, and meet
again (``cached_notify_dispatch``, ``cached_notify_combine``): as with a handle, by which DeepEP's tests
measure. Without one it also brings the counts of tokens to the host, which then launches the kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from astranb.collectives.language import Block, Buffer, Program, Semaphore

from .tokens import Tokens

__all__ = ["combine_normal", "dispatch_normal"]

# Lines of 128 B that warps keep under way: by several loads of 16 B a thread, or a part of a token by TMA.
_SEND: Final = 3 * 20  # UNROLLED_WARP_COPY(5, ...) of three warps
_SEND_BACK: Final = 3 * 16  # UNROLLED_WARP_COPY(4, ...)
_RECEIVE: Final = 3 * 28  # half a token by TMA, of three warps
_ADD: Final = 23 * 4  # one load of each source, of all warps but one
_TO_NODES: Final = 7 * 20
_FORWARD: Final = 58  # a token of 7,168 elements in FP8 by TMA, of one warp
_FORWARD_BACK: Final = 112  # in BF16
_ADD_IN_NODE: Final = 24 * 8  # two stages of 512 B, of all forwarders together
_ADD_NODES: Final = 16 * 4

_CHUNKS: Final = {2: (24, 10), 4: (6, 9), 8: (6, 4)}
"""Tokens behind one signal over NVLink, of a dispatch and a combine, by ranks of a node."""
_NODE_CHUNKS: Final = {16: ((36, 20), (4, 12)), 24: ((32, 8), (1, 8)), 64: ((32, 8), (1, 8))}
"""Over NVLink and over the network, of a dispatch and a combine, by ranks at most."""
_GROUP: Final = 23  # tokens that the warps of a receiver add at a time


class _Scratch:
    """Numbers of chunks of scratch, for each rank from 0."""

    def __init__(self, ranks: int) -> None:
        self._next = [0] * ranks

    def take(self, rank: int, count: int) -> range:
        """Return numbers that nobody else has."""
        first = self._next[rank]
        self._next[rank] = first + count
        return range(first, first + count)


def _batches(tokens: Sequence[int], each: int) -> Iterator[Sequence[int]]:
    """Cut tokens into batches."""
    for first in range(0, len(tokens), each):
        yield tokens[first : first + each]


class _NotifiedKernels:
    """The two kernels of an exchange: the first one only notifies, the second one moves tokens.

    Parameters
    ----------
    p : Program
    x : Tokens
    """

    def __init__(self, p: Program, x: Tokens) -> None:
        self._program = p
        p.kernels[:] = ["notify"]
        p.phase_number("notify")
        blocks = [p.block(r) for r in range(p.ranks)]
        # A rank meets those of its place in other nodes (nvshmem_sync_with_same_gpu_idx), then its node.
        rails = [blocks[place :: x.per_node] for place in range(x.per_node)]
        boxes = [blocks[first : first + x.per_node] for first in range(0, p.ranks, x.per_node)]
        for _ in range(2):
            for met in (*rails, *boxes):
                if len(met) > 1:
                    p.barrier(met, "notify")
        self._notified = [p.semaphore(r) for r in range(p.ranks)]
        for block, semaphore in zip(blocks, self._notified, strict=True):
            block.signal(semaphore)
        p.kernel("exchange")

    def place(self, rank: int, channel: int, lines_ahead: int, per_sm: int) -> Block:
        """Add a thread block of a channel to the second kernel, which begins when the first one has ended.

        Chunks are those of channel 0, because a token is not cut.
        """
        self._program.channel = channel
        block = self._program.block(rank)
        self._program.channel = 0
        block.lines_ahead, block.per_sm = lines_ahead, per_sm
        block.wait(self._notified[rank])
        return block


class _Stream:
    """Tokens that one block sends to another in batches: who gets them finds out by a semaphore."""

    def __init__(self, p: Program, slots: _Scratch, target: int, tokens: list[int], each: int) -> None:
        self.target, self.each, self.tokens = target, each, tokens
        self.arrived: Semaphore = p.semaphore(target)
        self.slot = dict(zip(tokens, slots.take(target, len(tokens)), strict=True))
        self._order = {token: number for number, token in enumerate(tokens)}
        self._batches = list(_batches(tokens, each))

    def __len__(self) -> int:
        return len(self._batches)

    def batch(self, number: int) -> Sequence[int]:
        """Return the tokens of a batch."""
        return self._batches[number]

    def needed(self, tokens: Sequence[int]) -> int:
        """Return how many batches have to come for these tokens."""
        return max((self._order[one] // self.each + 1 for one in tokens if one in self._order), default=0)


def _wait(block: Block, stream: _Stream, batches_: int) -> None:
    """Wait until so many batches of a stream have come."""
    rise = batches_ - block.waited.get(stream.arrived, 0)
    if rise > 0:
        block.wait(stream.arrived, rise)


def _chunks(p: Program) -> tuple[int, int]:
    return next((found for most, found in _CHUNKS.items() if p.ranks <= most), _CHUNKS[8])


def _node_chunks(p: Program) -> tuple[tuple[int, int], tuple[int, int]]:
    return next((found for most, found in _NODE_CHUNKS.items() if p.ranks <= most), _NODE_CHUNKS[64])


def dispatch_normal(p: Program, x: Tokens) -> None:
    """Every token goes over the network once to each node, and over NVLink to each rank of its experts."""
    p.sms, p.lines_per_sm = 2 * x.channels, 8 * _RECEIVE
    (_dispatch_in_node if x.nodes == 1 else _dispatch_between_nodes)(p, x, _NotifiedKernels(p, x))


def combine_normal(p: Program, x: Tokens) -> None:
    """Every token's results are added on each node, and the sums of nodes where the token is from."""
    p.sms, p.lines_per_sm = 2 * x.channels, 8 * _FORWARD_BACK
    (_combine_in_node if x.nodes == 1 else _combine_between_nodes)(p, x, _NotifiedKernels(p, x))


def _dispatch_in_node(p: Program, x: Tokens, kernels: _NotifiedKernels) -> None:
    n, slots, each = p.ranks, _Scratch(p.ranks), _chunks(p)[0]
    p.phase_number("dispatch")
    for step in range(n):
        for channel in range(x.channels):
            streams = [
                _Stream(p, slots, (r + step) % n, x.for_rank(r, (r + step) % n, channel), each)
                for r in range(n)
            ]
            for r, stream in enumerate(streams):
                _send(p, kernels.place(r, channel, _SEND, n), [stream], p.input(r))
            for stream in streams:
                _receive(p, kernels.place(stream.target, channel, _RECEIVE, n), [stream])


def _send(p: Program, block: Block, streams: list[_Stream], source: Buffer) -> None:
    """Send a batch of each stream in turn."""
    for number in range(max(map(len, streams))):
        for stream in streams:
            if number < len(stream):
                for token in stream.batch(number):
                    block.put(source[token], p.scratch(stream.target)[stream.slot[token]])
                block.signal(stream.arrived)


def _receive(p: Program, block: Block, streams: list[_Stream]) -> None:
    """Copy a batch of each stream in turn to the output."""
    mine, output = p.scratch(block.rank), p.output(block.rank)
    for number in range(max(map(len, streams))):
        for stream in streams:
            if number < len(stream):
                _wait(block, stream, number + 1)
                for token in stream.batch(number):
                    block.copy(mine[stream.slot[token]], output[token])


def _combine_in_node(p: Program, x: Tokens, kernels: _NotifiedKernels) -> None:
    n, slots, each = p.ranks, _Scratch(p.ranks), _chunks(p)[1]
    p.phase_number("combine")
    # Of the ranks that hold a token, by rank and channel that the token is of.
    streams = {
        (r, channel): {
            (r + step) % n: _Stream(p, slots, r, x.for_rank(r, (r + step) % n, channel), each)
            for step in range(n)
        }
        for r in range(n)
        for channel in range(x.channels)
    }
    for (r, channel), of in streams.items():
        block = kernels.place(r, channel, _ADD, 1)
        _add(p, block, x.of_rank(r, channel), list(of.values()))
    for step in range(n):
        for channel in range(x.channels):
            for r in range(n):
                holder = (r + step) % n
                block = kernels.place(holder, channel, _SEND_BACK, n)
                _send(p, block, [streams[r, channel][holder]], p.input(holder))


def _add(p: Program, block: Block, tokens: list[int], streams: list[_Stream], each: int = _GROUP) -> None:
    """Add what streams bring of each token to its output."""
    mine = p.scratch(block.rank)
    for batch in _batches(tokens, each):
        for stream in streams:
            _wait(block, stream, stream.needed(batch))
        for token in batch:
            parts = [mine[stream.slot[token]] for stream in streams if token in stream.slot]
            block.reduce(parts, p.output(block.rank)[token])


def _dispatch_between_nodes(p: Program, x: Tokens, kernels: _NotifiedKernels) -> None:
    width, nodes, slots = x.per_node, x.nodes, _Scratch(p.ranks)
    near, far = _node_chunks(p)[0]
    per_sm = -(-(nodes + 2 * width) // 2)
    for phase in ("to nodes", "in the node"):
        p.phase_number(phase)
    for channel in range(x.channels):
        # Of a rank to the one of the same position in each node, beginning with the next node.
        sent = {
            (r, b): _Stream(p, slots, b * width + r % width, x.for_node(r, b, channel), far)
            for r in range(p.ranks)
            for b in range(nodes)
        }
        for r in range(p.ranks):
            for k in (*range(1, nodes), 0):
                # Senders do not wait where another warp announces what they have written.
                block = kernels.place(r, channel, _TO_NODES // nodes, per_sm)
                block.phase("to nodes")
                _send(p, block, [sent[r, (r // width + k) % nodes]], p.input(r))
        for step in range(width):
            for forwarder in range(p.ranks):
                node, position = divmod(forwarder, width)
                target = node * width + (position + step) % width
                sources = [(node + k) % nodes * width + position for k in range(nodes)]
                arriving = [sent[source, node] for source in sources]
                found = [[t for t in s.tokens if x.copies[divmod(t, x.count)][target] > 0] for s in arriving]
                onward = [_Stream(p, slots, target, tokens, near) for tokens in found]
                block = kernels.place(forwarder, channel, _FORWARD, per_sm)
                block.phase("in the node")
                _forward(p, block, arriving, onward)
                block = kernels.place(target, channel, _FORWARD, per_sm)
                block.phase("in the node")
                _receive(p, block, onward)


def _forward(p: Program, block: Block, arriving: list[_Stream], onward: list[_Stream]) -> None:
    """Pass what comes from each node on to one rank of the node, batch by batch."""
    for number in range(max(map(len, onward))):
        for came, stream in zip(arriving, onward, strict=True):
            if number < len(stream):
                batch = stream.batch(number)
                _wait(block, came, came.needed(batch))
                for token in batch:
                    block.put(
                        p.scratch(block.rank)[came.slot[token]],
                        p.scratch(stream.target)[stream.slot[token]],
                    )
                block.signal(stream.arrived)


def _combine_between_nodes(p: Program, x: Tokens, kernels: _NotifiedKernels) -> None:
    width, nodes, slots = x.per_node, x.nodes, _Scratch(p.ranks)
    near, far = _node_chunks(p)[1]
    per_sm = -(-(1 + width + nodes) // 2)
    for phase in ("in the node", "between nodes", "sum of nodes"):
        p.phase_number(phase)
    for channel in range(x.channels):
        # What holders send of a rank's tokens to the rank of its position in their node, by that rank.
        parts: dict[tuple[int, int], _Stream] = {}
        for r in range(p.ranks):
            others = [(r // width + k) % nodes for k in (*range(1, nodes), 0)]
            sums = [_Stream(p, slots, r, x.for_node(r, node, channel), far) for node in others]
            block = kernels.place(r, channel, _ADD_NODES, per_sm)
            block.phase("sum of nodes")
            _add(p, block, x.of_rank(r, channel), sums, _ADD_NODES // 4)
            for node, sum_ in zip(others, sums, strict=True):
                forwarder = node * width + r % width
                for step in range(width):
                    holder = node * width + (r + step) % width
                    tokens = x.for_rank(r, holder, channel)
                    parts[r, holder] = _Stream(p, slots, forwarder, tokens, near)
                block = kernels.place(forwarder, channel, _ADD_IN_NODE // nodes, per_sm)
                block.phase("between nodes")
                _add_in_node(p, block, [parts[r, node * width + k] for k in range(width)], sum_)
        for step in range(width):
            for holder in range(p.ranks):
                node, position = divmod(holder, width)
                froms = [(node + k) % nodes * width + (position + step) % width for k in range(nodes)]
                block = kernels.place(holder, channel, _FORWARD_BACK, per_sm)
                block.phase("in the node")
                _send(p, block, [parts[r, holder] for r in froms], p.input(holder))


def _add_in_node(p: Program, block: Block, parts: list[_Stream], sum_: _Stream) -> None:
    """Add what the ranks of a node have of each token, and send the sum to where the token is from."""
    mine, target = p.scratch(block.rank), p.scratch(sum_.target)
    for number in range(len(sum_)):
        batch = sum_.batch(number)
        for stream in parts:
            _wait(block, stream, stream.needed(batch))
        for token in batch:
            held = [mine[stream.slot[token]] for stream in parts if token in stream.slot]
            block.reduce(held, target[sum_.slot[token]])
        block.signal(sum_.arrived)
