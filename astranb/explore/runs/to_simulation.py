"""From the specification of a run to its simulation."""

from __future__ import annotations

import runpy
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from astranb.core.confined import check_python
from astranb.core.errors import InputError, near
from astranb.core.file_formats import is_task_graph
from astranb.core.packed import readable
from astranb.engine import fidelity_of

from .model_steps import expanded_memory_of, memory_limit_of, workload_of
from .readers import (
    algorithm_of,
    are_missing,
    both_given,
    collective_of,
    flag_of,
    is_contract,
    params_of,
    root_of,
)
from .specs import (
    COLLECTIVE,
    EXCHANGE,
    EXCHANGES,
    JOBS,
    LAYERS,
    MODEL,
    TRACES,
    CollectiveRun,
    ExchangeRun,
    JobsRun,
    ModelRun,
    RunSpec,
    TraceRun,
    arguments_of,
    check_effect,
    given,
)

if TYPE_CHECKING:
    from astranb.collectives import Collective, LibraryChoice
    from astranb.explore.ensembles import Ensemble
    from astranb.explore.failures import LinkFailures
    from astranb.explore.plans import PlanSearch
    from astranb.infragraph import Infra
    from astranb.sim import Simulation
    from astranb.traffic import Pattern
    from astranb.workload.models import Cluster, ModelStep

__all__ = [
    "Subject",
    "collective_asked",
    "ensemble_of",
    "network_of",
    "search_of",
    "simulation_of",
    "step_of",
    "subject_of",
]

_COMPAT: Final = {TRACES: "astrasim2", LAYERS: "astrasim1"}
_NETWORK_KEYS: Final = ("units_count", "links_count", "link_latency", "link_bandwidth")
_ROUTE_FIELDS: Final = ("arbitration", "buffers", "cut_through", "multipath", "coalesce", "compute_lines")


class _Inputs(NamedTuple):
    """Inputs of a run, options of the simulation, and of a model the further lines of a report."""

    what: Any
    options: dict[str, Any]
    step: ModelStep | None = None
    cluster: Cluster | None = None
    infra: Infra | None = None  # of a collective or of jobs
    choice: LibraryChoice | None = None


@dataclass(frozen=True)
class Subject:
    """The simulation of a specification, and what reports tell beside its result.

    Attributes
    ----------
    spec : RunSpec
    kind : str
        What runs: ASTRA-sim's files are recognized by their content.
    sim : Simulation
        Nothing has happened yet, or everything has.
    inputs : _Inputs
    failures : LinkFailures, optional
        Of links, while the run goes.
    """

    spec: Any  # RunSpec, whose class follows from the kind
    kind: str
    sim: Simulation
    inputs: _Inputs
    failures: LinkFailures | None = None

    def run(self, *, to_end: bool = True) -> None:
        """Run to the end, or up to the last failure or repair."""
        if self.failures is not None:
            self.failures.happen(self.sim)
        if to_end:
            self.sim.run()

    @cached_property
    def per_rank(self) -> list[dict[str, Any]]:
        """One row for each rank, as the result has them."""
        rows: list[dict[str, Any]] = self.sim.result.per_rank()
        return rows

    @property
    def by_lines(self) -> bool:
        """Whether a whole workload is simulated by cache lines."""
        return self.sim.fidelity == "cacheline" and self.kind not in (COLLECTIVE, EXCHANGE, JOBS)


def simulation_of(spec: RunSpec) -> Simulation:
    """Make the simulation of a specification: at its start, or where the last of its links has failed.

    Raises
    ------
    InputError
        Fields do not fit together, or an input cannot be used.

    Examples
    --------
    >>> from astranb.explore import CollectiveRun, simulation_of
    >>> sim = simulation_of(CollectiveRun("all_reduce", infra="ring:gpus=4", size="4 KiB", algorithm="ring"))
    >>> sim.run().why
    'end'
    """
    subject = subject_of(spec, record=True)
    subject.run(to_end=False)
    return subject.sim


