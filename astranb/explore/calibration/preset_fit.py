"""Fit a preset to measurements of a real GPU.

The fit runs the simulated microbenchmarks: a number is right when the simulated GPU measures the same
as the real one. Each row determines one number. The fit repeats until all rows agree.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astranb.core.errors import InputError
from astranb.gpu import LINKED, PRESETS, ROWS, Measured, Preset, blocks_of, read_measured
from astranb.gpu import preset as find_preset
from astranb.hardware import DEFAULT_GPU, Provenance, checked_name

from .microbench import TWO, measure

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["compare_to_measured", "preset_from"]

_CLOSE = 0.005  # relative error of a row that needs no further fit
_MISSED = 0.03  # relative error above which a row needs more lines in flight
_SWEEPS = 4
_STEPS = 14
_FIRST_PS = 100_000  # where a number is fitted of which a preset has none
_MOST_UNROLL, _MOST_OUTSTANDING = 64, 4096
_MOST_PEAK = 2  # times the bandwidth of streaming reads
_LIMITED = 0.7  # above this share of the highest bandwidth, links limit a copy


def preset_from(
    measured: str | Path | dict[str, Any] | Measured,
    *,
    like: str | Path | Preset = DEFAULT_GPU,
    name: str | None = None,
    infra: str | None = None,
) -> Preset:
    """Fit a preset to measurements of a real GPU.

    Parameters
    ----------
    measured : str or Path or dict or Measured
        The output of ``benchmarks/gpu_microbench.py``.
    like : str or Path or Preset
        The preset to start from; it gives the numbers that were not measured.
    name : str, optional
        The name of the new preset; by default that of the device.
    infra : str, optional
        The machine that was measured, for measurements across links. Without it, copies to a
        peer are not used because they depend on the links as well.

    Returns
    -------
    Preset
        The source of each number records whether it was measured.

    Raises
    ------
    InputError
        The measurement cannot be read, or it has an L2 and ``like`` has none.

    Examples
    --------
    >>> rows = [{"what": "kernel launch", "value": 3.1, "unit": "us"}]
    >>> found = {"format": "astranb-gpu-microbench", "version": 1, "measured": rows}
    >>> mine = preset_from(found | {"device": {"name": "My GPU", "sms": 140}})
    >>> mine.name, mine.sms, mine.launch_ps
    ('my-gpu', 140, 3100000)
    >>> str(mine.sources["sms"])
    'measured: the device has 140 (My GPU)'
    """
    found = measured if isinstance(measured, Measured) else read_measured(measured)
    base = like if isinstance(like, Preset) else find_preset(like)
    if base.l2_bytes == 0 and any("L2" in what for what in found.rows):
        raise InputError(
            f"the measurement has an L2, but {base.name} has none",
            where=found.where,
            hint="start from a preset with an L2, for example --like h100-sxm",
        )
    fit = _Fit(found, base, infra)
    fit.facts()
    for _ in range(_SWEEPS):
        if not fit.sweep():
            break
    unmeasured = {
        number: Provenance(known.kind, f"not measured, as {base.name}: {known.source}")
        for number, known in base.sources.items()
    }
    return replace(fit.preset, name=checked_name(name or _name_of(found)), sources=unmeasured | fit.sources)


def compare_to_measured(
    gpu: str | Path | Preset, measured: str | Path | dict[str, Any] | Measured, infra: str | None = None
) -> pd.DataFrame:
    """Compare what a simulated GPU measures with measurements of a real one.

    Parameters
    ----------
    gpu : str or Path or Preset
    measured : str or Path or dict or Measured
    infra : str, optional
        The machine that was measured; without it, measurements across a link are not simulated.

    Returns
    -------
    pandas.DataFrame
        ``what``, ``measured``, ``simulated``, ``unit``, and ``off`` (relative). ``simulated`` is
        missing where the simulated GPU does not have it or it needs ``infra``.
    """
    import pandas as pd

    found = measured if isinstance(measured, Measured) else read_measured(measured)
    chosen = gpu if isinstance(gpu, Preset) else find_preset(gpu)
    rows = []
    for what, value in found.rows.items():
        linked = _linked(what)
        here = None if linked and infra is None else measure(chosen, infra or TWO, what)
        off = math.nan if here is None else here / value - 1
        rows.append((what, value, math.nan if here is None else here, ROWS.get(what, "GB/s"), off))
    return pd.DataFrame(rows, columns=["what", "measured", "simulated", "unit", "off"])


def _linked(what: str) -> bool:
    return what in LINKED or blocks_of(what) > 0


def _name_of(found: Measured) -> str:
    """Return a preset name made from the name of the device."""
    name = re.sub(r"[^a-z0-9]+", "-", found.device.lower()).strip("-")[:40] or "my-gpu"
    return f"{name}-measured" if name in PRESETS else name


@dataclass
class _Fit:
    """The preset so far, and the source of each fitted number."""

    found: Measured
    preset: Preset
    infra: str | None

    def __post_init__(self) -> None:
        self.base = self.preset
        self.sources: dict[str, Provenance] = {}
        self.known: dict[tuple[str, Preset, str], float] = {}

    def take(self, why: str, **numbers: int) -> None:
        """Change numbers and record the reason as their source."""
        device = f" ({self.found.device})" if self.found.device else ""
        self.preset = self.preset.but(**numbers)
        self.sources |= dict.fromkeys(numbers, Provenance("measured", f"{why}{device}"))

    def facts(self) -> None:
        """Take what needs no simulation: the properties of the device and the periods of kernels."""
        facts, base, clock = self.found.facts, self.base, self.found.clock_MHz
        if "sms" in facts:
            self.take(f"the device has {facts['sms']}", sms=facts["sms"])
        if "memory_bytes" in facts:
            self.take("reported by the device", memory_bytes=facts["memory_bytes"])
        if "l2_bytes" in facts and base.l2_bytes:
            near = facts.get("near_bytes", base.near_bytes * facts["l2_bytes"] // base.l2_bytes)
            self.take("reported by the device", l2_bytes=facts["l2_bytes"])
            if "near_bytes" in facts:
                self.take("from the kind of the device", near_bytes=near)
            else:
                self.take(f"the same part of the L2 as in a {base.name}", near_bytes=near)
        if clock and not base.mesh:
            cycle_ps = 1e6 / clock
            why = f"a clock of {clock:g} MHz"
            self.take(f"64 B per clock, {why}", issue_ps=max(1, round(base.line_bytes / 64 * cycle_ps)))
            self.take(f"one more clock, {why}", atomic_ps=round(cycle_ps))
        for what, number in (("kernel launch", "launch_ps"), ("kernel in a graph", "graph_ps")):
            if what in self.found.rows:
                unit_ps = 1000 if number == "graph_ps" else 1  # models count it in whole ns
                took = max(1, round(self.found.rows[what] * 1000 / unit_ps)) * unit_ps
                self.take(self._why(what), **{number: took})

    def sweep(self) -> bool:
        """Fit each number once; return whether any changed."""
        before = self.preset
        self._near()
        self._one("L2 hit, far", "far_ps", 10**9)
        if self.infra is not None:
            self._one("flag, one way", "poll_ps", 10**9, self.infra)
        self._cache()
        self._streaming()
        self._one("memory", "hbm_ps", 10**9)
        self._one("fence after a store", "fence_ps", 10**11)
        self._copies()
        return self.preset != before

    def _why(self, what: str) -> str:
        return f"{what} {self.found.rows[what]:.4g} {ROWS.get(what, 'GB/s')}"

    def _one(self, what: str, number: str, most: int, infra: str = TWO) -> None:
        """Fit a number to one row."""
        if what in self.found.rows and not getattr(self.preset, number):
            self.preset = self.preset.but(**{number: _FIRST_PS})  # no factor leads away from nothing
        start = max(1, getattr(self.preset, number))
        self._solve(what, lambda x: {number: round(start * x)}, (0.5 / start, most / start), infra)

    def _near(self) -> None:
        """Fit the latencies to the L2 and inside it together; their proportion stays."""
        noc, own = max(1, self.preset.noc_ps), max(1, self.preset.l2_ps)
        if self.preset.mesh:
            noc = 0
        bounds = (0.5 / max(noc, own), 10**9 / max(noc, own))
        self._solve("L2 hit, near", lambda x: {"noc_ps": round(noc * x), "l2_ps": round(own * x)}, bounds)

    def _cache(self) -> None:
        """Fit the bandwidth of the L2, up to a bound: beyond it, too few lines are in flight."""
        what, rate = "streaming reads, L2", self.preset.l2_Bps
        if what in self.found.rows:
            most = _MOST_PEAK * self.found.rows[what] * 1e9
            rate = rate or round(most)
            self._solve(what, lambda x: {"l2_Bps": max(1, round(rate * x))}, (1 / rate, most / rate))
            self._widen(what, TWO)

    def _streaming(self) -> None:
        """Fit the bandwidth of memory or, if its peak is known, the time that opening a row takes."""
        what, peak = "streaming reads", self.found.memory_GBps
        value = self.found.rows.get(what)
        if value is None:
            return
        if peak is not None and value <= peak <= 2 * _MOST_PEAK * value:
            self.take(f"{peak:.4g} GB/s from clock and width of the memory", hbm_Bps=round(peak * 1e9))
            start = max(1, self.preset.row_miss_ps)
            self._solve(what, lambda x: {"row_miss_ps": round(start * x)}, (0.5 / start, 1e6 / start))
        else:
            rate, miss = self.preset.hbm_Bps, self.preset.row_miss_ps
            self._solve(
                what,
                lambda x: {"hbm_Bps": max(1, round(rate * x)), "row_miss_ps": round(miss / x)},
                (1 / rate, _MOST_PEAK * value * 1e9 / rate),
            )
        self._widen(what, TWO)

    def _copies(self) -> None:
        """Fit the requests in flight of an SM to the copy by the fewest blocks, if links do not limit it."""
        copies = self.found.copies()
        if self.infra is None or not copies:
            return
        blocks, value = next(iter(copies.items()))
        if len(copies) > 1 and value > _LIMITED * max(copies.values()):
            return
        what, start = f"copy to a peer, {blocks} blocks", self.preset.max_outstanding
        bounds = (0.5 / start, _MOST_OUTSTANDING / start)
        if self._off(what, self.infra) is not None:
            self._solve(what, lambda x: {"max_outstanding": max(1, round(start * x))}, bounds, self.infra)
        self._widen(what, self.infra)

    def _widen(self, what: str, infra: str) -> None:
        """Increase the lines in flight while a row stays below its measured value."""
        while (off := self._off(what, infra)) is not None and off < -_MISSED:
            preset = self.preset
            wider = {"unroll": preset.unroll * 2}
            wider["max_outstanding"] = max(preset.max_outstanding, preset.warps_per_block * wider["unroll"])
            if max(wider["unroll"] / _MOST_UNROLL, wider["max_outstanding"] / _MOST_OUTSTANDING) > 1:
                return
            sources = dict(self.sources)
            self.take(f"{self._why(what)} needs more lines in flight", **wider)
            now = self._off(what, infra)
            if now is None or now < off + _CLOSE:  # more lines do not help
                self.preset, self.sources = preset, sources
                return

    def _off(self, what: str, infra: str) -> float | None:
        """Return the logarithmic error of a row; None if it was not measured."""
        if what not in self.found.rows:
            return None
        return self._error(what, self.preset, infra)

    def _error(self, what: str, preset: Preset, infra: str) -> float:
        key = (what, preset, infra)
        if key not in self.known:
            here = measure(preset, infra, what) or 0.0
            self.known[key] = math.log(max(here, 1e-9) / self.found.rows[what])
        return self.known[key]

    def _solve(
        self,
        what: str,
        numbers: Callable[[float], dict[str, int]],
        bounds: tuple[float, float],
        infra: str = TWO,
    ) -> None:
        """Find the factor whose numbers bring a row to its measured value, by secants in logarithms."""
        if what not in self.found.rows:
            return

        def error(x: float) -> float:
            return self._error(what, self.preset.but(**numbers(math.exp(x))), infra)

        low, high = (math.log(bound) for bound in bounds)
        tried = {0.0: self._error(what, self.preset, infra)}
        if abs(tried[0.0]) > _CLOSE:
            first = min(high, max(low, -0.25 if high <= 0 else 0.25))
            tried[first] = error(first)
            for _ in range(_STEPS):
                x = _next(tried, low, high)
                if x is None or numbers(math.exp(x)) in [numbers(math.exp(t)) for t in tried]:
                    break
                tried[x] = error(x)
                if abs(tried[x]) < _CLOSE / 5:
                    break
        best = min(tried, key=lambda x: (abs(tried[x]), abs(x)))
        chosen = numbers(math.exp(best)) if best else {n: getattr(self.preset, n) for n in numbers(1.0)}
        self.take(self._why(what), **chosen)


def _next(tried: dict[float, float], low: float, high: float) -> float | None:
    """Return the next point to try: the secant of the two best, or the middle of the enclosing interval."""
    ordered = sorted(tried, key=lambda x: abs(tried[x]))
    a, b = ordered[:2]
    below = [x for x in sorted(tried) if tried[x] < 0]
    above = [x for x in sorted(tried) if tried[x] > 0]
    enclosed: list[float] = []
    if below and above:
        pairs = [(abs(p - q), min(p, q), max(p, q)) for p in below for q in above]
        _, *enclosed = min(pairs)
    slope = (tried[b] - tried[a]) / (b - a)
    if slope == 0 and not enclosed:
        return _beyond(tried, low, high)
    if slope == 0:
        return sum(enclosed) / 2
    x = min(high, max(low, min(a + 3, max(a - 3, a - tried[a] / slope))))
    if enclosed and not enclosed[0] < x < enclosed[1]:
        x = sum(enclosed) / 2
    return None if x in tried else x


def _beyond(tried: dict[float, float], low: float, high: float) -> float | None:
    """Return a point further out where the error is constant: below first, then above."""
    least, most = min(tried), max(tried)
    width = max(0.5, most - least)
    if least > low:
        return max(low, least - width)
    return min(high, most + width) if most < high else None
