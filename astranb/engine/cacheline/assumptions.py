"""Presets of an infrastructure's GPUs: given, named, suggested or assumed."""

from __future__ import annotations

from astranb.core.errors import InputError
from astranb.gpu import GpuChoice, Preset, chosen_preset, named_gpus, preset, with_numbers
from astranb.infragraph import Infra
from astranb.net import Fabric

__all__ = ["presets_of"]


def presets_of(infra: Infra, fabric: Fabric, gpu: GpuChoice | None) -> tuple[list[Preset], list[str]]:
    """The preset of every rank: given, named by the infrastructure, suggested by its names, or assumed."""
    count = len(fabric.gpus)
    given, numbers = chosen_preset(gpu)
    if given is not None:
        return with_numbers([given] * count, numbers), []
    names, notes = named_gpus(infra)
    presets = with_numbers([preset(name) for name in names], numbers)
    for number in ("line_bytes", "bulk_lines", "engine_lines", "nic_lines", "nic_post_ps"):
        found = sorted({getattr(p, number) for p in presets})
        if len(found) > 1:
            raise InputError(f"GPUs with different {number}: {found}", where=infra.name)
    return presets, notes
