"""Tiles of compute kernels: operands are loaded stage by stage, matrix units compute with each.

A block of a product of matrices loads a part of each operand (a step of ``k``) into a stage of shared
memory, by a copy unit (TMA, ``cp.async``) that takes no registers, while the matrix units of its SM
compute with the stages before. The first warps of the block each stand for a stage. Source: the pipelined
main loop of CUTLASS 3 (include/cutlass/gemm/collective/sm90_mma_tma_gmma_ss_warpspecialized.hpp).
"""

from __future__ import annotations

from astranb.core.jit import kernel
from astranb.core.queue import schedule

from .sm import make_ready
from .tables import FENCE, Machine

__all__ = ["arrive", "fetch", "finish_step", "start_tile"]


@kernel
def start_tile(m: Machine, block: int, op: int) -> None:
    """A block begins a tile: the first stage is loaded."""
    tile = m.ops[op].value
    m.tiles[tile].fetched = 0
    m.tiles[tile].computed = 0
    m.tiles[tile].computing = 0
    first = m.blocks[block].first_warp
    for warp in range(first, first + m.blocks[block].warps):
        m.warps[warp].op = op
        m.warps[warp].under_way = 0
    m.warps[first].next_line = 0
    make_ready(m, first, m.blocks[block].sm)


@kernel
def fetch(m: Machine, warp: int, op: int) -> tuple[int, int, int]:
    """Take the next request of the stage that is being loaded.

    Returns
    -------
    operand : int
    index : int
        Of the request, within its operand.
    again : int
        1 if the stage has more requests.
    """
    tile = m.ops[op].value
    step = m.tiles[tile].fetched
    first_lines, step_lines = m.tiles[tile].first_lines, m.tiles[tile].step_lines
    within = m.warps[warp].next_line - step * step_lines
    m.warps[warp].next_line += 1
    m.warps[warp].under_way += 1
    m.ops[op].left -= 1
    again = 1
    if within + 1 == step_lines:
        again = 0
        m.tiles[tile].fetched = step + 1
        fill_next(m, op)
    if within < first_lines:
        return m.ops[op].first_source, step * first_lines + within, again
    others = step_lines - first_lines
    return m.ops[op].first_source + 1, step * others + within - first_lines, again


@kernel
def fill_next(m: Machine, op: int) -> None:
    """Begin to load the next step, if there is one and a stage is free."""
    tile, block = m.ops[op].value, m.ops[op].block
    step = m.tiles[tile].fetched
    stages = m.tiles[tile].stages
    if step < m.tiles[tile].steps and step < m.tiles[tile].computed + stages:
        warp = m.blocks[block].first_warp + step % stages
        m.warps[warp].next_line = step * m.tiles[tile].step_lines
        make_ready(m, warp, m.blocks[block].sm)


@kernel
def arrive(m: Machine, warp: int, op: int) -> None:
    """Take in what a stage has loaded; a full stage is computed if it is its turn."""
    m.warps[warp].under_way -= 1
    if m.warps[warp].under_way == 0:
        compute_next(m, op)


@kernel
def compute_next(m: Machine, op: int) -> None:
    """Start the next step on the matrix units, if its stage is full and the step before is computed."""
    tile, block = m.ops[op].value, m.ops[op].block
    step = m.tiles[tile].computed
    if m.tiles[tile].computing or step >= m.tiles[tile].fetched:
        return
    if m.warps[m.blocks[block].first_warp + step % m.tiles[tile].stages].under_way > 0:
        return
    sm = m.blocks[block].sm
    m.tiles[tile].computing = 1
    ends_ps = max(m.clock[0].now_ps, m.sms[sm].matrix_free_ps) + m.tiles[tile].step_ps
    m.sms[sm].matrix_free_ps = ends_ps
    m.sms[sm].matrix_ps += m.tiles[tile].step_ps
    schedule(m.event_queue, ends_ps, FENCE, block)


@kernel
def finish_step(m: Machine, block: int, op: int) -> None:
    """A step is computed: its stage is free, and the next one may be computed; the last one ends the tile."""
    tile = m.ops[op].value
    m.tiles[tile].computing = 0
    before = m.tiles[tile].computed
    m.tiles[tile].computed = before + 1
    if before + 1 == m.tiles[tile].steps:
        m.blocks[block].fenced = 2
        m.clock[0].resumes = block
        return
    if m.tiles[tile].fetched == before + m.tiles[tile].stages:
        fill_next(m, op)
    compute_next(m, op)
