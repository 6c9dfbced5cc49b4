"""Layer tables of ASTRA-sim 1.0 as traces, as Chakra's own converter makes them.

The nodes have the names, dependencies and numbers that ``src/converter/text_converter.py`` of
mlcommons/chakra gives them (times of the table become microseconds). Collectives of 0 bytes, which
it writes too, are left out; what would wait for one waits for the computation before it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from astranb.core.document import contents
from astranb.core.errors import InputError, near
from astranb.core.file_formats import names_format

from ._builder import TraceBuilder
from ._trace import Trace

__all__ = ["layer_table_trace"]

_MOST_BYTES: Final = 16 << 20
_MOST_NODES: Final = 4_000_000
_KINDS: Final = {
    "ALLREDUCE": "all_reduce",
    "ALLTOALL": "all_to_all",
    "ALLGATHER": "all_gather",
    "REDUCESCATTER": "reduce_scatter",
    "NONE": "",
}
_LOOPS: Final = (
    *("MICRO", "DATA", "MODEL", "HYBRID_DATA_MODEL", "HYBRID_MODEL_DATA"),
    *("HYBRID_DLRM", "HYBRID_DLRM_ENHANCED"),
)


class _Part(NamedTuple):
    """A computation and the collective after it."""

    time: int
    kind: str
    size: int


class _Layer(NamedTuple):
    name: str
    forward: _Part
    inputs: _Part
    weights: _Part


@names_format("layer table")
def layer_table_trace(path: str | Path, passes: int = 1) -> Trace:
    r"""Read a layer table; every rank does the same.

    Parameters
    ----------
    path : str or Path
    passes : int
        How many training passes to write.

    Raises
    ------
    InputError
        The message names the file, the line and the fault.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "w.txt"
    >>> _ = file.write_text("DATA\n1\nfc -1 5 NONE 0 6 NONE 0 7 ALLREDUCE 4096 9\n")
    >>> [(node.name, node.duration_us) for node in layer_table_trace(file).nodes()]
    [('COMP_NODE_fc_FWD', 5), ('COMP_NODE_fc_BWD_WG', 7), ('COMM_COLL_NODE_fc_ALLREDUCE', 0)]
    """
    text = contents(path, _MOST_BYTES)
    try:
        lines = [line.split() for line in text.decode("utf-8-sig").splitlines()]
    except UnicodeDecodeError:
        raise InputError("not text", where=str(path), hint="give a layer table of ASTRA-sim 1.0") from None
    if not lines or not lines[0]:
        raise InputError("no training loop", where=f"{path}: line 1", hint=f"use {', '.join(_LOOPS)}")
    loop = lines[0][0]
    if loop not in _LOOPS:
        what = f"the training loop {loop[:40]!r} has no Chakra form"
        raise InputError(what, where=f"{path}: line 1", hint=near(loop, _LOOPS))
    layers = [_layer(words, f"{path}: line {number}") for number, words in enumerate(lines[2:], 3) if words]
    count = _whole(lines[1][0], f"{path}: line 2") if len(lines) > 1 and lines[1] else -1
    if count != len(layers) or not layers:
        what = f"{max(count, 0)} layers are announced, but {len(layers)} follow"
        raise InputError(what, where=f"{path}: line 2", hint="write the number of layers")
    if not 1 <= passes <= _MOST_NODES // (6 * len(layers)):
        raise InputError(f"{passes} passes of {len(layers)} layers", where="passes", hint="use 1 or more")
    writer = _LoopWriter(layers)
    if loop.startswith("HYBRID_DLRM"):
        last = _whole(lines[0][1], f"{path}: line 1") if len(lines[0]) > 1 else -1
        if not 0 <= last < len(layers) - 1:
            what = f"the last layer at the bottom is {last}"
            raise InputError(what, where=f"{path}: line 1", hint=f"use 0 to {len(layers) - 2}")
        for _ in range(passes):
            writer.dlrm(last)
    else:
        for _ in range(passes):
            {"MICRO": writer.micro, "DATA": writer.data}.get(loop, lambda: writer.model(loop))()
    return writer.made.build(str(path))


def _whole(word: str, where: str) -> int:
    if not (word.isascii() and word.isdecimal() and len(word) < 16):
        raise InputError(f"{word[:40]!r} is not a whole number", where=where, hint="correct it")
    return int(word)


def _layer(words: list[str], where: str) -> _Layer:
    if len(words) < 12:
        what = f"{len(words)} columns"
        raise InputError(what, where=where, hint="a layer has 12: name, dependency, then time and collective")
    parts = []
    for at in (2, 5, 8):
        kind = words[at + 1]
        if kind not in _KINDS:
            raise InputError(f"unknown collective {kind[:40]!r}", where=where, hint=near(kind, _KINDS))
        parts.append(_Part(_whole(words[at], where), kind, _whole(words[at + 2], where)))
    return _Layer(words[0], *parts)


class _LoopWriter:
    """The training loops; each layer's last node of the previous pass is kept."""

    def __init__(self, layers: list[_Layer]) -> None:
        self.layers, self.made = layers, TraceBuilder()
        self._before: list[int] = [-1] * len(layers)

    def _compute(self, layer: _Layer, phase: str, part: _Part, *after: int) -> int:
        wait = sorted({one for one in after if one >= 0})
        return self.made.compute(f"COMP_NODE_{layer.name}_{phase}", duration_us=part.time, after=wait)

    def _collect(self, layer: _Layer, part: _Part, after: int, label: str = "_") -> int:
        """Add a collective unless it has no bytes."""
        if not part.size or not _KINDS[part.kind]:
            return after
        name = f"COMM_COLL_NODE_{layer.name}{label}{part.kind}"
        wait = [after] if after >= 0 else []
        return self.made.collective(_KINDS[part.kind], part.size, name=name, after=wait)

    def micro(self) -> None:
        for layer in self.layers:
            self._collect(layer, layer.weights, -1)

    def data(self) -> None:
        last = -1
        for number, layer in enumerate(self.layers):
            last = self._compute(layer, "FWD", layer.forward, last, self._before[number])
        for number, layer in reversed(list(enumerate(self.layers))):
            last = self._compute(layer, "BWD_WG", layer.weights, last)
            self._before[number] = self._collect(layer, layer.weights, last)
            if number:
                last = self._compute(layer, "BWD_IG", layer.inputs, last)

    def model(self, loop: str) -> None:
        last = -1
        for number, layer in enumerate(self.layers):
            done = self._compute(layer, "FWD", layer.forward, last, self._before[number])
            last = self._collect(layer, layer.forward, done)
        wait: tuple[int, ...] = (last,)
        for number, layer in reversed(list(enumerate(self.layers))):
            done = self._compute(layer, "BWD_IG", layer.inputs, *wait)
            label = "_IG_COMM__" if loop == "HYBRID_DATA_MODEL" else "_"
            sent = self._collect(layer, layer.inputs, done, label) if number else done
            weights = self._compute(layer, "BWD_WG", layer.weights, done)
            wait = (weights, sent)
            self._before[number] = weights
            if loop != "MODEL":
                self._before[number] = self._collect(layer, layer.weights, weights)

    def dlrm(self, last_bottom: int) -> None:
        last = embedded = -1
        for number, layer in enumerate(self.layers):
            there = embedded if number == last_bottom else -1
            last = self._compute(layer, "FWD", layer.forward, last, self._before[number], there)
            if layer.forward.kind == "ALLTOALL":
                sent = self._collect(layer, layer.forward, last)
                embedded = sent if number == 0 else embedded
        returned = -1
        for number, layer in reversed(list(enumerate(self.layers))):
            there = returned if number == 0 else -1
            last = self._compute(layer, "BWD_WG", layer.weights, last, there)
            self._before[number] = self._collect(layer, layer.weights, last)
            if number:
                last = self._compute(layer, "BWD_IG", layer.inputs, last)
            if number == last_bottom + 1:
                returned = self._collect(self.layers[0], self.layers[0].inputs, last)
