"""Object paths: the names by which people and breakpoints reach things in a machine."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from astranb.core.errors import InputError, near
from astranb.gpu import tables as t
from astranb.net import Fabric
from astranb.net.link import LINK

from .groups import links_between, nodes_of
from .machine import CacheLineMachine

__all__ = [
    "FIELDS",
    "SUMMED",
    "MachinePart",
    "block_name",
    "block_path",
    "gpu_path",
    "link_name",
    "resolve",
    "sm_path",
]


FIELDS = {"link": LINK.names, "gpu": t.GPU.names, "sm": t.SM.names, "block": t.BLOCK.names}
"""Fields of each kind of object that conditions may read."""

SUMMED = frozenset(
    {"busy_ps", "queued_ps", "messages", "bytes", "bandwidth_Bps", "marked", "pauses", "paused_ps"}
)
"""Fields of a link that are summed over its lanes."""


@dataclass(frozen=True, slots=True)
class MachinePart:
    """An object of a machine.

    Attributes
    ----------
    kind : str
        ``gpu``, ``sm``, ``block``, ``link``, ``line`` (under way), ``node`` (a switch, a NIC,
        ...) or ``instance``.
    rows : tuple of int
        Rows of its table (for a link: all its lanes); for nodes their numbers in the graph.
    path : str
        Its full name.
    """

    kind: str
    rows: tuple[int, ...]
    path: str

    @property
    def row(self) -> int:
        """The first row."""
        return self.rows[0]


def resolve(path: str, fabric: Fabric, machine: CacheLineMachine) -> MachinePart:
    """Find an object by its path.

    Parameters
    ----------
    path : str
        ``host.0.xpu.3``, ``gpu[3]``, ``gpu[3].sm.0``, ``gpu[3].block.2`` (the GPU's third
        thread block), ``A->B`` or ``A->B#k``, any other node of the infrastructure, or an
        instance of it (``host.0``; ``host.0->leaf.1`` are all links between two).
        ``line[17]`` is the line under way (load, store, signal or poll) with that number:
        it keeps the number until its answer is back, then another line may get it.

    Returns
    -------
    MachinePart

    Raises
    ------
    InputError
        There is no such object.
    """
    path = path.strip()
    flying = re.fullmatch(r"line\[(\d+)\]", path)
    if flying:
        number = flying.group(1)
        if int(number) >= len(machine.requests) or machine.requests[int(number)].live != 1:
            raise InputError(
                f"{path!r} is not under way now", hint="inspect a GPU or a link for those that are"
            )
        return MachinePart("line", (int(number),), path)
    if "->" in path:
        full = fabric.full(path)
        try:
            return MachinePart("link", tuple(fabric.find(full)), full)
        except InputError:
            if not (between := links_between(full, fabric)):
                raise
            return MachinePart("link", between, full)
    head, kind, number = path, "", ""
    match = re.fullmatch(r"(.*)\.(sm|block)\.(\d+)", path)
    if match:
        head, kind, number = match.groups()
    try:
        node = _node(fabric.full(head), fabric)
    except InputError:
        if kind or not (nodes := nodes_of(path, fabric)):
            raise
        return MachinePart("instance", nodes, path)
    rank = _rank(node, fabric)
    if not kind:
        name = fabric.graph.name(node)
        return MachinePart("gpu", (rank,), name) if rank >= 0 else MachinePart("node", (node,), name)
    if rank < 0:
        raise InputError(f"{head!r} is not a GPU", where=path)
    gpu = machine.gpus[rank]
    if kind == "sm":
        first, count = int(gpu.first_sm), int(gpu.sms)
    else:
        rows = [b for b in range(len(machine.blocks)) if machine.blocks[b].gpu == rank]
        first, count = (rows[0] if rows else 0), len(rows)
    if int(number) >= count:
        raise InputError(f"{head!r} has no {kind} {number}", hint=f"they count from 0 to {count - 1}")
    return MachinePart(kind, (first + int(number),), f"{fabric.graph.name(node)}.{kind}.{number}")


def link_name(fabric: Fabric, link: int) -> str:
    """The name of a link, by its row; links of a mesh have numbers only."""
    return fabric.name(link) if link < len(fabric.links) else f"on-chip link {link}"


def block_name(machine: CacheLineMachine, block: int) -> str:
    """A thread block, by its row, as ``GPU3 block 0``."""
    rank = int(machine.blocks[block].gpu)
    return f"GPU{rank} block {block - int(np.searchsorted(machine.blocks['gpu'], rank))}"


def gpu_path(fabric: Fabric, rank: int) -> str:
    """The full name of a GPU."""
    return str(fabric.graph.name(int(fabric.gpus[rank])))


def sm_path(fabric: Fabric, machine: CacheLineMachine, sm: int) -> str:
    """The full name of an SM, by its row."""
    rank = int(machine.sms[sm].gpu)
    return f"{gpu_path(fabric, rank)}.sm.{sm - int(machine.gpus[rank].first_sm)}"


def block_path(fabric: Fabric, machine: CacheLineMachine, block: int) -> str:
    """The full name of a thread block, by its row."""
    number = block_name(machine, block).rpartition(" ")[2]
    return f"{gpu_path(fabric, int(machine.blocks[block].gpu))}.block.{number}"


def _node(name: str, fabric: Fabric) -> int:
    try:
        return int(fabric.graph.index(name))
    except (KeyError, ValueError, InputError):
        some = [fabric.graph.name(int(g)) for g in fabric.gpus[:64]]
        raise InputError(f"there is no object {name!r}", hint=near(name, [*some, "gpu[0]"])) from None


def _rank(node: int, fabric: Fabric) -> int:
    found = (fabric.gpus == node).nonzero()[0]
    return int(found[0]) if len(found) else -1
