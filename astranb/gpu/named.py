"""Presets that an infrastructure names or suggests, or that are assumed for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.plural import plural
from astranb.hardware import DEFAULT_GPU, suggested_gpu

if TYPE_CHECKING:
    from astranb.infragraph import Infra

__all__ = ["named_gpus"]


def named_gpus(infra: Infra) -> tuple[list[str], list[str]]:
    """Return the name of each rank's preset, and what was assumed.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> named_gpus(blueprint("dgx-a100"))[0][:2]
    ['a100-sxm', 'a100-sxm']
    """
    declared = infra.profile_of_gpus()
    suggested = suggested_gpu(" ".join([infra.name, *infra.device_names()]).lower())
    unnamed = declared.count(None)
    notes = []
    if unnamed:
        why = f"the name {infra.name!r} suggests it" if suggested else "nothing else is specified"
        notes.append(f"{plural(unnamed, 'GPU is', 'GPUs are')} taken for {suggested or DEFAULT_GPU}: {why}")
    return [name or suggested or DEFAULT_GPU for name in declared], notes
