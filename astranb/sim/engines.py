"""From what a person gives to the engine that moves it."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from astranb.core.errors import InputError
from astranb.core.file_formats import is_task_graph
from astranb.core.units import format_bytes
from astranb.engine import fidelity_of

# Engines, inputs and infrastructures are imported where they are chosen: a run pays for its own only.
if TYPE_CHECKING:
    from astranb.collectives import Collective
    from astranb.engine import Engine
    from astranb.engine.cacheline import Graph
    from astranb.gpu import GpuChoice
    from astranb.hardware import Gpu
    from astranb.infragraph import Infra
    from astranb.net import Network as Options
    from astranb.workload.astrasim1 import HierarchicalNetwork, LayerWorkload
    from astranb.workload.astrasim2 import DimensionNetwork, InfraNetwork, Workload
    from astranb.workload.jobs import Start

__all__ = ["open_engine", "read_files"]

_PLACED: Final = ("jobs", "model", "operations", "varied")
"""Inputs that become a workload when their network is known."""
_SUBJECTS: Final = ("collective", "graph", "layers", "workload", *_PLACED)
"""Kinds of inputs that can run; each class of inputs names its own."""

_NOT_GIVEN: Final = (None, "none", "Simple")
"""Values of options that are as good as none: no launch cost, no flags in the data."""


def open_engine(
    infra: Any,
    what: Any,
    fidelity: str | None = None,
    *,
    gpu: GpuChoice | None = None,
    network: Options | None = None,
    launch: str = "none",
    record: bool = True,
    memory_bytes: int | None = None,
    start: Start | None = None,
    cost: str | None = None,
    unchecked: bool = False,
) -> Engine:
    """Return the engine that runs something at a fidelity; the parameters are those of ``Simulation``.

    Raises
    ------
    InputError
        It cannot run at this fidelity, or the fidelity cannot use an option.
    """
    subject = getattr(what, "subject", None)
    if subject not in _SUBJECTS:
        hint = "give what runs behind it, as Simulation('dgx-h100', anb.all_reduce('1 MiB'))"
        found = (
            "nothing to run is given"
            if what is None
            else f"neither a collective nor a workload: {what!r:.80}"
        )
        raise InputError(found, where="Simulation", hint=hint)
    if unchecked:
        if subject != "collective" or fidelity_of(fidelity, collective=True) != "cacheline":
            hint = "leave it out: only the result of a collective by cache lines is checked"
            raise InputError("does not apply", where="unchecked", hint=hint)
        what = dataclasses.replace(what, unchecked=True)
    chosen = fidelity_of(fidelity, collective=subject in ("collective", "graph"))
    if cost is not None and (chosen == "cacheline" or subject in ("layers", "graph")):
        hint = "leave it out, or use fidelity='congestion'"
        raise InputError(f"does not apply at fidelity {chosen!r}", where="cost", hint=hint)
    if subject in _PLACED:
        from astranb.gpu import chosen_preset

        given = chosen_preset(gpu)[0]
        name = (given.like or given.name) if given else None
        kernels: Gpu | str | None = given.name if given else None
        if given and given.kernels and not given.shipped:
            kernels = dataclasses.replace(given.kernels, own_machine=given)
        what = what.on(_network(infra, name), kernels, by_lines=chosen == "cacheline")
        gpu = gpu if chosen == "cacheline" else None  # its computations have their durations already
    if chosen == "cacheline":
        from astranb.engine.cacheline import CacheLineInputs, presets_of
        from astranb.gpu import chosen_preset
        from astranb.net import Network as Options
        from astranb.net import compile_fabric

        machine, work = _by_cache_lines(infra, what)
        given = chosen_preset(gpu)[0]
        machine = machine.completed((given.like or given.name) if given else None)
        fabric = compile_fabric(machine.expand())
        presets, notes = presets_of(machine, fabric, gpu)
        inputs = CacheLineInputs(
            machine,
            work,
            tuple(presets),
            network or Options(),
            launch,
            tuple(_starts_ps(start, len(fabric.gpus))),
            tuple(notes),
            record,
        )
        return inputs.engine(memory_bytes=memory_bytes, fabric=fabric)
    options = {"gpu": gpu, "network": network, "launch": launch, "memory_bytes": memory_bytes}
    if subject == "collective":
        options |= {"protocol": what.protocol, "channels": what.channels}
    for name, value in options.items():
        if value not in _NOT_GIVEN:
            hint = "leave it out, or use fidelity='cacheline'"
            raise InputError(f"does not apply at fidelity {chosen!r}", where=name, hint=hint)
    if subject == "graph":
        raise InputError("a Graph is simulated by cache lines only", where="fidelity", hint="use 'cacheline'")
    if subject == "layers":
        if start is not None:
            hint = "use fidelity='cacheline', or a workload of operations"
            raise InputError("one rank of a layer table represents all", where="start", hint=hint)
        from astranb.engine.layers import LayerInputs

        congestion = what.congestion if fidelity is None else chosen == "congestion"
        layered = what.network if infra is None else _layered(infra)
        described = dataclasses.replace(what, network=layered, congestion=congestion)
        return LayerInputs(described, record).engine()
    from astranb.engine.messages import MessageInputs

    collective = None
    if subject == "collective":
        what, collective = _as_workload(_network(infra), what)
    elif infra is not None:
        what = dataclasses.replace(what, network=_network(infra))
    if start is not None:
        from astranb.workload.jobs import started

        what = started(what, _starts_ps(start, len(what.operations)))
    if cost is not None:
        what = what.with_cost(cost)
    return MessageInputs(what, chosen == "congestion", collective, record).engine()


def _starts_ps(start: Start | None, ranks: int) -> list[int]:
    if start is None:
        return []
    from astranb.workload.jobs import starts_ps

    return starts_ps(start, ranks)


def _by_cache_lines(
    infra: Any, what: Collective | Graph | LayerWorkload | Workload
) -> tuple[Infra, Collective | Graph]:
    """Return the machine and the loads and stores that run on it."""
    from astranb.infragraph import dimensions
    from astranb.workload.astrasim1 import HierarchicalNetwork, LayerWorkload
    from astranb.workload.astrasim2 import DimensionNetwork, InfraNetwork, Workload

    durations, compat = None, False
    if isinstance(what, LayerWorkload):
        if isinstance(infra, HierarchicalNetwork):
            what, infra = dataclasses.replace(what, network=infra), None
        from astranb.engine.layers import cacheline_inputs

        what, durations = cacheline_inputs(what)
    if isinstance(what, Workload):
        for name, given in (("queues", what.system.queues > 1), ("rendezvous", what.system.rendezvous)):
            if given:
                hint = "leave it out, or use fidelity='congestion'"
                raise InputError("does not apply at fidelity 'cacheline'", where=name, hint=hint)
        from astranb.engine.cacheline import Graph

        infra, compat = what.network if infra is None else infra, what.compat
        what = Graph.of(what, what.title, durations)
    if isinstance(infra, InfraNetwork):
        return infra.infra, what
    if isinstance(infra, DimensionNetwork):
        rates = [rate * (2**30 if compat else 10**9) for rate in infra.bandwidth]
        return dimensions(infra.topology, infra.npus_count, rates, infra.latency), what
    return _infra(infra), what


def read_files(workload: str | Path, system: str | Path, network: Any, **options: Any) -> Any:
    """Read ASTRA-sim's files: 2.0's, or 1.0's where there is a layer table instead of traces."""
    from astranb.workload import astrasim2

    if not Path(f"{workload}.0.et").exists() and not is_task_graph(workload):
        from astranb.workload import astrasim1

        if astrasim1.is_layer_table(workload):
            return astrasim1.load(workload, system, network, **options)
    return astrasim2.load(workload, system, network, **options)


