"""The folder that files must be in while somebody else names them: an assistant, for example.

Whatever reads a file that a user names, or writes one, asks here: so files that other files name are held
to it as well.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Final, NamedTuple

from .errors import InputError

__all__ = ["check_place", "check_python", "confined", "may_read"]

_OURS: Final = tuple(Path(place).resolve() for place in (Path(__file__).parents[1], sys.prefix))
"""Folders of our own data and plug-ins, which may be read."""


class _Bounds(NamedTuple):
    folder: Path
    python: bool


_bounds: ContextVar[_Bounds | None] = ContextVar("bounds", default=None)


@contextmanager
def confined(folder: Path, *, python: bool = False) -> Iterator[None]:
    """Check in the block that files are in a folder; symbolic links are followed.

    Parameters
    ----------
    folder : Path
    python : bool
        Whether Python files in it may be executed: they can do anything.

    Examples
    --------
    >>> with confined(Path("/tmp")):
    ...     check_place("/tmp/../etc/passwd")
    Traceback (most recent call last):
        ...
    astranb.core.errors.InputError: /tmp/../etc/passwd: outside of the folder /tmp; copy the file into it
    """
    token = _bounds.set(_Bounds(folder.resolve(), python))
    try:
        yield
    finally:
        _bounds.reset(token)


def may_read(path: str | Path) -> bool:
    """Return whether a file may be read."""
    bounds = _bounds.get()
    if bounds is None:
        return True
    place = Path(path).resolve()
    return any(place.is_relative_to(allowed) for allowed in (bounds.folder, *_OURS))


def check_place(path: str | Path, *, write: bool = False) -> None:
    """Check that a file may be read, or written.

    Raises
    ------
    InputError
        It is outside of the folder.
    """
    bounds = _bounds.get()
    if bounds is None:
        return
    try:
        allowed = Path(path).resolve().is_relative_to(bounds.folder) if write else may_read(path)
    except (OSError, ValueError, RuntimeError):  # a null byte, a circle of links
        allowed = False
    if not allowed:
        what = f"outside of the folder {bounds.folder}"
        raise InputError(what, where=ascii(str(path))[1:-1], hint="copy the file into it")


def check_python(file: str | Path) -> None:
    """Check that a Python file may be executed.

    Raises
    ------
    InputError
        It is outside of the folder, or none may be.
    """
    check_place(file)
    bounds = _bounds.get()
    if bounds is not None and not bounds.python:
        hint = "start the server with astranb mcp --python, or anb.mcp.serve(sim, python=True)"
        raise InputError("Python files are not executed here", where=str(file), hint=hint)
