"""Object paths: the names by which people and breakpoints reach things in a machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from astranb.core.errors import InputError, near
from astranb.gpu import tables as t
from astranb.infragraph import LINK_PROPERTIES
from astranb.net import CLASSES, LINK, Fabric

from .groups import links_between, nodes_of
from .machine import CacheLineMachine

__all__ = [
    "FIELDS",
    "PARTS",
    "SUMMED",
    "TABLES",
    "MachinePart",
    "block_name",
    "block_path",
    "gpu_path",
    "link_name",
    "object_names",
    "part_names",
    "resolve",
    "sm_path",
]


TABLES = {
    "gpu": "gpus",
    "sm": "sms",
    "engine": "sms",
    "nic": "sms",
    "block": "blocks",
    "l2": "l2_slices",
    "hbm": "hbm_channels",
    "semaphore": "semaphores",
    "link": "links",
    "port": "links",
    "buffer": "queues",
    "line": "requests",
}
"""The table of each kind of object."""

PARTS = {
    "sm": "SM",
    "engine": "copy engine",
    "nic": "NIC",
    "block": "thread block",
    "l2": "L2 slice",
    "hbm": "HBM channel",
    "semaphore": "semaphore",
}
"""Parts of a GPU: the words of paths, and the name of each."""

BUFFERS = ("requests", "responses", "control_requests", "control_responses")
"""The classes of messages at a link, each with a queue of its own, by their numbers."""

_SERVER = tuple(name for name in t.SERVER.names or () if name != "row")

FIELDS: Mapping[str, tuple[str, ...]] = {
    "link": LINK.names or (),
    "port": LINK.names or (),
    "gpu": t.GPU.names or (),
    "sm": t.SM.names or (),
    "engine": t.SM.names or (),
    "nic": t.SM.names or (),
    "block": t.BLOCK.names or (),
    "l2": _SERVER,
    "hbm": (*_SERVER, "row"),
    "semaphore": ("value",),
    "buffer": ("waiting", "credits", "joined", "bytes", "stored", "paused", "frames"),
}
"""Fields of each kind of object that conditions may read."""

SUMMED = frozenset(
    {
        *(one.column for one in LINK_PROPERTIES if one.summed),
        *("busy_ps", "queued_ps", "messages", "bytes", "marked", "pauses", "paused_ps"),
        *("waiting", "credits", "joined", "stored", "frames"),
    }
)
"""Fields of a link, a port or a buffer that are summed over its lanes."""


@dataclass(frozen=True, slots=True)
class MachinePart:
    """An object of a machine.

    Attributes
    ----------
    kind : str
        A key of :data:`TABLES`, ``node`` (a switch, a NIC, ...) or ``instance``.
    rows : tuple of int
        Rows of its table (of a link all its lanes, of a port the lane out and the lane in); for
        nodes their numbers in the graph.
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

    @property
    def whole(self) -> bool:
        """Whether it has several lanes, over which :data:`SUMMED` fields are summed."""
        return self.kind in ("link", "port", "buffer")


def resolve(path: str, fabric: Fabric, machine: CacheLineMachine) -> MachinePart:
    """Find an object by its path.

    Parameters
    ----------
    path : str
        ``host.0.xpu.3``, ``gpu[3]`` or ``GPU3``, ``gpu[3].sm.0``, ``gpu[3].block.2`` (the GPU's
        third thread block), ``gpu[3].engine.0`` (a copy engine), ``gpu[3].l2.5`` (an L2 slice),
        ``gpu[3].hbm.2`` (an HBM channel), ``gpu[3].semaphore.12`` (by its number in the program),
        ``A->B`` or ``A->B#k``, any other node of the infrastructure, or an
        instance of it (``host.0``; ``host.0->leaf.1`` are all links between two).
        ``A.port.2`` is the third lane that leaves a node, with the lane that comes back.
        ``A->B.buffer.requests`` is the queue of a class of messages at a link, with the buffers
        behind it: also ``responses``, ``control_requests`` and ``control_responses``.
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
        link, buffer, number = path.partition(".buffer.")
        place = _link(link, fabric)
        return _buffer(place, number, path, machine) if buffer else place
    try:
        return _whole(path, fabric)
    except InputError:
        match = re.fullmatch(rf"(.*)\.({'|'.join(PARTS)}|port)\.(\d{{1,12}})", path)
        if not match:
            raise
    head, kind, number = match.groups()
    owner = _whole(head, fabric)
    full = f"{owner.path}.{kind}.{number}"
    if kind == "port" and owner.kind != "instance":
        ports = _ports(fabric, _node(owner.path, fabric))
        return MachinePart("port", ports[_below(int(number), len(ports), "port", head)], full)
    if owner.kind != "gpu":
        raise InputError(f"{head!r} is not a GPU", where=path)
    rows = _rows(machine, owner.row, kind)
    if kind == "semaphore":
        if int(number) in rows:
            return MachinePart(kind, (int(number),), full)
        hint = f"one of {rows[0]} to {rows[-1]}" if len(rows) else "this program has none there"
        raise InputError(f"{head!r} has no semaphore {number}", hint=hint)
    return MachinePart(kind, (int(rows[_below(int(number), len(rows), kind, head)]),), full)


def _whole(path: str, fabric: Fabric) -> MachinePart:
    """A GPU, another node, or an instance."""
    try:
        node = _node(fabric.graph.full(re.sub(r"^GPU(\d+)$", r"gpu[\1]", path)), fabric)
    except InputError:
        if not (nodes := nodes_of(path, fabric)):
            raise
        return MachinePart("instance", nodes, path)
    rank, name = _rank(node, fabric), fabric.graph.name(node)
    return MachinePart("gpu", (rank,), name) if rank >= 0 else MachinePart("node", (node,), name)


def _link(path: str, fabric: Fabric) -> MachinePart:
    """The lanes of a link, or all links between two instances."""
    full = fabric.graph.full(path)
    try:
        return MachinePart("link", tuple(fabric.find(full)), full)
    except InputError:
        if not (between := links_between(full, fabric)):
            raise
        return MachinePart("link", between, full)


def _buffer(link: MachinePart, name: str, path: str, machine: CacheLineMachine) -> MachinePart:
    """The queues of a class of messages at the lanes of a link."""
    if name not in BUFFERS:
        raise InputError(f"a link has no buffer {name!r}", where=path, hint=near(name, BUFFERS))
    if not machine.clock[0].managed:
        hint = "Network(buffers=...) or another arbitration gives them some"
        raise InputError("the links of this run have no buffers of their own", where=path, hint=hint)
    rows = tuple(lane * CLASSES + BUFFERS.index(name) for lane in link.rows)
    return MachinePart("buffer", rows, f"{link.path}.buffer.{name}")


def _below(number: int, count: int, kind: str, owner: str) -> int:
    if number >= count:
        hint = f"they count from 0 to {count - 1}" if count else "there are none"
        raise InputError(f"{owner!r} has no {kind} {number}", hint=hint)
    return number


def _rows(machine: CacheLineMachine, rank: int, kind: str) -> range | list[int]:
    """The rows of a GPU's parts of a kind."""
    gpu = machine.gpus[rank]
    if kind in ("block", "semaphore"):
        return [int(row) for row in np.flatnonzero(machine.tables[TABLES[kind]]["gpu"] == rank)]
    first, count = {
        "sm": (gpu.first_sm, gpu.sms),
        "engine": (gpu.first_sm + gpu.sms, gpu.engines),
        "nic": (gpu.first_sm + gpu.sms + gpu.engines, gpu.nics),
        "l2": (gpu.first_l2_slice, gpu.l2_slices),
        "hbm": (gpu.first_hbm_channel, gpu.hbm_channels),
    }[kind]
    return range(int(first), int(first + count))


