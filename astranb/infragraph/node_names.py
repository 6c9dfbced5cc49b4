"""Nodes by their names: found in the plan of an infrastructure, without the names of all of them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice, product
from typing import TYPE_CHECKING, Final

import numpy as np

from .plan import Component

if TYPE_CHECKING:
    from .graph import I64, NodeGraph
    from .plan import Device, ExpansionPlan

__all__ = ["ending_in", "named", "near_names", "numbers_in", "pattern_of"]

_STARS: Final = re.compile(r"\*+")
_NUMBER: Final = re.compile(r"(?:0|[1-9][0-9]{0,8})\Z")
_RANGE: Final = re.compile(r"([0-9]{1,9})-([0-9]{1,9})\Z")
_NONE: Final = np.empty(0, np.int64)
_MOST_NEAR: Final = 2048
"""Names that an unknown one is compared with."""
_MOST_PATTERNS: Final = 16


def named(graph: NodeGraph, name: str) -> I64:
    """Find the node that has a full name, whatever characters it has; none where there is no such node."""
    words = name.split(".")
    numbers = words[1::2]
    instance = graph.plan.instances.get(words[0])
    if instance is None or len(words) % 2 or not all(map(_NUMBER.match, numbers)):
        return _NONE
    path: list[tuple[str, str | None]] = list(zip(words[2::2], numbers[1:], strict=True))
    try:
        selection, reached = graph.plan.descend(instance.device, path)
    except ValueError:
        return _NONE
    if int(numbers[0]) >= instance.count or not isinstance(reached, Component):
        return _NONE
    return selection.nodes() + instance.base + int(numbers[0]) * instance.device.size


def ending_in(graph: NodeGraph, pattern: str) -> I64:
    """Find the nodes whose names are, or end in, a pattern.

    Parameters
    ----------
    graph : NodeGraph
    pattern : str
        Words and numbers with dots between them: ``*`` stands for any text between two dots, and ``0-3``
        for several numbers.

    Returns
    -------
    ndarray of int64
        In the order of the document.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> graph = blueprint("clos:servers=2").expand()
    >>> [graph.name(node) for node in ending_in(graph, "1.nvsw.0-1")]
    ['host.1.nvsw.0', 'host.1.nvsw.1']
    """
    found = list(_NameSearch(graph.plan, _STARS.sub("*", pattern).split(".")).nodes())
    return np.sort(np.concatenate(found)) if found else _NONE


class _NameSearch:
    """Search for the end of a name, from its last word to the first one.

    Parameters
    ----------
    plan : ExpansionPlan
    words : list of str
    """

    def __init__(self, plan: ExpansionPlan, words: list[str]) -> None:
        self._plan, self._words = plan, words
        self._known: dict[str, dict[int, I64]] = {}

    def nodes(self) -> Iterator[I64]:
        """Yield the nodes of each instance whose names fit."""
        for instance in self._plan.instances.values():
            for left, inside in self._inside(instance.device).items():
                before, copies = self._step(left, instance.name, instance.count)
                if not before:
                    yield _sums(instance.base + copies * instance.device.size, inside)

    def _inside(self, device: Device) -> dict[int, I64]:
        """Nodes of a device whose names in it fit, by how many words its own name has to have."""
        if device.name not in self._known:
            found: dict[int, list[I64]] = {}
            for name, component in device.components.items():
                ends = {len(self._words): np.zeros(1, np.int64)}
                if component.kind is None:
                    ends = self._inside(self._plan.devices[name])
                for left, inside in ends.items():
                    before, units = self._step(left, name, component.count)
                    if len(units):
                        first = device.base[name] + units * device.stride[name]
                        found.setdefault(before, []).append(_sums(first, inside))
            self._known[device.name] = {left: np.concatenate(parts) for left, parts in found.items()}
        return self._known[device.name]

    def _step(self, left: int, name: str, count: int) -> tuple[int, I64]:
        """Compare a name and its numbers with the last two of ``left`` words: what is left, and the units."""
        if left > 1 and not _fits(self._words[left - 2], name):
            return 0, _NONE
        return max(0, left - 2), _numbers(self._words[left - 1], count) if left else np.arange(count)


def _sums(first: I64, inside: I64) -> I64:
    return (first[:, None] + inside[None, :]).ravel()


def _fits(word: str, name: str) -> bool:
    return word in (name, "*") or ("*" in word and _pattern(word).fullmatch(name) is not None)


@lru_cache(64)
def _pattern(word: str) -> re.Pattern[str]:
    return re.compile(re.escape(word).replace(r"\*", "[^.]*"))


def _numbers(word: str, count: int) -> I64:
    """Read the numbers below a count that a word stands for."""
    if word == "*":
        return np.arange(count)
    if _NUMBER.match(word):
        return np.arange(int(word), min(int(word) + 1, count))
    if several := _RANGE.match(word):
        first, last = int(several[1]), int(several[2])
        return np.arange(first, last + 1) if first <= last < count else _NONE
    if "*" not in word:
        return _NONE
    return np.array([number for number in range(count) if _pattern(word).fullmatch(str(number))], np.int64)


def pattern_of(graph: NodeGraph, nodes: Sequence[int]) -> str:
    """Return the pattern that stands for exactly these nodes; empty where there is none.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> graph = blueprint("clos:servers=2").expand()
    >>> pattern_of(graph, [10, 11, 12, 13]), pattern_of(graph, [11, 12]), pattern_of(graph, [10, 12])
    ('host.0.nvsw.*', 'host.0.nvsw.1-2', '')
    """
    if len(nodes) == 1:
        return graph.name(nodes[0])
    names = [graph.name(node).split(".") for node in nodes]
    if len({len(words) for words in names}) != 1:
        return ""
    choices = [
        _choices(list(dict.fromkeys(column)), at % 2) for at, column in enumerate(zip(*names, strict=True))
    ]
    wanted = np.unique(np.asarray(nodes, np.int64))
    for words in islice(product(*choices), _MOST_PATTERNS):
        pattern = ".".join(words)
        if np.array_equal(ending_in(graph, pattern), wanted):
            return pattern
    return ""


def _choices(words: list[str], are_numbers: int) -> list[str]:
    """Words of a pattern that stand for some words, or numbers, at one place in names."""
    if len(words) == 1:
        return words
    numbers = sorted(map(int, words)) if are_numbers else []
    every = range(numbers[0], numbers[-1] + 1) if numbers else range(0)
    return ["*", f"{every[0]}-{every[-1]}"] if numbers and numbers == list(every) else ["*"]


def numbers_in(name: str) -> list[int]:
    """Return the numbers in a name; those with more digits than any are as large as any.

    Examples
    --------
    >>> numbers_in("host.12.xpu[9999999999999]")
    [12, 999999999]
    """
    return [int(digits) if len(digits) < 10 else 10**9 - 1 for digits in re.findall("[0-9]+", name[:200])]


def near_names(graph: NodeGraph, name: str) -> Iterator[str]:
    """Yield names of nodes, whole and short, that have the numbers of an unknown name as far as they can.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> list(near_names(blueprint("ring:gpus=4").expand(), "box.0.gpv.9"))
    ['box.0.gpu.3', 'gpu.3', 'box.0', 'gpu[3]']
    """
    typed = numbers_in(name)[::-1]

    def numbered(levels: Iterable[tuple[str, int]]) -> list[str]:
        pairs = list(levels)
        numbers = reversed([*typed[: len(pairs)], *[0] * (len(pairs) - len(typed))])
        return [
            f"{word}.{min(number, count - 1)}" for (word, count), number in zip(pairs, numbers, strict=True)
        ]

    for levels in islice(_levels(graph.plan), _MOST_NEAR):
        words = numbered(levels)
        yield ".".join(words)
        if all(count == 1 for _, count in levels[:-1]):  # the end of it is enough
            yield words[-1]
    for instance in islice(graph.plan.instances.values(), _MOST_NEAR):
        yield from numbered([(instance.name, max(1, instance.count))])
    if ranks := len(graph.gpus):
        yield f"gpu[{min(typed[0] if typed else 0, ranks - 1)}]"


def _levels(plan: ExpansionPlan) -> Iterator[list[tuple[str, int]]]:
    """Yield the names of nodes without their numbers: each word, with how many there are."""

    def inside(device: Device) -> Iterator[list[tuple[str, int]]]:
        for name, component in device.components.items():
            ends: Iterable[list[tuple[str, int]]] = [[]]
            if component.kind is None:
                ends = inside(plan.devices[name])
            if component.count:
                yield from ([(name, component.count), *end] for end in ends)

    for instance in plan.instances.values():
        if instance.count:
            yield from ([(instance.name, instance.count), *end] for end in inside(instance.device))
