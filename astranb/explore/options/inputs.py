"""From the options of ``astranb run`` to a simulation."""

from __future__ import annotations

import argparse
import runpy
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from astranb.core.errors import InputError, near
from astranb.core.file_formats import is_task_graph
from astranb.engine import fidelity_of

from .arguments import algorithm_of, collective_of, flag_of, given, is_contract, params_of
from .model import expanded_memory_of, memory_limit_of, workload_of
from .run_options import COLLECTIVE, EXCHANGE, JOBS, LAYERS, MODEL, TRACES, check_options, kind_of

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
    "table_row",
]

_COMPAT: Final = {TRACES: "astrasim2", LAYERS: "astrasim1"}
_NETWORK_KEYS: Final = ("units_count", "links_count", "link_latency", "link_bandwidth")


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
    """The simulation, and the further lines of a report beside its result.

    Attributes
    ----------
    args : Namespace
        The options.
    kind : str
    sim : Simulation
        Nothing has happened yet, or everything has.
    inputs : _Inputs
    failures : LinkFailures, optional
        Of links, while the run goes.
    """

    args: argparse.Namespace
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


def simulation_of(args: argparse.Namespace, *, record: bool, inspected: bool) -> Subject:
    """Read all inputs and make the simulation.

    Parameters
    ----------
    args : Namespace
    record : bool
        Whether a page or a trace will be written.
    inspected : bool
        Whether more than numbers will be written: messages are recorded then, which costs little.

    Raises
    ------
    InputError
        Options do not fit together, or an input cannot be used.
    """
    kinds = kind_of(args)
    fidelity = fidelity_of(args.fidelity, collective=kinds[0] in (COLLECTIVE, EXCHANGE), where="--fidelity")
    kind = kinds[0] if len(kinds) == 1 else _kind_of_files(args)
    _require(args, kind)
    _check_network(args, kind, fidelity)
    check_options(args, kind, fidelity)
    read: Callable[[argparse.Namespace], _Inputs] = {
        COLLECTIVE: _collective,
        EXCHANGE: _exchange,
        MODEL: _model,
        JOBS: _jobs,
        TRACES: _traces,
        LAYERS: _layers,
    }[kind]
    inputs = read(args)
    failures = _failures(args)

    from astranb.sim import Simulation

    by_lines = fidelity == "cacheline"
    sim = Simulation(
        inputs.infra or (_infra_of(args) if args.infra and args.network is not None else None),
        inputs.what,
        fidelity=fidelity,
        record=record if by_lines else inspected,
        checkpoint_bytes=0,
        start=_starts(args),
        **((given(args, "gpu", "launch", "unchecked") if by_lines else {}) | inputs.options),
    )
    if failures is not None:
        failures.check(sim)
    return Subject(args, kind, sim, inputs, failures)


def search_of(args: argparse.Namespace) -> PlanSearch:
    """Search plans for the model that the options describe.

    Raises
    ------
    InputError
        Options do not fit together, or an input cannot be used.
    """
    fidelity = fidelity_of(args.fidelity, collective=False, where="--fidelity")
    kind = kind_of(args)[0]
    _check_network(args, kind, fidelity)
    check_options(args, kind, fidelity)
    _refuse_failures(args, "a search of plans")
    _refuse_starts(args, "a search of plans")
    from astranb.explore.plans import suggest

    step, cluster = _step(args)
    return suggest(step, cluster, limit_bytes=memory_limit_of(args, step.times))


def _kind_of_files(args: argparse.Namespace) -> str:
    """Distinguish a layer table of 1.0 from a prefix of 2.0's traces and from a task graph by content."""
    if Path(f"{args.workload}.0.et").exists() or is_task_graph(args.workload):
        return TRACES  # without the layer table's modules, which take time to import
    from astranb.workload.astrasim1 import is_layer_table

    table = args.compat == "astrasim1" or args.workload.endswith(".txt") or is_layer_table(args.workload)
    return LAYERS if table else TRACES


