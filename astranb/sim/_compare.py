"""Two runs side by side: what differs in their inputs, times, phases, links, GPUs and causes."""

# ruff: noqa: SLF001 - it reads the rows of results

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from astranb.core.errors import InputError, near
from astranb.core.units import format_bytes, format_time

from ._replay import Replay

if TYPE_CHECKING:
    import pandas as pd

    from ._simulation import Simulation

__all__ = ["Comparison", "Shown", "inputs_of_edits", "signed"]

Rows = list[dict[str, Any]]

Inputs = list[tuple[str, str, str]]

_MOST_LINES = 5
_CAUSES = ("moving", "waiting", "draining", "signalling", "idle")


@dataclasses.dataclass(frozen=True)
class Shown:
    """A table of a comparison as people look at it: one field of its rows.

    Attributes
    ----------
    title : str
    rows : list of dict
    key, field : str
        Of the rows: ``field`` with ``_a``, ``_b`` and ``_difference`` behind it, in ps or bytes.
    largest : bool
        Whether the largest differences come first.
    left_out : int
        Rows with smaller differences that are not among these.
    """

    title: str
    rows: Rows
    key: str
    field: str
    largest: bool = False
    left_out: int = 0

    def written(self, number: int) -> str:
        """A number of the field for a person."""
        return format_time(number) if self.field.endswith("_ps") else format_bytes(number)


