"""The critical path of a run: what the time consists of, without a gap, from the start to the end."""

from __future__ import annotations

from collections.abc import Callable, Generator

from astranb.engine.critical_path import CriticalPath, Segment
from astranb.engine.protocol import Replica

from ._paths import block_path, gpu_path, sm_path
from ._state import CacheLineState
from ._trace import Trace
from ._walk import CAUSES, Piece, Walker

__all__ = ["LinePath", "search"]


class LinePath(CriticalPath):
    """The critical path of a run by cache lines.

    Nothing is estimated and nothing need have been recorded: the run is deterministic, and a
    private copy replays it and records every event. A wait behind other lines (in a queue, for
    an issue slot) is a segment of the line that waits.

    Parameters
    ----------
    engine : CacheLineState
    pieces : list of Piece
        As :class:`~astranb.engine.cacheline._walk.Walker` finds them, one for each segment.

    Attributes
    ----------
    gpu_of_sm : list of int
    """

    def __init__(self, engine: CacheLineState, pieces: list[Piece]) -> None:
        title = f"{engine.work.title} on {engine.infra.name}"
        super().__init__(title, (_segment(engine, piece) for piece in pieces), CAUSES)
        self.pieces = pieces
        self.gpu_of_sm: list[int] = engine.machine.sms["gpu"].tolist()


def search(engine: CacheLineState, replica: Callable[[], Replica]) -> Generator[float, None, LinePath]:
    """Find the critical path of a run up to now, in small steps.

    Parameters
    ----------
    engine : CacheLineState
        It must not be moved meanwhile.
    replica : callable
        Gives a private copy of the run that can be moved.

    Yields
    ------
    float
        The part of the time that is explained.

    Returns
    -------
    LinePath
    """
    walker = Walker(engine, Trace(engine.events, replica))
    total = max(1, engine.now_ps)
    for left_ps in walker.steps():
        yield 1 - left_ps / total
    return LinePath(engine, walker.pieces())


def _segment(engine: CacheLineState, piece: Piece) -> Segment:
    """Put names on a piece."""
    machine, fabric = engine.machine, engine.fabric
    kind, number = piece.where
    if kind == "link":
        resource = fabric.name(number)
    elif kind == "gpu":
        resource = gpu_path(fabric, number)
    elif kind == "sm":
        resource = sm_path(fabric, machine, number)
    else:
        resource = str(fabric.graph.name(number)) if number >= 0 else "a switch"
    op = machine.ops[piece.op] if piece.op >= 0 else None
    names = engine.program.phase_names
    return Segment(
        piece.start_ps,
        piece.end_ps,
        int(machine.blocks[piece.block].gpu),
        block_path(fabric, machine, piece.block),
        -1 if op is None else int(op.number),
        "" if op is None or not names else names[int(op.phase)],
        piece.cause,
        resource,
        passes=piece.passes,
    )