def _require(args: argparse.Namespace, kind: str) -> None:
    """Check that nothing is missing."""
    if kind in (COLLECTIVE, EXCHANGE):
        needed = ["infra"]
        if is_contract(args.collective):
            needed.append("algorithm")
        elif kind == COLLECTIVE:
            needed += ["collective", "size"]
        missing = [flag_of(name) for name in needed if getattr(args, name) is None]
        if missing:
            what = f"the following arguments are required: {', '.join(missing)}"
            raise InputError(what, where="run", hint="or give --model or --workload; see astranb run --help")
        return
    if kind in (MODEL, JOBS):
        return
    from astranb.chakra import beside
    from astranb.workload.astrasim2 import read_system

    for name, ending in (("system", "system.json"), ("network", "network.yml")):
        if getattr(args, name) is not None or (kind == TRACES and beside(args.workload, ending)):
            continue
        if name == "network" and kind == TRACES:
            system = args.system or beside(args.workload, "system.json")
            if system is not None and read_system(system).replay:
                continue
        if kind == LAYERS or name == "system" or args.infra is None:
            hint = f"give --{name} FILE (or --{name}-configuration=FILE)"
            hint += ", or --infra" if name == "network" and kind == TRACES else ""
            raise InputError(f"--workload needs --{name}", where="run", hint=hint)
    compat = _COMPAT[kind]
    if args.compat not in (None, compat):
        what = f"{args.compat[:40]!r} does not apply to {kind}"
        raise InputError(what, where="--compat", hint=near(args.compat, [compat]))


def _check_network(args: argparse.Namespace, kind: str, fidelity: str) -> None:
    """Check that the network is described once; lines take the files' network and the infrastructure."""
    if args.infra is not None and (fidelity != "cacheline" or kind == MODEL):
        if args.network is not None:
            what = "--infra and --network exclude each other"
            raise InputError(what, where="run", hint="leave one of them out")
        if args.compat is not None:
            what = "ASTRA-sim 2.0 reads no infrastructures"
            raise InputError(what, where="--infra", hint="give --network FILE, or leave --compat out")
    needing = {
        "down": (
            "--down names links of an infrastructure",
            "give --infra; links of a network's dimensions have no names",
        ),
        "pxn": ("--pxn needs an infrastructure", "give --infra"),
    }
    needs = next((said for name, said in needing.items() if getattr(args, name) is not None), None)
    if needs and args.infra is None and kind != JOBS and not _is_topology(args.network):
        raise InputError(needs[0], where="run", hint=needs[1])
    chosen = [name for name in ("dimensions", "logical_topology") if getattr(args, name) is not None]
    if len(chosen) == 2:
        what = "--dimensions and --logical-topology exclude each other"
        raise InputError(what, where="run", hint="leave one of them out")
    if chosen and args.infra is None and not _is_topology(args.network):
        what = f"{flag_of(chosen[0])} needs --infra"
        raise InputError(what, where="run", hint="set npus_count in the network file instead")


def _collective(args: argparse.Namespace) -> _Inputs:
    infra = _infra_of(args)
    collective, choice = collective_asked(args, infra)
    options = _network_options(args, 0 if choice is None else choice.proxy_ps)
    if choice is not None:
        options["launch"] = choice.launched(args.launch)
    return _Inputs(collective, options, infra=infra, choice=choice)


def collective_asked(args: argparse.Namespace, infra: Infra | str) -> tuple[Collective, LibraryChoice | None]:
    """Return the collective that options name, and what the library chooses where they leave it to it.

    Raises
    ------
    InputError
        Options do not fit together, or an input cannot be used.
    """
    from astranb.collectives import Collective

    if not str(args.root or 0).isdecimal():
        raise InputError(f"{args.root!r} is not a rank", where="--root", hint="use a number from 0")
    rooted = {} if args.root is None else {"root": int(args.root)}
    choice = _library_choice(args, infra)
    if choice is not None:
        return choice.to_run(channels=args.channels, **rooted), choice
    parts = given(args, "channels", "protocol") | rooted | params_of(args)
    what = collective_of(args.collective)
    return Collective.of(what, args.size, algorithm_of(args.algorithm), **parts), None