class Comparison:
    """What differs between two simulations as they stand.

    Parameters
    ----------
    a, b : Simulation
        At any moments: two ended runs, or two at the same simulated time (:meth:`at`).
    names : tuple of str
        What to call them; where not given after what differs in their inputs.

    Examples
    --------
    >>> import astranb as anb
    >>> a = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
    >>> b = a.rebuilt(algorithm="allpairs")
    >>> _ = a.run(), b.run()
    >>> both = anb.compare(a, b)
    >>> both.names
    ('algorithm ring', 'algorithm allpairs')
    >>> both.time["b_ps"] == b.result.time_ps
    True
    >>> "faster" in both.summary()
    True
    """

    a: Any
    b: Any

    def __init__(self, a: Simulation, b: Simulation, names: tuple[str, str] | None = None) -> None:
        for sim in (a, b):
            if not self._takes(sim):
                raise InputError(f"not a simulation: {sim!r}", where="compare", hint="compare(sim, other)")
        self.a, self.b = a, b
        self.inputs = self._inputs()
        self.names = names or _names(self.inputs)

    # What depends on what is simulated ---------------------------------------

    def _takes(self, sim: object) -> bool:
        return hasattr(sim, "machine")

    def _inputs(self) -> Inputs:
        return _inputs(self.a, self.b)

    def _makers(self) -> dict[str, Callable[[], Rows]]:
        """The tables, by name."""
        return {"phases": self.phases, "links": self.links, "gpus": self.gpus, "causes": self.causes}

    def shown(self) -> list[Shown]:
        """What people look at, besides the time in total and by cause."""
        return [
            Shown("Phases: how long", self.phases(), "phase", "lasts_ps"),
            Shown("Links: time busy", self.links(), "link", "busy_ps", largest=True),
            Shown("Links: bytes", self.links(), "link", "bytes", largest=True),
            Shown("Links: time queued", self.links(), "link", "queued_ps", largest=True),
            Shown("GPUs: end", self.gpus(), "rank", "end_ps"),
            Shown("GPUs: waiting", self.gpus(), "rank", "waiting_ps"),
        ]

    # What does not -----------------------------------------------------------

    def at(self, when_ps: int) -> Comparison:
        """The same two at a simulated time, each at most where it stands; both stay where they are."""

        def then(sim: Any) -> Any:
            if when_ps >= sim.now_ps:
                return sim
            replay = Replay(sim)
            replay.goto(when_ps)
            return replay.sim

        return type(self)(then(self.a), then(self.b), self.names)

    @property
    def time(self) -> dict[str, Any]:
        """``a_ps``, ``b_ps``, ``difference_ps`` (b less a) and ``ended``: whether both are at their end."""
        a, b = self.a.result.time_ps, self.b.result.time_ps
        return {"a_ps": a, "b_ps": b, "difference_ps": b - a, "ended": self.a.finished and self.b.finished}

    def phases(self) -> Rows:
        """A row a phase: when it ended in each, and how long it lasted; -1 where it has not."""

        def of(sim: Simulation) -> Rows:
            rows = []
            for row in sim.result._phases():
                begun, ended = row["start_ps"], row["end_ps"]
                lasts = (ended if ended >= 0 else sim.now_ps) - begun if begun >= 0 else 0
                rows.append({"phase": row["phase"], "end_ps": ended, "lasts_ps": lasts})
            return rows

        return self._join("phase", of, ("lasts_ps",))

    def links(self) -> Rows:
        """A row a link (all lanes together) that either has used: bytes, time busy and queued."""

        def of(sim: Simulation) -> Rows:
            found: dict[str, dict[str, Any]] = {}
            for row in sim.result._links():
                name = row["link"].partition("#")[0]
                kept = found.setdefault(
                    name, {"link": name, "bytes": 0, "busy_ps": 0, "queued_ps": 0, "lanes": 0}
                )
                for field in ("bytes", "busy_ps", "queued_ps"):
                    kept[field] += row[field]
                kept["lanes"] += 1
            used = [row for row in found.values() if row["bytes"]]
            for row in used:
                row["busy_ps"] //= row.pop("lanes")
            return used

        return self._join("link", of, ("bytes", "busy_ps", "queued_ps"))

    def gpus(self) -> Rows:
        """A row a rank: when it ended (0: not yet), and what its thread blocks' time went to, in ps."""
        return self._join(
            "rank",
            lambda sim: [
                {"rank": r["rank"], **{k: v for k, v in r.items() if k.endswith("_ps")}}
                for r in sim.result.per_rank()
            ],
            ("end_ps", *(f"{cause}_ps" for cause in _CAUSES)),
        )

    def causes(self) -> Rows:
        """A row a cause: what thread blocks did, on average, in ps; together it is the time."""

        def of(sim: Simulation) -> Rows:
            parts, total = sim.result.breakdown(), sim.result.time_ps
            return [{"cause": name, "time_ps": round(parts[name] * total)} for name in _CAUSES]

        return self._join("cause", of, ("time_ps",))

    def to_dataframe(self, what: str = "links") -> pd.DataFrame:
        """One of the tables as a frame.

        Parameters
        ----------
        what : str
            ``phases``, ``links``, ``gpus`` or ``causes``. Columns end in ``_a``, ``_b`` and
            ``_difference`` (b less a); what one of them lacks counts as 0.
        """
        import pandas as pd

        return pd.DataFrame(self.table(what))

    def table(self, what: str) -> Rows:
        """One of the tables: a list of dict."""
        makers = self._makers()
        if what not in makers:
            raise InputError(f"there is no table {what!r}", where="compare", hint=near(what, makers))
        return makers[what]()

    def summary(self) -> str:
        """A few lines for a person."""
        one, other = self.names
        time = self.time
        so_far = "" if time["ended"] else " (so far)"
        lines = [f"{one} and {other}"]
        lines += [f"inputs  {name}: {a} and {b}" for name, a, b in self.inputs]
        lines.append(
            f"time    {format_time(time['a_ps'])} and {format_time(time['b_ps'])}{so_far}: {self.verdict()}"
        )
        causes = ", ".join(
            f"{row['cause']} {signed(row['time_ps_difference'])}"
            for row in self.causes()
            if row["time_ps_difference"]
        )
        lines.append(f"causes  {causes or 'the same'}")
        return "\n".join([*lines, *self._details()])

    def _details(self) -> list[str]:
        """More lines of the summary."""
        lines = []
        rows = [row for row in self.links() if row["busy_ps_difference"]]
        rows.sort(key=lambda row: (-abs(row["busy_ps_difference"]), row["link"]))
        for row in rows[:_MOST_LINES]:
            sent = f"{format_bytes(row['bytes_a'])} and {format_bytes(row['bytes_b'])}"
            lines.append(f"link    {row['link']}: busy {signed(row['busy_ps_difference'])}, {sent}")
        if len(rows) > _MOST_LINES:
            lines.append(f"        and {len(rows) - _MOST_LINES:,} more links differ")
        return lines

    def verdict(self) -> str:
        """Which is faster, and by how much."""
        time = self.time
        a, b = time["a_ps"], time["b_ps"]
        if not time["ended"]:
            return "not both at their end"
        if a == b or not a or not b:
            return "the same"
        quick, slow, name = (a, b, self.names[0]) if a < b else (b, a, self.names[1])
        return f"{name} is faster by {format_time(slow - quick)} ({slow / quick:.3g} times)"

    def _join(self, key: str, of: Callable[[Any], Rows], differing: tuple[str, ...]) -> Rows:
        """Rows of both by their key: those of a in their order, then what only b has."""
        a, b = ({row[key]: row for row in of(sim)} for sim in (self.a, self.b))
        joined = []
        for name in dict.fromkeys([*a, *b]):
            row: dict[str, Any] = {key: name}
            for field in next(iter({**a, **b}.values())):
                if field == key:
                    continue
                row[f"{field}_a"] = a.get(name, {}).get(field, 0)
                row[f"{field}_b"] = b.get(name, {}).get(field, 0)
                if field in differing:
                    row[f"{field}_difference"] = row[f"{field}_b"] - row[f"{field}_a"]
            joined.append(row)
        return joined

    def _repr_html_(self) -> str:
        """The summary, for a notebook."""
        from html import escape

        return f"<pre>{escape(self.summary())}</pre>"

    def __repr__(self) -> str:
        """The summary."""
        return self.summary()


