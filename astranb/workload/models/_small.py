"""What surrounds a layer's matrices: norms, residuals, softmax and dropout; bytes, and operations of vectors.

Each is a pass over memory of its own, as where nothing is fused. Of a number take: a layer norm 8
operations (sum; subtract, square, sum; subtract, divide, scale, shift) and an RMS norm 4 (square, sum;
divide, scale), both read once and written once; a residual 1, two read and one written; the softmax of
attention 5 (maximum, subtract, exponential, sum, divide), read and written; dropout 2 (mask, scale), read
and written with a mask of a byte (as Korthikanti et al. 2022, arXiv 2205.05198, section 4, count it).
"""

from __future__ import annotations

from typing import Final

from ._costs import Costs
from ._program import Cost

__all__ = ["norm", "residual", "softmax"]

_NORM_FLOPS: Final = {"layer": 8, "rms": 4}
_SOFTMAX_FLOPS: Final = 5
_DROPOUT_FLOPS: Final = 2


def _between(costs: Costs) -> int:
    """Numbers between layers that a rank goes over: divided along the sequence, or all of them."""
    ways = costs.job.parallelism
    return costs.tokens * costs.model.hidden // (ways.tensor if ways.sequence else 1)


def _dropped(costs: Costs, numbers: int) -> tuple[int, int]:
    """Operations and bytes of dropout, where it is trained with."""
    if not costs.job.dropout:
        return 0, 0
    return _DROPOUT_FLOPS * numbers, (2 * costs.job.bytes_each + 1) * numbers


def norm(costs: Costs) -> Cost:
    """The norm before attention, an MLP or the head, of a microbatch.

    Parameters
    ----------
    costs : Costs
        Of which model, and how it is divided.
    """
    numbers = _between(costs)
    flops = _NORM_FLOPS[costs.model.norm] * numbers
    return Cost(flops, 2 * numbers * costs.job.bytes_each, vector=True)


def residual(costs: Costs) -> Cost:
    """What comes out of attention or an MLP, dropped out and added to what went in.

    Parameters
    ----------
    costs : Costs
    """
    numbers = _between(costs)
    flops, touched = _dropped(costs, numbers)
    return Cost(numbers + flops, 3 * numbers * costs.job.bytes_each + touched, vector=True)


def softmax(costs: Costs, seen: int) -> Cost:
    """The softmax of a rank's heads over so many tokens each, and dropout of it.

    Parameters
    ----------
    costs : Costs
    seen : int
    """
    numbers = costs.tokens * seen * costs.model.heads // costs.job.parallelism.tensor
    flops, touched = _dropped(costs, numbers)
    size = 2 * numbers * costs.job.bytes_each + touched
    return Cost(_SOFTMAX_FLOPS * numbers + flops, size, vector=True)
