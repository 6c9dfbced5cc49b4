"""Typed specifications of runs, one for each kind, with all defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from astranb.core.errors import InputError
from astranb.core.limits import MOST_CHANNELS, MOST_RANKS
from astranb.engine import FIDELITIES

from .readers import flag_of, number, positive, truth, whole

if TYPE_CHECKING:
    from astranb.collectives import Contract
    from astranb.infragraph import Infra

__all__ = [
    "COLLECTIVE",
    "EXCHANGE",
    "EXCHANGES",
    "JOBS",
    "LAYERS",
    "MODEL",
    "TRACES",
    "CollectiveRun",
    "ExchangeRun",
    "JobsRun",
    "ModelRun",
    "RunSpec",
    "StepSpec",
    "TraceRun",
    "arguments_of",
    "check_effect",
    "given",
    "made_of",
    "parameter_of",
]

COLLECTIVE: Final = "a collective"
EXCHANGE: Final = "an exchange of experts"
MODEL: Final = "a model"
JOBS: Final = "several jobs"
TRACES: Final = "ASTRA-sim 2.0 files"
LAYERS: Final = "ASTRA-sim 1.0 files"
"""Names of what can run."""
EXCHANGES: Final = ("dispatch", "combine")

_MESSAGES: Final = FIDELITIES[:-1]
_LINES: Final = FIDELITIES[-1:]
_FIDELITIES: Final = "analytical, congestion or cacheline"
_LINES_A_REQUEST: Final = "cache lines per request; above 1 is faster and inexact"
_KERNEL_LINES: Final = "cache lines per request of compute kernels; 32 is coarse and fast"


def _about(
    about: str,
    read: Callable[[str], Any] = str,
    *,
    alone: object = None,
    together: bool = False,
    parameter: str = "",
) -> dict[str, Any]:
    return {"about": about, "read": read, "alone": alone, "together": together, "parameter": parameter}


def setting(
    about: str,
    default: Any = None,
    read: Callable[[str], Any] = str,
    *,
    alone: object = None,
    together: bool = False,
    parameter: str = "",
) -> Any:
    """Return a field of a specification.

    Parameters
    ----------
    about : str
        Its description, which is also the help of the option.
    default : any
        An empty tuple for a field of several values.
    read : callable
        Makes the value of a text.
    alone : any
        The value where only the name is given.
    together : bool
        Whether several values follow the option at once; else it is repeated.
    parameter : str
        The parameter of the library's function that takes it; empty if it has the same name.
    """
    about_it = _about(about, read, alone=alone, together=together, parameter=parameter)
    return field(default=default, metadata=about_it)


def flag(about: str, *, parameter: str = "") -> Any:
    """Return a field that is true or false."""
    return setting(about, default=False, read=truth, alone=True, parameter=parameter)


def _count(about: str, default: int | None = None, *span: int, parameter: str = "") -> Any:
    return setting(about, default, whole(*(span or (1,))), parameter=parameter)


def _degree(about: str, *, parameter: str = "") -> Any:
    return _count(about, 1, 1, MOST_RANKS, parameter=parameter)


def _ranked(about: str, *, parameter: str = "") -> Any:
    return _count(about, None, 1, MOST_RANKS, parameter=parameter)


_Class = TypeVar("_Class", bound=type)


def described(kind: _Class) -> _Class:
    """List the fields of a dataclass in its docstring."""
    rows = [f"    {one.name} : {one.type}\n        {one.metadata['about']}" for one in fields(kind)]
    kind.__doc__ = "\n".join([f"{kind.__doc__ or ''}\n\n    Attributes\n    ----------", *rows, ""])
    return kind


@described
@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """The machine, which every run has."""

    kind: ClassVar[str]
    """Its name in messages."""
    name: ClassVar[str]
    """Word of the command line after ``astranb run``."""
    subject: ClassVar[str]
    """Name of the positional field."""

    infra: str | Infra | None = setting(  # noqa: RUF009 - a field
        "InfraGraph file, or blueprint such as dgx-h100"
    )
    down: tuple[str, ...] = setting(
        "failed link A->B, lane A->B#k, or node A with all its links; repeatable", ()
    )
    pxn: bool = flag("send to another rail by the NIC of the GPU on it, over NVLink (NCCL's PXN)")
    fail: tuple[str, ...] = setting(
        "a link, lane or node that fails while the run goes, as 'A->B@40us'; repeatable", ()
    )
    repair: tuple[str, ...] = setting("when one of them comes up again; repeatable", ())
    reroute: str = setting("how long after a failure or repair the routes change, as 5us, or never", "never")
    start: tuple[str, ...] = setting("a rank that starts late and how late, as 3@20us; repeatable", ())
    gpu: str | Mapping[str, Any] | None = setting(
        "preset or its file (default: that of the infrastructure, else h100-sxm)"
    )
    launch: str | None = setting(
        "none, graph, stream, a time, or 'stream + 6.6 us' (default: none, or as the library launches)"
    )
    fidelity: str | None = setting(f"{_FIDELITIES} (default: analytical)")


@described
@dataclass(frozen=True, kw_only=True)
class _MessagesSpec(RunSpec):
    """Collectives by messages."""

    cost: str | None = setting(
        "collectives by messages: library, graph (launched so) or wire (default: library, where it chooses)"
    )


@described
@dataclass(frozen=True, kw_only=True)
class _ProgramSpec(RunSpec):
    """A program by cache lines, and its network."""

    channels: int | None = _count(
        "sets of thread blocks (default: as the library chooses)", None, 1, MOST_CHANNELS
    )
    unchecked: bool = flag("time an algorithm even where its result is wrong, and say so")
    arbitration: str = setting("fifo, round_robin or fair, which separates data and control", "fifo")
    buffers: int = _count("messages buffered behind a link in each class; 0: unlimited", 0, 0)
    cut_through: bool = flag("forward a message once its header has arrived")
    multipath: str = setting("interleave, static, flow_hash or spray", "interleave")
    roce: str | None = setting(
        "Ethernet flow control: some of pfc,ecn,dcqcn; all of them without a value", alone="pfc,ecn,dcqcn"
    )
    coalesce: int = _count(_LINES_A_REQUEST, 1)


@described
@dataclass(frozen=True, kw_only=True)
class CollectiveRun(_ProgramSpec, _MessagesSpec):
    """A collective on an infrastructure.

    Examples
    --------
    >>> CollectiveRun("all_reduce", infra="ring:gpus=4", size="4 KiB").fidelity
    """

    kind = COLLECTIVE
    name = "collective"
    subject = "collective"

    collective: str | Contract = field(
        default="",
        metadata=_about(
            "as all_reduce ('astranb collective list' lists them), or a contract FILE.py:CONTRACT"
        ),
        kw_only=False,
    )
    size: str | int | None = setting("bytes in a rank's larger buffer, as 1MiB (a contract has its own)")
    algorithm: str | Callable[..., Any] | None = setting(  # noqa: RUF009 - a field
        "name, file PLAN.json (MSCCL++), ALGO.xml (MSCCL) or SCHEDULE.csv (TACOS), or FILE.py:FUNCTION "
        "(default: as the library chooses)"
    )
    library: str | None = setting(
        "nccl, nccl-symmetric, nccl-ce, rccl, rccl-dda, rccl-ce, mscclpp, vllm, sglang or trtllm choose what "
        "runs, of a release as nccl@2.27.3: see --explain "
        "(default: the GPUs' own, where its choice is modelled)"
    )
    protocol: str | None = setting("Simple, LL or LL128 (default: Simple; without --algorithm the library's)")
    param: tuple[str, ...] = setting("parameter of the algorithm's function, as slices=16; repeatable", ())
    root_rank: int = _count("root of a broadcast, reduce, gather or scatter", 0, 0, parameter="root")
    compute_lines: int = _count(_KERNEL_LINES, 1)
    fidelity: str | None = setting(f"{_FIDELITIES} (default: cacheline)")


@described
@dataclass(frozen=True, kw_only=True)
class ExchangeRun(_ProgramSpec):
    """An exchange of experts on an infrastructure, as DeepEP's."""

    kind = EXCHANGE
    name = "exchange"
    subject = "collective"

    collective: str = field(default="", metadata=_about("dispatch or combine"), kw_only=False)
    algorithm: str | None = setting("normal, low_latency or one_sided (default: normal)")
    tokens: int | None = _count("of each rank")
    hidden: int = _count("elements of a token", 7168)
    topk: int = _count("experts of each token", 8)
    experts: int = _count("experts of a layer, on all ranks", 256)
    expert_groups: int | None = _count(
        "nodes that the experts of a token may be on (default: all)", parameter="groups"
    )
    token_precision: str | None = setting(
        "nvfp4, fp8 or bf16 (default: fp8 of a dispatch, bf16 of a combine)", parameter="precision"
    )
    skew: float = setting("how unevenly popular experts are, the exponent of a Zipf law", 0.0, number)
    seed: int = _count("of the draw of experts", 0, 0)
    routing: str | None = setting("experts of each token, or counts: .npz or .csv (default: drawn)")
    fidelity: str | None = setting("cacheline: an exchange has no other")


