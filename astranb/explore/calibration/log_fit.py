"""Fit a preset to a log of measured collectives.

Three named numbers at most: the time outside the kernel, the header of a packet (so, what share of a
link's bandwidth is data), and a system-wide fence. A number is fitted only where the rows determine it.

Fitted times keep to physics: they grow with the size, and no size is faster than the links allow.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from astranb.collectives.library import Writer
from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.units import format_bytes, format_time, size_bytes
from astranb.gpu import Preset
from astranb.hardware import Provenance, checked_name
from astranb.infragraph import Infra

from .log_runs import LogRuns
from .logs import CollectiveLog, LogRow

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["FittedNumber", "LogFit", "fit_log"]

Array = NDArray[np.float64]

_UP_TO: Final = "4 MiB"
_ASIDE: Final = 3  # one size in so many is kept aside
_FEWEST: Final = 4
_ROUNDS: Final = 4
_BETTER: Final = 0.99  # of the loss: a smaller gain is not worth more runs
_OUTLIER: Final = 0.1  # beyond this relative error a row counts linearly, not squared
_LEAST_RUN: Final = 64  # bytes
_LEAST_EFFECT: Final = 0.005
"""Least relative change of some row by a plausible change of a number."""
_MOST_VAGUE: Final = 0.5
"""Largest standard error of a number, as a share of how far the fit moves it, or of a plausible change."""
_MOST_ERROR: Final = 0.3
"""Largest mean relative error of the rows used: a fit that leaves more has failed."""
_MOST_BEYOND: Final = 0.05
"""Fraction by which a row may be faster than the links allow: bandwidths are nominal."""
_LEAST_OWN: Final = 0.1
"""Least share of a number's effect, as a length, that no other number can have as well."""


@dataclass(frozen=True, slots=True)
class _Parameter:
    number: str
    meaning: str
    step: int  # a plausible change, by which derivatives are taken
    most: int
    unit: int = 1  # a value is a multiple of it


_HEADER: Final = _Parameter("header_bytes", "header of each packet on a link", 16, 256)
_FENCE: Final = _Parameter("fence_ps", "a system-wide fence", 300_000, 10_000_000)
_US: Final = 1e6


def _outside(launch: str) -> _Parameter:
    meaning, step, most = "time outside the kernel", 1_000_000, 10**10
    if launch == "graph":
        return _Parameter("graph_ps", meaning, step, most, 1000)  # models count it in whole ns
    return _Parameter("launch_ps", meaning, step, most)


@dataclass(frozen=True, slots=True)
class FittedNumber:
    """One number of the fit.

    Attributes
    ----------
    number : str
        Its name in a preset.
    meaning : str
    before, after : int
    error : float
        Standard error of ``after``; 0 where it was not fitted.
    why_not : str
        Why it was not fitted; empty if it was.
    """

    number: str
    meaning: str
    before: int
    after: int
    error: float = 0.0
    why_not: str = ""


@dataclass(frozen=True)
class LogFit:
    """A preset fitted to a log, and how well it does.

    Attributes
    ----------
    preset : Preset
    launch : str
        The option ``launch`` with which runs include the time outside the kernel.
    numbers : tuple of FittedNumber
    rows : pandas.DataFrame
        ``collective``, ``size_bytes``, ``root``, ``protocol``, ``use`` (``fitted``, ``kept aside``,
        ``beyond the links``: measured as faster than these allow, and not used), ``basis`` of the simulated
        time (``run``; ``line`` through the two largest runs; ``links``, whose bandwidth is less than that
        line's; ``padded``: as a larger size that is faster), ``exact`` (whether that is ``run``),
        ``measured_us``, ``links_us`` (what the bytes take at the full bandwidth of the links),
        ``before_us``, ``simulated_us`` and ``error`` (relative).
    up_to_bytes : int
        The largest size that was run.
    """

    preset: Preset
    launch: str
    numbers: tuple[FittedNumber, ...]
    rows: pd.DataFrame
    up_to_bytes: int

    def errors(self, use: str, column: str = "simulated_us") -> tuple[float, float]:
        """Return the mean and the worst absolute relative error of ``fitted`` or ``kept aside`` rows."""
        rows = self.rows[self.rows["use"] == use]
        off = (rows[column] / rows["measured_us"] - 1).abs()
        return float(off.mean()), float(off.max())


