"""GPU presets that an infrastructure names or suggests, and the assumed one."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from .presets import PRESETS

if TYPE_CHECKING:
    from astranb.infragraph import Infra

__all__ = ["named_gpus"]

_ASSUMED = "h100-sxm"


def named_gpus(infra: Infra) -> tuple[list[str], list[str]]:
    """Return the name of each rank's preset, and what was assumed.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> named_gpus(blueprint("dgx-a100"))[0][:2]
    ['a100-sxm', 'a100-sxm']
    """
    declared = infra.profile_of_gpus()
    text = " ".join([infra.name, *infra.device_names()]).lower()
    suggested = next((p for p in PRESETS if _named(p, text)), None)
    unnamed = declared.count(None)
    notes = []
    if unnamed:
        why = f"the name {infra.name!r} suggests it" if suggested else "nothing else is specified"
        notes.append(f"{unnamed} GPUs are taken for {suggested or _ASSUMED}: {why}")
    return [name or suggested or _ASSUMED for name in declared], notes


def _named(preset: str, text: str) -> bool:
    """Return whether a text has a GPU's name: ``8xh200`` has h200, not h20; ``mesh20`` has neither."""
    return re.search(rf"(?<![a-fh-wyz]){re.escape(preset.split('-', 1)[0])}(?!\d)", text) is not None
