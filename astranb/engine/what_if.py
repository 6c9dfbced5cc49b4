"""Effect of a change on the time of a run, and tables of such changes."""

# ruff: noqa: SLF001 - a table writes its own rows

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from astranb.core.data_frames import frame
from astranb.core.display import Displayed
from astranb.core.units import format_time, us

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Change", "WhatIf"]


@dataclass(frozen=True, slots=True)
class Change(Displayed):
    """Effect of a change on the time of a run.

    Attributes
    ----------
    path : str
        What is changed: ``A->B.bandwidth`` (all lanes), ``gpu.hbm``, ``*->*.latency`` (every
        link), ``gpu[*].noc`` (every GPU).
    value : str
        ``x2`` (twice as much), ``x0.5``, or a value with a unit.
    was : str
        What it is now.
    before_ps : int
        Time of the run as it is.
    on_path_ps : int
        Time of the critical path that depends on it.
    estimate_ps : int or None
        ESTIMATE of the time with the change: what of the critical path depends on it is
        scaled, everything else stays. None for workloads, which are run instead.
    at_least_ps : int or None
        The run cannot become shorter than this: the same path with the change and without
        any wait for others. It holds while reads hit and miss the same caches, and messages
        take the same routes. A packet (LL, LL128) that comes before its read and no longer after
        it is found in L2, which saves a read of HBM: of 2,880 answers about packets, of up to 12
        kB on eight GPUs, 5 were shorter for this, by up to 2.4%.
    exact_ps : int or None
        EXACT time with the change, of a run of its own; None where it has not been run.
    causes : tuple of (str, int, int)
        What the time consists of, in ps as it is and with the change (of workloads that were run).
    """

    path: str
    value: str
    was: str
    before_ps: int
    on_path_ps: int
    estimate_ps: int | None = None
    at_least_ps: int | None = None
    exact_ps: int | None = None
    causes: tuple[tuple[str, int, int], ...] = ()

    @property
    def exact_us(self) -> float | None:
        """:attr:`exact_ps` in microseconds."""
        return None if self.exact_ps is None else self.exact_ps / us

    def __str__(self) -> str:
        """One line for a person."""
        found = "not run"
        if self.exact_ps is not None:
            found = f"{self._said(self.exact_ps)}, run and exact"
        elif self.estimate_ps is not None:
            found = f"about {self._said(self.estimate_ps)}, an estimate"
        return f"{self.path} {self.value} (is {self.was}): {found}; now {format_time(self.before_ps)}"

    def _said(self, ps: int | None, otherwise: str = "") -> str:
        if ps is None:
            return otherwise
        return f"{format_time(ps)} ({(ps - self.before_ps) / max(1, self.before_ps):+.1%})"


class WhatIf(Displayed):
    """Changes that matter most to the time of a run, each with an estimate.

    Attributes
    ----------
    rows : tuple of Change
        The largest estimated gain first.
    """

    def __init__(self, rows: list[Change]) -> None:
        self.rows = tuple(rows)

    def __iter__(self) -> Iterator[Change]:
        """The changes."""
        return iter(self.rows)

    def __len__(self) -> int:
        """Number of changes."""
        return len(self.rows)

    def to_dataframe(self, *, time: str | None = None) -> pd.DataFrame:
        """The changes as a pandas frame; times in ps, or in the unit `time`."""
        names = [name for name in Change.__slots__ if name != "causes"]
        if any(row.causes for row in self.rows):  # they were run: nothing is estimated
            names = [name for name in names if name not in ("estimate_ps", "at_least_ps")]
        rows = []
        for row in self.rows:
            said = {name: getattr(row, name) for name in names}
            rows.append(said | {f"{cause}_difference_ps": new - old for cause, old, new in row.causes})
        return frame(rows, time)

    def __str__(self) -> str:
        """A line a change."""
        return "\n".join(str(row) for row in self.rows) or "nothing that could be changed is on the path"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><td>{escape(r.path)}</td><td>{escape(r.value)}</td><td>{escape(r.was)}</td>"
            f"<td>{r._said(r.estimate_ps, '-')}</td>"
            f"<td>{'-' if r.at_least_ps is None else format_time(r.at_least_ps)}</td>"
            f"<td>{r._said(r.exact_ps, 'not run')}</td></tr>"
            for r in self.rows
        )
        head = "<th>what</th><th>change</th><th>is</th><th>estimate</th><th>at least</th><th>exact</th>"
        return f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
