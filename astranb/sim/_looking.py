"""What a simulation says of itself: a part of :class:`astranb.sim.Simulation`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ._contributions import Contributions, contributions

if TYPE_CHECKING:
    from ._simulation import Simulation

__all__ = ["Looking"]


class Looking:
    """Whose data is where."""

    def contributions(self, buffer: str | None = None) -> Contributions:
        """Say whose contributions are in which chunk, now: who has summed whom.

        Parameters
        ----------
        buffer : str, optional
            ``input``, ``output``, ``scratch`` or ``packets``; all where not given.

        Returns
        -------
        Contributions
            One cell a chunk of a rank, with how often each rank is in it.

        Raises
        ------
        InputError
            There is no such buffer.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("switch:gpus=4", anb.collectives.all_reduce("1 KiB", "ring"))
        >>> sim.contributions("input").text(0)
        'rank 0 input[0]: 0'
        >>> sim.run().why
        'end'
        >>> sim.contributions("output").text(0)
        'rank 0 output[0]: 0+1+2+3 of 4, final'
        """
        return contributions(cast("Simulation", self), buffer)
