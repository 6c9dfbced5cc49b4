"""Files that are written whole or not at all, one by one and in sets."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from .errors import InputError

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["locked", "made_folder", "remove_unfinished", "whole_file", "whole_files", "write_frames"]


@contextmanager
def whole_file(path: Path) -> Iterator[BinaryIO]:
    """Open a file for writing; it appears at its place when the block has ended well.

    A symbolic link stays, and its target is written. A device or FIFO gets the contents when the
    block has ended, and is never replaced.

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
        target, mode = _place(path)
        if mode is None:
            with tempfile.TemporaryFile() as file:
                yield file
                file.seek(0)
                with target.open("wb", buffering=0) as out:
                    shutil.copyfileobj(file, out)
            return
        handle, name = tempfile.mkstemp(prefix=f".{target.name[:_NAME]}.", dir=target.parent)
        _UNFINISHED.add(Path(name))
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).chmod(mode)  # a temporary file is its owner's alone
        Path(name).replace(target)
        _UNFINISHED.discard(Path(name))
    except OSError as error:
        _forget(name)
        raise InputError(f"cannot be written: {error.strerror or error}", where=str(path)) from None
    except BaseException:
        _forget(name)
        raise


@contextmanager
def whole_files(
    *, stale: Iterable[Path] = ()
) -> Iterator[Callable[[Path], AbstractContextManager[BinaryIO]]]:
    """Write a set of files; they appear at their places when the block has ended well.

    Whenever the process is killed, the old files or the new ones are there, never some of each, and a
    part of a set lacks its first file. So a reader that needs the first file refuses such a part. The
    files that a killed process had not put in place are removed by the next set in the same folder.

    Parameters
    ----------
    stale : iterable of Path
        Files of an older set that the new one does not have: they are removed.

    Yields
    ------
    callable
        Opens one file of the set for writing, given its path, as :func:`whole_file` does.

    Raises
    ------
    InputError
        One of the files cannot be written. The old set is still there.

    Examples
    --------
    >>> folder = Path(tempfile.mkdtemp())
    >>> with whole_files() as add:
    ...     for rank in range(2):
    ...         with add(folder / f"step.{rank}.et") as file:
    ...             _ = file.write(b"trace")
    >>> sorted(path.name for path in folder.iterdir())
    ['step.0.et', 'step.1.et']
    """
    staged: list[tuple[Path, Path, Path]] = []  # as given, where it is to be, where it is now
    folders: dict[Path, Path] = {}
    locks: list[int] = []

    @contextmanager
    def add(path: Path) -> Iterator[BinaryIO]:
        try:
            target, mode = _place(path)
            if mode is None:
                raise OSError("a set of files needs ordinary files")  # noqa: TRY301 - one report for all
            if target.parent not in folders:
                _remove_abandoned(target.parent)
                folders[target.parent], lock = _temporary_folder(target.parent)
                _UNFINISHED.add(folders[target.parent])
                locks.append(lock)
            file = folders[target.parent] / str(len(staged))
            with file.open("wb") as out:
                yield out
            file.chmod(mode)
            staged.append((path, target, file))
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", where=str(path)) from None

    try:
        yield add
        path = Path()
        try:
            # Remove all, the first file first; then put in place all, the first file last.
            for path in (*(target for _, target, _ in staged), *stale):
                path.unlink(missing_ok=True)
            for given, target, file in reversed(staged):
                path = given
                file.replace(target)
        except OSError as error:
            raise InputError(f"cannot be written: {error.strerror or error}", where=str(path)) from None
    finally:
        for folder in folders.values():
            shutil.rmtree(folder, ignore_errors=True)
            _UNFINISHED.discard(folder)
        for lock in locks:
            os.close(lock)


def check_writable(path: str | Path) -> None:
    """Check that a file can be written, before the work of which it holds the result.

    Raises
    ------
    InputError
        It is a folder, or its folder does not exist or cannot be written to.
    """
    try:
        target, mode = _place(Path(path))
        if mode is not None:
            tempfile.TemporaryFile(dir=target.parent).close()
    except OSError as error:
        raise InputError(f"cannot be written: {error.strerror or error}", where=str(path)) from None


