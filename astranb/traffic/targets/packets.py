"""Packet traces by cycles: BookSim's ``fileinject``, and packets with dependencies as netrace has them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from astranb.core.arrays import numbered
from astranb.core.errors import InputError
from astranb.core.files import whole_files
from astranb.core.text_lines import text_lines
from astranb.core.units import size_bytes, time_ps
from astranb.infragraph import Infra, anynet_text
from astranb.traffic.graph import MessageGraph
from astranb.workload.astrasim2 import COMPUTE, SEND

from .checked import counted, labelled
from .flows import TimedMessages, WaitingNodes, beside, timed_messages
from .translation import Translation

__all__ = ["write_booksim", "write_packet_trace"]

_MOST_PACKETS: Final = 1 << 26
_ROWS: Final = 1 << 18


@dataclass(frozen=True, eq=False)
class _PacketList:
    """Packets in the order of their cycles."""

    message: np.ndarray  # in the order of starts
    cycle: np.ndarray
    flits: np.ndarray


@dataclass(frozen=True)
class _PacketSizes:
    """Cycle, flit and packet."""

    cycle_ps: int
    flit_bytes: int
    packet_flits: int


def _sizes(cycle: str | int, flit: str | int, packet: str | int) -> _PacketSizes:
    cycle_ps = time_ps(cycle, where="cycle")
    flit_bytes, packet_bytes = size_bytes(flit, where="flit"), size_bytes(packet, where="packet")
    if cycle_ps < 1 or flit_bytes < 1:
        raise InputError(
            "a cycle and a flit must be greater than 0", where="cycle, flit", hint="give 1 ns, 32 B"
        )
    if packet_bytes < flit_bytes:
        what = f"a packet of {packet_bytes:,} bytes is smaller than a flit of {flit_bytes:,}"
        raise InputError(what, where="packet", hint="give a multiple of the flit")
    return _PacketSizes(cycle_ps, flit_bytes, packet_bytes // flit_bytes)


def _check_count(packets: int, title: str) -> None:
    if packets > _MOST_PACKETS:
        hint = f"give larger packets; up to {_MOST_PACKETS:,} are written"
        raise InputError(f"{packets:,} packets", where=title, hint=hint)


def _packets(flows: TimedMessages, sizes: _PacketSizes, title: str) -> _PacketList:
    """Divide messages into packets: one behind the other, a flit in each cycle."""
    flits = np.maximum(-(-flows.size // sizes.flit_bytes), 1)
    parts = -(-flits // sizes.packet_flits)
    total = int(parts.sum())
    _check_count(total, title)
    message = np.repeat(np.arange(len(flows)), parts)
    nth = numbered(parts)
    sizes_of = np.minimum(flits[message] - nth * sizes.packet_flits, sizes.packet_flits)
    cycle = flows.start_ps[message] // sizes.cycle_ps + nth * sizes.packet_flits
    order = np.argsort(cycle, kind="stable")
    return _PacketList(message[order], cycle[order], sizes_of[order])


def write_booksim(
    graph: MessageGraph,
    path: str | Path,
    *,
    topology: Infra | None = None,
    bandwidth: str | int = "400 Gbps",
    latency: str | int = "1 us",
    cycle: str | int = "1 ns",
    flit: str | int = "32 B",
    packet: str | int = "4 KiB",
) -> Translation:
    """Write a trace that forks of BookSim with file injection read: ``cycle source target flits`` in a line.

    BookSim itself reads no traces. Cycles do not decrease; packets of a message follow one another, with a
    flit in each cycle.

    Parameters
    ----------
    graph : MessageGraph
    path : str or Path
    topology : Infra, optional
        Written beside it as a network file, ``.anynet``.
    bandwidth, latency : str or int
        Between any two ranks, where there is no topology, for starts that were not recorded.
    cycle, flit, packet : str or int
        Time of a cycle, bytes of a flit and at most of a packet.

    Raises
    ------
    InputError
        The graph cannot be written, or has more than 67,108,864 packets.
    """
    file, sizes = Path(path), _sizes(cycle, flit, packet)
    flows = timed_messages(graph, topology, bandwidth, latency)
    flows.by_the_clock("a packet trace")
    made = _packets(flows, sizes, graph.title)
    lost = [*flows.not_expressed, *_rounded(flows, sizes)]
    others = _network(topology, file, sizes, lost)
    columns = made.cycle, flows.source[made.message], flows.target[made.message], made.flits
    values = np.stack(columns, 1)
    with whole_files() as add:
        with add(file) as out:
            for at in range(0, len(values), _ROWS):
                block = values[at : at + _ROWS]
                out.write(text_lines(["{0} {1} {2} {3}\n"], np.zeros(len(block), np.int64), block))
        for name, content in others.items():
            with add(name) as out:
                out.write(content)
    return Translation((file, *others), graph.messages, tuple(lost))


_TRACE: Final = ("{0},{1},{2},{3},{4},0,", "{0},{1},{2},{2},0,{3},", "{0}", " {0}", "\n")


def write_packet_trace(
    graph: MessageGraph,
    path: str | Path,
    *,
    topology: Infra | None = None,
    bandwidth: str | int = "400 Gbps",
    latency: str | int = "1 us",
    cycle: str | int = "1 ns",
    flit: str | int = "32 B",
    packet: str | int = "4 KiB",
) -> Translation:
    """Write packets with dependencies as CSV, for Garnet and other networks on a chip.

    A row is ``id,cycle,source,target,flits,delay,waits_for``. As in netrace, a packet may be injected when
    all that it waits for has arrived; all packets of a message wait for the same. Rows of 0 flits are no
    packets: they end ``delay`` cycles after all that they wait for has ended, as computations do. ``cycle``
    is when a row begins without congestion, and rows are in this order.

    Parameters
    ----------
    graph, path, topology, bandwidth, latency, cycle, flit, packet
        As for BookSim.

    Raises
    ------
    InputError
        The graph cannot be written, or has more than 67,108,864 packets.
    """
    file, sizes = Path(path), _sizes(cycle, flit, packet)
    flows = timed_messages(graph, topology, bandwidth, latency)
    lost = [*flows.not_expressed, *_rounded(flows, sizes)]
    lost += [f"cycles: {flows.times.remark}", *labelled(graph, "labels have no place")]
    others = _network(topology, file, sizes, lost)
    with whole_files() as add:
        with add(file) as out:
            out.write(b"id,cycle,source,target,flits,delay,waits_for\n")
            for values, which in _trace_rows(graph, flows, sizes):
                out.write(text_lines(_TRACE, which, values))
        for name, content in others.items():
            with add(name) as out:
                out.write(content)
    return Translation((file, *others), graph.messages, tuple(lost))


def _trace_rows(
    graph: MessageGraph, flows: TimedMessages, sizes: _PacketSizes
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows in blocks: the values and templates of the parts of their text."""
    nodes, waiting = graph.nodes, WaitingNodes(graph, flows.order)
    listed = waiting.listed
    rank, peer, kind = nodes["rank"][listed], nodes["peer"][listed], waiting.kind[listed]
    sends = (kind == SEND) & (rank != peer)
    flits = np.maximum(-(-nodes["bytes"][listed] // sizes.flit_bytes), 1) * sends
    parts = np.maximum(-(-flits // sizes.packet_flits), 1)
    _check_count(int(parts.sum()), graph.title)
    delay = -(-nodes["duration_ps"][listed] // sizes.cycle_ps) * (kind == COMPUTE)
    row = np.repeat(np.arange(len(listed)), parts)
    nth = numbered(parts)
    begin_ps = flows.times.node_ps.copy()
    received = nodes["match"][graph.sends]
    begin_ps[received] = np.maximum(begin_ps[received], flows.times.start_ps + flows.times.takes_ps)
    cycle = begin_ps[listed][row] // sizes.cycle_ps + nth * sizes.packet_flits
    order = np.argsort(cycle, kind="stable")
    row, nth, cycle = row[order], nth[order], cycle[order]
    last = np.zeros(len(listed), np.int64)
    last[row] = np.arange(len(row))  # of each message the last packet counts
    waiting.give_numbers(last)
    for at in range(0, len(row), _ROWS // 4):
        part = slice(at, at + _ROWS // 4)
        ours, made = row[part], sends[row[part]]
        left = np.minimum(flits[ours] - nth[part] * sizes.packet_flits, sizes.packet_flits)
        fourth = np.where(made, peer[ours], delay[ours])
        heads = np.stack([np.arange(at, at + len(ours)), cycle[part], rank[ours], fourth, left], 1)
        yield waiting.parts(listed[ours], heads, np.where(made, 0, 1))


def _rounded(flows: TimedMessages, sizes: _PacketSizes) -> tuple[str, ...]:
    inexact = int((flows.start_ps % sizes.cycle_ps != 0).sum())
    padded = int((flows.size % sizes.flit_bytes != 0).sum() + (flows.size == 0).sum())
    return (
        *counted(inexact, len(flows), "starts", f"rounded down to cycles of {sizes.cycle_ps:,} ps"),
        *counted(padded, len(flows), "messages", f"filled up to flits of {sizes.flit_bytes:,} bytes"),
    )


def _network(topology: Infra | None, file: Path, sizes: _PacketSizes, lost: list[str]) -> dict[Path, bytes]:
    if topology is None:
        return {}
    text, remarks = anynet_text(topology.expand(), sizes.cycle_ps)
    lost += [f"network: {remark}" for remark in remarks]
    return {beside(file, ".anynet"): text.encode()}
