"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from .errors import InputError

__all__ = ["locked", "whole_file"]


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing; it appears at its place when the block has ended well.

    Parameters
    ----------
    path : Path
        Where it is to be; a file that is there stays until then.

    Yields
    ------
    file
        Open for bytes.

    Raises
    ------
    InputError
        It cannot be written there.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> with whole_file(folder / "a.txt") as file:
    ...     _ = file.write(b"all of it")
    >>> (folder / "a.txt").read_text()
    'all of it'
    """
    name = ""
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
        with os.fdopen(handle, "wb") as file:
            yield file
        umask = os.umask(0)
        os.umask(umask)
        Path(name).chmod(0o666 & ~umask)  # a temporary file is its owner's alone
        Path(name).replace(path)
    except OSError as error:
        _forget(name)
        raise InputError(f"cannot be written: {error.strerror or error}", where=str(path)) from None
    except BaseException:
        _forget(name)
        raise


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process holds this lock, and hold it; a process that ends lets go of it.

    Where the system or the file system has no locks, nothing is waited for.

    Parameters
    ----------
    path : Path
        The lock's file; it is made, and stays.
    """
    try:
        import fcntl
    except ImportError:  # Windows
        yield
        return
    with path.open("ab") as file:
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _forget(name: str) -> None:
    if name:
        Path(name).unlink(missing_ok=True)
