"""Exchanges between pairs of ranks: pairwise all-to-all, send and receive, and barriers."""

from __future__ import annotations

from astranb.collectives.language import PROTOCOLS, Program

from .registry import algorithm

__all__: list[str] = []


@algorithm(
    "all_to_all",
    "pairwise",
    "in step k send to the rank k to the right, receive from the rank k to the left",
    protocols=PROTOCOLS,
)
def all_to_all_pairwise(p: Program) -> None:
    n = p.ranks
    # A semaphore for each step: a fast rank may be a step ahead of a slow one.
    arrived = [[p.semaphore(r) for _ in range(n)] for r in range(n)]
    for me in p.everyone:
        block, r = me.block(), me.number
        block.copy(me.input[r], me.output[r])
        for step in range(1, n):
            block.phase(f"exchange {step}/{n - 1}")
            to = (r + step) % n
            block.put(me.input[to], p.output(to)[r])
            block.signal(arrived[to][step])
            block.wait(arrived[r][step])


@algorithm("send_recv", "put", "every rank puts its buffer to its right neighbour", protocols=PROTOCOLS)
def send_recv_put(p: Program) -> None:
    arrived = [p.semaphore(r) for r in range(p.ranks)]
    for me in p.everyone:
        block = me.block()
        block.phase("exchange")
        block.put(me.input[0], me.right.output[0])
        block.signal(arrived[me.right.number])
        block.wait(arrived[me.number])


@algorithm("send_recv", "engine", "a copy engine of every rank puts its buffer to the right neighbour")
def send_recv_engine(p: Program) -> None:
    arrived = [p.semaphore(r) for r in range(p.ranks)]
    for me in p.everyone:
        block, engine, doorbell = me.block(), p.engine(me.number), me.semaphore()
        block.phase("exchange")
        block.signal(doorbell)
        engine.wait(doorbell)
        engine.put(me.input[0], me.right.output[0])
        engine.signal(arrived[me.right.number])
        block.wait(arrived[me.number])


@algorithm("barrier", "allpairs", "every rank signals all and waits for all")
def barrier_allpairs(p: Program) -> None:
    p.barrier([me.block() for me in p.everyone], "barrier")


@algorithm("barrier", "dissemination", "in step k signal the rank 2^k to the right (Hensgen, Finkel, Manber)")
def barrier_dissemination(p: Program) -> None:
    n = p.ranks
    steps = max(1, (n - 1).bit_length())
    arrived = [[p.semaphore(r) for _ in range(steps)] for r in range(n)]
    for me in p.everyone:
        block = me.block()
        for step in range(steps):
            block.phase(f"step {step + 1}/{steps}")
            block.signal(arrived[(me.number + (1 << step)) % n][step])
            block.wait(arrived[me.number][step])
