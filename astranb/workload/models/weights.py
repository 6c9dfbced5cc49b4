"""The parameters that a rank holds."""

from __future__ import annotations

from typing import NamedTuple

from .parallelism import Parallelism
from .transformer import ParameterBlock, Transformer

__all__ = ["Held", "chunks", "of_embedding", "of_head", "of_layer"]


class Held(NamedTuple):
    """Parameters that a rank holds.

    Attributes
    ----------
    shared : int
        Those that every data-parallel rank has.
    experts : int
        Those that only ranks with the same experts have.
    """

    shared: int = 0
    experts: int = 0

    def plus(self, other: Held) -> Held:
        """Both."""
        return Held(self.shared + other.shared, self.experts + other.experts)


def _part(block: ParameterBlock, tensor: int) -> int:
    return block.split // tensor + block.whole + block.small


def of_layer(model: Transformer, degrees: Parallelism, layer: int) -> Held:
    """Give the parameters of a layer."""
    shared = _part(model.attention, degrees.tensor)
    if not model.has_experts(layer):
        return Held(shared + _part(model.mlp, degrees.tensor))
    own = model.experts // degrees.expert * model.expert // degrees.tensor
    return Held(shared + _part(model.around_experts, degrees.tensor), own)


def of_embedding(model: Transformer, degrees: Parallelism) -> Held:
    """Give the parameters of the embedding, on the first stage."""
    return Held(-(-model.vocab // degrees.tensor) * model.hidden + model.positions * model.hidden)


def of_head(model: Transformer, degrees: Parallelism) -> Held:
    """Give the parameters after the last layer, on the last stage; a tied head is a copy of the embedding."""
    words = -(-model.vocab // degrees.tensor) * model.hidden
    norm = model.head - (0 if model.tied else model.vocab * model.hidden)
    return Held(norm + (0 if model.tied and degrees.pipeline == 1 else words))


def chunks(model: Transformer, degrees: Parallelism, stage: int) -> list[range]:
    """Give the layers of each chunk of a stage; the first chunks may have one more."""
    count = degrees.pipeline * degrees.interleave
    each, more = divmod(model.layers, count)
    found = []
    for number in range(stage, count, degrees.pipeline):
        first = number * each + min(number, more)
        found.append(range(first, first + each + (number < more)))
    return found
