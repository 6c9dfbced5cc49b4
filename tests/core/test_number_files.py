"""Files of numbers: what is in bounds is read, everything else is refused before it takes memory."""

from __future__ import annotations

import io
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from astranb.core import number_files, state
from astranb.core.errors import InputError
from astranb.core.number_files import (
    INT64,
    column_table,
    exact_sum,
    parquet_table,
    read_arrays,
    real,
    text_rows,
    whole,
    whole_array,
    whole_table,
)

HOSTILE = (
    "0", "-1", "7", "2147483647", "2147483648", "4611686018427387904", "9223372036854775807",
    "9223372036854775808", "-9223372036854775808", "-9223372036854775809", "1" * 400, "1e400", "1e3", "nan",
    "inf", "-inf", "1.5", "", "text", "٣", "0x10", "1_000", "+1",
)  # fmt: skip


def is_whole(text: str) -> bool:
    """Return whether a word is a whole number of 64 bits in plain digits."""
    digits = text.removeprefix("-")
    return bool(digits) and set(digits) <= set("0123456789") and INT64[0] <= int(text) <= INT64[1]


@given(
    st.one_of(st.sampled_from(HOSTILE), st.text(max_size=25)),
    st.integers(*INT64), st.integers(*INT64),
)  # fmt: skip
def test_a_word_is_its_number_or_refused(text: str, one: int, two: int) -> None:
    low, high = min(one, two), max(one, two)
    value = int(text) if is_whole(text) and (low < 0 or text[0] != "-") else None
    if value is not None and low <= value <= high:
        assert whole(text, low, high, what="m", where="a") == value
    else:
        with pytest.raises(InputError, match="a: m is "):
            whole(text, low, high, what="m", where="a")


@given(st.sampled_from(HOSTILE))
def test_a_number_is_in_its_bounds(text: str) -> None:
    if text in ("0", "7", "1e3", "1.5", "1_000", "+1", "٣"):  # as Python reads numbers
        assert real(text, 0, 1e6, what="ns", where="a") == float(text)
    else:
        with pytest.raises(InputError, match="a: ns is "):
            real(text, 0, 1e6, what="ns", where="a")


@given(st.lists(st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=4), max_size=5))
def test_a_table_is_its_numbers_or_refused_with_the_line(rows: list[list[str]]) -> None:
    text = "\n".join(map(",".join, rows))
    lines = [row for row in rows if "".join(row)]  # NumPy's reader skips empty lines, too
    right = lines and len(set(map(len, lines))) == 1
    if right and all(cell == "+1" or is_whole(cell) for row in lines for cell in row):
        assert whole_table(text, "a").tolist() == [[int(cell) for cell in row] for row in lines]
    else:
        with pytest.raises(InputError, match=r"^a(, line \d)?: "):
            whole_table(text, "a")


@given(arrays(np.int64, st.integers(0, 20), elements=st.integers(*INT64)))
def test_sums_are_exact(values: np.ndarray) -> None:
    assert exact_sum(values) == sum(values.tolist())


@given(
    st.sampled_from([np.int8, np.uint8, np.int64, np.uint64, np.float64, np.bool_]).flatmap(
        lambda kind: arrays(kind, st.integers(0, 5))
    ),
    st.integers(*INT64), st.integers(*INT64),
)  # fmt: skip
def test_an_array_is_in_its_bounds_or_refused(array: np.ndarray, one: int, two: int) -> None:
    low, high = min(one, two), max(one, two)
    values = array.tolist()
    if not values or (array.dtype.kind in "iu" and all(low <= value <= high for value in values)):
        found = whole_array(array, "counts", "a", low, high)
        assert found.dtype == np.int64
        assert found.tolist() == values
    else:
        with pytest.raises(InputError, match="a: counts "):
            whole_array(array, "counts", "a", low, high)


@pytest.mark.parametrize("values", [[[1], [2, 3]], "text", [1 << 70], object(), [None]])
def test_what_is_no_array_of_numbers_is_refused(values: object) -> None:
    with pytest.raises(InputError, match="counts must be whole numbers"):
        whole_array(values, "counts", "a")


def test_a_quote_that_does_not_end_is_named() -> None:
    with pytest.raises(InputError, match=r"a.csv, line 1: "):
        list(text_rows('"' + "x" * 200_000, "a.csv"))


