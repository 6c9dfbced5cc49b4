"""A workload from a grammar and sizes: the traces of all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from astranb.chakra.traces import KIND_OF, Attribute, CollectiveType, Hole, Node, NodeType, Template, Trace

from .job import CorpusJob
from .outline import SIZES, GroupRole, Letter, Outline

if TYPE_CHECKING:
    import numpy as np

__all__ = ["kind_name", "written"]

_OWN: Final = "own"


def kind_name(kind: int, collective: int) -> str:
    """Name a kind of node, as ``all_reduce`` or ``comp``.

    Examples
    --------
    >>> kind_name(4, -1), kind_name(7, 0)
    ('comp', 'all_reduce')
    """
    if kind == NodeType.COMM_COLL:
        return CollectiveType(collective).name.lower()
    return NodeType(kind).name.lower()


def written(
    outline: Outline,
    sizes: np.ndarray,
    more_layers: int,
    plan: tuple[int, int, int],
    parameters: float,
    batch: float,
) -> CorpusJob:
    """Write out a grammar under a plan.

    Parameters
    ----------
    outline : Outline
    sizes : array of int, shape (symbols, 4)
        As ``SIZES``; -1 for none.
    more_layers : int
        Added to the repetitions of each module.
    plan : tuple of int
        Tensor, data and pipeline.
    parameters, batch : float
        What the workload is a step of.
    """
    tensor, data, pipeline = plan
    ranks, per_stage = tensor * data * pipeline, tensor * data
    roles = list(dict.fromkeys(one.role for one in outline.letters if one.role is not None))
    members: dict[tuple[int, ...], list[int]] = {}
    for at, role in enumerate(roles):
        for rank in range(ranks):
            if rank // per_stage in role.stages:
                members.setdefault(_group(at, role, rank, plan), []).append(rank)
    width = len(str(len(members))) + 1  # all numbers have as many digits
    numbers = {
        key: str(10 ** (width - 1) + at)
        for at, key in enumerate(key for key, those in members.items() if len(those) < ranks)
    }
    known: dict[tuple[int, ...], Template] = {}
    traces = []
    for rank in range(ranks):
        stage, place = divmod(rank, per_stage)
        values: dict[str, int | str] = {_OWN: rank}
        values |= {f"stage {at}": at * per_stage + place for at in range(pipeline)}
        widths = {name: max(1, -(-int(one).bit_length() // 7)) for name, one in values.items()}
        for at, role in enumerate(roles):
            values[f"group {at}"] = numbers.get(_group(at, role, rank, plan), "")
        key = (stage, *widths.values())
        if key not in known:
            holes = [
                Hole(f"group {at}", width, is_text=True) if values[f"group {at}"] else None
                for at in range(len(roles))
            ]
            nodes = _nodes(outline, sizes, stage, more_layers, widths, dict(zip(roles, holes, strict=True)))
            known[key] = Template(nodes)
        traces.append(Trace(known[key].filled(values), f"rank {rank}"))
    groups = {name: members[key] for key, name in numbers.items()}
    return CorpusJob(traces, groups, parameters, batch, tensor, data, pipeline)


def _group(number: int, role: GroupRole, rank: int, plan: tuple[int, int, int]) -> tuple[int, ...]:
    """Return what the ranks of one group have in common: the role, and their places on the other axes."""
    tensor, data, _ = plan
    return (number, -1 if role.tensor else rank % tensor, -1 if role.data else rank // tensor % data)


def _nodes(
    outline: Outline,
    sizes: np.ndarray,
    stage: int,
    more_layers: int,
    widths: dict[str, int],
    groups: dict[GroupRole, Hole | None],
) -> Iterator[tuple[Node, dict[str, Hole]]]:
    """Yield the nodes of a stage, with holes for what differs between its ranks."""
    given = [_attributes(letter, sizes[letter.symbol].tolist()) for letter in outline.letters]
    durations = sizes[:, SIZES.index("duration_ns")]
    for number, (at, parents, tag) in enumerate(outline.expanded(stage, more_layers)):
        letter = outline.letters[at]
        attributes, holes = given[at], {}
        if letter.peer >= 0:
            attributes = attributes | {"comm_tag": Attribute(tag, "int32_val")}
            ends = [_OWN, f"stage {letter.peer}"]
            if letter.type == NodeType.COMM_RECV:
                ends.reverse()
            holes = {
                name: Hole(who, widths[who]) for name, who in zip(("comm_src", "comm_dst"), ends, strict=True)
            }
        elif letter.role is not None:
            group = groups[letter.role]
            holes = {} if group is None else {"pg_name": group}
        took_us = max(0, -(-int(durations[letter.symbol]) // 1000))
        name = kind_name(letter.type, letter.collective)
        node = Node(number, name, letter.type, parents, duration_us=took_us, attributes=attributes)
        yield node, holes


def _attributes(letter: Letter, sizes: list[int]) -> dict[str, Attribute]:
    """Return what nodes of a letter have on all ranks."""
    declared = {"is_cpu_op": Attribute(letter.cpu, "bool_val")}
    for name, size in zip(SIZES, sizes, strict=True):
        if size >= 0:
            declared[name] = Attribute(size, KIND_OF.get(name, "int64_val"))
    if letter.collective >= 0:
        declared["comm_type"] = Attribute(letter.collective, "int64_val")
    if letter.background:
        declared["comm_stream"] = Attribute(1, "int64_val")
    return declared
