"""What a workload's simulation can explain: waits, lost time, the critical path, and what would help."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, cast, overload

from astranb.core.errors import InputError
from astranb.engine.messages._critical import Piece
from astranb.sim._change import Change, WhatIf
from astranb.sim._explain import watched

if TYPE_CHECKING:
    import pandas as pd

    from astranb.sim._why import Why

    from ._simulation import WorkloadSimulation

__all__ = ["Explained"]


class Explained:
    """The verbs of a simulation that explain; none of them moves it."""

    def why(self, path: str = "") -> Why:
        """Say why a rank or an operation waits now: the chain of waits, from rank to rank.

        Parameters
        ----------
        path : str
            As ``rank[3]`` or ``rank[3].op[7]``; where not given, the rank that has waited longest.
        """
        return self._self.state.why(self._self, path)

    def critical_path(self) -> list[Piece]:
        """The operations each of which had to wait for the one before: together, the time so far."""
        return self._self.result.critical_path()

    def lost_time(self, per: str = "rank") -> pd.DataFrame:
        """Where the time of the ranks went, up to now.

        Parameters
        ----------
        per : str
            ``"rank"``.

        Returns
        -------
        pandas.DataFrame
            A column in ps for each cause (:data:`~astranb.sim.workload.LOSSES`); a row's causes
            add up to its ``time_ps``, the time of the run.
        """
        from ._lost import lost_time

        if per != "rank":
            raise InputError(f"lost time per {per!r}", where="lost_time", hint="per rank")
        return lost_time(self._self)

    @overload
    def what_if(self) -> WhatIf: ...

    @overload
    def what_if(self, path: str, value: float | str = "") -> Change: ...

    def what_if(self, path: str = "", value: float | str = "") -> WhatIf | Change:
        """Ask what a change would do to the time of the run: a fork runs with it, so that it is EXACT.

        Parameters
        ----------
        path : str
            What to change, as ``dim[0].bandwidth``, ``rank[3].speed`` or (with congestion)
            ``link[7].latency``; ``rank[*]``, ``dim[*]`` and ``link[*]`` mean all. Where not given:
            every change that is likely to matter, the one that gains most first.
        value : float or str
            ``"x2"`` (twice as much), ``"x0.5"``, or a value as :meth:`set` takes it; ``"inf"``
            is a speed at which computations take no time.

        Returns
        -------
        WhatIf or Change
            ``exact_ps`` is the time of the whole run with the change from the start; ``causes``
            what the time consists of without and with it (the critical path).

        Examples
        --------
        >>> from astranb.workload.astrasim2 import COMPUTE, Network, Operations, System
        >>> from astranb.sim.workload import WorkloadSimulation
        >>> one = Operations.of([{"kind": COMPUTE, "duration_us": 3}])
        >>> network = Network(["Ring"], [2], [50], [500])
        >>> sim = WorkloadSimulation([one] * 2, network, System.from_document({}))
        >>> change = sim.what_if("rank[*].speed", "x2")
        >>> change.before_ps, change.exact_ps, change.causes
        (3000000, 1500000, (('compute', 3000000, 1500000),))
        """
        from ._what_if import suggest

        if path:
            return watched(self.asked(path, value), "what if")
        rows = [self.what_if(change.path, change.value) for change in suggest(self._ended())]
        return WhatIf(sorted(rows, key=lambda row: row.exact_ps or 0))

    def asked(self, path: str, value: float | str = "") -> Generator[float, None, Change]:
        """Begin to work out :meth:`what_if` in a copy: each step gives the part that is done.

        Raises
        ------
        InputError
            At once: there is no such thing to change.
        """
        from ._what_if import Question, answer

        sim = self._self
        usual = "x0.5" if path.endswith("latency") else "x2"
        question = Question(sim, path, value if value != "" else usual)

        def work() -> Generator[float, None, Change]:
            copy = sim.fork()  # the simulation may go on meanwhile
            yield 0.0
            return (yield from answer(copy, question))

        return work()

    def _ended(self) -> WorkloadSimulation:
        """The run at its end: what changes it all is asked about the whole of it."""
        sim = self._self
        if not sim.finished:
            sim = sim.fork()
            sim.run()
        return sim

    @property
    def _self(self) -> WorkloadSimulation:
        return cast("WorkloadSimulation", self)