def refused(path: Path, says: str) -> None:
    """Check that a file is refused for a reason, without unpacking it."""
    tracemalloc.start()
    try:
        with pytest.raises(InputError, match=says):
            read_arrays(path, "save one")
        assert tracemalloc.get_traced_memory()[1] < 40 << 20
    finally:
        tracemalloc.stop()


def header(count: int) -> bytes:
    """Return the head of an array of so many numbers."""
    file = io.BytesIO()
    np.lib.format.write_array_header_1_0(file, {"descr": "<i8", "fortran_order": False, "shape": (count,)})
    return file.getvalue()


@pytest.mark.parametrize("packed", [False, True])
def test_arrays_are_read_as_they_were_written(packed: bool, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        "a": np.arange(6).reshape(2, 3),
        "b": np.zeros((0, 4)),
        "c": np.array([1.5], np.float32),
    }
    (np.savez_compressed if packed else np.savez)(tmp_path / "a.npz", **given)
    found = read_arrays(tmp_path / "a.npz", "save one")
    assert {name: (one.dtype, one.tolist()) for name, one in found.items()} == {
        name: (one.dtype, one.tolist()) for name, one in given.items()
    }


def test_what_unpacks_to_more_than_a_file_of_its_size_may_is_not_unpacked(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "a.npz", counts=np.zeros(1 << 24, np.int64))  # 128 MiB from 130 kB
    refused(tmp_path / "a.npz", "unpacks to 134,217,856 bytes from")
    np.savez(tmp_path / "b.npz", counts=np.zeros(1 << 17, np.int64))
    read_arrays(tmp_path / "b.npz", "save one")


def test_what_does_not_fit_in_memory_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "a.npz", counts=np.arange(1 << 17))
    monkeypatch.setattr(state, "free_bytes", lambda: 1 << 20)
    refused(tmp_path / "a.npz", "needs about 0.0 GB of memory")


