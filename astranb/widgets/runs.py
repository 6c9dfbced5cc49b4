"""``Runs``: several runs in one notebook cell, of which one is shown at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from time import perf_counter

import anywidget
import traitlets

from astranb.core.errors import InputError, near
from astranb.core.units import format_time
from astranb.sim import Simulation

from .assets import RUNS, STYLES
from .plugged import module_texts
from .workbench import Workbench

__all__ = ["Runs"]

_EVERY_S = 0.25


class Runs(anywidget.AnyWidget):
    """A list of runs, and the workbench of the one that is chosen.

    Each run keeps its own clock, breakpoints and open panels while another one is shown.

    Parameters
    ----------
    runs : mapping of str to Simulation, or iterable of Simulation
        By the names that the list shows; without names, by their titles.

    Raises
    ------
    InputError
        There is no run, or what is given is not a simulation.

    Examples
    --------
    >>> import astranb as anb
    >>> ring = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
    >>> runs = anb.Runs({"ring": ring, "allpairs": ring.rebuilt(algorithm="allpairs")})
    >>> runs.names
    ['ring', 'allpairs']
    >>> runs.show("allpairs")
    >>> runs.shown.event(1000)
    >>> runs["ring"].sim.events
    0
    >>> runs.add(runs["ring"].sim.fork_with({"channels": 2}), "two channels")
    >>> len(runs.names)
    3
    """

    _esm = RUNS
    _css = STYLES
    _modules = traitlets.Dict().tag(sync=True)
    _rows = traitlets.List().tag(sync=True)  # name, state in words, reference to the view, of each run
    _chosen = traitlets.Unicode("").tag(sync=True)

    def __init__(self, runs: Mapping[str, Simulation] | Iterable[Simulation]) -> None:
        given = list(runs.items()) if isinstance(runs, Mapping) else [("", sim) for sim in runs]
        if not given:
            raise InputError("no run to show", where="Runs", hint="Runs([sim, other])")
        super().__init__(_modules=module_texts())
        self._benches: dict[str, Workbench] = {}
        self._ends: list[Callable[[], None]] = []
        self._reported_s = 0.0
        for name, sim in given:
            self.add(sim, name)
        self._chosen = self.names[0]

    @property
    def names(self) -> list[str]:
        """The names of the runs, in the order of the list."""
        return list(self._benches)

    @property
    def shown(self) -> Workbench:
        """The workbench that is shown."""
        return self._benches[self._chosen]

    def __getitem__(self, name: str) -> Workbench:
        """The workbench of a run."""
        if name not in self._benches:
            raise InputError(f"unknown run {name!r}", where="Runs", hint=near(name, self._benches))
        return self._benches[name]

    def add(self, sim: Simulation, name: str = "") -> None:
        """Add a run at the end of the list; a name that is taken gets a number."""
        bench = Workbench(sim)
        wanted = name or sim.title
        number, free = 1, wanted
        while free in self._benches:
            number += 1
            free = f"{wanted} ({number})"
        self._benches[free] = bench
        self._ends.append(bench.session.attach(self._report))
        self._report()

    def show(self, name: str) -> None:
        """Show another run."""
        self[name]
        self._chosen = name

    def close(self) -> None:
        """Close the views; the runs stay."""
        if "_benches" in self.__dict__:  # else it was refused before it showed anything
            for end in self._ends:
                end()
            for bench in self._benches.values():
                bench.close()
        super().close()

    def _report(self) -> None:
        """Report the progress of each run: at rest at once, else four times a second."""
        playing = any(bench.session.running for bench in self._benches.values())
        if playing and perf_counter() - self._reported_s < _EVERY_S:
            return
        self._reported_s = perf_counter()
        self._rows = [
            [name, _words(bench.sim), f"anywidget:{bench.model_id}"] for name, bench in self._benches.items()
        ]


def _words(sim: Simulation) -> str:
    """Return the progress of a run in words."""
    return f"ended at {format_time(sim.now_ps)}" if sim.finished else f"at {format_time(sim.now_ps)}"
