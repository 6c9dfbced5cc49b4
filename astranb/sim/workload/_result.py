"""What a workload took, and where the time went; readable at any moment of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.files import whole_file
from astranb.core.units import format_bytes, format_time
from astranb.engine.messages._about import ALGORITHMS
from astranb.engine.messages._critical import CAUSES, Piece, sums
from astranb.engine.messages._spans import LANES, shares, spans_of

if TYPE_CHECKING:
    import pandas as pd

    from ._standing import Standing

__all__ = ["TABLES", "WorkloadResult"]

_MOST = 8
_MOST_LINKS = 4

TABLES = ("ranks", "operations", "collectives", "phases", "dimensions", "links", "layers", "critical_path")
"""What :meth:`WorkloadResult.to_dataframe` gives."""


class WorkloadResult:
    """Times, traffic and breakdowns of a workload as it stands.

    Parameters
    ----------
    sim : WorkloadSimulation
        It may be in the middle: then everything is up to now.

    Notes
    -----
    *Exposed communication* (``exposed_comm_ps``): the time in which a rank has a collective, a
    send, a receive or a broadcast issued and not over, and no computation under way, on the CPU
    or on the GPU. ASTRA-sim 2.0's (``astrasim_exposed_comm_ps``) is the rank's whole time less
    the sum of its GPU computations: idling, remote memory and the CPU's operations count too.
    """

    def __init__(self, sim: Standing) -> None:
        self._sim = sim

    @property
    def time_ps(self) -> int:
        """When the last rank was done; up to now while it runs."""
        return int(shares(self._sim)["end"].max(initial=0))

    def per_rank(self) -> list[dict[str, Any]]:
        """One dict a rank: its end and how its time divides.

        ``compute_ps``, ``exposed_comm_ps``, ``memory_ps`` and ``idle_ps`` add up to ``end_ps``.
        """
        parts = shares(self._sim)
        computed, done = self._sim.state.computed_ps(), (self._sim.state.ends_ps() >= 0).tolist()
        overlapped = parts["communication"] - parts["exposed_comm"]
        columns = {
            "end_ps": parts["end"], "compute_ps": parts["compute"],
            "exposed_comm_ps": parts["exposed_comm"],
            "memory_ps": parts["memory"], "idle_ps": parts["idle"],
            "communication_ps": parts["communication"],
            "overlapped_comm_ps": overlapped, "astrasim_compute_ps": computed,
            "astrasim_exposed_comm_ps": parts["end"] - computed,
        }  # fmt: skip
        names = list(columns)
        rows = zip(*(np.asarray(c).tolist() for c in columns.values()), strict=True)
        return [
            {"rank": rank, "done": done[rank], **dict(zip(names, row, strict=True))}
            for rank, row in enumerate(rows)
        ]

    def breakdown(self) -> dict[str, float]:
        """Fractions of all ranks' time; they add up to 1."""
        parts = shares(self._sim)
        total = max(1, int(parts["end"].sum()))
        return {
            name: int(parts[name].sum()) / total for name in ("compute", "exposed_comm", "memory", "idle")
        }

    def critical_path(self) -> list[Piece]:
        """The operations each of which had to wait for the one before: together, the whole time."""
        return self._sim.state.critical_path(self._sim)

    def by_cause(self) -> dict[str, int]:
        """How much of the critical path passes in each cause, in ps; the largest first."""
        return sums(self.critical_path())

    def summary(self) -> str:
        """A few lines for a person."""
        sim = self._sim
        took = format_time(self.time_ps) + ("" if sim.finished else " so far")
        counts = sim.counts
        done = f"{counts['operation']:,} operations"
        last = "message" if "message" in counts else "phase"
        parts = ", ".join(f"{name.replace('_', ' ')} {part:.1%}" for name, part in self.breakdown().items())
        return "\n".join(
            [
                f"{sim.title}: {sim.crowd} on {' x '.join(sim.about.topology)}",
                f"time    {took}   ({sim.events:,} events, {done}, {counts[last]:,} {last}s)",
                f"ranks   {parts}",
            ]
        )

    def explain(self) -> str:
        """Say where the time went: per rank, per dimension, and what had to wait for what."""
        sim, about = self._sim, self._sim.about
        rows = self.per_rank()
        lines = [self.summary(), ""]
        if rows:
            last = max(rows, key=lambda r: (r["end_ps"], -r["rank"]))
            most = max(rows, key=lambda r: (r["exposed_comm_ps"], -r["rank"]))
            own, peers = (format_time(most[f"{of}exposed_comm_ps"]) for of in ("", "astrasim_"))
            lines += [
                f"Rank {last['rank']} ends last, at {format_time(last['end_ps'])}.",
                f"Rank {most['rank']} has most exposed communication, {own} (ASTRA-sim's: {peers}).",
            ]
        if sim.recording:
            used = [(self.dimension(dim), dim) for dim in range(len(about.topology))]
            lines += ["", "Dimensions (of their links' bandwidth, over the whole time):"]
            lines += [
                f"  {row['utilisation']:>6.1%}  dim {dim} ({row['shape']}): {format_bytes(row['bytes'])}"
                for row, dim in used
            ]
        busiest = sorted(self.rows("links"), key=lambda row: (-row["busy_ps"], row["link"]))[:_MOST_LINKS]
        if busiest:
            lines += ["", "Busiest links:"]
            lines += [
                f"  {row['utilisation']:>6.1%}  link[{row['link']}], {row['from']} to {row['to']}"
                for row in busiest
            ]
        path = self.critical_path()
        total = max(1, sum(p.end_ps - p.start_ps for p in path))
        if path:
            lines += ["", "What the time consists of (critical path):"]
            lines += [f"  {ps / total:>4.0%}  {cause}: {CAUSES[cause]}" for cause, ps in sums(path).items()]
            longest = sorted(path, key=lambda p: p.start_ps - p.end_ps)[:_MOST]
            lines += ["", "Its longest pieces, in order:"]
            for piece in sorted(longest, key=lambda p: p.start_ps):
                span = f"{format_time(piece.start_ps)} to {format_time(piece.end_ps)}"
                lines.append(f"  {span}  rank {piece.npu}: {about.text(piece.row)}; {piece.because}")
        return "\n".join([*lines, *sim.state.lines(sim)])

    def to_dataframe(self, what: str = "ranks") -> pd.DataFrame:
        """Give a table as a pandas frame.

        Parameters
        ----------
        what : str
            ``ranks``, ``operations`` (a row for each that has begun), ``collectives`` (a row for
            each, over its ranks), ``phases`` (of chunks, as far as recorded), ``dimensions``,
            ``links`` (with congestion) or ``critical_path``; of ASTRA-sim 1.0's files ``layers``
            in place of ``links``.

        Returns
        -------
        pandas.DataFrame
            The unit stands in a column's name.

        Raises
        ------
        InputError
            There is no such table.
        """
        import pandas as pd

        return pd.DataFrame(self.table(what))

    def table(self, what: str) -> Any:
        """The same without pandas: a list of rows, or columns by name."""
        makers = self._makers
        if what not in makers:
            raise InputError(f"there is no table {what!r}", where="to_dataframe", hint=near(what, makers))
        return makers[what]()

    def rows(self, what: str) -> list[dict[str, Any]]:
        """The rows of a table; none where this kind of workload has no such table."""
        return list(self._makers.get(what, list)())

    @property
    def tables(self) -> list[str]:
        """The tables that there are of this kind of workload."""
        return list(self._makers)

    @property
    def _makers(self) -> dict[str, Callable[[], Any]]:
        """What gives each table, in the order in which they are written."""
        makers: dict[str, Callable[[], Any]] = {
            "ranks": self.per_rank,
            "operations": self._operations,
            "phases": self._phases,
            "dimensions": lambda: [self.dimension(dim) for dim in range(len(self._sim.about.topology))],
            "critical_path": self._path,
            **self._sim.state.tables(self._sim),
        }
        return {name: makers[name] for name in TABLES if name in makers}

    def write_frames(self, folder: str | Path) -> list[str]:
        """Write every table as ``NAME.csv`` into a folder, which is made where it is not there.

        Parameters
        ----------
        folder : str or Path

        Returns
        -------
        list of str
            The tables' names; those without a row have no file.

        Raises
        ------
        InputError
            It cannot be written there.
        """
        place = Path(folder)
        try:
            place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            hint = "name a folder that can be made"
            raise InputError(error.strerror or str(error), where=str(folder), hint=hint) from error
        written = []
        for name in self.tables:
            frame = self.to_dataframe(name)
            if len(frame):
                with whole_file(place / f"{name}.csv") as file:
                    file.write(frame.to_csv(index=False).encode())
                written.append(name)
        return written

    def to_perfetto(self, path: str | Path) -> dict[str, Any]:
        """Write a trace for Perfetto or Chrome: ranks as processes, operations and chunks as spans."""
        from ._perfetto import perfetto

        return perfetto(self._sim, path)

    def dimension(self, dim: int) -> dict[str, Any]:
        """What was sent in a dimension; ``utilisation`` is the share of all its links' bandwidth.

        Above 1, messages that do not wait for one another went faster than the links could carry them.
        """
        return self._sim.state.dimension(self._sim, dim)

    def _operations(self) -> dict[str, Any]:
        spans, about = spans_of(self._sim), self._sim.about
        over = self._sim.state.times_ps()[1][spans.row] >= 0
        rows = spans.row.tolist()
        return {
            "rank": spans.npu,
            "operation": [about.number(row) for row in rows],
            "name": [about.label(row) for row in rows],
            "what": [about.what(row) for row in rows],
            "lane": np.array(LANES, object)[spans.lane],
            "bytes": about.size[spans.row],
            "start_ps": spans.start_ps,
            "end_ps": spans.end_ps,
            "duration_ps": spans.end_ps - spans.start_ps,
            "done": over,
        }

    def _phases(self) -> dict[str, Any]:
        rows, about = self.phases(), self._sim.about
        return {
            "rank": rows["npu"],
            "name": [about.label(row) for row in rows["operation"].tolist()],
            "chunk": rows["chunk"],
            "phase": rows["phase"],
            "dimension": rows["dim"],
            "algorithm": np.array(ALGORITHMS, object)[rows["algorithm"]],
            "queued_ps": rows["queued_ps"],
            "start_ps": rows["begun_ps"],
            "end_ps": rows["end_ps"],
        }

    def phases(self) -> dict[str, np.ndarray]:
        """The phases of chunks that are over, in the order of their ends, as far as they are kept."""
        return self._sim.state.passed()

    def _path(self) -> list[dict[str, Any]]:
        about = self._sim.about
        return [
            {
                "rank": p.npu, "operation": about.number(p.row), "name": about.label(p.row), "cause": p.cause,
                "start_ps": p.start_ps, "end_ps": p.end_ps, "because": p.because,
            }
            for p in self.critical_path()
        ]  # fmt: skip

    def _repr_html_(self) -> str:
        """The summary, for a notebook."""
        from html import escape

        return f"<pre>{escape(self.summary())}</pre>"

    def __repr__(self) -> str:
        """The summary."""
        return self.summary()
