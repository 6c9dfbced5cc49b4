"""Files that may be compressed with gzip: recognized by their contents, and unpacked within bounds.

A file of a few kilobytes can unpack to gigabytes (a decompression bomb), so what a file may unpack to
depends on its size.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from .errors import InputError, TruncatedFile

__all__ = ["GZIP", "MOST_RATIO", "blocks", "first_bytes", "head", "readable", "unpacked", "unpacked_part"]

GZIP: Final = b"\x1f\x8b"
"""The first bytes of a packed file."""
MOST_RATIO: Final = 250
"""The largest compression ratio beyond the first MiB: a trace that repeats one node reaches about 30,
a decompression bomb 1,000."""

_FREE: Final = 1 << 20
_STEP: Final = 1 << 22


def unpacked(data: bytes, where: str, most: int) -> bytes:
    """Return the bytes of a file: unpacked if gzip packed them, else as they are.

    Parameters
    ----------
    data : bytes
        The contents of a file.
    where : str
        What errors call the file.
    most : int
        The largest size, unpacked.

    Raises
    ------
    InputError
        It is damaged or truncated, or it unpacks to more than is allowed.

    Examples
    --------
    >>> import gzip
    >>> unpacked(gzip.compress(b"a trace"), "a file", 100), unpacked(b"a trace", "a file", 100)
    (b'a trace', b'a trace')
    """
    return b"".join(_inflated([data], where, most)) if data[:2] == GZIP else data


def unpacked_part(data: bytes, where: str, most: int) -> bytes:
    """Return the bytes of a file as :func:`unpacked`, but of a truncated one those before its end."""
    out = []
    with suppress(TruncatedFile):
        for some in _inflated([data], where, most) if data[:2] == GZIP else [data]:
            out.append(some)  # noqa: PERF402 - those before the end stay
    return b"".join(out)


def blocks(path: str | Path, most: int) -> Iterator[bytes]:
    """Read a file, packed or not, in blocks of its (unpacked) bytes.

    Parameters
    ----------
    path : str or Path
    most : int
        The largest size, unpacked.

    Raises
    ------
    InputError
        As :func:`unpacked`; or there is no such file, or it cannot be read.
    """
    where = str(path)
    with readable(path) as file, file.open("rb") as opened:
        first = opened.read(_STEP)
        raw = _chain(first, iter(lambda: opened.read(_STEP), b""))
        yield from _inflated(raw, where, most) if first[:2] == GZIP else _bounded(raw, where, most)


@contextmanager
def readable(path: str | Path) -> Iterator[Path]:
    """Give a regular file to read: folders and pipes, which would be waited for, are refused.

    Raises
    ------
    InputError
        There is no such file, it is another kind of file, or reading it in the block fails.
    """
    file, where = Path(path), str(path)
    try:
        if not file.is_file():
            file.stat()  # raises the reason where there is none
            if file.is_dir():
                raise InputError("this is a folder", where=where, hint="name the file in it")
            raise InputError("this is not a regular file", where=where, hint="give a file that can be read")
        yield file
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or f"cannot be read: {error}"
        where = repr(where) if isinstance(error, ValueError) else where  # holds a null byte
        raise InputError(reason, where=where, hint="give a file that can be read") from error


def first_bytes(path: str | Path, most: int) -> bytes:
    """Read the first bytes of a file as they are; none where it cannot be read: reading it says why."""
    try:
        if not Path(path).is_file():  # reading a FIFO would wait
            return b""
        with Path(path).open("rb") as file:
            return file.read(most)
    except (OSError, ValueError):
        return b""


def head(data: bytes, most: int) -> bytes:
    """Unpack the first bytes of a file, as far as they can be; what is not packed stays as it is."""
    if data[:2] == GZIP:
        with suppress(zlib.error):
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data, most)
    return data


def _chain(first: bytes, others: Iterable[bytes]) -> Iterator[bytes]:
    yield first
    yield from others


def _bounded(raw: Iterable[bytes], where: str, most: int) -> Iterator[bytes]:
    size = 0
    for data in raw:
        size += len(data)
        if size > most:
            raise InputError(f"larger than {most >> 20} MiB", where=where, hint="is it the right file?")
        yield data


def _inflated(raw: Iterable[bytes], where: str, most: int) -> Iterator[bytes]:
    """Unpack the parts of a packed file, one after the other."""
    part = zlib.decompressobj(zlib.MAX_WBITS | 16)
    read = out = 0
    begun = ended = False  # within a part; behind all of them, where zeros may fill the file
    behind = 0
    try:
        for rest in raw:
            read += len(rest)
            bound = min(most, max(_FREE, MOST_RATIO * read))
            while rest:
                ended = ended or (not begun and rest[:2] not in (GZIP, GZIP[:1]))
                if ended:
                    behind += len(rest.strip(b"\0"))
                    break
                begun = True
                some = part.decompress(rest, _STEP)
                rest = part.unconsumed_tail  # noqa: PLW2901 - what this block still holds
                out += len(some)
                if out > bound:
                    what = f"unpacks to more than {bound:,} bytes from {read:,}"
                    raise InputError(what, where=where, hint="if it is a trace, unpack it with gunzip")
                yield some
                if part.eof:
                    rest, begun = part.unused_data, False  # noqa: PLW2901
                    part = zlib.decompressobj(zlib.MAX_WBITS | 16)
    except zlib.error as error:
        raise InputError(f"not a gzip file: {error}", where=where, hint="copy or make it again") from None
    if begun:
        what = f"the gzip file ends at byte {read}, in the middle"
        raise TruncatedFile(what, where=where, at=out)
    if behind:
        raise InputError(f"{behind} bytes follow the gzip file", where=where, hint="copy or make it again")