def subject_of(
    spec: RunSpec,
    *,
    record: bool = False,
    inspected: bool | None = None,
    outputs: Iterable[str] = (),
    **more: Any,
) -> Subject:
    """Read all inputs and make the simulation.

    Parameters
    ----------
    spec : RunSpec
    record : bool
        Whether a page or a trace will be written.
    inspected : bool, optional
        Whether more than numbers will be written: messages are recorded then, which costs little.
        As ``record`` if left out.
    outputs : iterable of str
        Outputs of the command line that are asked for.
    **more
        Further arguments of :class:`.Simulation`; without ``checkpoint_bytes`` one cannot go back quickly.

    Raises
    ------
    InputError
        Fields do not fit together, or an input cannot be used.
    """
    kind, fidelity = _checked(spec, outputs)
    readers: dict[str, Callable[[Any], _Inputs]] = {
        COLLECTIVE: _collective,
        EXCHANGE: _exchange,
        MODEL: _model,
        JOBS: _jobs,
        TRACES: _traces,
        LAYERS: _layers,
    }
    inputs = readers[kind](spec)
    failures = _failures(spec)

    from astranb.sim import Simulation

    by_lines = fidelity == "cacheline"
    both = spec.infra is not None and getattr(spec, "network", None) is not None
    sim = Simulation(
        inputs.infra or (_infra_of(spec) if both else None),
        inputs.what,
        fidelity=fidelity,
        record=record if by_lines or inspected is None else inspected,
        start=_starts(spec),
        cost=getattr(spec, "cost", None),
        **{"checkpoint_bytes": 0, **more},
        **((arguments_of(spec, "gpu", "launch") | _unchecked(spec) if by_lines else {}) | inputs.options),
    )
    if failures is not None:
        failures.check(sim)
    return Subject(spec, kind, sim, inputs, failures)


def _unchecked(spec: RunSpec) -> dict[str, Any]:
    return arguments_of(spec, "unchecked") if isinstance(spec, CollectiveRun | ExchangeRun) else {}


def _checked(spec: RunSpec, outputs: Iterable[str] = ()) -> tuple[str, str]:
    """Return what runs and at which fidelity; refuse what is missing, or has no effect."""
    if isinstance(spec, ExchangeRun) and spec.fidelity not in (None, "cacheline"):
        what = f"an exchange of experts is simulated by cache lines only, not {spec.fidelity[:40]!r}"
        raise InputError(what, where="--fidelity", hint="leave it out")
    fidelity = fidelity_of(spec.fidelity, collective=spec.kind in (COLLECTIVE, EXCHANGE), where="--fidelity")
    kind = _kind_of_files(spec) if isinstance(spec, TraceRun) else spec.kind
    _require(spec, kind)
    _check_network(spec, kind, fidelity)
    check_effect([*given(spec), *outputs], kind, fidelity)
    return kind, fidelity


def search_of(spec: ModelRun, outputs: Iterable[str] = ()) -> PlanSearch:
    """Search plans for the model of a specification.

    Raises
    ------
    InputError
        Fields do not fit together, or an input cannot be used.
    """
    _checked(spec, outputs)
    _refuse_outputs(outputs, "suggest", "a search of plans")
    _refuse_failures(spec, "a search of plans")
    _refuse_starts(spec, "a search of plans")
    from astranb.explore.plans import suggest

    step, cluster = _step(spec)
    return suggest(step, cluster, limit_bytes=_limit_of(spec, step))


def _limit_of(spec: ModelRun, step: ModelStep) -> int:
    return memory_limit_of(spec.memory_limit, step.times)


def _kind_of_files(spec: TraceRun) -> str:
    """Distinguish a layer table of 1.0 from a prefix of 2.0's traces and from a task graph by content."""
    if not spec.workload:
        what = "the workload is missing: traces PREFIX.RANK.et, or a layer table"
        raise InputError(what, where="run trace", hint="see astranb run trace --help")
    if Path(f"{spec.workload}.0.et").exists() or is_task_graph(spec.workload):
        return TRACES  # without the layer table's modules, which take time to import
    from astranb.workload.astrasim1 import is_layer_table

    table = spec.compat == "astrasim1" or spec.workload.endswith(".txt") or is_layer_table(spec.workload)
    return LAYERS if table else TRACES


