"""The critical path of a run: what its time consists of, without a gap, from the start to the end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from html import escape
from typing import TYPE_CHECKING

from astranb.core.data_frames import frame
from astranb.core.display import Displayed
from astranb.core.plural import plural
from astranb.core.units import format_time

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CriticalPath", "Segment"]

_MOST_ROWS = 12


@dataclass(frozen=True, slots=True)
class Segment(Displayed):
    """A stretch of the critical path.

    Attributes
    ----------
    start_ps, end_ps : int
    rank : int
    path : str
        Path of the thread block or operation whose time it is.
    op : int
        Number of the operation in its thread block or rank; -1 before the first.
    name : str
        The operation, or the phase of the collective.
    cause : str
        A key of :attr:`CriticalPath.meanings`.
    resource : str
        Path of the link, GPU, SM, switch or rank where the time passed.
    because : str
        Why what comes after it could not begin earlier; empty where the cause says it.
    passes : int
        How many lines, instructions or polls it consists of, one after the other.
    """

    start_ps: int
    end_ps: int
    rank: int
    path: str
    op: int
    name: str
    cause: str
    resource: str
    because: str = ""
    passes: int = 1

    @property
    def length_ps(self) -> int:
        """Length in ps."""
        return self.end_ps - self.start_ps

    def __str__(self) -> str:
        """One line for a person."""
        when = f"{format_time(self.start_ps)} to {format_time(self.end_ps)}"
        return f"{when}: {self.cause} at {self.resource} (rank {self.rank}, {self.name})"


class CriticalPath(Displayed):
    """Segments that the time of a run consists of, one after the other, from the start to the end.

    Parameters
    ----------
    title : str
        What ran on what.
    segments : iterable of Segment
        In the order of time; each begins where the one before ends.
    meanings : mapping of str to str
        What each cause means.

    Attributes
    ----------
    time_ps : int
        What the segments add up to: the time of the run, or up to now.
    segments : tuple of Segment

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

    def __init__(self, title: str, segments: Iterable[Segment], meanings: Mapping[str, str]) -> None:
        self.title, self.segments, self.meanings = title, tuple(segments), meanings
        self.time_ps = self.segments[-1].end_ps if self.segments else 0

    def by_cause(self) -> dict[str, int]:
        """Time in ps of each cause, most first; they add up to ``time_ps``."""
        return _added((s.cause, s.length_ps) for s in self.segments)

    def by_resource(self) -> dict[str, int]:
        """Time in ps at each link, GPU, SM, switch or rank, most first; they add up to ``time_ps``."""
        return _added((s.resource, s.length_ps) for s in self.segments)

    def to_dataframe(self, *, time: str | None = None) -> pd.DataFrame:
        """The segments as a pandas frame, a row each; times in ps, or in the unit `time`."""
        return frame(self.rows(), time)

    def rows(self) -> list[dict[str, object]]:
        """The segments as a list of dict; times in ps."""
        return [{**asdict(s), "length_ps": s.length_ps} for s in self.segments]

    def summary(self) -> str:
        """A few lines for a person: the causes, and where the most time passes."""
        total = max(1, self.time_ps)
        lines = [
            (
                f"Critical path of {self.title}: {format_time(self.time_ps)}, "
                f"{plural(len(self.segments), 'segment')}"
            ),
            *self.cause_lines(),
            "Where:",
        ]
        places = list(self.by_resource().items())
        for resource, ps in places[:_MOST_ROWS]:
            lines.append(f"  {ps / total:>6.1%}  {format_time(ps):>12}  {resource}")
        if len(places) > _MOST_ROWS:
            rest = sum(ps for _, ps in places[_MOST_ROWS:])
            lines.append(
                f"  {rest / total:>6.1%}  {format_time(rest):>12}  "
                f"{plural(len(places) - _MOST_ROWS, 'other')}"
            )
        return "\n".join(lines)

    def cause_lines(self) -> list[str]:
        """A line a cause: its share, its time and what it means."""
        total = max(1, self.time_ps)
        return [
            f"  {ps / total:>6.1%}  {format_time(ps):>12}  {cause}: {self.meanings[cause]}"
            for cause, ps in self.by_cause().items()
        ]

    def __len__(self) -> int:
        """Number of segments."""
        return len(self.segments)

    def __getitem__(self, number: int) -> Segment:
        """A segment by its number; the last one is -1."""
        return self.segments[number]

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
            f"<td style='text-align:left'>{escape(self.meanings[cause])}</td></tr>"
            for cause, ps in self.by_cause().items()
        )
        return (
            f"<b>Critical path of {escape(self.title)}: {format_time(self.time_ps)}</b>"
            "<table><thead><tr><th>cause</th><th>time</th><th>share</th><th>what it is</th></tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )


def _added(parts: Iterable[tuple[str, int]]) -> dict[str, int]:
    sums: Counter[str] = Counter()
    for name, ps in parts:
        sums[name] += ps
    return {name: ps for name, ps in sums.most_common() if ps}