@described
@dataclass(frozen=True, kw_only=True)
class StepSpec:
    """A step of a model, divided over ranks."""

    model: str = field(
        default="",
        metadata=_about("as gpt3-175b (those of astranb chakra generate --list), MODEL.yaml or config.json"),
        kw_only=False,
    )
    dp: int = _degree("replicas (data parallelism)", parameter="data")
    tp: int = _degree("parts of each matrix (tensor parallelism)", parameter="tensor")
    pp: int = _degree("pipeline stages", parameter="pipeline")
    cp: int = _degree("parts of each sequence, by ring attention", parameter="context")
    ep: int = _degree("data-parallel ranks that share the experts", parameter="expert")
    interleave: int = _degree("chunks of layers in each pipeline stage")
    schedule: str = setting("of a pipeline's passes: 1f1b, zbh1, zbv, v-half or v-min", "1f1b")
    zero: int = _count("shards 1: optimizer states, 2: also gradients, 3: also parameters", 0, 0, MOST_RANKS)
    batch: int | None = _ranked("sequences or samples in a step (default: 1 per microbatch and replica)")
    microbatches: int | None = _ranked("parts of a replica's batch (default: 4 a stage)")
    seq: int | None = _ranked("tokens in a sequence (default: the model's)", parameter="sequence")
    output_tokens: int = _degree("decode: tokens to generate", parameter="tokens")
    gradient_bytes: int = _count("of a gradient in sums over replicas and in memory", 2, 1, MOST_RANKS)
    lora: int = _count(
        "rank of adapters that are trained, nothing else is (LoRA of attention)", 0, 0, MOST_RANKS
    )
    experts: int | None = _ranked(
        "experts of a layer, on all ranks, in place of its MLP (default: the model's)"
    )
    topk: int | None = _ranked("experts of each token (default: the model's, else 2)", parameter="top_k")
    dispatch_node: int | None = _ranked("a node's GPUs: send tokens to it once (default: to each expert)")
    sp: bool = flag("sequence parallelism between the matrices of tensor parallelism", parameter="sequence")
    elementwise: bool = flag("norms, residuals and softmax as operations of their own, nothing fused")
    dropout: bool = flag("include dropout in training")
    uneven: bool = flag("let --tp not divide heads and widths, so that ranks have different shares")
    expert_imbalance: float = setting("load of the busiest expert relative to the mean", 1.0, number)
    expert_capacity: float | None = setting(
        "tokens of every expert relative to the mean: dropped above, padded below (default: no limit)",
        None,
        number,
    )
    recompute: str = setting(
        "none, selective (attention), ops (every second product) or full, as without a value",
        "none",
        alone="full",
    )
    framework: str = setting(
        "megatron (fused kernels) or pytorch (not compiled) (default: pytorch for --zero 3)",
        "",
        parameter="library",
    )
    attention: str = setting("flash (one kernel), flash1 (its first version), fp8 or unfused", "flash")
    precision: str = setting("of products with parameters: bf16, fp16, fp8 or fp4", "bf16")
    power: str | None = setting("limit of a GPU's power, as 500W (default: none)")
    weights: str = setting(
        "of inference in four bits: mxfp4 (of experts) or nvfp4 (of all layers), or none: as --precision "
        "(default: the card's)",
        "",
    )
    offload: str = setting(
        "to the host, --memory or --expanded-memory: some of optimizer,parameters,activations", "none"
    )
    update: str | None = setting(
        "who updates an offloaded optimizer: host or gpu (default: gpu with a memory, or without --gpu)"
    )
    overlap: str = setting(
        "overlap with computations: some of tensor,gradients,parameters; or none", "gradients,parameters"
    )
    efficiency: str | None = setting(
        "kernels: as measured; ideal: the roofline; or a part of it (default: kernels)"
    )
    costs: str = setting(
        "times of kernels: of the model kernels, as measured of vllm, sglang or trtllm, or a plug-in's",
        "kernels",
    )
    cache_precision: str = setting(
        "of keys and values in memory: bf16 or fp8", "bf16", parameter="cache_bytes"
    )
    kernels: str | None = setting("timings of benchmarks/kernel_timings.py, to which the GPU is fitted")
    mode: str = setting("training, prefill or decode", "training")


