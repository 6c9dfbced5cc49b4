"""pcap: a reader of its own checks every header, and adds up what each pair of ranks sends."""

from __future__ import annotations

import struct
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.traffic import MessageGraph
from astranb.traffic.schedule import message_times
from astranb.traffic.targets import translate
from tests.traffic.targets.graphs import Builder, bytes_by_pair, graphs, ring


class Frame(NamedTuple):
    """A packet of a capture."""

    ps: int
    source: int
    target: int
    opcode: int
    pair: int
    sequence: int
    payload: int
    message: int  # bytes of the whole write, in its first packet
    length: int


def read_pcap(data: bytes) -> list[Frame]:
    """Read a pcap file of nanoseconds with RoCEv2 packets; check lengths and check sums."""
    magic, major, minor, _, _, snaplen, link = struct.unpack("<IHHiIII", data[:24])
    assert (magic, major, minor, link) == (0xA1B23C4D, 2, 4, 1)
    at, frames = 24, []
    while at < len(data):
        seconds, ns, captured, length = struct.unpack("<IIII", data[at : at + 16])
        assert ns < 10**9
        assert captured <= min(length, snaplen)
        raw = data[at + 16 : at + 16 + captured]
        assert len(raw) == captured
        at += 16 + captured
        assert raw[12:14] == b"\x08\x00"
        ip = raw[14:34]
        assert (ip[0], ip[9]) == (0x45, 17)
        words = sum(struct.unpack(">10H", ip))
        assert (words & 0xFFFF) + (words >> 16) == 0xFFFF  # the check sum of a header that is whole
        assert struct.unpack(">H", ip[2:4])[0] == length - 14
        source, target = (struct.unpack(">I", ip[n : n + 4])[0] - (10 << 24) - 1 for n in (12, 16))
        assert raw[:12] == struct.pack(">HIHI", 0x0200, target, 0x0200, source)
        _, port, udp, _ = struct.unpack(">HHHH", raw[34:42])
        assert (port, udp) == (4791, length - 34)
        opcode, flags, key, pair, sequence = struct.unpack(">BBHII", raw[42:54])
        assert key == 0xFFFF
        first = opcode in (0x06, 0x0A)
        assert captured == (70 if first else 54)
        message = struct.unpack(">QII", raw[54:70])[2] if first else -1
        payload = length - (70 if first else 54) - 4 - (flags >> 4 & 3)
        assert bool(sequence >> 31) == (opcode in (0x08, 0x0A))  # the last asks for an acknowledgement
        frames.append(
            Frame((seconds * 10**9 + ns) * 1000, source, target, opcode, pair, sequence & 0xFFFFFF, payload,
                  message, length)
        )  # fmt: skip
    return frames


@given(graph=graphs, mtu=st.sampled_from([256, 1024, 4096]))
def test_captures(graph: MessageGraph, mtu: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("pcap") / "t.pcap"
    made = translate(graph, "pcap", file, mtu=mtu)
    frames = read_pcap(file.read_bytes())
    assert [frame.ps for frame in frames] == sorted(frame.ps for frame in frames)
    totals: Counter[tuple[int, int]] = Counter()
    messages: Counter[tuple[int, int, int]] = Counter()
    left: dict[tuple[int, int], int] = {}
    following: Counter[tuple[int, int]] = Counter()
    for frame in frames:
        ends = frame.source, frame.target
        totals[ends] += frame.payload
        assert frame.sequence == following[ends]  # of a queue pair, without gaps
        following[ends] += 1
        if frame.message >= 0:
            assert not left.get(ends)
            left[ends] = frame.message
            messages[(*ends, frame.message)] += 1
        left[ends] -= frame.payload
        assert (left[ends] == 0) == (frame.opcode in (0x08, 0x0A))
        assert frame.payload == mtu or left[ends] == 0
    assert {pair: size for pair, size in totals.items() if size} == {
        pair: size for pair, size in bytes_by_pair(graph).items() if size
    }
    nodes = graph.nodes[graph.sends]
    assert messages == Counter((int(n["rank"]), int(n["peer"]), int(n["bytes"])) for n in nodes)
    assert len({(f.source, f.target) for f in frames}) == len({f.pair for f in frames})
    assert made.messages == graph.messages


@given(graph=graphs)
def test_links_carry_one_packet_at_a_time(
    graph: MessageGraph, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """At 8 Gbps a byte takes a nanosecond: packets of a rank do not overlap, and none is early."""
    file = tmp_path_factory.mktemp("pcap") / "t.pcap"
    translate(graph, "pcap", file, bandwidth="8 Gbps")
    frames = read_pcap(file.read_bytes())
    free: dict[int, int] = {}
    for frame in frames:
        assert frame.ps >= free.get(frame.source, 0)
        free[frame.source] = frame.ps + (frame.length + 24) * 1000 - 1000  # times are whole nanoseconds
    starts = message_times(graph, bandwidth="8 Gbps").start_ps
    if len(starts):
        assert frames[0].ps == int(starts.min()) // 1000 * 1000


def test_messages_of_one_rank_follow_each_other(tmp_path: Path) -> None:
    made = Builder(3, "two at once")
    for target in (1, 2):
        made.send(0, target, 8192)
        made.receive(target, 0, 8192)
    translate(made.graph(), "pcap", tmp_path / "t.pcap", bandwidth="8 Gbps")
    frames = read_pcap((tmp_path / "t.pcap").read_bytes())
    wire = [4096 + 74 + 24, 4096 + 58 + 24]
    begins = [0, wire[0], sum(wire), sum(wire) + wire[0]]
    assert [(frame.target, frame.ps // 1000) for frame in frames] == list(
        zip((1, 1, 2, 2), begins, strict=True)
    )


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"mtu: an MTU of 1,500 bytes; InfiniBand has 256"):
        translate(ring(2, 1), "pcap", tmp_path / "t", mtu=1500)
    made = Builder(2, "large")
    made.send(0, 1, 2**31 + 1)
    made.receive(1, 0, 2**31 + 1)
    with pytest.raises(
        InputError, match=r"large: a message of 2,147,483,649 bytes from rank 0 to 1; RDMA has"
    ):
        translate(made.graph(), "pcap", tmp_path / "t")
    assert not (tmp_path / "t").exists()
