"""What a run took, and where the time went; readable at any moment of it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from astranb.collectives import COLLECTIVES
from astranb.core.errors import InputError, near
from astranb.core.units import format_bandwidth, format_bytes, format_time
from astranb.engine.cacheline._dead import queued_ps
from astranb.engine.cacheline._ethernet import explain_ethernet, paused_ps
from astranb.engine.cacheline._frames import FRAMES
from astranb.engine.cacheline._walk import CAUSES
from astranb.gpu import tables as t

if TYPE_CHECKING:
    import pandas as pd

    from ._simulation import Simulation

__all__ = ["Result"]

_PARTS = ("moving", "waiting", "draining", "signalling")
_QUICK_EVENTS = 5_000_000  # some seconds of replay
_MOST_CAUSES = 6
_MEANING = {
    "moving": "issuing lines and waiting for the data of loads",
    "waiting": "polling a semaphore that another rank has yet to raise",
    "draining": "waiting at a fence until stores are acknowledged",
    "signalling": "issuing signals",
    "idle": "before the first block began or after the last ended",
}


class Result:
    """Times, bandwidths and breakdowns of a simulation as it stands.

    Parameters
    ----------
    sim : Simulation
        It may be in the middle: then everything is up to now.
    """

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim

    @property
    def time_ps(self) -> int:
        """From the start to the end of the last thread block (up to now while it runs)."""
        ended = self._sim.machine.gpus["ended_ps"]
        # A link may still fail or come back when all is done.
        over = self._sim.finished or self._sim.machine.clock[0].done == len(self._sim.machine.blocks)
        return int(ended.max()) if over else self._sim.now_ps

    @property
    def algbw_Bps(self) -> float:  # noqa: N802 - unit in the name
        """Algorithm bandwidth, size / time (nccl-tests, doc/PERFORMANCE.md); 0 while it runs."""
        return self._sim.collective.size * 1e12 / self.time_ps if self._sim.finished and self.time_ps else 0.0

    @property
    def busbw_Bps(self) -> float:  # noqa: N802
        """Bus bandwidth: algbw times the factor, as 2(n-1)/n for an all-reduce; 0 for a workload."""
        kind = COLLECTIVES.get(self._sim.collective.name)
        return self.algbw_Bps * kind.busbw(self._sim.program.ranks) if kind else 0.0

    def per_rank(self) -> list[dict[str, Any]]:
        """One dict a rank: its end, and how its thread blocks' time divides.

        The ``*_ps`` parts are means over the rank's blocks and add up to ``time_ps``.
        """
        machine, total = self._sim.machine, self.time_ps
        now = self._sim.now_ps
        rows = []
        for rank in range(len(machine.gpus)):
            mine = machine.blocks[machine.blocks["gpu"] == rank]
            count = max(1, len(mine))
            spent = {part: int(mine[f"{part}_ps"].sum()) for part in _PARTS}
            for state, part in ((t.MOVING, "moving"), (t.WAITING, "waiting"), (t.DRAINING, "draining")):
                under_way = mine[mine["state"] == state]
                spent[part] += int((now - under_way["since_ps"]).sum())
            row: dict[str, Any] = {
                "rank": rank,
                "name": self._sim.fabric.graph.name(int(self._sim.fabric.gpus[rank])),
                "end_ps": int(machine.gpus["ended_ps"][rank]),
                "blocks": len(mine),
                **{f"{part}_ps": spent[part] // count for part in _PARTS},
            }
            row["idle_ps"] = max(0, total - sum(row[f"{part}_ps"] for part in _PARTS))
            rows.append(row)
        return rows

    def breakdown(self) -> dict[str, float]:
        """Fractions of all thread blocks' time, by what they did; they add up to 1."""
        rows = self.per_rank()
        sums = {part: sum(r[f"{part}_ps"] for r in rows) for part in (*_PARTS, "idle")}
        total = max(1, sum(sums.values()))
        return {part: value / total for part, value in sums.items()}

    def summary(self) -> str:
        """A few lines for a person."""
        sim = self._sim
        where = f"{sim.program.ranks} GPUs on {sim.infra.name}, {sim.program.lanes} lanes"
        what = f"{sim.collective.title}, {format_bytes(sim.collective.size)}, {where}"
        took = format_time(self.time_ps) + ("" if sim.finished else " so far")
        work = f"({sim.events:,} events, {int(sim.machine.clock[0].hops):,} line hops)"
        lines = [what, f"time    {took}   {work}"]
        if sim.finished:
            alg, bus = self.algbw_Bps / 1e9, self.busbw_Bps / 1e9
            lines.append(f"algbw   {alg:.2f} GB/s   busbw {bus:.2f} GB/s   (GB = 10^9 bytes)")
        parts = ", ".join(f"{name} {part:.0%}" for name, part in self.breakdown().items() if part >= 0.005)
        lines.append(f"blocks  {parts}")
        return "\n".join(lines)

    def to_dataframe(self, what: str = "ranks") -> pd.DataFrame:
        """Give a table as a pandas frame.

        Parameters
        ----------
        what : str
            Of the result: ``ranks``, ``links``, ``phases``, ``blocks``, ``ops``. Of what
            happened when: ``spans`` (what thread blocks did), ``events`` (beginnings and ends),
            ``signals`` (which signal let which wait go on), and, as far as it was recorded,
            ``flights`` (every line on every link) and ``activity`` (how busy links, issue
            slots, L2 and HBM were over time).

        Returns
        -------
        pandas.DataFrame
            The unit stands in a column's name: ``_ps``, ``_Bps`` (bytes a second), ``bytes``,
            ``_fraction``.

        Raises
        ------
        InputError
            There is no such table.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
        >>> sim.run().why
        'end'
        >>> spans = sim.result.to_dataframe("spans")
        >>> bool((spans["end_ps"] - spans["start_ps"] == spans["duration_ps"]).all())
        True
        """
        import pandas as pd

        makers: dict[str, Callable[[], Any]] = {
            "ranks": self.per_rank,
            "links": self._links,
            "phases": self._phases,
            "blocks": self._blocks,
            "ops": self._ops,
            **{name: partial(make, self._sim) for name, make in FRAMES.items()},
        }
        if what not in makers:
            raise InputError(f"there is no table {what!r}", where="to_dataframe", hint=near(what, makers))
        return pd.DataFrame(makers[what]())

    def to_perfetto(self, path: str | Path) -> dict[str, Any]:
        """Write a trace for Perfetto or Chrome (see :func:`astranb.export.perfetto`)."""
        from ._perfetto import perfetto

        return perfetto(self._sim, path)

    def explain(self) -> str:
        """Say where the time went: per GPU, per link, and how far from the limits it is."""
        sim = self._sim
        parts = sorted(self.breakdown().items(), key=lambda item: -item[1])
        said = [self.summary(), "", "Where the thread blocks' time went:"]
        said += [f"  {part:>4.0%}  {name}: {_MEANING[name]}" for name, part in parts if part > 0]
        links = self._links()
        used = [row for row in links if row["messages"]]
        said += ["", "Busiest links (of the time so far):"]
        for row in sorted(used, key=lambda r: (-r["utilisation"], r["link"]))[:5]:
            mean = row["queued_ps"] // row["messages"]
            queues = f"a message queues {format_time(mean)} on average"
            said.append(f"  {row['utilisation']:>4.0%}  {row['link']}: {queues}")
        said += ["", *self._path(), *self._limits(used)]
        said += explain_ethernet(sim.machine, sim.fabric, sim.now_ps)
        last = max(self.per_rank(), key=lambda r: (r["end_ps"], -r["rank"]))
        if sim.finished:
            said.append(f"Rank {last['rank']} ({last['name']}) ended last, at {format_time(last['end_ps'])}.")
        if sim.assumed:
            said += ["", "Assumed:", *(f"  - {note}" for note in sim.assumed)]
        return "\n".join(said)

    def _path(self) -> list[str]:
        """What the time consists of, where finding that takes a moment only."""
        if not 0 < self._sim.events <= _QUICK_EVENTS:
            return []
        path = self._sim.critical_path()
        total = max(1, path.time_ps)
        causes = list(path.by_cause().items())[:_MOST_CAUSES]
        lines = [f"  {ps / total:>4.0%}  {cause}: {CAUSES[cause]}" for cause, ps in causes]
        return ["What the time consists of (critical path):", *lines, ""]

    def _limits(self, used: list[dict[str, Any]]) -> list[str]:
        """The bandwidth limit: the busiest GPU port could not have been faster than its bytes take."""
        machine, sim = self._sim.machine, self._sim
        if not used or not self.time_ps:
            return []
        best, name = 0.0, ""
        for rank, node in enumerate(sim.fabric.gpus):
            for field, way in (("src", "out of"), ("dst", "into")):
                between = machine.links[: len(sim.fabric.links)]
                mine = between[(between[field] == node) & (between["messages"] > 0)]
                if len(mine):
                    need = float(mine["bytes"].sum()) / float(mine["bandwidth_Bps"].sum()) * 1e12
                    if need > best:
                        best, name = (
                            need,
                            f"{way} GPU{rank} ({format_bandwidth(float(mine['bandwidth_Bps'].sum()))})",
                        )
        share = best / self.time_ps
        took = f"take {format_time(int(best))} at full rate, {share:.0%} of the time"
        wire = f"Bandwidth limit: the bytes {name}, headers and acknowledgements included, {took}"
        return [f"{wire}; the other {1 - share:.0%} is latency and waiting."]

    def _links(self) -> list[dict[str, Any]]:
        links, fabric, total = self._sim.machine.links, self._sim.fabric, max(1, self.time_ps)
        ethernet = self._sim.network.roce is not None
        queued = queued_ps(self._sim.machine, self._sim.now_ps)
        return [
            {
                "link": fabric.name(number),
                "bandwidth_Bps": int(row["bandwidth_Bps"]),
                "latency_ps": int(row["latency_ps"]),
                "messages": int(row["messages"]),
                "bytes": int(row["bytes"]),
                "busy_ps": int(row["busy_ps"]),
                "queued_ps": int(queued[number]),
                "utilisation": min(1.0, int(row["busy_ps"]) / total),
                **(self._ethernet(number) if ethernet else {}),
            }
            for number, row in enumerate(links[: len(fabric.links)])
        ]

    def _ethernet(self, link: int) -> dict[str, int]:
        row = self._sim.machine.links[link]
        return {
            "pauses": int(row.pauses),
            "paused_ps": paused_ps(self._sim.machine, np.array([link]), self._sim.now_ps),
            "marked": int(row.marked),
            "most_queued": int(row.most_queued),
            "most_stored": int(row.most_stored),
        }

    def _phases(self) -> list[dict[str, Any]]:
        phases = self._sim.machine.phases
        return [
            {
                "phase": name,
                "start_ps": int(row["started_ps"]),
                "end_ps": int(row["ended_ps"]),
                "operations_left": int(row["left"]),
            }
            for name, row in zip(self._sim.program.phase_names, phases, strict=True)
        ]

    def _blocks(self) -> list[dict[str, Any]]:
        rows, lanes = [], self._sim.program.block_lane.tolist()
        for number, row in enumerate(self._sim.machine.blocks):
            sm = int(row["sm"] - self._sim.machine.gpus["first_sm"][row["gpu"]]) if row["sm"] >= 0 else -1
            rows.append(
                {
                    "block": number, "rank": int(row["gpu"]), "lane": lanes[number], "sm": sm,
                    "state": t.BLOCK_STATES[int(row["state"])], "started_ps": int(row["started_ps"]),
                    "ended_ps": int(row["ended_ps"]), "polls": int(row["polls"]),
                    **{f"{part}_ps": int(row[f"{part}_ps"]) for part in _PARTS},
                }
            )  # fmt: skip
        return rows

    def _ops(self) -> list[dict[str, Any]]:
        ops, names = self._sim.machine.ops, self._sim.program.phase_names
        columns = {
            n: np.asarray(ops[n]).tolist()
            for n in ("block", "number", "lines", "started_ps", "issued_ps", "ended_ps")
        }
        rank = self._sim.machine.blocks["gpu"][ops["block"]].tolist()
        kinds = [t.OP_KINDS[k] for k in ops["kind"]]
        phases = [names[p] for p in ops["phase"]]
        return [
            {"rank": r, "kind": k, "phase": p, **dict(zip(columns, values, strict=True))}
            for r, k, p, values in zip(rank, kinds, phases, zip(*columns.values(), strict=True), strict=True)
        ]

    def _repr_html_(self) -> str:
        """The summary, for a notebook."""
        from html import escape

        return f"<pre>{escape(self.summary())}</pre>"

    def __repr__(self) -> str:
        """The summary."""
        return self.summary()
