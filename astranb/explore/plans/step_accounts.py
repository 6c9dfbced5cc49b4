"""Breakdown of the time of a model's step, and the figures that people compare."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.chakra import NodeType
from astranb.chakra.scaling import GROUPS, PEERS
from astranb.core.errors import InputError

if TYPE_CHECKING:
    from astranb.sim import Simulation
    from astranb.workload.models import ModelStep, StageProgram

__all__ = ["WAITS", "StepAccount", "account"]

WAITS: Final = {
    "tensor": "sums and gathers of tensor parallelism",
    "context": "keys and values of context parallelism",
    "expert": "tokens on their way to experts and back",
    "bubble": "other stages, which compute (the pipeline's bubble)",
    "pipeline": "messages of other stages, from when they are sent",
    "data": "gradients and parameters of data parallelism",
    "memory": "loads from and stores to a memory outside the GPU",
    "start": "nothing is under way yet",
}
"""Causes of a rank's waits while it computes nothing, and the meaning of each."""

_SORTS: Final = {
    "matrices": "products of matrices",
    "attention": "attention",
    "element-wise": "element-wise kernels, which move memory",
    "optimizer": "the optimizer, which moves memory",
    "host": "the optimizer on the host",
    "computing": "computations",
}
_OF_GROUP: Final = {
    "tensor": "tensor", "context": "context", "data": "data", "expert": "expert", "expert data": "data",
    "ends": "data", "all": "data",
}  # fmt: skip


@dataclass(frozen=True)
class StepAccount:
    """The figures of one step.

    The rank is the one that finishes last. Utilisation is that of the GPUs' peak in the step's precision:
    of the model's operations (MFU; Chowdhery et al. 2022, arXiv 2204.02311, appendix B), or with those
    that are computed again (HFU). Operations count as in Narayanan et al. 2021, arXiv 2104.04473.

    Attributes
    ----------
    rank : int
    step_ps : int
    compute_ps : int
        Of the rank, and by sort of kernel in ``sorts_ps``, with what computations wait for launches; with an
        efficiency all is one sort.
    sorts_ps : dict of str to int
    exposed_ps : dict of str to int
        What the rank waits for while it computes nothing, by :data:`WAITS`.
    tokens_per_s, tokens_per_s_per_gpu : float
    flops_per_s_per_gpu, hardware_flops_per_s_per_gpu : float
        Without and with operations that are computed again.
    mfu, hfu : float
    peak_flops : float
        Of a GPU.
    gpu_hours : float
        Of all GPUs for the step.
    dollars_per_step, dollars_per_million_tokens : float or None
        At the price per GPU and hour.
    ttft_ps : int or None
        Of prefill: time to first token, of the last of its sequences.
    tpot_ps : int or None
        Of decoding: time per output token of a sequence, the mean of all tokens generated.
    output_tokens_per_s, output_tokens_per_s_per_gpu : float or None
        Of inference: a prefill gives one token for each sequence.
    """

    rank: int
    step_ps: int
    compute_ps: int
    sorts_ps: dict[str, int]
    exposed_ps: dict[str, int]
    tokens_per_s: float
    tokens_per_s_per_gpu: float
    flops_per_s_per_gpu: float
    hardware_flops_per_s_per_gpu: float
    mfu: float
    hfu: float
    peak_flops: float
    gpu_hours: float
    dollars_per_step: float | None = None
    dollars_per_million_tokens: float | None = None
    ttft_ps: int | None = None
    tpot_ps: int | None = None
    output_tokens_per_s: float | None = None
    output_tokens_per_s_per_gpu: float | None = None

    def document(self) -> dict[str, Any]:
        """Return all figures by name."""
        return {**asdict(self), "bubble_ps": self.bubble_ps, "limited_by": self.limited_by}

    @property
    def step_ms(self) -> float:
        """:attr:`step_ps` in milliseconds."""
        return self.step_ps / 1e9

    @property
    def step_s(self) -> float:
        """:attr:`step_ps` in seconds."""
        return self.step_ps / 1e12

    @property
    def bubble_ps(self) -> int:
        """Time that the rank waits for other stages to compute."""
        return self.exposed_ps.get("bubble", 0)

    @property
    def tflops_per_s_per_gpu(self) -> float:
        """:attr:`flops_per_s_per_gpu` in units of 10^12."""
        return self.flops_per_s_per_gpu / 1e12

    @property
    def shares(self) -> dict[str, float]:
        """The parts of the step, from 0 to 1: sorts of kernels, then causes of waits."""
        return {name: part / self.step_ps for name, part in {**self.sorts_ps, **self.exposed_ps}.items()}

    @property
    def limit(self) -> str:
        """Largest part of the step: a sort of kernel, or a cause of waits."""
        shares = self.shares
        return max(shares, key=lambda name: shares[name])

    @property
    def limited_by(self) -> str:
        """The same as a sentence, with its share of the step.

        Examples
        --------
        >>> from dataclasses import replace
        >>> import astranb as anb
        >>> from astranb import models
        >>> step = models.workload("gpt3-6.7b", gpu="h100-sxm")
        >>> sim = anb.Simulation(step)
        >>> _ = sim.run()
        >>> anb.explore.account(sim, step).limited_by  # doctest: +ELLIPSIS
        'products of matrices limit the step (...% of its time)'
        """
        what = self.limit
        part = self.shares[what]
        if what in self.sorts_ps:
            cause = _SORTS.get(what, what)
            return f"{cause} limit{'' if cause.endswith('s') else 's'} the step ({part:.1%} of its time)"
        return f"waiting limits the step ({part:.1%} of its time): {WAITS[what]}"