def _require(spec: Any, kind: str) -> None:
    """Check that nothing is missing."""
    if kind == EXCHANGE and spec.collective not in ("", *EXCHANGES):
        what = f"unknown exchange {spec.collective[:40]!r}"
        raise InputError(what, where="run exchange", hint=near(spec.collective, EXCHANGES))
    if kind in (COLLECTIVE, EXCHANGE):
        needed = [spec.subject, "infra"]
        if is_contract(spec.collective):
            needed.append("algorithm")
        elif kind == COLLECTIVE:
            needed.append("size")
        elif spec.routing is None:
            needed.append("tokens")
        missing = [name for name in needed if getattr(spec, name) in (None, "")]
        if missing:
            words = ["the collective" if name == spec.subject else flag_of(name) for name in missing]
            hint = f"see astranb run {spec.name} --help"
            raise InputError(are_missing(words), where=f"run {spec.name}", hint=hint)
        return
    if kind in (MODEL, JOBS):
        return
    from astranb.chakra import beside, traced_ranks
    from astranb.workload.astrasim2 import read_system

    if kind == LAYERS:
        with readable(spec.workload):
            pass
    elif not is_task_graph(spec.workload):
        traced_ranks(spec.workload)

    for name, ending in (("system", "system.json"), ("network", "network.yml")):
        if getattr(spec, name) is not None or (kind == TRACES and beside(spec.workload, ending)):
            continue
        if name == "network" and kind == TRACES:
            system = spec.system or beside(spec.workload, "system.json")
            if system is not None and read_system(system).replay:
                continue
        if kind == LAYERS or name == "system" or spec.infra is None:
            hint = f"give --{name} FILE (or --{name}-configuration=FILE)"
            hint += ", or --infra" if name == "network" and kind == TRACES else ""
            raise InputError(f"--{name} is missing", where="run trace", hint=hint)
    compat = _COMPAT[kind]
    if spec.compat not in (None, compat):
        what = f"{spec.compat[:40]!r} does not apply to {kind}"
        raise InputError(what, where="--compat", hint=near(spec.compat, [compat]))


def _check_network(spec: Any, kind: str, fidelity: str) -> None:
    """Check that the network is described once; lines take the files' network and the infrastructure."""
    network = getattr(spec, "network", None)
    if spec.infra is not None and (fidelity != "cacheline" or kind == MODEL):
        if network is not None:
            raise both_given("--infra", "--network", "run")
        if getattr(spec, "compat", None) is not None:
            what = "ASTRA-sim 2.0 reads no infrastructures"
            raise InputError(what, where="--infra", hint="give --network FILE, or leave --compat out")
    needing = {
        "down": (
            "--down names links of an infrastructure",
            "give --infra; links of a network's dimensions have no names",
        ),
        "pxn": ("--pxn needs an infrastructure", "give --infra"),
    }
    needs = next((said for name, said in needing.items() if getattr(spec, name)), None)
    if needs and spec.infra is None and kind != JOBS and not _is_topology(network):
        raise InputError(needs[0], where="run", hint=needs[1])


def _collective(spec: CollectiveRun) -> _Inputs:
    infra = _infra_of(spec)
    collective, choice = collective_asked(spec, infra)
    options = _network_options(spec, 0 if choice is None else choice.proxy_ps)
    if choice is not None:
        options["launch"] = choice.launched(spec.launch)
    return _Inputs(collective, options, infra=infra, choice=choice)


def collective_asked(spec: CollectiveRun, infra: Infra | str) -> tuple[Collective, LibraryChoice | None]:
    """Return the collective of a specification, and what the library chooses where it is left to it.

    Raises
    ------
    InputError
        Fields do not fit together, or an input cannot be used.
    """
    from astranb.collectives import Collective

    root = root_of(spec.collective, spec.root_rank or None)
    choice = _library_choice(spec, infra)
    if choice is not None:
        return choice.to_run(channels=spec.channels, **root), choice
    parts = arguments_of(spec, "channels", "protocol") | root | params_of(spec.param)
    what = collective_of(spec.collective)
    return Collective.of(what, spec.size, algorithm_of(spec.algorithm), **parts), None


