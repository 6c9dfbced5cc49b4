"""The program of a stage of the pipeline: a transformer's training, prefill or decoding."""

from __future__ import annotations

from math import gcd

from astranb.chakra.scaling import take_divisor
from astranb.core.errors import InputError

from .job import Job
from .passes import PassWriter
from .program import TAGS, StageProgram
from .schedules import stage_order
from .stage import Stage
from .transformer import Transformer
from .weights import shares

__all__ = ["check", "stage_program", "stage_programs", "write_training"]

TOKEN_BYTES = 4


def check(model: Transformer, job: Job) -> None:
    """Check that the degrees of parallelism fit the model.

    Raises
    ------
    InputError
        Names the two numbers that do not fit.
    """
    degrees = job.parallelism
    _check_widths(model, job)
    if model.experts and model.experts % degrees.expert:
        what = f"{model.experts} experts do not divide among {degrees.expert} ranks"
        raise InputError(what, where="expert", hint=take_divisor(model.experts))
    if degrees.expert > 1 and not model.experts:
        raise InputError(f"{model.name} has no experts", where="expert", hint="leave it out")
    if job.expert_capacity:
        most = model.experts / model.top_k if model.experts else 0
        if not 0 < job.expert_capacity <= most:
            what = f"{model.name} has no experts with {job.expert_capacity} times the mean"
            hint = f"take up to {most:g}" if model.experts else "leave it out"
            raise InputError(what, where="expert_capacity", hint=hint)
    if job.expert_imbalance != 1:
        # A token goes to an expert at most once.
        most = model.experts / model.top_k if model.experts else 1
        if not 1 <= job.expert_imbalance <= most:
            what = f"{model.name} has no expert with {job.expert_imbalance} times the mean"
            hint = f"take 1 to {most:g}" if model.experts else "leave it out"
            raise InputError(what, where="expert_imbalance", hint=hint)
    if model.layers < degrees.pipeline * degrees.interleave:
        what = f"{degrees.pipeline * degrees.interleave} stages and chunks, but only {model.layers} layers"
        raise InputError(what, where="pipeline", hint=f"take at most {model.layers}")
    if model.positions and max(job.sequence, 1) > model.positions:
        what = f"{model.name} has positions for {model.positions} tokens, not {job.sequence}"
        raise InputError(what, where="sequence", hint=f"take at most {model.positions}")
    passes = job.microbatches * (job.tokens if job.mode == "decode" else 1)
    job.require(passes * -(-model.layers // degrees.pipeline) * (12 + 6 * degrees.context))
    if 2 * (job.microbatches + 1) * degrees.pipeline * degrees.interleave * job.tokens >= TAGS:
        raise InputError("more messages than tags", where="microbatches", hint="take fewer")


def _check_widths(model: Transformer, job: Job) -> None:
    """Check that tensor parallelism divides heads and widths, unless it may be uneven."""
    tensor = job.parallelism.tensor
    widths = {
        "heads": model.heads,
        "heads of keys and values": model.head_groups,
        "numbers of an MLP": model.ffn,
    }
    if model.experts:
        widths["numbers of an expert"] = model.expert_ffn
    least = min(width for name, width in widths.items() if "numbers" in name)
    if tensor > least:
        what = f"tensor parallelism {tensor} exceeds an MLP's {least} in {model.name}"
        raise InputError(what, where="tensor", hint=f"take at most {least}")
    for name, width in widths.items():
        if width % tensor and not job.uneven:
            what = f"tensor parallelism {tensor} does not divide {width:,} {name} in {model.name}"
            hint = f"{take_divisor(gcd(*widths.values()))}; astranb run model --uneven lets ranks differ"
            raise InputError(what, where="tensor", hint=hint)


def stage_programs(model: Transformer, job: Job, stage: int) -> list[StageProgram]:
    """Write the programs of the ranks of one stage: one for each share of the model that they have."""
    of_rank = shares(model, job.parallelism.tensor)
    return [stage_program(model, job, stage, of_rank.index(kind)) for kind in range(max(of_rank) + 1)]


def stage_program(model: Transformer, job: Job, stage: int, part: int = 0) -> StageProgram:
    """Write the program of the ranks of one stage with the same number in their tensor groups."""
    writer = Stage(model, job, stage, part)
    if job.mode == "training":
        write_training(writer, job)
    elif job.mode == "prefill":
        for micro in range(job.microbatches):
            writer.forward(0, micro)
    else:
        _decode(writer, job)
    return writer.program


def write_training(writer: PassWriter, job: Job) -> None:
    """Add a training step: passes in the order of the schedule, and the optimizer."""
    ends: dict[tuple[int, int], tuple[int, ...]] = {}
    gradients: dict[int, tuple[int, ...]] = {}
    for is_forward, chunk, micro, is_weights in stage_order(job.parallelism, writer.stage, job.microbatches):
        last = micro == job.microbatches - 1
        if is_forward:
            # At the turn of a V the half before it has been computed here.
            after = ends[chunk - 1, micro] if writer.turns_into(chunk) else ()
            ends[chunk, micro] = writer.forward(chunk, micro, after=after)
        elif is_weights:
            writer.weights_pass(chunk, micro, last=last)
        else:
            end = ends.pop((chunk, micro))
            if not writer.is_last(chunk) and writer.turns_into(chunk + 1):
                end = gradients.pop(micro)
            found = writer.backward(chunk, micro, last=last, end=end)
            if writer.turns_into(chunk):
                gradients[micro] = found
    writer.update()


def _decode(writer: Stage, job: Job) -> None:
    """Add the generation of tokens: those of the last stage are sent back to the first one."""
    many = job.parallelism.pipeline > 1
    first, last = writer.is_first(0), writer.is_last(0)
    size = TOKEN_BYTES * job.micro
    after: dict[int, tuple[int, ...]] = {}
    for token in range(job.tokens):
        for micro in range(job.microbatches):
            number = token * job.microbatches + micro
            if token and first and many:
                after[micro] = (writer.receive_words(size, number),)
            end = writer.forward(0, number, seen=job.sequence + token + 1, after=after.get(micro, ()))
            after[micro] = end
            if last and many and token < job.tokens - 1:
                writer.send_words(size, number + job.microbatches, end)
