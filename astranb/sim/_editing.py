"""What was changed by hand in a simulation, of whichever kind: told, undone, done again from the start."""

from __future__ import annotations

import dataclasses
from typing import Any

from astranb.core.errors import InputError

from ._stop import Stop

__all__ = ["Edited"]


class Edited:
    """Changes that are remembered; a part of the simulation."""

    _driver: Any

    def set(self, path: str, value: Any) -> None:
        """Change something for what has not started yet; each kind of simulation says what."""
        raise NotImplementedError

    def kill(self, link: str, *, both: bool = False) -> None:
        """Take a link down from now on: ``set("<link>.up", False)``.

        What it has taken in still arrives; what comes later waits until the link is brought
        back (:meth:`repair`). Routes are those of the start: nothing goes another way, neither
        here nor in ASTRA-sim, whose networks do not change while a run lasts. When nothing
        else can happen any more, verbs raise :class:`~astranb.core.errors.Deadlock`, which
        names the dead link and how much waits for it.

        Parameters
        ----------
        link : str
            ``A->B`` (all lanes) or ``A->B#k``; of a workload ``link[7]``.
        both : bool
            The other direction as well, as when a cable is cut.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
        >>> sim.kill("gpu[0]->dgx_h100.0.nvsw.0")
        >>> try:
        ...     sim.run()
        ... except anb.core.errors.Deadlock as error:
        ...     print("is dead since 0 ps" in str(error))
        True
        """
        for path in self._ways(link, both):
            self.set(f"{path}.up", "no")

    def repair(self, link: str, *, both: bool = False) -> None:
        """Bring a dead link back: what waited goes on, in the order in which it came."""
        for path in self._ways(link, both):
            self.set(f"{path}.up", "yes")

    @property
    def edits(self) -> list[tuple[int, str, str]]:
        """The edits so far: (events handled before it, path, value)."""
        return [(e.events, e.path, e.value) for e in self._driver.edits]

    def undo(self, number: int = -1) -> Stop:
        """Go back to the moment of an edit, as it was before it; later edits are undone, too.

        Parameters
        ----------
        number : int
            Which one of :attr:`edits`; the last where not given.
        """
        count = len(self._driver.edits)
        if not -count <= number < count:
            raise InputError(f"there is no edit {number}", where="undo", hint=f"there are {count}")
        self._leave()
        self._driver.undo(number % count)
        return self._stop("back")

    def reset(self, *, keep: bool = False) -> Stop:
        """Go back to the start; breakpoints and watches stay.

        Parameters
        ----------
        keep : bool
            Whether what was changed stays changed, from the start on (the last value of each
            parameter: a Reset of a view keeps its parameters). Otherwise edits made after the
            start are undone; those made at the start are a part of it.
        """
        self._leave()
        last = {edit.path: edit for edit in self._driver.edits} if keep else {}
        if last:
            self._driver.undo(0)
        self._driver.back_to("events", 0)
        for edit in last.values():
            self._driver.edit(dataclasses.replace(edit, events=0, at_ps=0))
        return self._stop("back")

    def _ways(self, link: str, both: bool) -> list[str]:
        """A link, and, if wanted, the one the other way."""
        raise NotImplementedError

    def _leave(self) -> None:
        """Time is about to go back."""

    def _stop(self, why: str) -> Stop:
        raise NotImplementedError
