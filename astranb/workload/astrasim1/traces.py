"""Layer tables of ASTRA-sim 1.0 and workloads of SimAI as Chakra traces.

The training loop of the table is followed as the simulation follows it (:mod:`.loops`), so that every loop,
a user's own too, has a Chakra form. Names are those that ``src/converter/text_converter.py`` of
mlcommons/chakra gives. Times of 1.0's tables become microseconds, as there; SimAI's are nanoseconds.
"""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from astranb.chakra import Hole, Template, Trace, TraceBuilder, write_ranks
from astranb.chakra.scaling import Parallelism, plan_document
from astranb.core.errors import InputError

from .loops import FORWARD, INPUT_GRADIENT, WEIGHT_GRADIENT, Action, Layers, loop_named
from .roofline import CountedWork, ProductWork
from .simai import SimAIWorkload, read_simai
from .table import LayerTable, Part
from .table_file import read_layer_table

__all__ = ["TableTrace", "layer_table_trace", "simai_trace", "write_table_ranks"]

_MOST_NODES: Final = 4_000_000
_MOST_BYTES: Final = 64 << 30
_PHASES: Final = {FORWARD: "FWD", INPUT_GRADIENT: "BWD_IG", WEIGHT_GRADIENT: "BWD_WG"}
_KINDS: Final = {
    "ALLREDUCE": "all_reduce",
    "ALLTOALL": "all_to_all",
    "ALLGATHER": "all_gather",
    "REDUCESCATTER": "reduce_scatter",
}


class TableTrace(NamedTuple):
    """Trace of each rank, and the groups that its collectives name.

    Attributes
    ----------
    trace : Trace
        Of any rank: ``pg_name`` is ``TP``, ``DP``, ``EP`` or ``DP_EP``, or absent for all ranks.
    tensor, expert, pipeline : int
        Degrees of parallelism; 1 where a table gives none.
    ranks : int
        How many ranks there are; 0 where the table does not say.
    notes : tuple of str
        What a reader should know.
    """

    trace: Trace
    tensor: int = 1
    expert: int = 1
    pipeline: int = 1
    ranks: int = 0
    notes: tuple[str, ...] = ()

    def groups(self, ranks: int) -> dict[str, list[list[int]]]:
        """The groups of ranks by name, each list those of one kind.

        Tensor-parallel ranks are neighbours, and data-parallel ones as far apart as a replica has ranks;
        experts are divided over neighbouring tensor-parallel groups (SimAI's ``MockNcclGroup.cc``).
        """
        tensor, replica = self.tensor, self.tensor * self.pipeline
        if ranks % (replica * self.expert):
            degrees = f"{self.tensor} x {self.pipeline} x {self.expert} (TP, PP, EP)"
            what = f"{ranks} ranks are not a multiple of {degrees}"
            raise InputError(what, where="--npus", hint="use a multiple of their product")
        blocks = [list(range(first, first + tensor)) for first in range(0, ranks, tensor)]
        data = [list(range(first, ranks, replica)) for first in range(replica)]
        apart, experts, replicas = self.expert, [], []
        copies = ranks // replica // apart
        for first in range(0, len(blocks), apart):
            experts += [[block[at] for block in blocks[first : first + apart]] for at in range(tensor)]
        for first in range(0, len(blocks), apart * copies):
            for begin in range(first, first + apart):
                some = blocks[begin : first + apart * copies : apart]
                replicas += [[block[at] for block in some] for at in range(tensor)]
        return {"TP": blocks, "DP": data, "EP": experts, "DP_EP": replicas}


def layer_table_trace(path: str | Path, passes: int = 1) -> TableTrace:
    r"""Read a layer table as a trace.

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
    >>> [(node.name, node.duration_us) for node in layer_table_trace(file).trace.nodes()]
    [('COMP_NODE_fc_FWD', 5), ('COMP_NODE_fc_BWD_WG', 7), ('COMM_COLL_NODE_fc_ALLREDUCE', 0)]
    """
    table = read_layer_table(path)
    groups = {}
    if table.group is not None:
        for number, layer in enumerate(table.layers):
            for phase, part in zip(_PHASES, layer.parts, strict=True):
                if part.collective != "NONE":
                    groups[number, phase] = "DP" if phase == WEIGHT_GRADIENT else "TP"
    trace = _trace_of(table, groups, passes, ns_per_unit=1000)
    return TableTrace(trace, tensor=table.group or 1)


def simai_trace(path: str | Path, passes: int = 1) -> TableTrace:
    """Read a workload of SimAI as a trace: that of one pipeline stage, whose layers all ranks have.

    Parameters
    ----------
    path : str or Path
    passes : int
        How many times to go through the table.

    Raises
    ------
    InputError
        The message names the file, the line and the fault.
    """
    workload: SimAIWorkload = read_simai(path)
    degrees = workload.degrees
    trace = _trace_of(workload.table, workload.groups, passes, ns_per_unit=1)
    notes = []
    if degrees["pp"] > 1:
        notes.append(
            f"{path}: {degrees['pp']} pipeline stages do the same; the {workload.pipeline_bytes:,} bytes "
            "between them are not simulated, as in SimAI"
        )
    tensor = degrees["model_parallel_NPU_group"]
    return TableTrace(trace, tensor, degrees["ep"], degrees["pp"], degrees["all_gpus"], tuple(notes))