def _exchange(spec: ExchangeRun) -> _Inputs:
    from astranb import collectives

    make = getattr(collectives, spec.collective)
    options = arguments_of(
        spec, "tokens", "algorithm", "routing", "channels", "hidden", "topk", "experts", "skew", "seed",
        "expert_groups", "token_precision",
    )  # fmt: skip
    network = _network_options(spec)
    network["launch"] = spec.launch or collectives.EXCHANGE_LAUNCH
    return _Inputs(make(**options), network, infra=_infra_of(spec))


def _network_options(spec: RunSpec, proxy_ps: int = 0) -> dict[str, Any]:
    """Return the options of the network."""
    from astranb.net import Network, Roce

    shared = arguments_of(spec, *(name for name in _ROUTE_FIELDS if hasattr(spec, name)))
    if (roce := getattr(spec, "roce", None)) is not None:
        shared["roce"] = Roce.of(roce)
    if proxy_ps:
        shared["proxy_ps"] = proxy_ps
    return {"network": Network(**shared)} if shared else {}


def _library_choice(spec: Any, infra: Infra | str) -> LibraryChoice | None:
    """Return what the library runs: the given one, or the machine's own where its choice is modelled.

    Whole messages know no channels and protocols: there the default algorithm of the collective runs.
    """
    from astranb.collectives import library_choice

    chosen = [*given(spec, "algorithm", "protocol", "param")]
    if spec.library is not None:
        if chosen:
            raise both_given("--library", flag_of(chosen[0]), "run")
        return library_choice(infra, spec.collective, spec.size, **arguments_of(spec, "gpu", "library"))
    if chosen or is_contract(spec.collective) or spec.fidelity not in (None, "cacheline"):
        return None
    try:
        return library_choice(infra, spec.collective, spec.size, **arguments_of(spec, "gpu"))
    except InputError:  # no model of it, or an input that is refused where it is used
        return None


def step_of(spec: ModelRun) -> tuple[ModelStep, Cluster]:
    """Make a model's step, and the cluster that it runs on, without a simulation.

    Raises
    ------
    InputError
        Fields do not fit together, an input cannot be used, or the step does not fit in memory.
    """
    _checked(spec)
    _refuse_failures(spec, "an estimate")
    _refuse_starts(spec, "an estimate")
    return _fitting(spec)


def _fitting(spec: ModelRun) -> tuple[ModelStep, Cluster]:
    """Make a model's step and its cluster; refuse what does not fit in memory."""
    from astranb.workload.models import PER_NODE, does_not_fit, require_memory

    step, cluster = _step(spec)
    if step.times is not None and spec.memory_limit != "none":
        more = 0 if step.times.expanded is None else step.times.expanded.capacity_bytes
        own, name = _limit_of(spec, step) - more, step.times.gpu.name
        if step.plan is not None:
            has_network = spec.infra is not None or spec.network is not None
            require_memory(
                *step.plan, own, name, more, fp8="fp8" in step.times.gpu.peaks,
                per_node=cluster.network.npus_count[0] if has_network else PER_NODE,
            )  # fmt: skip
        for one in step.memory():
            if one.total > own + more:
                raise does_not_fit(one, own, name, more, "take more GPUs (--dp)")
    return step, cluster


def _model(spec: ModelRun) -> _Inputs:
    from astranb.workload.astrasim2 import Workload

    step, cluster = _fitting(spec)
    operations = step.operations(by_lines=spec.fidelity == "cacheline")
    limit = None if spec.memory_limit == "none" else _limit_of(spec, step)
    what = Workload(
        operations, cluster.network, cluster.system, cluster.memory, step.groups, title=step.title,
        footprint=step.footprint(limit),
    )  # fmt: skip
    return _Inputs(what, _network_options(spec), step, cluster)


