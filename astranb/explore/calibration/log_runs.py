"""The runs that a log is compared with: the same collectives, sizes and roots on a simulated machine."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from astranb.collectives import Collective, algorithms
from astranb.collectives.library import Writer
from astranb.core.errors import InputError
from astranb.explore.algorithms import LinkBound
from astranb.gpu import PRESETS, Preset
from astranb.gpu import preset as find_preset
from astranb.infragraph import Infra, resolve
from astranb.sim import Simulation

from .logs import CollectiveLog, LogRow

__all__ = ["LogRuns"]

_SMALL_BYTES: Final = 64 << 10


class LogRuns:
    """Simulates rows of a log, each once for each GPU.

    Parameters
    ----------
    log : CollectiveLog
    infra : Infra or str or Path
        The machine that was measured.
    gpu : str or Path or Preset, optional
        By default that of the infrastructure.
    algorithm, protocol, channels
        As for :class:`astranb.collectives.Collective`. By default the collective's algorithm, and for
        each row the protocol that is fastest on ``gpu``.

    Raises
    ------
    InputError
        The log is of another machine.
    """

    def __init__(
        self,
        log: CollectiveLog,
        infra: Infra | str | Path,
        gpu: str | Path | Preset | None = None,
        *,
        algorithm: str | Writer | None = None,
        protocol: str | None = None,
        channels: int | None = None,
    ) -> None:
        self.log, self._algorithm, self._channels = log, algorithm, channels
        self.infra = resolve(infra)
        self._given = gpu if gpu is None or isinstance(gpu, Preset) else find_preset(gpu)
        self._protocol = protocol
        self._chosen: dict[tuple[str, int, int], str] = {}
        self._known: dict[tuple[tuple[str, int, int], str, Preset], float] = {}
        self._in_switch: dict[str, bool] = {}
        sim = self._small(log.rows[0])
        self._bound = LinkBound.of(sim.engine.fabric)
        self.ranks = sim.ranks
        self.gpu: Preset = sim.engine.presets[0]
        self._check(log)

    def _check(self, log: CollectiveLog) -> None:
        """Check that the log is of this machine."""
        if log.ranks and log.ranks != self.ranks:
            what = f"a log of {log.ranks} ranks, but {self.infra.name} has {self.ranks} GPUs"
            raise InputError(what, where=log.where, hint="give --infra as it was measured")
        families = {name.partition("-")[0] for name in PRESETS}
        for device in log.devices:
            named = families & set(re.findall(r"[a-z]+\d+[a-z]*", device.lower()))
            if named and self._given is None and self.gpu.name.partition("-")[0] not in named:
                what = f"a log of {device[:60]}, but {self.infra.name} has {self.gpu.name}"
                raise InputError(what, where=log.where, hint="give another --infra, or the GPU")
        for row in log.rows:
            if row.root >= self.ranks:
                raise InputError(f"root {row.root} of {self.ranks} ranks", where=row.where)

    def protocol(self, row: LogRow) -> str:
        """Return the protocol of a row: the given one, or the one that is fastest there."""
        if row.key not in self._chosen:
            times = {name: self.time_us(row, self.gpu, name) for name in self.protocols(row)}
            self._chosen[row.key] = min(times, key=lambda name: times[name])
        return self._chosen[row.key]

    def time_us(self, row: LogRow, gpu: Preset | None = None, protocol: str | None = None) -> float:
        """Return the simulated time of a row, without the launch of its kernel."""
        chosen, protocol = gpu or self.gpu, protocol or self.protocol(row)
        key = row.key, protocol, chosen
        if key not in self._known:
            self._known[key] = self._run(row, chosen, protocol)
        return self._known[key]

    def _small(self, row: LogRow) -> Simulation:
        """Return a run like that of a row, which is built in no time."""
        return self.simulation(replace(row, size=min(row.size, _SMALL_BYTES)))

    def links_us(self, row: LogRow) -> float:
        """Return what the bytes of a row take at the full bandwidth of the links, in us."""
        if row.collective not in self._in_switch:
            ops = self._small(row).engine.program.ops
            self._in_switch[row.collective] = bool(ops["in_switch"].any())
        in_switch = self._in_switch[row.collective]
        return self._bound.least_us(row.collective, row.size, row.root, in_switch=in_switch)

    def simulation(
        self, row: LogRow, gpu: Preset | None = None, protocol: str | None = None, launch: str = "none"
    ) -> Simulation:
        """Return the run of a row at its start."""
        with _about(row):
            return Simulation(
                self.infra,
                self._collective(row, protocol or self._protocol or "Simple"),
                gpu=gpu or self._given,
                launch=launch,
                record=False,
                checkpoint_bytes=0,
            )

    def _collective(self, row: LogRow, protocol: str) -> Collective:
        return Collective.of(
            row.collective,
            row.size,
            self._algorithm,
            channels=self._channels,
            root=row.root,
            protocol=protocol,
        )

    def protocols(self, row: LogRow) -> tuple[str, ...]:
        """Return the protocols that a row may have: the given one, or all of its algorithm."""
        if self._protocol is not None:
            return (self._protocol,)
        name = self._collective(row, "Simple").algorithm_name
        known = [one.protocols for one in algorithms(row.collective) if one.name == name]
        return tuple(known[0]) if known else ("Simple",)

    def _run(self, row: LogRow, gpu: Preset, protocol: str) -> float:
        sim = self.simulation(row, gpu, protocol)
        with _about(row):
            sim.run()
        return sim.now_ps / 1e6


@contextmanager
def _about(row: LogRow) -> Iterator[None]:
    """Name the row in an error about its simulation."""
    try:
        yield
    except InputError as error:
        raise InputError(error.what, where=row.where, hint=error.hint) from None
