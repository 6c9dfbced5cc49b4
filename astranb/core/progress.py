"""Progress of long work: on standard error, and only on a terminal (or in a notebook)."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread, local
from time import perf_counter
from typing import Any, Final, Self

from .host import THREADS

__all__ = [
    "Interrupted",
    "announce",
    "bar",
    "building",
    "heard",
    "notice",
    "reported_to",
    "share",
    "stage",
    "visible",
]

_SHOWN_AFTER_S: Final = 1.0
_OFTEN_S: Final = 0.1
_hearers: list[Callable[[str], None]] = []


class _Current(local):
    """Current activity of this thread."""

    building: _Building | None = None
    show: Callable[[str, int, int | None], None] | None = None


_current = _Current()


def visible() -> bool:
    """Return whether somebody can see progress: a terminal, or a Jupyter kernel.

    ``TQDM_DISABLE``, the variable of tqdm, hides it: outputs of a notebook then do not depend on how
    fast the machine is.
    """
    if os.environ.get("TQDM_DISABLE") or _current.show is not None:
        return False
    ipython = sys.modules.get("IPython")
    return sys.stderr.isatty() or (ipython is not None and ipython.get_ipython() is not None)


@contextmanager
def heard(show: Callable[[str], None]) -> Iterator[None]:
    """Send each announcement made meanwhile to a function, too.

    Parameters
    ----------
    show : callable
        Takes the line.

    Examples
    --------
    >>> with heard(print), announce("compiling", 3):
    ...     pass
    compiling: about 3 s
    """
    _hearers.append(show)
    try:
        yield
    finally:
        _hearers.remove(show)


@contextmanager
def reported_to(show: Callable[[str, int, int | None], None]) -> Iterator[None]:
    """Report the progress of this thread's work to a function, instead of printing it.

    Parameters
    ----------
    show : callable
        Takes what is done, how much of it is done, and how much it is in all if that is known. What it
        raises ends the work.

    Examples
    --------
    >>> with reported_to(print), bar(2, what="trying", unit="things") as shown:
    ...     shown.update(1)
    trying 0 2
    trying 1 2
    """
    _current.show = show
    try:
        yield
    finally:
        _current.show = None


class _ReportedBar:
    """Progress bar of :func:`bar` where progress is reported to a function."""

    def __init__(self, what: str, total: int | None, show: Callable[[str, int, int | None], None]) -> None:
        self.what, self.total, self.n, self._show = what, total, 0, show
        self.refresh()

    def update(self, n: int = 1) -> None:
        self.n += n
        self.refresh()

    def refresh(self) -> None:
        self._show(self.what, self.n, self.total)

    def set_description_str(self, text: str, refresh: bool = True) -> None:
        self.what = text
        if refresh:
            self.refresh()

    def close(self) -> None:
        """Report nothing more."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextmanager
def announce(text: str, seconds: float | None = None) -> Iterator[None]:
    """Announce work while it is done.

    Parameters
    ----------
    text : str
        What is done; printed once, followed by ``done`` and the seconds it took.
    seconds : float, optional
        About how long it takes. The time passed is then printed every second.

    Examples
    --------
    >>> with announce("compiling"):
    ...     pass
    """
    for show in tuple(_hearers):
        show(text if seconds is None else f"{text}: about {seconds:.0f} s")
    if _current.show is not None:
        _current.show(text, 0, None)
    if not visible():
        yield
        return
    began = perf_counter()
    about = "" if seconds is None else f"(0 s of about {seconds:.0f} s) "
    print(f"astranb: {text} … {about}", end="", file=sys.stderr, flush=True)
    over = Event()

    def count() -> None:
        while not over.wait(1):
            passed = f"({perf_counter() - began:.0f} s of about {seconds:.0f} s) "
            print(f"\rastranb: {text} … {passed}", end="", file=sys.stderr, flush=True)

    counter = Thread(target=count, daemon=True) if seconds is not None and THREADS else None
    if counter:
        counter.start()
    try:
        yield
    finally:
        over.set()
        if counter:
            counter.join()
        if seconds is not None:
            print(f"\rastranb: {text} … ", end="", file=sys.stderr)
        print(f"done in {perf_counter() - began:.1f} s".ljust(len(about) + 4), file=sys.stderr, flush=True)


def notice(text: str) -> None:
    """Print one line on standard error, wherever it goes: what a person should know of a result.

    Parameters
    ----------
    text : str
        One line.
    """
    print(f"astranb: {text}", file=sys.stderr, flush=True)


def bar(total: int | None, *, what: str, unit: str, quiet: bool = False) -> Any:
    """A progress bar with rate and time left (tqdm), silent where it is not visible.

    Parameters
    ----------
    total : int or None
        The amount of work, when it is known.
    what : str
        What is done.
    unit : str
        What is counted.
    quiet : bool
        Whether it is not visible: something else shows the progress.

    Returns
    -------
    tqdm or what is used as one
        Call ``update(n)`` and ``close()``, or use it in a ``with``.
    """
    if _current.show is not None:
        return _ReportedBar(what, total, _current.show)
    if quiet or not visible():
        return _ReportedBar(what, total, lambda _what, _done, _total: None)
    from tqdm.auto import tqdm

    if not THREADS:
        tqdm.monitor_interval = 0  # its monitor is one, and it warns that it has none
    return tqdm(total=total, desc=what, unit=unit, leave=False, file=sys.stderr)


class Interrupted(KeyboardInterrupt):
    """The user has interrupted something long; a notebook shows one line instead of a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [f"astranb: {self}"]


class _Building:
    """The progress of something that is built in stages."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.began = self.shown = perf_counter()
        self.stage, self.first, self.until = "", 0.0, 0.0
        self.bar: Any = None

    def show(self, done: float) -> None:
        now = perf_counter()
        if now - self.began < _SHOWN_AFTER_S or now - self.shown < _OFTEN_S:
            return
        self.shown = now
        if self.bar is None:
            self.bar = bar(100, what=self.what, unit="%")
        self.bar.set_description_str(f"{self.what}: {self.stage}", refresh=False)
        self.bar.n = round(100 * (self.first + done * (self.until - self.first)))
        self.bar.refresh()

    def close(self) -> None:
        if self.bar is not None:
            self.bar.n = self.bar.total  # else a notebook keeps it, in red
            self.bar.close()


@contextmanager
def building(what: str) -> Iterator[None]:
    """Show the progress of something that is built, once it takes longer than a second.

    Parameters
    ----------
    what : str
        What is built. Functions called inside report with :func:`stage` and :func:`share`.

    Raises
    ------
    Interrupted
        The user has interrupted it.

    Examples
    --------
    >>> with building("a house"):
    ...     stage("walls", 0.5)
    ...     share(1, 4)
    """
    if _current.building is not None:
        yield
        return
    mine = _current.building = _Building(what)
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(f"interrupted while building {what}; nothing was kept") from None
    finally:
        _current.building = None
        mine.close()


def stage(name: str, until: float) -> None:
    """Begin the next stage of what is built; at its end, so much of the whole is done (0 to 1)."""
    now = _current.building
    if now is not None:
        now.stage, now.first, now.until = name, now.until, until
        now.show(0.0)


def share(done: int, total: int) -> None:
    """Report how much of the stage is done."""
    now = _current.building
    if now is not None:
        now.show(done / max(1, total))
