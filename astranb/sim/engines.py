"""From what a person gives to the engine that moves it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any, Final

from astranb.collectives import Collective
from astranb.core.errors import InputError, near
from astranb.core.units import format_bytes
from astranb.engine.cacheline import CacheLineEngine, Graph
from astranb.engine.cacheline.assumptions import presets_of
from astranb.engine.layers import LayerEngine, LayerRun, cacheline_inputs
from astranb.engine.messages import MessageEngine
from astranb.engine.messages import Run as MessageRun
from astranb.engine.protocol import Engine
from astranb.gpu import Preset
from astranb.infragraph import Infra, resolve
from astranb.net import Network as Options
from astranb.net import compile_fabric
from astranb.workload import astrasim1, astrasim2
from astranb.workload.astrasim1 import HierarchicalNetwork, LayerWorkload
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    DimensionNetwork,
    InfraNetwork,
    Operations,
    System,
    Workload,
)
from astranb.workload.models import ModelStep

__all__ = ["FIDELITIES", "open_engine", "read_files"]

FIDELITIES: Final = ("analytical", "congestion", "cacheline")

_BY_MESSAGES: Final = {
    "ring": ("ring", 1),
    "allpairs": ("direct", 1),
    "allpairs_oneshot": ("direct", 1),
    "allpairs_get": ("direct", 1),
    "get": ("direct", 1),
    "put": ("direct", 1),
    "pairwise": ("direct", 1),
    "halving_doubling": ("halvingDoubling", 1),
    "tree": ("doubleBinaryTree", 1),
    "switch": ("inNetwork", 1),
    "hierarchical": ("ring", 2),
}
"""What the message engine calls an algorithm, and whether it goes dimension by dimension."""


def open_engine(
    infra: Any,
    what: Any,
    fidelity: str | None,
    *,
    gpu: str | Path | Preset | None = None,
    network: Options | None = None,
    launch: str = "none",
    record: bool = True,
    memory_bytes: int | None = None,
) -> Engine:
    """Give the engine for what runs at a fidelity; the parameters are those of ``Simulation``.

    Raises
    ------
    InputError
        It cannot run like that.
    """
    if fidelity is not None and fidelity not in FIDELITIES:
        raise InputError(f"unknown fidelity {fidelity!r}", where="fidelity", hint=near(fidelity, FIDELITIES))
    if isinstance(what, ModelStep):
        what = what.on(_network(infra), gpu.name if isinstance(gpu, Preset) else str(gpu) if gpu else None)
        gpu = gpu if fidelity == "cacheline" else None  # its computations have their durations already
    if isinstance(what, LayerWorkload):
        chosen = fidelity or ("congestion" if what.congestion else "analytical")
        if chosen != "cacheline":
            described = what if infra is None else dataclasses.replace(what, network=_layered(infra))
            described = dataclasses.replace(described, congestion=chosen == "congestion")
            return LayerEngine(LayerRun(described, record=record), what.title)
        inputs, durations = cacheline_inputs(what)
        what, fidelity = Graph.of(inputs, what.title, durations), "cacheline"
    elif isinstance(what, Workload) or (isinstance(what, Collective) and fidelity not in (None, "cacheline")):
        collective = None
        if isinstance(what, Collective):
            what, collective = _as_workload(_network(infra), what)
        elif infra is not None:
            what = dataclasses.replace(what, network=_network(infra) or what.network)
        if fidelity != "cacheline":
            _refuse(gpu=gpu, network=network, launch=None if launch == "none" else launch)
            run = MessageRun(what, congestion=fidelity == "congestion", record=record)
            return MessageEngine(run, what.title, collective)
        if not isinstance(what.network, InfraNetwork):
            hint = "give an infrastructure: Simulation(infra, workload, fidelity='cacheline')"
            raise InputError("a network of dimensions has no GPUs for cache lines", where="infra", hint=hint)
        infra, what = what.network.infra, Graph.of(what, what.title)
    if not isinstance(what, Collective | Graph):
        hint = "make one with astranb.collectives.all_reduce(size) or a sibling"
        raise InputError(f"neither a collective nor a workload: {what!r}", hint=hint)
    if fidelity not in (None, "cacheline"):
        raise InputError("operations by cache lines run by cache lines only", where="fidelity")
    machine = infra.infra if isinstance(infra, InfraNetwork) else _infra(infra)
    fabric = compile_fabric(machine.expand())
    presets, notes = presets_of(machine, fabric, gpu)
    return CacheLineEngine.built(
        machine,
        what,
        fabric,
        presets,
        network or Options(),
        launch,
        notes=notes,
        record=record,
        memory_bytes=memory_bytes,
    )


def read_files(workload: str | Path, system: str | Path, network: Any, **options: Any) -> Any:
    """Read ASTRA-sim's files: 2.0's, or 1.0's where there is a layer table instead of traces."""
    if not Path(f"{workload}.0.et").exists() and astrasim1.is_layer_table(workload):
        return astrasim1.load(workload, system, network, **options)
    return astrasim2.load(workload, system, network, **options)


def _infra(infra: Any) -> Infra:
    if infra is None:
        raise InputError("an infrastructure is needed", where="infra", hint="for example 'dgx-h100'")
    return infra if isinstance(infra, Infra) else resolve(str(infra))


def _network(infra: Any) -> DimensionNetwork | InfraNetwork | None:
    """What a workload's messages cross: a network of dimensions as it is, else an infrastructure."""
    if infra is None or isinstance(infra, DimensionNetwork | InfraNetwork):
        return infra
    return InfraNetwork(_infra(infra))


def _layered(infra: Any) -> HierarchicalNetwork:
    if not isinstance(infra, HierarchicalNetwork):
        hint = "give a HierarchicalNetwork, or fidelity='cacheline' for an infrastructure"
        raise InputError("a layer table needs a network of dimensions", where="infra", hint=hint)
    return infra


def _refuse(**given: Any) -> None:
    """Refuse options that whole messages have no use for."""
    for name, value in given.items():
        if value is not None:
            hint = "leave it out, or take fidelity='cacheline'"
            raise InputError("whole messages are simulated without GPUs", where=name, hint=hint)


def _as_workload(
    network: DimensionNetwork | InfraNetwork | None, what: Collective
) -> tuple[Workload, tuple[str, int, int]]:
    """One collective as an operation of every rank, with the algorithm that is called so by messages."""
    if network is None:
        raise InputError("an infrastructure is needed", where="infra", hint="for example 'dgx-h100'")
    name, algorithm = what.name, what.algorithm_name
    if name not in COLLECTIVE_NAMES:
        raise InputError(f"{name} is not simulated by messages", where="fidelity", hint="take 'cacheline'")
    if algorithm not in _BY_MESSAGES:
        hint = f"take fidelity='cacheline', or {near(algorithm, _BY_MESSAGES)}"
        raise InputError(f"algorithm {algorithm!r} is not simulated by messages", where="fidelity", hint=hint)
    word, dimensions = _BY_MESSAGES[algorithm]
    if isinstance(network, InfraNetwork) and dimensions == 1:
        network = InfraNetwork(network.infra, (network.npus,))
    option = f"{name.replace('_', '-')}-implementation"
    words = [word] * len(network.topology if isinstance(network, DimensionNetwork) else network.npus_count)
    system = System.from_document({option: words, "preferred-dataset-splits": 1})
    one = Operations.of(
        [{"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES[name], "bytes": what.size, "peer": what.root}]
    )
    title = f"{what.title}, {format_bytes(what.size)}"
    ranks = network.npus
    return Workload([one] * ranks, network, system, title=title), (name, what.size, ranks)