@described
@dataclass(frozen=True, kw_only=True)
class _SystemSpec(_MessagesSpec):
    """A workload on ASTRA-sim's system and network."""

    system: str | None = setting("system.json (of traces by default PREFIX.system.json)")
    network: str | None = setting("network.yml (of traces by default PREFIX.network.yml), or a topology file")
    memory: str | None = setting("remote memory, JSON (default: none)")
    dimensions: str | None = setting("number of GPUs in each dimension of collectives, as 8x4, with --infra")
    logical_topology: str | None = setting(
        "the same as a file of ASTRA-sim's ns-3, whose topology --network or --infra is"
    )
    num_queues_per_dim: int = _count("queues of a dimension", 1, 1, 1024, parameter="queues")
    injection_scale: float = setting("factor of the endpoint delay", 1.0, positive())
    rendezvous_protocol: bool = setting(
        "receivers request each message", default=False, read=truth, alone=True, parameter="rendezvous"
    )
    compute_lines: int = _count(_KERNEL_LINES, 1)


@described
@dataclass(frozen=True, kw_only=True)
class ModelRun(StepSpec, _SystemSpec):
    """A step of a model on a cluster."""

    kind = MODEL
    name = "model"
    subject = "model"

    coalesce: int = _count(_LINES_A_REQUEST, 1)
    price: float | None = setting(
        "dollars for a GPU and hour: what a step and a million tokens cost", None, positive()
    )
    memory_limit: str | None = setting(
        "memory of a GPU, as 64GiB, or none: do not check whether the step fits (default: the GPU's)"
    )
    expanded_memory: str | None = setting(
        "a second memory behind a GPU's own, as '480 GB, 500 GB/s, 500 ns': what does not fit lies there"
    )
    expanded_shared: str = setting("who shares it: gpu (each has its own) or node", "gpu")
    expanded_streaming: str = setting(
        "serial: a kernel reads one memory after the other; concurrent: both at once",
        "serial",
        parameter="streaming",
    )
    expanded_placement: str = setting(
        "what lies there: evenly, or coldest first: optimizer, activations, gradients, parameters",
        "evenly",
        parameter="placement",
    )