def write_table_ranks(table: TableTrace, prefix: str | Path, *, ranks: int) -> list[Path]:
    """Write ``PREFIX.RANK.et`` for each rank, and ``PREFIX.groups.json`` if collectives name groups.

    ``PREFIX.job.json`` has the degrees of parallelism, but of pipelines: SimAI numbers their ranks otherwise.

    Raises
    ------
    InputError
        The ranks cannot be divided into the table's groups, or a file cannot be written.
    """
    used = sorted(name for name in table.trace.pg_name.values if name)
    beside = {}
    if table.pipeline == 1 and ranks % (table.tensor * table.expert) == 0:
        degrees = Parallelism(data=ranks // table.tensor, tensor=table.tensor, expert=table.expert)
        beside[Path(f"{prefix}.job.json")] = json.dumps(plan_document(degrees), indent=1).encode()
    if not used:
        return write_ranks(lambda _rank: table.trace.data, prefix, ranks=ranks, others=beside)
    kinds = table.groups(ranks)
    listed = {name: kinds[name] for name in used}
    count = sum(map(len, listed.values()))
    if ranks * len(table.trace.data) > _MOST_BYTES:
        what = f"the traces are too large: {ranks:,} of {len(table.trace.data):,} bytes"
        raise InputError(what, where=str(prefix), hint="write FILE.et for one rank, or fewer with --npus")
    first = 10 ** len(str(count))  # numbers of equal length, from 10 on: 0 is the group of all
    group_of: list[dict[str, int | str]] = [{} for _ in range(ranks)]
    numbered: dict[str, list[int]] = {}
    for name, lists in listed.items():
        for members in lists:
            number = str(first + len(numbered))
            numbered[number] = members
            for rank in members:
                group_of[rank][name] = number
    width = len(str(first))
    nodes = []
    for node in table.trace.nodes():
        named = node.attributes.get("pg_name")
        others = {name: one for name, one in node.attributes.items() if name != "pg_name"}
        holes = {"pg_name": Hole(str(named.value), width, is_text=True)} if named else {}
        nodes.append((replace(node, attributes=others), holes))
    template = Template(nodes)
    beside[Path(f"{prefix}.groups.json")] = json.dumps(numbered).encode()
    return write_ranks(lambda rank: template.filled(group_of[rank]), prefix, ranks=ranks, others=beside)


def _trace_of(
    table: LayerTable, groups: dict[tuple[int, int], str], passes: int, *, ns_per_unit: int
) -> Trace:
    most = max(_MOST_NODES // (6 * len(table.layers)), 1)
    if not 1 <= passes <= most:
        what = f"{passes} passes of {len(table.layers)} layers"
        raise InputError(what, where="passes", hint=f"use 1 to {most:,}")
    writer = _LoopWriter(table, groups, ns_per_unit)
    layers = Layers.of(table)
    for _ in range(passes):
        for step in loop_named(table.loop).function(layers):
            for action in (step,) if isinstance(step, Action) else step:
                writer.act(action)
    return writer.made.build(table.where)


class _LoopWriter:
    """Nodes from the actions of a training loop: computations one after the other, and what they wait for."""

    def __init__(self, table: LayerTable, groups: dict[tuple[int, int], str], ns_per_unit: int) -> None:
        self.layers, self.groups, self.made = table.layers, groups, TraceBuilder()
        self._ns_per_unit = ns_per_unit
        self._last: list[int] = []
        self._waits: list[int] = []
        self._flying: dict[tuple[int, int], list[int]] = {}
        self._left_ns = 0

    def act(self, action: Action) -> None:
        """Add what an action does."""
        layer = self.layers[action.layer]
        part = layer.parts[action.part]
        place = action.layer, action.part
        if action.verb == "wait":
            self._waits += self._flying.pop(place, [])
        elif action.verb == "compute":
            self._compute(f"COMP_NODE_{layer.name}_{_PHASES[action.part]}", part)
        elif part.collective != "NONE" and part.size:
            collective = self.made.collective(
                _KINDS[part.collective],
                part.size,
                name=f"COMM_COLL_NODE_{layer.name}_{part.collective}",
                group=self.groups.get(place),
                after=sorted({*self._last, *self._waits}),
            )
            self._flying.setdefault(place, []).append(collective)

    def _compute(self, name: str, part: Part) -> None:
        work = part.work
        operations = size = None
        if isinstance(work, ProductWork):
            operations = 2 * work.m * work.k * work.n
        elif isinstance(work, CountedWork):
            operations, size = round(work.operations), round(work.moved_bytes)
        # What is less than a microsecond is carried over, so that the sum is right.
        time_ns = part.compute_ns * self._ns_per_unit + self._left_ns
        duration = time_ns // 1000
        self._left_ns = time_ns % 1000
        after = sorted({*self._last, *self._waits})
        if not duration and not operations and self._ns_per_unit == 1:
            self._last, self._waits = after, []  # SimAI writes 1 ns where nothing is computed
            return
        node = self.made.compute(
            name, duration_us=duration, num_ops=operations or None, tensor_size=size, after=after
        )
        self._last, self._waits = [node], []
