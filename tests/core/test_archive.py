"""Zip files: equal for equal contents, and refused before they unpack to too much."""

from __future__ import annotations

import io
import zipfile

import pytest

from astranb.core.archive import read_archive, write_archive
from astranb.core.errors import InputError


def read(data: bytes) -> dict[str, bytes]:
    return read_archive(data, "a.zip", "an archive", "make it again")


def test_what_is_written_is_read() -> None:
    contents = {"a": b"1", "b/c.txt": bytes(range(256)) * 100, "empty": b""}
    made = write_archive(contents)
    assert read(made) == contents
    assert made == write_archive(contents)


@pytest.mark.parametrize("data", [b"", b"PK", b"PK\x03\x04 nothing", b"{}", write_archive({"a": b"1"})[:-5]])
def test_what_is_no_archive_is_refused(data: bytes) -> None:
    with pytest.raises(InputError, match=r"a\.zip: not an archive, or damaged; make it again"):
        read(data)


def test_a_bomb_is_refused_before_it_is_unpacked() -> None:
    bomb = write_archive({"zeros": bytes(1 << 28)})
    with pytest.raises(InputError, match=r"unpacks to 268,435,456 bytes from"):
        read(bomb)


def test_two_contents_of_one_name_are_refused() -> None:
    made = write_archive({"aa": b"1", "ab": b"2"}).replace(b"ab", b"aa")
    with pytest.raises(InputError, match="not an archive"):
        read(made)


def test_another_compression_is_refused() -> None:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_BZIP2) as archive:
        archive.writestr("a", b"x" * 1000)
    with pytest.raises(InputError, match="not an archive"):
        read(file.getvalue())


def test_a_size_that_is_not_true_is_refused() -> None:
    made = bytearray(write_archive({"a": bytes(5000)}))
    at = made.rindex((5000).to_bytes(4, "little"))  # in the directory at the end
    made[at : at + 4] = (50).to_bytes(4, "little")
    with pytest.raises(InputError, match="not an archive"):
        read(bytes(made))