@described
@dataclass(frozen=True, kw_only=True)
class TraceRun(_SystemSpec):
    """ASTRA-sim's files: traces of 2.0, or a layer table of 1.0, recognized by their content."""

    kind = TRACES
    name = "trace"
    subject = "workload"

    workload: str = field(
        default="", metadata=_about("prefix of traces PREFIX.RANK.et; 1.0: the layer table"), kw_only=False
    )
    comm_group: str | None = setting("communicator groups, JSON", parameter="groups")
    comm_scale: float = setting("1.0: factor of communication sizes; 2.0: no effect", 1.0, positive())
    compute_scale: float = setting("1.0: factor of compute times; 2.0: no effect", 1.0, positive())
    root: str | None = setting("folder of custom collectives, after the file's and this one")
    compat: str | None = setting(
        "astrasim2 or astrasim1: that simulator's results to the nanosecond, its deviations from its "
        "documentation included"
    )
    num_passes: int = _count("passes through the training loop", 1, parameter="passes")
    training_loops: str | None = setting("Python file that registers training loops")
    units_count: tuple[int, ...] = setting(
        "replaces units-count of the network, one value per dimension", (), whole(1), together=True
    )
    links_count: tuple[int, ...] = setting("replaces links-count", (), whole(1), together=True)
    link_latency: tuple[float, ...] = setting("replaces link-latency", (), number, together=True)
    link_bandwidth: tuple[float, ...] = setting("replaces link-bandwidth", (), number, together=True)


