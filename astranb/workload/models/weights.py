"""The parameters that a rank holds."""

from __future__ import annotations

from typing import Final, NamedTuple

from astranb.chakra.scaling import Parallelism, share

from .transformer import ParameterBlock, Transformer

__all__ = [
    "EMBEDDING", "HEAD", "Held", "cached_width", "chunks", "of_unit", "shares", "spread", "trained_of_unit",
    "unit_name", "units",
]  # fmt: skip

EMBEDDING: Final = -1
HEAD: Final = -2
"""Units of a model that are no layers; a layer is a unit by its number, from 0."""


def unit_name(key: int) -> str:
    """Name a unit as the names of its operations begin: ``L0``, ``embedding``."""
    return {EMBEDDING: "embedding", HEAD: "head"}.get(key, f"L{key}")


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


def shares(model: Transformer, tensor: int) -> list[int]:
    """Number the ranks of a tensor group by what they have of the model: those with equal shares alike.

    Examples
    --------
    >>> from astranb import models
    >>> shares(models.MODELS["gpt3-125m"], 8), shares(models.MODELS["gpt3-125m"], 4)
    ([0, 1, 0, 1, 0, 1, 0, 1], [0, 0, 0, 0])
    """
    widths = model.head_groups, model.ffn, model.expert_ffn, model.shared_experts * model.expert_ffn
    if not any(width % tensor for width in widths):
        return [0] * tensor
    known: dict[tuple[int, ...], int] = {}
    return [
        known.setdefault(tuple(share(width, tensor, part) for width in widths), len(known))
        for part in range(tensor)
    ]


def cached_width(model: Transformer, tensor: int, part: int = 0) -> int:
    """Return the numbers per token in a layer's key-value cache on one rank of a tensor group."""
    if model.is_latent:
        return model.cache_width
    return model.cache_width // model.kv_heads * share(model.kv_heads, tensor, part)


def _part(block: ParameterBlock, width: int, mine: int) -> int:
    """Return a rank's parameters of a block, of whose width it has its own share."""
    return (block.split // width * mine if width else 0) + block.whole + block.small


def of_unit(model: Transformer, degrees: Parallelism, unit: int, part: int = 0) -> Held:
    """Return the parameters of a layer, the embedding or the head on one rank of a tensor group."""
    if unit == EMBEDDING:
        return _of_embedding(model, degrees)
    return _of_head(model, degrees) if unit == HEAD else _of_layer(model, degrees, unit, part)


def trained_of_unit(
    model: Transformer, degrees: Parallelism, unit: int, part: int = 0, lora: int = 0
) -> Held:
    """Return the parameters of a unit that are trained: all, or the adapters of a rank (:attr:`Job.lora`)."""
    if not lora:
        return of_unit(model, degrees, unit, part)
    if unit < 0:
        return Held()
    heads = model.heads // model.head_groups * share(model.head_groups, degrees.tensor, part)
    wide = heads * model.key_size + cached_width(model, degrees.tensor, part)
    return Held(lora * (2 * model.hidden + wide + heads * model.value_size))


def _of_layer(model: Transformer, degrees: Parallelism, layer: int, part: int) -> Held:
    def mine(block: ParameterBlock, width: int) -> int:
        return _part(block, width, share(width, degrees.tensor, part))

    shared = mine(model.attention, model.head_groups)
    if not model.has_experts(layer):
        return Held(shared + mine(model.mlp, model.ffn))
    each = model.expert // model.expert_ffn * share(model.expert_ffn, degrees.tensor, part)
    width = model.shared_experts * model.expert_ffn
    return Held(shared + mine(model.around_experts, width), model.experts // degrees.expert * each)


def _of_embedding(model: Transformer, degrees: Parallelism) -> Held:
    """Return the parameters of the embedding, on the first stage."""
    return Held(-(-model.vocab // degrees.tensor) * model.hidden + model.positions * model.hidden)


def _of_head(model: Transformer, degrees: Parallelism) -> Held:
    """Return the parameters after the last layer, on the last stage; a tied head copies the embedding."""
    vocabulary = -(-model.vocab // degrees.tensor) * model.hidden
    norm = model.head - (0 if model.tied else model.vocab * model.hidden)
    return Held(norm + (0 if model.tied and degrees.ends_meet else vocabulary))


def spread(layers: int, degrees: Parallelism, stage: int) -> list[range]:
    """Return the layers of each chunk of a stage; the first chunks may have one more."""
    count = degrees.pipeline * degrees.interleave
    each, more = divmod(layers, count)
    found = []
    numbers = [stage, count - 1 - stage] if degrees.is_vee else range(stage, count, degrees.pipeline)
    for number in numbers:
        first = number * each + min(number, more)
        found.append(range(first, first + each + (number < more)))
    return found


def chunks(model: Transformer, degrees: Parallelism, stage: int) -> list[range]:
    """Return the layers of each chunk of a stage of a transformer."""
    return spread(model.layers, degrees, stage)


def units(model: Transformer, degrees: Parallelism, stage: int) -> list[list[int]]:
    """Return the units of each chunk of a stage, in the order of a forward pass.

    Examples
    --------
    >>> from astranb import models
    >>> units(models.MODELS["gpt3-125m"], Parallelism(pipeline=6), 5), EMBEDDING, HEAD
    ([[10, 11, -2]], -1, -2)
    """
    found = [list(layers) for layers in chunks(model, degrees, stage)]
    if model.vocab and stage == 0:
        found[0].insert(0, EMBEDDING)
    if model.vocab and stage == (0 if degrees.is_vee else degrees.pipeline - 1):
        found[-1].append(HEAD)
    return found
