"""Values of ``gpu=``: a preset, and numbers of it that are changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias

from astranb.core.errors import InputError
from astranb.hardware import Preset, preset

__all__ = ["GpuChoice", "chosen_preset", "with_numbers"]

GpuChoice: TypeAlias = str | Path | Preset | Mapping[str, Any]
"""A preset, its name or file; or numbers of the infrastructure's own: ``{"unroll": 8}``.

Numbers of another preset have its name beside them: ``{"preset": "h200-sxm", "unroll": 8}``.
"""

_PRESET: Final = "preset"


def chosen_preset(gpu: GpuChoice | None) -> tuple[Preset | None, dict[str, int]]:
    """Return the preset that is given, None for that of the infrastructure, and numbers to change in it.

    Raises
    ------
    InputError
        The name is unknown, or it is none of these.

    Examples
    --------
    >>> chosen_preset({"unroll": 8})
    (None, {'unroll': 8})
    >>> found, numbers = chosen_preset({"preset": "h100-sxm", "unroll": 8})
    >>> found.name, numbers
    ('h100-sxm', {'unroll': 8})
    """
    numbers: dict[str, int] = {}
    if isinstance(gpu, Mapping):
        numbers = {str(name): value for name, value in gpu.items() if name != _PRESET}
        gpu = gpu.get(_PRESET)
    if gpu is None or isinstance(gpu, Preset):
        return gpu, numbers
    if not isinstance(gpu, str | Path):
        hint = 'give a name, a Preset, or numbers: {"unroll": 8}'
        raise InputError(f"not a GPU: {gpu!r:.80}", where="gpu", hint=hint)
    return preset(gpu), numbers


def with_numbers(presets: Sequence[Preset], numbers: Mapping[str, int]) -> list[Preset]:
    """Return presets with some numbers changed; those that were one object stay one.

    Raises
    ------
    InputError
        There is no such number, or it is out of range.

    Examples
    --------
    >>> [one.unroll for one in with_numbers([preset("h100-sxm")] * 2, {"unroll": 8})]
    [8, 8]
    """
    if not numbers:
        return list(presets)
    changed = {id(one): one.but(**numbers) for one in {id(one): one for one in presets}.values()}
    return [changed[id(one)] for one in presets]
