"""DeepEP's low-latency kernels: few tokens, each straight to every one of its experts.

Source: DeepEP V1 @dd758ca, csrc/kernels/legacy/internode_ll.cu. A cooperative kernel first sends and then
receives, some experts for each SM, with a barrier of its grid between. GPUs of other nodes are written to by
the NIC, those of the same node over NVLink (``nvshmemi_get_p2p_ptr``).

In a node each expert has a flag for each rank. A dispatch counts on the GPU which tokens have been sent to an
expert; whoever is responsible for it raises the flag when all have. To other nodes a thread block announces
what it has posted itself, because a NIC keeps only the order of one queue: a stand-in for the kernel's
atomics, which follow the data in the queue of each expert.

A thread block sends one token after another: it casts it, its warps take slots by an atomic whose result they
wait for, store, and count behind a release, before all of them cast the next one. Receivers take their place
among what has come in the same way.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.collectives.language import Block, Program, Semaphore

from .tokens import Tokens, fetch_add

__all__ = ["combine_low_latency", "dispatch_low_latency"]

_LINES: Final = 32 * 8
"""Lines that 32 warps keep under way: each two loads of 16 B a thread."""


class _Grid:
    """The thread blocks of a kernel, one on an SM, and the flags by which they announce tokens.

    Parameters
    ----------
    p : Program
    x : Tokens
    """

    def __init__(self, p: Program, x: Tokens) -> None:
        self.program, self.tokens = p, x
        self.experts = x.routing.experts
        self.local = self.experts // p.ranks
        each = -(-self.experts // x.sms)
        p.sms = -(-self.experts // each)
        self.shares = [range(k, min(k + each, self.experts)) for k in range(0, self.experts, each)]
        """The experts of each thread block: of their rank to send, of another one to receive."""
        p.channel = 0
        self.blocks = [[p.block(r) for _ in self.shares] for r in range(p.ranks)]
        for of_rank in self.blocks:
            for block in of_rank:
                block.lines_ahead, block.per_sm = _LINES, 1
        self._flags: dict[tuple[int, int, int], Semaphore] = {}
        self._posted = [[p.semaphore(target) for _ in range(p.ranks)] for target in range(p.ranks)]
        self._come = np.zeros((p.ranks, p.ranks), np.int64)  # signals from other nodes, by target and source

    def is_far(self, rank: int, other: int) -> bool:
        """Return whether a rank reaches another one by the NIC."""
        return rank // self.tokens.per_node != other // self.tokens.per_node

    def flag(self, target: int, source: int, expert: int) -> Semaphore:
        """Return the semaphore of a rank by which another one announces an expert's tokens."""
        key = target, source, expert
        if key not in self._flags:
            self._flags[key] = self.program.semaphore(target)
        return self._flags[key]

    def announce_posted(self, block: Block, targets: set[int]) -> None:
        """Signal behind what a block has posted to ranks of other nodes, no two to the same one first."""
        place = self.tokens.per_node
        for target in sorted(targets, key=lambda one: ((one - block.rank) % place, one)):
            block.signal(self._posted[target][block.rank])
            self._come[target, block.rank] += 1

    def wait_for(self, block: Block, source: int, expert: int) -> None:
        """Wait for what a rank has sent for an expert, or for all that it has posted."""
        if not self.is_far(block.rank, source):
            block.wait(self.flag(block.rank, source, expert))
            return
        posted = self._posted[block.rank][source]
        rise = int(self._come[block.rank, source]) - block.waited.get(posted, 0)
        if rise > 0:
            block.wait(posted, rise)

    def sync(self) -> None:
        """Wait in each block for all of its GPU (``cg::this_grid().sync()``)."""
        for of_rank in self.blocks:
            self.program.barrier(of_rank)


