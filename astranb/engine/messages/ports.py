"""Ports: without congestion, an NPU's messages leave one after another, and come in so.

A message occupies a port for its bytes at the bandwidth of the port's link: of its source in each
dimension that it crosses, in the order of sending; of its target, in the order of arrival, from the time
on at which its first byte could have come, as messages of several sources come in interleaved. So no
NPU sends or receives faster than its links, whatever the algorithm. Links between are free. Over links a
message leaves by those of its first dimension alone, and other NPUs pass it on in the next: where all send
alike that is the same, and otherwise its source, or target, passes too much.

A ring of a group that has several ranks in each node stands for as many rings, as libraries make them: each
leaves the node by the port of another of these ranks (NCCL's channels). So its messages between nodes
occupy a port for their part of the bytes (:func:`shared_by`). With congestion they occupy the links of all of
these ranks so. Over an infrastructure each of these rings can run by itself (:mod:`.channels`).

Over an infrastructure, the ports of a route are its first and its last link, and its narrowest ones
(as a NIC behind a PCIe link); NPUs that share one are not delayed by each other without congestion.

``ports`` has twice ``config.ports`` rows for each NPU: out, then in.
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import kernel
from astranb.net import hops_in, port_of, wire_ns

from .tables import ALL_TO_ALL, KIND_BITS, NOBODY, RING_STEPS, MessageMachine
from .ties import uses_port

__all__ = ["come_in", "leave", "pass_switch", "rails_in", "shared_by"]

_MASK: Final = (1 << KIND_BITS) - 1


@kernel
def shared_by(m: MessageMachine, stream: int) -> int:
    """Return the handler of a sender whom nobody notifies: above the low bits 1 + the group of a ring."""
    s = m.streams[stream]
    alone = m.config[0].ports == 0 and m.config[0].cut_through == 0
    if alone or s.group < 0 or s.algorithm != RING_STEPS or s.collective == ALL_TO_ALL:
        return NOBODY
    return int(((s.group + 1) << KIND_BITS) | NOBODY)


@kernel
def rails_in(m: MessageMachine, sender: int, dim: int) -> int:
    """Return how many ranks share a sender's message in a dimension of links; 1: it is no group's ring."""
    if sender & _MASK != NOBODY or sender >> KIND_BITS == 0:
        return 1
    g = m.groups[(sender >> KIND_BITS) - 1]
    return int(g.rails) if dim >= m.schedule[g.outer].links else 1


@kernel
def _occupy(m: MessageMachine, port: int, taken_ns: float, ahead_ns: float) -> float:
    """Occupy a port from now less ``ahead_ns`` on, or once it is free; returns in which time it is over."""
    now = float(m.queue[0].now)
    waits_ns = max(m.ports[port].free_ns - now, -ahead_ns)
    m.ports[port].free_ns = now + (waits_ns + taken_ns)
    return float(waits_ns + taken_ns)


@kernel(inline=False)
def _crossed(m: MessageMachine, row: int, side: int, ahead_ns: float) -> tuple[float, float]:
    """Occupy the ports of a message's source (side 0) or target (1).

    Returns
    -------
    float, float
        In which time the last of them is free; and the latency of the way to the target.
    """
    npu = m.messages[row].dst if side == 1 else m.messages[row].src
    src = m.messages[row].src
    dst = m.messages[row].at
    size = m.messages[row].bytes
    ends_ns = 0.0
    latency_ns = 0.0
    sender = m.messages[row].sender
    if m.config[0].folded == 1:
        # Of other ranks of these classes the distance is the same, and with it the ports.
        src = m.fold[src].rank
    first = (2 * npu + side) * m.config[0].ports
    for dim in range(len(m.dims)):
        here = src
        there = dst
        if len(m.dims) > 1:
            here = (src // m.dims[dim].stride) % m.dims[dim].nodes
            there = (dst // m.dims[dim].stride) % m.dims[dim].nodes
        if here != there:
            taken_ns = float(size) / m.dims[dim].rate_Bpns / rails_in(m, sender, dim)
            port = first + port_of(m.dims, dim, here, there)
            uses_port(m, port)
            ends_ns = max(ends_ns, _occupy(m, port, taken_ns, ahead_ns))
            latency_ns += hops_in(m.dims, dim, here, there) * m.dims[dim].latency_ns
    return ends_ns, latency_ns


@kernel(inline=False)
def _routed(m: MessageMachine, row: int, side: int, ahead_ns: float) -> tuple[float, float]:
    """As :func:`_crossed`, over an infrastructure."""
    size = m.messages[row].bytes
    npu = m.messages[row].dst if side == 1 else m.messages[row].src
    r = m.routes[m.messages[row].at]
    first = (2 * npu + side) * m.config[0].ports
    port, narrow = r.out, r.out_narrow
    link, narrow_link = m.hops[r.first_hop].value, m.hops[r.narrow_hop].value
    if side == 1:
        port, narrow = r.into, r.into_narrow
        link, narrow_link = m.hops[r.first_hop + r.hops - 1].value, m.hops[r.last_narrow_hop].value
    taken_ns = wire_ns(size, m.wires[link].rate_Bpns, m.wires[link].gap_ns)
    ends_ns = max(0.0, float(_occupy(m, first + port, taken_ns, ahead_ns)))
    rails = rails_in(m, m.messages[row].sender, 0) if narrow >= 0 else 1
    if narrow >= 0:
        taken_ns = wire_ns(size, m.wires[narrow_link].rate_Bpns, m.wires[narrow_link].gap_ns) / rails
        ends_ns = max(ends_ns, _occupy(m, first + narrow, taken_ns, ahead_ns))
    if side == 0:
        ends_ns = max(ends_ns, wire_ns(size, r.rate_Bpns, r.gap_ns) / rails)
    return ends_ns, float(r.latency_ns)


@kernel
def leave(m: MessageMachine, row: int) -> int:
    """Send a message by the ports of its source; return the nanoseconds until it would arrive."""
    if m.config[0].routed == 1:
        ends_ns, latency_ns = _routed(m, row, 0, 0.0)
    else:
        ends_ns, latency_ns = _crossed(m, row, 0, 0.0)
    m.messages[row].first_ns = m.queue[0].now + int(latency_ns)
    return int(latency_ns + ends_ns)


@kernel
def come_in(m: MessageMachine, row: int) -> int:
    """Receive a message by the ports of its target; return the nanoseconds that it waits for them."""
    ahead_ns = float(m.queue[0].now - m.messages[row].first_ns)
    if m.config[0].routed == 1:
        ends_ns, _ = _routed(m, row, 1, ahead_ns)
    else:
        ends_ns, _ = _crossed(m, row, 1, ahead_ns)
    return int(ends_ns)


@kernel(inline=False)
def pass_switch(m: MessageMachine, npu: int, heading: int, size: int) -> int:
    """Occupy the port by which :func:`.cross_link` sends; returns in how many nanoseconds it arrives."""
    d = m.dims[heading >> 1]
    port = (2 * npu + (heading & 1)) * m.config[0].ports + d.first_port
    return int(d.latency_ns + _occupy(m, port, float(size) / d.rate_Bpns, 0.0))