def _jobs(spec: JobsRun) -> _Inputs:
    from astranb.workload.jobs import read_jobs

    def read_pattern(file: str) -> Pattern:
        from astranb.traffic import read_pattern  # only where a job is one

        return read_pattern(file)

    found = read_jobs(spec.jobs, read_pattern)
    if (spec.infra or found.infra) is None:
        raise InputError(
            "the infrastructure is missing", where=spec.jobs, hint="give infra in it, or --infra"
        )
    what = found.jobs if found.variation is None else found.variation.of(found.jobs)
    gpu = {} if spec.fidelity == "cacheline" else arguments_of(spec, "gpu")
    return _Inputs(what, gpu, infra=_infra_of(spec, found.infra))


def ensemble_of(spec: JobsRun, runs: int, outputs: Iterable[str] = ()) -> Ensemble:
    """Simulate jobs that vary several times.

    Raises
    ------
    InputError
        Fields do not fit together, nothing varies, or an input cannot be used.
    """
    _, fidelity = _checked(spec, outputs)
    _refuse_outputs(outputs, "runs", "runs that vary")
    _refuse_failures(spec, "runs that vary")
    from astranb.explore.ensembles import ensemble

    inputs = _jobs(spec)
    variation = getattr(inputs.what, "variation", None)
    if variation is None:
        raise InputError("nothing varies from run to run", where=spec.jobs, hint="give variation in it")
    options = {"start": _starts(spec), **inputs.options}
    return ensemble(inputs.what.what, variation, infra=inputs.infra, runs=runs, fidelity=fidelity, **options)


def _step(spec: ModelRun) -> tuple[ModelStep, Cluster]:
    """Make a model's step, and the cluster that it runs on."""
    from astranb.workload.astrasim2 import read_memory
    from astranb.workload.kernels import DEFAULT_GPU
    from astranb.workload.models import machine

    network, step = _network_of(spec), workload_of(spec, spec.gpu or DEFAULT_GPU)
    memory = None if spec.memory is None else read_memory(spec.memory)

    def cluster(one: ModelStep) -> Cluster:
        return machine(
            one, spec.system, network, all_reduce=one.all_reduce, message_bytes=one.message_bytes,
            memory=memory, **_system_options(spec),
        )  # fmt: skip

    def per_node() -> int:
        return cluster(step).network.npus_count[0]

    made = step.expanded(expanded_memory_of(spec, per_node))
    return made, cluster(made)


def _traces(spec: TraceRun) -> _Inputs:
    from astranb.workload.astrasim2 import load

    what = load(
        spec.workload,
        spec.system,
        _network_of(spec),
        compat=spec.compat is not None,
        **arguments_of(spec, "memory", "root", "comm_group"),
        **_system_options(spec),
    )
    return _Inputs(what, _network_options(spec))


def _layers(spec: Any) -> _Inputs:
    from astranb.workload.astrasim1 import load

    if spec.training_loops is not None:
        _run_file(spec.training_loops)
    what = load(
        spec.workload,
        spec.system,
        spec.network,
        changes={name.replace("_", "-"): values for name, values in given(spec, *_NETWORK_KEYS).items()},
        compat=spec.compat is not None,
        **arguments_of(
            spec, "compute_scale", "comm_scale", "injection_scale", "num_passes", "num_queues_per_dim"
        ),
    )  # fmt: skip
    return _Inputs(what, {})


def _system_options(spec: ModelRun | TraceRun) -> dict[str, Any]:
    return arguments_of(spec, "injection_scale", "num_queues_per_dim", "rendezvous_protocol")


def _infra_of(spec: RunSpec, default: str | None = None) -> Infra:
    """Return the infrastructure, without its failed links, and with PXN if it is asked for."""
    return infra_of(spec.infra or str(default), spec.down, pxn=spec.pxn)


def infra_of(infra: Infra | str, down: Sequence[str] = (), *, pxn: bool = False) -> Infra:
    """Read an infrastructure, without the links that have failed.

    Raises
    ------
    InputError
        It cannot be read, or there is no such link.
    """
    from astranb.infragraph import resolve

    found = resolve(infra)
    try:
        found = found.without(*down)
    except InputError as error:
        raise InputError(error.what, where=error.where or "--down", hint=error.hint) from None
    return found.with_pxn() if pxn else found


