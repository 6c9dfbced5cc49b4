"""What a simulation takes for granted about its GPUs, and says so."""

from __future__ import annotations

from astranb.collectives import Lowered
from astranb.core.errors import InputError
from astranb.core.units import format_bytes
from astranb.gpu import PRESETS, Preset, preset
from astranb.infragraph import Infra
from astranb.net import Fabric

__all__ = ["beyond_l2", "presets_of"]


def presets_of(infra: Infra, fabric: Fabric, gpu: str | Preset | None) -> tuple[list[Preset], list[str]]:
    """The preset of every rank: told, said by the infrastructure, suggested by its names, or assumed."""
    count = len(fabric.gpus)
    if isinstance(gpu, Preset):
        return [gpu] * count, []
    if gpu is not None:
        return [preset(gpu)] * count, []
    said = infra.profile_of_gpus()
    text = " ".join([infra.name, *infra.device_names()]).lower()
    named = next((p for p in PRESETS if p.split("-", 1)[0] in text), None)
    presets = [preset(name) if name else preset(named or "h100-sxm") for name in said]
    unsaid = said.count(None)
    notes = []
    if unsaid:
        why = f"the name {infra.name!r} suggests it" if named else "nothing says otherwise"
        notes.append(f"{unsaid} GPUs are taken for {named or 'h100-sxm'}: {why}")
    sizes = {p.line_bytes for p in presets}
    if len(sizes) > 1:
        raise InputError(f"GPUs with different line sizes: {sorted(sizes)}", where=infra.name)
    return presets, notes


def beyond_l2(program: Lowered, presets: list[Preset]) -> list[str]:
    """Say so where the model is too kind: lines stay in L2 from their first touch on."""
    sizes = [int(lines) * program.line_bytes for lines in program.lines]
    over = [rank for rank, size in enumerate(sizes) if size > presets[rank].l2_bytes]
    if not over:
        return []
    biggest = max(sizes[rank] for rank in over)
    which = f"the buffers of {len(over)} GPUs (up to {format_bytes(biggest)})"
    return [f"{which} exceed their L2: capacity misses are not modelled, so that reading twice is too fast"]
