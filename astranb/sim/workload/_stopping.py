"""Where a workload's run stops, and who is told."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from astranb.sim import _breakpoints as common
from astranb.sim._breakpoints import Breakpoint
from astranb.sim._stop import Stop
from astranb.sim._stopping import Stopped

from ._standing import Standing
from ._watching import Watching

if TYPE_CHECKING:
    from ._simulation import WorkloadSimulation

__all__ = ["Stopping"]


class Stopping(Standing, Watching, Stopped):
    """Breakpoints and listeners."""

    @property
    def event_kinds(self) -> Sequence[str]:
        """What one can stop on."""
        return self.state.kinds

    def break_on(self, kind: str | None = None, object: str | None = None) -> Breakpoint:  # noqa: A002 - the public word
        """Stop after an event of a kind (``collective_end``, ``message``, …), of an object, or both."""
        return self._add(self.state.on_event(kind, object))

    def break_when(self, condition: str | Callable[[WorkloadSimulation], bool]) -> Breakpoint:
        """Stop when a condition begins to hold, as ``"rank[3].waiting > 0"``.

        A callable is asked after every single event: that is slow, a text is compiled.
        """
        if callable(condition):
            return self._add(common.called(condition))
        return self._add(self.state.condition(condition))

    def _beat(self) -> None:
        self._sample()
        super()._beat()

    def _install(self, points: Sequence[Breakpoint]) -> None:
        self.state.install(points)

    def _stop(self, why: str, point: Breakpoint | None = None) -> Stop:
        where = because = ""
        if point is not None:
            because = self.state.reason(point) or (self.narrate() if point.at_ps is None else "")
            where = point.object
        self._sample()
        return self._told(Stop(why, self.now_ps, self.events, where, point, because))
