"""Algorithms in which every rank sends to the next rank of its channel's ring only.

Source: the ring and its bound, Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms",
JPDC 2009.
"""

from __future__ import annotations

from collections.abc import Sequence

from astranb.collectives.language import PROTOCOLS, Cut, Program, Rank

from .registry import algorithm

__all__ = ["around"]


@algorithm(
    "all_reduce",
    "ring",
    "reduce-scatter around the ring, then all-gather around it",
    protocols=PROTOCOLS,
    fifo=True,
)
def all_reduce_ring(p: Program) -> None:
    around(p, p.ring(), list(p.rounds()))


@algorithm(
    "all_reduce",
    "bidirectional_ring",
    "a ring in each direction, for half of every chunk each: both directions of all links are used",
    protocols=PROTOCOLS,
)
def all_reduce_bidirectional_ring(p: Program) -> None:
    p.cut = Cut(slices=2)
    around(p, p.ring(), [range(1)])
    around(p, p.ring()[::-1], [range(1, 2)])


def around(p: Program, ring: Sequence[Rank], rounds: Sequence[range]) -> None:
    """Reduce slices of all chunks around a ring, and then gather the sums around it.

    Parameters
    ----------
    p : Program
    ring : sequence of Rank
        All ranks in the order of the ring.
    rounds : sequence of range
        Slices of each chunk that go around the ring together.

    Examples
    --------
    >>> from astranb.collectives import Program
    >>> p = Program("ring", ranks=3, channels=1, input_chunks=3, output_chunks=3)
    >>> around(p, p.ring(2), [range(1)])
    >>> len(p.blocks)
    3
    """
    n, wires = p.ranks, p.connections()
    phases = [f"reduce-scatter {step}/{n - 1}" for step in range(1, n)]
    phases += [f"all-gather {min(step, n - 1)}/{n - 1}" for step in range(1, n + 1)]
    for place, me in enumerate(ring):
        left, right = wires[ring[place - 1], me], wires[me, ring[(place + 1) % n]]
        block, inp, out = me.block(), me.input, me.output
        for of_round in rounds:
            for step, phase in enumerate(phases):
                chunk = ring[(place - step) % n]
                block.phase(phase)
                for _ in p.slices(of_round):
                    got = [left.receive(block)] if step else []
                    if step < n - 1:
                        right.send(block, [*got, inp[chunk]])
                    elif step == n - 1:
                        right.send(block, [*got, inp[chunk]], also=out[chunk])
                    elif step < 2 * n - 2:
                        right.send(block, got, also=out[chunk])
                    else:
                        block.copy(got[0], out[chunk])
                    if step:
                        left.free(block)


@algorithm("all_gather", "ring", "every chunk travels around the ring", protocols=PROTOCOLS, fifo=True)
def all_gather_ring(p: Program) -> None:
    n, ring = p.ranks, p.ring()
    wires = p.connections()
    for place, me in enumerate(ring):
        left, right = wires[ring[place - 1], me], wires[me, ring[(place + 1) % n]]
        block, out = me.block(), me.output
        for of_round in p.rounds():
            for step in range(n):
                chunk = ring[(place - step) % n]
                block.phase(f"all-gather {min(step + 1, n - 1)}/{n - 1}")
                for _ in p.slices(of_round):
                    got = left.receive(block) if step else me.input[0]
                    if step < n - 1:
                        right.send(block, got, also=out[chunk])
                    else:
                        block.copy(got, out[chunk])
                    if step:
                        left.free(block)


@algorithm("reduce_scatter", "ring", "partial sums travel around the ring", protocols=PROTOCOLS, fifo=True)
def reduce_scatter_ring(p: Program) -> None:
    n, ring = p.ranks, p.ring()
    wires = p.connections()
    for place, me in enumerate(ring):
        left, right = wires[ring[place - 1], me], wires[me, ring[(place + 1) % n]]
        block, inp = me.block(), me.input
        for of_round in p.rounds():
            for step in range(n):
                chunk = ring[(place - 1 - step) % n]
                block.phase(f"reduce-scatter {min(step + 1, n - 1)}/{n - 1}")
                for _ in p.slices(of_round):
                    got = [left.receive(block)] if step else []
                    if step < n - 1:
                        right.send(block, [*got, inp[chunk]])
                    else:
                        block.reduce([*got, inp[chunk]], me.output[0])
                    if step:
                        left.free(block)


@algorithm(
    "broadcast",
    "ring",
    "chunks follow one another down a chain that starts at the root",
    protocols=PROTOCOLS,
    fifo=True,
    any_chunks=True,
)
def broadcast_ring(p: Program) -> None:
    n, ring = p.ranks, p.ring(p.root)
    wires = p.connections()
    for place, me in enumerate(ring):
        left, right = wires[ring[place - 1], me], wires[me, ring[(place + 1) % n]]
        block, out = me.block(), me.output
        for chunk in range(p.output_chunks):
            block.phase(f"chunk {chunk + 1}/{p.output_chunks}")
            for _ in p.slices():
                got = left.receive(block) if place else me.input[chunk]
                if place < n - 1:
                    right.send(block, got, also=out[chunk])
                else:
                    block.copy(got, out[chunk])
                if place:
                    left.free(block)


@algorithm(
    "reduce",
    "ring",
    "partial sums of chunk after chunk travel down a chain that ends at the root",
    fifo=True,
    any_chunks=True,
)
def reduce_ring(p: Program) -> None:
    n, ring = p.ranks, p.ring(p.root)[1:] + p.ring(p.root)[:1]
    wires = p.connections()
    for place, me in enumerate(ring):
        left, right = wires[ring[place - 1], me], wires[me, ring[(place + 1) % n]]
        block, inp = me.block(), me.input
        for chunk in range(p.output_chunks):
            block.phase(f"chunk {chunk + 1}/{p.output_chunks}")
            for _ in p.slices():
                got = [left.receive(block)] if place else []
                if me.number == p.root:
                    block.reduce([*got, inp[chunk]], me.output[chunk])
                else:
                    right.send(block, [*got, inp[chunk]])
                if place:
                    left.free(block)
