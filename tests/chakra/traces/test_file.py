"""Files: whole, cut off, compressed, bombs, and ranks that are missing."""

from __future__ import annotations

import gzip
import io
import zlib
from pathlib import Path

import pytest

from astranb.chakra import Node, NodeType, Trace, TraceBuilder, read, read_ranks, write
from astranb.chakra.traces import trace_file
from astranb.core import packed as gzip_bounds
from astranb.core.errors import InputError


@pytest.fixture
def trace() -> Trace:
    step = TraceBuilder(note="a test")
    last = step.compute("forward", num_ops=10**9, tensor_size="1 MB")
    for number in range(20):
        last = step.collective("all_reduce", 1 << number, name=f"layer {number}", after=last)
    return step.build()


def test_a_file_is_written_and_read(tmp_path: Path, trace: Trace):
    write(trace, tmp_path / "t.0.et")
    assert read(tmp_path / "t.0.et") == trace
    assert (tmp_path / "t.0.et").read_bytes() == trace.data


def test_gzip_is_recognised_by_its_contents(tmp_path: Path, trace: Trace):
    write(trace, tmp_path / "t.0.et.gz")
    packed = (tmp_path / "t.0.et.gz").read_bytes()
    assert packed[:2] == b"\x1f\x8b"
    assert len(packed) < len(trace.data)
    (tmp_path / "plain.et").write_bytes(packed)
    (tmp_path / "packed.et.gz").write_bytes(trace.data)
    assert (
        read(tmp_path / "t.0.et.gz")
        == read(tmp_path / "plain.et")
        == read(tmp_path / "packed.et.gz")
        == trace
    )


def test_gzip_in_parts(tmp_path: Path, trace: Trace):
    file = tmp_path / "t.et"
    file.write_bytes(gzip.compress(trace.data[:100]) + gzip.compress(trace.data[100:]) + bytes(10))
    assert read(file) == trace
    file.write_bytes(gzip.compress(trace.data) + b"more")
    with pytest.raises(InputError, match="4 bytes follow the gzip file"):
        read(file)


def test_every_cut_is_found(tmp_path: Path, trace: Trace):
    """A file that ends early is a shorter trace only where it is cut between two nodes."""
    file = tmp_path / "t.et"
    whole = 0
    for size in range(1, len(trace.data)):
        try:
            whole += len(Trace(trace.data[:size], str(file))) >= 0
        except InputError as error:
            assert "byte " in str(error)  # noqa: PT017
            assert "cut off" in str(error)  # noqa: PT017
    assert whole == len(trace)


def test_a_cut_names_the_byte(tmp_path: Path, trace: Trace):
    file = tmp_path / "t.et"
    file.write_bytes(trace.data[:60])
    with pytest.raises(
        InputError,
        match=r"t\.et: byte 25: a message: \d+ bytes should follow, but 34 do; is the file cut off\?",
    ):
        read(file)


def test_a_packed_file_is_cut_off_or_broken(tmp_path: Path, trace: Trace):
    file, packed = tmp_path / "t.et", gzip.compress(trace.data)
    for size in (3, 20, len(packed) - 9, len(packed) - 1):
        file.write_bytes(packed[:size])
        with pytest.raises(InputError, match=rf"the gzip file ends at byte {size}, in the middle"):
            read(file)
    for place in (len(packed) // 2, len(packed) - 6):  # the data; its checksum
        file.write_bytes(packed[:place] + bytes([packed[place] ^ 255]) + packed[place + 1 :])
        with pytest.raises(InputError, match="not a gzip file: "):
            read(file)


def test_a_bomb_is_refused(tmp_path: Path):
    """64 MiB of zeros, packed a thousandfold."""
    file = tmp_path / "bomb.et.gz"
    file.write_bytes(gzip.compress(bytes(64 << 20)))
    with pytest.raises(
        InputError, match=r"bomb\.et\.gz: unpacks to more than [\d,]+ bytes from [\d,]+; if it is a trace"
    ):
        read(file)


def test_a_bomb_of_bombs_is_refused(tmp_path: Path):
    file, part = io.BytesIO(), gzip.compress(bytes(1 << 20))
    for _ in range(64):
        file.write(part)
    (tmp_path / "bombs.et").write_bytes(file.getvalue())
    with pytest.raises(InputError, match="unpacks to more than"):
        read(tmp_path / "bombs.et")


def test_a_dull_trace_is_no_bomb(tmp_path: Path):
    """The same node again and again, in all but its id and parent, packs far less than a bomb."""
    step = TraceBuilder()
    last: tuple[int, ...] = ()
    for _ in range(20_000):
        last = (step.collective("all_reduce", 1 << 20, after=last),)
    trace = step.build()
    packed = zlib.compress(trace.data, 9)
    assert len(trace.data) > gzip_bounds._FREE
    assert len(trace.data) / len(packed) < gzip_bounds.MOST_RATIO / 2
    (tmp_path / "t.et").write_bytes(gzip.compress(trace.data))
    assert read(tmp_path / "t.et") == trace


def test_zeros_are_no_trace(tmp_path: Path):
    (tmp_path / "t.et").write_bytes(bytes(1000))
    with pytest.raises(InputError, match=r"t\.et: byte 1: a message: empty; is it a Chakra trace\?"):
        read(tmp_path / "t.et")


def test_what_is_no_trace(tmp_path: Path):
    for name, data in (
        ("empty", b""),
        ("text", b"# not a trace\nbut text\n" * 9),
        ("json", b'{"nodes": []}'),
    ):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=f"{name}.*; (is|give)"):
            read(tmp_path / name)
    with pytest.raises(InputError, match="nowhere"):
        read(tmp_path / "nowhere")
    with pytest.raises(InputError, match="this is a folder; name the file in it"):
        read(tmp_path)


def test_a_huge_file_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(trace_file, "MOST_BYTES", 1 << 20)
    with (tmp_path / "t.et").open("wb") as file:
        file.truncate((1 << 20) + 1)
    with pytest.raises(InputError, match="larger than 1 MiB"):
        read(tmp_path / "t.et")


def test_ranks_are_read_in_order(tmp_path: Path):
    for rank in range(12):
        name = f"step.{rank}.et" + (".gz" if rank % 2 else "")
        write(Trace.of([Node(rank, f"of {rank}", NodeType.COMP)]), tmp_path / name)
    write(Trace.of([]), tmp_path / "other.12.et")
    assert [int(trace.id[0]) for trace in read_ranks(tmp_path / "step")] == list(range(12))
    assert len(read_ranks(tmp_path / "step", 5)) == 5


def test_a_missing_rank_is_named(tmp_path: Path):
    for rank in (0, 1, 3):
        write(Trace.of([]), tmp_path / f"step.{rank}.et")
    with pytest.raises(
        InputError, match=r"step\.2\.et: the trace of rank 2 is missing \(3 exist, the highest 3\)"
    ):
        read_ranks(tmp_path / "step")
    with pytest.raises(InputError, match=r"the trace of rank 2, 4, 5 is missing"):
        read_ranks(tmp_path / "step", 6)
    write(Trace.of([]), tmp_path / "step.999999999999.et")
    with pytest.raises(InputError, match="rank 2, "):
        read_ranks(tmp_path / "step")
    with pytest.raises(InputError, match=r"no trace stop\.RANK\.et"):
        read_ranks(tmp_path / "stop")
    with pytest.raises(InputError, match="give PREFIX"):
        read_ranks(tmp_path / "nowhere" / "step")
