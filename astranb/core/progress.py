"""Progress of long work: on standard error, and only on a terminal (or in a notebook)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["announce", "bar", "visible"]


def visible() -> bool:
    """Whether somebody can see progress: a terminal, or a Jupyter kernel."""
    ipython = sys.modules.get("IPython")
    return sys.stderr.isatty() or (ipython is not None and ipython.get_ipython() is not None)


@contextmanager
def announce(text: str) -> Iterator[None]:
    """Say what is being done while it is done.

    Parameters
    ----------
    text : str
        What is done; printed once, followed by ``done`` and the seconds it took.

    Examples
    --------
    >>> with announce("compiling"):
    ...     pass
    """
    from time import perf_counter

    if not visible():
        yield
        return
    began = perf_counter()
    print(f"astranb: {text} …", end=" ", file=sys.stderr, flush=True)
    try:
        yield
    finally:
        print(f"done in {perf_counter() - began:.1f} s", file=sys.stderr, flush=True)


def bar(total: int | None, *, what: str, unit: str) -> Any:
    """A progress bar with rate and time left (tqdm), silent where nobody sees it.

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
