"""In which order a stage of the pipeline does its forward and backward passes."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["Pass", "one_forward_one_backward"]


class Pass(NamedTuple):
    """One pass of a microbatch through a chunk.

    Attributes
    ----------
    is_forward : bool
    chunk, micro : int
    """

    is_forward: bool
    chunk: int
    micro: int


def one_forward_one_backward(stage: int, stages: int, microbatches: int, interleave: int = 1) -> list[Pass]:
    """Give the order of 1F1B, plain or interleaved (Narayanan et al. 2021, section 2.2).

    Parameters
    ----------
    stage, stages : int
    microbatches : int
        Interleaved, a multiple of ``stages``.
    interleave : int
        Chunks of a stage.

    Returns
    -------
    list of Pass

    Examples
    --------
    >>> ["FB"[not one.is_forward] + str(one.micro) for one in one_forward_one_backward(0, 2, 3)]
    ['F0', 'F1', 'B0', 'F2', 'B1', 'B2']
    """
    total = microbatches * interleave
    if interleave == 1:
        ahead = min(stages - stage - 1, total)
    else:
        ahead = min(2 * (stages - stage - 1) + (interleave - 1) * stages, total)
    turn = stages * interleave

    def forward(number: int) -> Pass:
        if interleave == 1:
            return Pass(True, 0, number)  # noqa: FBT003 - named above
        return Pass(True, number % turn // stages, number // turn * stages + number % stages)  # noqa: FBT003

    def backward(number: int) -> Pass:
        one = forward(number)
        return Pass(False, interleave - 1 - one.chunk, one.micro)  # noqa: FBT003

    order = [forward(number) for number in range(ahead)]
    for number in range(total - ahead):
        order += [forward(ahead + number), backward(number)]
    return order + [backward(number) for number in range(total - ahead, total)]
