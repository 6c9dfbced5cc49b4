"""The state of a simulated machine as named tables of records: allocate, copy, hash, save, load.

A table is a one-dimensional record array without padding; a state is a dictionary of them.
Nothing here knows what the tables are about.
"""

from __future__ import annotations

import hashlib
import io
import math
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from .errors import InputError
from .files import whole_file
from .jit import Records

__all__ = [
    "Parts",
    "allocate",
    "digest",
    "free_bytes",
    "own",
    "read_tables",
    "require_bytes",
    "write_tables",
]

_LINE_BYTES = 64


def allocate(count: int, dtype: Any) -> Records:
    """Make a table of so many records, all zero, that begins with a line of the cache.

    Examples
    --------
    >>> allocate(2, [("time_ps", "i8")]).time_ps.tolist()
    [0, 0]
    """
    kind = np.dtype(dtype)
    raw = np.zeros(count * kind.itemsize + _LINE_BYTES, np.uint8)
    first = -raw.ctypes.data % _LINE_BYTES
    return raw[first : first + count * kind.itemsize].view(kind).view(np.recarray)


def own(table: Any) -> Records:
    """Copy a table, so that what is done to the copy stays in it."""
    copy = allocate(len(table), table.dtype)
    # As bytes: NumPy would copy records field by field.
    np.asarray(copy).view(np.uint8)[:] = np.ascontiguousarray(table).view(np.ndarray).view(np.uint8)
    return copy


class Parts(NamedTuple):
    """A table that is made part by part, because it is large.

    Attributes
    ----------
    rows : int
        Of all parts.
    made : callable
        Gives the parts in their order, each a table.
    """

    rows: int
    made: Callable[[], Iterable[Any]]


def digest(tables: Iterable[tuple[str, Any]]) -> str:
    """Hash named tables in their order: 32 hex digits (BLAKE2b, 128 bits).

    Parameters
    ----------
    tables : iterable of (str, ndarray or Parts)
        Names and lengths count, so that two tables cannot pass for one.

    Examples
    --------
    >>> one = digest([("a", np.arange(3)), ("b", np.arange(2))])
    >>> one == digest([("a", np.arange(3)), ("b", np.arange(2))])
    True
    >>> one == digest([("a", np.arange(5)), ("b", np.arange(0))])
    False
    """
    state = hashlib.blake2b(digest_size=16)
    for name, table in tables:
        rows, parts = (table.rows, table.made()) if isinstance(table, Parts) else (len(table), (table,))
        state.update(f"{name}:{rows}:".encode())
        for part in parts:
            state.update(np.ascontiguousarray(part).view(np.ndarray).view(np.uint8).data)
    return state.hexdigest()


def write_tables(path: Path, tables: Mapping[str, Any]) -> None:
    """Write named arrays and their checksum to exactly this path, whole or not at all; no pickle.

    Raises
    ------
    InputError
        It cannot be written there.
    """
    arrays = {name: np.asarray(table) for name, table in tables.items()}
    arrays[_CHECKSUM] = np.frombuffer(_checksum(arrays), np.uint8)
    with whole_file(path) as file:
        np.savez(file, allow_pickle=False, **arrays)


def read_tables(path: Path, what: str, hint: str) -> dict[str, np.ndarray]:
    """Read what :func:`write_tables` wrote: nothing compressed, nothing larger than the file.

    Parameters
    ----------
    path : Path
    what, hint : str
        What the file should be, and how one makes such a one: for the error.

    Raises
    ------
    InputError
        There is no such file, it is something else, or it is damaged.
    """
    if not path.is_file():
        raise InputError("it is no file" if path.exists() else "there is no such file", where=str(path))
    try:
        found = _members(path)
    except (OSError, ValueError, zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise InputError(f"not {what}", where=str(path), hint=hint) from error
    arrays = {name.removesuffix(".npy"): array for name, array in found.items()}
    checksum = arrays.pop(_CHECKSUM, None)
    if checksum is None:
        raise InputError("without a checksum: written by another version", where=str(path), hint=hint)
    if checksum.tobytes() != _checksum(arrays):
        raise InputError("damaged: its checksum is another one", where=str(path), hint=hint)
    return arrays


_CHECKSUM = "checksum"


def _members(path: Path) -> dict[str, np.ndarray]:
    """Read all arrays of a file; raises ValueError where one is compressed or not as large as it says."""
    found: dict[str, np.ndarray] = {}
    with path.open("rb") as raw, zipfile.ZipFile(raw) as file:
        left = path.stat().st_size
        for member in file.infolist():
            left -= member.file_size
            if member.compress_type != zipfile.ZIP_STORED or left < 0 or member.filename in found:
                raise ValueError("compressed")
            found[member.filename] = _array(file.read(member))
    return found


def _checksum(arrays: Mapping[str, np.ndarray]) -> bytes:
    """Hash arrays with their names, types and shapes."""
    state = hashlib.blake2b(digest_size=16)
    for name, array in arrays.items():
        state.update(f"{name}:{array.dtype.descr}:{array.shape}:".encode("utf-8", "surrogatepass"))
        state.update(np.ascontiguousarray(array).data)
    return state.digest()


def _array(data: bytes) -> np.ndarray:
    """Read an array in NumPy's format, which takes all of the data; it cannot be written to.

    Raises
    ------
    ValueError
        It is something else, or holds Python objects.
    """
    file = io.BytesIO(data)
    version = np.lib.format.read_magic(file)
    if version != (1, 0):
        raise ValueError("another version of NumPy's format")
    try:
        shape, columns_first, dtype = np.lib.format.read_array_header_1_0(file)
    except (SyntaxError, TypeError, KeyError, AttributeError, RecursionError, MemoryError) as error:
        raise ValueError("no header") from error
    size = math.prod(shape) * dtype.itemsize
    if dtype.hasobject or columns_first or min(shape, default=0) < 0 or size != len(data) - file.tell():
        raise ValueError("not as large as it says")
    if size == 0:
        if max(shape, default=0) > len(data):
            raise ValueError("not as large as it says")
        return np.zeros(shape, dtype)
    return np.frombuffer(data, dtype, offset=file.tell()).reshape(shape)


def require_bytes(needed: int, *, where: str, hint: str, allowed: int | None = None) -> None:
    """Refuse what would not fit in memory, before anything is allocated.

    Parameters
    ----------
    needed : int
        Estimated bytes.
    where, hint : str
        For the error: what would not fit, and how to make it smaller.
    allowed : int, optional
        Bytes that may be taken; four fifths of what is free where not given.

    Raises
    ------
    InputError
        It would not fit.
    """
    most = free_bytes() * 4 // 5 if allowed is None else allowed
    if needed > most:
        raise InputError(
            f"this run needs about {needed / 1e9:,.1f} GB of memory, {most / 1e9:,.1f} GB can be used",
            where=where,
            hint=hint,
        )


def free_bytes() -> int:
    """Memory that could be taken now; 4 GiB where the system does not say."""
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:  # noqa: PTH123 - a pseudo file
            for line in lines:
                if line.startswith("MemAvailable:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 4 * 2**30