def _exchange(args: argparse.Namespace) -> _Inputs:
    from astranb import collectives

    make = getattr(collectives, args.collective)
    drawn = given(args, "hidden", "topk", "experts", "skew", "seed", groups="expert_groups")
    options = given(args, "tokens", "algorithm", "precision", "routing", "channels")
    return _Inputs(make(**options, **drawn), _network_options(args), infra=_infra_of(args))


def _network_options(args: argparse.Namespace, proxy_ps: int = 0) -> dict[str, Any]:
    """Return the options of the network."""
    from astranb.net import Network, Roce

    shared = given(args, "arbitration", "buffers", "cut_through", "multipath", "coalesce", "compute_lines")
    if args.roce is not None:
        shared["roce"] = Roce.of(args.roce)
    if proxy_ps:
        shared["proxy_ps"] = proxy_ps
    return {"network": Network(**shared)} if shared else {}


def _library_choice(args: argparse.Namespace, infra: Infra | str) -> LibraryChoice | None:
    """Return what the library runs: the given one, or the machine's own where its choice is modelled.

    Whole messages know no channels and protocols: there the default algorithm of the collective runs.
    """
    from astranb.collectives import library_choice

    chosen = [name for name in ("algorithm", "protocol", "param") if getattr(args, name) is not None]
    if args.library is not None:
        if chosen:
            what = f"--library and --{chosen[0]} exclude each other"
            raise InputError(what, where="run", hint="leave one of them out")
        return library_choice(infra, args.collective, args.size, **given(args, "gpu", "library"))
    if chosen or is_contract(args.collective) or args.fidelity not in (None, "cacheline"):
        return None
    try:
        return library_choice(infra, args.collective, args.size, **given(args, "gpu"))
    except InputError:  # no model of it, or an input that is refused where it is used
        return None


def step_of(args: argparse.Namespace) -> tuple[ModelStep, Cluster]:
    """Make a model's step, and the cluster that it runs on, without a simulation.

    Raises
    ------
    InputError
        Options do not fit together, an input cannot be used, or the step does not fit in memory.
    """
    fidelity = fidelity_of(args.fidelity, collective=False, where="--fidelity")
    kind = kind_of(args)[0]
    _check_network(args, kind, fidelity)
    check_options(args, kind, fidelity)
    _refuse_failures(args, "an estimate")
    _refuse_starts(args, "an estimate")
    return _fitting(args)


def _fitting(args: argparse.Namespace) -> tuple[ModelStep, Cluster]:
    """Make a model's step and its cluster; refuse what does not fit in memory."""
    from astranb.workload.models import PER_NODE, does_not_fit, require_memory

    step, cluster = _step(args)
    if step.times is not None and args.memory_limit != "none":
        more = 0 if step.times.expanded is None else step.times.expanded.capacity_bytes
        own, name = memory_limit_of(args, step.times) - more, step.times.gpu.name
        if step.plan is not None:
            has_network = args.infra is not None or args.network is not None
            require_memory(
                *step.plan, own, name, more, fp8="fp8" in step.times.gpu.peaks,
                per_node=cluster.network.npus_count[0] if has_network else PER_NODE,
            )  # fmt: skip
        for one in step.memory():
            if one.total > own + more:
                raise does_not_fit(one, own, name, more, "take more GPUs (--dp)")
    return step, cluster


