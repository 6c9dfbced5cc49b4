"""A model's step as a JSON document, and back, to the bit.

Operations that differ in nothing but their place are one operator, listed once for all stages; a stage is a
list of their numbers. So the document grows with the length of a stage's program, not with the ranks.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

from astranb.chakra import CollectiveType, NodeType
from astranb.chakra.scaling import GROUPS, PEERS
from astranb.core.document import DocumentNode
from astranb.core.errors import InputError
from astranb.workload.kernels import (
    Attention,
    Gpu,
    HostUpdate,
    Kernel,
    KernelTimes,
    Product,
    Stream,
    TimedKernel,
)
from astranb.workload.models import Job, ModelStep, Parallelism, StageProgram, Transformer, Unit

__all__ = ["step_document", "step_of"]

_KINDS: Final = {
    NodeType.COMP: "compute",
    NodeType.COMM_COLL: "collective",
    NodeType.COMM_SEND: "send",
    NodeType.COMM_RECV: "receive",
}
_KIND_OF: Final = {name: kind for kind, name in _KINDS.items()}
_KERNELS: Final = {one.__name__: one for one in (Product, Attention, Stream, HostUpdate, TimedKernel)}
_NUMBER: Final = re.compile(r"(?<!\d)(?:0|[1-9]\d{0,15})(?!\d)")
"""Numbers in names that are written again as they were."""
_MOST: Final = 1 << 62


class _Numbered:
    """Values by the order in which they were first seen."""

    def __init__(self) -> None:
        self.known: dict[Any, int] = {}

    def of(self, value: Hashable) -> int:
        return self.known.setdefault(value, len(self.known))


def step_document(step: ModelStep) -> dict[str, Any]:
    """Return everything of a step as plain data.

    Parameters
    ----------
    step : ModelStep
    """
    operators, kernels = _Numbered(), _Numbered()
    stages = [_stage_document(one, operators, kernels) for one in step.stages]
    plan = None
    if step.plan is not None:
        model, job = step.plan
        plan = {"model": asdict(model), "job": {**asdict(job), "parallelism": None}}
    return {
        "title": step.title,
        "tokens": step.tokens,
        "unit": step.unit,
        "precision": step.precision,
        "parallelism": asdict(step.parallelism),
        "times": None if step.times is None else _times_document(step.times),
        "plan": plan,
        "kernels": [[_kernel_document(one) for one in listed] for listed in kernels.known],
        "operators": [_operator_document(*one) for one in operators.known],
        "stages": stages,
        **({} if step.is_even else {"shares": list(step.shares)}),
    }


def _times_document(times: KernelTimes) -> dict[str, Any]:
    return {
        "gpu": {**asdict(times.gpu), "peaks": dict(times.gpu.peaks), "matrices": dict(times.gpu.matrices)},
        "precision": times.precision,
        "efficiency": times.efficiency,
        "launch": times.launch,
        **({} if times.costs == "kernels" else {"costs": times.costs}),
        "sustained": times.sustained,
        "stream_k": times.stream_k,
        **({"weights": times.weights} if times.weights else {}),
        **({"power": times.power} if times.power < 1 else {}),
    }


def _kernel_document(one: Kernel) -> dict[str, Any]:
    """Return a kernel by the fields that differ from their defaults."""
    given = {field.name: getattr(one, field.name) for field in fields(one)}
    defaults = {field.name: field.default for field in fields(one)}
    return {
        "kernel": type(one).__name__,
        **{name: value for name, value in given.items() if value != defaults[name]},
    }


def _operator_document(
    kind: int, flops: int, size: int, useful: int, counted: int, kernels: int, *communication: int
) -> dict[str, Any]:
    collective, group, peer, background = communication
    found: dict[str, Any] = {"kind": _KINDS[NodeType(kind)], "bytes": size}
    if kind == NodeType.COMP:
        return found | {"flops": flops, "useful": useful, "counted": counted, "kernels": kernels}
    if kind == NodeType.COMM_COLL:
        name = CollectiveType(collective).name.lower()
        return found | {"collective": name, "group": GROUPS[group], "background": bool(background)}
    return found | {"peer": PEERS[peer]}


def _stage_document(program: StageProgram, operators: _Numbered, kernels: _Numbered) -> dict[str, Any]:
    names, waits = _Numbered(), _Numbered()
    numbers: list[int] = []
    name: list[int] = []
    for text in program.names:
        name.append(names.of(tuple(_NUMBER.split(text))))
        numbers += map(int, _NUMBER.findall(text))
    wait = [waits.of(tuple(row - dep for dep in deps)) for row, deps in enumerate(program.deps)]
    columns = zip(
        program.kind, program.flops, program.size, program.useful, program.counted,
        map(kernels.of, program.kernels), program.collective, program.group, program.peer,
        program.background, strict=True,
    )  # fmt: skip
    return {
        "operators": [operators.of(one) for one in columns],
        "tags": _runs(program.tag),
        "names": list(names.known),
        "name": name,
        "numbers": numbers,
        "waits": list(waits.known),
        "wait": wait,
        "units": [[one.key, one.chunk, int(one.is_forward), one.first, one.last] for one in program.units],
    }


def _runs(values: Sequence[int]) -> list[list[int]]:
    """Return the rows and values that are not 0: only messages have tags."""
    return [[row, value] for row, value in enumerate(values) if value]


def step_of(document: DocumentNode) -> ModelStep:
    """Make the step of a document again.

    Parameters
    ----------
    document : DocumentNode
        What :func:`step_document` gave.

    Raises
    ------
    InputError
        It is damaged; the text names the place.
    """
    degrees = _made(Parallelism, document.get("parallelism"))
    kernels = [tuple(_kernel(one) for one in listed.items()) for listed in document.get("kernels").items()]
    operators = [_operator(one, kernels) for one in document.get("operators").items()]
    stages = [_stage(one, degrees, operators) for one in document.get("stages").items()]
    shares = _shares(document.get("shares"), degrees) if document.has("shares") else [0]
    if len(stages) != degrees.pipeline * (1 + max(shares)):
        what = f"{len(stages)} stages, and pipeline parallelism {degrees.pipeline}"
        raise document.get("stages").error(what, "is the file damaged?")
    plan = None
    if document.get("plan").value is not None:
        given = document.get("plan")
        model = _made(Transformer, given.get("model"))
        plan = model, _made(Job, given.get("job"), parallelism=degrees, overlap=tuple)
    times = None if document.get("times").value is None else _times(document.get("times"))
    unit, title, precision = (document.get(name).text() for name in ("unit", "title", "precision"))
    tokens = document.get("tokens").number(0, _MOST)
    return ModelStep(
        degrees, stages, tokens, times, unit, title, precision, plan, shares if any(shares) else None
    )


def _shares(given: DocumentNode, degrees: Parallelism) -> list[int]:
    """Return the share of each tensor rank; they are numbered as they are first seen."""
    found = [one.number(0, degrees.tensor) for one in given.items()]
    if len(found) != degrees.tensor or list(dict.fromkeys(found)) != list(range(1 + max(found))):
        raise given.error(f"not the shares of {degrees.tensor} ranks", "is the file damaged?")
    return found


def _made(kind: Any, given: DocumentNode, **more: Any) -> Any:
    """Make an object of its fields; of ``more``, callables convert a field and others are its value."""
    if not isinstance(given.value, dict) or not given.value.keys() <= {one.name for one in fields(kind)}:
        raise given.error(f"these are not the fields of {kind.__name__}", "is the file damaged?")
    values = dict(given.value)
    for name, value in more.items():
        values[name] = value(values[name]) if callable(value) else value
    try:
        return kind(**values)
    except TypeError as error:
        raise given.error(str(error), "is the file damaged?") from None


def _times(given: DocumentNode) -> KernelTimes:
    def tiles(listed: Iterable[Iterable[float]]) -> tuple[tuple[float, ...], ...]:
        return tuple(tuple(one) for one in listed)

    gpu = _made(Gpu, given.get("gpu"), fp8_tiles=tiles)
    efficiency, costs = given.get("efficiency"), given.get("costs", None)
    return KernelTimes(
        gpu,
        given.get("precision").text(),
        efficiency=None if efficiency.value is None else efficiency.real(0.01, 1),
        launch=given.get("launch").text(),
        sustained=given.get("sustained").real(0, 10),
        stream_k=given.get("stream_k").truth(),
        weights=given.get("weights", "").text(),
        power=given.get("power", 1.0).real(0.01, 1),
        costs="kernels" if costs.value is None else costs.text(),
    )


def _kernel(given: DocumentNode) -> Kernel:
    name = given.get("kernel").choice(tuple(_KERNELS))
    values = {key: value for key, value in given.value.items() if key != "kernel"}
    made: Kernel = _made(_KERNELS[name], DocumentNode(values, given.source, given.place))
    return made


def _operator(given: DocumentNode, kernels: Sequence[tuple[Kernel, ...]]) -> tuple[Any, ...]:
    """Return an operator's columns, in the order of :func:`_stage`."""
    kind = _KIND_OF[given.get("kind").choice(tuple(_KIND_OF))]
    size = given.get("bytes").number(0, _MOST)
    if kind == NodeType.COMP:
        numbers = [given.get(name).number(0, _MOST) for name in ("flops", "useful", "counted")]
        launched = kernels[given.get("kernels").number(0, len(kernels) - 1)]
        return int(kind), size, *numbers, launched, -1, -1, -1, False
    if kind == NodeType.COMM_COLL:
        names = tuple(one.name.lower() for one in CollectiveType)
        collective = CollectiveType[given.get("collective").choice(names).upper()]
        group = GROUPS.index(given.get("group").choice(GROUPS))
        return int(kind), size, 0, 0, 0, (), int(collective), group, -1, given.get("background").truth()
    return int(kind), size, 0, 0, 0, (), -1, -1, PEERS.index(given.get("peer").choice(PEERS)), False


