"""A run like another one: what can be changed of a whole run, and the run with the changes."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from astranb.collectives import PROTOCOLS, Collective, algorithms
from astranb.core.errors import InputError, near
from astranb.core.units import format_bytes
from astranb.engine.cacheline import CacheLineEngine, Graph
from astranb.engine.cacheline.build import LAUNCHES
from astranb.engine.edits import Parameter
from astranb.gpu import Preset, preset
from astranb.net import Network
from astranb.net.options import MULTIPATHS
from astranb.net.port import ARBITRATIONS

__all__ = ["options", "parameters", "rebuilt"]

_START: Final = "from the start of a new run"
_GPU_NUMBERS: Final = ("sms", "unroll", "max_outstanding", "warps_per_block", "blocks_per_sm")
_NETWORK: Final = {"arbitration": ARBITRATIONS, "multipath": MULTIPATHS, "buffers": (), "coalesce": ()}
_COLLECTIVE: Final = ("algorithm", "size", "protocol", "channels")


def parameters(engine: Any) -> list[Parameter]:
    """What can be changed of a whole run, with its value now; nothing of a workload."""
    if not isinstance(engine, CacheLineEngine) or isinstance(engine.work, Graph):
        return []
    c, one = engine.work, engine.chosen[0]
    names = tuple(a.name for a in algorithms(c.name))

    def of(path: str, value: object, limits: str, meaning: str, choices: tuple[str, ...] = ()) -> Parameter:
        return Parameter(path, str(value), "", limits, _START, meaning, choices)

    found = [
        of("algorithm", c.algorithm_name, "one of its kind", "who sends what to whom", names),
        of("size", format_bytes(c.size), "at least 1 B", "of the larger buffer"),
        of("protocol", c.protocol, "what the algorithm can", "semaphores or flags", PROTOCOLS),
        of("channels", c.channels or "auto", "at least 1, or auto", "sets of thread blocks"),
        of("launch", engine.launch, "", "what it costs to start a kernel", LAUNCHES),
    ]
    found += [of(f"gpu.{n}", getattr(one, n), "at least 1", _MEANING[n]) for n in _GPU_NUMBERS]
    for name, choices in _NETWORK.items():
        limits = "" if choices else "from 0" if name == "buffers" else "1 to 64"
        found.append(of(f"network.{name}", getattr(engine.network, name), limits, _MEANING[name], choices))
    return found


def rebuilt(
    engine: CacheLineEngine,
    *,
    collective: Collective | None = None,
    gpu: str | Path | Preset | Mapping[str, int] | None = None,
    network: Network | Mapping[str, Any] | None = None,
    launch: str | None = None,
    **changes: Any,
) -> CacheLineEngine:
    """A new engine at its start, like this one but for what is changed; see ``Simulation.rebuilt``."""
    return CacheLineEngine.built(
        engine.infra,
        _collective(collective or engine.work, changes),
        engine.fabric,
        _presets(engine.chosen, gpu),
        _network(engine.network, network),
        engine.launch if launch is None else launch,
        notes=[note for note in engine.assumed if "GPUs are taken for" in note] if gpu is None else [],
        record=engine.recording,
    )


_MEANING = {
    "sms": "SMs of each GPU",
    "unroll": "lines that one warp keeps under way",
    "max_outstanding": "requests that one SM keeps under way",
    "warps_per_block": "warps of a thread block",
    "blocks_per_sm": "thread blocks on one SM",
    "arbitration": "who is next at a link",
    "multipath": "how a message's way is chosen among equal ones",
    "buffers": "messages behind a link, in each class; 0: no limit",
    "coalesce": "lines as one request: faster, and not exact",
}


def _collective(present: Collective | Graph, changes: dict[str, Any]) -> Collective | Graph:
    unknown = sorted(set(changes) - set(_COLLECTIVE))
    if unknown:
        raise InputError(
            f"{unknown[0]!r} cannot be changed", where="rebuilt", hint=near(unknown[0], _COLLECTIVE)
        )
    said = {name: changes[name] for name in _COLLECTIVE if changes.get(name) is not None}
    if not said:
        return present
    if isinstance(present, Graph):
        hint = "make another workload"
        raise InputError(
            "a workload has no algorithm, size or channels of its own", where="rebuilt", hint=hint
        )
    channels = said.get("channels", present.channels)
    if channels not in (None, "auto") and (isinstance(channels, bool) or not isinstance(channels, int)):
        raise InputError(f"channels must be a whole number or auto, got {channels!r}", where="channels")
    return Collective.of(
        present.name,
        said.get("size", present.size),
        said.get("algorithm", present.algorithm),
        channels=None if channels == "auto" else channels,
        root=present.root,
        protocol=said.get("protocol", present.protocol),
    )


def _network(present: Network, given: Network | Mapping[str, Any] | None) -> Network:
    if given is None or isinstance(given, Network):
        return given or present
    known = [field.name for field in dataclasses.fields(Network)]
    for name in given:
        if name not in known:
            raise InputError(f"a network has no option {name!r}", where="network", hint=near(name, known))
    return dataclasses.replace(present, **given)


def _presets(present: list[Preset], given: str | Path | Preset | Mapping[str, int] | None) -> list[Preset]:
    if given is None:
        return present
    if isinstance(given, Mapping):
        return [one.but(**given) for one in present]
    return [given if isinstance(given, Preset) else preset(given)] * len(present)


def options(changes: dict[str, Any]) -> dict[str, Any]:
    """What ``rebuilt`` takes, from paths and values; numbers may be text."""
    options: dict[str, Any] = {}
    for path, value in changes.items():
        head, dot, name = path.rpartition(".")
        number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
        if dot:
            options.setdefault(head, {})[name] = number
        else:
            options[name] = number if name == "channels" else value
    return options
