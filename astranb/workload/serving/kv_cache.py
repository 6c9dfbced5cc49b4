"""The blocks of keys and values that fit in a GPU's memory beside the model."""

from __future__ import annotations

from dataclasses import replace

from astranb.core.errors import InputError
from astranb.workload.models import Job, Transformer, cached_width, chunks, rank_memory

from .policy import ServingPolicy

__all__ = ["blocks_of", "cache_blocks", "token_bytes"]


def blocks_of(tokens: int, block_size: int) -> int:
    """Return the blocks that a number of tokens takes.

    Examples
    --------
    >>> blocks_of(16, 16), blocks_of(17, 16)
    (1, 2)
    """
    return -(-tokens // block_size)


def token_bytes(model: Transformer, job: Job, stage: int = 0) -> int:
    """Return the bytes of a token's keys and values of a stage's layers, on one rank.

    Examples
    --------
    >>> from astranb import models
    >>> token_bytes(models.MODELS["llama3-70b"], Job(models.Parallelism(tensor=8), 1, 1, mode="decode"))
    40960
    """
    wide = cached_width(model, job.parallelism.tensor)
    return sum(map(len, chunks(model, job.parallelism, stage))) * wide * job.cache_bytes


def cache_blocks(model: Transformer, job: Job, policy: ServingPolicy, limit_bytes: int) -> int:
    """Return the number of blocks that fit beside the weights and the buffers of the largest iteration.

    Each batch that is on its way through a pipeline has its own ones, as in vLLM 0.

    Parameters
    ----------
    model : Transformer
    job : Job
        Gives parallelism and the bytes of numbers.
    policy : ServingPolicy
    limit_bytes : int
        The memory of a GPU.

    Raises
    ------
    InputError
        The weights do not fit, or no block fits beside them.

    Examples
    --------
    >>> from astranb import models
    >>> job = Job(models.Parallelism(tensor=2), 1, 1, mode="decode")
    >>> cache_blocks(models.MODELS["llama3-70b"], job, ServingPolicy(), 143_771 << 20)
    23390
    """
    largest = replace(job, mode="prefill", sequence=policy.token_budget, batch=1, microbatches=1, tokens=1)
    usable, stages = int(limit_bytes * policy.memory_fraction), job.parallelism.pipeline
    found = []
    for stage in range(stages):
        held = rank_memory(model, largest, stage)
        rest = usable - held.weights - held.buffers
        if policy.fraction_of_rest:
            usable = limit_bytes
            rest = int((limit_bytes - held.weights - held.buffers) * policy.memory_fraction)
        found.append((rest // (policy.block_size * token_bytes(model, job, stage)) // stages, held))
    blocks, held = min(found, key=lambda one: one[0])
    if blocks < 1:
        what = (
            f"a rank of {model.name} needs {held.weights / 1e9:,.1f} GB for weights and "
            f"{held.buffers / 1e9:,.1f} for buffers, of {usable / 1e9:,.1f} GB that may be used"
        )
        hint = "take --precision fp8, a GPU with more memory, or more GPUs (--tp, --pp)"
        if job.precision == "fp8":
            hint = "take a GPU with more memory, or more GPUs (--tp, --pp)"
        raise InputError(what, where="GPU memory", hint=hint)
    return blocks