def account(
    sim: Simulation, step: ModelStep, *, peak_flops: float | None = None, price: float | None = None
) -> StepAccount:
    """Account for the time of a step that has been simulated.

    Parameters
    ----------
    sim : Simulation
        Of the step, at its end; by messages.
    step : ModelStep
    peak_flops : float, optional
        FLOP/s of a GPU, the reference of utilisation. Default: the peak of the step's GPU.
    price : float, optional
        Dollars for a GPU and hour.

    Raises
    ------
    InputError
        The simulation has not ended, or the GPU's peak is not known.

    Examples
    --------
    >>> import astranb as anb
    >>> from astranb import models
    >>> step = models.workload("gpt3-125m", models.Parallelism(data=4), gpu="h100-sxm")
    >>> sim = anb.Simulation(step)
    >>> _ = sim.run()
    >>> found = anb.explore.account(sim, step)
    >>> found.compute_ps + sum(found.exposed_ps.values()) == found.step_ps
    True
    """
    if not sim.finished:
        raise InputError("the step has not ended", where="account", hint="call run() first")
    peak = peak_flops or (step.times.peak_flops if step.times else 0)
    if not peak:
        raise InputError("the peak of the GPU is not known", where="account", hint="give peak_flops")
    rank, took = int(np.argmax(sim.engine.ends_ps())), int(sim.result.time_ps)
    number = step.program_of(rank)
    program = step.stages[number]
    start_ps, end_ps = _times_of(sim, rank)
    computed, waits = _divided(program, start_ps, end_ps, _sent(sim, step, rank))
    seconds = took / 1e12
    flops = step.model_flops / (seconds * step.ranks)
    hardware = step.hardware_flops / (seconds * step.ranks)
    rate, hours = step.tokens / seconds, step.ranks * seconds / 3600
    cost = None if price is None else hours * price
    return StepAccount(
        rank, took, computed, _sorts(step, number, start_ps, end_ps), waits,
        rate, rate / step.ranks, flops, hardware, flops / peak, hardware / peak, float(peak), hours,
        cost, None if cost is None else cost / step.tokens * 1e6, *_of_inference(step, took),
    )  # fmt: skip


def _of_inference(step: ModelStep, took_ps: int) -> tuple[int | None, int | None, float | None, float | None]:
    """Return the times to the first token and per token, and the output tokens a second, also per GPU."""
    if step.plan is None or step.plan[1].mode == "training":
        return None, None, None, None
    job = step.plan[1]
    prefill = job.mode == "prefill"
    rate = job.batch * (1 if prefill else job.tokens) / (took_ps / 1e12)
    first, each = (took_ps, None) if prefill else (None, round(took_ps / job.tokens))
    return first, each, rate, rate / step.ranks