def fit_log(
    log: CollectiveLog,
    infra: Infra | str | Path,
    *,
    like: str | Path | Preset | None = None,
    name: str | None = None,
    algorithm: str | Writer | None = None,
    protocol: str | None = None,
    channels: int | None = None,
    up_to: int | str = _UP_TO,
) -> LogFit:
    """Fit a preset to a log; every third size is kept aside and not used.

    Parameters
    ----------
    log : CollectiveLog
        What :func:`read_log` returns, of a machine without faults.
    infra : Infra or str or Path
        The machine that was measured.
    like : str or Path or Preset, optional
        The preset to start from; by default that of the infrastructure.
    name : str, optional
        Name of the new preset.
    algorithm, protocol, channels
        As for :class:`astranb.collectives.Collective`. Without a protocol the fastest one is taken for
        each size.
    up_to : int or str
        Larger sizes are not simulated line by line: their times lie on the line through the exact runs
        of this size and of half of it, or end at the bandwidth of the links where that is less. So it should
        be a size at which bandwidth counts, not latency.

    Raises
    ------
    InputError
        The log is of another machine, has too few sizes, is faster than the links allow, or the fit failed:
        the rows determine no number, or no numbers explain them.
    """
    limit = size_bytes(up_to, where="up_to")
    if limit < _LEAST_RUN:
        what = f"runs of {limit} and {limit // 2} B tell nothing of larger sizes"
        raise InputError(what, where="up_to", hint=f"give {_LEAST_RUN} B or more")
    runs = LogRuns(log, infra, like, algorithm=algorithm, protocol=protocol, channels=channels)
    rows = log.rows
    links_us = np.array([runs.links_us(row) for row in rows])
    measured_us = np.array([row.time_us for row in rows])
    beyond = measured_us < links_us * (1 - _MOST_BEYOND)
    aside = np.array([_place(row, rows) % _ASIDE == 1 for row in rows])
    used = ~aside & ~beyond
    if beyond.any() and (np.mean(beyond) > 1 / 2 or np.sum(used) < _FEWEST):
        raise _beyond_links(log, runs, int(np.argmax(links_us / measured_us)), links_us)
    if np.sum(used) < _FEWEST:
        hint = f"a fit needs {_FEWEST} sizes besides those kept aside"
        raise InputError(f"only {len(rows)} sizes", where=log.where, hint=hint)
    fit = _LogFit(runs, limit, rows, measured_us, used, links_us)
    fit.solve()
    fit.check()
    preset = fit.preset(checked_name(name or f"{runs.gpu.name}-fitted", "--name"))
    table = fit.table(np.where(beyond, "beyond the links", np.where(aside, "kept aside", "fitted")))
    return LogFit(preset, log.launch, tuple(fit.numbers()), table, limit)


def _beyond_links(log: CollectiveLog, runs: LogRuns, worst: int, links_us: Array) -> InputError:
    """Return the error of a log that no numbers of its machine explain."""
    row = log.rows[worst]
    least, took = (format_time(round(time_us * _US)) for time_us in (links_us[worst], row.time_us))
    what = (
        f"{row.collective} of {format_bytes(row.size)} in {took}: its bytes alone take {least} at the full "
        f"bandwidth of the links of {runs.infra.name}"
    )
    hint = "give --infra as it was measured, or an --algorithm that adds in switches"
    return InputError(what, where=row.where, hint=hint)


def _place(row: LogRow, rows: Sequence[LogRow]) -> int:
    """Return the place of a row's size among those of the same collective."""
    return sorted({other.size for other in rows if other.collective == row.collective}).index(row.size)


