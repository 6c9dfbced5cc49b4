"""Workloads of SimAI (AICB's output): ASTRA-sim 1.0's layer tables with process groups.

Rules of ``astra-sim-alibabacloud/astra-sim/workload/Workload.cc``: the first line gives the degrees of
parallelism, and a collective's ending its group (``_EP``: experts; ``_DP_EP``: replicas of an expert).
Without one it is the tensor-parallel group in the forward pass and for input gradients, and the
data-parallel group for weight gradients.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

from astranb.core.errors import near
from astranb.core.file_formats import names_format

from .loops import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT
from .table import COLLECTIVES, Layer, LayerTable, Part
from .words import Words

__all__ = ["SimAIWorkload", "read_simai"]

_LOOP: Final = "HYBRID_TRANSFORMER_FWD_IN_BCKWD"
_MOST_LAYERS: Final = 1_000_000
_MOST_NS: Final = 10**15
_MOST_SIZE: Final = 1 << 50
_DEGREES: Final = ("model_parallel_NPU_group", "ep", "pp", "vpp", "ga", "all_gpus")
_OTHERS: Final = ("checkpoints", "checkpoint_initiates", "pp_comm")
_PLAIN: Final = ("TP", "TP", "DP")
_PHASES: Final = {FORWARD: "forward", INPUT_GRADIENT: "input gradient", WEIGHT_GRADIENT: "weight gradient"}


class SimAIWorkload(NamedTuple):
    """A workload of SimAI.

    Attributes
    ----------
    table : LayerTable
        The layers of one pipeline stage, times in ns.
    groups : dict of (int, int) to str
        The group of the collective of a layer's part: ``TP``, ``DP``, ``EP`` or ``DP_EP``.
    degrees : dict of str to int
        ``model_parallel_NPU_group`` (TP), ``ep``, ``pp``, ``vpp``, ``ga`` and ``all_gpus``.
    pipeline_bytes : int
        Size of a message between pipeline stages, which only SimAI's analytical mode uses.
    """

    table: LayerTable
    groups: dict[tuple[int, int], str]
    degrees: dict[str, int]
    pipeline_bytes: int


@names_format("SimAI workload")
def read_simai(path: str | Path) -> SimAIWorkload:
    r"""Read a workload of SimAI.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    InputError
        The file cannot be read, or a word is invalid; the error names the line.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "w.txt"
    >>> head = f"{_LOOP} model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 1 ga: 1 all_gpus: 4"
    >>> layer = "moe -1 10 ALLTOALL_EP 64 10 ALLTOALL_EP 64 10 ALLGATHER 128 0"
    >>> _ = file.write_text(f"{head} checkpoints: 0 checkpoint_initiates: 0\n1\n{layer}\n")
    >>> read_simai(file).groups
    {(0, 0): 'EP', (0, 1): 'EP', (0, 2): 'DP'}
    """
    words = Words(path)
    loop = words.word("the training loop")
    if loop != _LOOP:
        words.fail(f"the training loop is {loop[:40]!r}", f"write {_LOOP}")
    given: dict[str, int] = {}
    while words.left and words.line == 1:
        name = words.word("a degree").rstrip(":")
        if name not in (*_DEGREES, *_OTHERS):
            words.fail(f"unknown {name[:40]!r}", near(name[:40], (*_DEGREES, *_OTHERS)))
        given[name] = words.number(name)
        if name.startswith("checkpoint") and given[name]:
            words.fail(f"{given[name]} {name}", "SimAI's tables have none: write 0")
    for name in _DEGREES:
        if given.get(name, 0) < 1:
            words.fail(f"{name} is missing or 0", f"write {name}: and a number from 1", 1)
    count = words.number("the number of layers", 1, _MOST_LAYERS)
    layers: list[Layer] = []
    groups: dict[tuple[int, int], str] = {}
    for number in range(count):
        name = words.word("a layer's name")
        words.number("the reserved number", -_MOST_SIZE)
        parts = []
        for phase, said in _PHASES.items():
            time = words.number(f"{said} compute time", 0, _MOST_NS)
            kind, _, group = words.word(f"{said} collective").partition("_")
            if kind not in COLLECTIVES or group not in ("", "EP", "DP_EP"):
                known = [f"{one}{end}" for one in COLLECTIVES[1:] for end in ("", "_EP", "_DP_EP")]
                words.fail(
                    f"unknown collective {kind[:40]}{group and '_'}{group[:40]}", near(kind[:40], known)
                )
            size = words.number(f"{said} size", 0, _MOST_SIZE)
            if size and kind != "NONE":
                groups[number, phase] = group or _PLAIN[phase]
                parts.append(Part(time, kind, size))
            else:
                parts.append(Part(time))
        update = words.number("update time", 0, _MOST_NS)
        layers.append(Layer(name, parts[0], parts[1], parts[2], update))
    if words.left:
        words.fail(f"more than the {count} layers that line 2 announces", "correct the number", words.line)
    table = LayerTable(_LOOP, tuple(layers), given["model_parallel_NPU_group"], where=str(path))
    degrees = {name: given[name] for name in _DEGREES}
    return SimAIWorkload(table, groups, degrees, given.get("pp_comm", 0))