def _times_of(sim: Simulation, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return when the operations of a rank began and ended."""
    found: tuple[np.ndarray, np.ndarray] = sim.engine.times_of(rank)
    return found


def _sorts(step: ModelStep, number: int, start_ps: np.ndarray, end_ps: np.ndarray) -> dict[str, int]:
    """Return the time of a program's computations by sort of kernel, in the order of their time."""
    found: Counter[str] = Counter()
    times = step.times_of(number)
    for (_, _, kernels), rows in step.computations(number).items():
        took_ps, counts = np.unique(end_ps[rows] - start_ps[rows], return_counts=True)
        parts: Counter[str] = Counter()
        if times is None or times.efficiency is not None or not kernels:
            parts["computing"] = 1
        else:
            for one in kernels:
                parts[one.sort] += times.kernel_ns(one)
            if waiting := times.waiting_ns(kernels):
                parts["launches"] = waiting
        whole, first = sum(parts.values()), next(iter(parts))
        for took, count in zip(took_ps.tolist(), counts.tolist(), strict=True):
            shares = {sort: took * part // whole for sort, part in parts.items()}
            shares[first] += took - sum(shares.values())
            for sort, share in shares.items():
                found[sort] += count * share
    return dict(found.most_common())


def _sent(sim: Simulation, step: ModelStep, rank: int) -> dict[int, int]:
    """Return when messages of other stages were sent, by the operations that receive them."""
    degrees = step.parallelism
    program = step.stages[step.program_of(rank)]
    found: dict[int, int] = {}
    for role in (PEERS.index("previous stage"), PEERS.index("next stage")):
        rows = [row for row, peer in enumerate(program.peer) if peer == role]
        tags = {program.tag[row]: row for row in rows if program.kind[row] == NodeType.COMM_RECV}
        if not tags:
            continue
        peer = degrees.peer(role, rank)
        other, (start_ps, _) = step.stages[step.program_of(peer)], _times_of(sim, peer)
        for row, kind in enumerate(other.kind):
            # Messages in the other direction have other tags.
            if kind == NodeType.COMM_SEND and other.tag[row] in tags and _kind(other, row) == "pipeline":
                found[tags[other.tag[row]]] = int(start_ps[row])
    return found


def _divided(
    program: StageProgram, start_ps: np.ndarray, end_ps: np.ndarray, sent: dict[int, int]
) -> tuple[int, dict[str, int]]:
    """Divide the time of a rank: computing, and by what it waited for.

    Before each computation, and at the end, the operation that ended last of those waited for is what
    the rank waited for, as long as it was under way; before that, what this one waited for.
    """
    waits: Counter[str] = Counter()
    now = computed = 0
    for row in np.argsort(start_ps, kind="stable").tolist():
        if program.kind[row] == NodeType.COMP:
            start = int(start_ps[row])
            if start > now:
                _walk_back(program, start_ps, end_ps, program.deps[row], now, start, waits, sent)
            computed += int(end_ps[row]) - start
            now = int(end_ps[row])
    end = int(end_ps.max(initial=0))
    if end > now:
        _walk_back(program, start_ps, end_ps, (int(np.argmax(end_ps)),), now, end, waits, sent)
    return computed, {name: waits[name] for name in WAITS if waits[name]}


def _walk_back(
    program: StageProgram,
    start_ps: np.ndarray,
    end_ps: np.ndarray,
    deps: tuple[int, ...],
    since: int,
    until: int,
    waits: Counter[str],
    sent: dict[int, int],
) -> None:
    """Add the waits between two times, from the last one back."""
    while until > since:
        row = max(deps, key=lambda dep: int(end_ps[dep]), default=-1)
        if row < 0 or program.kind[row] == NodeType.COMP:
            waits["start"] += until - since
            return
        began = max(since, min(until, int(start_ps[row])))
        # What it waits for in a queue counts as the operation too.
        deps = program.deps[row]
        before = max((int(end_ps[dep]) for dep in deps), default=0)
        began = max(since, min(began, before))
        kind = _kind(program, row)
        if row in sent:
            # Until its message was sent, the other stage was still computing.
            under_way = max(began, min(until, sent[row]))
            waits["bubble"] += under_way - began
            waits[kind] += until - under_way
        else:
            waits[kind] += until - began
        until = began


def _kind(program: StageProgram, row: int) -> str:
    """Return what an operation that communicates is for."""
    if program.kind[row] == NodeType.COMM_COLL:
        return _OF_GROUP[GROUPS[program.group[row]]]
    if program.kind[row] in (NodeType.MEM_LOAD, NodeType.MEM_STORE):
        return "memory"
    return "context" if "context" in PEERS[program.peer[row]] else "pipeline"
