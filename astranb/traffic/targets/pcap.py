"""pcap: the headers of RoCEv2 packets of all messages, for test-beds and packet tools."""

from __future__ import annotations

import struct
from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, Final

import numpy as np
from numpy.typing import NDArray  # noqa: TC002 - helpers' types

from astranb.core.arrays import numbered
from astranb.core.errors import InputError
from astranb.core.files import whole_file
from astranb.core.units import bandwidth_Bps, size_bytes
from astranb.infragraph import Infra
from astranb.traffic.graph import MessageGraph

from .flows import SECOND_PS, TimedMessages, timed_messages
from .translation import Translation

__all__ = ["write_pcap"]

_MAGIC_NS: Final = 0xA1B23C4D  # classic pcap with nanoseconds
_ETHERNET: Final = 1
_SNAPLEN: Final = 70  # all headers of the first packet of a write
_FRAME: Final = 24  # preamble, check sum and gap of Ethernet: on the wire, not in the file
_ICRC: Final = 4
_UDP_PORT: Final = 4791
_FIRST, _MIDDLE, _LAST, _ONLY = 0x06, 0x07, 0x08, 0x0A  # RDMA WRITE of a reliable connection
_MOST_BYTES: Final = 1 << 31  # of one RDMA message
_MOST_RANKS: Final = (1 << 24) - 2  # addresses of 10.0.0.0/8
_MOST_PACKETS: Final = 1 << 26
_BLOCK: Final = 1 << 17

_RECORD: Final = np.dtype([("s", "<u4"), ("ns", "<u4"), ("captured", "<u4"), ("length", "<u4")])
_HEADERS: Final = np.dtype(
    [
        ("target_mac", "u1", 6), ("source_mac", "u1", 6), ("type", ">u2"),
        ("version", "u1"), ("tos", "u1"), ("ip_length", ">u2"), ("id", ">u2"), ("fragment", ">u2"),
        ("ttl", "u1"), ("protocol", "u1"), ("check", ">u2"), ("source_ip", ">u4"), ("target_ip", ">u4"),
        ("source_port", ">u2"), ("target_port", ">u2"), ("udp_length", ">u2"), ("udp_check", ">u2"),
        ("opcode", "u1"), ("flags", "u1"), ("key", ">u2"), ("queue_pair", ">u4"), ("sequence", ">u4"),
        ("address", ">u8"), ("remote_key", ">u4"), ("size", ">u4"),
    ]
)  # fmt: skip
"""Ethernet, IPv4, UDP, BTH, and RETH, which only the first packet of a write has."""
_RETH: Final = 16
_IP_HEADER, _UDP_HEADER, _BTH = 20, 8, 12


def write_pcap(
    graph: MessageGraph,
    path: str | Path,
    *,
    topology: Infra | None = None,
    bandwidth: str | int = "400 Gbps",
    latency: str | int = "1 us",
    mtu: str | int = "4096 B",
) -> Translation:
    """Write the packets that NICs send, as a pcap file of nanoseconds with headers only.

    Each message is an RDMA WRITE over RoCEv2 (Ethernet, IPv4, UDP port 4791, BTH, RETH); payloads are cut
    off, and the true lengths are in the records. Rank *r* is 10.0.0.0 + *r* + 1, and each pair of ranks has
    a queue pair. A rank sends one packet after the other at its link's rate, message after message.

    Parameters
    ----------
    graph : MessageGraph
    path : str or Path
    topology : Infra, optional
        For starts that were not recorded, instead of bandwidth and latency.
    bandwidth, latency : str or int
        Of the links that ranks send on, and between any two ranks.
    mtu : str or int
        Payload of a packet: 256, 512, 1024, 2048 or 4096 bytes.

    Raises
    ------
    InputError
        The graph cannot be written, or has too many packets, ranks, or bytes in a message.
    """
    payload = size_bytes(mtu, where="mtu")
    if payload not in (256, 512, 1024, 2048, 4096):
        raise InputError(
            f"an MTU of {payload:,} bytes", where="mtu", hint="InfiniBand has 256 to 4096, doubling"
        )
    rate = bandwidth_Bps(bandwidth, where="bandwidth")
    if graph.ranks > _MOST_RANKS:
        raise InputError(
            f"{graph.ranks:,} ranks", where=graph.title, hint=f"up to {_MOST_RANKS:,} have addresses"
        )
    flows = timed_messages(graph, topology, bandwidth, latency)
    flows.by_the_clock("a capture")
    flows.refuse_above(_MOST_BYTES, "RDMA")
    writes = _RdmaWrites(flows, payload, rate, graph.ranks)
    if writes.packets > _MOST_PACKETS:
        hint = f"translate a part; up to {_MOST_PACKETS:,} are written"
        raise InputError(f"{writes.packets:,} packets", where=graph.title, hint=hint)
    with whole_file(Path(path)) as file:
        file.write(struct.pack("<IHHiIII", _MAGIC_NS, 2, 4, 0, 0, _SNAPLEN, _ETHERNET))
        writes.write(file)
    all_packets = f"{writes.packets:,} of {writes.packets:,} packets"
    lost = [
        *flows.not_expressed,
        f"{all_packets}: payloads are cut off, and the invariant CRC behind them",
        f"{all_packets}: acknowledgements and congestion are not in the file",
    ]
    return Translation((Path(path),), graph.messages, tuple(lost))


