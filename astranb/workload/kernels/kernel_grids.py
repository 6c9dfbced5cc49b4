"""Kernels as grids of thread blocks: what each block loads, computes and stores.

**Products.** A tile is a thread block, or ``split`` of them; the library is taken to choose the one that the
matrix units, or the L2 that feeds them, are done with first. It takes
``k`` in steps of one line of each row (64 numbers of two bytes), the rows of one matrix and the columns
of the other, into a stage of shared memory. Matrix units take as long for a step as
:mod:`.gpus` says that they achieve. From Hopper on, two blocks of a cluster share the columns by
multicast (CUTLASS, examples/48_hopper_warp_specialized_gemm), so that each loads half of them.

**Attention** (FlashAttention-2, arXiv 2307.08691): a block has 128 queries of a head and takes keys and
values 128 tokens at a time. **Passes over memory** load and store their part line by line.

Each kernel is launched as a node of a graph after the one before it (``graph_ps`` of the preset).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Final

from astranb.collectives import TileShape
from astranb.core.errors import InputError
from astranb.gpu import Preset
from astranb.gpu.tables import ROOM

from .times import KernelTimes, Tile
from .work import Attention, Product, Stream

__all__ = ["Grid", "grids", "kernel_of", "tile_of"]

_QUERIES: Final = 128
_MOST_STAGES: Final = 6
_REGISTERS_OF_A_THREAD: Final = 40
"""Besides accumulators (assumed)."""
_ACCUMULATOR_BYTES: Final = 4
_MORE_TILES: Final = ((128, 192, 1.0), (192, 128, 1.0), (192, 192, 1.0))
"""Of cuBLAS from Hopper on, as the names of its kernels say (``nvjet_hsh_128x192_...``): a last wave that
tiles of 128 and 256 would leave nearly empty is fuller."""
_ROUNDS: Final = 200
_LEAST_K: Final = 32
_PASS_BLOCKS: Final = 4
"""Thread blocks of a pass over memory that an SM holds: 512 threads each of 2,048."""


@dataclass(frozen=True)
class Grid:
    """The thread blocks of a kernel.

    A block is one of ``rows`` by ``columns`` tiles, and of ``splits`` that share a tile. It loads
    ``own_lines`` of its own, then in each of ``steps`` ``row_lines`` of its row's operand and
    ``column_lines`` of its column's, computes ``step_ps`` with each, and stores ``stored_lines``. Without
    lines it only holds its SM for ``step_ps``.

    Attributes
    ----------
    name : str
    rows, columns, splits : int
    steps : int
    growth : int
        Steps that each row of tiles has more than the one before, as under a causal mask.
    row_lines, column_lines, own_lines, stored_lines : int
    step_ps : int
    stages : int
        Steps whose lines are on their way or in shared memory; 0: lines are copied, each when it has come.
    held : int
        Parts of :data:`~astranb.gpu.tables.ROOM` of an SM.
    launch_ps : int
        From the end of the kernel before to the first instruction.
    shared : int
        Consecutive columns of tiles that have the same operand, as heads that share keys and values.
    copies : int
        Equal products, each of as many rows of tiles, with column operands of their own.
    rest, parts : int
        So many tiles, the last ones, are divided evenly along ``k`` between so many blocks (Stream-K): each
        stores a part in float32, and takes one over to store its share of the tiles.
    """

    name: str
    rows: int = 1
    columns: int = 1
    splits: int = 1
    steps: int = 1
    growth: int = 0
    row_lines: int = 0
    column_lines: int = 0
    own_lines: int = 0
    stored_lines: int = 0
    step_ps: int = 0
    stages: int = 0
    held: int = ROOM
    launch_ps: int = 0
    shared: int = 1
    copies: int = 1
    rest: int = 0
    parts: int = 0

    @property
    def blocks(self) -> int:
        """Thread blocks."""
        return self.rows * self.columns * self.splits - self.rest + self.parts


def grids(kernel: Product | Attention | Stream, times: KernelTimes, preset: Preset) -> tuple[Grid, ...]:
    """Return the grids of a kernel, one after another.

    Parameters
    ----------
    kernel : Product, Attention or Stream
    times : KernelTimes
        What the GPU achieves.
    preset : Preset
        Its numbers: shared memory, registers, lines.

    Raises
    ------
    InputError
        A thread block does not fit on an SM.

    Examples
    --------
    >>> from astranb.gpu import preset
    >>> from astranb.workload import kernels
    >>> large = grids(Product(8192, 8192, 8192), KernelTimes(kernels.GPUS["h100-sxm"]), preset("h100-sxm"))
    >>> large[0].rows, large[0].columns, large[0].steps, large[0].row_lines, large[0].column_lines
    (64, 43, 128, 128, 96)
    """
    if isinstance(kernel, Product):
        return _product(kernel, times, preset)
    if isinstance(kernel, Attention):
        return _attention(kernel, times, preset)
    return (_pass(kernel, preset),)


def kernel_of(operations: int, touched: int) -> Product | Stream:
    """Return the kernel that a computation is taken for, of which only operations and bytes are known.

    It is a product of matrices of two bytes a number with a square result that has both or, where it has
    more operations for its bytes than any product, a cube. Where it has fewer than a product of one step of
    ``k``, it is a pass over memory.

    Examples
    --------
    >>> found = kernel_of(2 * 4096**2 * 1024, 2 * (2 * 4096 * 1024 + 4096**2))
    >>> type(found).__name__, found.m, found.n, found.k
    ('Product', 4096, 4096, 1024)
    >>> kernel_of(10**6, 10**6).size
    1000000
    """
    side = (operations / 2) ** (1 / 3)
    for _ in range(_ROUNDS):  # fixed point of the larger solution: touched / 2 = side^2 + operations / side
        side = math.sqrt(max(touched / 2 - operations / max(side, 1), side**2))
    k = round(operations / (2 * max(side, 1) ** 2))
    if k < _LEAST_K:
        return Stream(max(1, touched))
    return Product(round(side), round(side), k)


def _lines(size: float, preset: Preset) -> int:
    return max(1, math.ceil(size / preset.line_bytes))


def _held(name: str, shared: int, registers: int, preset: Preset) -> int:
    """Parts of an SM that a block takes: of shared memory or of registers, whichever is more.

    Stages that do not fit into shared memory are prefetched into registers, as on AMD's GPUs (hipBLASLt's
    ``PrefetchGlobalRead``).
    """
    registers += max(0, shared - preset.shared_bytes)
    shared = min(shared, preset.shared_bytes)
    if registers > preset.register_bytes:
        raise InputError(
            f"a thread block of {name} takes {registers / 1024:.0f} KiB of registers",
            where=f"GPU {preset.name!r}",
            hint=f"each {preset.sm_word} has {preset.register_bytes / 1024:.0f} KiB",
        )
    part = max(shared / preset.shared_bytes, registers / preset.register_bytes)
    return max(1, math.ceil(part * ROOM))


def _product(one: Product, times: KernelTimes, preset: Preset) -> tuple[Grid, ...]:
    best = min(times.tiles(one, _more(times)), key=lambda tile: _estimate_ns(one, tile, times, preset))
    tiles = _tiled(one, best, times, preset)
    found = [tiles]
    if times.casts(one):
        found.insert(0, _pass(Stream(times.cast_size(one)), preset))
    if best.split > 1:
        size = (_ACCUMULATOR_BYTES * best.split + 2) * one.m * one.n * one.copies
        found.append(_copy("sum of parts", size, preset.graph_ps, preset))
    return tuple(found)


def tile_of(shape: TileShape, gpu: Preset) -> Grid:
    """Return the grid of one tile of a product, as a program of a collective computes it.

    Raises
    ------
    InputError
        The GPU's library has no such tile, or it does not fit on its SMs.

    Examples
    --------
    >>> from astranb.gpu import preset
    >>> one = tile_of(TileShape(128, 256, 1024), preset("h100-sxm"))
    >>> one.steps, one.row_lines, one.column_lines, one.stored_lines
    (16, 128, 128, 512)
    """
    if gpu.kernels is None:
        hint = "take a GPU with a section 'kernels' in its file, for example --gpu h100-sxm"
        raise InputError("what its kernels achieve is not known", where=f"GPU {gpu.name!r}", hint=hint)
    times = KernelTimes(gpu.kernels, sustained=1.0)
    # Its neighbours are tiles of the same product, which share what they load.
    one = Product(2 * shape.rows, 2 * shape.columns, shape.k)
    known = {(tile.rows, tile.columns): tile for tile in times.tiles(one, _more(times)) if tile.split == 1}
    if shape[:2] not in known:
        has = ", ".join(f"{rows} x {columns}" for rows, columns in known)
        what = f"no tile of {shape.rows} x {shape.columns}"
        raise InputError(what, where=f"GPU {gpu.name!r}", hint=f"its library has {has}")
    return replace(_tiled(one, known[shape[:2]], times, gpu), name=f"tile {shape}", rows=1, columns=1)


def _more(times: KernelTimes) -> tuple[tuple[int, int, float], ...]:
    return _MORE_TILES if times.gpu.cluster > 1 else ()


def _tiled(one: Product, best: Tile, times: KernelTimes, preset: Preset) -> Grid:
    """Return the grid of a product that is cut into tiles."""
    number = times.number_bytes(one)
    name = f"product {one.m} x {one.n} x {one.k}"
    step = math.floor(preset.line_bytes / number)
    filled = (best.rows + best.columns) * preset.line_bytes
    stages = max(2, min(_MOST_STAGES, preset.shared_bytes * 9 // 10 // filled))
    accumulators = best.rows * best.columns * _ACCUMULATOR_BYTES
    threads = 128 * max(1, best.rows // 64) + 128
    held = _held(name, stages * filled, accumulators + threads * _REGISTERS_OF_A_THREAD * 4, preset)
    row_lines, column_lines = _step_lines(one, best, times.gpu.cluster)
    stored = min(best.rows, one.m) * min(best.columns, one.n) * (_ACCUMULATOR_BYTES if best.split > 1 else 2)
    rows, columns, sms = -(-one.m // best.rows) * one.copies, -(-one.n // best.columns), times.gpu.sms
    return Grid(
        name, rows, columns, best.split,
        max(1, -(-one.k // best.split // step)), 0, row_lines, column_lines, 0, _lines(stored, preset),
        max(1, round(best.step_ps(step))), stages, held, preset.graph_ps, 1, one.copies,
        rows * columns % sms if best.even else 0, sms if best.even else 0,
    )  # fmt: skip


def _step_lines(one: Product, tile: Tile, cluster: int) -> tuple[int, int]:
    """Lines that a block loads in a step: rows and columns, of which blocks of a cluster share the wider."""
    rows, columns = min(tile.rows, one.m), min(tile.columns, one.n)
    if cluster > 1 and one.n > tile.columns and rows >= columns:
        return -(-rows // cluster), columns
    if cluster > 1 and one.m > tile.rows:
        return rows, -(-columns // cluster)
    return rows, columns


def _estimate_ns(one: Product, tile: Tile, times: KernelTimes, preset: Preset) -> float:
    """Time of a product with a tile: of the matrix units, or of the L2 that feeds them."""
    blocks = -(-one.m // tile.rows) * -(-one.n // tile.columns) * one.copies
    loaded = blocks * sum(_step_lines(one, tile, times.gpu.cluster)) * one.k * times.number_bytes(one)
    fed_ns = float(loaded) * 1e9 / preset.l2_Bps if preset.l2_Bps else 0.0
    return max(tile.product_ns, fed_ns)


def _pass(one: Stream, preset: Preset) -> Grid:
    return _copy(one.sort, one.size, one.launches * preset.graph_ps, preset)


def _copy(name: str, size: float, launch_ps: int, preset: Preset) -> Grid:
    """Return the grid of a pass that reads half of its bytes and writes half."""
    lines = _lines(size / 2, preset)
    blocks = min(lines, preset.sms * _PASS_BLOCKS)
    each = -(-lines // blocks)
    return Grid(
        name, rows=-(-lines // each), row_lines=each, stored_lines=each, held=ROOM // _PASS_BLOCKS,
        launch_ps=launch_ps,
    )  # fmt: skip


def _attention(one: Attention, times: KernelTimes, preset: Preset) -> tuple[Grid, ...]:
    key_lines = _lines(_QUERIES * one.key_size * 2, preset)
    value_lines = _lines(_QUERIES * one.value_size * 2, preset)
    launch_ps = preset.graph_ps
    stages = 2
    heads = one.sequences * one.heads
    if one.queries == 1:
        # Single tokens: keys and values are read once for the heads that share them, in parts on many SMs.
        moved = _lines(times.moved(one), preset)
        launch_ps += times.gpu.decode_ns * 1000
        blocks = min(moved, preset.sms * _PASS_BLOCKS)
        each = -(-moved // blocks)
        step = min(each, 64)
        return (
            Grid(
                "attention", rows=-(-moved // each), steps=-(-each // step), row_lines=step, stored_lines=1,
                stages=stages, held=ROOM // _PASS_BLOCKS, launch_ps=launch_ps,
            ),
        )  # fmt: skip
    tiles = -(-one.queries // _QUERIES)
    steps = -(-one.keys // _QUERIES)
    filled = stages * (key_lines + value_lines) + key_lines
    held = _held("attention", min(filled * preset.line_bytes, preset.shared_bytes), 0, preset)
    causal = one.causal and one.queries == one.keys
    whole = tiles * (tiles + 1) // 2 if causal else tiles * steps
    computed_ps = times.attended_ns(one) * 1000 * preset.sms / (whole * heads)
    grid = Grid(
        "attention", tiles, heads, 1, 1 if causal else steps, int(causal), 0, key_lines + value_lines,
        key_lines, value_lines, max(1, round(computed_ps)), stages, max(held, ROOM // 2), launch_ps,
        max(1, one.heads // one.kept_heads),
    )  # fmt: skip
    return (grid,)