def test_a_member_does_not_unpack_beyond_the_size_that_it_says(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("counts.npy", header(1 << 24) + bytes(8 << 24))
    data = (tmp_path / "a.npz").read_bytes()
    size = (len(header(1)) + (8 << 24)).to_bytes(4, "little")
    (tmp_path / "a.npz").write_bytes(data.replace(size, (4096).to_bytes(4, "little")))
    refused(tmp_path / "a.npz", "not arrays of NumPy")


@pytest.mark.parametrize(
    "member, method",
    [
        (header(1 << 40) + bytes(64), zipfile.ZIP_STORED),  # fewer numbers than it says
        (header(4) + bytes(64), zipfile.ZIP_STORED),  # more
        (header(4) + bytes(32), zipfile.ZIP_LZMA),
        (header(4) + bytes(32), zipfile.ZIP_BZIP2),
        (b"", zipfile.ZIP_STORED),
        (b"\x93NUMPY\x09\x00", zipfile.ZIP_STORED),
    ],
)
def test_what_is_no_array_is_refused(member: bytes, method: int, tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.npz", "w", method) as file:
        file.writestr("counts.npy", member)
    refused(tmp_path / "a.npz", "not arrays of NumPy")


def test_python_objects_are_not_read(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", counts=np.array([{}], object))
    refused(tmp_path / "a.npz", "not arrays of NumPy")


@pytest.mark.parametrize("data", [b"", b"PK", b"text", b"PK\x03\x04" + bytes(100)])
def test_what_is_no_file_of_arrays_is_refused(data: bytes, tmp_path: Path) -> None:
    (tmp_path / "a.npz").write_bytes(data)
    refused(tmp_path / "a.npz", "not arrays of NumPy")


@given(st.lists(st.sampled_from(HOSTILE), min_size=1, max_size=3))
def test_a_column_is_its_numbers_or_refused(
    tmp_path_factory: pytest.TempPathFactory, cells: list[str]
) -> None:
    file = tmp_path_factory.mktemp("columns") / "a.csv"
    file.write_text("n,word\n" + "".join(f"{cell},w\n" for cell in cells), encoding="utf-8")
    if all(map(is_whole, cells)):
        assert column_table(file, ["n", "word"], ["word"])["n"].tolist() == list(map(int, cells))
        return
    try:
        frame = column_table(file, ["n", "word"], ["word"])
    except InputError:
        return
    # pandas reads some forms of a number more: each is its value.
    assert [float(number) for number in frame["n"]] == [float(cell) for cell in cells]


def parquet(folder: Path, **columns: object) -> Path:
    """Write a Parquet file."""
    pq.write_table(pa.table(columns), folder / "a.parquet")
    return folder / "a.parquet"


def test_parquet_is_read_as_it_was_written(tmp_path: Path) -> None:
    file = parquet(tmp_path, n=[1, -5], word=["a", "b"], some=[[1, 2], []])
    table = parquet_table(file, "Parquet")
    assert table.to_pylist() == [
        {"n": 1, "word": "a", "some": [1, 2]}, {"n": -5, "word": "b", "some": []},
    ]  # fmt: skip
    assert parquet_table(file, "Parquet", ["n"]).to_pylist() == [{"n": 1}, {"n": -5}]


def test_columns_that_are_not_of_whole_numbers_are_named(tmp_path: Path) -> None:
    file = parquet(tmp_path, n=[1, None], x=[1.5, 2.0], word=["a", "b"])
    for name, says in (("n", "'n' is not of whole"), ("x", "'x' is not of whole"), ("y", "'y' is missing")):
        with pytest.raises(InputError, match=says):
            parquet_table(file, "Parquet", [name])


@pytest.mark.parametrize(
    "columns",
    [
        {"n": np.zeros(1 << 20, np.int64)},  # which takes a few bytes in the file
        {"some": pa.ListArray.from_arrays([0, 1 << 20], np.zeros(1 << 20, np.int64))},
        {"word": pa.array(["x" * 4096] * 4096).dictionary_encode()},  # once in the file
    ],
)
def test_parquet_that_does_not_fit_in_memory_is_not_read(
    columns: dict[str, object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = parquet(tmp_path, **columns)
    assert file.stat().st_size < 1 << 17
    assert parquet_table(file, "Parquet").num_rows
    monkeypatch.setattr(state, "free_bytes", lambda: 16 << 20)
    with pytest.raises(InputError, match="of memory"):
        parquet_table(file, "Parquet")


def test_a_file_larger_than_memory_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv").write_text("n\n" + "1\n" * 1000)
    monkeypatch.setattr(state, "free_bytes", lambda: 1000)
    for read in (
        lambda file: column_table(file, ["n"], ()),
        lambda file: parquet_table(file, "Parquet"),
        lambda file: read_arrays(file, "save one"),
    ):
        with pytest.raises(InputError, match="of memory"):
            read(tmp_path / "a.csv")
    with pytest.raises(InputError, match="of memory"):
        whole_table("1\n" * 1000, "a")
    assert number_files.whole_table("1", "a").tolist() == [[1]]


def test_arrays_in_the_order_of_columns_are_read(tmp_path: Path) -> None:
    given = np.arange(6).reshape(2, 3).T
    np.savez(tmp_path / "a.npz", counts=given)
    assert read_arrays(tmp_path / "a.npz", "save one")["counts"].tolist() == given.tolist()


def test_two_columns_of_one_name_are_refused(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_arrays([pa.array([1]), pa.array([2])], ["n", "n"]), tmp_path / "a.parquet")
    with pytest.raises(InputError, match="duplicate column name"):
        parquet_table(tmp_path / "a.parquet", "x", ["n"], hint="write it again")


_FLIPPED = """
import sys
from pathlib import Path
from astranb.core.errors import InputError
from astranb.core.number_files import parquet_table

path = Path(sys.argv[1])
data = path.read_bytes()
damaged = path.with_name("damaged.parquet")
for at in range(len(data) - 700, len(data)):
    damaged.write_bytes(data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :])
    try:
        parquet_table(damaged, "x", ["n", "m"], lists=["m"], hint="write it again")
    except InputError:
        continue
print("read or refused")
"""


def test_a_flipped_bit_of_a_parquet_file_does_not_end_the_process(tmp_path: Path) -> None:
    """Asked for a column, damaged metadata of pyarrow can end the process, which no ``except`` sees."""
    columns = {"n": list(range(50)), "m": [[k] for k in range(50)]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=10)
    command = [sys.executable, "-c", _FLIPPED, str(tmp_path / "a.parquet")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "read or refused\n"), done.stderr[-500:]
