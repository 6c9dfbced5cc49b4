"""A run like another one: what can be changed of a whole run, and the run with the changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from astranb.core.errors import InputError, near
from astranb.core.units import format_bytes
from astranb.engine import Parameter
from astranb.net import ARBITRATIONS, MULTIPATHS, Network

if TYPE_CHECKING:
    from astranb.collectives import Collective
    from astranb.engine.cacheline import CacheLineEngine, Graph
    from astranb.gpu import GpuChoice, Preset
    from astranb.workload.jobs import Start

__all__ = ["options", "parameters", "rebuilt"]

_START: Final = "from the start of a new run"
_GPU_NUMBERS: Final = {
    "sms": "SMs of each GPU",
    "unroll": "lines in flight of one warp",
    "max_outstanding": "requests in flight of one SM",
    "warps_per_block": "warps of a thread block",
    "blocks_per_sm": "thread blocks on one SM",
}
_NETWORK: Final[dict[str, tuple[str, str, tuple[str, ...]]]] = {
    "arbitration": ("", "which message a link sends next", ARBITRATIONS),
    "multipath": ("", "how a message's route is chosen among equal ones", MULTIPATHS),
    "buffers": ("from 0", "messages buffered behind a link, in each class; 0: unlimited", ()),
    "coalesce": ("1 to 64", "lines per request: above 1 is faster, and not exact", ()),
}
_COLLECTIVE: Final = ("algorithm", "size", "protocol", "channels", "params")


def parameters(engine: Any) -> list[Parameter]:
    """Return the parameters of a whole run, with their values now; none of a workload."""
    if engine.fidelity != "cacheline" or engine.work.subject != "collective":
        return []
    from astranb.collectives import PROTOCOLS, algorithms  # such an engine has loaded them
    from astranb.engine.cacheline import LAUNCHES

    c, one, network = engine.work, engine.chosen[0], engine.network
    rows: list[tuple[str, object, str, str, tuple[str, ...]]] = [
        ("algorithm", c.algorithm_name, "one of its kind", "who sends what to whom",
         tuple(a.name for a in algorithms(c.name))),
        ("size", format_bytes(c.size), "at least 1 B", "of the larger buffer", ()),
        ("protocol", c.protocol, "what the algorithm can", "semaphores or flags", PROTOCOLS),
        ("channels", c.channels or "auto", "at least 1, or auto", "sets of thread blocks", ()),
        ("launch", engine.launch, "", "what it costs to start a kernel", LAUNCHES),
    ]  # fmt: skip
    rows += [(f"gpu.{n}", getattr(one, n), "at least 1", text, ()) for n, text in _GPU_NUMBERS.items()]
    rows += [(f"network.{n}", getattr(network, n), *more) for n, more in _NETWORK.items()]
    return [
        Parameter(path, str(value), "", limits, _START, text, choices)
        for path, value, limits, text, choices in rows
    ]


def rebuilt(
    engine: CacheLineEngine,
    *,
    collective: Collective | None = None,
    gpu: GpuChoice | None = None,
    network: Network | Mapping[str, Any] | None = None,
    launch: str | None = None,
    start: Start | None = None,
    **changes: Any,
) -> CacheLineEngine:
    """A new engine at its start, like this one but for what is changed; see ``Simulation.rebuilt``."""
    from astranb.engine.cacheline import lowers_alike
    from astranb.workload.jobs import starts_ps

    work = _collective(collective or engine.work, changes)
    chosen, net = _presets(engine.chosen, gpu), _network(engine.network, network)
    given = engine.given  # of a function that only its program is known of
    if given is not None and not (
        work is engine.work and lowers_alike(given, (engine.chosen[0], engine.network), (chosen[0], net))
    ):
        given = None
    late_ps = engine.late_ps.tolist() if start is None else starts_ps(start, engine.ranks)
    return type(engine).built(
        engine.infra,
        work,
        engine.fabric,
        chosen,
        net,
        engine.launch if launch is None else launch,
        late_ps=late_ps,
        notes=engine.notes if gpu is None else (),
        record=engine.recording,
        given=given,
    )


def _collective(present: Collective | Graph, changes: dict[str, Any]) -> Collective | Graph:
    from astranb.collectives import Collective, Exchange

    unknown = sorted(set(changes) - set(_COLLECTIVE))
    if unknown:
        raise InputError(
            f"{unknown[0]!r} cannot be changed", where="rebuilt", hint=near(unknown[0], _COLLECTIVE)
        )
    given = {name: changes[name] for name in _COLLECTIVE if changes.get(name) is not None}
    if not given:
        return present
    if not isinstance(present, Collective):
        hint = "make another workload"
        raise InputError(
            "a workload has no algorithm, size or channels of its own", where="rebuilt", hint=hint
        )
    if isinstance(present, Exchange):
        return present.changed(**given)
    algorithm = given.get("algorithm", present.algorithm)
    own = algorithm == present.algorithm  # else parameters are another's
    channels = given.get("channels", present.channels)
    if channels not in (None, "auto") and (isinstance(channels, bool) or not isinstance(channels, int)):
        raise InputError(f"channels must be a whole number or auto, got {channels!r}", where="channels")
    if present.contract is not None:
        if "size" in given:
            raise InputError(
                "a contract has the sizes of its chunks", where="size", hint="change the contract"
            )
        return dataclasses.replace(present, **{**given, "channels": None if channels == "auto" else channels})
    made = Collective.of(
        present.name,
        given.get("size", present.size),
        algorithm,
        channels=None if channels == "auto" else channels,
        root=present.root,
        protocol=given.get("protocol", present.protocol),
        chunk_bytes=present.chunk_bytes,
        chunks=present.chunks if own else None,
        params={**(present.params if own else {}), **given.get("params", {})},
    )
    return dataclasses.replace(made, unchecked=present.unchecked)


def _network(present: Network, given: Network | Mapping[str, Any] | None) -> Network:
    if given is None or isinstance(given, Network):
        return given or present
    known = [field.name for field in dataclasses.fields(Network)]
    for name in given:
        if name not in known:
            raise InputError(f"a network has no option {name!r}", where="network", hint=near(name, known))
    return dataclasses.replace(present, **given)


def _presets(present: list[Preset], given: GpuChoice | None) -> list[Preset]:
    from astranb.gpu import chosen_preset, with_numbers

    one, numbers = chosen_preset(given)
    return with_numbers(present if one is None else [one] * len(present), numbers)


def options(changes: dict[str, Any]) -> dict[str, Any]:
    """Return the options of ``rebuilt`` from paths and values; numbers may be text."""
    options: dict[str, Any] = {}
    for path, value in changes.items():
        head, dot, name = path.rpartition(".")
        number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
        if dot:
            options.setdefault(head, {})[name] = number
        else:
            options[name] = number if name == "channels" else value
    return options
