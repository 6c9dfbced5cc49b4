"""One step of a model on all ranks, as traces, files or operations."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Final

import numpy as np

from astranb.chakra import (
    Attribute,
    CollectiveType,
    Distinct,
    Hole,
    Node,
    NodeType,
    Template,
    Trace,
    write_ranks,
)
from astranb.chakra.scaling import GROUPS, PEERS, Parallelism, numbered_groups, plan_document
from astranb.core.arrays import flat_lists
from astranb.core.errors import InputError
from astranb.core.keywords import hinted
from astranb.gpu import preset
from astranb.hardware import Gpu
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    COMPUTE,
    MEMORY,
    RECV,
    SEND,
    DimensionNetwork,
    Footprint,
    InfraNetwork,
    Memory,
    Operations,
    RankOperations,
    Workload,
)
from astranb.workload.kernels import (
    DEFAULT_GPU,
    Grid,
    HostUpdate,
    HybridMemory,
    Kernel,
    KernelTimes,
    MemoryTier,
    TimedKernel,
    gpu_named,
    grids,
)

from .cluster import machine
from .convolutional import data_parallel
from .costs import Costs
from .dlrm import Dlrm, recommendation, recommendation_memory
from .footprint import step_footprint
from .job import Job
from .library import Model, find_model
from .memory import RankMemory, StageMemory, step_memory
from .pipeline import check, stage_programs
from .program import StageProgram
from .transformer import Transformer
from .weights import shares

__all__ = ["ModelStep", "workload"]

_KINDS: Final = {
    int(NodeType.COMP): COMPUTE,
    int(NodeType.COMM_SEND): SEND,
    int(NodeType.COMM_RECV): RECV,
    int(NodeType.COMM_COLL): COLLECTIVE,
    int(NodeType.MEM_LOAD): MEMORY,
    int(NodeType.MEM_STORE): MEMORY,
}
_COLLECTIVES: Final = {-1: 0} | {
    int(CollectiveType[name.upper()]): number for name, number in COLLECTIVE_NAMES.items()
}
_OWN: Final = "own"
_SAMPLES: Final = 32
"""Default pictures or samples of a microbatch of a rank."""


class ModelStep:
    """Operations of every rank in one step of a model.

    Parameters
    ----------
    parallelism : Parallelism
    stages : sequence of StageProgram
        One for each stage of the pipeline; where ranks of a tensor group have different shares of the model,
        one for each share of each stage.
    tokens : int
        Tokens, pictures or samples of the step.
    times : KernelTimes, optional
        The times of the GPU's kernels; by default computations have no durations.
    unit : str
        Tokens, pictures or samples.
    title : str
        Name of the model.
    precision : str
        Of products with parameters.
    plan : tuple of (Transformer, Job), optional
        What the stages are made from; other models have none.
    shares : sequence of int, optional
        The number of each tensor rank's share, from 0. Default: all have the same.
    held : sequence of RankMemory, optional
        What the fullest rank of each stage holds, where there is no plan to count it from.
    conditions : mapping of str to float, optional
        The model's ``parameters`` and the ``batch`` of the step, where they are known.

    Examples
    --------
    >>> from astranb import models
    >>> step = models.workload("gpt3-125m", Parallelism(data=2, tensor=2))
    >>> step.ranks, len(step.trace(0)), step.groups
    (4, 142, {1: [0, 1], 2: [2, 3], 3: [0, 2], 4: [1, 3]})
    """

    subject: ClassVar = "model"

    def __init__(
        self,
        parallelism: Parallelism,
        stages: Sequence[StageProgram],
        tokens: int,
        times: KernelTimes | None = None,
        unit: str = "tokens",
        title: str = "workload",
        precision: str = "bf16",
        plan: tuple[Transformer, Job] | None = None,
        shares: Sequence[int] | None = None,
        held: Sequence[RankMemory] = (),
        conditions: Mapping[str, float] | None = None,
    ) -> None:
        self.precision = precision if times is None else times.precision
        self.parallelism, self.stages = parallelism, tuple(stages)
        self.tokens, self.times, self.unit, self.title = tokens, times, unit, title
        self.plan, self._held, self._conditions = plan, tuple(held), dict(conditions or {})
        self.shares = tuple(shares or [0] * parallelism.tensor)
        self.share_count = 1 + max(self.shares)

    @property
    def ranks(self) -> int:
        """The number of ranks."""
        return self.parallelism.ranks

    @property
    def all_reduce(self) -> str:
        """The algorithm of all-reduces that libraries for this kind of step take."""
        generates = self.plan is not None and self.plan[1].mode != "training"
        parts = self.parallelism.tensor
        return "halvingDoubling" if generates and parts > 1 and not parts & (parts - 1) else "ring"

    @property
    def message_bytes(self) -> int:
        """Bytes that a tensor-parallel all-reduce sums: the activations between two layers."""
        return 0 if self.plan is None else Costs(*self.plan).activation

    @property
    def nodes(self) -> int:
        """The number of operations of all ranks."""
        return self._summed(map(len, self.stages))

    @property
    def is_even(self) -> bool:
        """Whether the ranks of a stage do the same."""
        return self.share_count == 1

    def program_of(self, rank: int) -> int:
        """Return the number of a rank's program in :attr:`stages`."""
        degrees = self.parallelism
        return degrees.stage(rank) * self.share_count + self.shares[rank % degrees.tensor]

    def _summed(self, each: Iterable[int]) -> int:
        """Sum a number of each program over all ranks."""
        of_share = [self.shares.count(number) for number in range(self.share_count)]
        groups = self.parallelism.per_stage // self.parallelism.tensor
        return groups * sum(one * of_share[at % len(of_share)] for at, one in enumerate(each))

    @cached_property
    def _used(self) -> set[str]:
        """The roles of groups that communicate."""
        return {GROUPS[group] for one in self.stages for group in one.group if group >= 0}

    @property
    def spans_all(self) -> bool:
        """Whether a collective is among all ranks, and so crosses all dimensions of the network."""
        return any(self.parallelism.size(name) == self.ranks for name in self._used)

    @property
    def model_flops(self) -> int:
        """Floating-point operations of the model's matrices on all ranks, without recomputation."""
        return self._summed(sum(one.useful) for one in self.stages)

    @property
    def hardware_flops(self) -> int:
        """The same with recomputation."""
        return self._summed(sum(one.counted) for one in self.stages)

    @cached_property
    def _numbered(self) -> list[tuple[int, str, list[int]]]:
        """All groups with their numbers, which have the same number of digits."""
        return numbered_groups(one for one in self.parallelism.groups() if one[0] in self._used)

    @property
    def groups(self) -> dict[int, list[int]]:
        """The ranks of each numbered group, as in ASTRA-sim's file of communicator groups."""
        return {number: members for number, _, members in self._numbered}

    @cached_property
    def _number(self) -> dict[str, list[int]]:
        """The number of each rank's group; -1 for none, or for that of all ranks."""
        found = {name: [-1] * self.ranks for name in GROUPS}
        for number, name, members in self._numbered:
            for rank in members:
                found[name][rank] = number
        return found

    def times_of(self, program: int) -> KernelTimes | None:
        """Return the times of kernels of a program in :attr:`stages`.

        With an expansion they depend on what the fullest rank of its stage holds.
        """
        return self._times[program]

    @cached_property
    def _times(self) -> list[KernelTimes | None]:
        if self.times is None or self.times.expanded is None:
            return [self.times] * len(self.stages)
        each = [
            self.times.holding(
                one.parts, 0 if self.plan is None else StageMemory(*self.plan, one.stage).offloaded
            )
            for one in self.memory()
        ]
        return [one for one in each for _ in range(self.share_count)]

    @property
    def left_out(self) -> str:
        """Parts of the model's description that the model leaves out."""
        return "" if self.plan is None else self.plan[0].left_out

    @property
    def chosen(self) -> str:
        """Choice of the plan that no option named, as a sentence; empty: none."""
        if self.plan is None or self.plan[1].library or self.plan[1].framework != "pytorch":
            return ""
        return "ZeRO 3 is PyTorch's FSDP, whose kernels are not fused"

    @cached_property
    def moved_bytes(self) -> int:
        """Bytes that all ranks load from and store to the memory outside the GPUs."""
        return self._summed(
            sum(size for kind, size in zip(one.kind, one.size, strict=True) if _KINDS[kind] == MEMORY)
            for one in self.stages
        )

    @cached_property
    def expanded_bytes(self) -> int:
        """Bytes that the kernels of all ranks read from and write to expanded memory."""

        def of(program: StageProgram, times: KernelTimes | None) -> int:
            if times is None or times.split is None:
                return 0
            launched = (one for kernels in program.kernels for one in kernels)
            return round(sum(times.split.expanded_of(times.moved_parts(one)) for one in launched))

        return self._summed(map(of, self.stages, self._times))

    @property
    def host_updates(self) -> bool:
        """Whether the host updates the optimizer's state."""
        return self.plan is not None and self.plan[1].host_updates

    def memory(self) -> list[RankMemory]:
        """Return the memory of the fullest rank of each stage; of convolutional models it is not counted."""
        return list(self._fullest)

    @cached_property
    def _fullest(self) -> Sequence[RankMemory]:
        return self._held if self.plan is None else step_memory(*self.plan)

    def footprint(self, limit_bytes: int | None = None) -> Footprint | None:
        """Return what ranks hold in memory as the step goes on; of other models than transformers None.

        Parameters
        ----------
        limit_bytes : int, optional
            The memory of a GPU. Default: that of the step's, with its expansion.
        """
        if self.plan is None:
            return None
        known = self.times.memory_bytes if self.times else 0
        limit = known if limit_bytes is None else limit_bytes
        if limit not in self._footprints:
            program = [self.program_of(rank) for rank in range(self.ranks)]
            self._footprints[limit] = step_footprint(*self.plan, self.stages, limit, program=program)
        return self._footprints[limit]

    @cached_property
    def _footprints(self) -> dict[int, Footprint]:
        return {}

    def trace_bytes(self, rank: int) -> bytes:
        """Return the contents of a rank's trace file."""
        program = self.program_of(self._known(rank))
        ends = {name: self.parallelism.peer(at, rank) for at, name in enumerate(PEERS)} | {_OWN: rank}
        widths = {name: max(1, -(-who.bit_length() // 7)) for name, who in ends.items()}
        values: dict[str, int | str] = {**ends}
        for name in GROUPS:
            values[name] = str(self._number[name][rank])
        key = (program, *widths.values())
        if key not in self._templates:
            self._templates[key] = Template(self._nodes(program, widths))
        return self._templates[key].filled(values)

    @cached_property
    def _templates(self) -> dict[tuple[int, ...], Template]:
        return {}

    def trace(self, rank: int) -> Trace:
        """Return a rank's trace."""
        return Trace(self.trace_bytes(rank), f"rank {rank}")

    def write(self, prefix: str | Path) -> list[Path]:
        """Write ``PREFIX.RANK.et``, ``PREFIX.groups.json`` and ``PREFIX.job.json``: all of them or none.

        The last one has the degrees of parallelism, the model's size and the batch, for a corpus of jobs.
        Traces of further ranks with this prefix are removed.

        Returns
        -------
        list of Path
            The files written.

        Raises
        ------
        InputError
            A file cannot be written.
        """
        groups = json.dumps({str(number): ranks for number, ranks in self.groups.items()}).encode()
        about = json.dumps(plan_document(self.parallelism) | self._conditions, indent=1).encode()
        others = {Path(f"{prefix}.groups.json"): groups, Path(f"{prefix}.job.json"): about}
        return write_ranks(self.trace_bytes, prefix, ranks=self.ranks, others=others)

    def operations(self, *, by_lines: bool = False) -> RankOperations:
        """Return the operations of all ranks: a pattern for each stage, and share of it.

        Parameters
        ----------
        by_lines : bool
            Whether computations have their kernels, whose thread blocks a run by cache lines simulates.
        """
        if by_lines and self.times is not None and self.times.expanded is not None:
            what = "a run by cache lines has no expanded memory"
            raise InputError(what, where="expanded memory", hint="use --fidelity analytical or congestion")
        if by_lines and self.moved_bytes:
            what = "a run by cache lines has no memory outside the GPUs"
            raise InputError(what, where="offload", hint="use --fidelity analytical or congestion")
        if by_lines not in self._operations:
            self._operations[by_lines] = self._written(by_lines=by_lines)
        return self._operations[by_lines]

    @cached_property
    def _operations(self) -> dict[bool, RankOperations]:
        return {}

    def _written(self, *, by_lines: bool) -> RankOperations:
        patterns = [
            _pattern(one, self._durations[at], self._grids(one) if by_lines else ())
            for at, one in enumerate(self.stages)
        ]
        ranks = range(self.ranks)
        groups = np.array([self._number[name] for name in GROUPS], np.int64).T
        used = {peer for one in self.stages for peer in one.peer if peer >= 0}
        peers = np.full((self.ranks, len(PEERS)), -1, np.int64)
        for at in used:
            peers[:, at] = [self.parallelism.peer(at, rank) for rank in ranks]
        program = np.array([self.program_of(rank) for rank in ranks], np.int64)
        return RankOperations(patterns, program, groups, peers)

    def on(
        self,
        network: DimensionNetwork | InfraNetwork | None = None,
        gpu: str | Path | Gpu | None = None,
        *,
        by_lines: bool = False,
        memory: Memory | None = None,
    ) -> Workload:
        """Put the step on a cluster, as ``astranb run model`` does.

        A step without durations gets those of the GPU's kernels.

        Parameters
        ----------
        network : DimensionNetwork or InfraNetwork, optional
            Default: that of :func:`machine`.
        gpu : str or Path or Gpu, optional
            Name, file or numbers of the GPU. Default: the step's own, or :data:`DEFAULT_GPU`.
        by_lines : bool
            As of :meth:`operations`.
        memory : Memory, optional
            As of :func:`machine`.

        Raises
        ------
        InputError
            The network has another number of NPUs.
        """
        step = self.timed(gpu)
        if step.times is not None:
            _ = step.times.model  # a run records the plug-in, even if this step's times are known already
        cluster = machine(
            step, network=network, all_reduce=step.all_reduce, message_bytes=step.message_bytes, memory=memory
        )
        operations = step.operations(by_lines=by_lines)
        return Workload(
            operations, cluster.network, cluster.system, cluster.memory,
            self.groups, title=self.title, footprint=step.footprint(),
        )  # fmt: skip

    def timed(self, gpu: str | Path | Gpu | None = None) -> ModelStep:
        """Return the step with durations: those of a GPU's kernels, or else its own.

        Parameters
        ----------
        gpu : str or Path or Gpu, optional
            As of :meth:`on`.
        """
        if gpu is None and self.times is not None:
            return self
        found = gpu if isinstance(gpu, Gpu) else gpu_named(gpu or DEFAULT_GPU)
        return self._on(KernelTimes(found, self.precision))

    def expanded(self, memory: HybridMemory | str | None) -> ModelStep:
        """Return the step on GPUs whose memory is expanded.

        Parameters
        ----------
        memory : HybridMemory or str, optional
            Capacity, bandwidth and perhaps latency, such as ``480 GB, 500 GB/s, 500 ns``; None: no expansion.

        Raises
        ------
        InputError
            What a rank holds is not known. (What does not fit is refused when durations are needed.)

        Examples
        --------
        >>> from astranb import models, units
        >>> step = models.workload("gpt3-6.7b", gpu="a100-sxm")
        >>> found = step.expanded("480 GB, 500 GB/s").times_of(0).split
        >>> round(found.total_bytes / units.GB), round(found.fraction, 2)
        (118, 0.27)
        """
        if isinstance(memory, str):
            memory = HybridMemory(MemoryTier.of(memory))
        if memory == (None if self.times is None else self.times.expanded):
            return self
        if not self.memory():
            what = f"what a rank of {self.title} holds is not known"
            raise InputError(what, where="expanded memory", hint="take a transformer or dlrm")
        times = self.times or KernelTimes(gpu_named(DEFAULT_GPU), self.precision)
        return self._on(times.expanded_by(memory))

    def _on(self, times: KernelTimes) -> ModelStep:
        return ModelStep(
            self.parallelism,
            self.stages,
            self.tokens,
            times,
            self.unit,
            self.title,
            self.precision,
            self.plan,
            self.shares,
            self._held,
            self._conditions,
        )

    def durations_ns(self) -> list[np.ndarray]:
        """Return the durations of each stage's operations in nanoseconds; 0 for communication."""
        return [durations.copy() for durations in self._durations]

    def _known(self, rank: int) -> int:
        if not 0 <= rank < self.ranks:
            raise InputError(f"unknown rank {rank}", where="rank", hint=f"take 0 to {self.ranks - 1}")
        return rank

    @cached_property
    def _durations(self) -> list[np.ndarray]:
        return [self._durations_of(at) for at in range(len(self.stages))]

    def _durations_of(self, stage: int) -> np.ndarray:
        """Return the durations of computations on the GPU in nanoseconds."""
        program, times = self.stages[stage], self.times_of(stage)
        took = np.zeros(len(program), np.int64)
        if times is None:
            return took
        for (flops, size, kernels), rows in self.computations(stage).items():
            took[rows] = times.computation_ns(flops, size, kernels)
        return took

    def computations(self, program: int) -> dict[tuple[int, int, tuple[Kernel, ...]], np.ndarray]:
        """Return the rows of the computations of a program in :attr:`stages` that are alike.

        Returns
        -------
        dict
            By floating-point operations, bytes and kernels.
        """
        return self._computations[program]

    @cached_property
    def _computations(self) -> list[dict[tuple[int, int, tuple[Kernel, ...]], np.ndarray]]:
        each = []
        for program in self.stages:
            rows: dict[tuple[int, int, tuple[Kernel, ...]], list[int]] = {}
            columns = zip(program.kind, program.flops, program.size, program.kernels, strict=True)
            for row, (kind, flops, size, kernels) in enumerate(columns):
                if kind == NodeType.COMP:
                    rows.setdefault((flops, size, kernels), []).append(row)
            each.append({what: np.array(found) for what, found in rows.items()})
        return each

    def _grids(self, program: StageProgram) -> tuple[tuple[Grid, ...], ...]:
        """Return the thread blocks of each computation; none where its time is a part of the roofline."""
        if self.times is None or not self.times.modelled:
            return ()
        found = self.times.gpu
        gpu = found.own_machine or (preset(found.name) if found.shipped else None)
        if gpu is None:
            hint = "add it to the GPU's file, or 'like' with the name of a similar GPU"
            raise InputError("section 'machine' is missing", where=f"GPU {found.name!r}", hint=hint)
        known: dict[tuple[Kernel, ...], tuple[Grid, ...]] = {}
        for kernels in program.kernels:
            if any(isinstance(one, HostUpdate | TimedKernel) for one in kernels):
                known[kernels] = ()  # the GPU waits for the host; or only the duration is known
            elif kernels not in known:
                known[kernels] = tuple(
                    grid
                    for one in kernels
                    if not isinstance(one, HostUpdate | TimedKernel)
                    for grid in grids(one, self.times, gpu)
                )
        return tuple(known[kernels] for kernels in program.kernels)

    def _nodes(self, stage: int, widths: dict[str, int]) -> list[tuple[Node, dict[str, Hole]]]:
        """Return a stage's nodes, with holes for the values that differ between its ranks."""
        program, made = self.stages[stage], []
        durations = self._durations[stage].tolist()
        digits = len(str(self._numbered[0][0])) if self._numbered else 1
        host = Attribute(False, "bool_val")  # noqa: FBT003 - an attribute's value
        for number, kind in enumerate(program.kind):
            attributes: dict[str, Attribute] = {"is_cpu_op": host}
            holes: dict[str, Hole] = {}
            size = program.size[number]
            if kind == NodeType.COMP:
                attributes["num_ops"] = Attribute(program.flops[number], "int64_val")
                if durations[number]:
                    attributes["duration_ns"] = Attribute(durations[number], "int64_val")
                attributes["tensor_size"] = Attribute(size, "uint64_val")
            elif _KINDS[kind] == MEMORY:
                attributes["tensor_size"] = Attribute(size, "uint64_val")
                attributes["comm_stream"] = Attribute(1, "int64_val")
            else:
                attributes["comm_size"] = Attribute(size, "int64_val")
            if kind == NodeType.COMM_COLL:
                attributes["comm_type"] = Attribute(program.collective[number], "int64_val")
                if program.background[number]:
                    attributes["comm_stream"] = Attribute(1, "int64_val")
                group = GROUPS[program.group[number]]
                if self.parallelism.size(group) < self.ranks:
                    holes["pg_name"] = Hole(group, digits, is_text=True)
            elif _KINDS[kind] in (SEND, RECV):
                attributes["comm_tag"] = Attribute(program.tag[number], "int32_val")
                ends = [_OWN, PEERS[program.peer[number]]]
                if kind == NodeType.COMM_RECV:
                    ends.reverse()
                holes = {
                    key: Hole(who, widths[who])
                    for key, who in zip(("comm_src", "comm_dst"), ends, strict=True)
                }
            node = Node(
                number, program.names[number], kind, program.deps[number],
                duration_us=-(-durations[number] // 1000), attributes=attributes,
            )  # fmt: skip
            made.append((node, holes))
        return made


def _pattern(program: StageProgram, durations: np.ndarray, grids: tuple[tuple[Grid, ...], ...]) -> Operations:
    """Return a stage's operations, with positions in :data:`GROUPS` and :data:`PEERS`."""
    rows = np.zeros(len(program), Operations.of([]).rows.dtype)
    rows["involved"] = (1 << 62) - 1
    for name, column in (
        ("kind", [_KINDS[kind] for kind in program.kind]),
        ("flops", program.flops),
        ("bytes", program.size),
        ("tag", program.tag),
        ("collective", [_COLLECTIVES[one] for one in program.collective]),
        ("duration_ns", durations),
        ("stream", program.background),
        ("group", program.group),
        ("peer", program.peer),
    ):
        rows[name] = column
    start, deps = flat_lists(program.deps)
    return Operations(rows, start, deps, names=Distinct.of(program.names), grids=grids)


_DEGREES: Final = {
    name: f"write Parallelism({field}=...) behind the model"
    for short, field in (
        ("dp", "data"), ("tp", "tensor"), ("pp", "pipeline"), ("cp", "context"), ("ep", "expert"),
        ("sp", "sequence"), ("zero", "zero"),
    )
    for name in ({short, field} - {"sequence"})
}  # fmt: skip


@hinted("workload", _DEGREES)
def workload(
    model: str | Model,
    parallelism: Parallelism | None = None,
    *,
    batch: int | None = None,
    microbatches: int | None = None,
    sequence: int | None = None,
    mode: str = "training",
    tokens: int = 1,
    recompute: str | bool = "none",
    elementwise: bool = False,
    dropout: bool = False,
    expert_imbalance: float = 1.0,
    experts: int | None = None,
    top_k: int | None = None,
    expert_capacity: float = 0.0,
    attention: str = "flash",
    precision: str = "bf16",
    overlap: Sequence[str] = ("gradients", "parameters"),
    offload: str = "none",
    cache_bytes: int = 2,
    library: str = "",
    gradient_bytes: int = 2,
    dispatch_node: int = 0,
    update: str | None = None,
    uneven: bool = False,
    weights: str = "",
    lora: int = 0,
    gpu: str | Path | KernelTimes | None = None,
    expanded_memory: HybridMemory | str | None = None,
) -> ModelStep:
    """Return what every rank does in one step of a model.

    Parameters
    ----------
    model : str or model
        A name in :data:`MODELS`, a file for :func:`read_model`, or a model.
    parallelism : Parallelism, optional
        By default one rank.
    batch : int, optional
        Sequences of a step, over all replicas. Default: one per microbatch and replica; of models without
        sequences 32 samples.
    microbatches : int, optional
        Default: four per stage of a pipeline, or as many as divide the batch; one without a pipeline.
    sequence : int, optional
        Tokens of a sequence. Default: the model's.
    mode : str
        ``training``, ``prefill`` or ``decode``.
    tokens : int
        Tokens that decoding generates.
    recompute : str
        What backward passes compute again: ``none``, ``selective``, ``ops`` or ``full``.
    elementwise : bool
        Whether norms, residuals and softmax are operations of their own, each a pass over memory.
    dropout : bool
        Whether dropout is one, too.
    expert_imbalance : float
        Load of the busiest expert of a layer, relative to the mean.
    experts, top_k : int, optional
        Another number of experts of a layer and of a token (:meth:`Transformer.with_experts`).
    expert_capacity : float
        As :class:`Job` describes it.
    attention, precision, overlap, offload, cache_bytes, library, gradient_bytes, dispatch_node, uneven
        As :class:`Job` describes them.
    weights, lora
        As :class:`Job` describes them.
    update : str, optional
        Who updates an offloaded optimizer's state. Default: the GPU with an expanded memory, else the host.
    gpu : str or KernelTimes, optional
        The GPU whose kernels give computations their durations; by default they have none.
    expanded_memory : HybridMemory or str, optional
        An expansion of the GPUs' memory, as :meth:`ModelStep.expanded` takes it.

    Returns
    -------
    ModelStep

    Raises
    ------
    InputError
        The arguments do not fit together.

    Examples
    --------
    >>> step = workload("llama2-7b", Parallelism(tensor=8), mode="decode", batch=32, sequence=1024)
    >>> step.model_flops // step.tokens
    13751549952
    """
    degrees = parallelism or Parallelism()
    known = find_model(model) if isinstance(model, str) else model
    each = None if batch is None else batch // degrees.data
    micro = microbatches or _microbatches(degrees, each)
    if isinstance(known, Transformer) and mode != "training":
        weights = weights or known.weights
    times = KernelTimes(gpu_named(gpu), precision) if isinstance(gpu, str | Path) else gpu
    times = times.stored(weights) if times is not None else None
    by = update or ("host" if expanded_memory is None else "gpu")
    if not isinstance(known, Transformer):
        if sequence is not None:
            raise InputError(f"{known.name} has no sequences", where="sequence", hint="leave it out")
        if elementwise or dropout or expert_imbalance != 1 or experts or top_k or expert_capacity or uneven:
            what = f"{known.name} is not a transformer: elementwise, dropout, experts and uneven do not apply"
            raise InputError(what, where="model", hint="leave them out")
        each = batch or degrees.data * micro * _SAMPLES
        job = Job(
            degrees, 1, each, micro, mode=mode, tokens=tokens, recompute=recompute, precision=precision,
            offload=offload, update=by,
        )  # fmt: skip
        if isinstance(known, Dlrm):
            stage, unit, held = recommendation(known, job), "samples", [recommendation_memory(known, job)]
        else:
            stage, unit, held = data_parallel(known, job), "pictures", []
        step = ModelStep(
            degrees, [stage], job.batch, times, unit, known.name, precision, held=held,
            conditions={"parameters": known.parameters, "batch": job.batch},
        )  # fmt: skip
        return step.expanded(expanded_memory)
    if experts or top_k:
        known = known.with_experts(experts or 0, top_k or 0)
    job = Job(
        degrees,
        sequence or known.sequence,
        batch or degrees.data * micro,
        micro,
        mode=mode,
        tokens=tokens,
        recompute=recompute,
        elementwise=elementwise,
        dropout=dropout,
        expert_imbalance=expert_imbalance,
        attention=attention,
        precision=precision,
        overlap=tuple(overlap),
        offload=offload,
        cache_bytes=cache_bytes,
        library=library,
        gradient_bytes=gradient_bytes,
        dispatch_node=dispatch_node,
        expert_capacity=expert_capacity,
        update=by,
        uneven=uneven,
        weights=weights,
        lora=lora,
    )
    check(known, job)
    stages = [one for stage in range(degrees.pipeline) for one in stage_programs(known, job, stage)]
    step = ModelStep(
        degrees, stages, job.new_tokens, times, title=known.name, precision=precision, plan=(known, job),
        shares=shares(known, degrees.tensor),
        conditions={"parameters": known.parameters, "batch": job.batch},
    )  # fmt: skip
    return step.expanded(expanded_memory)


def _microbatches(degrees: Parallelism, each: int | None) -> int:
    """Return the number of microbatches that hides most of the pipeline's bubble and divides the batch."""
    most = 4 * degrees.pipeline if degrees.pipeline > 1 else 1
    if not each:
        return most
    step = degrees.pipeline if degrees.interleave > 1 else 1
    return max((n for n in range(step, min(most, each) + 1, step) if each % n == 0), default=step)
