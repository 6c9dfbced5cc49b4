"""Changing a simulation: parameters, edits, dead links, and new runs with other inputs."""

# ruff: noqa: SLF001 - this is a part of Simulation

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from astranb.collectives import PROTOCOLS, Collective, algorithms
from astranb.core.errors import InputError, near
from astranb.core.units import format_bytes
from astranb.engine.cacheline._build import LAUNCHES
from astranb.engine.cacheline._edits import RECORD, Parameter, parameters_of, read_edit, switch_recording
from astranb.engine.cacheline._paths import resolve
from astranb.engine.cacheline.workload import Graph
from astranb.gpu import Preset, preset
from astranb.net import Network
from astranb.net._options import MULTIPATHS
from astranb.net.port import ARBITRATIONS

from ._editing import Edited

if TYPE_CHECKING:
    from ._simulation import Simulation

__all__ = ["Changing"]

_START = "from the start of a new run"
_GPU_NUMBERS = ("sms", "unroll", "max_outstanding", "warps_per_block", "blocks_per_sm")
_NETWORK = {"arbitration": ARBITRATIONS, "multipath": MULTIPATHS, "buffers": (), "coalesce": ()}
_COLLECTIVE = ("algorithm", "size", "protocol", "lanes")


class Changing(Edited):
    """The verbs with which a person changes a :class:`Simulation`; see there."""

    @property
    def _sim(self) -> Simulation:
        """Itself, as what it is a part of."""
        return cast("Simulation", self)

    def set(self, path: str, value: int | str | bool) -> None:
        """Change something for what has not started yet; ``back`` past now undoes it.

        Parameters
        ----------
        path : str
            What :meth:`parameters` names: ``A->B.bandwidth`` (of each lane), ``A->B#k.latency``,
            ``A->B.up``, ``gpu[3].sms`` (that may take blocks not begun), ``gpu[3].l2`` (latency), ...
        value : int or str or bool
            With a unit; ``up`` takes True and False, ``"yes"`` and ``"no"``.

        Raises
        ------
        InputError
            There is no such thing to change, or the value is not possible.
        """
        sim = self._sim
        sim._driver.edit(read_edit(sim.events, path, value, sim.fabric, sim.machine))
        sim._stop("edit")

    def record(self, on: bool = True) -> None:
        """Note lines in flight and activity from now on, or no longer: a window of what is looked at.

        What passes unrecorded happens as it would have; :attr:`unrecorded` says when that was.
        Going back past the switch undoes it, as with every edit.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
        >>> sim.record(False)
        >>> _ = sim.run("2 us")
        >>> sim.record()
        >>> _ = sim.run()
        >>> [(start, end // 1_000_000) for start, end in sim.unrecorded]
        [(0, 1)]
        """
        sim = self._sim
        if not sim.recorder.on:
            hint = "make it with Simulation(..., record=True)"
            raise InputError("this simulation has no room for a recording", where="record", hint=hint)
        if bool(sim.machine.recorder[0].paused) == on:
            sim._driver.edit(switch_recording(sim.events, sim.machine, on=on))
            sim._stop("edit")

    @property
    def unrecorded(self) -> list[tuple[int, int]]:
        """Stretches of simulated time, in ps, of which nothing was noted."""
        recorder, now_ps = self._sim.machine.recorder[0], self._sim.now_ps
        gaps = [(0, int(recorder.since_ps) if recorder.on else now_ps)]
        off_ps = -1
        for edit in self._sim._driver.edits:
            if edit.path != RECORD:
                continue
            if edit.number:
                off_ps = edit.at_ps
            elif off_ps >= 0:
                gaps.append((off_ps, edit.at_ps))
                off_ps = -1
        if off_ps >= 0:
            gaps.append((off_ps, now_ps))
        return [(start, end) for start, end in gaps if end > start]

    def parameters(self, path: str = "") -> list[Parameter]:
        """What can be changed, with its value now, its unit and limits, and when it takes effect.

        Parameters
        ----------
        path : str
            An object, whose parameters :meth:`set` changes; where empty the whole run, whose
            parameters :meth:`rebuilt` changes.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
        >>> [(p.path, p.value) for p in sim.parameters("gpu[3]")][-1]
        ('dgx_h100.0.xpu.3.sms', '132')
        >>> [p.path for p in sim.parameters()][:3]
        ['algorithm', 'size', 'protocol']
        """
        if path:
            return parameters_of(resolve(path, self._sim.fabric, self._sim.machine), self._sim.machine)
        c = self._sim.collective
        if isinstance(c, Graph):
            return []
        names = tuple(a.name for a in algorithms(c.name))

        def of(
            path: str, value: object, limits: str, meaning: str, choices: tuple[str, ...] = ()
        ) -> Parameter:
            return Parameter(path, str(value), "", limits, _START, meaning, choices)

        one = self._sim.chosen[0]
        found = [
            of("algorithm", c.algorithm_name, "one of its kind", "who sends what to whom", names),
            of("size", format_bytes(c.size), "at least 1 B", "of the larger buffer"),
            of("protocol", c.protocol, "what the algorithm can", "semaphores or flags", PROTOCOLS),
            of("lanes", c.lanes or "auto", "at least 1, or auto", "sets of thread blocks"),
            of("launch", self._sim.launch, "", "what it costs to start a kernel", LAUNCHES),
        ]
        found += [of(f"gpu.{n}", getattr(one, n), "at least 1", _MEANING[n]) for n in _GPU_NUMBERS]
        for name, choices in _NETWORK.items():
            limits = "" if choices else "from 0" if name == "buffers" else "1 to 64"
            found.append(
                of(f"network.{name}", getattr(self._sim.network, name), limits, _MEANING[name], choices)
            )
        return found

    def rebuilt(
        self,
        *,
        collective: Collective | None = None,
        gpu: str | Path | Preset | Mapping[str, int] | None = None,
        network: Network | Mapping[str, Any] | None = None,
        launch: str | None = None,
        keep: bool = True,
        **changes: Any,
    ) -> Simulation:
        """A new simulation at its start, like this one but for what is changed.

        Parameters
        ----------
        collective : Collective, optional
            What runs.
        gpu : str or Path or Preset or mapping, optional
            Another kind of GPU, or numbers of the present one: ``{"sms": 64}``.
        network : Network or mapping, optional
            Other options, or some of them: ``{"arbitration": "fair"}``.
        launch : str, optional
        keep : bool
            Whether what :meth:`set` has changed holds there from the start.
        **changes
            ``algorithm``, ``size``, ``protocol``, ``lanes`` of the collective.

        Raises
        ------
        InputError
            Something cannot be changed, or does not fit together.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "ring"))
        >>> other = sim.rebuilt(algorithm="allpairs", gpu={"unroll": 8})
        >>> other.collective.title, other.presets[0].unroll, other.events
        ('all_reduce/allpairs', 8, 0)
        """
        other = object.__new__(type(self._sim))
        other.infra, other.fabric = self._sim.infra, self._sim.fabric
        other.collective = _collective(collective or self._sim.collective, changes)
        other.network = _network(self._sim.network, network)
        other.launch = self._sim.launch if launch is None else launch
        other.chosen = _presets(self._sim.chosen, gpu)
        notes = [note for note in self._sim.assumed if "GPUs are taken for" in note] if gpu is None else []
        record = bool(self._sim.machine.recorder[0].on)
        other._build(notes, record, self._sim._driver.history.budget_bytes, None)
        if keep:
            for path, value in {e.path: e.value for e in self._sim._driver.edits}.items():
                other.set(path, value)
        return other

    def fork_with(self, changes: Mapping[str, Any]) -> Simulation:
        """What :meth:`parameters` of the run and of objects name, changed in a simulation apart.

        Where only objects are changed it has the same past as this one; else it is at its start.

        Parameters
        ----------
        changes : mapping of str to value
            As ``{"algorithm": "ring", "gpu.sms": 64}`` or ``{"A->B.bandwidth": "1 GB/s"}``.
        """
        named = {p.path for p in self._sim.parameters()}
        whole = {path: value for path, value in changes.items() if "." not in path or path in named}
        unknown = sorted(set(whole) - named)
        if unknown:
            raise InputError(f"{unknown[0]!r} cannot be changed", where="fork", hint=near(unknown[0], named))
        other = self._sim.rebuilt(**_options(whole)) if whole else self._sim.fork()
        for path, value in changes.items():
            if path not in whole:
                other.set(path, value)
        return other

    def _ways(self, link: str, both: bool) -> list[str]:
        return _directions(link, both)

    def _leave(self) -> None:
        self._sim.recorder.mark()

    def _killed(self) -> dict[int, int]:
        """When each dead link was killed, in ps: a checkpoint was taken then."""
        known = {c.events: max(0, c.counts["now_ps"]) for c in self._sim._driver.history.checkpoints}
        return {
            row: known[edit.events]
            for edit in self._sim._driver.edits
            if edit.field == "up" and not edit.number and edit.events in known
            for row in edit.rows
        }


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


