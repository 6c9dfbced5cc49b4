"""The last moment at which a hang, or a missed deadline, could still be avoided."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from astranb.core.display import Displayed
from astranb.core.errors import Deadlock, InputError
from astranb.core.progress import bar
from astranb.core.units import format_time, time_ps
from astranb.sim import Simulation

__all__ = ["NoReturn", "Repair", "point_of_no_return"]

Repair = tuple[str, float | str | bool] | Callable[[Simulation], object]
"""An edit as ``Simulation.set`` takes it, or what is done to the simulation."""


@dataclass(frozen=True)
class NoReturn(Displayed):
    """Last moment at which a repair still helps.

    Attributes
    ----------
    event : int
        Events handled before the last moment at which the repair helps; -1: it never does.
    time_ps : int
        Time of the event that makes it too late, the first one after that moment; -1: there is none.
    avoided_end_ps : int
        When the run ends that is repaired at the last moment; -1: there is none.
    because : str
        What that event is.
    otherwise : str
        What happens without the repair.
    ends_at : int
        Events of the run without the repair.
    tried : int
        How many moments were tried, each by a run to the end.
    exceptions : tuple of int
        Of the moments that were tried at random, those that contradict the search: before ``event``
        the repair did not help, or after it it did. Empty where nothing contradicts it.
    """

    event: int
    time_ps: int
    avoided_end_ps: int
    because: str
    otherwise: str
    ends_at: int
    tried: int
    exceptions: tuple[int, ...]

    @property
    def avoidable(self) -> bool:
        """Whether the repair helps at any moment that was searched."""
        return self.event >= 0

    def __str__(self) -> str:
        """A few lines for a person."""
        if not self.avoidable:
            found = "never avoidable by this repair"
        elif self.event == self.ends_at:
            found = f"avoidable up to the end, event {self.event:,}"
        else:
            found = f"avoidable up to event {self.event:,}; too late at {format_time(self.time_ps)}"
            found += f": {self.because}" if self.because else ""
        lines = [found]
        if self.avoidable:
            lines.append(f"repaired then, it ends at {format_time(self.avoided_end_ps)}")
        lines.append(f"otherwise: {self.otherwise}")
        if self.exceptions:
            some = ", ".join(f"{event:,}" for event in self.exceptions)
            lines.append(f"not monotone: the repair has the other outcome at event {some}")
        return "\n".join(lines)


def point_of_no_return(
    sim: Simulation, repair: Repair, deadline: int | str | None = None, *, checks: int = 4, seed: int = 0
) -> NoReturn:
    """Search the last moment at which a repair avoids a hang or a missed deadline.

    Bisection over event numbers: each try is a fork that goes back, is repaired and runs to its end. It
    assumes that a repair which helps at one moment helps at every earlier one; some moments drawn at
    random are tried to check that. The search begins at the last edit (earlier moments have
    another future) or at the start, and ends where the run does.

    Parameters
    ----------
    sim : Simulation
        At any moment, also at its end; it is not moved.
    repair : tuple or callable
        An edit, as ``("A->B.up", True)``, or what is called with a fork and changes it.
    deadline : int or str, optional
        When the run has to be done; where not given, it has to end at all.
    checks : int
        Moments to try at random besides.
    seed : int
        Of these.

    Raises
    ------
    InputError
        The run ends, and in time.

    Examples
    --------
    >>> import astranb as anb
    >>> sim = anb.Simulation("ring:gpus=4", anb.collectives.all_gather("4 KiB", "ring"))
    >>> sim.set("gpu[0]->gpu[1].bandwidth", "100 MB/s")
    >>> repair = ("gpu[0]->gpu[1].bandwidth", "50 GB/s")
    >>> found = anb.explore.point_of_no_return(sim, repair, "30 us", checks=2)
    >>> 0 < found.event < found.ends_at, found.avoided_end_ps <= 30_000_000
    (True, True)
    """
    limit_ps = None if deadline is None else time_ps(deadline, where="deadline")
    end = sim.fork(record=False)
    without, otherwise = _outcome(end, limit_ps)
    if without is not None:
        what = "it ends" if limit_ps is None else f"it ends at {format_time(without)}, before the deadline"
        raise InputError(f"nothing has to be avoided: {what}", where="point_of_no_return")
    edits = end.driver.edits
    first, last = max((edit.events for edit in edits), default=0), end.events
    tried: dict[int, int | None] = {}

    def helps(event: int) -> bool:
        if event not in tried:
            fork = _at(end, event)
            if callable(repair):
                repair(fork)
            else:
                fork.set(*repair)
            tried[event] = _outcome(fork, limit_ps)[0]
            progress.update(1)
        return tried[event] is not None

    with bar(
        2 + max(1, last - first).bit_length() + checks, what="point of no return", unit=" runs"
    ) as progress:
        low, high = first, last
        if not helps(first):
            low = -1
        elif helps(last):
            low = last
        else:
            while high - low > 1:
                middle = (low + high) // 2
                low, high = (middle, high) if helps(middle) else (low, middle)
        draw = Random(seed)  # noqa: S311 - not for secrets
        drawn = {draw.randint(first, last) for _ in range(checks)}
        exceptions = tuple(event for event in sorted(drawn) if helps(event) != (event <= low))
    moment_ps, because = -1, ""
    if 0 <= low < last:
        late = _at(end, low + 1)
        moment_ps, because = late.now_ps, late.narrate()
    ended_ps = tried.get(low)
    return NoReturn(
        low, moment_ps, -1 if ended_ps is None else ended_ps, because, otherwise, last, len(tried), exceptions
    )


def _at(end: Simulation, event: int) -> Simulation:
    """A fork at an earlier moment."""
    fork = end.fork(record=False)
    fork.back(fork.events - event)
    return fork


def _outcome(sim: Simulation, limit_ps: int | None) -> tuple[int | None, str]:
    """Run to the end: when that is, None where it hangs or is late; and that in words."""
    try:
        sim.run()
    except Deadlock as error:
        return None, str(error)
    took_ps = sim.result.time_ps
    if limit_ps is not None and took_ps > limit_ps:
        return None, f"it ends at {format_time(took_ps)}, after {format_time(limit_ps)}"
    return took_ps, f"it ends at {format_time(took_ps)}"