def _failures(spec: RunSpec) -> LinkFailures | None:
    """Return what fails and comes up again while the run goes."""
    for name in given(spec, "repair", "reroute"):
        if not spec.fail:
            raise InputError(f"--{name} needs --fail", where="run", hint="give --fail LINK@TIME, or --down")
    if not spec.fail:
        return None
    from astranb.explore.failures import LinkFailures

    return LinkFailures.of(spec.fail, spec.repair, spec.reroute)


def _starts(spec: RunSpec) -> dict[int, str] | None:
    """Return how late ranks start."""
    found: dict[int, str] = {}
    for text in spec.start:
        rank, at, late = text.partition("@")
        if not at or not rank.strip().isdecimal():
            raise InputError(f"{text!r:.60} is not RANK@TIME", where="--start", hint="write it as 3@20us")
        if int(rank) in found:
            raise InputError(f"duplicate rank {int(rank)}", where="--start", hint="give it once")
        found[int(rank)] = late.strip()
    return found or None


def _refuse_outputs(outputs: Iterable[str], own: str, what: str) -> None:
    """Raise InputError for an output of one run where there is none."""
    for name in outputs:
        if name not in ("json", own):
            raise InputError(f"{flag_of(name)} does not apply to {what}", where="run", hint="leave it out")


def _refuse_starts(spec: RunSpec, what: str) -> None:
    """Raise InputError for late starts where there is no run of its own."""
    if spec.start:
        raise InputError(f"--start does not apply to {what}", where="run", hint="leave it out")


def _refuse_failures(spec: RunSpec, what: str) -> None:
    """Raise InputError for link failures where there is no run of its own."""
    if spec.fail:
        hint = "leave it out, or give --down LINK"
        raise InputError(f"--fail does not apply to {what}", where="run", hint=hint)


def _is_topology(file: str | None) -> bool:
    """Return whether a network's file is that of a packet simulator."""
    from astranb.infragraph import is_topology_file

    return file is not None and is_topology_file(file)


def _network_of(spec: ModelRun | TraceRun) -> Any:
    options = arguments_of(spec, "gpu", "dimensions", "logical_topology", "down", "pxn")
    return network_of(spec.infra, spec.network, **options)


def network_of(
    infra: Infra | str | None,
    network: str | None,
    *,
    gpu: Any = None,
    dimensions: str | None = None,
    logical_topology: str | None = None,
    down: Sequence[str] = (),
    pxn: bool = False,
) -> Any:
    """Return the network's file, or make a network of an infrastructure with the given dimensions.

    Raises
    ------
    InputError
        Dimensions are given twice, or without an infrastructure; or one cannot be read.
    """
    if dimensions is not None and logical_topology is not None:
        raise both_given("--dimensions", "--logical-topology", "run")
    title = network if _is_topology(network) else infra if network is None else None
    if title is None:
        if dimensions is not None or logical_topology is not None:
            what = f"{'--dimensions' if logical_topology is None else '--logical-topology'} needs --infra"
            raise InputError(what, where="run", hint="or set npus_count in the network file")
        return network
    from astranb.workload.astrasim2 import InfraNetwork, read_logical_dimensions

    made = infra_of(infra or title, down, pxn=pxn).completed(gpu)
    if logical_topology is not None:
        return InfraNetwork(made, read_logical_dimensions(logical_topology), logical_topology)
    counts = [] if dimensions is None else dimensions.split("x")
    if any(not (count.isascii() and count.isdecimal() and int(count[:9]) > 0) for count in counts):
        what = f"{str(dimensions)[:40]!r} is not a list of dimensions"
        raise InputError(what, where="--dimensions", hint="write 8x4")
    return InfraNetwork(made, tuple(map(int, counts)), title if isinstance(title, str) else title.name)


def _run_file(file: str) -> None:
    """Run a Python file, which registers training loops."""
    check_python(file)
    if not Path(file).is_file():
        raise InputError("file not found", where=file, hint="name a Python file with training loops")
    try:
        runpy.run_path(file)
    except (Exception, SystemExit) as error:  # whatever the file does
        what = f"{type(error).__name__}: {error}"[:200]
        raise InputError(what, where=file, hint="correct the file") from error