_WRITING = ".writing-"


def made_folder(folder: str | Path) -> Path:
    """Make a folder where it is missing.

    Raises
    ------
    InputError
        It cannot be made.

    Examples
    --------
    >>> made_folder(Path(tempfile.mkdtemp()) / "tables" / "run").is_dir()
    True
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        hint = "name a folder that can be made"
        raise InputError(error.strerror or str(error), where=str(folder), hint=hint) from None
    return place


def write_frames(frames: Mapping[str, pd.DataFrame], folder: str | Path) -> list[str]:
    """Write frames as ``NAME.csv`` into a folder, which is made where it is missing.

    Returns
    -------
    list of str
        The names of those with rows; others have no file.

    Raises
    ------
    InputError
        They cannot be written there.
    """
    place = made_folder(folder)
    written = [name for name, frame in frames.items() if len(frame)]
    with whole_files(stale=[place / f"{name}.csv" for name in frames if name not in written]) as add:
        for name in written:
            with add(place / f"{name}.csv") as file:
                file.write(frames[name].to_csv(index=False).encode())
    return written


def _temporary_folder(parent: Path) -> tuple[Path, int]:
    """Make a folder for the files of a set; returns it with an open descriptor that locks it.

    A process that ends, however it ends, no longer holds the lock.
    """
    while True:
        folder = Path(tempfile.mkdtemp(prefix=_WRITING, dir=parent))
        with suppress(FileNotFoundError):
            lock = _opened(folder)
            _lock(lock, wait=True)
            if folder.exists():
                return folder, lock
            os.close(lock)  # another process found it before it was locked, and removed it


def _remove_abandoned(parent: Path) -> None:
    """Remove the folders of sets whose process was killed: those that nobody has locked."""
    for folder in parent.glob(f"{_WRITING}*"):
        with suppress(OSError):  # somebody else's, or removed meanwhile
            lock = _opened(folder)
            try:
                if _lock(lock, wait=False):
                    for file in folder.iterdir():
                        if file.name.isdecimal():  # as the files of a set are called; others stay
                            file.unlink()
                    folder.rmdir()
            finally:
                os.close(lock)


def _opened(folder: Path) -> int:
    """Open a folder to lock it, which Windows cannot."""
    if not hasattr(os, "O_DIRECTORY"):
        return os.open(os.devnull, os.O_RDONLY)
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)


def _lock(descriptor: int, *, wait: bool) -> bool:
    """Lock an open file; returns whether that was possible: not every file system has locks."""
    try:
        import fcntl
    except ImportError:  # Windows
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        return False
    return True


_NAME = 100
"""Characters of a name that a temporary file's repeats: names have at most 255 bytes."""


def _place(path: Path) -> tuple[Path, int | None]:
    """Follow symbolic links; give the file's mode, None for a device or FIFO."""
    target = Path(os.path.realpath(path))
    try:
        found = target.stat().st_mode
    except FileNotFoundError:
        umask = os.umask(0)
        os.umask(umask)
        return target, 0o666 & ~umask
    if stat.S_ISDIR(found):
        raise IsADirectoryError(21, "it is a folder")
    return target, stat.S_IMODE(found) if stat.S_ISREG(found) else None


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Wait until no other process holds this lock, and hold it; a process that ends lets go of it.

    Where the system or the file system has no locks, nothing is waited for.

    Parameters
    ----------
    path : Path
        The lock's file; it is made, and stays.
    """
    with path.open("ab") as file:
        _lock(file.fileno(), wait=True)
        yield


def _forget(name: str) -> None:
    if name:
        Path(name).unlink(missing_ok=True)
        _UNFINISHED.discard(Path(name))


_UNFINISHED: set[Path] = set()
"""Temporary files and folders that this process has made and will remove."""


def remove_unfinished() -> None:
    """Remove all temporary files and folders of this process, before it ends without unwinding."""
    for path in list(_UNFINISHED):
        with suppress(OSError):
            if path.is_dir():
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink()
