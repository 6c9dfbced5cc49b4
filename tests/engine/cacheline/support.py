"""Shared parts of several tests of the cache-line engine."""

import numpy as np
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import ALGORITHMS, Collective
from astranb.core.ticks import transfer_ps
from astranb.engine.cacheline import CAUSES
from astranb.gpu import tables as t
from astranb.gpu.pause import FRAME_BYTES
from astranb.net import Fault, Network
from astranb.net.link import MARKS, PAUSES
from astranb.net.port import CLASSES

LINK = "dgx_h100.0.xpu.0->dgx_h100.0.nvsw.0"
NETWORKS = (
    Network(),
    Network(arbitration="fair"),
    Network(buffers=3),
    Network(cut_through=True),
    Network(buffers=16, arbitration="round_robin", cut_through=True, multipath="spray"),
    Network(faults=(Fault(LINK, at="1 us", until="2 us", down=True),)),
)


def made(size="64 KiB", algorithm="allpairs", protocol="Simple", kind="all_reduce", infra="dgx-h100", **rest):
    return anb.Simulation(infra, Collective.of(kind, size, algorithm, protocol=protocol), **rest)


def made_of(kind, size, function, infra="dgx-h100", **rest):
    """A run of a program that is given as a function."""
    return anb.Simulation(infra, Collective.of(kind, size, function), **rest)


def posting(p, *, slices=8):
    """A chain whose signals are posted behind their stores, while the block goes on."""
    p.chunks(slices)
    came = {me.number: me.semaphore() for me in p.everyone}
    for me in p.everyone:
        block = me.block()
        if me.number == 0:
            block.copy(me.input[:], me.output[:])
        for k in range(slices):
            if me.number:
                block.wait(came[me.number])
            if me.number < p.ranks - 1:
                after = p.rank(me.number + 1)
                block.put_signal(
                    (me.output if me.number else me.input)[k], after.output[k], came[after.number]
                )


def playing_roles(p):
    """A chain in which some warps of each block move, and others signal."""
    p.chunks(2)
    came = {me.number: me.semaphore() for me in p.everyone}
    for me in p.everyone:
        block = me.block(warps=16)
        mover, poster = block.warps(0, 12), block.warps(12, 16)
        if me.number == 0:
            mover.copy(me.input[:], me.output[:])
        else:
            mover.wait(came[me.number])
        if me.number < p.ranks - 1:
            after = p.rank(me.number + 1)
            mover.put((me.output if me.number else me.input)[:], after.output[:])
            mover.fence()
            block.sync(mover, poster)
            poster.signal(came[after.number])


CASES = st.sampled_from(
    [(kind, name, p) for (kind, name), a in ALGORITHMS.items() for p in a.protocols if name != "hierarchical"]
)


def check_path(sim):
    """The law: contiguous, from 0 to the end, exactly the time, and of blocks that were at it."""
    path = sim.critical_path()
    assert path.time_ps == sim.result.time_ps
    assert path.segments[0].start_ps == 0
    assert path.segments[-1].end_ps == path.time_ps
    for one, other in zip(path.segments, path.segments[1:], strict=False):
        assert one.end_ps == other.start_ps
    assert sum(path.by_cause().values()) == sum(path.by_resource().values()) == path.time_ps
    ops, blocks = sim.engine.machine.ops, sim.engine.machine.blocks
    for segment in path.line_segments:
        assert segment.cause in CAUSES
        block = blocks[segment.block]
        if segment.cause == "launch":
            assert segment.end_ps == block.started_ps
            continue
        assert segment.start_ps >= block.started_ps
        assert block.state != t.DONE or segment.end_ps <= block.ended_ps
        if segment.op >= 0:
            op = ops[segment.op]
            assert op.block == segment.block
            # A wait for the SM ends when the operation begins; a fence stands before it.
            if segment.cause not in ("issue", "stalled", "fence"):
                assert 0 <= op.started_ps <= segment.end_ps
    return path


def check_save(sim, network, path):
    """A saved simulation is loaded with its network's options, and goes on to the same end."""
    sim.save(path)
    other = anb.Simulation.load(path)
    assert other.engine.network == network
    sim.run()
    other.run()
    assert other.state_hash() == sim.state_hash()


def most_room(sim, link):
    """Bytes that can come to a link's far end between its pause frame and the pause, and xoff."""
    row, roce = sim.engine.machine.links[link], sim.engine.machine.roce[0]
    frame_ps = transfer_ps(FRAME_BYTES, int(row.bandwidth_Bps))
    trip_ps = 2 * int(row.latency_ps) + int(row.forward_ps) + frame_ps
    largest = int(sim.engine.machine.requests["bytes"].max())
    return int(roce.xoff) + trip_ps * int(row.bandwidth_Bps) // 10**12 + 2 * largest


def check_ethernet(sim):
    """Check the laws of any run over Ethernet."""
    links, roce, flows = sim.engine.machine.links, sim.engine.machine.roce[0], sim.engine.machine.flows
    queues = sim.engine.machine.queues
    assert (links["marked"][links["role"] & MARKS == 0] == 0).all()
    if roce.ecn:
        assert (links["marked"][links["most_queued"] <= roce.kmin] == 0).all()
    if roce.pfc:
        for link in np.flatnonzero(links["role"] & PAUSES):
            assert links[link].most_stored <= most_room(sim, link)
        still = queues["paused"].reshape(-1, CLASSES).any(axis=1)
        assert (links["paused_ps"][links["pauses"] == 0] == 0).all()
        assert not still[links["role"] & PAUSES == 0].any()
    if roce.dcqcn and flows[0].link >= 0:
        line = links["bandwidth_Bps"][flows["link"]]
        least = np.minimum(roce.least_Bps, line)
        for rate in ("rate_Bps", "slowest_Bps"):
            assert (flows[rate] >= least).all()
            assert (flows[rate] <= line).all()
    if sim.finished:
        for left in ("waiting", "bytes", "stored", "stopped", "frames", "stuck"):
            assert (queues[left] == 0).all(), left
        assert (queues["paused"] == 0).all()
        assert (flows["waiting"] == 0).all()
