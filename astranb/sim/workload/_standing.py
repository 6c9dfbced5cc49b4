"""Where a workload's run stands: what one can ask without moving it."""

from __future__ import annotations

from typing import Any

from astranb.core.errors import InputError
from astranb.core.units import format_time
from astranb.engine.cacheline._edits import Parameter
from astranb.engine.messages._about import About
from astranb.engine.protocol import Engine

from ._driver import FOREVER, Driver
from ._result import WorkloadResult

__all__ = ["Standing"]


class Standing:
    """What is now."""

    title: str
    _driver: Driver

    @property
    def state(self) -> Engine:
        """What is moved, to look at: its ``machine`` is tables."""
        return self._driver.state

    @property
    def about(self) -> About:
        """What does not change: operations with their names, dimensions."""
        return self.state.about

    @property
    def now_ps(self) -> int:
        """Time of the event handled last."""
        return self.state.now_ps

    @property
    def next_ps(self) -> int | None:
        """Time of the next event; None where there is none."""
        return self._driver.next_ps if self._driver.next_ps < FOREVER else None

    @property
    def events(self) -> int:
        """Events handled so far."""
        return self.state.count("events")

    @property
    def counts(self) -> dict[str, int]:
        """How many of each unit of steps there have been: ``{"event": …, "operation": …}``."""
        return {unit: self.state.count(field) for unit, field in self.state.units.items()}

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self.state.ranks

    @property
    def crowd(self) -> str:
        """How many there are, in words: of ASTRA-sim 1.0's files one stands for all."""
        alike = self.state.stands_for
        count = self.ranks * alike
        return f"{count:,} rank{'' if count == 1 else 's'}{' (all alike)' if alike > 1 else ''}"

    @property
    def recording(self) -> bool:
        """Whether phases of chunks and traffic are noted."""
        return self.state.recording

    @property
    def finished(self) -> bool:
        """Whether nothing is left to happen."""
        return self.state.next_ps < 0

    @property
    def result(self) -> WorkloadResult:
        """Times, breakdowns and traffic, up to now."""
        return WorkloadResult(self)

    def state_hash(self) -> str:
        """Hash everything simulated (32 hex digits); recording is no part of it."""
        return self.state.digest()

    def inspect(self, path: str) -> dict[str, Any]:
        """Look at an object: its state now, what is under way, what one can go on to.

        Parameters
        ----------
        path : str
            As ``rank[3]``, ``rank[3].op[5]`` (or an operation's name), ``rank[3].dim[0]``,
            ``dim[0]`` or ``link[7]``.
        """
        return self.state.inspect(self, path)

    def narrate(self) -> str:
        """Say in one line what happened last."""
        return self.state.narrate(self)

    def fields(self, path: str) -> list[str]:
        """What a condition of :meth:`break_when` may name of an object; nothing where there is none."""
        try:
            return list(self.state.fields(path))
        except InputError:
            return []

    def parameters(self, path: str = "") -> list[Parameter]:
        """What can be changed of an object with :meth:`set`: its value now, unit, limits, and when it acts.

        Parameters
        ----------
        path : str
            A rank, a dimension or a link; where empty the whole run, of which nothing can be.
        """
        return self.state.parameters(path, self._driver.edits) if path else []

    def __repr__(self) -> str:
        """One line: what runs on what, and where it stands."""
        shape = " x ".join(self.about.topology)
        return (
            f"<WorkloadSimulation {self.title} on {shape}: {self.crowd}, "
            f"at {format_time(self.now_ps)}, "
            f"{self.events:,} events{', finished' if self.finished else ''}>"
        )
