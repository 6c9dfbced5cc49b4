"""What a simulation says of itself: a part of :class:`astranb.sim.Simulation`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from astranb.collectives import Source
from astranb.core.jit import Records
from astranb.engine.cacheline._contributions import Contributions, contributions
from astranb.engine.cacheline._where import next_line, where

if TYPE_CHECKING:
    from ._simulation import Simulation
    from ._stop import Stop

__all__ = ["Looking"]


class Looking:
    """Whose data is where, and which line of the program everybody is at."""

    def contributions(self, buffer: str | None = None) -> Contributions:
        """Say whose contributions are in which chunk, now: who has summed whom.

        Parameters
        ----------
        buffer : str, optional
            ``input``, ``output``, ``scratch`` or ``packets``; all where not given; ``fullest``: of
            each rank and chunk of the data the copy, in whatever buffer, with the most in it.

        Returns
        -------
        Contributions
            One cell a chunk of a rank, with how often each rank is in it.

        Raises
        ------
        InputError
            There is no such buffer, or (``fullest``) ranks do not hold the same chunks.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("switch:gpus=4", anb.collectives.all_reduce("1 KiB", "ring"))
        >>> sim.contributions("input").text(0)
        'GPU0 input[0]: 0'
        >>> sim.run().why
        'end'
        >>> sim.contributions("output").text(0)
        'GPU0 output[0]: 0+1+2+3 of 4, final'
        """
        return contributions(cast("Simulation", self), buffer)

    @property
    def source(self) -> Source:
        """The text of the program, and the line of every operation.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("switch:gpus=4", anb.collectives.all_reduce("1 KiB", "ring"))
        >>> sim.source.text_of(0)
        'block.reduce([mine[chunk], inp[chunk]] if step else [inp[chunk]], p.scratch(right)[chunk])'
        """
        return cast("Simulation", self).program.source

    def where(self) -> Records:
        """Say at which line of the program each thread block is now.

        Returns
        -------
        recarray of SPOT, shape (thread blocks,)
            ``gpu``, ``block`` (of the GPU), ``state``, ``op`` of ``ops`` operations, ``part`` (of
            ``source.parts``, -1: not known, or it has ended) and ``line``.
        """
        return where(cast("Simulation", self))

    def next_line(self, block: str) -> Stop:
        """Go on until a thread block is at its next operation.

        Parameters
        ----------
        block : str
            As ``gpu[3].block.0``. One that has not begun yet goes on to its first operation.

        Returns
        -------
        Stop
            Earlier at another breakpoint.

        Raises
        ------
        InputError
            There is no such thread block, or it has ended.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("switch:gpus=4", anb.collectives.all_reduce("1 KiB", "ring"))
        >>> for _ in range(3):
        ...     stop = sim.next_line("gpu[2].block.0")
        >>> int(sim.where()[2].op)
        2
        """
        return next_line(cast("Simulation", self), block)
