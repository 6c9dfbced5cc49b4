"""Object paths: the names by which people and breakpoints reach things in a machine."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np

from astranb.core.errors import InputError, near, nearest
from astranb.gpu import tables as t
from astranb.infragraph import (
    ARROW,
    LINK_PROPERTIES,
    find_nodes,
    is_link,
    is_several,
    one_node,
    spelled,
    the_only,
    typed,
)
from astranb.net import CLASSES, LINK, Fabric

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
    "resolve_all",
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
    "phase": "phases",
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
    "phase": t.PHASE.names or (),
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
    """Find an object by its name.

    Parameters
    ----------
    path : str
        A node as :func:`astranb.infragraph.find_nodes` reads it (``host.0.xpu.3``, ``gpu[3]``, ``GPU3``,
        ``nvsw.0``), an instance (``host.0``) or consecutive ranks (``gpu[0-31]``); a link as
        :meth:`astranb.net.Fabric.find` does (``A->B``, ``gpu[2]->nvsw.0#1``, ``host.0->leaf.1``); a part
        of a GPU: ``gpu[3].sm.0``, ``gpu[3].block.2`` (its third thread block), ``gpu[3].engine.0`` (a copy
        engine), ``gpu[3].l2.5`` (an L2 slice), ``gpu[3].hbm.2`` (an HBM channel) or
        ``gpu[3].semaphore.12`` (by its number in the program).
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
        There is no such object, or the name has a ``*``: :func:`resolve_all` reads these.
    """
    name = typed(path)
    if "*" in name:
        return the_only(path, resolve_all(path, fabric, machine))
    if flying := re.fullmatch(r"line\s*(?:\[\s*(\d{1,12})\s*\]|(\d{1,12}))", name):
        number = int(flying[1] or flying[2])
        if number >= len(machine.requests) or machine.requests[number].live != 1:
            hint = "inspect a GPU or a link for those that are"
            raise InputError(f"{path!r} is not under way now", hint=hint)
        return MachinePart("line", (number,), f"line[{number}]")
    name = spelled(name, fabric.graph)
    if is_link(fabric.graph, name):
        link, buffer, word = name.partition(".buffer.")
        lanes = fabric.find(link)
        one = len(fabric.by_ends(lanes)) == 1
        place = MachinePart("link", tuple(lanes), fabric.full(lanes) if one else link)
        return _buffer(place, word, path, machine) if buffer else place
    match = _OF_NODE.fullmatch(name)
    if match is None or _is_node(name, fabric):  # switch.0.port.7 may be a node of a document
        return _whole(name, fabric)
    if "-" in match[3]:
        return the_only(path, resolve_all(path, fabric, machine))
    return _part(_whole(match[1], fabric), match[2], match[3], name, fabric, machine)


_OF_NODE = re.compile(rf"(.*)\.({'|'.join(PARTS)}|port)\.(\d{{1,12}}(?:-\d{{1,9}})?|\*)")
"""A part of a node: whose, which kind, and its number."""


def resolve_all(path: str, fabric: Fabric, machine: CacheLineMachine) -> list[MachinePart]:
    """Find every object that a name stands for: several where it has a ``*`` or a range of ranks.

    Parameters
    ----------
    path : str
        As for :func:`resolve`; ``*`` stands for any text between two dots, or any number: ``gpu[*]``,
        ``gpu[0]->*``, ``*->*``, ``gpu[*].hbm[*]``, ``gpu[0-3].sm[0]``.

    Raises
    ------
    InputError
        There is none.
    """
    name = spelled(path, fabric.graph)
    of_link = is_link(fabric.graph, name)
    if not is_several(name) and not of_link:
        return [resolve(path, fabric, machine)]
    if of_link:
        link, buffer, word = name.partition(".buffer.")
        groups = fabric.by_ends(fabric.find(link))
        links = [MachinePart("link", tuple(lanes), fabric.full(lanes)) for lanes in groups]
        return [_buffer(one, word, path, machine) for one in links] if buffer else links
    match = None if _is_node(name, fabric) else _OF_NODE.fullmatch(name)
    nodes = find_nodes(fabric.graph, match[1] if match else name)
    owners = [_of_node(int(node), fabric) for node in nodes]
    if match is None:
        return owners
    found = []
    for owner in owners:
        if owner.kind != "gpu" and match[2] != "port":
            continue
        numbers: Iterable[str] = [match[3]]
        if match[3] == "*":
            every = _names_of(owner.path, owner, match[2], fabric, machine)
            numbers = (one.rpartition(".")[2] for one in every)
        elif "-" in match[3]:
            first, last = map(int, match[3].split("-"))
            if first > last:
                raise InputError(f"{path!r:.80} names nothing", hint="write the smaller number first")
            numbers = map(str, range(first, last + 1))
        found += [_part(owner, match[2], number, name, fabric, machine) for number in numbers]
    if not found:
        raise InputError(f"{path!r:.80} names nothing", hint=f"none of these has a part {match[2]!r}")
    return found


def _part(
    owner: MachinePart, kind: str, number: str, path: str, fabric: Fabric, machine: CacheLineMachine
) -> MachinePart:
    """Find a part of a GPU, or a port of a node."""
    full = f"{owner.path}.{kind}.{number}"
    if kind == "port" and owner.kind != "instance":
        ports = _ports(fabric, fabric.gpus[owner.row] if owner.kind == "gpu" else owner.row)
        return MachinePart("port", ports[_below(int(number), len(ports), "port", owner.path)], full)
    if owner.kind != "gpu":
        raise InputError(f"{owner.path!r} is not a GPU", where=path[:80], hint=f"write gpu[0].{kind}.0")
    rows = _rows(machine, owner.row, kind)
    if kind == "semaphore":
        if int(number) in rows:
            return MachinePart(kind, (int(number),), full)
        hint = f"one of {rows[0]} to {rows[-1]}" if len(rows) else "this program has none there"
        raise InputError(f"{owner.path!r} has no semaphore {number}", hint=hint)
    return MachinePart(kind, (int(rows[_below(int(number), len(rows), kind, owner.path)]),), full)


def _is_node(name: str, fabric: Fabric) -> bool:
    with suppress(InputError):
        return len(fabric.graph.select(name)) > 0
    return False


def _whole(name: str, fabric: Fabric) -> MachinePart:
    """A GPU, another node, or an instance."""
    try:
        nodes = find_nodes(fabric.graph, name)
    except InputError as error:
        raise _no_part(name, fabric) or error from None
    if len(nodes) > 1:
        return MachinePart("instance", tuple(nodes.tolist()), name)
    return _of_node(int(nodes[0]), fabric)


def _no_part(name: str, fabric: Fabric) -> InputError | None:
    """Return the error for a part without its GPU, or of a known node, with the nearest of its parts."""
    what, kind = f"unknown object {name!r:.80}", name.partition(".")[0].partition("[")[0]
    if kind in PARTS:
        return InputError(what, hint=f"write its GPU, too: gpu[0].{name:.80}")
    if kind == "link" and len(fabric.links):
        return InputError(what, hint=f"write its ends: {ARROW.join(fabric.short_ends([0]))}")
    words = name.rsplit(".", 2)
    for owned in range(len(words) - 1, 0, -1):
        with suppress(InputError):
            owner = _of_node(one_node(fabric.graph, ".".join(words[:owned])), fabric)
            number = words[-1] if words[-1].isdecimal() else "0"
            kinds = (*PARTS, "port") if owner.kind == "gpu" else ("port",)
            parts = [f"{'.'.join(words[:owned])}.{kind}.{number}" for kind in kinds]
            return InputError(what, hint=nearest(name, parts))
    return None


def _of_node(node: int, fabric: Fabric) -> MachinePart:
    rank, name = _rank(node, fabric), fabric.graph.name(node)
    return MachinePart("gpu", (rank,), name) if rank >= 0 else MachinePart("node", (node,), name)


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
    """The paths of the parts of an object of :func:`object_names`, by their kinds.

    Of a name with a ``*`` or a range: all ``objects`` that it stands for.
    """
    if is_several(path):
        return {"objects": [part.path for part in resolve_all(path, fabric, machine)]}
    if is_link(fabric.graph, path):
        lanes = fabric.find(path)
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


def _rank(node: int, fabric: Fabric) -> int:
    found = np.flatnonzero(fabric.gpus == node)
    return int(found[0]) if len(found) else -1
