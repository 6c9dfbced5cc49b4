"""Nodes of a traced rank in a scaled job: with other sizes, and holes for groups and peers."""

from __future__ import annotations

from collections.abc import Iterator
from copy import copy
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import Any, Final

import numpy as np

from astranb.chakra.traces import Attribute, CollectiveType, Node, NodeType, Trace, check, topological_order
from astranb.core.errors import InputError

from .restage import StageProgramRows, StageRow
from .scale_rules import ScaleRules
from .traced_plan import ALONE, REPLICAS, Shift, TracedJob

__all__ = ["OWN", "ScaledRank"]

OWN: Final = "own"
"""The hole for the number of the rank itself."""
_SUMS: Final = (CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER)
_MESSAGES: Final = (NodeType.COMM_SEND, NodeType.COMM_RECV)
_STAGES: Final = 2
"""Roles of peers below are stages."""
_QUEUES: Final = {
    int(NodeType.COMP): "compute", int(NodeType.COMM_SEND): "communicate",
    int(NodeType.COMM_COLL): "communicate", int(NodeType.MEM_LOAD): "memory",
    int(NodeType.MEM_STORE): "memory",
}  # fmt: skip
"""Queues of nodes that run one after another in a trace that was written so."""
_MEMORY: Final = (NodeType.MEM_LOAD, NodeType.MEM_STORE)
_NO_GROUPS: Final = ("['[]']", "[[]]", "['String']")
_ROOTS: Final = {
    CollectiveType.BROADCAST: "comm_src", CollectiveType.SCATTER: "comm_src",
    CollectiveType.REDUCE: "comm_dst", CollectiveType.GATHER: "comm_dst",
}  # fmt: skip


