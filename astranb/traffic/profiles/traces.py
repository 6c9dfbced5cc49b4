"""Profiles of Chakra traces: what ranks of a small run did, scaled to more ranks."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np

from astranb.chakra import CollectiveType, NodeType, ScaledJob, ScaledRank, read_present, scale
from astranb.chakra.scaling import GROUPS, PEERS, Parallelism
from astranb.core.errors import InputError
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    COMPUTE,
    RECV,
    SEND,
    operations_of,
)
from astranb.workload.kernels import DEFAULT_GPU, KernelTimes, TimedKernel, gpu_named
from astranb.workload.models import ModelStep, StageProgram

from .profile import Profile

__all__ = ["profile_traces"]

_NAME_OF: Final = {number: name for name, number in COLLECTIVE_NAMES.items()}
_KINDS: Final = {
    COMPUTE: NodeType.COMP,
    COLLECTIVE: NodeType.COMM_COLL,
    SEND: NodeType.COMM_SEND,
    RECV: NodeType.COMM_RECV,
}


def profile_traces(
    prefix: str | Path,
    parallelism: Parallelism | Mapping[str, Any] | None = None,
    *,
    groups: str | Path | None = None,
    traced: Parallelism | None = None,
    micro: int = 1,
    gpu: str | Path | KernelTimes = DEFAULT_GPU,
    tokens: int = 0,
) -> Profile:
    """Profile the traces of a few ranks, and scale what they did to more ranks.

    Every stage of the pipeline needs the trace of one rank. The rules of scaling are those of
    :func:`astranb.chakra.scale`; they are in the profile's assumptions.

    Parameters
    ----------
    prefix : str or Path
        Of the files ``PREFIX.RANK.et``.
    parallelism : Parallelism or mapping of str to int, optional
        Degrees of the job that is wanted, or those of them that differ from the traced job's.
    groups : str or Path, optional
        The ranks of each group. Default: ``PREFIX.groups.json``, where there is one.
    traced : Parallelism, optional
        Degrees of the traced job. Default: those that explain its groups and peers.
    micro : int
        How many times as many sequences a microbatch has.
    gpu : str or KernelTimes
        Whose roofline gives durations, where the traces have none.
    tokens : int
        Of the traced step.

    Raises
    ------
    InputError
        The traces do not tell what is asked for; the text says why.

    Examples
    --------
    >>> import tempfile
    >>> from astranb import models
    >>> prefix = Path(tempfile.mkdtemp()) / "small"
    >>> _ = models.workload("gpt3-125m", Parallelism(data=2, tensor=4), gpu="h100-sxm").write(prefix)
    >>> profile = profile_traces(prefix, {"data": 16})
    >>> profile.ranks, profile.assumptions["traced job"]
    (64, '8 ranks: data 2, tensor 4')
    """
    traces = read_present(prefix)
    timed = any(
        ((one.duration_us > 0) | (one.integers("duration_ns") > 0))[one.type == NodeType.COMP].any()
        for one in traces.values()
    )
    if isinstance(gpu, KernelTimes):
        times = gpu
    else:
        times = KernelTimes(gpu_named(gpu), efficiency=None if timed else 1.0)
    if not timed and times.efficiency is None:
        what = "the traces have neither durations nor shapes of kernels"
        raise InputError(what, where=str(prefix), hint="take the roofline: --efficiency ideal")
    job = scale(
        prefix, groups=groups, traced=traced, target=parallelism, micro=micro, update_ns=times.gpu.kernel_ns
    )
    done = tokens * micro * job.plan.data // job.traced.data
    step = ModelStep(job.plan, _stages(job, str(prefix)), done, times, title=Path(prefix).name)
    assumptions = {"durations": "as recorded" if timed else times.text} | {
        "model's operations": "all that the traces count, recomputation and the optimizer included",
    }
    return Profile(step, "traces", str(prefix), job.assumptions | assumptions)


def _stages(job: ScaledJob, where: str) -> list[StageProgram]:
    """Return the program of each stage, from the first of its ranks that was traced."""
    stages = []
    for stage in range(job.plan.pipeline):
        first, *others = job.in_stage(stage)
        program = _program(job, first, where)
        for other in others:
            if (column := _differs(program, _program(job, other, where))) is not None:
                what = f"ranks {first.rank} and {other.rank} of stage {stage} differ in {column}"
                raise InputError(what, where=where, hint="ranks of a stage have to do the same")
        stages.append(program)
    return stages


def _differs(one: StageProgram, other: StageProgram) -> str | None:
    """Name a column in which two programs differ; durations may, as those of a real run do."""
    columns = {
        "their operations": "kind", "FLOPs": "flops", "bytes": "size", "collectives": "collective",
        "groups": "group", "peers": "peer", "dependencies": "deps",
    }  # fmt: skip
    return next((text for text, name in columns.items() if getattr(one, name) != getattr(other, name)), None)


def _program(job: ScaledJob, source: ScaledRank, where: str) -> StageProgram:
    """Return the program of a traced rank in the scaled job."""
    trace = source.trace
    listed = operations_of(trace)
    program = StageProgram(job.plan)
    rows, start, deps = listed.rows, listed.dep_start.tolist(), listed.deps.tolist()
    names = listed.names
    order = np.argsort(trace.id, kind="stable")
    kept = order[trace.type[order] != NodeType.METADATA].tolist()
    for row, (one, kind, at) in enumerate(zip(rows, rows["kind"].tolist(), kept, strict=True)):
        name = "" if names is None else (names[row] or "")
        place = f"{where}: rank {source.rank}, {name!r}"
        if kind not in _KINDS or one["on_cpu"]:
            what = "memory accesses and operations on the host have no place in a profile"
            hint = "scale the traces: astranb chakra scale"
            raise InputError(what, where=place, hint=hint)
        waits = tuple(sorted(deps[start[row] : start[row + 1]]))
        if waits and waits[-1] >= row:
            raise InputError(
                "it waits for a node with a higher id", where=place, hint="number nodes in order"
            )
        number = program.add(_KINDS[kind], name, int(one["bytes"]), waits)
        if kind == COMPUTE:
            flops = max(0, int(one["flops"]))
            program.flops[number] = program.useful[number] = program.counted[number] = flops
            program.computed = number
            if one["duration_ns"] > 0:
                program.kernels[number] = (TimedKernel(int(one["duration_ns"])),)
        elif kind == COLLECTIVE:
            role = source.roles[at]
            if role not in GROUPS:
                raise InputError("a collective of one rank", where=place, hint="leave it out of the trace")
            collective = _NAME_OF[int(one["collective"])]
            program.collective[number] = int(CollectiveType[collective.upper()])
            program.group[number], program.background[number] = GROUPS.index(role), bool(one["stream"])
        else:
            peer = source.peers[at]
            if not isinstance(peer, int):
                what = f"its peer is none of {', '.join(PEERS)}"
                raise InputError(what, where=place, hint="scale the traces: astranb chakra scale")
            program.peer[number], program.tag[number] = peer, int(one["tag"])
    return program
