"""The system layer of ASTRA-sim 1.0 and its file of `key: value` lines: algorithms, splits, schedules."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from astranb.core.errors import InputError, near
from astranb.core.file_formats import names_format
from astranb.core.given import Given
from astranb.core.keywords import hinted_class
from astranb.net import ForAll

from .roofline import Roofline, Rooflines
from .words import Words

__all__ = ["ALGORITHMS", "WITHIN", "LayerAlgorithm", "LayerSystem", "read_system"]

ALGORITHMS: Final = ("ring", "direct", "halvingDoubling", "doubleBinaryTree")
WITHIN: Final[Mapping[str, int]] = {
    "FIFO": 0,
    "RG": 1,
    "SCF": 2,
    "smallestFirst": 2,
    "lessRemainingPhaseFirst": 3,
}
"""Orders of the chunks that wait for a dimension (``intra-dimension-scheduling``)."""

_BETWEEN: Final[Mapping[str, str]] = {
    "baseline": "ascending",
    "ascending": "ascending",
    "roundRobin": "roundRobin",
    "themis": "themis",
    "offlineGreedy": "themis",
    "themisFlex": "themisFlex",
    "offlineGreedyFlex": "themisFlex",
}
"""Orders of the dimensions that a chunk passes through (``inter-dimension-scheduling``)."""


class LayerAlgorithm(NamedTuple):
    """The algorithm of a collective in one dimension.

    Parameters
    ----------
    name : str
        One of :data:`ALGORITHMS`.
    window : int
        Number of messages that ``direct`` keeps in flight; -1 for all.
    whole : bool
        All NPUs form one dimension (``oneRing`` …); algorithms listed after it have no effect.
    """

    name: str
    window: int = -1
    whole: bool = False

    @classmethod
    def parse(cls, text: str) -> LayerAlgorithm:
        """Parse an algorithm as a system file names it.

        Raises
        ------
        ValueError
            It is not an algorithm.

        Examples
        --------
        >>> LayerAlgorithm.parse("oneDirect4")
        LayerAlgorithm(name='direct', window=4, whole=True)
        """
        for name in ALGORITHMS:
            for whole, word in ((False, name), (True, f"one{name[0].upper()}{name[1:]}")):
                if whole and name == "doubleBinaryTree":
                    continue
                if text == word:
                    return cls(name, -1, whole)
                if name == "direct" and (found := re.fullmatch(rf"{word}([1-9]\d{{0,5}})", text)):
                    return cls(name, int(found[1]), whole)
        raise ValueError(text)


_KINDS: Final = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")

GivenAlgorithms = str | Mapping[str, str | tuple[LayerAlgorithm, ...]]
"""Algorithms of a system as they may be given: texts of its file, or what they stand for."""


def _algorithms(text: str) -> tuple[LayerAlgorithm, ...]:
    try:
        return tuple(LayerAlgorithm.parse(part) for part in text.split("_") if part)
    except ValueError as error:
        known = (
            "ring, direct, directN, halvingDoubling, doubleBinaryTree, oneRing, oneDirect, oneHalvingDoubling"
        )
        raise ValueError(f"unknown algorithm {str(error)[:40]!r}: use {known}") from None


def _by_kind(given: GivenAlgorithms) -> Mapping[str, tuple[LayerAlgorithm, ...]]:
    """Return the algorithms of each collective."""
    named = dict.fromkeys(_KINDS, given) if isinstance(given, str) else given
    for kind in named:
        if kind not in _KINDS:
            raise InputError(f"unknown collective {kind!r:.40}", where="algorithms", hint=near(kind, _KINDS))
    return {kind: listed for kind, one in named.items() if (listed := _listed(one))}


def _listed(given: str | tuple[LayerAlgorithm, ...]) -> tuple[LayerAlgorithm, ...]:
    """Return the algorithm of each dimension, or one for all."""
    if not isinstance(given, str):
        return given
    try:
        listed = _algorithms(given)
    except ValueError as error:
        raise InputError(str(error), where="algorithms") from None
    return ForAll(listed) if len(listed) == 1 else listed


@hinted_class(chunks="write splits (chunks of a collective)")
@dataclass(frozen=True)
class LayerSystem:
    """The system layer of a run.

    Parameters
    ----------
    algorithms : str or mapping of str to str
        An algorithm for all dimensions, ``"ring"``, or one for each, ``"ring_direct4"``, by the names of a
        system file; the same for every collective, or by collective (``all-reduce``, ``all-gather``,
        ``reduce-scatter``, ``all-to-all``). They are kept as tuples of :class:`LayerAlgorithm`.
    splits : int
        Number of chunks of a collective.
    lifo : bool
        The collective issued last is served first.
    endpoint_ns : int
        Time that an endpoint takes for a message.
    active_chunks : int
        Number of chunks that are served at once in one dimension.
    baseline : bool
        All-reduce in each dimension, instead of reduce-scatter and all-gather.
    within, between : str
        Order of chunks within a dimension (:data:`WITHIN`), and of a chunk's dimensions
        (``ascending``, ``roundRobin``, ``themis`` or ``themisFlex``).
    gap_denominator : int
        Themis keeps the ascending order if loads differ by less than a chunk divided by this.
    queues : int
        Number of queues of one dimension.
    boost : bool
        ASTRA-sim 1.0 then simulates only the NPUs that share a dimension with NPU 0. Here it only
        orders phases of different dimensions that end at the same time.
    rooflines : Rooflines, optional
        What gives parts of layers with work their times (COMET's fork).
    where : str
        The file's name, for error messages.

    Raises
    ------
    InputError
        An algorithm or a collective is unknown, or a number is out of range.

    Examples
    --------
    >>> LayerSystem({"all-reduce": "ring_direct4"}, splits=4).algorithms["all-reduce"][1]
    LayerAlgorithm(name='direct', window=4, whole=False)
    """

    algorithms: Given[GivenAlgorithms, Mapping[str, tuple[LayerAlgorithm, ...]]] = Given(_by_kind, "")
    splits: int = 1
    lifo: bool = True
    endpoint_ns: int = 10
    active_chunks: int = 1
    baseline: bool = False
    within: str = "FIFO"
    between: str = "ascending"
    gap_denominator: int = 16
    queues: int = 1
    boost: bool = False
    rooflines: Rooflines | None = None
    where: str = "system"

    def __post_init__(self) -> None:
        """Check the numbers."""
        for name, low in (
            ("splits", 1),
            ("endpoint_ns", 0),
            ("active_chunks", 1),
            ("gap_denominator", 1),
            ("queues", 1),
        ):
            if getattr(self, name) < low:
                raise InputError(
                    f"{name} is {getattr(self, name)}", where=self.where, hint=f"use {low} or more"
                )


# The file.


def _integer(low: int, high: int = 1 << 31) -> Callable[[str], int]:
    def check(text: str) -> int:
        if not re.fullmatch(r"\d{1,12}", text) or not low <= int(text) <= high:
            raise ValueError(f"use a whole number from {low} to {high}")
        return int(text)

    return check


def _decimal(text: str) -> float:
    if not re.fullmatch(r"\d{1,15}(\.\d{1,15})?", text):
        raise ValueError("use a number from 0, as 900 or 0.5")
    return float(text)


def _one_of(names: Sequence[str]) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in names:
            raise ValueError(near(text[:40], names))
        return text

    return check


_ROOFLINE: Final = {
    f"{memory}-mem-roofline": {
        "bw": "bandwidth_GBps",
        "neg-y-intercept": "intercept_GFLOPS",
        "peak-perf": "peak_GFLOPS",
    }
    for memory in ("local", "remote")
} | {
    "roofline": {
        "bw-in-bytes-per-ns": "bandwidth_GBps",
        "neg-y-intercept": "intercept_GFLOPS",
        "peak-perf-in-gigaflops": "peak_GFLOPS",
    }
}
"""Fields of :class:`Roofline` by the keys of COMET's fork: of its first version two, of its second one."""
_KEYS: Final[Mapping[str, Callable[[str], Any]]] = {
    **{f"{kind}-implementation": _algorithms for kind in _KINDS},
    "scheduling-policy": _one_of(("LIFO", "FIFO")),
    "collective-optimization": _one_of(("baseline", "localBWAware")),
    "endpoint-delay": _integer(0),
    "active-chunks-per-dimension": _integer(1),
    "preferred-dataset-splits": _integer(1, 1 << 16),
    "intra-dimension-scheduling": _one_of(tuple(WITHIN)),
    "inter-dimension-scheduling": _one_of(tuple(_BETWEEN)),
    "gap-denominator": _integer(1),
    "boost-mode": _integer(0, 1),
    "enable-roofline": _one_of(("true", "false")),
    "data-type-size": _integer(1, 64),
    **{f"{head}-{tail}": _decimal for head, tails in _ROOFLINE.items() for tail in tails},
    "model-shared-bus": _integer(0, 1),
    "local-reduction-delay": _integer(0),
    "seprate-log": _integer(0, 1),
    **dict.fromkeys(("L", "o", "g", "G"), str),
}
"""All keys. Those from ``local-reduction-delay`` on have no effect, as in ASTRA-sim 1.0."""


@names_format("system 1.0")
def read_system(path: str | Path, *, queues: int = 1, injection_scale: float = 1.0) -> LayerSystem:
    """Read a system file.

    Parameters
    ----------
    path : str or Path
    queues : int
        Number of queues of one dimension.
    injection_scale : float
        Factor of the endpoint's delay.

    Raises
    ------
    InputError
        The file cannot be read, or a key or value is invalid; the error names the line.
    """
    words = Words(path)
    found: dict[str, Any] = {}
    while words.left:
        name = words.word("a key")
        key = name.removesuffix(":")
        if key not in _KEYS:
            words.fail(f"unknown key {key[:60]!r}", near(key[:60], _KEYS))
        if not name.endswith(":"):
            words.fail(f"{key} lacks its colon", f"write {key}: and the value")
        if key in found:
            words.fail(f"duplicate key {key!r}", "keep one of them")
        line = words.line
        value = words.word(f"the value of {key}")
        try:
            found[key] = _KEYS[key](value)
        except ValueError as error:
            words.fail(f"{key} is {value[:40]!r}", str(error), line)
    if found.get("model-shared-bus"):
        raise InputError("model-shared-bus is not simulated", where=str(path), hint="set it to 0")
    for key in ("scheduling-policy", "preferred-dataset-splits", "collective-optimization"):
        if key not in found:
            raise InputError(f"{key} is missing", where=str(path), hint=f"add {key}:")
    return LayerSystem(
        {kind: found.get(f"{kind}-implementation", ()) for kind in _KINDS},
        found["preferred-dataset-splits"],
        found["scheduling-policy"] == "LIFO",
        int(found.get("endpoint-delay", 10) * injection_scale),
        found.get("active-chunks-per-dimension", 1),
        found["collective-optimization"] == "baseline",
        found.get("intra-dimension-scheduling", "FIFO"),
        _BETWEEN[found.get("inter-dimension-scheduling", "ascending")],
        found.get("gap-denominator", 16),
        queues,
        bool(found.get("boost-mode", 0)),
        _rooflines(found, str(path)),
        str(path),
    )


def _rooflines(found: Mapping[str, Any], where: str) -> Rooflines | None:
    """Return the rooflines of COMET's fork: those of both memories, or one that a key turns on."""
    given = {
        head: {field: found[f"{head}-{tail}"] for tail, field in tails.items() if f"{head}-{tail}" in found}
        for head, tails in _ROOFLINE.items()
    }
    one, *two = given["roofline"], given["local-mem-roofline"], given["remote-mem-roofline"]
    if any(two):
        if one or "enable-roofline" in found:
            raise InputError("keys of both versions of rooflines", where=where, hint="keep those of one")
        local, remote = (Roofline(**each) for each in two)
        return Rooflines(local, remote, found.get("data-type-size", 2))
    if found.get("enable-roofline") != "true":
        return None
    roofline = Roofline(**one)
    return Rooflines(roofline, roofline, found.get("data-type-size", 2))
