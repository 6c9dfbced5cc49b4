"""What a simulation can explain: why something waits, what its time consists of, what would help."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, TypeVar, cast, overload

from astranb.core.errors import InputError
from astranb.core.progress import bar

if TYPE_CHECKING:
    import pandas as pd

    from astranb.engine.cacheline._critical import CriticalPath
    from astranb.engine.cacheline._view import ObjectView

    from ._change import Change, WhatIf
    from ._simulation import Simulation
    from ._why import Why

__all__ = ["Explained", "watched"]

_PERCENT = 100
_T = TypeVar("_T")


class Explained:
    """The verbs of a simulation that explain; none of them moves it."""

    def at(self, path: str) -> ObjectView:
        """An object as it is now, to go on with in Python.

        Parameters
        ----------
        path : str
            As for :meth:`Simulation.inspect`.

        Returns
        -------
        ObjectView
            Its ``state`` holds numbers, with units in their names.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
        >>> sim.at("gpu[3]").state["max_outstanding"] > 0
        True
        """
        from astranb.engine.cacheline._view import ObjectView

        return ObjectView(self._self, path)

    def why(self, path: str = "") -> Why:
        """Say why an object waits now: the chain of waits, up to the resource at its end.

        Parameters
        ----------
        path : str
            A GPU, an SM, a thread block, a link or a line under way; where not given, the
            GPU whose thread block has waited longest.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "allpairs"))
        >>> sim.run(until="2 us").why
        'time'
        >>> why = sim.why("gpu[3]")
        >>> len(why.links) > 1
        True
        """
        from astranb.engine.cacheline._chain import explain_wait

        return explain_wait(self._self, path)

    def critical_path(self) -> CriticalPath:
        """Find what the time consists of, from the start to the end (up to now, while it runs).

        A private copy replays the run and notes every event: that takes about as long as
        running it, and nothing need have been recorded.
        """
        from astranb.engine.cacheline._critical import search

        sim = self._self
        key = (sim.events, tuple(sim.edits))
        kept = sim.__dict__.get("_critical")
        if kept is None or kept[0] != key:
            kept = (key, watched(search(sim), "critical path"))
            sim.__dict__["_critical"] = kept
        return cast("CriticalPath", kept[1])

    def lost_time(self, per: str = "gpu") -> pd.DataFrame:
        """Where the time of the GPUs or thread blocks went, up to now.

        Parameters
        ----------
        per : str
            ``"gpu"`` or ``"block"``.

        Returns
        -------
        pandas.DataFrame
            A column in ps for each cause (:data:`~astranb.sim.LOSSES`). A row's causes add
            up to its ``time_ps``: the time of the run for a thread block, for a GPU that
            times its number of blocks.
        """
        from astranb.engine.cacheline._lost import lost_time

        if per not in ("gpu", "block"):
            raise InputError(f"lost time per {per!r}", where="lost_time", hint="per gpu or per block")
        return lost_time(self._self, per)

    @overload
    def what_if(self) -> WhatIf: ...

    @overload
    def what_if(self, path: str, value: int | str = "") -> Change: ...

    def what_if(self, path: str = "", value: int | str = "") -> WhatIf | Change:
        """Ask what a change would do to the time of the run.

        Parameters
        ----------
        path : str
            What to change, as ``A->B.bandwidth`` (all lanes), ``gpu[3].hbm``, ``*->*.latency``
            (every link) or ``gpu[*].noc`` (every GPU). Where not given: a table of the changes
            that matter most to the critical path, each with an ESTIMATE.
        value : int or str
            ``"x2"`` (twice as much), ``"x0.5"``, or a value with a unit.

        Returns
        -------
        WhatIf or Change
            With a path and a value a fork runs from the start with the change: its time is
            EXACT, and stands beside the estimate.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("4 KiB", "allpairs"))
        >>> sim.run().why
        'end'
        >>> change = sim.what_if("*->*.latency", "x0.5")
        >>> change.at_least_ps <= change.exact_ps < change.before_ps
        True
        """
        from astranb.engine.cacheline._what_if import suggest

        if not path:
            return suggest(self._self, self.critical_path())
        return watched(self.asked(path, value), "what if")

    def asked(self, path: str, value: int | str = "") -> Generator[float, None, Change]:
        """Begin to work out :meth:`what_if` in a copy: each step gives the part that is done.

        Raises
        ------
        InputError
            At once: there is no such thing to change.
        """
        from astranb.engine.cacheline._what_if import Question, answer

        sim = self._self
        question = Question(sim, path, value if value != "" else _usual(path))

        def work() -> Generator[float, None, Change]:
            copy = sim.fork(record=False)  # the simulation may go on meanwhile
            yield 0.0
            return (yield from answer(copy, question))

        return work()

    @property
    def _self(self) -> Simulation:
        return cast("Simulation", self)


def watched(work: Generator[float, None, _T], what: str) -> _T:
    """Carry out some work at once, with a bar of its progress."""
    with bar(_PERCENT, what=what, unit="%") as progress:
        while True:
            try:
                progress.update(int(_PERCENT * next(work)) - progress.n)
            except StopIteration as end:
                progress.update(_PERCENT - progress.n)
                return cast("_T", end.value)


def _usual(path: str) -> str:
    """Twice as fast."""
    return "x2" if path.endswith("bandwidth") else "x0.5"
