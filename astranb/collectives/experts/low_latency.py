"""DeepEP's low-latency kernels: few tokens, each straight to every one of its experts.

Source: DeepEP V1 @dd758ca, csrc/kernels/legacy/internode_ll.cu. A block first sends and then receives,
three experts for each SM. GPUs of other nodes are written to by the NIC, those of the same node over
NVLink (``nvshmemi_get_p2p_ptr``). What a block has for one rank is announced by one signal.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from astranb.collectives.language import Block, Program, Semaphore

from .tokens import Tokens

__all__ = ["combine_low_latency", "dispatch_low_latency"]

_SMS: Final = 132  # of H100, which all figures are of
_LINES: Final = 32 * 8
"""Lines that 32 warps keep under way: each two loads of 16 B a thread."""


def dispatch_low_latency(p: Program, x: Tokens) -> None:
    """Every token goes to each of its experts; ranks count what has come from every other rank."""
    p.phase_number("dispatch")
    blocks, each = _blocks(p, x), x.slots("low_latency")
    chosen = x.routing.holders()
    arrived = [[p.semaphore(target) for _ in range(p.ranks)] for target in range(p.ranks)]
    come = np.zeros((p.ranks, p.ranks), np.int64)  # signals by target and source
    for r, of_rank in enumerate(blocks):
        for number, block in enumerate(of_rank):
            for far in (True, False):  # the NIC has its requests while warps still store over NVLink
                for token in range(number, x.count, len(of_rank)):
                    item = (r * x.count + token) * each
                    for choice, target in enumerate(chosen[r, token].tolist()):
                        if target >= 0 and _is_far(x, r, target) is far:
                            block.post(p.input(r)[item], p.scratch(target)[item + choice])
                for target in _targets(x, r, chosen[r, number :: len(of_rank)]):
                    if _is_far(x, r, target) is far:
                        block.signal(arrived[target][r])
                        come[target, r] += 1
    for r, of_rank in enumerate(blocks):
        source, held, place = np.nonzero(chosen == r)
        chunks = (source * x.count + held) * each + place
        expert = x.routing.chosen[source, held, place]
        # A group of warps takes what one rank has sent for one expert.
        order = np.lexsort((chunks, source, expert))
        for block, mine in zip(of_rank, np.array_split(order, len(of_rank)), strict=True):
            _wait_for(block, arrived[r], come[r], np.unique(source[mine]))
            for chunk in chunks[mine].tolist():
                block.copy(p.scratch(r)[chunk], p.output(r)[chunk])


def combine_low_latency(p: Program, x: Tokens) -> None:
    """Every expert's result goes straight to where the token is from, which adds them."""
    p.phase_number("combine")
    blocks, each = _blocks(p, x), x.slots("low_latency")
    chosen = x.routing.holders()
    arrived = [[p.semaphore(target) for _ in range(p.ranks)] for target in range(p.ranks)]
    come = np.zeros((p.ranks, p.ranks), np.int64)
    for r, of_rank in enumerate(blocks):
        source, token, place = np.nonzero(chosen == r)
        chunks = (source * x.count + token) * each + place
        order = np.lexsort((chunks, x.routing.chosen[source, token, place], (source - r) % p.ranks))
        for block, mine in zip(of_rank, np.array_split(order, len(of_rank)), strict=True):
            targets = _targets(x, r, source[mine])
            for target in sorted(targets, key=lambda one: not _is_far(x, r, one)):
                for chunk in chunks[mine[source[mine] == target]].tolist():
                    block.put(p.input(r)[chunk], p.scratch(target)[chunk])
                block.signal(arrived[target][r])
                come[target, r] += 1
    for r, of_rank in enumerate(blocks):
        for first, block in enumerate(of_rank):
            tokens = range(first, x.count, len(of_rank))
            held = chosen[r, tokens.start :: len(of_rank)]
            _wait_for(block, arrived[r], come[r], np.unique(held[held >= 0]))
            for number in tokens:
                item = (r * x.count + number) * each
                places = np.flatnonzero(chosen[r, number] >= 0).tolist()
                if places:
                    block.reduce([p.scratch(r)[item + k] for k in places], p.output(r)[item])


def _blocks(p: Program, x: Tokens) -> list[list[Block]]:
    """Add the thread blocks of each rank: one on each SM that has experts."""
    groups = -(-x.routing.experts // _SMS)
    count = -(-x.routing.experts // groups)
    p.sms = count
    found = []
    for r in range(p.ranks):
        p.channel = 0
        found.append([p.block(r) for _ in range(count)])
        for block in found[-1]:
            block.lines_ahead, block.per_sm = _LINES, 1
    return found


def _is_far(x: Tokens, rank: int, other: int) -> bool:
    """Return whether a rank reaches another one by the NIC."""
    return rank // x.per_node != other // x.per_node


def _targets(x: Tokens, rank: int, holders: np.ndarray) -> list[int]:
    """Return the ranks that there is something for: no two ranks of a node begin with the same one."""
    there = np.unique(holders[holders >= 0])
    position, node = (there - rank) % x.per_node, (there // x.per_node - rank // x.per_node) % x.nodes
    found: list[int] = there[np.lexsort((node, position))].tolist()
    return found


def _wait_for(block: Block, arrived: list[Semaphore], come: np.ndarray, sources: np.ndarray) -> None:
    for source in sources.tolist():
        block.wait(arrived[source], int(come[source]))
