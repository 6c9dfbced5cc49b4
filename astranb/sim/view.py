"""An object of a simulation as Python sees it: numbers with units in their names, and words."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from astranb.core.display import Displayed
from astranb.core.errors import near
from astranb.engine import Engine

__all__ = ["ObjectView"]


class ObjectView(Displayed, Mapping[str, Any]):
    """An object of a simulation at one moment; what the inspector shows is there by key, too.

    Parameters
    ----------
    engine : Engine
        As it is now: the view does not change when the simulation goes on.
    path : str

    Attributes
    ----------
    path, kind, title : str
    now_ps : int
        The moment.
    state : dict of str to int, float or str
        Every number of it, raw: times in ps, sizes in bytes, bandwidths in bytes a second. Of a
        link with several lanes, counters are summed over them. Each is an attribute, too
        (``link.bandwidth_Bps``), and so is each line of the inspector as text (``link.queue_now``). Of a
        thread block also ``line`` and ``code``: the line of the program that it is at (0 and empty: it has
        ended, or the text is not known).
    in_flight : list of str
        Lines under way, in words; ``lines`` has their paths.
    lines : list of str
    recent : list of str
        What happened to it last, the newest first.

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
    >>> sim.step(2000).events
    2000
    >>> block = sim.at("gpu[3].block.0")
    >>> block.kind, block.gpu, block["title"] == block.title
    ('block', 3, True)
    >>> block.code
    'block.put(p.input(r)[peer], p.scratch(peer)[r])'
    >>> sim.at("GPU3 → nvsw.0").bandwidth_Bps / anb.units.GB
    125.0
    >>> sim.at("GPU3 → nvsw.0").queue_now
    '0 ps'
    """

    def __init__(self, engine: Engine, path: str) -> None:
        self._found = engine.inspect(path)
        self.path: str = self._found["path"]
        self.kind: str = self._found["kind"]
        self.title: str = self._found["title"]
        self.in_flight: list[str] = self._found["in_flight"]
        self.lines: list[str] = self._found.get("lines", [])
        self.recent: list[str] = self._found.get("recent", [])
        self.now_ps = engine.now_ps
        self.state = engine.fields(path).numbers()
        rows = self._found["state"]
        self._texts = {re.sub(r"\W+", "_", label).strip("_").lower(): text for label, text in rows}

    def __getitem__(self, key: str) -> Any:
        """Return an entry of the inspector: ``title``, ``state`` (labels and texts), ``children``, ..."""
        return self._found[key]

    def __getattr__(self, name: str) -> Any:
        """Return a number of its state by name, or a text of the inspector by label."""
        own = self.__dict__
        known = {**own.get("_texts", {}), **own.get("state", {})}
        if name in known:
            return known[name]
        hint = near(name, [*known, "state", "title", "in_flight", "recent"]) if known else ""
        raise AttributeError(f"{own.get('path', 'an object')} has no {name!r}; {hint}")

    def __dir__(self) -> list[str]:
        """Names of the class, of the numbers and of the texts."""
        return sorted({*super().__dir__(), *self.state, *self._texts})

    def __iter__(self) -> Iterator[str]:
        """The keys of what the inspector shows."""
        return iter(self._found)

    def __len__(self) -> int:
        """Number of keys."""
        return len(self._found)

    def __repr__(self) -> str:
        """Return the inspector's view as text."""
        rows = [f"  {label}: {text}" for label, text in self._found["state"]]
        return "\n".join([self.title, *rows, f"  in flight: {self._found['in_flight_count']:,}"])

    def _repr_html_(self) -> str:
        rows = "".join(
            f"<tr><th style='text-align:left'>{escape(label)}</th><td>{escape(text)}</td></tr>"
            for label, text in self._found["state"]
        )
        recent = "".join(f"<li>{escape(text)}</li>" for text in self.recent)
        return f"<b>{escape(self.title)}</b><table><tbody>{rows}</tbody></table><ul>{recent}</ul>"
