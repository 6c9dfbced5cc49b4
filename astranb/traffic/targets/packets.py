"""Packet traces by cycles: BookSim's ``fileinject``, and packets with dependencies as netrace has them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from astranb.core.errors import InputError
from astranb.core.files import whole_files
from astranb.core.text_lines import text_lines
from astranb.core.units import size_bytes, time_ps
from astranb.infragraph import Infra, anynet_text
from astranb.traffic._graph import MessageGraph
from astranb.workload.astrasim2 import COMPUTE, RECV

from ._checked import counted
from ._flows import TimedMessages, beside, timed_messages
from ._translation import Translation

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


def _packets(flows: TimedMessages, sizes: _PacketSizes, title: str) -> _PacketList:
    """Divide messages into packets: one behind the other, a flit in each cycle."""
    flits = np.maximum(-(-flows.size // sizes.flit_bytes), 1)
    parts = -(-flits // sizes.packet_flits)
    total = int(parts.sum())
    if total > _MOST_PACKETS:
        hint = f"give larger packets; up to {_MOST_PACKETS:,} are written"
        raise InputError(f"{total:,} packets", where=title, hint=hint)
    message = np.repeat(np.arange(len(flows)), parts)
    nth = np.arange(total) - np.repeat(np.cumsum(parts) - parts, parts)
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


_TRACE: Final = ("{0},{1},{2},{3},{4},{5},", "{0}", " {0}", "\n")


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

    A row is ``id,cycle,source,target,flits,message,waits_for``, in the order of cycles. As in netrace, a
    packet waits for packets to arrive: for the last one of each message that its own message waits for
    without a computation between them. ``cycle`` is when it begins without congestion: the later one counts.

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
    made = _packets(flows, sizes, graph.title)
    first, after, through = _messages_before(graph, flows)
    lost = [*flows.not_expressed, *_rounded(flows, sizes)]
    rest = "computations, and receives that wait themselves: for these packets wait for their cycle only"
    lost += counted(through, through + len(after), "dependencies of messages", rest)
    lost.append(f"cycles: {flows.times.remark}")
    others = _network(topology, file, sizes, lost)
    values, which = _trace_rows(flows, made, first, after)
    with whole_files() as add:
        with add(file) as out:
            out.write(b"id,cycle,source,target,flits,message,waits_for\n")
            for at in range(0, len(which), _ROWS):
                out.write(text_lines(_TRACE, which[at : at + _ROWS], values[at : at + _ROWS]))
        for name, content in others.items():
            with add(name) as out:
                out.write(content)
    return Translation((file, *others), graph.messages, tuple(lost))


def _messages_before(graph: MessageGraph, flows: TimedMessages) -> tuple[np.ndarray, np.ndarray, int]:
    """Return for each message those that it waits for directly, and how many waits are for other nodes."""
    nodes = graph.nodes
    number = np.full(len(nodes), -1)
    number[flows.rows] = np.arange(len(flows))
    received = nodes["match"][flows.rows]
    number[received] = np.arange(len(flows))
    lengths = np.diff(graph.dep_start)[flows.rows]
    owner = np.repeat(np.arange(len(flows)), lengths)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    deps = graph.deps[graph.dep_start[flows.rows][owner] + nth]
    direct = (nodes["kind"][deps] != COMPUTE) & (number[deps] >= 0)
    first = np.concatenate([[0], np.cumsum(np.bincount(owner[direct], minlength=len(flows)))])
    later = direct & (nodes["kind"][deps] == RECV) & (np.diff(graph.dep_start)[deps] > 0)
    return first.astype(np.int64), number[deps[direct]], int((~direct).sum() + later.sum())


def _trace_rows(
    flows: TimedMessages, made: _PacketList, first: np.ndarray, after: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Return values and templates of the parts of all rows."""
    count, message = len(made.cycle), made.message
    last = np.zeros(len(flows), np.int64)
    last[message] = np.arange(count)  # of each message the last one counts
    waits = np.diff(first)[message]
    begin = np.cumsum(waits + 2) - (waits + 2)
    parts = int((waits + 2).sum())
    values, which = np.zeros((parts, 6), np.int64), np.full(parts, 2)
    ends = flows.source[message], flows.target[message]
    for column, numbers in enumerate((np.arange(count), made.cycle, *ends, made.flits, message)):
        values[begin, column] = numbers
    which[begin], which[begin + waits + 1] = 0, 3
    which[begin[waits > 0] + 1] = 1
    owner = np.repeat(np.arange(count), waits)
    nth = np.arange(len(owner)) - np.repeat(np.cumsum(waits) - waits, waits)
    values[begin[owner] + 1 + nth, 0] = last[after[first[message[owner]] + nth]]
    return values, which


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
