"""What a simulation adds up and shows of its memory: a part of :class:`astranb.sim.Simulation`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from astranb.core.units import time_ps
from astranb.engine.cacheline._aggregate import Aggregate, aggregate
from astranb.engine.cacheline._memory import memory

if TYPE_CHECKING:
    from astranb.core.jit import Records

    from ._simulation import Simulation

__all__ = ["Measuring"]


class Measuring:
    """Spans, intervals and buffers."""

    def spans(self, start_ps: int = 0, end_ps: int | None = None) -> Any:
        """What every thread block did when (see :meth:`Inspector.spans`)."""
        sim = cast("Simulation", self)
        inspector = sim._inspector  # noqa: SLF001 - a part of its own class
        return inspector.spans(start_ps, sim.now_ps if end_ps is None else end_ps)

    def aggregate(
        self, start: int | str = 0, end: int | str | None = None, *, ranks: Sequence[int] | None = None
    ) -> Aggregate:
        """Add up what happened in an interval of time that has been simulated.

        Parameters
        ----------
        start, end : int or str
            Picoseconds, or text as ``"2 us"``; up to now where no end is given.
        ranks : sequence of int, optional
            Only these GPUs, and links that leave or reach them.

        Returns
        -------
        Aggregate
            Time in states, lines and bytes by type of link and by link, phases.

        Raises
        ------
        InputError
            The interval ends before it begins, or there is no such rank.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
        >>> sim.run().why
        'end'
        >>> part = sim.aggregate("1 us", "3 us", ranks=[0])
        >>> round(sum(part.shares().values()), 9), part.classes[0]["kind"]
        (1.0, 'store data')
        """
        sim = cast("Simulation", self)
        last = sim.now_ps if end is None else time_ps(end, where="end")
        return aggregate(sim, time_ps(start, where="start"), last, ranks)

    def memory(self, rank: int, buffer: str = "output") -> Records:
        """Say what a buffer of a rank holds now, piece by piece.

        Parameters
        ----------
        rank : int
        buffer : str
            ``"input"``, ``"output"``, ``"scratch"`` or ``"packets"``.

        Returns
        -------
        recarray, shape (pieces,)
            By address: ``chunk``, ``lane``; ``lines``, and how many of them have ``arrived``
            (while a write is under way, of that write); the ``source``, the rank whose SM or
            copy engine wrote them (-1: nobody yet); ``final``, whether nothing will be written
            there any more; ``contributions`` (ranks,), how often each rank's data is in it.

        Raises
        ------
        InputError
            There is no such rank or buffer.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
        >>> int(sim.memory(3).arrived.sum()), sim.memory(3, "input").contributions[0].tolist()
        (0, [0, 0, 0, 1, 0, 0, 0, 0])
        >>> sim.run().why
        'end'
        >>> bool(sim.memory(3).final.all()), sim.memory(3).contributions[0].tolist()
        (True, [1, 1, 1, 1, 1, 1, 1, 1])
        """
        return memory(cast("Simulation", self), rank, buffer)