def _stage(given: DocumentNode, degrees: Parallelism, operators: Sequence[tuple[Any, ...]]) -> StageProgram:
    program = StageProgram(degrees)
    try:
        listed = [operators[at] for at in _indices(given.get("operators"), len(operators))]
        count = len(listed)
        columns = zip(*listed, strict=True) if listed else [()] * 10
        (
            program.kind, program.size, program.flops, program.useful, program.counted, program.kernels,
            program.collective, program.group, program.peer, program.background,
        ) = (list(column) for column in columns)  # fmt: skip
        program.tag = [0] * count
        for row, tag in given.get("tags").value:
            program.tag[row] = tag
        patterns, numbers = given.get("names").value, iter(given.get("numbers").value)
        for at in _indices(given.get("name"), len(patterns)):
            first, *rest = patterns[at]
            program.names.append(first + "".join([f"{next(numbers)}{part}" for part in rest]))
        waits = given.get("waits").value
        for row, at in enumerate(_indices(given.get("wait"), len(waits))):
            program.deps.append(tuple(row - back for back in waits[at]))
            if any(not 0 <= dep < row for dep in program.deps[-1]):
                raise given.get("wait").error(f"operation {row} waits for one that is not before it")
        for key, chunk, is_forward, *ends in given.get("units").value:
            program.units.append(Unit(key, chunk, bool(is_forward), *ends))
    except (TypeError, ValueError, IndexError, StopIteration) as error:
        if isinstance(error, InputError):
            raise
        raise given.error(f"not a stage: {error}"[:200], "is the file damaged?") from None
    if not len(program.names) == len(program.deps) == count:
        raise given.error("columns of different lengths", "is the file damaged?")
    computed = [row for row, kind in enumerate(program.kind) if kind == NodeType.COMP]
    program.computed = computed[-1] if computed else -1
    return program


def _indices(given: DocumentNode, count: int) -> list[int]:
    """Return numbers that are all below a count."""
    if not isinstance(given.value, list):
        raise given.error("a list is expected")
    if any(type(one) is not int or not 0 <= one < count for one in given.value):
        raise given.error(f"a number is not one of 0 to {count - 1}", "is the file damaged?")
    return given.value