def _directions(link: str, both: bool) -> list[str]:
    """A link, and the one the other way."""
    ends, hash_, lane = link.partition("#")
    a, arrow, b = ends.partition("->")
    if both and not arrow:
        raise InputError(f"{link!r} is not a link", where="kill", hint="write A->B or A->B#k")
    return [link, f"{b}->{a}{hash_}{lane}"] if both else [link]


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
        raise InputError("a workload has no algorithm, size or lanes of its own", where="rebuilt", hint=hint)
    lanes = said.get("lanes", present.lanes)
    if lanes not in (None, "auto") and (isinstance(lanes, bool) or not isinstance(lanes, int)):
        raise InputError(f"lanes must be a whole number or auto, got {lanes!r}", where="lanes")
    return Collective.of(
        present.name,
        said.get("size", present.size),
        said.get("algorithm", present.algorithm),
        lanes=None if lanes == "auto" else lanes,
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


def _options(changes: dict[str, Any]) -> dict[str, Any]:
    """What ``rebuilt`` takes, from paths and values; numbers may be text."""
    options: dict[str, Any] = {}
    for path, value in changes.items():
        head, dot, name = path.rpartition(".")
        number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
        if dot:
            options.setdefault(head, {})[name] = number
        else:
            options[name] = number if name == "lanes" else value
    return options
