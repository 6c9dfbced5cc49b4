"""Small traces of one or two nodes: every type of node, attribute and collective.

Their names are those of mlcommons/chakra (``src/generator/generator.py``, 21585d8), so that a test that takes
its files takes these. Messages have peers, which that generator leaves out, so that all can be simulated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from astranb.core.errors import InputError, near
from astranb.core.limits import MOST_RANKS

from .rank_trace import Trace
from .schema import Attribute, CollectiveType, NodeType
from .trace_builder import TraceBuilder

__all__ = ["CASES", "TraceCase", "case"]


@dataclass(frozen=True)
class TraceCase:
    """The traces of a case.

    Attributes
    ----------
    name : str
    traces : sequence of Trace
        Of each rank; equal ones are shared.
    groups : mapping of int to list of int
        The ranks of each group.
    """

    name: str
    traces: Sequence[Trace]
    groups: Mapping[int, list[int]] = field(default_factory=dict)


@dataclass(frozen=True)
class _CaseRank:
    """Inputs of a rank's trace."""

    step: TraceBuilder
    rank: int
    npus: int
    duration_us: int
    tensor_size: int
    comm_size: int


_Writer = Callable[[_CaseRank], object]
"""Adds the nodes of a rank."""

_VALUES: Final[dict[str, bool | int | float | str | bytes]] = {
    "double": 0.5, "float": 0.25, "int32": -32, "int64": -(1 << 40), "uint32": 32, "uint64": 1 << 63,
    "sint32": -33, "sint64": -(1 << 41), "fixed32": 34, "fixed64": 1 << 42, "sfixed32": -35,
    "sfixed64": -(1 << 43), "bool": True, "string": "text", "bytes": b"\x00\xff",
}  # fmt: skip


def _metadata(one: _CaseRank) -> None:
    attributes = {kind: Attribute(value, f"{kind}_val", kind) for kind, value in _VALUES.items()}
    lists = {
        f"{kind}_list": Attribute((value, value), f"{kind}_list", f"two of {kind}")
        for kind, value in _VALUES.items()
    }
    one.step.add(NodeType.METADATA, "METADATA_NODE", attributes | lists)


def _compute(one: _CaseRank) -> int:
    return one.step.compute("COMP_NODE", duration_us=one.duration_us)


def _two(one: _CaseRank) -> None:
    for _ in range(2):
        _compute(one)


def _chain(one: _CaseRank) -> None:
    first = _compute(one)
    one.step.compute("COMP_NODE", duration_us=one.duration_us, after=first)


def _collective(kind: CollectiveType) -> _Writer:
    def write(one: _CaseRank) -> None:
        size = 0 if kind == CollectiveType.BARRIER else one.comm_size
        one.step.collective(kind.name.lower(), size, name=kind.name)

    return write


def _message(*, first_sends: bool) -> _Writer:
    """Send from one rank of each pair to the other."""

    def write(one: _CaseRank) -> None:
        peer = one.rank ^ 1
        if (one.rank < peer) == first_sends:
            one.step.send(one.comm_size, peer, rank=one.rank, name="COMM_SEND_NODE")
        else:
            one.step.recv(one.comm_size, peer, rank=one.rank, name="COMM_RECV_NODE")

    return write


def _grouped(one: _CaseRank) -> None:
    half = str(1 + 2 * one.rank // one.npus)
    one.step.collective("all_reduce", one.comm_size, name="ALL_REDUCE", group=half)


_WRITERS: Final[dict[str, tuple[str, _Writer]]] = {
    "one_metadata_node_all_types": ("a metadata node with attributes of every kind", _metadata),
    "one_remote_mem_load_node": (
        "a load from remote memory",
        lambda one: one.step.memory_load(one.tensor_size, name="MEM_LOAD_NODE"),
    ),
    "one_remote_mem_store_node": (
        "a store to remote memory",
        lambda one: one.step.memory_store(one.tensor_size, name="MEM_STORE_NODE"),
    ),
    "one_comp_node": ("a computation", _compute),
    "two_comp_nodes_independent": ("two computations", _two),
    "two_comp_nodes_dependent": ("two computations, one after the other", _chain),
    **{
        f"one_comm_coll_node_{kind.name.lower().replace('_', '')}": (
            f"{'an' if kind.name[0] == 'A' else 'a'} {kind.name.lower().replace('_', '-')}",
            _collective(kind),
        )
        for kind in CollectiveType
    },
    "one_comm_send_node": ("each even rank sends to the next one", _message(first_sends=True)),
    "one_comm_recv_node": ("each even rank receives from the next one", _message(first_sends=False)),
    "two_comm_groups_allreduce": ("an all-reduce in each half of the ranks", _grouped),
}

CASES: Final = {name: text for name, (text, _) in _WRITERS.items()}
"""Description of each case, by its name."""


def case(
    name: str, npus: int = 64, *, duration_us: int = 5, tensor_size: int = 1024, comm_size: int = 65536
) -> TraceCase:
    """Make the traces of a case.

    Parameters
    ----------
    name : str
        One of :data:`CASES`.
    npus : int
        The number of ranks; even for messages and groups.
    duration_us : int
        Of computations.
    tensor_size, comm_size : int
        Bytes of loads and stores, and of communication.

    Raises
    ------
    InputError
        There is no such case, or a number does not fit.

    Examples
    --------
    >>> made = case("one_comm_send_node", 4)
    >>> [int(one.type[0]) for one in made.traces], int(made.traces[2].comm_dst[0])
    ([5, 6, 5, 6], 3)
    """
    if name not in _WRITERS:
        raise InputError(f"unknown case {name[:60]!r}", where="case", hint=near(name, _WRITERS))
    for what, value in (("npus", npus), ("duration_us", duration_us), ("tensor_size", tensor_size),
                        ("comm_size", comm_size)):  # fmt: skip
        if not 1 <= value <= (MOST_RANKS if what == "npus" else 1 << 40):
            raise InputError(f"{value} is out of range", where=what, hint="take 1 or more")
    pairs = name in ("one_comm_send_node", "one_comm_recv_node", "two_comm_groups_allreduce")
    if pairs and npus % 2:
        raise InputError(
            f"{npus} ranks do not divide into pairs or halves", where=name, hint="take an even number"
        )
    traces: list[Trace] = []
    for rank in range(npus):
        if rank and not pairs:
            traces.append(traces[0])
            continue
        step = TraceBuilder()
        _WRITERS[name][1](_CaseRank(step, rank, npus, duration_us, tensor_size, comm_size))
        traces.append(step.build(f"{name}.{rank}.et"))
    groups = {}
    if name == "two_comm_groups_allreduce":
        groups = {1: list(range(npus // 2)), 2: list(range(npus // 2, npus))}
    return TraceCase(name, traces, groups)
