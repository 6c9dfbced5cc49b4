"""Exchanges in a logarithmic number of steps for any number of ranks: Bruck's algorithms, and PAT.

Sources: Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in
multiport message-passing systems", IEEE TPDS 8(11), 1997; Jeaugey, "PAT: a new algorithm for all-gather and
reduce-scatter operations at scale", 2025 (arXiv 2506.20252), NCCL's from 2.23 on.
"""

from __future__ import annotations

from collections.abc import Iterator

from astranb.collectives.language import PROTOCOLS, Chunk, Program

from .registry import algorithm

__all__: list[str] = []

_TOGETHER = 8  # chunks of a message of PAT, at most; NCCL's buffer holds as many where a chunk is small


@algorithm(
    "all_gather",
    "bruck",
    "in step k send all chunks that are there to the rank 2^k to the left",
    protocols=PROTOCOLS,
)
def all_gather_bruck(p: Program) -> None:
    n, steps = p.ranks, (p.ranks - 1).bit_length()
    arrived = [[p.semaphore(r) for _ in range(steps)] for r in range(n)]
    for me in p.everyone:
        block, r = me.block(), me.number
        block.copy(me.input[0], me.output[r])
        for step in range(steps):
            block.phase(f"step {step + 1}/{steps}")
            to = (r - (1 << step)) % n
            for k in range(min(1 << step, n - (1 << step))):
                block.put(me.output[(r + k) % n], p.output(to)[(r + k) % n])
            block.signal(arrived[to][step])
            block.wait(arrived[r][step])


@algorithm(
    "all_to_all",
    "bruck",
    "in step k send to the rank 2^k to the right every chunk whose distance has bit k set",
    protocols=PROTOCOLS,
)
def all_to_all_bruck(p: Program) -> None:
    n, steps = p.ranks, (p.ranks - 1).bit_length()
    arrived = [[p.semaphore(r) for _ in range(steps)] for r in range(n)]
    for me in p.everyone:
        block, r = me.block(), me.number
        block.copy(me.input[r], me.output[r])
        for step in range(steps):
            block.phase(f"step {step + 1}/{steps}")
            bit = 1 << step
            to = (r + bit) % n
            for distance in (d for d in range(1, n) if d & bit):  # how far the chunk has to go
                gone = distance & bit - 1  # and has gone: it came in the step of the highest bit of this
                came = (gone.bit_length() - 1) * n + distance
                source = me.scratch[came] if gone else me.input[(r + distance) % n]
                last = distance < 2 * bit
                target = p.output(to)[(to - distance) % n] if last else p.scratch(to)[step * n + distance]
                block.put(source, target)
            block.signal(arrived[to][step])
            block.wait(arrived[r][step])


def _messages(ranks: int, together: int) -> Iterator[tuple[int, list[int]]]:
    """List PAT's messages: over which distance, and how far their chunks have come before.

    Trees of all chunks grow at once, the longest branches first, until a message has as many chunks as go
    together; from there on they grow one branch after another, so that few chunks are under way.
    """

    def grow(have: list[int], step: int) -> Iterator[tuple[int, list[int]]]:
        if step < 0:
            return
        sent = [gone for gone in have if gone + (1 << step) < ranks]
        if sent:
            yield 1 << step, sent
        new = [gone + (1 << step) for gone in sent]
        if len(have) + len(new) <= together:
            yield from grow([*have, *new], step - 1)
        else:
            yield from grow(new, step - 1)
            yield from grow(have, step - 1)

    return grow([0], (ranks - 1).bit_length() - 1)


@algorithm(
    "all_gather",
    "pat",
    "a binomial tree for each chunk, the longest branches first, up to eight chunks in a message",
    protocols=PROTOCOLS,
)
def all_gather_pat(p: Program) -> None:
    n, messages = p.ranks, list(_messages(p.ranks, _TOGETHER))
    arrived = [[p.semaphore(r) for _ in messages] for r in range(n)]
    for me in p.everyone:
        block, r = me.block(), me.number
        block.copy(me.input[0], me.output[r])
        for number, (distance, sent) in enumerate(messages):
            block.phase(f"message {number + 1}/{len(messages)}")
            to = (r + distance) % n
            for gone in sent:
                block.put(me.output[(r - gone) % n], p.output(to)[(r - gone) % n])
            block.signal(arrived[to][number])
            block.wait(arrived[r][number])


@algorithm(
    "reduce_scatter",
    "pat",
    "the trees of its all-gather backwards: partial sums, the shortest branches first",
    protocols=PROTOCOLS,
)
def reduce_scatter_pat(p: Program) -> None:
    n, messages = p.ranks, list(_messages(p.ranks, _TOGETHER))[::-1]
    arrived = [[p.semaphore(r) for _ in messages] for r in range(n)]
    for me in p.everyone:
        block, r = me.block(), me.number
        parts: list[list[Chunk]] = [[me.input[(r - gone) % n]] for gone in range(n)]
        for number, (distance, sent) in enumerate(messages):
            block.phase(f"message {number + 1}/{len(messages)}")
            to = (r - distance) % n
            for gone in sent:  # the other rank is nearer to the chunk's owner by the distance
                block.reduce(parts[gone + distance], p.scratch(to)[number * n + gone])
            block.signal(arrived[to][number])
            block.wait(arrived[r][number])
            for gone in sent:
                parts[gone].append(me.scratch[number * n + gone])
        block.reduce(parts[0], me.output[0])
