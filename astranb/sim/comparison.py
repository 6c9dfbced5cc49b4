"""Two runs side by side: what differs in their inputs, times, phases, links, GPUs and causes."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from astranb.core.data_frames import frame
from astranb.core.display import Displayed
from astranb.core.errors import InputError, near
from astranb.core.plural import plural
from astranb.core.units import format_bytes, format_time

from .replay import Replay

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Comparison", "Shown", "compare", "inputs_of_edits", "signed"]

Rows = list[dict[str, Any]]

Inputs = list[tuple[str, str, str]]

_PLUGINS = "plug-ins"
_MOST_LINES = 5
_MOST_ROWS = 200


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


class Comparison(Displayed):
    """Differences between two simulations as they are now.

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

    def __init__(self, a: Any, b: Any, names: tuple[str, str] | None = None) -> None:
        for sim in (a, b):
            if not hasattr(sim, "engine"):
                raise InputError(f"not a simulation: {sim!r}", where="compare", hint="compare(sim, other)")
        self.a, self.b = a, b
        self.inputs = _inputs(a, b)
        self.names = names or _names(self.inputs)

    # What does not -----------------------------------------------------------

    def at(self, when_ps: int) -> Comparison:
        """Compare private copies of both at a simulated time; one that has not come so far stays as it is."""

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

    def shown(self) -> list[Shown]:
        """Return the tables of main differences, besides the time in total and by cause."""
        one, other = self.a.engine, self.b.engine
        specs = [spec for spec in one.traits.shown if spec in other.traits.shown]
        tables = {table: self.table(table) for table in dict.fromkeys(spec[1] for spec in specs)}
        compared, found = one.compared(), []
        for title, table, field, largest in specs:
            rows, key = tables[table], compared[table][0]
            left_out = 0
            if largest and len(rows) > _MOST_ROWS:
                rows = sorted(rows, key=lambda row: -abs(row[f"{field}_difference"]))
                left_out = sum(row[f"{field}_difference"] != 0 for row in rows[_MOST_ROWS:])
                rows = rows[:_MOST_ROWS]
            found.append(Shown(title, rows, key, field, largest=largest, left_out=left_out))
        return found

    @property
    def tables(self) -> list[str]:
        """The tables that both simulations have."""
        other = self.b.engine.compared()
        return [name for name in self.a.engine.compared() if name in other]

    def causes(self) -> Rows:
        """A row a cause, in ps; together it is the time."""
        return self.table("causes") if "causes" in self.tables else []

    def to_dataframe(self, what: str = "links", *, time: str | None = None) -> pd.DataFrame:
        """One of the tables as a frame.

        Parameters
        ----------
        what : str
            One of :attr:`tables`: ``links``, ``causes``, ... Columns end in ``_a``, ``_b`` and
            ``_difference`` (b less a); what one of them lacks counts as 0.
        time : str, optional
            Unit of all times: ``ps`` (by default), ``ns``, ``us``, ``ms`` or ``s``.
        """
        return frame(self.table(what), time)

    def table(self, what: str) -> Rows:
        """One of the tables: a list of dict."""
        known = self.tables
        if what not in known:
            raise InputError(f"unknown table {what!r}", where="compare", hint=near(what, known))
        (key, of_a, fields), (_, of_b, _) = (sim.engine.compared()[what] for sim in (self.a, self.b))
        return _join(key, of_a(), of_b(), fields)

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
        """Describe the largest difference: of busy links, or else of the ends of ranks."""
        for table, key, field in (("links", "link", "busy_ps"), ("ranks", "rank", "end_ps")):
            if table not in self.tables:
                continue
            rows = [row for row in self.table(table) if row[f"{field}_difference"]]
            rows.sort(key=lambda row: (-abs(row[f"{field}_difference"]), row[key]))
            lines = []
            for row in rows[:_MOST_LINES]:
                change = f"{field.removesuffix('_ps')} {signed(row[f'{field}_difference'])}"
                sent = (
                    f", {format_bytes(row['bytes_a'])} and {format_bytes(row['bytes_b'])}"
                    if "bytes_a" in row
                    else ""
                )
                lines.append(f"{key:<7} {row[key]}: {change}{sent}")
            if len(rows) > _MOST_LINES:
                left = plural(len(rows) - _MOST_LINES, f"more {table[:-1]} differs", f"more {table} differ")
                lines.append(f"        and {left}")
            if lines:
                return lines
        return []

    def verdict(self) -> str:
        """Return which run is faster, and by how much."""
        time = self.time
        a, b = time["a_ps"], time["b_ps"]
        if not time["ended"]:
            return "not both at their end"
        if a == b or not a or not b:
            return "the same"
        quick, slow, name = (a, b, self.names[0]) if a < b else (b, a, self.names[1])
        return f"{name} is faster by {format_time(slow - quick)} ({slow / quick:.3g} times)"

    def __repr__(self) -> str:
        """The summary."""
        return self.summary()


def signed(ps: int) -> str:
    """A difference for a person, with its sign."""
    return f"{'+' if ps > 0 else '-' if ps < 0 else ''}{format_time(abs(ps))}"


def _inputs(a: Any, b: Any) -> Inputs:
    """Return inputs that differ, as (name, of a, of b)."""
    one, other = ({**sim.engine.inputs().named, _PLUGINS: "; ".join(sim.plugins)} for sim in (a, b))
    if a.fidelity != b.fidelity:
        one, other = {"fidelity": a.fidelity, **one}, {"fidelity": b.fidelity, **other}
    pairs = [(name, one.get(name, "-"), other.get(name, "-")) for name in {**one, **other}]
    pairs += inputs_of_edits(a, b)
    return [(name, _written(name, x), _written(name, y)) for name, x, y in pairs if x != y]


def inputs_of_edits(a: Any, b: Any) -> list[tuple[str, Any, Any]]:
    """Return values that were edited by hand in either of two simulations."""
    edits = [{path: f"{value} from event {events}" for events, path, value in sim.edits} for sim in (a, b)]
    paths = dict.fromkeys([*edits[0], *edits[1]])
    return [(path, edits[0].get(path, "unchanged"), edits[1].get(path, "unchanged")) for path in paths]


def _written(name: str, value: Any) -> str:
    return (
        format_bytes(value)
        if name == "size" and isinstance(value, int)
        else "auto"
        if value is None
        else str(value)
    )


def _names(inputs: Inputs) -> tuple[str, str]:
    """Name two simulations after the only difference, where there is just one."""
    chosen = [row for row in inputs if row[0] != _PLUGINS]  # they follow from what was chosen
    if len(chosen) != 1:
        return ("a", "b")
    name, a, b = chosen[0]
    return (f"{name} {a}", f"{name} {b}")


def _join(key: str, rows_a: Rows, rows_b: Rows, differing: tuple[str, ...]) -> Rows:
    """Rows of both by their key: those of a in their order, then what only b has."""
    a, b = ({row[key]: row for row in rows} for rows in (rows_a, rows_b))
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


def compare(a: Any, b: Any, names: tuple[str, str] | None = None) -> Comparison:
    """Show how two simulations differ: ``anb.compare(sim, other)``.

    Parameters
    ----------
    a, b : Simulation
        As they are now.
    names : tuple of str, optional
        What to call them; where not given after what differs in their inputs.

    Raises
    ------
    InputError
        One of them is no simulation.
    """
    return Comparison(a, b, names)
