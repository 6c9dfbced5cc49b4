"""From a model's name and degrees to what every rank does."""

from __future__ import annotations

from typing import Final, TypeAlias

from astranb.core.errors import InputError, near

from ._dlrm import DLRM, Dlrm, recommendation
from ._gpu import Roofline
from ._job import Job
from ._layers import CONVOLUTIONAL, Convolutional, data_parallel
from ._library import TRANSFORMERS
from ._model_file import read_model
from ._parallel import Parallelism
from ._steps import check, stage_program
from ._transformer import Transformer
from ._workload import Workload

__all__ = ["MODELS", "workload"]

Model: TypeAlias = "Transformer | Convolutional | Dlrm"

MODELS: Final[dict[str, Model]] = {**TRANSFORMERS, **CONVOLUTIONAL, **DLRM}
"""All models that are shipped, by name."""

_SAMPLES: Final = 32
"""Pictures or samples of a microbatch of a rank, where nobody says."""


def workload(
    model: str | Model,
    parallelism: Parallelism | None = None,
    *,
    batch: int | None = None,
    microbatches: int | None = None,
    sequence: int | None = None,
    mode: str = "training",
    tokens: int = 1,
    recompute: bool = False,
    elementwise: bool = False,
    dropout: bool = False,
    expert_imbalance: float = 1.0,
    gpu: Roofline | None = None,
) -> Workload:
    """Write what every rank does in one step of a model.

    Parameters
    ----------
    model : str or model
        The name of a shipped one, a file as :func:`read_model` reads it, or a model.
    parallelism : Parallelism, optional
        One rank unless given.
    batch : int, optional
        Sequences of a step, of all replicas: one for each microbatch of each unless given; 32
        where samples are no sequences.
    microbatches : int, optional
        Four for each stage of a pipeline unless given, or as many as divide the batch; one where there
        is no pipeline.
    sequence : int, optional
        Tokens of a sequence: the model's unless given.
    mode : str
        ``training``, ``prefill`` or ``decode``.
    tokens : int
        That are generated, of decoding.
    recompute : bool
        Whether activations are computed again in the backward pass.
    elementwise : bool
        Whether norms, residuals and softmax are counted, each a pass over memory of its own.
    dropout : bool
        Whether dropout is, too.
    expert_imbalance : float
        Load of the busiest expert of a layer, 1 where all are used alike.
    gpu : Roofline, optional
        For durations in the traces.

    Returns
    -------
    Workload

    Raises
    ------
    InputError
        Something does not fit; the text says what divides what.

    Examples
    --------
    >>> step = workload("llama2-7b", Parallelism(tensor=8), mode="decode", batch=32, sequence=1024)
    >>> step.model_flops // step.tokens
    13751549952
    """
    ways = parallelism or Parallelism()
    known = named(model) if isinstance(model, str) else model
    each = None if batch is None else batch // ways.data
    micro = microbatches or _microbatches(ways, each)
    if not isinstance(known, Transformer):
        if sequence is not None:
            raise InputError(f"{known.name} has no sequences", where="sequence", hint="leave it out")
        if elementwise or dropout or expert_imbalance != 1:
            what = f"{known.name} is no transformer: elementwise, dropout and expert_imbalance say nothing"
            raise InputError(what, where="model", hint="leave them out")
        each = batch or ways.data * micro * _SAMPLES
        job = Job(ways, 1, each, micro, mode=mode, tokens=tokens, recompute=recompute)
        if isinstance(known, Dlrm):
            return Workload(ways, [recommendation(known, job)], job.batch, gpu, "samples")
        return Workload(ways, [data_parallel(known, job)], job.batch, gpu, "pictures")
    job = Job(
        ways,
        sequence or known.sequence,
        batch or ways.data * micro,
        micro,
        mode=mode,
        tokens=tokens,
        recompute=recompute,
        elementwise=elementwise,
        dropout=dropout,
        expert_imbalance=expert_imbalance,
    )
    check(known, job)
    stages = [stage_program(known, job, stage) for stage in range(ways.pipeline)]
    return Workload(ways, stages, job.new_tokens, gpu)


def _microbatches(ways: Parallelism, each: int | None) -> int:
    """As many as hide most of the pipeline's bubble, and divide a replica's batch."""
    most = 4 * ways.pipeline if ways.pipeline > 1 else 1
    if not each:
        return most
    step = ways.pipeline if ways.interleave > 1 else 1
    return max((n for n in range(step, min(most, each) + 1, step) if each % n == 0), default=step)


def named(name: str) -> Model:
    """Find a shipped model by its name, or read a file ``.yaml``, ``.yml`` or ``.json``.

    Parameters
    ----------
    name : str

    Returns
    -------
    model

    Raises
    ------
    InputError
        There is none.
    """
    if name.lower().endswith((".yaml", ".yml", ".json")):
        return read_model(name)
    if name not in MODELS:
        hint = f"{near(name, MODELS)}; or give a file, as MODEL.yaml"
        raise InputError(f"unknown model {name[:60]!r}", where="model", hint=hint)
    return MODELS[name]
