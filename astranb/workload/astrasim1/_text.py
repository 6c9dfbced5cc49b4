"""ASTRA-sim 1.0's text files, unmodified: the layer table and the system's `key: value` lines.

Both are words with blanks, tabs and ends of lines (of any system) between them. What is wrong is
said with its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from astranb.core.errors import InputError, near
from astranb.core.files import whole_file

from ._layers import COLLECTIVES, Layer, Part, Workload
from ._policies import LAYER_POLICIES
from ._shipped import loop_named
from ._system import BETWEEN, WITHIN, Algorithm, System
from ._words import Words

__all__ = ["is_layer_table", "read_system", "read_workload", "write_workload"]

_MOST_LAYERS: Final = 1_000_000
_MOST: Final = 1 << 60
_MOST_NS: Final = 10**15
_MOST_SIZE: Final = 1 << 50


def is_layer_table(path: str | Path) -> bool:
    """Tell a 1.0 workload file from a prefix of 2.0's traces: it is a file, of text.

    Examples
    --------
    >>> is_layer_table("traces/job")
    False
    """
    file = Path(path)
    try:
        if not file.is_file():
            return False
        with file.open("rb") as start:
            return b"\0" not in start.read(4096)
    except OSError:
        return False


def _numbers(words: Words, what: str) -> tuple[int, ...]:
    """Take a heading, how many numbers there are, and the numbers."""
    heading = words.word(f"'{what}:'")
    if heading.rstrip(":") != what:
        words.fail(f"unknown {heading[:40]!r}", f"write {what}: and how many there are")
    return tuple(words.number(f"a layer of {what}") for _ in range(words.number(what, 0, _MOST_LAYERS)))


def _part(words: Words, name: str) -> Part:
    """Take a part's time, collective and size."""
    compute = words.number(f"{name} compute time", 0, _MOST_NS)
    kind = words.word(f"{name} collective")
    if kind == "ALLREDUCEALLTOALL":
        words.fail("ALLREDUCEALLTOALL is issued by no training loop", "take ALLREDUCE or ALLTOALL")
    if kind not in COLLECTIVES:
        words.fail(f"{name}: unknown collective {kind[:40]!r}", near(kind[:40], COLLECTIVES))
    size = words.number(f"{name} size", 0, _MOST_SIZE)
    if kind != "NONE" and size == 0:
        words.fail(f"{name}: {kind} of 0 bytes", "give its size, or NONE")
    return Part(compute, kind, size)


def read_workload(path: str | Path) -> Workload:
    """Read a layer table.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        It cannot be read, or a word of it is of no use: with its line.
    """
    words = Words(path)
    if not words.left:
        words.fail("the file is empty", "begin with the training loop, as DATA", 1)
    line = words.line
    loop = words.word("the training loop")
    loop_named(loop, f"{words.file}: line {line}")
    group = last = None
    checkpoints: tuple[int, ...] = ()
    initiates: tuple[int, ...] = ()
    if loop.startswith("HYBRID_TRANSFORMER"):
        heading = words.word("'model_parallel_NPU_group:'")
        if heading.rstrip(":") != "model_parallel_NPU_group":
            words.fail(f"unknown {heading[:40]!r}", "write model_parallel_NPU_group: and its NPUs")
        group = words.number("model_parallel_NPU_group", 1)
        if loop == "HYBRID_TRANSFORMER_FWD_IN_BCKWD":
            checkpoints = _numbers(words, "checkpoints")
            initiates = _numbers(words, "checkpoint_initiates")
    elif loop.startswith("HYBRID_DLRM"):
        last = words.number("the last bottom layer")
    count = words.number("the number of layers", 1, _MOST_LAYERS)
    layers = []
    for number in range(count):
        if not words.left:
            words.fail(f"{number} of {count} layers", "describe them all, or correct the number", words.line)
        line = words.line
        name = words.word("a layer's name")
        words.number("the reserved number", -_MOST)
        forward, given, weight = (
            _part(words, each) for each in ("forward", "input gradient", "weight gradient")
        )
        update = words.number("update time", 0, _MOST_NS)
        policy = None
        if loop == "HYBRID_CUSTOMIZED":
            policy = words.word("the layer's policy")
            if policy not in LAYER_POLICIES:
                words.fail(f"unknown policy {policy[:40]!r}", near(policy[:40], LAYER_POLICIES))
        elif words.left and words.line == line and words.peek in LAYER_POLICIES:
            words.word("the policy")  # ASTRA-sim's own generator writes it behind every layer
        if words.left and words.line == line:
            words.fail(f"{words.word('')[:40]!r} behind the layer", "a layer has 12 words", line)
        layers.append(Layer(name, forward, given, weight, update, policy))
    if words.left:
        words.fail(
            f"more than the {count} layers that line 2 announces", "correct the number of layers", words.line
        )
    for name, listed in (("checkpoints", checkpoints), ("checkpoint_initiates", initiates)):
        for layer in listed:
            if layer >= count:
                words.fail(f"{name} names layer {layer} of {count}", "count layers from 0", 1)
    if last is not None and last >= count:
        words.fail(f"the last bottom layer is {last} of {count}", "count layers from 0", 1)
    return Workload(loop, tuple(layers), group, checkpoints, initiates, last, str(path))