class _LogFit:
    """Gauss-Newton over the numbers that the rows determine; simulated times are exact runs."""

    def __init__(
        self,
        runs: LogRuns,
        limit: int,
        rows: Sequence[LogRow],
        measured_us: Array,
        used: NDArray[np.bool_],
        links_us: Array,
    ) -> None:
        self.runs, self.limit, self.rows = runs, limit, rows
        self.measured, self.used, self.links_us = measured_us, used, links_us
        self.start = runs.gpu
        self.gpu = runs.gpu
        outside = () if runs.log.launch == "none" else (_outside(runs.log.launch),)
        self.all = (*outside, _HEADER, _FENCE)
        self.before = {p.number: int(getattr(self.start, p.number)) for p in self.all}
        self.values = dict(self.before)
        self.why_not: dict[str, str] = {}
        self.errors: dict[str, float] = {}
        # Of each row, by its key: the time that a byte takes at the full bandwidth of the links.
        self.byte_us = {row.key: least / row.size for row, least in zip(rows, links_us.tolist(), strict=True)}

    def _exact(self, row: LogRow) -> bool:
        return row.size <= self.limit

    def kernels(self, gpu: Preset) -> tuple[Array, list[str]]:
        """Return the simulated times of the kernels of all rows, in us, and what each is based on.

        A message can be padded: where a run of a larger size is faster, a smaller one takes its time.
        """
        found = [self._kernel(row, gpu) for row in self.rows]
        times_us, bases = [time_us for time_us, _ in found], [basis for _, basis in found]
        least: dict[tuple[str, int], float] = {}
        for at in reversed(range(len(found))):  # the rows of a collective ascend
            row = self.rows[at]
            larger = least.get((row.collective, row.root), math.inf)
            if larger < times_us[at]:
                times_us[at], bases[at] = larger, "padded"
            least[row.collective, row.root] = times_us[at]
        return np.array(times_us), bases

    def _kernel(self, row: LogRow, gpu: Preset) -> tuple[float, str]:
        protocol = self._protocol(row)
        if self._exact(row):
            return self.runs.time_us(row, gpu, protocol), "run"
        return self._line(row, gpu, protocol)

    def _line(self, row: LogRow, gpu: Preset, protocol: str) -> tuple[float, str]:
        """Return the time on the line through the exact runs of the limit and of its half.

        Where latency counts at these sizes, that line would lead beyond the bandwidth of the links.
        """
        whole, half = (replace(row, size=size) for size in (self.limit, self.limit // 2))
        long, short = (self.runs.time_us(one, gpu, protocol) for one in (whole, half))
        slope, least = (long - short) / (whole.size - half.size), self.byte_us[row.key]
        return long + (row.size - whole.size) * max(slope, least), "line" if slope >= least else "links"

    def _protocol(self, row: LogRow) -> str:
        """Return the protocol that is fastest for a row with the preset that the fit starts from."""
        if self._exact(row):
            return self.runs.protocol(row)
        among = self.runs.protocols(row)
        return min(among, key=lambda protocol: self._line(row, self.start, protocol)[0])

    def times(self, values: dict[str, int]) -> Array:
        """Return the times of all rows with these numbers, in us."""
        return self._based(values)[0]

    def _based(self, values: dict[str, int]) -> tuple[Array, list[str]]:
        """Return the same with what each time is based on."""
        kernel = {name: value for name, value in values.items() if name in (_HEADER.number, _FENCE.number)}
        outside = sum(value for name, value in values.items() if name not in kernel)
        changed = any(value != self.before[name] for name, value in kernel.items())
        times_us, bases = self.kernels(self.start.but(**kernel) if changed else self.start)
        return times_us + outside / _US, bases

    def solve(self) -> None:
        """Fit what the rows determine; every other number stays as it was."""
        chosen = self._determined(self._slopes(self.values, self.all))
        while chosen:
            self._descend(chosen)
            self._judge(chosen)
            vague = {p: self._vagueness(p) for p in chosen}
            worst = max(chosen, key=lambda p: vague[p])
            if vague[worst] <= _MOST_VAGUE:
                return
            # Without it, the others take up what it explained.
            found = f"{self.values[worst.number]:,} ± {self.errors.pop(worst.number):,.0f}"
            self.why_not[worst.number] = f"the rows give {found}, too vague to take"
            chosen = [p for p in chosen if p is not worst]
            self.values = dict(self.before)

    def check(self) -> None:
        """Raise where the fit failed: nothing was determined, or it explains the rows badly."""
        hint = "give rows of more sizes, the --algorithm that was measured, or a larger --up-to"
        if not self.errors:
            reasons = "; ".join(f"{p.number}: {self.why_not[p.number]}" for p in self.all)
            raise InputError(
                f"these rows determine no number ({reasons})", where=self.runs.log.where, hint=hint
            )
        off = np.abs(self._off(self.values))
        if (mean := float(off.mean())) > _MOST_ERROR:
            worst = [row for row, used in zip(self.rows, self.used, strict=True) if used][int(np.argmax(off))]
            what = (
                f"the best fit leaves rows {mean:.0%} off, and {worst.collective} of "
                f"{format_bytes(worst.size)} {off.max():.0%}"
            )
            raise InputError(what, where=self.runs.log.where, hint=hint)

    def _vagueness(self, parameter: _Parameter) -> float:
        """Return the standard error of a number, relative to how far the fit moved it, or could plausibly."""
        moved = abs(self.values[parameter.number] - self.before[parameter.number])
        return float(self.errors[parameter.number] / max(parameter.step, moved))

    def _descend(self, chosen: Sequence[_Parameter]) -> None:
        for _ in range(_ROUNDS):
            slopes = self._slopes(self.values, chosen)
            off = self._off(self.values)
            weights = np.minimum(1, _OUTLIER / np.maximum(np.abs(off), 1e-12))
            root = np.sqrt(weights)[:, None]
            change, *_ = np.linalg.lstsq(root * slopes, -root[:, 0] * off, rcond=None)
            better = self._stepped(chosen, change)
            if better is None:
                return
            self.values = better

    def _stepped(
        self, chosen: Sequence[_Parameter], change: NDArray[np.floating[Any]]
    ) -> dict[str, int] | None:
        """Return the values after the longest step that makes the fit better."""
        now = self._loss(self.values)
        for share in (1.0, 0.5, 0.25):
            tried = dict(self.values)
            for parameter, steps in zip(chosen, change.tolist(), strict=True):
                value = self.values[parameter.number] + share * steps * parameter.step
                value = round(value / parameter.unit) * parameter.unit
                tried[parameter.number] = min(parameter.most, max(0, value))
            if tried != self.values and self._loss(tried) < now * _BETTER:
                return tried
        return None

    def _off(self, values: dict[str, int]) -> Array:
        """Return the relative errors of the rows that are used."""
        return (self.times(values) / self.measured - 1)[self.used]

    def _loss(self, values: dict[str, int]) -> float:
        off = np.abs(self._off(values))
        squared = np.where(off < _OUTLIER, off**2, _OUTLIER * (2 * off - _OUTLIER))
        return float(squared.sum())

    def _slopes(self, values: dict[str, int], among: Sequence[_Parameter]) -> Array:
        """Return how much a step of each number changes each used row, relative."""
        now = self.times(values)
        columns = []
        for parameter in among:
            moved = values | {parameter.number: values[parameter.number] + parameter.step}
            columns.append(((self.times(moved) - now) / self.measured)[self.used])
        return np.stack(columns, axis=1)

    def _determined(self, slopes: Array) -> list[_Parameter]:
        """Choose numbers that change some row, and no others can change the rows alike."""
        chosen: list[int] = []
        for at, parameter in enumerate(self.all):
            column = slopes[:, at]
            if np.abs(column).max() < _LEAST_EFFECT:
                self.why_not[parameter.number] = "no row depends on it"
                continue
            others = slopes[:, chosen]
            rest = column - others @ np.linalg.lstsq(others, column, rcond=None)[0] if chosen else column
            if np.linalg.norm(rest) < _LEAST_OWN * np.linalg.norm(column):
                alike = ", ".join(self.all[one].number for one in chosen)
                self.why_not[parameter.number] = f"these rows cannot tell it from {alike}"
                continue
            chosen.append(at)
        return [self.all[at] for at in chosen]

    def _judge(self, chosen: Sequence[_Parameter]) -> None:
        """Find the standard errors."""
        slopes, off = self._slopes(self.values, chosen), self._off(self.values)
        spread = float(off @ off) / max(1, len(off) - len(chosen))
        covariance = spread * np.linalg.pinv(slopes.T @ slopes)
        for at, parameter in enumerate(chosen):
            self.errors[parameter.number] = float(np.sqrt(covariance[at, at])) * parameter.step

    def numbers(self) -> list[FittedNumber]:
        """Return what was fitted and what was not."""
        return [
            FittedNumber(
                p.number,
                p.meaning,
                self.before[p.number],
                self.values[p.number],
                self.errors.get(p.number, 0.0),
                self.why_not.get(p.number, ""),
            )
            for p in self.all
        ]

    def preset(self, name: str) -> Preset:
        """Return the preset, with the log as the source of what was fitted."""
        log, base = self.runs.log, self.start
        fitted = {name: value for name, value in self.values.items() if name not in self.why_not}
        about = f"{Path(log.where).name}, {plural(len(self.rows), 'row')}, {int(self.used.sum())} used"
        device = f", {log.devices[0]}" if log.devices else ""
        sources = {
            number: Provenance(known.kind, f"not fitted, as {base.name}: {known.source}")
            for number, known in base.sources.items()
        }
        sources |= dict.fromkeys(fitted, Provenance("fitted", f"to a log ({about}{device})"))
        return replace(base.but(**fitted), name=name, sources=sources)

    def table(self, use: NDArray[np.str_]) -> pd.DataFrame:
        """Return all rows with their times before and after."""
        import pandas as pd

        before, (after, bases) = self.times(self.before), self._based(self.values)
        return pd.DataFrame(
            {
                "collective": [row.collective for row in self.rows],
                "size_bytes": [row.size for row in self.rows],
                "root": [row.root for row in self.rows],
                "protocol": [self._protocol(row) for row in self.rows],
                "use": use,
                "basis": bases,
                "exact": [basis == "run" for basis in bases],
                "measured_us": self.measured,
                "links_us": self.links_us,
                "before_us": before,
                "simulated_us": after,
                "error": after / self.measured - 1,
            }
        )
