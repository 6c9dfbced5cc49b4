"""Presets of an infrastructure's GPUs: given, named, suggested or assumed."""

from __future__ import annotations

from pathlib import Path

from astranb.core.errors import InputError
from astranb.gpu import PRESETS, Preset, preset
from astranb.infragraph import Infra
from astranb.net import Fabric

__all__ = ["presets_of"]


def presets_of(
    infra: Infra, fabric: Fabric, gpu: str | Path | Preset | None
) -> tuple[list[Preset], list[str]]:
    """The preset of every rank: given, named by the infrastructure, suggested by its names, or assumed."""
    count = len(fabric.gpus)
    if gpu is not None:
        return [gpu if isinstance(gpu, Preset) else preset(gpu)] * count, []
    named_by_infra = infra.profile_of_gpus()
    text = " ".join([infra.name, *infra.device_names()]).lower()
    named = next((p for p in PRESETS if p.split("-", 1)[0] in text), None)
    presets = [preset(name) if name else preset(named or "h100-sxm") for name in named_by_infra]
    unnamed = named_by_infra.count(None)
    notes = []
    if unnamed:
        why = f"the name {infra.name!r} suggests it" if named else "nothing else is specified"
        notes.append(f"{unnamed} GPUs are taken for {named or 'h100-sxm'}: {why}")
    for number in ("line_bytes", "bulk_lines", "engine_lines", "nic_lines", "nic_post_ps"):
        found = sorted({getattr(p, number) for p in presets})
        if len(found) > 1:
            raise InputError(f"GPUs with different {number}: {found}", where=infra.name)
    return presets, notes