def signed(ps: int) -> str:
    """A difference for a person, with its sign."""
    return f"{'+' if ps > 0 else '-' if ps < 0 else ''}{format_time(abs(ps))}"


def _inputs(a: Simulation, b: Simulation) -> Inputs:
    """What differs in what they were given: (name, of a, of b)."""
    pairs: list[tuple[str, Any, Any]] = [("infrastructure", a.infra.name, b.infra.name)]
    for name in ("name", "size", "protocol", "lanes", "root"):
        label = "collective" if name == "name" else name
        pairs.append((label, getattr(a.collective, name), getattr(b.collective, name)))
    pairs.append(("algorithm", a.collective.algorithm_name, b.collective.algorithm_name))
    pairs.append(("launch", a.launch, b.launch))
    for what, one, other in (("gpu", a.chosen[0], b.chosen[0]), ("network", a.network, b.network)):
        names = [field.name for field in dataclasses.fields(one) if field.compare]
        pairs += [(f"{what} {name}", getattr(one, name), getattr(other, name)) for name in names]
    pairs += inputs_of_edits(a, b)
    return [(name, _said(name, x), _said(name, y)) for name, x, y in pairs if x != y]


def inputs_of_edits(a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    """What was changed by hand in either of two simulations."""
    edits = [{path: f"{value} from event {events}" for events, path, value in sim.edits} for sim in (a, b)]
    paths = dict.fromkeys([*edits[0], *edits[1]])
    return [(path, edits[0].get(path, "unchanged"), edits[1].get(path, "unchanged")) for path in paths]


def _said(name: str, value: Any) -> str:
    return format_bytes(value) if name == "size" else "auto" if value is None else str(value)


def _names(inputs: Inputs) -> tuple[str, str]:
    """Name two simulations after the only difference, where there is just one."""
    if len(inputs) != 1:
        return ("a", "b")
    name, a, b = inputs[0]
    return (f"{name} {a}", f"{name} {b}")