def write_workload(workload: Workload, path: str | Path) -> None:
    """Write a layer table as ASTRA-sim 1.0 reads it.

    Parameters
    ----------
    workload : Workload
    path : str or Path

    Raises
    ------
    InputError
        It cannot be written there.
    """
    head = [workload.loop]
    if workload.group is not None:
        head += ["model_parallel_NPU_group:", str(workload.group)]
    if workload.loop == "HYBRID_TRANSFORMER_FWD_IN_BCKWD":
        for name, listed in (
            ("checkpoints", workload.checkpoints),
            ("checkpoint_initiates", workload.initiates),
        ):
            head += [f"{name}:", str(len(listed)), *map(str, listed)]
    if workload.last_bottom is not None:
        head.append(str(workload.last_bottom))
    lines = [" ".join(head), str(len(workload.layers))]
    for layer in workload.layers:
        cells = ["_".join(layer.name.split()) or "layer", "-1"]
        for part in (layer.forward, layer.input_gradient, layer.weight_gradient):
            cells += [str(part.compute_ns), part.collective, str(part.size)]
        cells.append(str(layer.update_ns))
        if layer.policy is not None:
            cells.append(layer.policy)
        lines.append("\t".join(cells))
    with whole_file(Path(path)) as file:
        file.write(("\n".join(lines) + "\n").encode())


def _whole(low: int, high: int = 1 << 31) -> Callable[[str], int]:
    def check(text: str) -> int:
        if not re.fullmatch(r"\d{1,12}", text) or not low <= int(text) <= high:
            raise ValueError(f"take a whole number from {low} to {high}")
        return int(text)

    return check


def _one_of(names: Sequence[str]) -> Callable[[str], str]:
    def check(text: str) -> str:
        if text not in names:
            raise ValueError(near(text[:40], names))
        return text

    return check


def _algorithms(text: str) -> tuple[Algorithm, ...]:
    try:
        return tuple(Algorithm.parse(part) for part in text.split("_") if part)
    except ValueError as error:
        known = (
            "ring, direct, directN, halvingDoubling, doubleBinaryTree, oneRing, oneDirect, oneHalvingDoubling"
        )
        raise ValueError(f"unknown {str(error)[:40]!r}: take {known}") from None


_KINDS: Final = ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
_KEYS: Final[Mapping[str, Callable[[str], Any]]] = {
    **{f"{kind}-implementation": _algorithms for kind in _KINDS},
    "scheduling-policy": _one_of(("LIFO", "FIFO")),
    "collective-optimization": _one_of(("baseline", "localBWAware")),
    "endpoint-delay": _whole(0),
    "active-chunks-per-dimension": _whole(1),
    "preferred-dataset-splits": _whole(1, 1 << 16),
    "intra-dimension-scheduling": _one_of(tuple(WITHIN)),
    "inter-dimension-scheduling": _one_of(tuple(BETWEEN)),
    "gap-denominator": _whole(1),
    "boost-mode": _whole(0, 1),
    "model-shared-bus": _whole(0, 1),
    "local-reduction-delay": _whole(0),
    "seprate-log": _whole(0, 1),
    **dict.fromkeys(("L", "o", "g", "G"), str),
}
"""The keys there are; those of the last lines have no effect, as in ASTRA-sim 1.0 (but the bus)."""


def read_system(path: str | Path, *, queues: int = 1, injection_scale: float = 1.0) -> System:
    """Read a system file.

    Parameters
    ----------
    path : str or Path
    queues : int
        Queues of one dimension.
    injection_scale : float
        Multiplies the endpoint's delay.

    Returns
    -------
    System

    Raises
    ------
    InputError
        It cannot be read, or a key or value is of no use: with its line.
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
            words.fail(f"{key} is there twice", "keep one of them")
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
    algorithms = {kind: found.get(f"{kind}-implementation", ()) for kind in _KINDS}
    return System(
        {kind: listed for kind, listed in algorithms.items() if listed},
        found["preferred-dataset-splits"],
        found["scheduling-policy"] == "LIFO",
        int(found.get("endpoint-delay", 10) * injection_scale),
        found.get("active-chunks-per-dimension", 1),
        found["collective-optimization"] == "baseline",
        found.get("intra-dimension-scheduling", "FIFO"),
        BETWEEN[found.get("inter-dimension-scheduling", "ascending")],
        found.get("gap-denominator", 16),
        queues,
        bool(found.get("boost-mode", 0)),
        str(path),
    )
