"""Files of layer tables as ASTRA-sim 1.0 reads them: words separated by blanks, tabs and line ends.

COMET's fork has more words in each part of a layer: behind its time ``loc M K N``, the memory (0: local) and
the shape of a product; or, in its later version, before its time the operations and the bytes that they move.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from astranb.core.errors import near
from astranb.core.file_formats import names_format
from astranb.core.files import whole_file

from .levels import LAYER_POLICIES
from .loops import loop_named
from .roofline import CountedWork, ProductWork
from .table import COLLECTIVES, Layer, LayerTable, Part
from .words import Words

__all__ = ["is_layer_table", "read_layer_table", "write_layer_table"]

_MOST_LAYERS: Final = 1_000_000
_MOST: Final = 1 << 60
_MOST_NS: Final = 10**15
_MOST_SIZE: Final = 1 << 50
_MOST_WIDE: Final = 1 << 40
_PRODUCTS: Final = 5
"""Numbers in a part before its collective, where it has a product; and where operations are counted."""
_COUNTED: Final = 3


def is_layer_table(path: str | Path) -> bool:
    """Return whether a path is a text file (a 1.0 layer table), not a prefix of 2.0's traces.

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
    """Read a heading, a count, and that many numbers."""
    heading = words.word(f"'{what}:'")
    if heading.rstrip(":") != what:
        words.fail(f"unknown {heading[:40]!r}", f"write {what}: and their number")
    return tuple(words.number(f"a layer of {what}") for _ in range(words.number(what, 0, _MOST_LAYERS)))


def _part(words: Words, name: str, numbers: int) -> Part:
    """Read a part's time, collective and size, and what it computes where it has so many numbers."""
    work: ProductWork | CountedWork | None = None
    if numbers == _COUNTED:
        work = CountedWork(words.decimal(f"{name} operations"), words.decimal(f"{name} bytes moved"))
    compute = words.number(f"{name} compute time", 0, _MOST_NS)
    if numbers == _PRODUCTS:
        remote = words.number(f"{name} memory", 0, 1) == 1
        shape = [words.number(f"{name} {side}", 0, _MOST_WIDE) for side in "MKN"]
        work = ProductWork(shape[0], shape[1], shape[2], remote)
    kind = words.word(f"{name} collective")
    if kind == "ALLREDUCEALLTOALL":
        words.fail("no training loop issues ALLREDUCEALLTOALL", "use ALLREDUCE or ALLTOALL")
    if kind not in COLLECTIVES:
        words.fail(f"{name}: unknown collective {kind[:40]!r}", near(kind[:40], COLLECTIVES))
    size = words.number(f"{name} size", 0, _MOST_SIZE)
    if kind != "NONE" and size == 0:
        words.fail(f"{name}: size of {kind} is zero", "give its size, or use NONE")
    return Part(compute, kind, size, work)


def _work_words(part: Part, *, counted: bool) -> tuple[list[str], list[str]]:
    """Return the words before and behind a part's time that say what it computes."""
    if counted:
        return list(map(repr, part.work if isinstance(part.work, CountedWork) else (0, 0))), []
    work = part.work if isinstance(part.work, ProductWork) else ProductWork(0, 0, 0)
    return [], [str(int(work.remote)), str(work.m), str(work.k), str(work.n)]


@names_format("layer table")
def read_layer_table(path: str | Path, *, compat: bool = False) -> LayerTable:
    """Read a layer table.

    Parameters
    ----------
    path : str or Path
    compat : bool
        Checkpoints of layers that the table does not have are left out, as ASTRA-sim 1.0 and its forks do.

    Raises
    ------
    InputError
        The file cannot be read, or a word is invalid; the error names the line.
    """
    words = Words(path)
    if not words.left:
        words.fail("the file is empty", "begin with a training loop, such as DATA", 1)
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
    layers: list[Layer] = []
    numbers = 1
    for number in range(count):
        if not words.left:
            words.fail(f"{number} of {count} layers", "add the others, or correct the number", words.line)
        line = words.line
        name = words.word("a layer's name")
        words.number("the reserved number", -_MOST)
        if not layers and words.numbers_ahead in (_PRODUCTS, _COUNTED):
            numbers = words.numbers_ahead
        forward, ig, weight = (
            _part(words, each, numbers) for each in ("forward", "input gradient", "weight gradient")
        )
        update = words.number("update time", 0, _MOST_NS)
        policy = None
        if loop == "HYBRID_CUSTOMIZED":
            policy = words.word("the layer's policy")
            if policy not in LAYER_POLICIES:
                words.fail(f"unknown policy {policy[:40]!r}", near(policy[:40], LAYER_POLICIES))
        elif words.left and words.line == line and words.peek in LAYER_POLICIES:
            words.word("the policy")  # ASTRA-sim's own generator writes it after every layer
        if words.left and words.line == line:
            words.fail(
                f"{words.word('')[:40]!r} after the layer", f"a layer has {9 + 3 * numbers} words", line
            )
        layers.append(Layer(name, forward, ig, weight, update, policy))
    if words.left:
        words.fail(
            f"more than the {count} layers that line 2 announces", "correct the number of layers", words.line
        )
    if compat:
        checkpoints = tuple(layer for layer in checkpoints if layer < count)
        initiates = tuple(layer for layer in initiates if layer < count)
    for name, listed in (("checkpoints", checkpoints), ("checkpoint_initiates", initiates)):
        for layer in listed:
            if layer >= count:
                words.fail(f"{name} names layer {layer} of {count}", "count layers from 0", 1)
    if last is not None and last >= count:
        words.fail(f"the last bottom layer is {last} of {count}", "count layers from 0", 1)
    return LayerTable(
        loop, tuple(layers), group, checkpoints, initiates, last, overlapped=numbers > 1, where=str(path)
    )


def write_layer_table(table: LayerTable, path: str | Path) -> None:
    """Write a layer table as ASTRA-sim 1.0, or where its loop is overlapped COMET's fork, reads it.

    Raises
    ------
    InputError
        The file cannot be written.
    """
    head = [table.loop]
    if table.group is not None:
        head += ["model_parallel_NPU_group:", str(table.group)]
    if table.loop == "HYBRID_TRANSFORMER_FWD_IN_BCKWD":
        for name, listed in (
            ("checkpoints", table.checkpoints),
            ("checkpoint_initiates", table.initiates),
        ):
            head += [f"{name}:", str(len(listed)), *map(str, listed)]
    if table.last_bottom is not None:
        head.append(str(table.last_bottom))
    lines = [" ".join(head), str(len(table.layers))]
    counted = any(isinstance(part.work, CountedWork) for layer in table.layers for part in layer.parts)
    for layer in table.layers:
        cells = ["_".join(layer.name.split()) or "layer", "-1"]
        for part in layer.parts:
            before, behind = _work_words(part, counted=counted) if table.overlapped else ([], [])
            cells += [*before, str(part.compute_ns), *behind, part.collective, str(part.size)]
        cells.append(str(layer.update_ns))
        if layer.policy is not None:
            cells.append(layer.policy)
        lines.append("\t".join(cells))
    with whole_file(Path(path)) as file:
        file.write(("\n".join(lines) + "\n").encode())
