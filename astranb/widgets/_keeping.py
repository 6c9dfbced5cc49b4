"""A workbench that outlives its kernel: the simulation and what was looked at, in one file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

from astranb.core.errors import AstranbError
from astranb.sim import Simulation

from ._session import Session

__all__ = ["Keeping"]

_NAME = "workbench"  # of our part of the file
_VIEW = {name: f"_{name}" for name in ("selection", "cursor_ps", "window_ps", "panels", "redraw_hz")}
_PAUSE_S = 1.0
"""How long after coming to rest the file is written: many steps in a row are written once."""


class Keeping:
    """What saves and loads; a part of :class:`Workbench`.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import astranb as anb
    >>> path = Path(tempfile.mkdtemp()) / "session.anb"
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
    >>> workbench = anb.Workbench(sim)
    >>> workbench.event(1000)
    >>> workbench.select("gpu[3]")
    >>> workbench.save(path)
    >>> again = anb.Workbench.load(path)
    >>> again.sim.events, again.selected["title"]
    (1000, 'dgx_h100.0.xpu.3 (GPU3)')
    """

    sim: Simulation
    _session: Session
    _kept_at: Path | None = None  # where the session is written
    _kept: tuple[int, int] = (-1, 0)  # events and edits that there were when it was

    def save(self, path: str | Path) -> None:
        """Write the simulation as it stands, its breakpoints and watches, and what is looked at, to one file.

        Breakpoints and watches that are functions are not in it: a file holds no code.

        Raises
        ------
        InputError
            It cannot be written there.
        """
        view = {name: getattr(self, trait) for name, trait in _VIEW.items()}
        self.sim.notes[_NAME] = {**view, "speed": self._session.speed}
        self.sim.save(path)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Show again what was saved, where it stood, and go on to the same end.

        Raises
        ------
        InputError
            The file is no saved simulation.
        """
        workbench = cls(load_any(path))  # type: ignore[call-arg] # Workbench's
        view: dict[str, Any] = workbench.sim.notes.get(_NAME, {})
        for name, trait in _VIEW.items():
            if name in view:
                setattr(workbench, trait, view[name])
        if "speed" in view:
            workbench._session.ask("set_speed", speed=float(view["speed"]))
        workbench._session.tell(f"loaded from {path}")
        return workbench

    @classmethod
    def kept(cls, path: str | Path, make: Callable[[], Simulation | Simulation]) -> Self:
        """Go on with a file where there is one, else with a new simulation; and keep the file up to date.

        A cell with this survives a restart of the kernel: run it again.

        Parameters
        ----------
        path : str or Path
        make : callable
            Makes the simulation where there is no file yet.
        """
        workbench = cls.load(path) if Path(path).exists() else cls(make())  # type: ignore[call-arg]
        workbench.keep(path)
        return workbench

    def keep(self, path: str | Path | None) -> None:
        """Write the session to a file now and whenever it has come to rest; None ends that."""
        self._kept_at = None if path is None else Path(path)
        if path is not None:
            self.save(path)
            self._kept = self._stands

    @property
    def _stands(self) -> tuple[int, int]:
        return self.sim.events, len(self.sim.edits)

    def _keep_soon(self) -> None:
        """Something has changed: when it rests, write it; failures are told, and end the keeping."""
        if self._kept_at is not None and not self._session.playing and self._kept != self._stands:
            self._session.later(_PAUSE_S, self._keep_now)

    def _keep_now(self) -> None:
        if self._kept_at is None or self._session.playing or self._kept == self._stands:
            return
        self._kept = self._stands
        try:
            self.save(self._kept_at)
        except (AstranbError, OSError) as error:
            self._kept_at = None
            self._session.tell(f"not kept any longer: {error}")
