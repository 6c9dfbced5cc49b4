"""The library's algorithms in packets: under LL and LL128 the data themselves say that they have come.

No semaphore is raised and no fence waited for; what arrives stands in packets and is copied
out. Packets are written once, so that nobody has to say that a place is free again.
"""

from __future__ import annotations

from ._program import Program

__all__ = [
    "all_gather_allpairs",
    "all_gather_ring",
    "all_reduce_allpairs",
    "all_reduce_oneshot",
    "all_reduce_ring",
    "all_to_all",
    "broadcast_allpairs",
    "broadcast_ring",
    "reduce_scatter_allpairs",
    "reduce_scatter_ring",
]


def all_reduce_ring(p: Program) -> None:
    n, wires = p.ranks, p.channels()
    for me in p.everyone:
        block, r = me.block(), me.number
        for step in range(n - 1):
            block.phase(f"reduce-scatter {step + 1}/{n - 1}")
            got = [wires[me.left, me].receive(block)] if step else []
            wires[me, me.right].send(block, *got, me.input[(r - step) % n])
        for step in range(n - 1):
            chunk = (r + 1 - step) % n
            block.phase(f"all-gather {step + 1}/{n - 1}")
            got = [wires[me.left, me].receive(block)]
            own = [] if step else [me.input[chunk]]
            wires[me, me.right].send(block, *got, *own, also=(me.output[chunk],))
        block.copy(wires[me.left, me].receive(block), me.output[(r + 2) % n])


def all_reduce_allpairs(p: Program) -> None:
    n = p.ranks
    for me in p.everyone:
        block, r, mine = me.block(), me.number, p.packets(me.number)
        others = [you.number for you in me.others]
        block.phase("reduce-scatter")
        for peer in others:
            block.copy(me.input[peer], p.packets(peer)[r])
        block.phase("all-gather")
        further = [p.packets(peer)[n + r] for peer in others]
        block.reduce([me.input[r], *(mine[peer] for peer in others)], me.output[r], *further)
        for peer in others:
            block.copy(mine[n + peer], me.output[peer])


def all_reduce_oneshot(p: Program) -> None:
    n = p.ranks
    for me in p.everyone:
        block, r, mine = me.block(), me.number, p.packets(me.number)
        others = [you.number for you in me.others]
        block.phase("put")
        for chunk in range(n):
            block.copy(me.input[chunk], *(p.packets(peer)[r * n + chunk] for peer in others))
        block.phase("reduce")
        for chunk in range(n):
            block.reduce([me.input[chunk], *(mine[peer * n + chunk] for peer in others)], me.output[chunk])


def all_gather_ring(p: Program) -> None:
    n, wires = p.ranks, p.channels()
    for me in p.everyone:
        block, r = me.block(), me.number
        for step in range(n - 1):
            block.phase(f"all-gather {step + 1}/{n - 1}")
            got = wires[me.left, me].receive(block) if step else me.input[0]
            wires[me, me.right].send(block, got, also=(me.output[(r - step) % n],))
        block.copy(wires[me.left, me].receive(block), me.output[(r + 1) % n])


def all_gather_allpairs(p: Program) -> None:
    for me in p.everyone:
        block, r = me.block(), me.number
        others = [you.number for you in me.others]
        block.phase("all-gather")
        block.copy(me.input[0], me.output[r], *(p.packets(peer)[r] for peer in others))
        for peer in others:
            block.copy(p.packets(r)[peer], me.output[peer])


def reduce_scatter_ring(p: Program) -> None:
    n, wires = p.ranks, p.channels()
    for me in p.everyone:
        block, r = me.block(), me.number
        for step in range(n - 1):
            block.phase(f"reduce-scatter {step + 1}/{n - 1}")
            got = [wires[me.left, me].receive(block)] if step else []
            wires[me, me.right].send(block, *got, me.input[(r - 1 - step) % n])
        block.reduce([wires[me.left, me].receive(block), me.input[r]], me.output[0])


def reduce_scatter_allpairs(p: Program) -> None:
    for me in p.everyone:
        block, r = me.block(), me.number
        others = [you.number for you in me.others]
        block.phase("scatter")
        for peer in others:
            block.copy(me.input[peer], p.packets(peer)[r])
        block.phase("reduce")
        block.reduce([me.input[r], *(p.packets(r)[peer] for peer in others)], me.output[0])


def all_to_all(p: Program) -> None:
    for me in p.everyone:
        block, r = me.block(), me.number
        others = [you.number for you in me.others]
        block.phase("exchange")
        block.copy(me.input[r], me.output[r])
        for peer in others:
            block.copy(me.input[peer], p.packets(peer)[r])
        for peer in others:
            block.copy(p.packets(r)[peer], me.output[peer])


def broadcast_ring(p: Program) -> None:
    n, wires = p.ranks, p.channels()
    for place in range(n):
        me = p.rank((p.root + place) % n)
        block = me.block()
        for chunk in range(p.output_chunks):
            block.phase(f"chunk {chunk + 1}/{p.output_chunks}")
            got = wires[me.left, me].receive(block) if place else me.input[chunk]
            if place < n - 1:
                wires[me, me.right].send(block, got, also=(me.output[chunk],))
            else:
                block.copy(got, me.output[chunk])


def broadcast_allpairs(p: Program) -> None:
    root = p.rank(p.root)
    block = root.block()
    block.phase("broadcast")
    for chunk in range(p.output_chunks):
        block.copy(
            root.input[chunk],
            root.output[chunk],
            *(p.packets(you.number)[chunk] for you in root.others),
        )
    for you in root.others:
        theirs = you.block()
        for chunk in range(p.output_chunks):
            theirs.copy(p.packets(you.number)[chunk], you.output[chunk])
