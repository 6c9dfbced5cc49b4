"""The memory footprint of a step: what each unit of the passes changes, with the operations that do it.

A unit's activations are allocated when its forward pass begins, and freed when its backward pass ends;
what it works with is held while it is computed (:class:`.memory.StageMemory`). Parameters of the next
unit, which ZeRO 3 gathers ahead, count from when the unit before begins. Gradients and the optimizer's
state are kept from step to step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from astranb.workload.astrasim2 import Footprint

from .job import Job
from .memory import MEMORY_PARTS, StageMemory
from .program import StageProgram
from .transformer import Transformer

__all__ = ["step_footprint"]

_PARTS = tuple(MEMORY_PARTS)


def step_footprint(
    model: Transformer,
    job: Job,
    stages: Sequence[StageProgram],
    limit_bytes: int = 0,
    *,
    program: Sequence[int] | None = None,
) -> Footprint:
    """Return the footprint of a step's ranks.

    Parameters
    ----------
    model : Transformer
    job : Job
    stages : sequence of StageProgram
        The programs of the ranks of each stage, and share of the model.
    limit_bytes : int
        The memory of a GPU.
    program : sequence of int, optional
        The number of each rank's program. Default: that of its stage.

    Examples
    --------
    >>> from astranb import models, units
    >>> from astranb.workload.models.pipeline import stage_program
    >>> model, job = models.MODELS["gpt3-1.3b"], Job(models.Parallelism(), 2048, 4, 2)
    >>> found = step_footprint(model, job, [stage_program(model, job, 0)])
    >>> dict(zip(found.parts, (found.peaks()[0] / units.GB).round(1).tolist()))
    {'weights': 2.6, 'gradients': 2.6, 'optimizer': 15.8, 'activations': 7.7, 'cache': 0.0, 'buffers': 2.2}
    """
    degrees = job.parallelism
    held, first, operation, at_end, change = [], [0], [], [], []
    of_rank = (
        np.repeat(np.arange(degrees.pipeline), degrees.per_stage) if program is None else np.array(program)
    )
    for number, written in enumerate(stages):
        rank = int(np.argmax(of_rank == number))
        memory = StageMemory(model, job, degrees.stage(rank), rank % degrees.tensor)
        held.append([memory.weights, memory.gradients, memory.optimizer, 0, memory.cached, memory.around])
        passes = {
            (is_forward, chunk): memory.forward(chunk) if is_forward else memory.backward(chunk)
            for chunk in range(degrees.interleave)
            for is_forward in (True, False)
        }
        place: dict[tuple[bool, int], int] = {}
        for one in written.units:
            key = one.is_forward, one.chunk
            at = place.get(key, 0)
            kept, cached, working = passes[key][at]
            place[key] = (at + 1) % len(passes[key])
            forward = int(one.is_forward)
            operation += [one.first, one.last]
            at_end += [False, True]
            change += [
                (0, 0, 0, forward * kept, cached, working),
                (0, 0, 0, (forward - 1) * kept, 0, -working),
            ]
        first.append(len(operation))
    return Footprint(
        _PARTS,
        of_rank,
        np.array(held, np.int64),
        np.array(first, np.int64),
        np.array(operation, np.int64),
        np.array(at_end, bool),
        np.array(change, np.int64).reshape(-1, len(_PARTS)),
        limit_bytes,
    )