def _ports(fabric: Fabric, node: int) -> list[tuple[int, ...]]:
    """The ports of a node: of each the lane out, and the lane in where there is one."""
    links = fabric.links
    found = []
    for out in np.flatnonzero(links["src"] == node):
        back = (links["src"] == links["dst"][out]) & (links["dst"] == node)
        same = np.flatnonzero(back & (fabric.lane == fabric.lane[out]))
        found.append((int(out), *(int(lane) for lane in same[:1])))
    return found


def object_names(fabric: Fabric) -> Iterator[str]:
    """Yield the paths of what has no owner: GPUs, nodes, instances, links."""
    yield from (f"gpu[{rank}]" for rank in range(len(fabric.gpus)))
    nodes = [fabric.graph.name(node) for node in range(len(fabric.graph.nodes.forward_ps))]
    yield from (
        name for name in dict.fromkeys(".".join(n.split(".")[:2]) for n in nodes) if name not in nodes
    )
    yield from nodes
    ends = np.unique(np.stack([fabric.links["src"], fabric.links["dst"]]), axis=1)
    yield from (f"{nodes[a]}->{nodes[b]}" for a, b in ends.T.tolist())


def part_names(path: str, fabric: Fabric, machine: CacheLineMachine) -> Mapping[str, Iterable[str]]:
    """The paths of the parts of an object of :func:`object_names`, by their kinds."""
    if "->" in path:
        lanes = _link(path, fabric).rows
        several = [f"{path}#{k}" for k in range(len(lanes))] if len(lanes) > 1 else []
        classes = BUFFERS if machine.clock[0].managed else ()
        return {"lane": several, "buffer": [f"{one}.buffer.{c}" for one in (path, *several) for c in classes]}
    place = _whole(path, fabric)
    if place.kind == "instance":
        return {}
    kinds = (*PARTS, "port") if place.kind == "gpu" else ("port",)
    return {kind: _names_of(path, place, kind, fabric, machine) for kind in kinds}


def _names_of(
    path: str, place: MachinePart, kind: str, fabric: Fabric, machine: CacheLineMachine
) -> Iterator[str]:
    """The paths of the parts of a GPU or a node: worked out when they are asked for."""
    if kind == "port":
        node = fabric.gpus[place.row] if place.kind == "gpu" else place.row
        numbers: Iterable[int] = range(int((fabric.links["src"] == node).sum()))
    else:
        rows = _rows(machine, place.row, kind)
        numbers = rows if kind == "semaphore" else range(len(rows))
    yield from (f"{path}.{kind}.{number}" for number in numbers)


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
    """The full name of an SM, a copy engine or a NIC, by its row."""
    rank = int(machine.sms[sm].gpu)
    kind = ("sm", "engine", "nic")[int(machine.sms[sm].engine)]
    return f"{gpu_path(fabric, rank)}.{kind}.{sm - _rows(machine, rank, kind)[0]}"


def block_path(fabric: Fabric, machine: CacheLineMachine, block: int) -> str:
    """The full name of a thread block, by its row."""
    number = block_name(machine, block).rpartition(" ")[2]
    return f"{gpu_path(fabric, int(machine.blocks[block].gpu))}.block.{number}"


def _node(name: str, fabric: Fabric) -> int:
    try:
        return int(fabric.graph.index(name))
    except (KeyError, ValueError, InputError):
        some = [fabric.graph.name(int(g)) for g in fabric.gpus[:64]]
        raise InputError(f"unknown object {name!r}", hint=near(name, [*some, "gpu[0]"])) from None


def _rank(node: int, fabric: Fabric) -> int:
    found = np.flatnonzero(fabric.gpus == node)
    return int(found[0]) if len(found) else -1