def dispatch_low_latency(p: Program, x: Tokens) -> None:
    """Every token goes to each of its experts; ranks count what has come from every other rank."""
    p.phase_number("dispatch")
    grid, each = _Grid(p, x), x.slots("low_latency")
    chosen, holders = x.routing.chosen, x.routing.holders()
    sent = [[p.semaphore(r) for _ in range(grid.experts)] for r in range(p.ranks)]
    message = p.ranks * x.count * each  # where a rank's own messages begin, behind what it gets
    for r, of_rank in enumerate(grid.blocks):
        for number, block in enumerate(of_rank):
            slot = p.semaphore(r)
            tokens = {
                token: [(k, rank) for k, rank in enumerate(holders[r, token].tolist()) if rank >= 0]
                for token in range(number, x.count, len(of_rank))
            }
            for token, of in tokens.items():
                if not of:
                    continue
                block.copy(p.input(r)[(r * x.count + token) * each], p.scratch(r)[message + token])
                fetch_add(block, slot)
                # The NIC has its requests while warps, one for each expert, still store over NVLink.
                for k, target in sorted(of, key=lambda one: not grid.is_far(r, one[1])):
                    chunk = (r * x.count + token) * each + k
                    block.post(p.scratch(r)[message + token], p.scratch(target)[chunk])
                for k, target in of:
                    if not grid.is_far(r, target):
                        block.signal(sent[r][int(chosen[r, token, k])])
            targets = {target for of in tokens.values() for _, target in of}
            grid.announce_posted(block, {one for one in targets if grid.is_far(r, one)})
    counts = [np.bincount(of[of >= 0], minlength=grid.experts).tolist() for of in chosen]
    for r, of_rank in enumerate(grid.blocks):
        for block, share in zip(of_rank, grid.shares, strict=True):
            near_experts = [e for e in share if not grid.is_far(r, e // grid.local)]
            for expert in near_experts:
                if counts[r][expert]:
                    block.wait(sent[r][expert], counts[r][expert])
            if near_experts:
                block.fence()  # a release of the whole system
            for expert in near_experts:
                block.signal(grid.flag(expert // grid.local, r, expert))
    grid.sync()
    for r, of_rank in enumerate(grid.blocks):
        for block, share in zip(of_rank, grid.shares, strict=True):
            for at, number in enumerate(share):  # of a local expert and the rank that its tokens are from
                source, expert = number // grid.local, r * grid.local + number % grid.local
                grid.wait_for(block, source, expert)
                if not at:  # warps of its other experts do it at the same time
                    fetch_add(block, p.semaphore(r))
                for token, place in np.argwhere(chosen[source] == expert).tolist():
                    chunk = (source * x.count + token) * each + place
                    block.copy(p.scratch(r)[chunk], p.output(r)[chunk])


def combine_low_latency(p: Program, x: Tokens) -> None:
    """Every expert's result goes straight to where the token is from, which adds them."""
    p.phase_number("combine")
    grid, each = _Grid(p, x), x.slots("low_latency")
    chosen, holders = x.routing.chosen, x.routing.holders()
    for r, of_rank in enumerate(grid.blocks):
        clean = p.semaphore(r)
        of_rank[0].signal(clean)  # the flags of the next call are zero
        for block, share in zip(of_rank, grid.shares, strict=True):
            posted: set[int] = set()
            for number in share:  # of a local expert and the rank that its tokens are from
                target, expert = number // grid.local, r * grid.local + number % grid.local
                for token, place in np.argwhere(chosen[target] == expert).tolist():
                    chunk = (target * x.count + token) * each + place
                    block.put(p.input(r)[chunk], p.scratch(target)[chunk])
                    if grid.is_far(r, target):
                        posted.add(target)
            block.wait(clean)
            grid.announce_posted(block, posted)
            for number in share:
                target, expert = number // grid.local, r * grid.local + number % grid.local
                if not grid.is_far(r, target):
                    block.signal(grid.flag(target, r, expert))
    for of_rank in grid.blocks:
        for block, share in zip(of_rank, grid.shares, strict=True):
            for expert in share:
                grid.wait_for(block, expert // grid.local, expert)
    grid.sync()
    for r, of_rank in enumerate(grid.blocks):
        for first, block in enumerate(of_rank):
            for number in range(first, x.count, len(of_rank)):
                item = (r * x.count + number) * each
                places = np.flatnonzero(holders[r, number] >= 0).tolist()
                if places:
                    block.reduce([p.scratch(r)[item + k] for k in places], p.output(r)[item])
