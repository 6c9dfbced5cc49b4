"""Files that may be compressed with gzip or zstd: recognized by their contents, unpacked within bounds.

A file of a few kilobytes can unpack to gigabytes (a decompression bomb), so what a file may unpack to
depends on its size.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module  # noqa: TID251 - packages of others, without types
from itertools import islice
from pathlib import Path
from typing import BinaryIO, Final, cast

from .confined import check_place, may_read
from .errors import InputError, TruncatedFile, suggestion

__all__ = ["GZIP", "MOST_RATIO", "blocks", "first_bytes", "head", "readable", "unpacked", "unpacked_part"]

GZIP: Final = b"\x1f\x8b"
_ZSTD: Final = b"\x28\xb5\x2f\xfd"
"""The first bytes of packed files."""
MOST_RATIO: Final = 250
"""The largest compression ratio beyond the first MiB: a trace that repeats one node reaches about 30,
a decompression bomb 1,000."""

_DOCUMENTS: Final = (".yaml", ".yml", ".json")
_MOST_NEIGHBOURS: Final = 1000
_FREE: Final = 1 << 20
_STEP: Final = 1 << 22
_PIECE: Final = 1 << 16
"""Bytes of zstd at a time: what comes before the end of a truncated file is kept but for such a piece."""


def unpacked(data: bytes, where: str, most: int) -> bytes:
    """Return the bytes of a file: unpacked if gzip or zstd packed them, else as they are.

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
        It is damaged or truncated, it unpacks to more than is allowed, or zstd has no reader here.

    Examples
    --------
    >>> import gzip
    >>> unpacked(gzip.compress(b"a trace"), "a file", 100), unpacked(b"a trace", "a file", 100)
    (b'a trace', b'a trace')
    """
    unpack = _reader_of(data)
    return b"".join(unpack([data], where, most)) if unpack else data


def unpacked_part(data: bytes, where: str, most: int) -> bytes:
    """Return the bytes of a file as :func:`unpacked`, but of a truncated one those before its end."""
    out, unpack = [], _reader_of(data)
    with suppress(TruncatedFile):
        for some in unpack([data], where, most) if unpack else [data]:
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
        yield from (_reader_of(first) or _bounded)(raw, where, most)


@contextmanager
def readable(path: str | Path) -> Iterator[Path]:
    """Check that a path is a regular file to read: a folder or a pipe would be waited for.

    Raises
    ------
    InputError
        There is no such file, it is another kind of file, or reading it in the block fails.
    """
    file, where = Path(path), str(path)
    if not where:
        raise InputError("the name of the file is empty", hint="give a file that can be read")
    check_place(path)
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
        hint = _neighbour(file) if isinstance(error, FileNotFoundError) else ""
        raise InputError(reason, where=where, hint=hint or "give a file that can be read") from error


def _neighbour(file: Path) -> str:
    """Suggest files of the folder with a near name, which are documents or have the same extension."""
    if not file.parent.is_dir():
        return ""
    suffix = file.suffix.lower()
    kinds = (suffix, *(_DOCUMENTS if suggestion(suffix, _DOCUMENTS) else ()))
    names = (one.name for one in islice(file.parent.iterdir(), _MOST_NEIGHBOURS))
    return suggestion(file.name, (name for name in names if Path(name).suffix.lower() in kinds))


def first_bytes(path: str | Path, most: int) -> bytes:
    """Read the first bytes of a file as they are; none where it cannot be read: reading it says why."""
    try:
        if not (may_read(path) and Path(path).is_file()):  # reading a FIFO would wait
            return b""
        with Path(path).open("rb") as file:
            return file.read(most)
    except (OSError, ValueError):
        return b""


def head(path: str | Path, most: int) -> bytes:
    """Read the first bytes of a file, unpacked as far as they can be; what is not packed is as it is."""
    data = first_bytes(path, most)
    if _reader_of(data) is _inflated:
        with suppress(zlib.error):
            return zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data, most)
    elif _reader_of(data):  # the first block of zstd may be longer than these bytes
        with suppress(InputError):
            return next(blocks(path, 2 * _STEP), b"")[:most]
    return data


def _reader_of(data: bytes) -> Callable[[Iterable[bytes], str, int], Iterator[bytes]] | None:
    """Find what unpacks a file that begins with some bytes; None: it is not packed."""
    if data[:2] == GZIP:
        return _inflated
    return _unzstd if data[: len(_ZSTD)] == _ZSTD else None


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
            bound = _bound(read, most)
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
                    raise _too_large(bound, read, where)
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


def _bound(read: int, most: int) -> int:
    return min(most, max(_FREE, MOST_RATIO * read))


def _too_large(bound: int, read: int, where: str) -> InputError:
    what = f"unpacks to more than {bound:,} bytes from {read:,}"
    return InputError(what, where=where, hint="if it is a trace, unpack it (gunzip, unzstd)")


class _Parts(io.RawIOBase):
    """A file of parts that come one after the other."""

    def __init__(self, parts: Iterable[bytes]) -> None:
        self._parts, self._rest = iter(parts), b""
        self.size = 0

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        self._rest = self._rest or next(self._parts, b"")
        size = len(self._rest) if size < 0 else size
        some, self._rest = self._rest[:size], self._rest[size:]
        self.size += len(some)
        return some


def _zstd_stream(parts: _Parts, where: str) -> BinaryIO:
    """Open a stream of zstd with Python's own reader (3.14), or pyarrow's."""
    with suppress(ImportError):
        return cast("BinaryIO", import_module("compression.zstd").ZstdFile(parts))
    try:
        arrow = import_module("pyarrow")
    except ImportError:
        hint = "unpack it (unzstd FILE), or run pip install 'astranb[traffic]', whose pyarrow reads it"
        raise InputError(
            "compressed with zstd, which needs another package", where=where, hint=hint
        ) from None
    return cast("BinaryIO", arrow.CompressedInputStream(arrow.PythonFile(parts, mode="r"), "zstd"))


def _unzstd(raw: Iterable[bytes], where: str, most: int) -> Iterator[bytes]:
    """Unpack what zstd packed, frame by frame."""
    parts, out = _Parts(raw), 0
    with _zstd_stream(parts, where) as stream:
        while True:
            try:
                some = stream.read(_PIECE)
            except InputError:
                raise
            except Exception as error:  # noqa: BLE001 - each reader has errors of its own
                if isinstance(error, EOFError) or "runcated" in str(error):
                    what = f"the zstd file ends at byte {parts.size}, in the middle"
                    raise TruncatedFile(what, where=where, at=out) from None
                hint = "copy or make it again"
                raise InputError(f"not a zstd file: {str(error)[:80]}", where=where, hint=hint) from None
            if not some:
                return
            out += len(some)
            if out > (bound := _bound(parts.size, most)):
                raise _too_large(bound, parts.size, where)
            yield some