def _infra(infra: Any) -> Infra:
    from astranb.infragraph import resolve

    if infra is None:
        raise InputError("an infrastructure is needed", where="infra", hint="for example 'dgx-h100'")
    return resolve(infra)


def _network(infra: Any, gpu: str | None = None) -> DimensionNetwork | InfraNetwork | None:
    """Return the network of a workload's messages: one of dimensions as it is, else an infrastructure."""
    from astranb.workload.astrasim2 import DimensionNetwork, InfraNetwork

    if infra is None or isinstance(infra, DimensionNetwork | InfraNetwork):
        return infra
    return InfraNetwork(_infra(infra).completed(gpu))


def _layered(infra: Any) -> HierarchicalNetwork:
    from astranb.workload.astrasim1 import HierarchicalNetwork

    if not isinstance(infra, HierarchicalNetwork):
        hint = "give a HierarchicalNetwork, or fidelity='cacheline' for an infrastructure"
        raise InputError("a layer table needs a network of dimensions", where="infra", hint=hint)
    return infra


def _as_workload(
    network: DimensionNetwork | InfraNetwork | None, what: Collective
) -> tuple[Workload, tuple[str, int, int]]:
    """One collective as an operation of every rank, with the algorithm that is called so by messages."""
    from astranb.workload.astrasim2 import Workload
    from astranb.workload.jobs import collective_operations, flat

    if network is None:
        raise InputError("an infrastructure is needed", where="infra", hint="for example 'dgx-h100'")
    if what.algorithm_name != "hierarchical":  # which goes dimension by dimension
        network = flat(network)
    one, system = collective_operations(what, network, network.npus)
    title = f"{what.title if what.named else what.name}, {format_bytes(what.size)}"
    ranks = network.npus
    return Workload([one] * ranks, network, system, title=title), (what.name, what.size, ranks)
