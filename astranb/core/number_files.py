"""Files of numbers, read within bounds: words, tables of text, NumPy's arrays, Parquet.

This is the one place that reads them. Whoever wrote a file chose its numbers, so each is compared with bounds
before it is used, what an array unpacks to is known before it is unpacked, and sums are exact.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from .archive import DAMAGED, FREE_BYTES, members
from .document import contents
from .errors import InputError
from .extras import needs_extra
from .files import whole_file
from .packed import MOST_RATIO, readable
from .state import require_bytes

if TYPE_CHECKING:
    import pandas as pd

__all__ = [
    "INT64",
    "arrays_of",
    "bytes_of",
    "column_table",
    "exact_sum",
    "parquet_table",
    "read_arrays",
    "read_tables",
    "real",
    "text_of",
    "text_rows",
    "whole",
    "whole_array",
    "whole_table",
    "write_tables",
]

INT64: Final = (-(1 << 63), (1 << 63) - 1)
"""The bounds of a number in an array."""
_MOST_FILE_BYTES: Final = 16 << 30
"""The largest table of columns: traffic of large jobs."""

_COPIES: Final = 4
"""Times their bytes that columns take in memory, with the copies that are made of them."""
_SMALLER: Final = "use a smaller file"


def whole(text: str, low: int, high: int, *, what: str, where: str) -> int:
    """Read a whole number between two bounds.

    Raises
    ------
    InputError
        It is none, or out of bounds.

    Examples
    --------
    >>> whole("-12", -20, 20, what="m", where="a.csv, line 3")
    -12
    """
    digits = text.removeprefix("-") if low < 0 else text
    value = int(text) if digits.isascii() and digits.isdecimal() and len(digits) < 20 else None
    if value is None or not low <= value <= high:
        bounds = "of 64 bits" if (low, high) == INT64 else f"from {low:,} to {high:,}"
        hint = f"give a whole number {bounds}"
        raise InputError(f"{what} is {text[:40]!r}", where=where, hint=hint)
    return value


def real(text: str, low: float, high: float, *, what: str, where: str) -> float:
    """Read a number between two bounds, which NaN never is.

    Raises
    ------
    InputError
        It is none, or out of bounds.

    Examples
    --------
    >>> real("1.5e3", 0, 1e6, what="ns", where="a.csv, line 3")
    1500.0
    """
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not low <= value <= high:
        hint = f"give a number from {low:g} to {high:g}"
        raise InputError(f"{what} is {text[:40]!r}", where=where, hint=hint)
    return value


def text_of(path: str | Path, most: int | None = None) -> str:
    """Read a text file in UTF-8, with or without a byte-order mark; parameters as for ``contents``.

    Raises
    ------
    InputError
        It cannot be read, is larger, or is not text.
    """
    try:
        return contents(path, most).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError("not text in UTF-8", where=str(path), hint="give a CSV file") from None


def text_rows(text: str, where: str) -> Iterator[tuple[str, list[str]]]:
    """Read the rows of CSV, each with its place, as ``a.csv, line 3``; that of an empty line is empty.

    Raises
    ------
    InputError
        A field is too long, or a quote does not end.

    Examples
    --------
    >>> list(text_rows("a,1" + chr(10) * 2 + "b,2", "a.csv"))
    [('a.csv, line 1', ['a', '1']), ('a.csv, line 2', []), ('a.csv, line 3', ['b', '2'])]
    """
    lines = csv.reader(io.StringIO(text, newline=""))
    try:
        for row in lines:
            yield f"{where}, line {lines.line_num}", row
    except csv.Error as error:
        here = f"{where}, line {lines.line_num}"
        raise InputError(str(error)[:80], where=here, hint="give a CSV file") from None


def whole_table(text: str, where: str, *, first: int = 1) -> np.ndarray:
    """Read a table of whole numbers, separated by commas, in rows of equal length.

    Parameters
    ----------
    text : str
    where : str
        What errors call the file.
    first : int
        The number of the text's first line in the file.

    Returns
    -------
    ndarray of int64, shape (rows, columns)

    Raises
    ------
    InputError
        There is none, a row has another length, or a value is no number of 64 bits.

    Examples
    --------
    >>> whole_table("1,2" + chr(10) + "3,-4", "a.csv").tolist()
    [[1, 2], [3, -4]]
    """
    lines = text.splitlines()
    if not any(line.strip() for line in lines):
        raise InputError(
            "the file holds no numbers", where=where, hint="give rows of whole numbers, with commas"
        )
    require_bytes(_COPIES * (len(text) + 8 * text.count(",")), where=where, hint=_SMALLER)
    try:
        return np.loadtxt(lines, np.int64, delimiter=",", ndmin=2, comments=None)
    except (ValueError, OverflowError) as error:
        columns = 0
        for number, line in enumerate(lines, first):
            here, cells = f"{where}, line {number}", line.split(",")
            if not line.strip():
                continue
            columns = columns or len(cells)
            if len(cells) != columns:
                what = f"{len(cells)} numbers, the first row has {columns}"
                raise InputError(what, where=here, hint="give rows of equal length") from None
            for at, cell in enumerate(cells, 1):
                whole(cell.strip(), *INT64, what=f"number {at}", where=here)
        raise InputError(str(error)[:200], where=where, hint="give rows of whole numbers") from None


def whole_array(values: Any, what: str, where: str, low: int = INT64[0], high: int = INT64[1]) -> np.ndarray:
    """Check an array of whole numbers between two bounds.

    Returns
    -------
    ndarray of int64
        Of the same shape.

    Raises
    ------
    InputError
        It is of something else, ragged, or a number is out of bounds.

    Examples
    --------
    >>> whole_array(np.array([[1, 2]], np.uint8), "counts", "a.npz", 0).tolist()
    [[1, 2]]
    """
    try:
        array = np.asarray(values)
    except (ValueError, TypeError, OverflowError):
        array = np.asarray(None)
    if array.dtype.kind not in "iu" and array.size:
        hint = "give an array of integers"
        raise InputError(f"{what} must be whole numbers", where=where, hint=hint)
    if array.size and not low <= int(array.min()) <= int(array.max()) <= high:
        wrong = int(array.min()) if int(array.min()) < low else int(array.max())
        hint = f"give {low:,} or more" if wrong < low else f"give at most {high:,}"
        raise InputError(f"{what} has {wrong:,}", where=where, hint=hint)
    require_bytes(8 * array.size, where=where, hint=_SMALLER)
    return array.astype(np.int64, copy=False)


def exact_sum(values: np.ndarray) -> int:
    """Add up integers of 64 bits, however large the sum is.

    Examples
    --------
    >>> exact_sum(np.array([1 << 62] * 4)) == 1 << 64
    True
    """
    wide = values.astype(np.int64, copy=False)
    return (int((wide >> 32).sum()) << 32) + int((wide & 0xFFFFFFFF).sum())


def read_arrays(path: str | Path, hint: str) -> dict[str, np.ndarray]:
    """Read the arrays of an ``.npz`` file, compressed or not; they cannot be written to.

    Parameters
    ----------
    path : str or Path
    hint : str
        How one makes such a file: for errors.

    Raises
    ------
    InputError
        There is no such file, it is something else, holds Python objects, or unpacks to more than
        a file of its size may, or than fits in memory.
    """
    data = _contents(path)
    return arrays_of(data, str(path), "arrays of NumPy", hint, max(FREE_BYTES, MOST_RATIO * len(data)))


def bytes_of(tables: Mapping[str, Any]) -> bytes:
    """Return named arrays as the contents of an ``.npz`` file."""
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, **{name: np.asarray(table) for name, table in tables.items()})
    return file.getvalue()


def arrays_of(
    data: bytes, where: str, what: str = "arrays of NumPy", hint: str = "", most: int | None = None
) -> dict[str, np.ndarray]:
    """Read the contents of an ``.npz`` file; the arrays cannot be written to.

    Parameters
    ----------
    data : bytes
    where, what, hint : str
        What errors call the file, what it should be, and how one makes such a one.
    most : int, optional
        Bytes that it may unpack to; its own size where not given.

    Raises
    ------
    InputError
        It is something else, holds Python objects, or unpacks to more.
    """
    try:
        found = members(io.BytesIO(data), len(data), len(data) if most is None else most, where)
        return {name.removesuffix(".npy"): _array(member) for name, member in found}
    except DAMAGED as error:
        if isinstance(error, InputError):
            raise
        raise InputError(f"not {what}: {error}"[:200], where=where, hint=hint) from error


def write_tables(tables: Mapping[str, Any], path: Path) -> None:
    """Write named arrays and their checksum to exactly this path, whole or not at all; no pickle.

    Raises
    ------
    InputError
        It cannot be written there.
    """
    arrays = {name: np.asarray(table) for name, table in tables.items()}
    arrays[_CHECKSUM] = np.frombuffer(_checksum(arrays), np.uint8)
    with whole_file(path) as file:
        file.write(bytes_of(arrays))


def read_tables(path: Path, what: str, hint: str) -> dict[str, np.ndarray]:
    """Read what :func:`write_tables` wrote: nothing larger than the file.

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
    arrays = arrays_of(_contents(path), str(path), what, hint)
    checksum = arrays.pop(_CHECKSUM, None)
    if checksum is None:
        raise InputError("without a checksum: written by another version", where=str(path), hint=hint)
    if checksum.tobytes() != _checksum(arrays):
        raise InputError("damaged: wrong checksum", where=str(path), hint=hint)
    return arrays


