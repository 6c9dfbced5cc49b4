"""Sends and receives as NCCL does them: through FIFOs, and between nodes on the receiver's rail.

What is for another node is stored over NVLink to the GPU of the sender's node that has the receiver's
position, and that GPU's NIC sends it (PXN, PCI and NVLink): messages between nodes stay on their rail.

Sources: NVIDIA/nccl @5067397c (2.30.7), src/graph/search.cc (``ncclTopoGetNetDev``), src/device/sendrecv.h
(warps of a send and of a receive), src/include/device.h (``NCCL_MAX_DEV_WORK_P2P_PER_BATCH``) and
src/include/channel.h (those to the ranks of one node share thread blocks); NVIDIA, "Doubling all2all
performance with NVIDIA Collective Communication Library 2.12", 2022.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from astranb.collectives.language import Block, Program, Rank

from .pull import Ends, exchanged
from .registry import algorithm

__all__: list[str] = []

_BATCH: Final = 8  # sends, and as many receives, that share a thread block
_WARPS: Final = 20  # of a thread block
_PROTOCOLS: Final = ("Simple", "LL")


def _send_and_receive(p: Program, to: Callable[[Rank], Sequence[Rank]], together: int, ends: Ends) -> None:
    """Send from every rank to some ranks: warps that send, and warps of the receiver that copy.

    ``together`` of both share an SM, as they share a thread block of NCCL. All that leaves by one NIC is
    posted by one thread, and so is one list of requests: it is written when the last channel is.
    """
    if p.channel < p.channels - 1:
        return
    each = _WARPS // together
    receiving = each // 2 if each <= 4 else (each - 1) // 2
    sending = receiving if each <= 4 else receiving + 1
    posted: dict[int, Block] = {}
    pairs = []
    for number in range(p.channels):
        p.channel = number
        wires = p.connections()
        for me in p.everyone:
            for you in to(me):
                if you == me:
                    block = p.block(me.number, sending + receiving)
                    block.per_sm = 2 * together
                    for _ in p.slices():
                        block.copy(*ends(me, me))
                    continue
                blocks = sender, receiver = p.block(me.number, sending), p.block(you.number, receiving)
                for block in blocks:
                    block.per_sm = 2 * together
                    block.phase("exchange")
                relay = _relay(p, me.number, you.number)
                if relay is not None:
                    if relay not in posted:
                        posted[relay] = p.nic(relay, p.channel)
                    sender.post_by(posted[relay])
                pairs.append((number, me, you, wires[me, you], *blocks))
    for part in range(p.cut.of_channel):
        for channel, me, you, wire, sender, receiver in pairs:
            p.channel = channel
            for _ in p.slices(range(part, part + 1)):
                source, target = ends(me, you)
                wire.send(sender, source)
                receiver.copy(wire.receive(receiver), target)
                wire.free(receiver)


def _relay(p: Program, sender: int, receiver: int) -> int | None:
    """Return whose NIC sends to a rank of another node: that of the GPU with the receiver's position."""
    width = p.per_node
    if not p.nics_move or sender // width == receiver // width:
        return None
    first = sender - sender % width
    relay = first + receiver % width
    return relay if p.ranks % width == 0 else sender


@algorithm(
    "all_to_all",
    "pxn",
    "through FIFOs; to another node by the NIC of the receiver's rail",
    protocols=_PROTOCOLS,
    stepwise=True,
    fifo=True,
)
def all_to_all_pxn(p: Program) -> None:
    together = min(_BATCH, p.per_node)
    p.sms = p.channels * -(-p.ranks // together)
    _send_and_receive(p, lambda me: [me, *me.others], together, exchanged)


@algorithm(
    "send_recv",
    "pxn",
    "to the right neighbour through a FIFO; to another node by the NIC of the receiver's rail",
    protocols=_PROTOCOLS,
    stepwise=True,
    fifo=True,
)
def send_recv_pxn(p: Program) -> None:
    p.sms = p.channels
    _send_and_receive(p, lambda me: [me.right], 1, lambda me, you: (me.input[0], you.output[0]))
