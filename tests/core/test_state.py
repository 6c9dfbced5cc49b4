"""Tables: allocate, copy, hash, save, load, refuse."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from astranb.core.errors import InputError
from astranb.core.files import whole_file
from astranb.core.number_files import read_tables, write_tables
from astranb.core.state import allocate, digest, free_bytes, own, require_bytes

ROW = np.dtype([("time_ps", "i8"), ("kind", "i4"), ("spare", "i4")])
TABLES = st.dictionaries(
    st.sampled_from(["links", "sms", "heap", "a/b"]), arrays(ROW, st.integers(0, 5)), min_size=1
)


@given(TABLES)
def test_what_is_written_is_read(tmp_path_factory, tables):
    path = tmp_path_factory.mktemp("state") / "state.npz"
    write_tables(tables, path)
    again = read_tables(path, "a state", "write one")
    assert list(again) == list(tables)
    assert all(again[name].dtype == ROW and (again[name] == tables[name]).all() for name in tables)
    assert digest(again.items()) == digest(tables.items())
    assert list(path.parent.iterdir()) == [path]


@given(TABLES, st.data())
def test_every_field_counts_in_the_hash(tables, data):
    before = digest(tables.items())
    name = data.draw(st.sampled_from(sorted(tables)))
    if not len(tables[name]):
        return
    row = data.draw(st.integers(0, len(tables[name]) - 1))
    tables[name][data.draw(st.sampled_from(ROW.names or ()))][row] ^= 1
    assert digest(tables.items()) != before


def test_a_copy_is_its_own():
    table = allocate(3, ROW)
    copy = own(table)
    copy.time_ps[1] = 7
    assert table.time_ps.tolist() == [0, 0, 0]


def test_nothing_half_written(tmp_path: Path):
    path = tmp_path / "state.npz"
    path.write_bytes(b"before")

    def fail() -> None:
        with whole_file(path) as file:
            file.write(b"half")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert path.read_bytes() == b"before"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(InputError, match="cannot be written"), whole_file(tmp_path / "no" / "x"):
        pass
    with whole_file(path) as file:
        file.write(b"after")
    umask = os.umask(0)
    os.umask(umask)
    assert path.stat().st_mode & 0o777 == 0o666 & ~umask
    assert path.read_bytes() == b"after"


@pytest.mark.parametrize("content", [b"", b"nonsense", b"PK\x03\x04broken", b"\x93NUMPY\x01\x00broken"])
def test_another_file_is_refused(tmp_path: Path, content: bytes):
    path = tmp_path / "state.npz"
    path.write_bytes(content)
    with pytest.raises(InputError, match=r"not a state: .*; write one"):
        read_tables(path, "a state", "write one")
    with pytest.raises(InputError, match="gone: No such file"):
        read_tables(tmp_path / "gone", "a state", "write one")


def test_what_does_not_fit_is_refused():
    assert free_bytes() > 2**20
    require_bytes(10, where="it", hint="smaller", allowed=10)
    with pytest.raises(InputError, match=r"it: .* about 2.0 GB of memory, 1.0 GB can be used; smaller"):
        require_bytes(2 * 10**9, where="it", hint="smaller", allowed=10**9)
    with pytest.raises(InputError, match="smaller"):
        require_bytes(2**60, where="it", hint="smaller")