_CHECKSUM = "checksum"


def _contents(path: str | Path) -> bytes:
    """Read a file that may be large, if it fits in memory."""
    with readable(path) as file:
        require_bytes(file.stat().st_size, where=str(path), hint=_SMALLER)
    return contents(path, _MOST_FILE_BYTES)


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
    if dtype.hasobject or min(shape, default=0) < 0 or size != len(data) - file.tell():
        raise ValueError("its size differs from the declared one")
    if size == 0:
        if max(shape, default=0) > len(data):
            raise ValueError("its size differs from the declared one")
        return np.zeros(shape, dtype)
    order: Literal["C", "F"] = "F" if columns_first else "C"
    return np.frombuffer(data, dtype, offset=file.tell()).reshape(shape, order=order)


def column_table(path: str | Path, columns: Sequence[str], text_columns: Iterable[str]) -> pd.DataFrame:
    """Read columns of a CSV file with a line of names: whole numbers, and some of words.

    Raises
    ------
    InputError
        It cannot be read, a column is missing, or a number is none of 64 bits.
    """
    import pandas as pd

    where = str(path)
    data = _contents(path)
    require_bytes(_COPIES * (len(data) + 8 * data.count(b",")), where=where, hint=_SMALLER)
    text = set(text_columns)
    types = {name: str if name in text else np.int64 for name in columns}
    options: dict[str, Any] = {"keep_default_na": False, "encoding_errors": "replace"}
    try:
        names = pd.read_csv(io.BytesIO(data), nrows=0, **options).columns
        _check_columns(where, columns, names.tolist())
        with np.errstate(all="raise"):  # a number with an exponent is cast
            return pd.read_csv(io.BytesIO(data), dtype=types, usecols=list(columns), **options)
    except (ValueError, ArithmeticError) as error:
        if isinstance(error, InputError):
            raise
        hint = "is it a table of whole numbers?"
        raise InputError(f"cannot be read: {error}", where=where, hint=hint) from None


