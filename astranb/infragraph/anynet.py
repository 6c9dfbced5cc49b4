"""The network file of BookSim's ``anynet``: which nodes and routers each router is connected to.

``router 0 node 0 router 1 15``: the number behind a router is the latency of the channel to it in cycles
(1 where there is none). A channel that is described in one direction only has the latency 1 in the other.
All channels carry one flit a cycle (``src/networks/anynet.cpp``).
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from astranb.core.errors import InputError
from astranb.core.plural import plural

from .flat import FlatLink, FlatNetwork

__all__ = ["read_anynet", "write_anynet"]

_MOST_NODES: Final = 1 << 20
_MOST_LATENCY: Final = 10**6
_KINDS: Final = ("router", "node")
CYCLE_PS: Final = 1000
"""A cycle of BookSim in these files: the file itself has no unit."""


def write_anynet(network: FlatNetwork, cycle_ps: int = CYCLE_PS) -> tuple[str, list[str]]:
    """Return a network file, and what it does not express; each GPU is a node with a router of its own.

    Examples
    --------
    >>> two = FlatNetwork("two", ("0", "1", "s"), 2, (0, 0, 0),
    ...                   (FlatLink(0, 2, 25 * 10**9, 500_000), FlatLink(1, 2, 25 * 10**9, 500_000)))
    >>> print(write_anynet(two)[0], end="")
    router 0 router 1 500
    router 0 router 2 500
    router 1 node 0
    router 1 router 0 500
    router 2 node 1
    router 2 router 0 500
    """
    network = network.latency_in_links().every_router().merged()
    lists: list[list[str]] = [[] for _ in range(network.switches)]
    rates, rounded, between = set(), 0, 0
    for link in sorted(network.links, key=lambda one: (min(one.a, one.b), max(one.a, one.b))):
        a, b = (end - network.hosts for end in (link.a, link.b))
        if a < 0 or b < 0:
            # No latency: BookSim's reader would take it for that of the router with the node's number.
            lists[max(a, b)].append(f"node {min(link.a, link.b)}")
            continue
        cycles = max(1, (link.latency_ps + cycle_ps // 2) // cycle_ps)
        rounded += cycles * cycle_ps != link.latency_ps
        rates.add(link.bandwidth_Bps)
        between += 1
        lists[a].append(f"router {b} {cycles}")
        lists[b].append(f"router {a} {cycles}")
    lines = [f"router {number} {end}" for number, ends in enumerate(lists) for end in ends]
    remarks = list(network.remarks)
    if len(rates) > 1:
        slow, fast = min(rates) / 1e9, max(rates) / 1e9
        text = f"{len(rates)} bandwidths from {slow:.4g} to {fast:.4g} GB/s: BookSim's channels are all alike"
        remarks.append(text)
    elif rates:
        remarks.append(
            f"the bandwidth of {between:,} links, {max(rates) / 1e9:.4g} GB/s: it is the flit's size"
        )
    if rounded:
        remarks.append(f"{rounded:,} of {between:,} latencies are rounded to cycles of {cycle_ps:,} ps")
    return "\n".join(lines) + "\n", remarks


def read_anynet(text: str, file: str) -> FlatNetwork:
    """Read a network file; nodes are GPUs.

    Parameters
    ----------
    text : str
    file : str
        Its name, for errors.

    Raises
    ------
    InputError
        It is not such a file; with the line.
    """
    attached: dict[int, int] = {}
    channels: dict[tuple[int, int], int] = {}
    routers: dict[int, None] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words:
            continue
        where = f"{file}:{number}"
        (kind, head), *ends = _pairs(words, where)
        if kind == "router":
            routers[head] = None
        for other, end, latency in _with_latency(ends, where):
            if other == "router":
                routers[end] = None
            if kind == other == "node":
                raise InputError(f"node {head} is connected to node {end}", where=where, hint="name a router")
            if "node" in (kind, other):
                node, router = (head, end) if kind == "node" else (end, head)
                if attached.setdefault(node, router) != router:
                    what = f"node {node} is connected to routers {attached[node]} and {router}"
                    raise InputError(what, where=where, hint="connect each node to one router")
            elif head == end:
                raise InputError(f"router {head} is connected to itself", where=where, hint="leave it out")
            else:
                channels[head, end] = latency
                channels.setdefault((end, head), 1)
    _check_nodes(attached, file)
    hosts = len(attached)
    place = {router: hosts + n for n, router in enumerate(sorted(routers))}
    pairs = sorted((a, b) for a, b in channels if a < b)
    links = [FlatLink(node, place[router], 0, CYCLE_PS) for node, router in sorted(attached.items())]
    links += [
        FlatLink(place[a], place[b], 0, max(channels[a, b], channels[b, a]) * CYCLE_PS) for a, b in pairs
    ]
    remarks = ["latencies are in cycles: taken as 1 ns each", "the file has no bandwidths: they are assumed"]
    differ = sum(channels[a, b] != channels[b, a] for a, b in pairs)
    if differ:
        remarks.append(f"{plural(differ, 'channel')} with two latencies: the larger one")
    names = (*(str(n) for n in range(hosts)), *(f"router {r}" for r in sorted(routers)))
    return FlatNetwork(
        Path(file).stem, names, hosts, (0,) * (hosts + len(routers)), tuple(links), tuple(remarks)
    )


def _check_nodes(attached: dict[int, int], file: str) -> None:
    if not attached:
        raise InputError("the network has no nodes", where=file, hint="connect nodes to routers")
    missing = next((n for n in range(len(attached)) if n not in attached), None)
    if missing is not None:
        what = f"node {missing} is missing, the largest is {max(attached)}"
        raise InputError(what, where=file, hint="number nodes from 0 without gaps")


def _pairs(words: list[str], where: str) -> list[tuple[str, int]]:
    """Return kinds and numbers; a latency has the kind ``""``."""
    found: list[tuple[str, int]] = []
    at = 0
    while at < len(words):
        word = words[at]
        if word in _KINDS:
            if at + 1 == len(words):
                raise InputError(f"a number is missing behind {word!r}", where=where, hint=f"write {word} 0")
            found.append((word, _whole(words[at + 1], _MOST_NODES, where)))
            at += 2
        elif len(found) > 1 and found[-1][0] and word.isdecimal():
            found.append(("", _whole(word, _MOST_LATENCY, where)))
            at += 1
        else:
            raise InputError(
                f"unknown word {word[:40]!r}", where=where, hint="write router 0 node 0 router 1"
            )
    return found


def _with_latency(ends: list[tuple[str, int]], where: str) -> list[tuple[str, int, int]]:
    joined: list[tuple[str, int, int]] = []
    for kind, number in ends:
        if kind:
            joined.append((kind, number, 1))
        elif number < 1:
            raise InputError("a channel has the latency 0", where=where, hint="write 1 or more cycles")
        else:
            joined[-1] = (*joined[-1][:2], number)
    return joined


def _whole(word: str, most: int, where: str) -> int:
    if not (word.isascii() and word.isdecimal()) or len(word) > 9 or int(word) > most:
        hint = f"write a whole number up to {most:,}"
        raise InputError(f"{word[:40]!r} is not a whole number in range", where=where, hint=hint)
    return int(word)