class ScaledRank:
    """Trace of a traced rank in the scaled job, but for group and peer numbers.

    Attributes
    ----------
    rank : int
        The traced one.
    trace : Trace
        With the sizes of the scaled job, without groups and peers.
    roles : list of str
        The role of each collective's group (``GROUPS`` of ``parallelism``), ``""`` for others.
    peers : list
        The role of each message's peer: a position in ``PEERS`` of ``parallelism``, or how far it is; None
        for others.
    """

    def __init__(self, job: TracedJob, rank: int, rules: ScaleRules) -> None:
        self.rank = rank
        self.holes: list[dict[str, str]] = []
        self.keys: dict[str, Any] = {}
        self.notes: set[str] = set()
        trace = job.traces[rank]
        check(trace)
        self._job, self._rules, self._trace = job, rules, trace
        self.roles, self.peers = self._named()
        self._update_rows = self._updates()
        self.nodes = list(self._scaled())

    @cached_property
    def trace(self) -> Trace:
        """The scaled trace, without groups and peers."""
        return Trace.of(self.nodes, source=self._trace.source)

    def _named(self) -> tuple[list[str], list[int | Shift | None]]:
        """Return the roles of groups and peers."""
        trace, job, traced = self._trace, self._job, self._rules.traced
        roles, peers = [""] * len(trace), [None] * len(trace)  # type: list[str], list[int | Shift | None]
        background = (trace.integers("comm_stream") > 0).tolist()
        kinds, collectives = trace.type.tolist(), trace.comm_type.tolist()
        known: dict[tuple[int, int, bool], str] = {}
        for row, kind in enumerate(kinds):
            if kind == NodeType.COMM_COLL:
                key = int(trace.pg_name.index[row]), collectives[row], background[row]
                if key not in known:
                    members = job.members(self.rank, trace.pg_name[row] or "")
                    known[key] = job.role(traced, self.rank, members, key[1], background=key[2])
                roles[row] = known[key]
            elif kind in _MESSAGES:
                sends = kind == NodeType.COMM_SEND
                peer = int((trace.comm_dst if sends else trace.comm_src)[row])
                if peer == self.rank:
                    raise InputError(
                        "a message to itself", where=trace.place(row), hint="give the receiving rank"
                    )
                peers[row] = job.peer_role(traced, self.rank, peer, sends=sends)
        return roles, peers

    def _updates(self) -> dict[int, bool]:
        """Find the updates of parameters: what waits for sums over replicas; and whether of a part."""
        trace = self._trace
        sums = np.isin(trace.comm_type, _SUMS) & np.array([one in REPLICAS for one in self.roles], bool)
        owner, parent = trace.parents.owner, trace.parents.flat
        found: dict[int, bool] = {}
        for row, dep in zip(owner[sums[parent]].tolist(), parent[sums[parent]].tolist(), strict=True):
            if trace.type[row] == NodeType.COMP:
                is_part = trace.comm_type[dep] == CollectiveType.REDUCE_SCATTER
                found[row] = found.get(row, False) or bool(is_part)
        return found

    def _scaled(self) -> Iterator[Node]:
        """Yield the nodes of the scaled job, and remember what is to be filled in."""
        trace, rules = self._trace, self._rules
        updates = self._update_rows
        host = trace.is_cpu_op & (trace.type == NodeType.COMP)
        stays = bool(host.any() and (~trace.is_cpu_op & (trace.type == NodeType.COMP)).any())
        for row, node in enumerate(trace.nodes()):
            holes: dict[str, str] = {}
            changed: dict[str, Attribute] = dict(node.attributes)
            factor, fixed = Fraction(1), 0
            if node.type == NodeType.COMM_COLL:
                collective = int(trace.comm_type[row])
                factor = rules.communication(node.type, self.roles[row], collective, None)
                self._collective(row, collective, changed, holes)
                _times(changed, "comm_size", factor)
                factor = Fraction(1)
            elif node.type in _MESSAGES:
                factor = rules.communication(node.type, "", -1, self.peers[row])
                ends = [OWN, self._key("peer", self.peers[row])]
                if node.type == NodeType.COMM_RECV:
                    ends.reverse()
                named = zip(("comm_src", "comm_dst"), ends, strict=True)
                holes = {name: key for name, key in named if changed.pop(name, None) is not None}
                _times(changed, "comm_size", factor)
                factor = Fraction(1)
            elif node.type == NodeType.COMP and not (stays and host[row]):
                factor = rules.computation(update=row in updates, is_part=updates.get(row, False))
                fixed = rules.update_ns if row in updates else 0
                for name in ("num_ops", "tensor_size"):
                    _times(changed, name, factor)
            elif node.type == NodeType.COMP:
                self.notes.add("host")
            elif node.type in _MEMORY:
                self.notes.add("memory")
                zero = rules.replicas if rules.traced.zero else Fraction(1)
                if rules.micro != 1 or rules.parts != 1 or zero != 1:
                    what = "what the memory outside the GPUs holds does not follow from loads and stores"
                    raise InputError(what, where=trace.place(row), hint="scale data parallelism without ZeRO")
            elif node.type == NodeType.METADATA and node.inputs is not None and '"ranks"' in node.inputs[0]:
                # ASTRA-sim reads the process groups of a PyTorch job here.
                self.notes.add("lists")
                node = replace(node, inputs=_NO_GROUPS)  # noqa: PLW2901 - the others stay
            if node.duration_us and node.type not in (NodeType.COMP, NodeType.METADATA):
                self.notes.add("durations")
            self.holes.append(holes)
            yield replace(
                node, attributes=changed, duration_us=_took(node.duration_us, changed, factor, fixed)
            )

    @cached_property
    def _order(self) -> list[int]:
        return topological_order(self._trace).tolist()  # type: ignore[no-any-return]

    def stage_rows(self) -> list[StageRow]:
        """Return the nodes in an order in which they can be done, for another pipeline."""
        trace = self.trace
        place = {row: at for at, row in enumerate(self._order)}
        background = (trace.integers("comm_stream") > 0).tolist()
        columns = (trace.type, trace.comm_type, trace.comm_size, trace.num_ops, trace.tensor_size)
        numbers = np.array(columns).T.tolist()
        found = []
        for row in self._order:
            kind, peer = int(trace.type[row]), self.peers[row]
            queue = _QUEUES.get(kind, "")
            if kind == NodeType.COMM_COLL and background[row]:
                queue = "background"
            elif kind == NodeType.COMM_RECV:
                queue = f"receive {peer}"
            elif kind == NodeType.COMP and trace.is_cpu_op[row]:
                queue = "host"
            beside = peer if isinstance(peer, int) and peer < _STAGES else -1
            found.append(
                StageRow(
                    (*numbers[row], self.roles[row], peer, background[row], bool(trace.is_cpu_op[row])),
                    kind == NodeType.COMP,
                    queue,
                    beside if kind == NodeType.COMM_SEND else -1,
                    beside if kind == NodeType.COMM_RECV else -1,
                    tuple(sorted(place[one] for one in trace.parents.of(row).tolist())),
                )
            )
        return found

    def in_stage(self, made: StageProgramRows) -> ScaledRank:
        """Return what the rank does in a stage of another pipeline."""
        rows = [self._order[at] for at in made.rows]
        sums = np.isin(self._trace.comm_type, _SUMS) & np.array([one in REPLICAS for one in self.roles], bool)
        size = np.where(sums, self.trace.comm_size, 0)
        whole = int(size.sum())
        held = Fraction(int(size[rows].sum()), whole) if whole else Fraction(1)
        other = copy(self)
        other.__dict__.pop("trace", None)
        other.__dict__.pop("_order", None)
        other.roles, other.peers = [self.roles[row] for row in rows], [self.peers[row] for row in rows]
        other.holes = [self.holes[row] for row in rows]
        other.nodes = []
        for at, (row, parents, micro) in enumerate(zip(rows, made.parents, made.micro, strict=True)):
            node = self.nodes[row]
            attributes, took = dict(node.attributes), node.duration_us
            if row in self._update_rows:
                for name in ("num_ops", "tensor_size"):
                    _times(attributes, name, held)
                took = _took(took, attributes, held, self._rules.update_ns)
            elif self.roles[row] in REPLICAS and any(rows[one] in self._update_rows for one in parents):
                _times(attributes, "comm_size", held)  # what the update changed is gathered at once
            if micro >= 0:
                back = (node.type == NodeType.COMM_SEND) == (self.peers[row] == 0)
                attributes["comm_tag"] = Attribute(2 * micro + back, "int32_val")
            other.nodes.append(
                replace(node, id=at, data_deps=parents, ctrl_deps=(), attributes=attributes, duration_us=took)
            )
        return other

    def _collective(
        self, row: int, collective: int, changed: dict[str, Attribute], holes: dict[str, str]
    ) -> None:
        """Leave the group and the root of a collective to be filled in."""
        role = self.roles[row]
        changed.pop("pg_name", None)
        if self._spans(role):
            holes["pg_name"] = self._key("group", role)
        name = _ROOTS.get(CollectiveType(collective))
        if name is not None and changed.get(name) is not None:
            members = self._job.members(self.rank, self._trace.pg_name[row] or "")
            root = int(self._trace.integers(name)[row])
            if root not in members:
                what = f"the root {root} of a collective is not in its group"
                raise InputError(what, where=self._trace.place(row), hint="give a rank of the group")
            del changed[name]
            holes[name] = self._key("root", (role, members.index(root)))
            self.notes.add("root")
        if collective == CollectiveType.ALL_TO_ALL and role not in ("", ALONE):
            self.notes.add("exchange")

    def _spans(self, role: str) -> bool:
        """Return whether a group has fewer than all ranks, and so a number."""
        return role == ALONE or self._rules.target.size(role) < self._rules.target.ranks

    def _key(self, what: str, value: Any) -> str:
        key = f"{what} {value}"
        self.keys[key] = (what, value)
        return key


def _times(attributes: dict[str, Attribute], name: str, factor: Fraction) -> None:
    """Multiply a whole number, and round up."""
    one = attributes.get(name)
    if factor != 1 and one is not None and isinstance(one.value, int):
        value = -(-one.value * factor.numerator // factor.denominator)
        attributes[name] = one._replace(value=value)


def _took(duration_us: int, attributes: dict[str, Attribute], factor: Fraction, fixed_ns: int) -> int:
    """Multiply a duration but for what a kernel takes anyway; gives the one in microseconds."""
    if factor == 1:
        return duration_us
    exact = attributes.get("duration_ns")
    known = isinstance(exact.value, int) and exact.value > 0 if exact is not None else False
    took = exact.value if exact is not None and known else duration_us * 1000
    if not isinstance(took, int) or not took:
        return duration_us
    fixed_ns = min(fixed_ns, took)
    took = max(1, fixed_ns + round((took - fixed_ns) * factor))
    if exact is not None and known:
        attributes["duration_ns"] = exact._replace(value=took)
    return -(-took // 1000)
