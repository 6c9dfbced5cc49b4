"""Files of a run for people without a kernel: pages that play, pictures, and animations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from astranb.core.errors import InputError
from astranb.core.extras import needs_extra
from astranb.core.files import whole_file
from astranb.core.svg import frames_to_svg, to_svg
from astranb.core.units import time_ps
from astranb.sim import Simulation

from .feed import AnyFeed, feed_of
from .live_page import RUNTIME_FOLDER, live_page, write_runtime
from .offline_page import offline_page
from .pictures import picture_of
from .session import session_of

__all__ = ["Files", "files_of", "page"]

_MOVING = {".gif": "GIF", ".png": "PNG", ".webp": "WEBP", ".svg": "SVG"}
_MOST_FRAMES = 600


class Files:
    """Writes files of a run: a workbench, or :func:`files_of` where there is no widget."""

    feed: AnyFeed

    def _shown(self) -> dict[str, Any]:
        """Return the state of a view beside the run: open panels, the selected path, what was set there."""
        return {"panels": {}, "selection": "", "sizes": {}, "redraw_hz": 60.0}

    def to_svg(
        self,
        path: str | Path | None = None,
        *,
        at: int | str | None = None,
        dark: bool = False,
        what: str = "",
        rank: int = 0,
    ) -> str:
        """Draw the topology as SVG; of a run of operations what every rank did when.

        Parameters
        ----------
        path : str or Path, optional
            Where to write it, too.
        at : int or str, optional
            A moment that was recorded, as ``"2 us"`` or in ps; where not given, now.
        dark : bool
            For dark ground.
        what : str
            ``"topology"``; of a run of operations ``"ranks"``, ``"graph"``: the operations of a rank, or
            ``"memory"``: what a rank holds over time, of a step of a transformer.
        rank : int
            Of the graph and the memory.

        Returns
        -------
        str
            One ``<svg>`` element. Names from files are escaped.
        """
        text = to_svg(picture_of(self.feed, at, dark=dark, what=what, rank=rank))
        if path is not None:
            _write(path, text.encode())
        return text

    def to_png(
        self,
        path: str | Path,
        *,
        at: int | str | None = None,
        scale: float = 2.0,
        dark: bool = False,
        what: str = "",
        rank: int = 0,
    ) -> Path:
        """Draw the same as a PNG; ``scale`` is pixels a unit of the SVG, else as :meth:`to_svg`."""
        with needs_extra("to_png"):
            from astranb.drawing import to_image

        if not 0 < scale <= 8:
            raise InputError(f"scale must be above 0 and at most 8, got {scale}", where="to_png")
        image = to_image(picture_of(self.feed, at, dark=dark, what=what, rank=rank), scale)
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
        """Write an animation: pictures of moments from start to end, repeated.

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
        if kind != "SVG":
            with needs_extra("animate"):
                from astranb.drawing import to_image, write_frames
        if not self.feed.sim.recording:
            raise InputError("nothing was recorded", where="animate", hint="Simulation(..., record=True)")
        if not 2 <= frames <= _MOST_FRAMES:
            raise InputError(f"frames must be 2 to {_MOST_FRAMES}, got {frames}", where="animate")
        if not seconds > 0 or not 0 < scale <= 4:
            raise InputError("seconds must be above 0, scale above 0 and at most 4", where="animate")
        first, now_ps = time_ps(start, where="start"), self.feed.sim.now_ps
        last = now_ps if end is None else min(now_ps, time_ps(end, where="end"))
        if not 0 <= first < last:
            raise InputError(f"no time between start and end ({first} and {last} ps)", where="animate")
        moments = [first + (last - first) * k // (frames - 1) for k in range(frames)]
        shown = (picture_of(self.feed, at, dark=dark) for at in moments)
        with whole_file(path) as file:
            if kind == "SVG":
                file.write(frames_to_svg(list(shown), seconds).encode())
            else:
                write_frames([to_image(one, scale) for one in shown], file, kind=kind, seconds=seconds)
        return path

    def to_html(self, path: str | Path, *, live: bool | str = False, most: int = 100_000) -> Path:
        """Write one file that plays the run up to now, or simulates it, in any browser, without a network.

        Views and controls are those of the widget; what needs Python is labelled so. Names from
        files are shown as text, and a policy in the page lets it load nothing.

        Parameters
        ----------
        path : str or Path
            Written whole or not at all.
        live : bool or str
            Whether the page simulates, with our own Python in it: it opens at the present moment and does
            what JupyterLab does, with the same results. Otherwise it plays what was recorded. ``"shared"``:
            its Python is in a folder ``astranb-runtime`` beside it, which is written too and serves any
            number of pages of a site; another text: the folder or the address where it is.
        most : int
            Most flights of lines (about 12 bytes each) in the file; of more, every n-th is taken. Most
            operations (about 20 bytes each): those of the first ranks. The page reports it. A page that
            simulates holds a few.

        Returns
        -------
        Path
            The file.

        Raises
        ------
        InputError
            Nothing was recorded to play, the machine takes more memory than a page has, or the file
            cannot be written.

        Examples
        --------
        >>> import tempfile
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
        >>> workbench = anb.Workbench(sim)
        >>> workbench.to_end()
        >>> workbench.to_html(tempfile.mkdtemp() + "/run.html").stat().st_size < 1_000_000
        True
        >>> workbench.to_html(tempfile.mkdtemp() + "/live.html", live="shared").stat().st_size < 1_000_000
        True
        """
        if most < 1:
            raise InputError(f"most must be at least 1, got {most}", where="to_html")
        shown = self._shown()
        feed = feed_of(self.feed.session)
        if live:
            shared = "" if live is True else RUNTIME_FOLDER if live == "shared" else str(live).rstrip("/")
            text = live_page(feed, shown, feed.sim.recipe(), shared)
            if live == "shared":
                write_runtime(Path(path).parent / RUNTIME_FOLDER)
        else:
            text = offline_page(feed, most=most, panels=shown["panels"], selection=shown["selection"])
        return _write(path, text.encode())


def files_of(sim: Simulation) -> Files:
    """Return the writer of a simulation's files without a widget, as the command line uses it."""
    files = Files()
    files.feed = feed_of(session_of(sim))
    return files


def page(sim: Simulation, path: str | Path, *, live: bool | str = False) -> Path:
    """Write one file that shows a run in any browser, without Python and without a network.

    It needs no widget: :meth:`astranb.Workbench.to_html` writes the same with what is open there.

    Parameters
    ----------
    sim : Simulation
    path : str or Path
        Written whole or not at all.
    live : bool or str
        As for :meth:`astranb.Workbench.to_html`.

    Returns
    -------
    Path
        The file.

    Raises
    ------
    InputError
        Nothing was recorded to play, the machine takes more memory than a page has, or the file
        cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> import astranb as anb
    >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
    >>> anb.export.page(sim, tempfile.mkdtemp() + "/ring.html", live="shared").name
    'ring.html'
    """
    if isinstance(sim, str | Path):
        raise InputError("the simulation comes first", where="page", hint="write page(sim, 'run.html')")
    return files_of(sim).to_html(path, live=live)


def _write(path: str | Path, content: bytes) -> Path:
    """Write a file, whole or not at all."""
    with whole_file(Path(path)) as file:
        file.write(content)
    return Path(path)
