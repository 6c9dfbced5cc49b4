"""The critical path of a run: what the time consists of, without a gap, from the start to the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Generator, Iterator
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING

from astranb.core.units import format_time

from ._paths import block_path, gpu_path, sm_path
from ._trace import Trace
from ._walk import CAUSES, Piece, Walker

if TYPE_CHECKING:
    import pandas as pd

    from astranb.sim._simulation import Simulation

__all__ = ["CriticalPath", "Segment", "search"]

_MOST_ROWS = 12


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of the critical path.

    Attributes
    ----------
    start_ps, end_ps : int
    rank : int
        Of the GPU whose thread block it is.
    block : str
        Path of the thread block whose instruction, line or wait it is.
    op : int
        Place of the operation in its block; -1 before the first.
    phase : str
        Of the collective.
    cause : str
        One of :data:`~astranb.sim.CAUSES`.
    resource : str
        Path of the link, GPU, SM or switch where the time passed.
    passes : int
        How many lines, instructions or polls it consists of, one after the other.
    """

    start_ps: int
    end_ps: int
    rank: int
    block: str
    op: int
    phase: str
    cause: str
    resource: str
    passes: int

    @property
    def length_ps(self) -> int:
        """How long it is."""
        return self.end_ps - self.start_ps


class CriticalPath:
    """What the time of a run consists of: one thing after the other, from the start to the end.

    Nothing is estimated and nothing need have been recorded: the run is deterministic, and a
    private copy replays it and notes every event. A wait behind other lines (in a queue, for
    an issue slot) is a segment of the line that waits.

    Parameters
    ----------
    sim : Simulation
    pieces : list of Piece
        As :class:`~astranb.engine.cacheline._walk.Walker` finds them.

    Attributes
    ----------
    time_ps : int
        What the segments add up to: the time of the run, or up to now.
    segments : tuple of Segment
        In the order of time; each begins where the one before ends.

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("4 KiB", "allpairs"))
    >>> sim.run().why
    'end'
    >>> path = sim.critical_path()
    >>> sum(path.by_cause().values()) == path.time_ps == sim.result.time_ps
    True
    >>> path.segments[0].start_ps, path.segments[-1].end_ps == path.time_ps
    (0, True)
    """

    def __init__(self, sim: Simulation, pieces: list[Piece]) -> None:
        self.pieces = pieces
        self.time_ps = pieces[-1].end_ps if pieces else 0
        self._title = f"{sim.collective.title} on {sim.infra.name}"
        self.segments = tuple(_segment(sim, piece) for piece in pieces)
        self.gpu_of_sm: list[int] = sim.machine.sms["gpu"].tolist()

    def by_cause(self) -> dict[str, int]:
        """Time in ps of each cause, most first; they add up to ``time_ps``."""
        return _added((s.cause, s.length_ps) for s in self.segments)

    def by_resource(self) -> dict[str, int]:
        """Time in ps at each link, GPU, SM and switch, most first; they add up to ``time_ps``."""
        return _added((s.resource, s.length_ps) for s in self.segments)

    def to_dataframe(self) -> pd.DataFrame:
        """The segments as a pandas frame, a row each; times in ps."""
        import pandas as pd

        return pd.DataFrame([{**asdict(s), "length_ps": s.length_ps} for s in self.segments])

    def summary(self) -> str:
        """A few lines for a person: the causes, and where the most time passes."""
        total = max(1, self.time_ps)
        lines = [
            f"Critical path of {self._title}: {format_time(self.time_ps)}, {len(self.segments)} segments"
        ]
        for cause, ps in self.by_cause().items():
            lines.append(f"  {ps / total:>6.1%}  {format_time(ps):>12}  {cause}: {CAUSES[cause]}")
        lines.append("Where:")
        places = list(self.by_resource().items())
        for resource, ps in places[:_MOST_ROWS]:
            lines.append(f"  {ps / total:>6.1%}  {format_time(ps):>12}  {resource}")
        if len(places) > _MOST_ROWS:
            rest = sum(ps for _, ps in places[_MOST_ROWS:])
            lines.append(
                f"  {rest / total:>6.1%}  {format_time(rest):>12}  {len(places) - _MOST_ROWS} others"
            )
        return "\n".join(lines)

    def __len__(self) -> int:
        """How many segments."""
        return len(self.segments)

    def __iter__(self) -> Iterator[Segment]:
        """The segments in the order of time."""
        return iter(self.segments)

    def __str__(self) -> str:
        """The summary."""
        return self.summary()

    __repr__ = __str__

    def _repr_html_(self) -> str:
        total = max(1, self.time_ps)
        rows = "".join(
            f"<tr><td>{escape(cause)}</td><td style='text-align:right'>{format_time(ps)}</td>"
            f"<td style='text-align:right'>{ps / total:.1%}</td>"
            f"<td style='text-align:left'>{escape(CAUSES[cause])}</td></tr>"
            for cause, ps in self.by_cause().items()
        )
        return (
            f"<b>Critical path of {escape(self._title)}: {format_time(self.time_ps)}</b>"
            "<table><thead><tr><th>cause</th><th>time</th><th>share</th><th>what it is</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )


def search(sim: Simulation) -> Generator[float, None, CriticalPath]:
    """Find the critical path of a run up to now, in small steps.

    Parameters
    ----------
    sim : Simulation
        It must not be moved meanwhile.

    Yields
    ------
    float
        The part of the time that is explained.

    Returns
    -------
    CriticalPath
    """
    walker = Walker(sim, Trace(sim))
    total = max(1, sim.now_ps)
    for left_ps in walker.steps():
        yield 1 - left_ps / total
    return CriticalPath(sim, walker.pieces())


def _added(parts: Iterator[tuple[str, int]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for name, ps in parts:
        sums[name] += ps
    return dict(sums.most_common())


def _segment(sim: Simulation, piece: Piece) -> Segment:
    """Put names on a piece."""
    machine, fabric = sim.machine, sim.fabric
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
    names = sim.program.phase_names
    return Segment(
        piece.start_ps,
        piece.end_ps,
        int(machine.blocks[piece.block].gpu),
        block_path(fabric, machine, piece.block),
        -1 if op is None else int(op.number),
        "" if op is None or not names else names[int(op.phase)],
        piece.cause,
        resource,
        piece.passes,
    )
