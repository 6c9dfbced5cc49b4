"""The programs of all ranks: as traces, as files, and as operations to simulate."""

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np

from astranb.chakra import Attribute, CollectiveType, Distinct, Hole, Node, NodeType, Template, Trace
from astranb.core.errors import InputError
from astranb.core.files import whole_file
from astranb.core.state import require_bytes
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    COMPUTE,
    RECV,
    SEND,
    InfraNetwork,
    Network,
    Operations,
)
from astranb.workload.astrasim2 import Workload as OnCluster

from ._gpu import DEFAULT_GPU, Roofline
from ._parallel import GROUPS, PEERS, Parallelism
from ._program import Program

__all__ = ["Workload"]

_KINDS: Final = {
    int(NodeType.COMP): COMPUTE,
    int(NodeType.COMM_SEND): SEND,
    int(NodeType.COMM_RECV): RECV,
    int(NodeType.COMM_COLL): COLLECTIVE,
}
_COLLECTIVES: Final = {-1: 0} | {
    int(CollectiveType[name.upper()]): number for name, number in COLLECTIVE_NAMES.items()
}
_OWN: Final = "own"
_NODE_BYTES: Final = 500
"""What an operation takes here and in the tables of a run."""


class Workload:
    """What every rank does in one step.

    Parameters
    ----------
    parallelism : Parallelism
    stages : sequence of Program
        One for each stage of the pipeline.
    tokens : int
        Tokens, pictures or samples that the step goes through.
    gpu : Roofline, optional
        Whose durations computations are to have; they have none unless given.
    unit : str
        What is counted: tokens, pictures, samples.

    Examples
    --------
    >>> from astranb.workload.models import workload
    >>> step = workload("gpt3-125m", Parallelism(data=2, tensor=2))
    >>> step.ranks, len(step.trace(0)), step.groups
    (4, 118, {1: [0, 1], 2: [2, 3], 3: [0, 2], 4: [1, 3]})
    """

    def __init__(
        self,
        parallelism: Parallelism,
        stages: Sequence[Program],
        tokens: int,
        gpu: Roofline | None = None,
        unit: str = "tokens",
    ) -> None:
        self.parallelism, self.stages = parallelism, tuple(stages)
        self.tokens, self.gpu, self.unit = tokens, gpu, unit

    @property
    def ranks(self) -> int:
        """How many ranks there are."""
        return self.parallelism.ranks

    @property
    def nodes(self) -> int:
        """How many operations all ranks have."""
        return sum(map(len, self.stages)) * self.parallelism.per_stage

    @property
    def spans_all(self) -> bool:
        """Whether any collective is among all ranks, and goes over all dimensions of the network."""
        used = {GROUPS[group] for one in self.stages for group in one.group if group >= 0}
        return any(self.parallelism.size(name) == self.ranks for name in used)

    @property
    def model_flops(self) -> int:
        """Operations of the model's matrices, of all ranks; what is done again counts once."""
        return sum(sum(one.useful) for one in self.stages) * self.parallelism.per_stage

    @cached_property
    def _numbered(self) -> list[tuple[int, str, list[int]]]:
        """All groups with their numbers, which have as many digits as one another."""
        found = list(self.parallelism.groups())
        used = {GROUPS[group] for one in self.stages for group in one.group if group >= 0}
        found = [one for one in found if one[0] in used]
        first = 1
        while 9 * first < len(found):
            first *= 10
        return [(first + at, name, members) for at, (name, members) in enumerate(found)]

    @property
    def groups(self) -> dict[int, list[int]]:
        """The ranks of each group, as ASTRA-sim's file of communicator groups has them."""
        return {number: members for number, _, members in self._numbered}

    @cached_property
    def _number(self) -> dict[str, list[int]]:
        """The number of each rank's group; -1 where it is in none, or in that of all."""
        found = {name: [-1] * self.ranks for name in GROUPS}
        for number, name, members in self._numbered:
            for rank in members:
                found[name][rank] = number
        return found

    def trace_bytes(self, rank: int) -> bytes:
        """Write a rank's trace as its file holds it.

        Parameters
        ----------
        rank : int

        Returns
        -------
        bytes
        """
        stage = self.parallelism.stage(self._known(rank))
        ends = {name: self.parallelism.peer(at, rank) for at, name in enumerate(PEERS)} | {_OWN: rank}
        widths = {name: max(1, -(-who.bit_length() // 7)) for name, who in ends.items()}
        values: dict[str, int | str] = {**ends}
        for name in GROUPS:
            values[name] = str(self._number[name][rank])
        key = (stage, *widths.values())
        if key not in self._templates:
            self._templates[key] = Template(self._nodes(stage, widths))
        return self._templates[key].filled(values)

    @cached_property
    def _templates(self) -> dict[tuple[int, ...], Template]:
        return {}

    def trace(self, rank: int) -> Trace:
        """Give a rank's trace.

        Parameters
        ----------
        rank : int

        Returns
        -------
        Trace
        """
        return Trace(self.trace_bytes(rank), f"rank {rank}")

    def write(self, prefix: str | Path) -> list[Path]:
        """Write ``PREFIX.RANK.et`` for each rank, and ``PREFIX.groups.json``.

        Parameters
        ----------
        prefix : str or Path

        Returns
        -------
        list of Path
            What was written.

        Raises
        ------
        InputError
            It cannot be written there.
        """
        written = []
        for rank in range(self.ranks):
            file = Path(f"{prefix}.{rank}.et")
            with whole_file(file) as out:
                out.write(self.trace_bytes(rank))
            written.append(file)
        file = Path(f"{prefix}.groups.json")
        with whole_file(file) as out:
            out.write(json.dumps({str(number): ranks for number, ranks in self.groups.items()}).encode())
        return [*written, file]

    def operations(self) -> list[Operations]:
        """Give all ranks' operations, as they are simulated; ranks that do the same share them.

        Returns
        -------
        list of Operations

        Raises
        ------
        InputError
            They would not fit in memory.
        """
        hint = "take fewer ranks, microbatches or layers"
        require_bytes(_NODE_BYTES * self.nodes, where=f"{self.nodes:,} operations", hint=hint)
        known: dict[tuple[Any, ...], Operations] = {}
        plain = [_plain(one, self._durations(one)) for one in self.stages]
        names = [Distinct.of(one.names) for one in self.stages]
        listed = []
        for rank in range(self.ranks):
            stage = self.parallelism.stage(rank)
            rows, start, deps, group, peer = plain[stage]
            numbers = [self._number[name][rank] for name in GROUPS]
            peers = [self.parallelism.peer(at, rank) for at in range(len(PEERS))]
            used = tuple(peers[at] for at in np.unique(peer[peer >= 0]).tolist())
            key = (stage, *[numbers[at] for at in np.unique(group[group >= 0]).tolist()], *used)
            if key not in known:
                mine = rows.copy()
                mine["group"] = np.array([*numbers, -1], np.int64)[group]
                mine["peer"] = np.array([*peers, -1], np.int64)[peer]
                known[key] = Operations(mine, start, deps, names=names[stage])
            listed.append(known[key])
        return listed

    def on(self, network: Network | InfraNetwork | None = None, gpu: str | None = None) -> OnCluster:
        """Put the step on a cluster, as ``astranb run --model`` does.

        Parameters
        ----------
        network : Network or InfraNetwork, optional
            Assumed where not given (:func:`machine`).
        gpu : str, optional
            The GPU whose roofline limits computations; :data:`DEFAULT_GPU` where not given.

        Returns
        -------
        astranb.workload.astrasim2.Workload

        Raises
        ------
        InputError
            The network has another number of NPUs.
        """
        from ._machine import machine

        cluster = machine(self, gpu or DEFAULT_GPU, network=network)
        return OnCluster(self.operations(), cluster.network, cluster.system, groups=self.groups)

    def _known(self, rank: int) -> int:
        if not 0 <= rank < self.ranks:
            raise InputError(f"there is no rank {rank}", where="rank", hint=f"take 0 to {self.ranks - 1}")
        return rank

    def _durations(self, program: Program) -> np.ndarray:
        """Microseconds of computations, rounded up, on the GPU where there is one."""
        if self.gpu is None:
            return np.zeros(len(program), np.int64)
        took = [
            self.gpu.microseconds(flops, size) if kind == NodeType.COMP else 0
            for kind, flops, size in zip(program.kind, program.flops, program.size, strict=True)
        ]
        return np.array(took, np.int64)

    def _nodes(self, stage: int, widths: dict[str, int]) -> list[tuple[Node, dict[str, Hole]]]:
        """A stage's nodes, with holes for what its ranks have of their own."""
        program, made = self.stages[stage], []
        durations = self._durations(program).tolist()
        digits = len(str(self._numbered[0][0])) if self._numbered else 1
        host = Attribute(False, "bool_val")  # noqa: FBT003 - an attribute's value
        for number, kind in enumerate(program.kind):
            said: dict[str, Attribute] = {"is_cpu_op": host}
            holes: dict[str, Hole] = {}
            size = program.size[number]
            if kind == NodeType.COMP:
                said["num_ops"] = Attribute(program.flops[number], "int64_val")
                said["tensor_size"] = Attribute(size, "uint64_val")
            else:
                said["comm_size"] = Attribute(size, "int64_val")
            if kind == NodeType.COMM_COLL:
                said["comm_type"] = Attribute(program.collective[number], "int64_val")
                group = GROUPS[program.group[number]]
                if self.parallelism.size(group) < self.ranks:
                    holes["pg_name"] = Hole(group, digits, is_text=True)
            elif kind != NodeType.COMP:
                said["comm_tag"] = Attribute(program.tag[number], "int32_val")
                ends = [_OWN, PEERS[program.peer[number]]]
                if kind == NodeType.COMM_RECV:
                    ends.reverse()
                holes = {
                    key: Hole(who, widths[who])
                    for key, who in zip(("comm_src", "comm_dst"), ends, strict=True)
                }
            node = Node(
                number, program.names[number], kind, program.deps[number],
                duration_us=durations[number], attributes=said,
            )  # fmt: skip
            made.append((node, holes))
        return made


def _plain(
    program: Program, durations: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """A stage's operations without numbers of groups and peers."""
    rows = np.zeros(len(program), Operations.of([]).rows.dtype)
    rows["involved"] = (1 << 62) - 1
    for name, column in (
        ("kind", [_KINDS[kind] for kind in program.kind]),
        ("flops", program.flops),
        ("bytes", program.size),
        ("tag", program.tag),
        ("collective", [_COLLECTIVES[one] for one in program.collective]),
        ("duration_us", durations),
    ):
        rows[name] = column
    start = np.concatenate([[0], np.cumsum([len(each) for each in program.deps])]).astype(np.int64)
    deps = np.array([dep for each in program.deps for dep in each], np.int64)
    return rows, start, deps, np.array(program.group), np.array(program.peer)
