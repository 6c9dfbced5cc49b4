"""Chains of waits at the current time: from the waiting component to the resource that it finally needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape

from astranb.core.display import Displayed
from astranb.core.units import format_time

__all__ = ["WaitStep", "Why"]


@dataclass(frozen=True, slots=True)
class WaitStep(Displayed):
    """One link of a chain of waits.

    Attributes
    ----------
    text : str
        Who waits, and for what.
    path : str
        Of the object that it is about.
    since_ps : int
        Since when; -1 where it is not known.
    until_ps : int
        The later time that the text names; -1 where it names none.
    """

    text: str
    path: str
    since_ps: int = -1
    until_ps: int = -1

    def __str__(self) -> str:
        """Return who waits, and for what."""
        return self.text


class Why(Displayed):
    """A chain of waits: each step waits for the next one.

    Attributes
    ----------
    path : str
        What was asked about.
    now_ps : int
        The moment that it holds for.
    links : list of WaitStep
    circle : bool
        Whether the chain comes back to itself: then nobody in it can ever go on.
    """

    def __init__(self, path: str, now_ps: int) -> None:
        self.path, self.now_ps = path, now_ps
        self.links: list[WaitStep] = []
        self.circle = False

    @property
    def resource(self) -> str:
        """Path of what is at the end of the chain."""
        return self.links[-1].path if self.links else self.path

    def __iter__(self) -> Iterator[WaitStep]:
        """The steps."""
        return iter(self.links)

    def __len__(self) -> int:
        """Number of steps."""
        return len(self.links)

    def _since(self, step: WaitStep) -> str:
        lasts_ps = self.now_ps - step.since_ps
        return f" (for {format_time(lasts_ps)})" if step.since_ps >= 0 and lasts_ps > 0 else ""

    def __str__(self) -> str:
        """A line a step."""
        head = f"Why {self.path} waits at {format_time(self.now_ps)}:"
        return "\n".join([head, *(f"  {n}. {s.text}{self._since(s)}" for n, s in enumerate(self.links, 1))])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{escape(s.text)}{self._since(s)}</li>" for s in self.links)
        head = f"Why {escape(self.path)} waits at {format_time(self.now_ps)}"
        return f"<b>{head}</b><ol>{items}</ol>"
