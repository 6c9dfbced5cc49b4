"""The parameters that a rank holds."""

from __future__ import annotations

from typing import Final, NamedTuple

from .parallelism import Parallelism
from .transformer import ParameterBlock, Transformer

__all__ = ["EMBEDDING", "HEAD", "Held", "chunks", "of_unit", "spread", "units"]

EMBEDDING: Final = -1
HEAD: Final = -2
"""Units of a model that are no layers; a layer is a unit by its number, from 0."""


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


def of_unit(model: Transformer, degrees: Parallelism, unit: int) -> Held:
    """Give the parameters of a layer, the embedding or the head."""
    if unit == EMBEDDING:
        return _of_embedding(model, degrees)
    return _of_head(model, degrees) if unit == HEAD else _of_layer(model, degrees, unit)


def _of_layer(model: Transformer, degrees: Parallelism, layer: int) -> Held:
    shared = _part(model.attention, degrees.tensor)
    if not model.has_experts(layer):
        return Held(shared + _part(model.mlp, degrees.tensor))
    own = model.experts // degrees.expert * model.expert // degrees.tensor
    return Held(shared + _part(model.around_experts, degrees.tensor), own)


def _of_embedding(model: Transformer, degrees: Parallelism) -> Held:
    """Give the parameters of the embedding, on the first stage."""
    return Held(-(-model.vocab // degrees.tensor) * model.hidden + model.positions * model.hidden)


def _of_head(model: Transformer, degrees: Parallelism) -> Held:
    """Give the parameters after the last layer, on the last stage; a tied head is a copy of the embedding."""
    words = -(-model.vocab // degrees.tensor) * model.hidden
    norm = model.head - (0 if model.tied else model.vocab * model.hidden)
    return Held(norm + (0 if model.tied and degrees.pipeline == 1 else words))


def spread(layers: int, degrees: Parallelism, stage: int) -> list[range]:
    """Give the layers of each chunk of a stage; the first chunks may have one more."""
    count = degrees.pipeline * degrees.interleave
    each, more = divmod(layers, count)
    found = []
    for number in range(stage, count, degrees.pipeline):
        first = number * each + min(number, more)
        found.append(range(first, first + each + (number < more)))
    return found


def chunks(model: Transformer, degrees: Parallelism, stage: int) -> list[range]:
    """Give the layers of each chunk of a stage of a transformer."""
    return spread(model.layers, degrees, stage)


def units(model: Transformer, degrees: Parallelism, stage: int) -> list[list[int]]:
    """Give the units of each chunk of a stage, in the order of a forward pass.

    Examples
    --------
    >>> from astranb.workload.models import MODELS
    >>> units(MODELS["gpt3-125m"], Parallelism(pipeline=6), 5), EMBEDDING, HEAD
    ([[10, 11, -2]], -1, -2)
    """
    found = [list(layers) for layers in chunks(model, degrees, stage)]
    if model.vocab and stage == 0:
        found[0].insert(0, EMBEDDING)
    if model.vocab and stage == degrees.pipeline - 1:
        found[-1].append(HEAD)
    return found
