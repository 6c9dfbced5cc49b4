"""Tables in little space, and in memory: the bytes of a column side by side, compressed together.

A table of integers is mostly the upper bytes of small numbers. With all first bytes of its rows together,
then all second ones, such a table packs to a hundredth of its size.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import zlib
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from .errors import InputError
from .packed import MOST_RATIO
from .state import free_bytes, require_bytes

__all__ = ["BEGIN", "pack", "unpack"]

BEGIN: Final = b"astranb planes 1\n"
"""The first bytes of packed tables."""

_MOST: Final = (1 << 31) - 1
"""Bytes of all tables together."""
_FREE: Final = 1 << 24
"""Bytes that any file may unpack to; a larger one is bounded by its size."""
_COPIES: Final = 2
"""Times their bytes that tables take while they are unpacked."""
_MOST_HEADER: Final = 1 << 24
_CHECKSUM: Final = 16
_KIND = re.compile(r"[<|][biuf][1248]")


def pack(tables: Mapping[str, Any]) -> bytes:
    """Pack named arrays of numbers or records, with a checksum.

    Examples
    --------
    >>> packed = pack({"squares": np.arange(1000) ** 2})
    >>> len(packed) < 3000, int(unpack(packed, "a file", "tables", "pack() makes them")["squares"][30])
    (True, 900)
    """
    arrays = {name: np.ascontiguousarray(table).view(np.ndarray) for name, table in tables.items()}
    header = json.dumps([(name, _descr(one), one.shape) for name, one in arrays.items()]).encode()
    planes = [_planes(one) for one in arrays.values()]
    content = b"".join([len(header).to_bytes(4, "little"), header, *planes])
    packed = zlib.compress(content, 6)
    return b"".join([BEGIN, _checksum(content), packed, _filler(len(content), len(packed))])


def unpack(data: bytes, where: str, what: str, hint: str) -> dict[str, np.ndarray]:
    """Read what :func:`pack` made.

    Parameters
    ----------
    data : bytes
    where, what, hint : str
        What errors call the file, what it should be, and how one makes such a one.

    Raises
    ------
    InputError
        It is something else, damaged, or too large.
    """
    begin = len(BEGIN) + _CHECKSUM
    most = min(_MOST, max(_FREE, MOST_RATIO * len(data)))
    free = free_bytes() * 4 // 5
    try:
        unpacking = zlib.decompressobj()
        content = unpacking.decompress(data[begin:], min(most, max(1, free // _COPIES)))
        if unpacking.unconsumed_tail and len(content) < most:
            require_bytes(_COPIES * most, where=where, hint="use a smaller file", allowed=free)
        packed = len(data) - begin - len(unpacking.unused_data)
        whole = data.startswith(BEGIN) and unpacking.eof
        if not whole or unpacking.unused_data != _filler(len(content), packed):
            raise ValueError("cut")  # noqa: TRY301 - one report for all
    except InputError:
        raise
    except (zlib.error, ValueError, MemoryError) as error:
        raise InputError(f"not {what}, or damaged", where=where, hint=hint) from error
    if _checksum(content) != data[len(BEGIN) : begin]:
        raise InputError("damaged: wrong checksum", where=where, hint=hint)
    try:
        return _tables(content)
    except (ValueError, TypeError, KeyError, RecursionError, MemoryError, OverflowError) as error:
        raise InputError(f"not {what}", where=where, hint=hint) from error


def _checksum(content: bytes) -> bytes:
    return hashlib.blake2b(content, digest_size=_CHECKSUM).digest()


def _filler(content_bytes: int, packed_bytes: int) -> bytes:
    """Return bytes that make a file as large as its tables ask for (``MOST_RATIO``), which do not pack."""
    needed = -(-content_bytes // MOST_RATIO) - packed_bytes
    return hashlib.shake_128(BEGIN).digest(needed) if content_bytes > _FREE and needed > 0 else b""


def _tables(content: bytes) -> dict[str, np.ndarray]:
    """Read the header, and the tables behind it, which take all the bytes; raises ValueError otherwise."""
    at = 4 + int.from_bytes(content[:4], "little")
    if at > min(len(content), _MOST_HEADER):
        raise ValueError("no header")
    found: dict[str, np.ndarray] = {}
    for name, descr, shape in json.loads(content[4:at]):
        if not isinstance(name, str) or name in found:
            raise ValueError("names")
        if not all(type(length) is int and 0 <= length <= _MOST for length in shape):
            raise ValueError("shape")
        empty = np.empty(0, _kind(descr))
        rows, width = math.prod(shape), empty.itemsize
        if rows * width > len(content) - at:
            raise ValueError("shorter than the declared size")
        planes = np.frombuffer(content, np.uint8, rows * width, at).reshape(width, rows)
        found[name] = np.ascontiguousarray(planes.T).reshape(-1).view(empty.dtype).reshape(shape)
        at += rows * width
    if at != len(content):
        raise ValueError("longer than the declared size")
    return found


def _planes(table: np.ndarray) -> bytes:
    """Return the first bytes of all rows, then the second ones, and so on."""
    width = table.dtype.itemsize
    return np.ascontiguousarray(table.reshape(-1).view(np.uint8).reshape(-1, width).T).tobytes()


def _descr(table: np.ndarray) -> Any:
    """Name the type of a table: of a number, or of each field."""
    descr = table.dtype.descr if table.dtype.names else table.dtype.str
    _kind(descr)
    return descr


def _kind(descr: Any) -> Any:
    """Check the name of a type, and give what NumPy makes one of."""
    fields = [("", descr)] if isinstance(descr, str) else [tuple(field) for field in descr]
    if not fields or not all(len(f) == 2 and isinstance(f[0], str) and _KIND.fullmatch(f[1]) for f in fields):
        raise ValueError(f"unknown type of numbers: {descr!r:.80}")
    return descr if isinstance(descr, str) else fields