def parquet_table(
    path: str | Path,
    feature: str,
    columns: Sequence[str] | None = None,
    text_columns: Iterable[str] = (),
    *,
    lists: Iterable[str] = (),
    hint: str = "is it a Parquet file?",
) -> Any:
    """Read a Parquet file whose columns fit in memory, as a ``pyarrow.Table``.

    Parameters
    ----------
    path : str or Path
    feature : str
        What needs *pyarrow*: for the error where it is not installed.
    columns : sequence of str, optional
        Those to read; they must be there, and but for ``text_columns`` of whole numbers without gaps. All by
        default, of whatever they are.
    text_columns, lists : iterable of str
        Columns of words, and of lists of whole numbers.
    hint : str
        What to do about a damaged file.

    Raises
    ------
    InputError
        It cannot be read, is damaged, takes more memory than there is, or a column is missing.
    """
    with needs_extra(feature):
        import pyarrow as pa
        import pyarrow.parquet as pq
    where = str(path)
    data = _contents(path)
    try:
        file = pq.ParquetFile(io.BytesIO(data))
        if columns is not None:
            _check_columns(where, columns, file.schema_arrow.names)
        wanted = file.schema_arrow.names if columns is None else list(columns)
        if any(file.schema_arrow.names.count(name) > 1 for name in wanted):
            raise InputError("duplicate column name", where=where, hint=hint)
        for name in wanted:  # of damaged metadata that an error tells here, asking ends the process
            file.scan_contents(columns=[name])
        require_bytes(_COPIES * _parquet_bytes(file, set(wanted)), where=where, hint=_SMALLER)
        # Words stay numbers of a list of words until it is known how long all of them are.
        worded = [name for name in wanted if _is_words(file.schema_arrow.field(name).type)]
        file = pq.ParquetFile(io.BytesIO(data), read_dictionary=worded)
        table = file.read(columns=wanted)
        for name in wanted:
            column, kind = table.column(name), table.schema.field(name).type
            if columns is not None and name not in set(text_columns):
                inner = kind.value_type if name in set(lists) and pa.types.is_list(kind) else kind
                if not pa.types.is_integer(inner) or column.null_count:
                    raise InputError(f"column {name!r} is not of whole numbers", where=where)
            elif columns is not None and name not in worded and not pa.types.is_null(kind):
                raise InputError(f"column {name!r} is not of words", where=where)
            elif pa.types.is_dictionary(kind):
                require_bytes(_COPIES * _word_bytes(column), where=where, hint=_SMALLER)
    except (pa.ArrowException, ValueError, OSError, MemoryError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
        line = (str(error).splitlines() or ["no reason is given"])[0]
        raise InputError(f"cannot be read: {line}"[:300], where=where, hint=hint) from None
    return table


def _is_words(kind: Any) -> bool:
    """Return whether a column has words, numbered or not."""
    import pyarrow as pa

    value = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(value) or pa.types.is_large_string(value))


