"""Whole steps: a transformer's training, prefill and decoding on one stage of the pipeline."""

from __future__ import annotations

from astranb.core.errors import InputError

from ._job import Job
from ._program import TAGS, Program
from ._schedule import one_forward_one_backward
from ._stage import Stage
from ._transformer import Transformer

__all__ = ["check", "stage_program"]

_TOKEN_BYTES = 4


def check(model: Transformer, job: Job) -> None:
    """Refuse a division that the model does not allow.

    Parameters
    ----------
    model : Transformer
    job : Job

    Raises
    ------
    InputError
        What does not divide what.
    """
    ways = job.parallelism
    for name, value in (("heads", model.heads), ("ffn", model.ffn), ("kv_heads", model.kv_heads)):
        if value % ways.tensor and not (name == "kv_heads" and model.is_latent):
            what = f"tensor parallelism {ways.tensor} does not divide {name} {value} of {model.name}"
            raise InputError(what, where="tensor", hint="take a divisor")
    if model.experts and (model.expert_ffn % ways.tensor or model.experts % ways.expert):
        what = (
            f"{model.experts} experts of {model.expert_ffn} over {ways.expert} ranks of {ways.tensor} parts"
        )
        raise InputError(what, where="expert", hint="take divisors")
    if ways.expert > 1 and not model.experts:
        raise InputError(f"{model.name} has no experts", where="expert", hint="leave it out")
    if job.expert_imbalance != 1:
        # A token goes to an expert once at most.
        most = model.experts / model.top_k if model.experts else 1
        if not 1 <= job.expert_imbalance <= most:
            what = f"{model.name} has no expert with {job.expert_imbalance} times the mean"
            raise InputError(what, where="expert_imbalance", hint=f"take 1 to {most:g}")
    if model.layers < ways.pipeline * ways.interleave:
        what = f"{ways.pipeline * ways.interleave} stages and chunks of {model.layers} layers"
        raise InputError(what, where="pipeline", hint=f"take at most {model.layers}")
    if model.positions and max(job.sequence, 1) > model.positions:
        what = f"{model.name} has positions for {model.positions} tokens, not {job.sequence}"
        raise InputError(what, where="sequence", hint=f"take at most {model.positions}")
    passes = job.microbatches * (job.tokens if job.mode == "decode" else 1)
    job.require(passes * -(-model.layers // ways.pipeline) * (12 + 6 * ways.context))
    if 2 * (job.microbatches + 1) * ways.pipeline * ways.interleave * job.tokens >= TAGS:
        raise InputError("more messages than tags", where="microbatches", hint="take fewer")


def stage_program(model: Transformer, job: Job, stage: int) -> Program:
    """Write the program of the ranks of one stage.

    Parameters
    ----------
    model : Transformer
    job : Job
    stage : int

    Returns
    -------
    Program
    """
    writer = Stage(model, job, stage)
    ways = job.parallelism
    if job.mode == "training":
        order = one_forward_one_backward(stage, ways.pipeline, job.microbatches, ways.interleave)
        ends: dict[tuple[int, int], tuple[int, ...]] = {}
        for is_forward, chunk, micro in order:
            if is_forward:
                ends[chunk, micro] = writer.forward(chunk, micro)
            else:
                last = micro == job.microbatches - 1
                writer.backward(chunk, micro, last=last, end=ends.pop((chunk, micro)))
        writer.update()
    elif job.mode == "prefill":
        for micro in range(job.microbatches):
            writer.forward(0, micro)
    else:
        _decode(writer, job)
    return writer.program


def _decode(writer: Stage, job: Job) -> None:
    """Generate tokens: the words that the last stage finds go back to the first one."""
    many = job.parallelism.pipeline > 1
    first, last = writer.is_first(0), writer.is_last(0)
    size = _TOKEN_BYTES * job.micro
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
