"""Zip files whose contents are known to fit before they are unpacked; equal contents, equal bytes."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from typing import BinaryIO, Final

from .errors import InputError
from .packed import MOST_RATIO
from .state import require_bytes

__all__ = ["DAMAGED", "FREE_BYTES", "members", "read_archive", "write_archive"]

DAMAGED: Final = (
    OSError, ValueError, zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError,
)  # fmt: skip
"""Exceptions that reading a damaged or foreign zip file raises."""
FREE_BYTES: Final = 1 << 20
"""Bytes that any file may unpack to; a larger one is bounded by its size."""
_DATE: Final = (1980, 1, 1, 0, 0, 0)
_MOST_MEMBERS: Final = 10_000


def write_archive(contents: Mapping[str, bytes]) -> bytes:
    """Return a zip file of some contents, by name.

    Examples
    --------
    >>> made = write_archive({"a.txt": b"one"})
    >>> made == write_archive({"a.txt": b"one"}), read_archive(made, "a.zip", "a zip file", "make it again")
    (True, {'a.txt': b'one'})
    """
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in contents.items():
            member = zipfile.ZipInfo(name, _DATE)
            member.compress_type = zipfile.ZIP_DEFLATED
            archive.writestr(member, data)
    return file.getvalue()


def read_archive(data: bytes, where: str, what: str, hint: str) -> dict[str, bytes]:
    """Read all contents of a zip file.

    Parameters
    ----------
    data : bytes
    where, what, hint : str
        What errors call the file, what it should be, and how one makes such a one.

    Raises
    ------
    InputError
        It is something else, is damaged, or unpacks to more than a file of its size may.
    """
    try:
        return dict(members(io.BytesIO(data), len(data), max(FREE_BYTES, MOST_RATIO * len(data)), where))
    except DAMAGED as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"not {what}, or damaged", where=where, hint=hint) from error


def members(file: BinaryIO, size: int, most: int, where: str) -> Iterator[tuple[str, bytes]]:
    """Yield names and contents of a zip file of so many bytes, which may unpack to so many.

    Raises
    ------
    InputError, or one of ``DAMAGED``
        They are larger, or two have one name.
    """
    seen = set()
    with zipfile.ZipFile(file) as archive:
        listed = archive.infolist()
        unpacked = sum(member.file_size for member in listed)
        if unpacked > most or len(listed) > _MOST_MEMBERS:
            what = f"unpacks to {unpacked:,} bytes from {size:,}, {len(listed):,} files"
            raise InputError(what, where=where, hint="save it without compression")
        require_bytes(unpacked, where=where, hint="use a smaller file")
        for member in listed:
            if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("compressed in an unknown way")
            if member.filename in seen:
                raise ValueError(f"two contents are named {member.filename[:40]!r}")
            seen.add(member.filename)
            with archive.open(member) as part:  # its size as it says bounds what is unpacked at once
                yield member.filename, part.read(member.file_size)
