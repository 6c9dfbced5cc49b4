"""*Synthesise*: an algorithm is made for what is chosen, away from the thread that answers the page."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from time import perf_counter
from typing import Any, Final

import numpy as np

from astranb.core.errors import AstranbError
from astranb.core.host import require_threads
from astranb.core.progress import reported_to
from astranb.core.units import format_time
from astranb.explore import Synthesis, best_algorithm, synthesize
from astranb.explore.synthesis import MOST_SENDS
from astranb.sim import Simulation

from .draft import MOST_RANKS, Draft

__all__ = ["Press", "drafted", "picture"]

_OFTEN_S: Final = 0.1
_SECONDS: Final = 30.0
"""For the first check of a text, which shares the processor with the page."""
_ALIKE: Final = 1.02  # times that differ less are not told apart
_EVENTS: Final = 100_000  # between two looks at whether it was stopped
_MOST_EVENTS: Final = 1_000_000  # of a library's algorithm once it is slower than the best so far


class _Stopped(BaseException):
    """Nobody waits for it any more; no ``Exception``, so that nothing goes on after it."""


def drafted(found: Synthesis, draft: Draft) -> Draft:
    """Return what is to be simulated: the algorithm as a text, or as it is where that would be too long."""
    short = len(found.schedule.edge) <= MOST_SENDS and found.network.ranks <= MOST_RANKS
    new = replace(draft, protocol="Simple", made=None, channels=found.text_channels)
    if short:
        new.text = found.text
        if not any(problem.severity == "error" for problem in new.check(_SECONDS)):
            return new
    schedule = found.schedule
    text = (
        f"# {schedule.condition.name} on {found.network.title}, {found.network.ranks} ranks: "
        f"{len(schedule.edge):,} sends, too many to be read and changed here.\n"
        "# Simulate runs the algorithm itself. In a cell, editor.found.steps is the schedule as a table,\n"
        '# editor.found.write("FILE.xml") writes it to a file, and Previous text brings back yours.\n'
    )
    found.verify()  # remembered: it takes long
    return replace(new, text=text, made=found, channels=None, protocol=found.protocol)


class Press:
    """One press of the button: a synthesis, its time by cache lines, and the library's best.

    Parameters
    ----------
    draft : Draft
        Where it runs, and what it is for.
    show : callable
        Takes what is done and the part of it (None: not known), in the thread that works.
    use : callable
        Takes the synthesis, the draft that holds it, and its simulation, once it is found.
    say : callable
        Takes lines about what was found, as more is known.

    Attributes
    ----------
    ended : threading.Event
        Set once a thread that was started has done everything, or has stopped.
    """

    def __init__(
        self,
        draft: Draft,
        show: Callable[[str, float | None], None],
        use: Callable[[Synthesis, Draft, Simulation], None],
        say: Callable[[list[str]], None],
    ) -> None:
        self._draft, self._show, self._use, self._say = replace(draft), show, use, say
        self._stopped = threading.Event()
        self.ended = threading.Event()
        self._shown = ("", -1.0)

    def stop(self) -> None:
        """Stop at the next check; nothing more is reported from now on."""
        self._stopped.set()

    def work(self) -> None:
        """Do it.

        Raises
        ------
        AstranbError
            It cannot be synthesised, or simulated.
        """
        draft = self._draft
        with reported_to(self._tell):
            found = synthesize(draft.infra, draft.collective, draft.size, root=draft.root)
            self._tell("verifying", 0, None)
            new = drafted(found, draft)
            self._use(found, new, new.simulation())
            line = _schedule_line(found)
            self._say([line])
            time_ps = self._time_ps(new)
            times = f"by cache lines {format_time(time_ps)}"
            if new.made is None:  # the text is simpler, and mostly as fast
                best_ps = self._time_ps(replace(new, made=found, channels=None, protocol=found.protocol))
                if best_ps * _ALIKE < time_ps:
                    by = "" if found.protocol == "Simple" else f" by {found.protocol}"
                    times += f" as this text ({format_time(best_ps)}{by} as editor.found.collective)"
                    time_ps = best_ps
            self._say([line, times])
            self._say([line, f"{times}; {self._library(time_ps)}"])

    def _time_ps(self, draft: Draft) -> int:
        """Simulate a draft to its end."""
        sim = draft.simulation(record=False, checkpoint_bytes=0)
        while not sim.finished:
            self._tell("simulating by cache lines", 0, None)
            sim.step(_EVENTS)
        return sim.now_ps

    def _library(self, ours_ps: int) -> str:
        """Describe the time of the library's best algorithm for the same."""
        draft = self._draft
        try:
            best = best_algorithm(
                draft.infra, draft.collective, draft.size, root=draft.root, most_events=_MOST_EVENTS
            ).iloc[0]
        except AstranbError as error:  # it may have nothing for this
            return str(error)
        best_ps = int(best["time_ps"])
        ratio = best_ps / ours_ps
        times = f"{ratio:.2f} times as long" if ratio >= 1 else f"{1 / ratio:.2f} times faster"
        return f"the library's best, {best['algorithm']}/{best['protocol']}, {format_time(best_ps)}: {times}"

    def start(self, ended: Callable[[str], None]) -> None:
        """Do it in a thread of its own; then an error, or "", is given to a function there.

        Raises
        ------
        InputError
            There are no threads.
        """
        require_threads("synthesis")

        def run() -> None:
            error = ""
            try:
                self.work()
            except _Stopped:
                pass
            except (AstranbError, MemoryError) as wrong:
                error = str(wrong) or type(wrong).__name__
            self.ended.set()
            if not self._stopped.is_set():
                ended(error)

        threading.Thread(target=run, name="astranb-synthesize", daemon=True).start()

    def _look(self) -> None:
        if self._stopped.is_set():
            raise _Stopped

    def _tell(self, what: str, done: int, total: int | None) -> None:
        self._look()
        now = perf_counter()
        if what != self._shown[0] or now - self._shown[1] > _OFTEN_S:
            self._shown = what, now
            self._show(what, done / total if total else None)


def _schedule_line(found: Synthesis) -> str:
    """Describe the distance of a schedule from the bound."""
    bound = "latency" if found.limit.latency_ps > found.limit.bandwidth_ps else "links"
    steps = len(set(found.schedule.start_ps.tolist()))
    return (
        f"schedule {format_time(found.time_ps)} in {steps} steps, {found.slower:.2f} times the bound by "
        f"{bound} of {format_time(found.bound_ps)}"
    )


def picture(found: Synthesis) -> dict[str, Any]:
    """Return what ``static/schedule.js`` draws: links, and what each sends when; nothing of too many."""
    schedule = found.schedule
    if len(schedule.edge) > MOST_SENDS:
        return {}
    ends = list(zip(schedule.source.tolist(), schedule.target.tolist(), strict=True))
    links = sorted(set(ends))
    row = {link: number for number, link in enumerate(links)}
    sent_ps = schedule.end_ps - found.network.latency_ps[schedule.edge]
    chunk, part = np.divmod(schedule.chunk, schedule.slices)
    columns = (schedule.start_ps, sent_ps, schedule.end_ps, chunk, part, schedule.adds)
    return {
        "end": schedule.time_ps,
        "bound": found.bound_ps,
        "slices": schedule.slices,
        "links": [list(link) for link in links],
        "sends": list(zip((row[one] for one in ends), *(c.tolist() for c in columns), strict=True)),
    }
