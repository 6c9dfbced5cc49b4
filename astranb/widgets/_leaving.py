"""What a workbench leaves behind: a page that plays, pictures, and pictures that move."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from astranb.core.errors import InputError
from astranb.core.extras import needs_extra
from astranb.core.files import whole_file
from astranb.core.svg import Picture, frames_to_svg, to_svg
from astranb.core.units import time_ps
from astranb.sim import Simulation

from ._still import still

if TYPE_CHECKING:
    from ._feed import Feed

__all__ = ["Leaving", "Pictures", "write"]

_MOVING = {".gif": "GIF", ".png": "PNG", ".webp": "WEBP", ".svg": "SVG"}
_MOST_FRAMES = 600


class Pictures:
    """Pictures of a run, still and moving; a part of a workbench."""

    sim: Any

    def _drawn(self, at_ps: int | None, *, dark: bool, **what: Any) -> Picture:
        """The picture of a moment; now, where it is None."""
        raise NotImplementedError

    def _require_recording(self) -> None:
        """Refuse where there is no past to draw."""

    def to_svg(
        self,
        path: str | Path | None = None,
        *,
        at: int | str | None = None,
        dark: bool = False,
        **what: Any,
    ) -> str:
        """Draw the topology as SVG; of a workload what every rank did when.

        Parameters
        ----------
        path : str or Path, optional
            Where to write it, too.
        at : int or str, optional
            A moment that was recorded, as ``"2 us"`` or in ps; where not given, now.
        dark : bool
            For dark ground.
        **what
            Of a workload: ``what="graph"`` draws the graph of a rank's operations, ``rank=3``.

        Returns
        -------
        str
            One ``<svg>`` element. Names from files are escaped.
        """
        text = to_svg(self._picture(at, dark=dark, **what))
        if path is not None:
            write(path, text.encode())
        return text

    def to_png(
        self,
        path: str | Path,
        *,
        at: int | str | None = None,
        scale: float = 2.0,
        dark: bool = False,
        **what: Any,
    ) -> Path:
        """Draw the same as a PNG; ``scale`` is pixels a unit of the SVG, else as :meth:`to_svg`."""
        with needs_extra("to_png"):
            from ._raster import to_image

        if not 0 < scale <= 8:
            raise InputError(f"scale must be above 0 and at most 8, got {scale}", where="to_png")
        image = to_image(self._picture(at, dark=dark, **what), scale)
        with whole_file(Path(path)) as file:
            image.save(file, "PNG")
        return Path(path)

    def to_gif(self, path: str | Path, **options: Any) -> Path:
        """Write a GIF; options as for :meth:`animate`."""
        if Path(path).suffix.lower() != ".gif":
            raise InputError("the file must be called .gif", where=str(path), hint="or use animate()")
        return self.animate(path, **options)

    def animate(
        self,
        path: str | Path,
        start: int | str = 0,
        end: int | str | None = None,
        *,
        frames: int = 60,
        seconds: float = 6.0,
        scale: float = 1.0,
        dark: bool = False,
    ) -> Path:
        """Write a picture that moves: as it was at moments from start to end, over and over.

        Parameters
        ----------
        path : str or Path
            ``.gif``, ``.svg`` (without a script), ``.png`` (APNG) or ``.webp``.
        start, end : int or str
            Simulated times, as ``"2 us"`` or in ps; the end is now where not given.
        frames : int
            How many moments, 2 to 600.
        seconds : float
            How long it takes to watch.
        scale : float
            Pixels a unit of the SVG.
        dark : bool
            For dark ground.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        InputError
            Another kind of file, no time between start and end, or nothing was recorded.
        """
        path = Path(path)
        kind = _MOVING.get(path.suffix.lower())
        if kind is None:
            raise InputError(f"cannot write {path.suffix!r}", where=str(path), hint=" or ".join(_MOVING))
        self._require_recording()
        if kind != "SVG":
            with needs_extra("animate"):
                from ._raster import to_image, write_frames
        if not 2 <= frames <= _MOST_FRAMES:
            raise InputError(f"frames must be 2 to {_MOST_FRAMES}, got {frames}", where="animate")
        if not seconds > 0 or not 0 < scale <= 4:
            raise InputError("seconds must be above 0, scale above 0 and at most 4", where="animate")
        first = time_ps(start, where="start")
        last = self.sim.now_ps if end is None else min(self.sim.now_ps, time_ps(end, where="end"))
        if not 0 <= first < last:
            raise InputError(f"no time between start and end ({first} and {last} ps)", where="animate")
        moments = [first + (last - first) * k // (frames - 1) for k in range(frames)]
        shown = (self._drawn(at, dark=dark) for at in moments)
        with whole_file(path) as file:
            if kind == "SVG":
                file.write(frames_to_svg(list(shown), seconds).encode())
            else:
                write_frames(file, [to_image(one, scale) for one in shown], kind, seconds)
        return path

    def _picture(self, at: int | str | None, *, dark: bool, **what: Any) -> Picture:
        moment = None if at is None else time_ps(at, where="at")
        if moment is not None and not 0 <= moment <= self.sim.now_ps:
            raise InputError(
                f"{moment} ps has not been simulated", where="at", hint=f"0 to {self.sim.now_ps} ps"
            )
        return self._drawn(moment, dark=dark, **what)


class Leaving(Pictures):
    """Files for people without a kernel; a part of :class:`Workbench`."""

    sim: Simulation
    _feed: Feed
    _selection: Any  # traits of the widget
    _panels: Any

    def to_html(self, path: str | Path, *, most_flights: int = 100_000) -> Path:
        """Write one file that plays what was recorded in any browser, without a network.

        Views and controls are those of the widget; what would need the kernel says so. Names
        from files cannot act in it, and a policy in the page lets it load nothing.

        Parameters
        ----------
        path : str or Path
            Written whole or not at all.
        most_flights : int
            Most flights of lines over links to take along (some 12 bytes of the file each). Of
            more, every n-th is taken, and the page says so.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        InputError
            Nothing was recorded, or the file cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
        >>> workbench = anb.Workbench(sim)
        >>> workbench.to_end()
        >>> workbench.to_html(tempfile.mkdtemp() + "/run.html").stat().st_size < 1_000_000
        True
        """
        from ._html import page

        if most_flights < 1:
            raise InputError(f"most_flights must be at least 1, got {most_flights}", where="to_html")
        text = page(self.sim, most_flights=most_flights, panels=dict(self._panels), selection=self._selection)
        return write(path, text.encode())

    def _drawn(self, at_ps: int | None, *, dark: bool, **what: Any) -> Picture:
        return still(self.sim, self._feed.layout, at_ps, dark=dark, **what)

    def _require_recording(self) -> None:
        if not self.sim.engine.recorder.on:
            raise InputError("nothing was recorded", where="animate", hint="Simulation(..., record=True)")


def write(path: str | Path, content: bytes) -> Path:
    """Write a file, whole or not at all."""
    with whole_file(Path(path)) as file:
        file.write(content)
    return Path(path)
