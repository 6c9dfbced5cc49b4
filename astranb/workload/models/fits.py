"""Whether a step fits in its GPUs' memory, and which plan would."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from astranb.chakra.scaling import Parallelism
from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.units import format_bytes

from .job import RECOMPUTE, Job
from .memory import RankMemory, rank_memory
from .pipeline import check
from .transformer import Transformer
from .weights import shares

__all__ = ["does_not_fit", "fullest", "options_of", "proposal", "require_memory", "what_fits"]

PER_NODE: Final = 8
"""GPUs of a node, unless it is known."""
_MOST_STAGES: Final = 64
_FLAGS: Final = {
    "tensor": "tp", "context": "cp", "expert": "ep", "pipeline": "pp", "interleave": "interleave",
    "data": "dp", "zero": "zero",
}  # fmt: skip


def fullest(model: Transformer, job: Job) -> RankMemory:
    """Return the memory of the rank that needs most, of the first two, a middle and the last stage."""
    stages = job.parallelism.pipeline
    each = {stage for stage in (0, 1, stages // 2, stages - 1) if stage < stages}
    return max((rank_memory(model, job, stage) for stage in sorted(each)), key=lambda one: one.total)


def require_memory(
    model: Transformer,
    job: Job,
    limit_bytes: int,
    gpu: str,
    expanded_bytes: int = 0,
    *,
    per_node: int = PER_NODE,
    fp8: bool = False,
) -> RankMemory:
    """Check that a step fits in memory; raise InputError if it does not.

    Parameters
    ----------
    model : Transformer
    job : Job
    limit_bytes : int
        The memory of a GPU.
    gpu : str
        Its name.
    expanded_bytes : int
        What of an expansion it has besides.
    per_node : int
        GPUs of a node: the greatest tensor degree of a plan that is proposed.
    fp8 : bool
        Whether the GPU has products in fp8.

    Returns
    -------
    RankMemory
        Of the rank that needs most.

    Raises
    ------
    InputError
        It does not fit; the hint is a plan that does, if there is one on as many GPUs.
    """
    found = fullest(model, job)
    both_bytes = limit_bytes + expanded_bytes
    if found.total <= both_bytes:
        return found
    hint = proposal(model, job, both_bytes, per_node, fp8=fp8, host=not expanded_bytes)
    raise does_not_fit(found, limit_bytes, gpu, expanded_bytes, hint)


def proposal(
    model: Transformer, job: Job, limit_bytes: int, per_node: int = PER_NODE, *, fp8: bool, host: bool
) -> str:
    """Propose a plan that fits: on the GPUs that there are, if need be with other numbers or a slow host.

    Parameters
    ----------
    model, job, limit_bytes, per_node
        As of :func:`what_fits`.
    fp8, host : bool
        Whether products in fp8, and the host's memory for the optimizer's state, are to be had.

    Returns
    -------
    str
        A hint.
    """
    ranks = job.parallelism.ranks
    better = what_fits(model, job, limit_bytes, per_node)
    if better is not None and better.parallelism.ranks == ranks:
        return f"take {options_of(better)}"
    several = plural(ranks, "GPU")
    more = "" if better is None else f"{better.parallelism.ranks:,}, with {options_of(better)}"
    training = job.mode == "training"
    if training and host and not job.offloads("optimizer"):
        others, option = replace(job, offload="optimizer", update="host"), "--offload optimizer"
    elif not training and fp8 and job.precision != "fp8":
        others, option = replace(job, precision="fp8"), "--precision fp8"
    else:
        others = None
    kept = None if others is None else what_fits(model, others, limit_bytes, per_node)
    if kept is not None and kept.parallelism.ranks == ranks:
        return f"take {options_of(kept)} {option}" + (f"; or more GPUs: {more}" if more else "")
    if better is None:
        return "take a GPU with more memory"
    return f"nothing similar fits on {several}: take {more}"


def _gigabytes(count: int) -> str:
    return f"{count / 1e9:,.1f} GB" if count >= 10**8 else format_bytes(count)


def does_not_fit(found: RankMemory, limit_bytes: int, gpu: str, expanded_bytes: int, hint: str) -> InputError:
    """Return the error for a rank that does not fit: what it needs, and what is missing.

    Parameters
    ----------
    found : RankMemory
    limit_bytes, gpu, expanded_bytes
        As of :func:`require_memory`.
    hint : str
    """
    parts = sorted(found.parts.items(), key=lambda one: -one[1])[:3]
    largest = ", ".join(f"{name} {size / 1e9:,.1f}" for name, size in parts)
    what = (
        f"a rank of stage {found.stage} needs {found.total_GB:,.1f} GB of the "
        f"{_gigabytes(limit_bytes)} of {gpu} ({largest})"
    )
    if expanded_bytes:
        missing = (found.total - limit_bytes - expanded_bytes) / 1e9
        what += f"; with {expanded_bytes / 1e9:,.1f} GB of expanded memory {missing:,.1f} GB are missing"
    other = "more expanded memory" if expanded_bytes else "--memory-limit none"
    return InputError(what, where="GPU memory", hint=f"{hint}; or {other}")


def what_fits(model: Transformer, job: Job, limit_bytes: int, per_node: int = PER_NODE) -> Job | None:
    """Return a similar job that fits: on as many GPUs if possible, otherwise on as few as possible.

    Parameters
    ----------
    model : Transformer
    job : Job
        Which does not fit.
    limit_bytes : int
        The memory of a GPU.
    per_node : int
        GPUs of a node: the greatest tensor degree.
    """
    given = job.parallelism
    found = [one for one in _similar(model, job, per_node) if fullest(model, one).total <= limit_bytes]

    def order(one: Job) -> tuple[int, ...]:
        degrees = one.parallelism
        changed = sum(getattr(degrees, name) != getattr(given, name) for name in ("tensor", "pipeline"))
        again = one.recompute != job.recompute
        return (
            degrees.ranks != given.ranks, degrees.ranks, again, changed, degrees.zero != given.zero,
            degrees.pipeline, degrees.tensor, -one.microbatches if degrees.pipeline > 1 else one.microbatches,
        )  # fmt: skip

    return min(found, key=order, default=None)


def _similar(model: Transformer, job: Job, per_node: int) -> Iterator[Job]:
    """Yield jobs with other degrees, more and smaller microbatches, and more recomputation."""
    given, training = job.parallelism, job.mode == "training"
    again = sorted({job.recompute, "full"}, key=RECOMPUTE.index) if training else ["none"]
    for tensor in _powers(per_node):
        if any(shares(model, tensor)):
            continue
        for pipeline in _powers(min(_MOST_STAGES, model.layers)):
            rest = given.context * tensor * pipeline
            data = max(1, given.ranks // rest) if given.ranks % rest == 0 else 1
            expert = max(one for one in range(1, min(data, given.expert) + 1) if data % one == 0)
            replicas = max(1, job.batch // data)
            for zero in sorted({given.zero, 1, 3 if pipeline == 1 else 1}) if training and data > 1 else [0]:
                degrees = Parallelism(
                    data, tensor, pipeline, given.context, expert, zero=zero,
                    sequence=tensor > 1 and job.mode != "decode",
                )  # fmt: skip
                for micro in (min(job.microbatches, replicas), replicas):
                    for recompute in again:
                        try:
                            one = replace(
                                job, parallelism=degrees, batch=replicas * data, microbatches=micro,
                                recompute=recompute,
                            )  # fmt: skip
                            check(model, one)
                        except InputError:
                            continue
                        yield one


def _powers(most: int) -> list[int]:
    return [1 << power for power in range(most.bit_length())]


def options_of(job: Job) -> str:
    """Write a job's plan as options of the command line.

    Examples
    --------
    >>> options_of(Job(Parallelism(data=2, tensor=8, sequence=True), 2048, 8, 4))
    '--tp 8 --sp --dp 2 --batch 8 --microbatches 4'
    """
    degrees, found = job.parallelism, []
    for name, flag in _FLAGS.items():
        value = getattr(degrees, name)
        if value != (0 if name == "zero" else 1) and not (name == "interleave" and degrees.is_vee):
            found.append(f"--{flag} {value}")
        if name == "tensor" and degrees.sequence:
            found.append("--sp")
    found += [f"--schedule {degrees.schedule}"] if degrees.splits_backward else []
    found += [f"--batch {job.batch}", f"--microbatches {job.microbatches}"]
    if job.recompute != "none":
        found.append(f"--recompute={job.recompute}")
    if job.framework != replace(job, library="").framework:
        found.append(f"--framework {job.framework}")
    return " ".join(found)