@described
@dataclass(frozen=True, kw_only=True)
class JobsRun(_MessagesSpec):
    """Several jobs on one network."""

    kind = JOBS
    name = "jobs"
    subject = "jobs"

    jobs: str = field(
        default="",
        metadata=_about("jobs, where and from when on, and what varies (docs/how-to/several_jobs.md)"),
        kw_only=False,
    )


def _only(lines: str = "", messages: str = "", never: str = "") -> dict[str, tuple[str, ...]]:
    """Return the fidelities at which fields have an effect."""
    parts = ((lines, _LINES), (messages, _MESSAGES), (never, ()))
    return {name: at for names, at in parts for name in names.split()}


_DIMENSIONS: Final = "num_queues_per_dim injection_scale rendezvous_protocol dimensions logical_topology"
_NETWORK: Final = "arbitration buffers cut_through multipath roce coalesce compute_lines"
_TABLES: Final = "path run_name total_stat_rows stat_row"
_EFFECTS: Final = {
    COLLECTIVE: _only(f"gpu launch library channels protocol param unchecked {_NETWORK}", "cost", "frames"),
    EXCHANGE: _only(never="frames"),
    MODEL: _only(
        "coalesce compute_lines",
        f"{_DIMENSIONS} cost price expanded_memory expanded_shared expanded_streaming expanded_placement "
        "energy rates memory_table suggest memory_svg frames",
    ),
    JOBS: _only("launch", "cost runs frames"),
    TRACES: _only(
        "gpu launch compute_lines",
        f"{_DIMENSIONS} cost frames",
        f"num_passes training_loops units_count links_count link_latency link_bandwidth {_TABLES}",
    ),
    LAYERS: _only(
        "infra down pxn fail repair start reroute gpu launch",
        f"num_queues_per_dim injection_scale explain frames {_TABLES}",
        "cost memory comm_group rendezvous_protocol dimensions logical_topology root compute_lines",
    ),
}
"""By what runs: fields and outputs that do not have an effect at every fidelity."""


def check_effect(names: Any, kind: str, fidelity: str) -> None:
    """Raise an error for what has no effect on what runs at this fidelity.

    Parameters
    ----------
    names : iterable of str
        Fields or outputs that are given.
    kind, fidelity : str
    """
    for name in names:
        at = _EFFECTS[kind].get(name, FIDELITIES)
        if fidelity in at:
            continue
        what = f"{flag_of(name)} does not apply to {kind}"
        if at:
            what += f" at --fidelity {fidelity}"
        hint = f"leave it out, or use --fidelity {' or '.join(at)}" if at else "leave it out"
        raise InputError(what, where="run", hint=hint)


_Made = TypeVar("_Made")


def made_of(kind: type[_Made], values: Any) -> _Made:
    """Make a specification of an object's attributes; None and those that are missing are not given."""
    found = {one.name: getattr(values, one.name, None) for one in fields(kind)}  # type: ignore[arg-type]
    return kind(**{
        name: tuple(value) if isinstance(value, list) else value
        for name, value in found.items()
        if value is not None
    })  # fmt: skip


def given(spec: Any, *names: str) -> dict[str, Any]:
    """Return the fields that differ from their defaults, by name.

    Parameters
    ----------
    spec : RunSpec or StepSpec
    *names : str
        Fields; all of them where none is named.

    Examples
    --------
    >>> given(ModelRun("gpt3-125m", dp=1, tp=2), "dp", "tp")
    {'tp': 2}
    """
    known = {one.name: one for one in fields(spec)}
    return {
        name: value
        for name in names or known
        if (value := getattr(spec, name)) is not known[name].default and value != known[name].default
    }


def parameter_of(kind: Any, name: str) -> str:
    """Return the parameter of the library that takes a field.

    Examples
    --------
    >>> parameter_of(StepSpec, "tp"), parameter_of(StepSpec, "batch")
    ('tensor', 'batch')
    """
    return str(kind.__dataclass_fields__[name].metadata["parameter"]) or name


def arguments_of(spec: Any, *names: str) -> dict[str, Any]:
    """Return the fields that differ from their defaults, by the parameter of the library that takes each.

    The library's defaults are the same.

    Examples
    --------
    >>> arguments_of(ModelRun("gpt3-125m", dp=1, tp=2), "dp", "tp")
    {'tensor': 2}
    """
    return {parameter_of(spec, name): value for name, value in given(spec, *names).items()}
