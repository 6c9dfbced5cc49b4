"""What an MSCCL++ execution plan says of a GPU apart from its operations; the operations' shapes."""

from __future__ import annotations

from dataclasses import dataclass, field

from astranb.core.document import Node

from ._plan import MOST_CHUNKS
from ._steps import Flag

__all__ = ["MOST_STEPS", "SHAPES", "TYPES", "Gpu", "connect", "read_gpu"]

MOST_STEPS = 1_000_000
TYPES = ("memory", "port", "switch", "none")

# What operations read and write: a chunk of this rank (l), a remote one (r), packets of
# this rank (p), remote ones (q); a star: any number of the one before it.
SHAPES = {
    "copy": ("l", "l"),
    "put": ("l*", "r*"),
    "pws": ("l*", "r*"),
    "pwsf": ("l*", "r*"),
    "get": ("r*", "l*"),
    "re": ("l*", "l"),
    "res": ("l*", "lr*"),
    "rre": ("lr*", "l"),
    "rres": ("lr*", "lr*"),
    "ppkt": ("l*", "q*"),
    "rppkt": ("p", "q*"),
    "upkt": ("p", "l"),
    "cpkt": ("l", "p"),
    "repkt": ("lp*", "l"),
    "respkt": ("lp*", "lq*"),
    "recpkt": ("lp*", "lp"),
    "recspkt": ("lp*", "lpq*"),
    "glres": ("m", "m"),
    "gstore": ("l", "m"),
    "gstorepkt": ("p", "n"),
}
"""Operands of each operation that moves data; m and n are chunks and packets behind a switch."""


@dataclass
class Gpu:
    """What an element of ``gpus`` says, apart from its operations."""

    rank: int
    node: Node
    peers: dict[str, list[Flag]] = field(default_factory=dict)  # a channel by the flag it raises
    own: dict[str, list[Flag]] = field(default_factory=dict)  # and by the flag it waits for
    remote: list[tuple[int, str]] = field(default_factory=list)
    switches: list[tuple[str, list[int]]] = field(default_factory=list)
    credits: list[int] = field(default_factory=list)  # of its semaphores, at the start
    scratch: int = 0


def read_gpu(rank: int, node: Node, ranks: int) -> Gpu:
    """Read what an element says of its rank's channels, remote buffers and semaphores."""
    gpu = Gpu(rank, node)
    gpu.scratch = node.get("scratch_chunks").number(0, MOST_CHUNKS)
    for channel in node.get("channels", []).items():
        kind = channel.get("channel_type").choice(TYPES)
        if kind == "switch":
            buffer = channel.get("buffer_type").choice(("i", "o", "s"))
            for group in channel.get("rank_groups").items():
                members = [r.number(0, ranks - 1) for r in group.get("ranks").items()]
                if not members or len(set(members)) < len(members):
                    raise group.error("a group needs ranks, each once")
                gpu.switches.append((buffer, members))
        else:
            peers = [peer.number(0, ranks - 1) for peer in channel.get("connected_to").items()]
            gpu.peers.setdefault(kind, []).extend(Flag(peer, (kind, rank)) for peer in peers)
    for remote in node.get("remote_buffers", []).items():
        gpu.remote.append(
            (remote.get("rank").number(0, ranks - 1), remote.get("type").choice(("i", "o", "s")))
        )
    gpu.credits = [
        semaphore.get("init_value").number(0, MOST_STEPS) for semaphore in node.get("semaphores", []).items()
    ]
    return gpu


def connect(gpus: list[Gpu]) -> None:
    """Pair channels: the k-th from a rank to another is the other end of the k-th back."""
    for gpu in gpus:
        for kind, flags in gpu.peers.items():
            numbers: dict[int, int] = {}
            raised, awaited = [], []
            for flag in flags:
                k = numbers[flag.rank] = numbers.get(flag.rank, -1) + 1
                raised.append(Flag(flag.rank, (kind, gpu.rank, k)))
                awaited.append(Flag(gpu.rank, (kind, flag.rank, k)))
            gpu.peers[kind], gpu.own[kind] = raised, awaited
