"""Recommendation models: embedding tables distributed over ranks, dense layers on all ranks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from astranb.workload.kernels import Product, Stream

from .convolutional import backward, check_data_only, forward, full, update
from .job import Job
from .memory import RUNTIME_BYTES, RankMemory
from .program import Cost, StageProgram

__all__ = ["DLRM", "Dlrm", "recommendation", "recommendation_memory"]

_CRITEO = (
    39884406, 39043, 17289, 7420, 20263, 3, 7120, 1543, 63, 38532951, 2953546, 403346, 10, 2208, 11938,
    155, 4, 976, 14, 39979771, 25641295, 39664984, 585935, 12972, 108, 36,
)  # fmt: skip


@dataclass(frozen=True)
class Dlrm:
    """A recommendation model (Naumov et al. 2019, arXiv 1906.00091).

    Parameters
    ----------
    name : str
    tables : tuple of int
        Rows of each embedding table; each sample looks up one row in each.
    width : int
        Numbers per row.
    bottom, top : tuple of int
        Widths of the layers of the MLPs, from the input. The bottom MLP reads the dense features; the top
        one reads its result and the products of all pairs of it and the embeddings.
    source : str

    Examples
    --------
    >>> DLRM["dlrm"].parameters
    24036596993
    """

    name: str
    tables: tuple[int, ...]
    width: int
    bottom: tuple[int, ...]
    top: tuple[int, ...]
    source: str = ""

    @property
    def dense_parameters(self) -> int:
        """The parameters of the MLPs."""
        return sum(a * b + b for widths in (self.bottom, self.top) for a, b in pairwise(widths))

    @property
    def parameters(self) -> int:
        """The number of parameters."""
        return sum(self.tables) * self.width + self.dense_parameters

    @property
    def interaction_flops(self) -> int:
        """Operations of the products of pairs for one sample: all are computed, and half of them used."""
        return 2 * self.vectors * self.vectors * self.width

    @property
    def vectors(self) -> int:
        """Vectors of a sample of which pairs are multiplied: embeddings, and the bottom MLP's output."""
        return len(self.tables) + 1


DLRM: Final = {
    "dlrm": Dlrm(
        "dlrm", _CRITEO, 128, (13, 512, 256, 128), (480, 1024, 1024, 512, 256, 1),
        "MLPerf training 0.7 to 2.1: Criteo 1 TB with indices below 40,000,000; "
        "github.com/facebookresearch/dlrm; the 479 inputs of the top padded to 480",
    )
}  # fmt: skip
"""By name."""


def recommendation(model: Dlrm, job: Job) -> StageProgram:
    """Return a rank's step, with tables distributed evenly.

    An all-to-all exchanges the rows looked up for all ranks' samples for the rows of one's own samples,
    while the bottom MLP is computed; another one returns their gradients.

    Parameters
    ----------
    model : Dlrm
    job : Job
        Its sequences are samples.
    """
    check_data_only(model.name, job)
    job.require((3 * len(model.bottom + model.top) + 8) * job.microbatches)
    program, size, micro = StageProgram(job.parallelism), job.bytes_each, job.micro
    rows = micro * len(model.tables) * model.width * size  # a rank's share: of all samples, its tables'
    reduced: list[int] = []
    bottom, top = (
        [full(f"{name}{layer}", into, out) for layer, (into, out) in enumerate(pairwise(widths))]
        for name, widths in (("bottom", model.bottom), ("top", model.top))
    )
    vectors = model.vectors
    products = Product(vectors, vectors, model.width, copies=micro, weights=False)
    pairs = Cost(micro * model.interaction_flops, 2 * rows, kernels=(products,))
    for number in range(job.microbatches):
        lookup = Cost(rows // size, 2 * rows, vector=True, kernels=(Stream(2 * rows, data="weights"),))
        found = program.compute(f"lookup {number}", lookup)
        exchanged = program.collect("all_to_all", "data", rows, f"embeddings {number}", [found])
        done = forward(program, job, bottom, number)
        program.compute(f"pairs fwd {number}", pairs, [*exchanged, done])
        forward(program, job, top, number)
        if job.mode != "training":
            continue
        backward(program, job, top, number, reduced, bottom[0])
        grads = program.compute(f"pairs bwd {number}", pairs.backward())
        home = program.collect("all_to_all", "data", rows, f"embedding grads {number}", [grads])
        backward(program, job, bottom, number, reduced, bottom[0])
        program.compute(
            f"lookup update {number}",
            Cost(2 * rows // size, 3 * rows, vector=True, kernels=(Stream(3 * rows, data="weights"),)),
            home,
        )
    if job.mode == "training":
        update(program, job, model.dense_parameters, reduced)
    return program


def recommendation_memory(model: Dlrm, job: Job) -> RankMemory:
    """Return the memory of a rank, with its share of the tables.

    The MLPs have gradients and an optimizer's state; rows of tables are updated where they are, by stochastic
    gradient descent, which keeps nothing. A layer's input is kept from its forward to its backward pass.

    Parameters
    ----------
    model : Dlrm
    job : Job

    Examples
    --------
    >>> from astranb import models
    >>> found = recommendation_memory(DLRM["dlrm"], Job(models.Parallelism(data=8), 1, 8 * 2048))
    >>> round(found.parts_GB["weights"], 2), round(found.parts_GB["optimizer"], 2)
    (6.01, 0.03)
    """
    degrees, size = job.parallelism, job.bytes_each
    dense, training = model.dense_parameters, job.mode == "training"
    tables = -(-sum(model.tables) // degrees.data) * model.width
    states = -(-dense // degrees.size("data")) if degrees.zero else dense
    inputs = sum(model.bottom[:-1] + model.top[:-1]) + model.vectors * model.width
    rows = job.micro * len(model.tables) * model.width * size
    return RankMemory(
        0,
        weights=(tables + dense) * size,
        gradients=dense * job.gradient_bytes * training,
        optimizer=states * job.optimizer_bytes * training,
        activations=job.micro * inputs * size * training,
        buffers=RUNTIME_BYTES + 2 * rows,
    )
