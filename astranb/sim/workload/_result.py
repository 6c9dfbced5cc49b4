"""What a workload took, and where the time went; readable at any moment of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.core.errors import InputError, near
from astranb.core.files import whole_file
from astranb.core.units import format_bytes, format_time
from astranb.net._astrasim2 import FULLY_CONNECTED

from ._about import ALGORITHMS
from ._critical import CAUSES, Piece, critical_path, sums
from ._ends import dimension_of, ends_of
from ._spans import LANES, computed_ns, instances, shares, spans_of

if TYPE_CHECKING:
    import pandas as pd

    from ._standing import Standing

__all__ = ["TABLES", "WorkloadResult"]

_MOST = 8
_MOST_LINKS = 4

TABLES = ("ranks", "operations", "collectives", "phases", "dimensions", "links", "critical_path")
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
        return int(shares(self._sim)["end"].max(initial=0)) * 1000

    def per_rank(self) -> list[dict[str, Any]]:
        """One dict a rank: its end and how its time divides.

        ``compute_ps``, ``exposed_comm_ps``, ``memory_ps`` and ``idle_ps`` add up to ``end_ps``.
        """
        parts = shares(self._sim)
        npus = self._sim.state.machine.npus
        computed = computed_ns(self._sim)
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
        rows = zip(*((np.asarray(c) * 1000).tolist() for c in columns.values()), strict=True)
        done = (npus.end_ns >= 0).tolist()
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
        return critical_path(self._sim)

    def by_cause(self) -> dict[str, int]:
        """How much of the critical path passes in each cause, in ns; the largest first."""
        return sums(self.critical_path())

    def summary(self) -> str:
        """A few lines for a person."""
        sim = self._sim
        took = format_time(self.time_ps) + ("" if sim.finished else " so far")
        counts = sim.counts
        done = f"{counts['operation']:,} operations"
        parts = ", ".join(f"{name.replace('_', ' ')} {part:.1%}" for name, part in self.breakdown().items())
        return "\n".join(
            [
                f"{sim.title}: {sim.ranks:,} ranks on {' x '.join(sim.about.topology)}",
                f"time    {took}   ({sim.events:,} events, {done}, {counts['message']:,} messages)",
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
        busiest = sorted(self._links(), key=lambda row: (-row["busy_ps"], row["link"]))[:_MOST_LINKS]
        if busiest:
            lines += ["", "Busiest links:"]
            lines += [
                f"  {row['utilisation']:>6.1%}  link[{row['link']}], {row['from']} to {row['to']}"
                for row in busiest
            ]
        path = self.critical_path()
        total = max(1, sum(p.end_ns - p.start_ns for p in path))
        if path:
            lines += ["", "What the time consists of (critical path):"]
            lines += [f"  {ns / total:>4.0%}  {cause}: {CAUSES[cause]}" for cause, ns in sums(path).items()]
            longest = sorted(path, key=lambda p: p.start_ns - p.end_ns)[:_MOST]
            lines += ["", "Its longest pieces, in order:"]
            for piece in sorted(longest, key=lambda p: p.start_ns):
                span = f"{format_time(piece.start_ns * 1000)} to {format_time(piece.end_ns * 1000)}"
                lines.append(f"  {span}  rank {piece.npu}: {about.text(piece.row)}; {piece.because}")
        return "\n".join(lines)

    def to_dataframe(self, what: str = "ranks") -> pd.DataFrame:
        """Give a table as a pandas frame.

        Parameters
        ----------
        what : str
            ``ranks``, ``operations`` (a row for each that has begun), ``collectives`` (a row for
            each, over its ranks), ``phases`` (of chunks, as far as recorded), ``dimensions``,
            ``links`` (with congestion) or ``critical_path``.

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
        makers: dict[str, Callable[[], Any]] = {
            "ranks": self.per_rank,
            "operations": self._operations,
            "collectives": self._collectives,
            "phases": self._phases,
            "dimensions": lambda: [self.dimension(dim) for dim in range(len(self._sim.about.topology))],
            "links": self._links,
            "critical_path": self._path,
        }
        if what not in makers:
            raise InputError(f"there is no table {what!r}", where="to_dataframe", mend=near(what, makers))
        return makers[what]()

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
            mend = "name a folder that can be made"
            raise InputError(error.strerror or str(error), where=str(folder), mend=mend) from error
        written = []
        for name in TABLES:
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
        m = self._sim.state.machine
        row, npus = m.dims[dim], len(m.npus)
        mine: Any = m.traffic[dim :: len(m.dims)] if self._sim.recording else m.traffic[:0]
        links = npus * (int(row.nodes) - 1) if row.kind == FULLY_CONNECTED else 2 * npus
        could = links * float(row.rate_Bpns) * max(1, self.time_ps // 1000)
        return {
            "dimension": dim,
            "shape": f"{self._sim.about.topology[dim]} of {int(row.nodes)}",
            "links": links,
            "bandwidth_Bps": float(row.rate_Bpns) * 1e9,
            "latency_ns": float(row.latency_ns),
            "messages": int(mine.messages.sum()),
            "bytes": int(mine.bytes.sum()),
            "link_bytes": int(mine.crossed.sum()),
            "utilisation": int(mine.crossed.sum()) / could if could else 0.0,
        }

    def ends_of(self, link: int) -> tuple[str, str]:
        """What a link joins, in words."""
        return ends_of(self._sim.about, self._sim.state.machine, link)

    def _operations(self) -> dict[str, Any]:
        spans, about = spans_of(self._sim), self._sim.about
        over = np.asarray(self._sim.state.machine.operations.end_ns)[spans.row] >= 0
        rows = spans.row.tolist()
        return {
            "rank": spans.npu,
            "operation": [about.number(row) for row in rows],
            "name": [about.label(row) for row in rows],
            "what": [about.what(row) for row in rows],
            "lane": np.array(LANES, object)[spans.lane],
            "bytes": about.size[spans.row],
            "start_ps": spans.start_ns * 1000,
            "end_ps": spans.end_ns * 1000,
            "duration_ps": (spans.end_ns - spans.start_ns) * 1000,
            "done": over,
        }

    def _collectives(self) -> list[dict[str, Any]]:
        m, about = self._sim.state.machine, self._sim.about
        number = instances(self._sim)
        some = np.flatnonzero(number >= 0)
        some = some[np.argsort(number[some], kind="stable")]
        parts = np.split(some, np.flatnonzero(np.diff(number[some])) + 1) if len(some) else []
        rows = []
        for part in parts:
            of: Any = m.operations[part]
            first, last, end = int(of.start_ns.min()), int(of.start_ns.max()), int(of.end_ns.max())
            done = bool((of.end_ns >= 0).all())
            row = int(part[0])
            rows.append(
                {
                    "name": about.label(row), "collective": about.what(row), "bytes": int(about.size[row]),
                    "group": int(of.group[0]), "ranks": len(part), "chunks": int(of.streams.max()),
                    "start_ps": first * 1000, "last_start_ps": last * 1000,
                    "end_ps": end * 1000 if done else -1,
                    "skew_ps": (last - first) * 1000, "done": done,
                    "algbw_Bps": int(about.size[row]) * 1e9 / (end - last) if done and end > last else 0.0,
                }
            )  # fmt: skip
        return sorted(rows, key=lambda r: (r["start_ps"], r["group"]))

    def _phases(self) -> dict[str, Any]:
        rows, about = self.phases(), self._sim.about
        return {
            "rank": np.asarray(rows.npu),
            "name": [about.label(row) for row in rows.operation.tolist()],
            "chunk": np.asarray(rows.tag) % 500_000_000,
            "phase": np.asarray(rows.phase),
            "dimension": np.asarray(rows.dim),
            "algorithm": np.array(ALGORITHMS, object)[rows.algorithm],
            "queued_ps": np.asarray(rows.queued_ns) * 1000,
            "start_ps": np.asarray(rows.begun_ns) * 1000,
            "end_ps": np.asarray(rows.end_ns) * 1000,
        }

    def phases(self) -> Any:
        """The phases of chunks that are over, in the order of their ends, as far as they are kept."""
        m = self._sim.state.machine
        count, most = int(m.watch[0].passed), len(m.passed)
        if count <= most:
            return m.passed[:count]
        return m.passed[np.arange(count - most, count) % most]

    def _links(self) -> list[dict[str, Any]]:
        m = self._sim.state.machine
        if not (m.config[0].aware and self._sim.recording):
            return []
        now = max(1, self.time_ps // 1000)
        return [
            {
                "link": link, "from": self.ends_of(link)[0], "to": self.ends_of(link)[1],
                "dimension": dimension_of(m, link),
                "messages": int(m.used[link].messages), "bytes": int(m.used[link].bytes),
                "busy_ps": int(m.used[link].busy_ns) * 1000,
                "utilisation": min(1.0, int(m.used[link].busy_ns) / now),
            }
            for link in np.flatnonzero(m.used.messages).tolist()
        ]  # fmt: skip

    def _path(self) -> list[dict[str, Any]]:
        about = self._sim.about
        return [
            {
                "rank": p.npu, "operation": about.number(p.row), "name": about.label(p.row), "cause": p.cause,
                "start_ps": p.start_ns * 1000, "end_ps": p.end_ns * 1000, "because": p.because,
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
