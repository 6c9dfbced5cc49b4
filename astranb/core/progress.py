"""Progress of long work: on standard error, and only on a terminal (or in a notebook)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event, Thread
from time import perf_counter
from typing import Any

__all__ = ["announce", "bar", "notice", "visible"]


def visible() -> bool:
    """Whether somebody can see progress: a terminal, or a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    return sys.stderr.isatty() or (ipython is not None and ipython.get_ipython() is not None)


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

    counter = None if seconds is None else Thread(target=count, daemon=True)
    if counter:
        counter.start()
    try:
        yield
    finally:
        over.set()
        if counter:
            counter.join()
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


def bar(total: int | None, *, what: str, unit: str) -> Any:
    """A progress bar with rate and time left (tqdm), silent where it is not visible.

    Parameters
    ----------
    total : int or None
        The amount of work, when it is known.
    what : str
        What is done.
    unit : str
        What is counted.

    Returns
    -------
    tqdm
        Call ``update(n)`` and ``close()``, or use it in a ``with``.
    """
    from tqdm.auto import tqdm

    return tqdm(total=total, desc=what, unit=unit, disable=not visible(), leave=False, file=sys.stderr)
