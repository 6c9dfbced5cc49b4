"""The topology file of HPCC's and ASTRA-sim's ns-3: nodes, switches, and a line for each link.

The first line has the numbers of nodes, switches and links; then come the numbers of the switches, and of
each link its ends, rate, delay and error rate (``scratch/third.cc``, which reads words and knows no lines).
PowerTCP's fork has four or six numbers in the first line: behind the switches those of them that hosts are
connected to, and at the end the rates of the links of hosts and of those between switches, which each link
has, too (github.com/inet-tub/ns3-datacenter, ``examples/PowerTCP`` and ``examples/Reverie``).
"""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Final

from astranb.core.errors import InputError, near
from astranb.core.plural import plural
from astranb.core.units import time_ps

from .flat import FlatLink, FlatNetwork

__all__ = ["read_ns3", "write_ns3"]

_MOST_NODES: Final = 1 << 20
_MOST_LINKS: Final = 1 << 22
_PREFIXES: Final = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}
_BINARY: Final = {"Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40}
_RATES: Final = {
    f"{prefix}{unit}": Decimal(scale) / bits
    for unit, bits in (("bps", 8), ("b/s", 8), ("Bps", 1), ("B/s", 1))
    for prefix, scale in (_PREFIXES | _BINARY).items()
} | {"": Decimal(1) / 8}
"""Bytes a second by unit of ns-3's DataRate; without one it is bits a second."""
_QUANTITY: Final = re.compile(r"(\d+(?:\.\d*)?|\.\d+)([A-Za-z/]*)\Z")
_LINK: Final = re.compile(
    r"(?<!\S)\d+\s+\d+\s+[\d.]+[A-Za-z/]*\s+\+?[\d.]+[a-z]?s\s+[\d.]+(?:[eE][-+]?\d+)?(?!\S)"
)
_POWER_TCP: Final = (4, 6)
"""Numbers in the first line of PowerTCP's files."""


def write_ns3(network: FlatNetwork) -> tuple[str, list[str]]:
    """Return a topology file, and what it does not express.

    Examples
    --------
    >>> two = FlatNetwork("two", ("0", "1", "s"), 2, (0, 0, 0),
    ...                   (FlatLink(0, 2, 25 * 10**9, 500_000), FlatLink(1, 2, 25 * 10**9, 500_000)))
    >>> print(write_ns3(two)[0], end="")
    3 1 2
    2
    0 2 200Gbps 0.0005ms 0
    1 2 200Gbps 0.0005ms 0
    """
    network = network.latency_in_links().with_routers().merged()
    rounded = sum(link.latency_ps % 1000 > 0 for link in network.links)
    switches = range(network.hosts, len(network.names))
    lines = [f"{len(network.names)} {network.switches} {len(network.links)}", " ".join(map(str, switches))]
    lines += [
        f"{link.a} {link.b} {_rate(link.bandwidth_Bps)} {_delay(link.latency_ps)} 0" for link in network.links
    ]
    remarks = list(network.remarks)
    if rounded:
        remarks.append(f"{rounded:,} of {len(network.links):,} latencies are rounded to whole nanoseconds")
    return "\n".join(lines) + "\n", remarks


def _rate(bandwidth_Bps: int) -> str:  # noqa: N803 - unit in the name
    bits = bandwidth_Bps * 8
    unit, scale = next((u, s) for u, s in (("G", 10**9), ("M", 10**6), ("", 1)) if bits % s == 0)
    return f"{bits // scale}{unit}bps"


def _delay(latency_ps: int) -> str:
    ns = (latency_ps + 500) // 1000
    return f"{Decimal(ns).scaleb(-6).normalize():f}ms"


class _Words:
    """The words of a file with their lines."""

    def __init__(self, text: str, file: str) -> None:
        self.file = file
        lines = [line.split() for line in text.splitlines()]
        self._words = [(word, n) for n, line in enumerate(lines, 1) for word in line]
        self._at = 0
        self.line = 1
        self.header = len(lines[0]) if lines else 0
        # HPCC's reader knows no lines, so that numbers of switches or a link may follow its three numbers.
        second = lines[1] if len(lines) > 1 else []
        self.is_power_tcp = self.header in _POWER_TCP and all(map(str.isdecimal, second))

    def next(self, what: str) -> str:
        if self._at == len(self._words):
            raise self.error(f"the file ends where {what} is expected", "is it whole?")
        word, self.line = self._words[self._at]
        self._at += 1
        return word

    def count(self, what: str, most: int) -> int:
        word = self.next(what)
        if not (word.isascii() and word.isdecimal()) or len(word) > 9 or int(word) > most:
            hint = f"write {what} as a whole number up to {most:,}"
            raise self.error(f"{word[:40]!r} is not {what}", hint)
        return int(word)

    @property
    def rest(self) -> int:
        """The line on which the next word is; 0: there is none."""
        return self._words[self._at][1] if self._at < len(self._words) else 0

    @property
    def links_left(self) -> int:
        """The number of links that follow: files may end with a text that explains them."""
        return len(_LINK.findall(" ".join(word for word, _ in self._words[self._at :])))

    def error(self, what: str, hint: str = "") -> InputError:
        return InputError(what, where=f"{self.file}:{self.line}", hint=hint)


def read_ns3(text: str, file: str) -> FlatNetwork:
    """Read a topology file; nodes that are no switches are GPUs, in the order of their numbers.

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
    words = _Words(text, file)
    nodes = words.count("the number of nodes", _MOST_NODES)
    switches = words.count("the number of switches", _MOST_NODES)
    edge = words.count("the number of switches with hosts", switches) if words.is_power_tcp else None
    count = words.count("the number of links", _MOST_LINKS)
    if words.is_power_tcp and words.header > _POWER_TCP[0]:
        words.next("the rate of links to hosts"), words.next("the rate of links between switches")
    if switches >= nodes:
        raise words.error(f"{switches:,} of {nodes:,} nodes are switches", "a network needs hosts")
    place = dict.fromkeys(range(nodes), -1)
    ids: list[int] = []
    for _ in range(switches):
        node = words.count("the number of a switch", nodes - 1)
        if place.pop(node, None) is None:
            raise words.error(f"duplicate switch {node}", "list each switch once")
        ids.append(node)
    hosts = list(place)
    place = {node: number for number, node in enumerate((*hosts, *ids))}
    links, faulty = [], 0
    named = max(ids, default=0)
    for _ in range(count):
        a, b = (words.count("a node of a link", nodes - 1) for _ in range(2))
        named = max(named, a, b)
        if a == b:
            raise words.error(f"a link leads from node {a} to itself", "name two nodes")
        rate = _read_rate(words)
        delay = words.next("a delay")
        try:
            ps = time_ps(delay)
        except InputError as error:
            raise words.error(error.what, error.hint) from None
        faulty += _read_error_rate(words) > 0
        links.append(FlatLink(place[a], place[b], rate, ps))
    remarks = []
    if faulty:
        remarks.append(f"{plural(faulty, 'link has', 'links have')} an error rate, which is left out")
    further = words.links_left
    if further:
        which = "third" if edge is None else "fourth"
        raise InputError(
            f"{plural(count, 'link is', 'links are')} announced, and {count + further:,} follow",
            where=f"{file}:1",
            hint=f"write {count + further} as the {which} number, or remove lines",
        )
    _check_nodes(links, nodes, named, len(hosts), edge, file)
    if words.rest:
        remarks.append(f"from line {words.rest} on nothing is read: the file has {plural(count, 'link')}")
    names = tuple(str(node) for node in (*hosts, *ids))
    return FlatNetwork(Path(file).stem, names, len(hosts), (0,) * nodes, tuple(links), tuple(remarks))


def _check_nodes(
    links: list[FlatLink], nodes: int, named: int, hosts: int, edge: int | None, file: str
) -> None:
    """Compare the numbers of nodes, and of switches with hosts where the file has it, with the links."""
    if links and named < nodes - 1:
        what = f"{nodes:,} nodes are announced, and nodes {named + 1:,} and above have no link"
        raise InputError(what, where=f"{file}:1", hint=f"write {named + 1} as the first number, or add links")
    found = {max(link.a, link.b) for link in links if min(link.a, link.b) < hosts <= max(link.a, link.b)}
    if edge not in (None, len(found)):
        what = f"{edge} switches with hosts are announced, and links have {len(found)}"
        raise InputError(what, where=f"{file}:1", hint=f"write {len(found)} as the third number")


def _read_rate(words: _Words) -> int:
    word = words.next("a rate")
    match = _QUANTITY.match(word)
    if match is None:
        raise words.error(f"{word[:40]!r} is not a rate", "write 100Gbps")
    if match[2] not in _RATES:
        raise words.error(f"unknown unit {match[2][:40]!r} of a rate", near(match[2], _RATES))
    rate = Decimal(match[1]) * _RATES[match[2]]
    if not 1 <= rate <= 10**18:
        raise words.error(f"rate {word[:40]!r} is out of range", "write 100Gbps")
    return int(rate)


def _read_error_rate(words: _Words) -> float:
    word = words.next("an error rate")
    try:
        rate = float(word)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise words.error(f"{word[:40]!r} is not an error rate", "write 0")
    return rate
