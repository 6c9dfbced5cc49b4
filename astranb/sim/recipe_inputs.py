"""The inputs of each engine as a document: the classes that a recipe may hold, and their forms.

Inputs are written as content, never as paths. What an engine is built of is written, not what that was made
of: a step of a model is its operations, traces are their tables, and an algorithm is its name, its file, or
where it is only a function, that function's name and the lowered program.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from astranb.core.encoded import Decoder, Encoder, Form, Kinds
from astranb.core.errors import InputError

# Engines and inputs are imported where they are needed: a run pays for its own only.
if TYPE_CHECKING:
    from astranb.engine.cacheline import CacheLineInputs
    from astranb.engine.layers import LayerInputs
    from astranb.engine.messages import MessageInputs

    Inputs = CacheLineInputs | LayerInputs | MessageInputs

__all__ = ["ENGINES", "inputs_of", "kinds_of", "root_of"]

ENGINES: Final = ("cacheline", "messages", "layers")


def inputs_of(engine: Any) -> tuple[str, Inputs]:
    """Return the name of an engine, and what it was built of."""
    from astranb.engine.cacheline import CacheLineEngine

    if isinstance(engine, CacheLineEngine):
        from astranb.engine.cacheline import CacheLineInputs

        return "cacheline", CacheLineInputs.of(engine)
    from astranb.engine.messages import MessageEngine

    if isinstance(engine, MessageEngine):
        from astranb.engine.messages import MessageInputs

        return "messages", MessageInputs.of(engine)
    from astranb.engine.layers import LayerInputs

    return "layers", LayerInputs.of(engine)


def root_of(engine: str) -> type[Inputs]:
    """Return the class of the inputs of an engine."""
    if engine == "cacheline":
        from astranb.engine.cacheline import CacheLineInputs

        return CacheLineInputs
    if engine == "messages":
        from astranb.engine.messages import MessageInputs

        return MessageInputs
    from astranb.engine.layers import LayerInputs

    return LayerInputs


def kinds_of(engine: str) -> Kinds:
    """Return the classes that the inputs of an engine consist of."""
    return {"cacheline": _cache_lines, "messages": _messages, "layers": _layers}[engine]()


def _layers() -> Kinds:
    from astranb.workload import astrasim1 as a1
    from astranb.workload.astrasim1 import CountedWork, ProductWork, Roofline, Rooflines, WrittenLoop

    classes = [
        root_of("layers"), a1.HierarchicalNetwork, a1.Layer, a1.LayerAlgorithm, a1.LayerSystem, a1.LayerTable,
        a1.LayerWorkload, a1.Part, a1.Action, CountedWork, ProductWork, Roofline, Rooflines, WrittenLoop,
    ]  # fmt: skip
    return Kinds(classes, {})


def _messages() -> Kinds:
    from astranb.workload import astrasim2 as a2

    classes = [
        root_of("messages"), a2.DimensionNetwork, a2.Footprint, a2.InfraNetwork, a2.PlacedJob, a2.Workload,
        *_operations(),
    ]  # fmt: skip
    return Kinds(classes, {**_infra(), a2.Workload: Form(Encoder.fields_of, _workload)}, shared=_SHARED)


def _cache_lines() -> Kinds:
    from astranb import collectives as c
    from astranb.collectives.language import ChunkLayout, Reduction
    from astranb.engine.cacheline import Graph
    from astranb.hardware import Gpu, GpuCosts, GpuLibrary, Host, Interconnect, Preset, Provenance
    from astranb.net import Dcqcn, Ecn, Fault, Network, Pfc, Roce
    from astranb.workload.astrasim2 import PlacedJob

    classes = [
        root_of("cacheline"), c.Collective, c.Exchange, c.Lowered, c.ProgramSource, c.Routing, c.SourceText,
        ChunkLayout, Dcqcn, Ecn, Fault, Gpu, GpuCosts, GpuLibrary, Graph, Host, Interconnect, Network, Pfc,
        PlacedJob, Preset, Provenance, Reduction, Roce, *_operations(),
    ]  # fmt: skip
    forms = {
        **_infra(),
        c.Collective: Form(_collective, _collective_of),
        ChunkLayout: Form(Encoder.fields_of, _layout),
        Graph: Form(Encoder.fields_of, _graph),
    }
    left_out = frozenset({("ChunkLayout", "buffers"), ("Gpu", "own_machine")})
    return Kinds(classes, forms, left_out, _SHARED)


_SHARED: Final = frozenset({"Operations"})


def _operations() -> list[type]:
    """List the classes that the operations of ranks consist of."""
    from astranb.chakra import Distinct
    from astranb.workload import astrasim2 as a2
    from astranb.workload.astrasim2 import Pool
    from astranb.workload.kernels import Attention, Grid, Launch, Product, ShapedKernel

    return [
        Attention, Distinct, a2.DimensionAlgorithm, Grid, a2.Label, Launch, a2.Memory, a2.Operations, Pool,
        Product, a2.RankOperations, a2.RecordedParts, ShapedKernel, a2.System,
    ]  # fmt: skip


def _infra() -> dict[type, Form]:
    from astranb.infragraph import Infra, load

    def written(infra: Infra, _: Encoder) -> dict[str, Any]:
        return {"document": infra.to_dict()}

    def read(document: Mapping[str, Any], _: Decoder, where: str) -> Infra:
        if not isinstance(document.get("document"), dict):
            raise InputError("the infrastructure is not a document", where=where, hint="save it again")
        return load(document["document"])

    return {Infra: Form(written, read)}


def _workload(document: Mapping[str, Any], decoder: Decoder, where: str) -> Any:
    from astranb.workload.astrasim2 import Workload, check_operations, check_shown, check_system

    found = Workload(**decoder.fields(document, Workload, where))
    check_operations(found.operations, found.groups)
    check_system(found.system)
    check_shown(found.operations, found.jobs, found.footprint)
    return found


def _graph(document: Mapping[str, Any], decoder: Decoder, where: str) -> Any:
    from astranb.engine.cacheline import Graph
    from astranb.workload.astrasim2 import check_operations, check_shown, check_system

    fields = decoder.fields(document, Graph, where)
    check_operations(fields["operations"], fields.get("groups", {}))
    check_system(fields["system"])
    check_shown(fields["operations"], fields.get("jobs", ()), None)
    return Graph(**fields)


def _layout(document: Mapping[str, Any], decoder: Decoder, where: str) -> Any:
    from astranb.collectives.language import ChunkLayout

    return ChunkLayout(**decoder.fields(document, ChunkLayout, where)).checked()


class _UnknownFunction:
    """An algorithm of which a file has the name of its function and the lowered program, not the function."""

    __name__: str

    def __init__(self, name: str) -> None:
        self.__name__ = name

    def __call__(self, _program: Any, **_params: Any) -> None:
        what = "the function is not in the file; its program cannot be lowered again"
        raise InputError(what, where=f"algorithm {self.__name__!r:.80}", hint="give it: algorithm=FUNCTION")


def _collective(work: Any, encoder: Encoder) -> dict[str, Any]:
    """Write a collective: an algorithm by its name, with its file, or as a function of this name."""
    fields = {
        name: encoder.encode(getattr(work, name))
        for name in encoder.kinds.fields(type(work))
        if name != "algorithm"
    }
    file = getattr(work.algorithm, "file", None)
    if isinstance(work.algorithm, str):
        return {**fields, "algorithm": work.algorithm}
    if file is None:
        return {**fields, "algorithm": {"function": work.algorithm_name}}
    name, encoder.files[name] = f"algorithm/{file[0]}", file[1]
    return {**fields, "algorithm": {"file": name}}


def _collective_of(document: Mapping[str, Any], decoder: Decoder, where: str) -> Any:
    from astranb.collectives import Collective, Exchange
    from astranb.collectives.formats import algorithm_of

    cls = Exchange if document.get("is") == "Exchange" else Collective
    algorithm = document.get("algorithm")
    rest = {name: value for name, value in document.items() if name not in ("algorithm", "contract")}
    fields = decoder.fields(rest, cls, where)
    if document.get("contract") is not None:
        from astranb.collectives.language import ChunkLayout

        fields["contract"] = decoder.decode(document["contract"], ChunkLayout, f"{where}.contract")
    if isinstance(algorithm, dict) and algorithm.get("file") in decoder.files:
        fields["algorithm"] = algorithm_of(decoder.files[algorithm["file"]], algorithm["file"])
    elif isinstance(algorithm, dict) and isinstance(algorithm.get("function"), str):
        fields["algorithm"] = _UnknownFunction(algorithm["function"])
    elif isinstance(algorithm, str):
        fields["algorithm"] = algorithm
    else:
        raise InputError(
            "neither a name, a file nor a function", where=f"{where}.algorithm", hint="save it again"
        )
    return cls(**fields)
