"""Products of matrices fused with a collective: tiles leave when they are computed, or wait for what comes.

Sources: FLUX (arXiv 2406.06858) and the asynchronous tensor parallelism of PyTorch
(torch/distributed/_symmetric_memory/__init__.py), which fuse the same two pairs.
"""

from __future__ import annotations

from astranb.collectives.language import Chunk, Program, Rank, Semaphore
from astranb.core.errors import InputError

from .registry import Collective

__all__ = ["all_gather_gemm", "gemm_reduce_scatter"]

_NUMBER_BYTES = 2
_ENGINES = 4  # that copies are divided between, as the presets of GPUs have
_WINDOW = 256 << 10  # bytes that the requests of an engine are for: 256 of 1 KiB


def gemm_reduce_scatter(
    m: int, n: int, k: int, ranks: int = 8, tile: tuple[int, int] = (128, 256)
) -> Collective:
    """Every rank computes a product of m by k and k by n; the sums of these are scattered by rows.

    Thread blocks compute tiles, those for the right neighbour first and those that the rank keeps last; copy
    engines put each to the rank that adds it up. The collective is a reduce-scatter of ``2 m n`` bytes.

    Parameters
    ----------
    m, n, k : int
        Of each rank's product.
    ranks : int
    tile : tuple of (int, int)
        Rows and columns of a tile.

    Raises
    ------
    InputError
        The product of a rank's rows cannot be cut into such tiles.

    Examples
    --------
    >>> gemm_reduce_scatter(1024, 512, 256, ranks=4).title
    'reduce_scatter/gemm_reduce_scatter'
    """
    rows, columns = _tiles(m, n, ranks, tile)

    def write(p: Program) -> None:
        parts = list(p.cut_into(rows * columns))
        computed, arrived = ({}, {})
        for me in p.everyone:
            for part in parts:
                arrived[me.number, part] = me.semaphore()
                for you in me.others:
                    computed[me.number, you.number, part] = me.semaphore()
        for me in p.everyone:
            queue = _Queue(p, me, _NUMBER_BYTES * tile[0] * tile[1])
            for you in [*me.others, me]:
                for part in p.cut_into(rows * columns):
                    row, column = divmod(part, columns)
                    block = me.block()
                    block.phase("product")
                    of = me.panels[you.number * rows + row], me.panels[p.ranks * rows + column]
                    block.product(*tile, k, of, me.input[you.number])
                    if you != me:
                        ready = computed[me.number, you.number, part]
                        block.signal(ready)
                        into = you.scratch[me.number]
                        queue.put(me.input[you.number], into, arrived[you.number, part], ready)
                        continue
                    block.phase("reduce")
                    block.wait(arrived[me.number, part], p.ranks - 1)
                    others = [me.scratch[other.number] for other in me.others]
                    block.reduce([me.input[me.number], *others], me.output[0])
            queue.end()

    write.__name__ = "gemm_reduce_scatter"
    return Collective.of("reduce_scatter", _NUMBER_BYTES * m * n, write, channels=1)


def all_gather_gemm(m: int, n: int, k: int, ranks: int = 8, tile: tuple[int, int] = (128, 256)) -> Collective:
    """Every rank gathers all rows of an m by k matrix and computes their product with k by n of its own.

    Copy engines move rows of tiles, beginning with the right neighbour; thread blocks compute with the rank's
    own rows first, and then with others as they come. The collective is an all-gather of ``2 m k`` bytes.

    Parameters
    ----------
    m, n, k : int
        Of each rank's product.
    ranks : int
    tile : tuple of (int, int)
        Rows and columns of a tile.

    Raises
    ------
    InputError
        The product of a rank's rows cannot be cut into such tiles.

    Examples
    --------
    >>> all_gather_gemm(1024, 512, 256, ranks=4).size
    524288
    """
    rows, columns = _tiles(m, n, ranks, tile)

    def write(p: Program) -> None:
        pairs = [(me, you) for me in p.everyone for you in me.others]
        come = {(row, me.number, you.number): me.semaphore() for row in p.cut_into(rows) for me, you in pairs}
        for me in p.everyone:
            queue = _Queue(p, me, _NUMBER_BYTES * tile[0] * k)
            for you in me.others:
                for row in p.cut_into(rows):
                    queue.put(me.input[0], you.output[me.number], come[row, you.number, me.number])
            for _ in p.cut_into(rows):
                queue.put(me.input[0], me.output[me.number])
            queue.end()
            for you in [me, *reversed(me.others)]:
                for row in p.cut_into(rows):
                    for column in range(columns):
                        block = me.block()
                        block.phase("product")
                        gathered = me.input[0]
                        if you != me:
                            gathered = me.output[you.number]
                            block.wait(come[row, me.number, you.number])
                        result = me.panels[columns + (you.number * rows + row) * columns + column]
                        block.product(*tile, k, (gathered, me.panels[column]), result)

    write.__name__ = "all_gather_gemm"
    return Collective.of("all_gather", _NUMBER_BYTES * m * k, write, channels=1)


class _Queue:
    """Copies by a rank's engines in turn, each announced when complete, while later ones are under way.

    Parameters
    ----------
    program : Program
    rank : Rank
    size : int
        Bytes of a copy.
    """

    def __init__(self, program: Program, rank: Rank, size: int) -> None:
        if program.nics_move:
            where, hint = f"program {program.name!r}", "use an infrastructure of one node"
            raise InputError("copy engines do not reach other nodes", where=where, hint=hint)
        self._under_way = max(0, _WINDOW // size - 1)
        self._engines = [program.engine(rank.number) for _ in range(_ENGINES)]
        self._pending: list[list[Semaphore | None]] = [[] for _ in self._engines]
        self._count = 0
        for engine in self._engines:
            engine.phase("copy")

    def put(
        self, source: Chunk, target: Chunk, announce: Semaphore | None = None, ready: Semaphore | None = None
    ) -> None:
        """Copy a chunk once a semaphore has risen, and raise another one then."""
        number = self._count % _ENGINES
        self._count += 1
        if ready is not None:
            self._engines[number].wait(ready)
        self._engines[number].copy(source, target)
        self._pending[number].append(announce)
        self._announce(number, self._under_way)

    def end(self) -> None:
        """Announce what has not been announced."""
        for number, pending in enumerate(self._pending):
            for most in range(len(pending) - 1, -1, -1):
                self._announce(number, most)

    def _announce(self, number: int, most: int) -> None:
        """Announce the earliest copy of an engine once only so many after it are under way."""
        engine, pending = self._engines[number], self._pending[number]
        if len(pending) <= most:
            return
        semaphore = pending.pop(0)
        if semaphore is not None:
            engine.waitcnt(most)
            engine.signal(semaphore, relaxed=True)


def _tiles(m: int, n: int, ranks: int, tile: tuple[int, int]) -> tuple[int, int]:
    """Return how many rows and columns of tiles the product of one rank's rows has."""
    if min(m, n, ranks, *tile) < 1 or m % (ranks * tile[0]) or n % tile[1]:
        raise InputError(
            f"a product of {m} x {n} for {ranks} ranks cannot be cut into tiles of {tile[0]} x {tile[1]}",
            where="tile",
            hint=f"m must be a multiple of {ranks * tile[0]}, n of {tile[1]}",
        )
    return m // ranks // tile[0], n // tile[1]
