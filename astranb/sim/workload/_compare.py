"""Two runs of workloads side by side: what differs in their inputs, times, ranks, operations and links."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from astranb.engine.messages._spans import spans_of
from astranb.sim._compare import Comparison, Inputs, Rows, Shown, inputs_of_edits, signed

from ._standing import Standing

__all__ = ["WorkloadComparison"]

_MOST_OPERATIONS = 200
_MOST_LINES = 5
_OF_RANKS = ("end_ps", "compute_ps", "exposed_comm_ps", "memory_ps", "idle_ps")


class WorkloadComparison(Comparison):
    """What differs between two workloads' runs as they stand.

    Parameters
    ----------
    a, b : WorkloadSimulation
        Of one workload, or of two: ranks and operations with the same number are compared.
    names : tuple of str, optional

    Examples
    --------
    >>> import astranb as anb
    >>> from astranb.workload.astrasim2 import COMPUTE, Network, Operations, System
    >>> one = Operations.of([{"kind": COMPUTE, "duration_us": 3}])
    >>> a = anb.WorkloadSimulation([one] * 2, Network(["Ring"], [2], [50], [500]), System.from_document({}))
    >>> b = a.fork_with({"rank[1].speed": 0.5})
    >>> _ = a.run(), b.run()
    >>> both = anb.compare(a, b)
    >>> both.time["difference_ps"]
    3000000
    >>> both.to_dataframe("ranks")["compute_ps_difference"].tolist()
    [0, 3000000]
    """

    def _takes(self, sim: object) -> bool:
        return isinstance(sim, Standing)

    def _inputs(self) -> Inputs:
        a, b = self.a, self.b
        pairs: list[tuple[str, Any, Any]] = [
            ("workload", a.title, b.title),
            ("ranks", a.ranks, b.ranks),
            ("network", " x ".join(a.about.topology), " x ".join(b.about.topology)),
        ]
        one, other = a.state.config(), b.state.config()
        pairs += [(said, one.get(said, "-"), other.get(said, "-")) for said in {**one, **other}]
        pairs += inputs_of_edits(a, b)
        return [(name, str(x), str(y)) for name, x, y in pairs if x != y]

    def _makers(self) -> dict[str, Callable[[], Rows]]:
        return {
            "ranks": self.ranks, "operations": self.operations, "collectives": self.collectives,
            "dimensions": self.dimensions, "links": self.links, "causes": self.causes,
        }  # fmt: skip

    def shown(self) -> list[Shown]:
        """What people look at, besides the time in total and by cause."""
        operations, left = self._operations(_MOST_OPERATIONS)
        ranks = self.ranks()
        return [
            Shown("Ranks: end", ranks, "rank", "end_ps", largest=True),
            Shown("Ranks: compute", ranks, "rank", "compute_ps", largest=True),
            Shown("Ranks: exposed communication", ranks, "rank", "exposed_comm_ps", largest=True),
            Shown("Ranks: idle", ranks, "rank", "idle_ps", largest=True),
            Shown("Operations: how long", operations, "operation", "lasts_ps", left_out=left, largest=True),
            Shown("Collectives: how long", self.collectives(), "collective", "lasts_ps", largest=True),
            Shown("Phases of chunks: under way", self.dimensions(), "dimension", "phases_ps"),
            Shown("Phases of chunks: queued", self.dimensions(), "dimension", "queued_ps"),
            Shown("Dimensions: bytes", self.dimensions(), "dimension", "bytes"),
            Shown("Links: time busy", self.links(), "link", "busy_ps", largest=True),
        ]

    def causes(self) -> Rows:
        """A row a cause of the critical path, in ps; together it is the time."""

        def of(sim: Any) -> Rows:
            return [{"cause": name, "time_ps": ps} for name, ps in sim.result.by_cause().items()]

        return self._join("cause", of, ("time_ps",))

    def ranks(self) -> Rows:
        """A row a rank: when it ended (up to now), and how its time divides, in ps."""

        def of(sim: Any) -> Rows:
            rows = sim.result.per_rank()
            return [{"rank": row["rank"], **{name: row[name] for name in _OF_RANKS}} for row in rows]

        return self._join("rank", of, _OF_RANKS)

    def operations(self) -> Rows:
        """A row an operation that has begun in both: begin, end, and how long, in ps."""
        return self._operations(None)[0]

    def collectives(self) -> Rows:
        """A row a collective over its ranks: how long from the first begin to the end, in ps."""

        def of(sim: Any) -> Rows:
            return [
                {"collective": f"{number}: {row['name']}", "lasts_ps": row["end_ps"] - row["start_ps"]}
                for number, row in enumerate(sim.result.rows("collectives"))
                if row["done"]
            ]

        return self._join("collective", of, ("lasts_ps",))

    def dimensions(self) -> Rows:
        """A row a dimension: bytes sent, and phases of chunks over all ranks: under way and queued, in ps."""

        def of(sim: Any) -> Rows:
            phases = sim.result.phases()
            rows = []
            for dim, shape in enumerate(sim.about.topology):
                mine = phases["dim"] == dim
                under_way = int((phases["end_ps"] - phases["begun_ps"])[mine].sum())
                queued = int((phases["begun_ps"] - phases["queued_ps"])[mine].sum())
                name = f"dim {dim} ({shape})"
                rows.append(
                    {
                        "dimension": name, "bytes": sim.result.dimension(dim)["bytes"],
                        "phases_ps": under_way, "queued_ps": queued,
                    }
                )  # fmt: skip
            return rows

        return self._join("dimension", of, ("bytes", "phases_ps", "queued_ps"))

    def links(self) -> Rows:
        """A row a link that either has used, with congestion: bytes, and time busy in ps."""

        def of(sim: Any) -> Rows:
            return [
                {
                    "link": f"link[{row['link']}] {row['from']} to {row['to']}",
                    "bytes": row["bytes"], "busy_ps": row["busy_ps"],
                }
                for row in sim.result.rows("links")
            ]  # fmt: skip

        return self._join("link", of, ("bytes", "busy_ps"))

    def _operations(self, most: int | None) -> tuple[Rows, int]:
        """Operations in both, or those that differ most in how long they took; and how many are left out."""
        keys, spans = [], []
        for sim in (self.a, self.b):
            found = spans_of(sim)
            number = found.row - sim.about.start[found.npu]
            keys.append(found.npu * (1 << 40) + number)
            spans.append(found)
        _, one, other = np.intersect1d(*keys, return_indices=True)
        a, b = spans
        lasts = [a.end_ps[one] - a.start_ps[one], b.end_ps[other] - b.start_ps[other]]
        change = np.abs(lasts[1] - lasts[0])
        chosen = np.arange(len(one))
        if most is not None and len(one) > most:
            chosen = np.sort(np.argsort(-change, kind="stable")[:most])
        rows = []
        for k in chosen.tolist():
            row = int(a.row[one[k]])
            said: dict[str, Any] = {"operation": f"{self.a.about.path(row)} {self.a.about.label(row)}"}
            for side, of, at in (("a", a, one[k]), ("b", b, other[k])):
                start, end = int(of.start_ps[at]), int(of.end_ps[at])
                said |= {f"start_ps_{side}": start, f"end_ps_{side}": end, f"lasts_ps_{side}": end - start}
            said["lasts_ps_difference"] = said["lasts_ps_b"] - said["lasts_ps_a"]
            rows.append(said)
        return rows, int((change > 0).sum()) - sum(row["lasts_ps_difference"] != 0 for row in rows)

    def _details(self) -> list[str]:
        """The ranks whose end differs most."""
        rows = [row for row in self.ranks() if row["end_ps_difference"]]
        rows.sort(key=lambda row: (-abs(row["end_ps_difference"]), row["rank"]))
        return [f"rank {row['rank']}: {signed(row['end_ps_difference'])}" for row in rows[:_MOST_LINES]]