def _model(args: argparse.Namespace) -> _Inputs:
    from astranb.workload.astrasim2 import Workload

    step, cluster = _fitting(args)
    operations = step.operations(by_lines=args.fidelity == "cacheline")
    limit = None if args.memory_limit == "none" else memory_limit_of(args, step.times)
    what = Workload(
        operations, cluster.network, cluster.system, cluster.memory, step.groups, title=step.title,
        footprint=step.footprint(limit),
    )  # fmt: skip
    return _Inputs(what, _network_options(args), step, cluster)


def _jobs(args: argparse.Namespace) -> _Inputs:
    from astranb.workload.jobs import read_jobs

    def read_pattern(file: str) -> Pattern:
        from astranb.traffic import read_pattern  # only where a job is one

        return read_pattern(file)

    found = read_jobs(args.jobs, read_pattern)
    if (args.infra or found.infra) is None:
        raise InputError(
            "the infrastructure is missing", where=args.jobs, hint="give infra in it, or --infra"
        )
    what = found.jobs if found.variation is None else found.variation.of(found.jobs)
    gpu = {} if args.fidelity == "cacheline" else given(args, "gpu")
    return _Inputs(what, gpu, infra=_infra_of(args, found.infra))


def ensemble_of(args: argparse.Namespace) -> Ensemble:
    """Simulate jobs that vary several times.

    Raises
    ------
    InputError
        Options do not fit together, nothing varies, or an input cannot be used.
    """
    fidelity = fidelity_of(args.fidelity, collective=False, where="--fidelity")
    check_options(args, kind_of(args)[0], fidelity)
    _refuse_failures(args, "runs that vary")
    from astranb.explore.ensembles import ensemble

    inputs = _jobs(args)
    variation = getattr(inputs.what, "variation", None)
    if variation is None:
        raise InputError("nothing varies from run to run", where=args.jobs, hint="give variation in it")
    options = {"start": _starts(args), **inputs.options}
    return ensemble(
        inputs.what.what, variation, infra=inputs.infra, runs=args.runs, fidelity=fidelity, **options
    )


def _step(args: argparse.Namespace) -> tuple[ModelStep, Cluster]:
    """Make a model's step, and the cluster that it runs on."""
    from astranb.workload.astrasim2 import read_memory
    from astranb.workload.kernels import DEFAULT_GPU
    from astranb.workload.models import machine

    step, network = workload_of(args, args.gpu or DEFAULT_GPU), network_of(args)
    memory = None if args.memory is None else read_memory(args.memory)

    def cluster(one: ModelStep) -> Cluster:
        return machine(
            one, args.system, network, all_reduce=one.all_reduce, message_bytes=one.message_bytes,
            memory=memory, **_system_options(args),
        )  # fmt: skip

    def per_node() -> int:
        return cluster(step).network.npus_count[0]

    made = step.expanded(expanded_memory_of(args, per_node))
    return made, cluster(made)


def _traces(args: argparse.Namespace) -> _Inputs:
    from astranb.workload.astrasim2 import load

    what = load(
        args.workload,
        args.system,
        network_of(args),
        compat=args.compat is not None,
        **given(args, "memory", "root", groups="comm_group"),
        **_system_options(args),
    )
    return _Inputs(what, _network_options(args))


def _layers(args: argparse.Namespace) -> _Inputs:
    from astranb.workload.astrasim1 import load

    table_row(args)
    if args.training_loops is not None:
        _run_file(args.training_loops)
    what = load(
        args.workload,
        args.system,
        args.network,
        changes={name.replace("_", "-"): values for name, values in given(args, *_NETWORK_KEYS).items()},
        compat=args.compat is not None,
        **given(
            args, "compute_scale", "comm_scale", "injection_scale",
            passes="num_passes", queues="num_queues_per_dim",
        ),
    )  # fmt: skip
    return _Inputs(what, {})


def table_row(args: argparse.Namespace) -> tuple[int, int]:
    """Return which row of ASTRA-sim 1.0's tables a run is, and how many rows there are."""
    row = 0 if args.stat_row is None else args.stat_row
    rows = 1 if args.total_stat_rows is None else args.total_stat_rows
    if not 0 <= row < rows:
        raise InputError(f"row {row} of {rows}", where="--stat-row", hint="count rows from 0")
    return row, rows


