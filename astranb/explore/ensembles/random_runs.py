"""Many runs that differ by chance: their times, and how well mean, median and 95th percentile are known."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.core.data_frames import frame
from astranb.core.display import Displayed
from astranb.core.errors import InputError
from astranb.core.plural import plural
from astranb.core.progress import bar
from astranb.core.units import format_time
from astranb.sim import Simulation
from astranb.workload.jobs import LinkFault, Variation

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["Ensemble", "Interval", "ensemble", "student_t"]

_FEWEST: Final = 10
"""Runs before it may stop: fewer say little about how much times vary."""
_RESAMPLES: Final = 2000
_STATISTICS: Final = ("mean", "median", "p95")


@dataclass(frozen=True)
class Interval:
    """A statistic of several runs and its confidence interval.

    Attributes
    ----------
    value_ps, low_ps, high_ps : int
    """

    value_ps: int
    low_ps: int
    high_ps: int

    @property
    def width(self) -> float:
        """Half of the interval, relative to the value."""
        return (self.high_ps - self.low_ps) / 2 / max(1, self.value_ps)


@dataclass(frozen=True, repr=False)
class Ensemble(Displayed):
    """Times of several runs.

    Attributes
    ----------
    title : str
    times_ps : mapping of str to ndarray of int64
        ``time``: of each run; of several jobs also the duration of each, by its name.
    confidence : float
    variation : str
        What varied, in words.
    """

    title: str
    times_ps: Mapping[str, np.ndarray]
    confidence: float
    variation: str

    @property
    def runs(self) -> int:
        """Number of runs."""
        return len(self.times_ps["time"])

    def interval(self, statistic: str = "mean", what: str = "time") -> Interval:
        """Return a statistic and its confidence interval.

        The mean's interval is Student's t. Those of the median and the 95th percentile come from a
        bootstrap: 2,000 samples of the runs, drawn with replacement and always the same seed.

        Parameters
        ----------
        statistic : str
            ``mean``, ``median`` or ``p95``.
        what : str
            ``time``, or the name of a job.
        """
        times = np.asarray(self.times_ps[what], np.float64)
        tail = (1 - self.confidence) / 2
        if statistic == "mean":
            value = float(times.mean())
            error = float(times.std(ddof=1)) / math.sqrt(len(times)) if len(times) > 1 else math.inf
            half = student_t(1 - tail, max(1, len(times) - 1)) * error if len(times) > 1 else value
            return Interval(round(value), round(value - half), round(value + half))
        percent = 50 if statistic == "median" else 95
        draw = np.random.Generator(np.random.PCG64(0))
        samples = draw.choice(times, (_RESAMPLES, len(times)))
        low, high = np.quantile(np.percentile(samples, percent, axis=1), [tail, 1 - tail])
        return Interval(round(float(np.percentile(times, percent))), round(float(low)), round(float(high)))

    def to_dataframe(self, *, time: str | None = None) -> pd.DataFrame:
        """Return the times as a table: a row for each run, ``time_ps`` and ``JOB_ps``, or in another unit."""
        columns = {f"{name}_ps": times for name, times in self.times_ps.items()}
        return frame({"run": np.arange(self.runs), **columns}, time)

    def document(self) -> dict[str, Any]:
        """Return times and statistics for JSON."""
        return {
            "title": self.title,
            "runs": self.runs,
            "varies": self.variation,
            "confidence": self.confidence,
            "times_ps": {what: times.tolist() for what, times in self.times_ps.items()},
            "statistics": {
                what: {statistic: asdict(self.interval(statistic, what)) for statistic in _STATISTICS}
                for what in self.times_ps
            },
        }

    def summary(self) -> pd.DataFrame:
        """Return statistics as a table: ``what``, ``statistic``, ``value_ps``, ``low_ps``, ``high_ps``."""
        import pandas as pd

        rows = []
        for what in self.times_ps:
            for statistic in _STATISTICS:
                found = self.interval(statistic, what)
                ends = {"low_ps": found.low_ps, "high_ps": found.high_ps}
                rows.append({"what": what, "statistic": statistic, "value_ps": found.value_ps, **ends})
        return pd.DataFrame(rows)

    def __str__(self) -> str:
        """A line for each statistic."""
        lines = [f"{self.title}: {plural(self.runs, 'run')} with {self.variation}"]
        width = max(map(len, self.times_ps))
        for what in self.times_ps:
            for statistic in _STATISTICS:
                found = self.interval(statistic, what)
                ends = f"{format_time(found.low_ps)} to {format_time(found.high_ps)}"
                value = format_time(found.value_ps)
                lines.append(f"{what:<{width}}  {statistic:<6}  {value} ({self.confidence:.0%}: {ends})")
        return "\n".join(lines)

    __repr__ = __str__


def ensemble(
    what: Any,
    variation: Variation | None = None,
    *,
    infra: Any = None,
    runs: int = 30,
    confidence: float = 0.95,
    until: float | None = None,
    **options: Any,
) -> Ensemble:
    """Simulate something several times with other random numbers each time.

    Parameters
    ----------
    what : ModelStep, Jobs or Workload, or callable
        What runs; or a function that makes the simulation of a run from its number.
    variation : Variation, optional
        What varies; its seed decides what is drawn. A function may leave it out.
    infra : Infra or str or Path or Network, optional
        Where it runs, as for :class:`astranb.Simulation`.
    runs : int
        The number of runs, at most.
    confidence : float
        Of the intervals.
    until : float, optional
        Stop, after ten runs or more, when half of the mean's interval is at most this part of the mean.
    **options
        Of :class:`astranb.Simulation`: ``fidelity``, ``gpu``, ...

    Returns
    -------
    Ensemble

    Raises
    ------
    InputError
        Nothing varies, links fail at a fidelity without links, or a number is out of range.

    Examples
    --------
    >>> from astranb.workload import jobs
    >>> from astranb import models
    >>> step = models.workload("gpt3-125m", models.Parallelism(data=4))
    >>> found = ensemble(step, jobs.Variation(1, jitter=jobs.Jitter(0.1)), runs=12)
    >>> found.runs, found.interval().low_ps < found.interval().value_ps < found.interval().high_ps
    (12, True)
    """
    if runs < 2 or not 0 < confidence < 1 or (until is not None and until <= 0):
        what_is = f"{runs} runs with a confidence of {confidence}"
        hint = "take two runs or more, and a confidence between 0 and 1"
        raise InputError(what_is, where="ensemble", hint=hint)
    if variation is None and not callable(what):
        hint = "give Variation(seed, jitter=Jitter(0.05))"
        raise InputError("nothing varies from run to run", where="variation", hint=hint)
    times: dict[str, list[int]] = {"time": []}
    title = ""
    with bar(runs, what="runs", unit="runs") as progress:
        for run in range(runs):
            sim = _simulation(what, variation, run, infra, options)
            title = sim.title
            _finish(sim, variation, run)
            times["time"].append(sim.result.time_ps)
            for row in sim.result.table("jobs") if "jobs" in sim.result.tables else []:
                name = "job time" if row["job"] == "time" else str(row["job"])
                times.setdefault(name, []).append(int(row["duration_ps"]))
            progress.update(1)
            found = _ensemble(title, times, confidence, variation)
            enough = until is not None and run + 1 >= _FEWEST and found.interval().width <= until
            if enough:
                break
    return found


def _ensemble(
    title: str, times: Mapping[str, list[int]], confidence: float, variation: Variation | None
) -> Ensemble:
    columns = {name: np.array(each, np.int64) for name, each in times.items()}
    return Ensemble(title, columns, confidence, "a function" if variation is None else variation.text)


def _simulation(
    what: Any, variation: Variation | None, run: int, infra: Any, options: Mapping[str, Any]
) -> Simulation:
    """Make the simulation of a run."""
    if not callable(what):
        assert variation is not None  # noqa: S101 - checked before
        chosen = {"record": False, "checkpoint_bytes": 0, **options}
        return Simulation(infra, variation.of(what, run), **chosen)
    make: Callable[[int], Any] = what
    found = make(run)
    if not isinstance(found, Simulation):
        hint = "let it return Simulation(...)"
        raise InputError(f"the function returns {type(found).__name__}", where="ensemble", hint=hint)
    return found


def _finish(sim: Simulation, variation: Variation | None, run: int) -> None:
    """Simulate to the end; links fail on the way."""
    if variation is None or not variation.slows_links:
        sim.run()
        return
    if sim.fidelity != "congestion":
        hint = "use fidelity='congestion', or leave failures of links out"
        raise InputError("links are simulated with congestion only", where="failures", hint=hint)
    failures = variation.failures
    assert failures is not None  # noqa: S101 - links fail
    rates = np.array(sim.engine.machine.wires.rate_Bpns, np.float64) * 1e9
    links = len(sim.engine.machine.links)
    slow: list[tuple[int, int]] = []  # when each failed link is repaired
    down: dict[int, int] = {}

    def change(link: int, rate_Bps: float) -> None:  # noqa: N803 - unit in the name
        sim.set(f"link[{link}].bandwidth", f"{max(1, round(rate_Bps))} B/s")

    def repaired(until_ps: int) -> None:
        while slow and slow[0][0] <= until_ps and not sim.finished:
            at_ps, link = heapq.heappop(slow)
            sim.run(until=at_ps)
            if down[link] == at_ps and not sim.finished:  # it has not failed again meanwhile
                change(link, rates[link])

    faults = variation.link_faults(links, run)
    while not sim.finished:
        fault: LinkFault = next(faults)
        repaired(fault.at_ps)
        sim.run(until=fault.at_ps)
        if sim.finished:
            break
        if not failures.link_rate:
            sim.set(f"link[{fault.link}].outage", fault.until_ps - sim.now_ps)
            continue
        change(fault.link, rates[fault.link] * failures.link_rate)
        down[fault.link] = fault.until_ps
        heapq.heappush(slow, (fault.until_ps, fault.link))


def student_t(probability: float, degrees: int) -> float:
    """Return a quantile of Student's t distribution.

    Exact for one and two degrees of freedom; otherwise by the expansion of Abramowitz and Stegun, Handbook
    of Mathematical Functions, 26.7.5: within 1 % from three degrees and a probability of 0.995 on.

    Parameters
    ----------
    probability : float
    degrees : int

    Examples
    --------
    >>> round(student_t(0.975, 9), 3), round(student_t(0.975, 29), 3)
    (2.262, 2.045)
    """
    if degrees == 1:
        return math.tan(math.pi * (probability - 0.5))
    if degrees == 2:
        centred = 2 * probability - 1
        return centred * math.sqrt(2 / (1 - centred**2))
    z = NormalDist().inv_cdf(probability)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return math.fsum(term / degrees**power for power, term in enumerate(terms))