def _check_columns(where: str, columns: Sequence[str], found: Sequence[str]) -> None:
    for name in columns:
        if name not in found:
            what = f"column {name!r} is missing"
            raise InputError(what, where=where, hint=f"it has {', '.join(map(str, found[:20]))}")


_WIDTHS: Final = {"BOOLEAN": 1, "INT32": 4, "FLOAT": 4, "INT96": 12}
"""Bytes of a value by its type in Parquet; 8 of others: words are numbered."""


def _parquet_bytes(file: Any, wanted: set[str]) -> int:
    """Estimate what the columns of a Parquet file take: a value may take no space in the file."""
    about = file.metadata
    needed = 0
    for group in range(about.num_row_groups):
        for at in range(about.num_columns):
            if file.schema.column(at).path.partition(".")[0] in wanted:
                column = about.row_group(group).column(at)
                width = _WIDTHS.get(column.physical_type, 8)
                needed += max(0, column.num_values) * width + max(0, column.total_uncompressed_size)
    return needed


def _word_bytes(column: Any) -> int:
    """Add up the lengths of all words of a column that numbers them."""
    import pyarrow.compute as pc

    total = 0
    for chunk in column.chunks:
        lengths = pc.binary_length(chunk.dictionary).to_numpy(zero_copy_only=False)
        used = chunk.indices.drop_null().to_numpy(zero_copy_only=False)
        total += exact_sum(np.asarray(lengths)[used]) if len(used) else 0
    return total