def _system_options(args: argparse.Namespace) -> dict[str, Any]:
    return given(args, "injection_scale", queues="num_queues_per_dim", rendezvous="rendezvous_protocol")


def _infra_of(args: argparse.Namespace, default: str | None = None) -> Infra:
    """Return the infrastructure, without its failed links, and with PXN if it is asked for."""
    from astranb.infragraph import Infra, resolve

    given = args.infra or default
    found = resolve(given if isinstance(given, Infra) else str(given))
    found = found.without(*(getattr(args, "down", None) or ()))
    return found.with_pxn() if getattr(args, "pxn", None) else found


def _failures(args: argparse.Namespace) -> LinkFailures | None:
    """Return what fails and comes up again while the run goes."""
    for name in ("repair", "reroute"):
        if args.fail is None and getattr(args, name) not in (None, "never"):
            raise InputError(f"--{name} needs --fail", where="run", hint="give --fail LINK@TIME, or --down")
    if args.fail is None:
        return None
    from astranb.explore.failures import LinkFailures

    return LinkFailures.of(args.fail, args.repair or (), args.reroute or "never")


def _starts(args: argparse.Namespace) -> dict[int, str] | None:
    """Return how late ranks start."""
    found: dict[int, str] = {}
    for text in args.start or ():
        rank, at, late = text.partition("@")
        if not at or not rank.strip().isdecimal():
            raise InputError(f"{text!r:.60} is not RANK@TIME", where="--start", hint="write it as 3@20us")
        if int(rank) in found:
            raise InputError(f"duplicate rank {int(rank)}", where="--start", hint="give it once")
        found[int(rank)] = late.strip()
    return found or None


def _refuse_starts(args: argparse.Namespace, what: str) -> None:
    """Raise InputError for late starts where there is no run of its own."""
    if args.start:
        raise InputError(f"--start does not apply to {what}", where="run", hint="leave it out")


def _refuse_failures(args: argparse.Namespace, what: str) -> None:
    """Raise InputError for link failures where there is no run of its own."""
    if args.fail is not None:
        hint = "leave it out, or give --down LINK"
        raise InputError(f"--fail does not apply to {what}", where="run", hint=hint)


def _is_topology(file: str | None) -> bool:
    """Return whether a network's file is that of a packet simulator."""
    from astranb.infragraph import is_topology_file

    return file is not None and is_topology_file(file)


def network_of(args: argparse.Namespace) -> Any:
    """Return the network's file, or make a network of an infrastructure with the given dimensions."""
    infra = args.network if _is_topology(args.network) else args.infra if args.network is None else None
    if infra is None:
        return args.network
    from astranb.workload.astrasim2 import InfraNetwork, read_logical_dimensions

    made = _infra_of(args, infra).completed(args.gpu)
    logical = getattr(args, "logical_topology", None)  # serving has none
    if logical is not None:
        return InfraNetwork(made, read_logical_dimensions(logical), logical)
    counts = [] if args.dimensions is None else args.dimensions.split("x")
    if any(not (count.isascii() and count.isdecimal() and int(count[:9]) > 0) for count in counts):
        what = f"{args.dimensions[:40]!r} is not a list of dimensions"
        raise InputError(what, where="--dimensions", hint="write 8x4")
    return InfraNetwork(made, tuple(map(int, counts)), infra)


def _run_file(file: str) -> None:
    """Run a Python file, which registers training loops."""
    if not Path(file).is_file():
        raise InputError("file not found", where=file, hint="name a Python file with training loops")
    try:
        runpy.run_path(file)
    except (Exception, SystemExit) as error:  # whatever the file does
        what = f"{type(error).__name__}: {error}"[:200]
        raise InputError(what, where=file, hint="correct the file") from error