class _RdmaWrites:
    """Messages as packets in the order of their times."""

    def __init__(self, flows: TimedMessages, payload: int, rate_Bps: int, ranks: int) -> None:  # noqa: N803
        self.flows, self.payload, self.ranks = flows, payload, ranks
        self.parts = np.maximum(-(-flows.size // payload), 1)
        self.packets = int(self.parts.sum())
        if self.packets > _MOST_PACKETS:
            return
        pair = flows.source * ranks + flows.target
        order = np.argsort(pair, kind="stable")
        before = np.cumsum(self.parts[order]) - self.parts[order]
        fresh = np.diff(pair[order], prepend=-1) != 0
        base = np.maximum.accumulate(np.where(fresh, before, 0)) if len(order) else before
        self.sequence = np.empty(len(flows), np.int64)
        self.sequence[order] = before - base  # packets of the pair before
        self.queue_pair = np.searchsorted(np.unique(pair), pair) + 2  # 0 and 1 are for management
        # What a packet takes on the wire: full ones, and of a message all of them.
        self.full_ps = _wire_ps(np.array([payload]), first=False, rate_Bps=rate_Bps)[0]
        rest = flows.size - (self.parts - 1) * payload
        last = _wire_ps(rest, first=False, rate_Bps=rate_Bps)
        begun = _wire_ps(np.minimum(flows.size, payload), first=True, rate_Bps=rate_Bps)
        alone = self.parts == 1
        self.begun_ps = begun
        total = np.where(alone, begun, begun + (self.parts - 2) * self.full_ps + last)
        self.start_ps = _one_after_the_other(flows.source, flows.start_ps, total)

    def write(self, file: BinaryIO) -> None:
        """Write all records."""
        message = np.repeat(np.arange(len(self.flows)), self.parts)
        nth = numbered(self.parts)
        after = np.where(nth > 0, self.begun_ps[message] + (nth - 1) * self.full_ps, 0)
        sent_ps = self.start_ps[message] + after
        order = np.argsort(sent_ps, kind="stable")
        for at in range(0, self.packets, _BLOCK):
            rows = order[at : at + _BLOCK]
            file.write(self._block(message[rows], nth[rows], sent_ps[rows]))

    def _block(self, message: NDArray[np.int64], nth: NDArray[np.int64], sent_ps: NDArray[np.int64]) -> bytes:
        flows, parts = self.flows, self.parts[message]
        first, last = nth == 0, nth == parts - 1
        payload = np.where(last, flows.size[message] - nth * self.payload, self.payload)
        padding = -payload % 4
        udp = _UDP_HEADER + _BTH + _RETH * first + payload + padding + _ICRC
        length = 14 + _IP_HEADER + udp
        made = np.zeros(len(message), [("record", _RECORD), ("headers", _HEADERS)])
        record, head = made["record"], made["headers"]
        record["s"], record["ns"] = sent_ps // SECOND_PS, sent_ps % SECOND_PS // 1000
        captured = _SNAPLEN - _RETH * ~first
        record["captured"], record["length"] = captured, length
        source, target = flows.source[message], flows.target[message]
        head["target_mac"], head["source_mac"] = _mac(target), _mac(source)
        head["type"], head["version"], head["tos"], head["ip_length"] = 0x0800, 0x45, 0x02, _IP_HEADER + udp
        head["fragment"], head["ttl"], head["protocol"] = 0x4000, 64, 17
        head["source_ip"], head["target_ip"] = (10 << 24) + source + 1, (10 << 24) + target + 1
        head["check"] = _ip_check(head)
        pairs = self.queue_pair[message]
        head["source_port"], head["target_port"] = 0xC000 | pairs & 0x3FFF, _UDP_PORT
        head["udp_length"] = udp
        codes = np.where(last, np.where(first, _ONLY, _LAST), np.where(first, _FIRST, _MIDDLE))
        head["opcode"], head["flags"], head["key"] = codes, padding << 4, 0xFFFF
        head["queue_pair"] = pairs & 0xFFFFFF
        asked = np.where(last, 1 << 31, 0)  # an acknowledgement
        head["sequence"] = (self.sequence[message] + nth) & 0xFFFFFF | asked
        head["size"] = np.where(first, flows.size[message], 0)
        return _without_reth(made, first)


def _without_reth(made: NDArray[np.void], first: NDArray[np.bool_]) -> bytes:
    """Return the bytes of records, of which those that are not the first of a write have no RETH."""
    whole = made.dtype.itemsize
    raw = made.view(np.uint8).reshape(len(made), whole)
    kept = np.ones((len(made), whole), bool)
    kept[:, whole - _RETH :] = first[:, None]
    return raw[kept].tobytes()


def _mac(rank: NDArray[np.int64]) -> NDArray[np.uint8]:
    """Locally administered addresses: 02:00 and the rank."""
    octets = [np.full(len(rank), 2), np.zeros(len(rank), np.int64)]
    octets += [rank >> shift & 0xFF for shift in (24, 16, 8, 0)]
    return np.stack(octets, 1).astype(np.uint8)


def _ip_check(head: NDArray[np.void]) -> NDArray[np.int64]:
    """The check sum of IPv4 headers: the complement of the sum of their words."""
    total = np.full(len(head), 0x4500, np.int64) + head["tos"] + head["fragment"] + (64 << 8) + 17
    total += head["ip_length"].astype(np.int64)
    for name in ("source_ip", "target_ip"):
        words = head[name].astype(np.int64)
        total += (words >> 16) + (words & 0xFFFF)
    for _ in range(2):
        total = (total & 0xFFFF) + (total >> 16)
    checked: NDArray[np.int64] = ~total & 0xFFFF
    return checked


def _wire_ps(payload: NDArray[np.int64], *, first: bool, rate_Bps: int) -> NDArray[np.int64]:  # noqa: N803
    """Picoseconds of packets on a link, rounded up: a packet has some kilobytes at most."""
    headers = 14 + _IP_HEADER + _UDP_HEADER + _BTH + _RETH * first + _ICRC + _FRAME
    taken: NDArray[np.int64] = -(-(payload + -payload % 4 + headers) * SECOND_PS // rate_Bps)
    return taken


def _one_after_the_other(
    source: NDArray[np.int64], start_ps: NDArray[np.int64], takes_ps: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Return when messages, in the order of their starts, begin on the one link of each source.

    Examples
    --------
    >>> _one_after_the_other(np.array([0, 0, 1]), np.array([5, 6, 6]), np.array([10, 10, 10])).tolist()
    [5, 15, 6]
    """
    begin = np.empty(len(source), np.int64)
    order = np.argsort(source, kind="stable")
    firsts = np.flatnonzero(np.diff(source[order], prepend=-1)).tolist()
    for first, last in pairwise([*firsts, len(order)]):
        rows = order[first:last]
        before = np.cumsum(takes_ps[rows]) - takes_ps[rows]
        begin[rows] = before + np.maximum.accumulate(start_ps[rows] - before)
    return begin
