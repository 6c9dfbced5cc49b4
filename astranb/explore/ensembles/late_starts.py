"""Cost of ranks that start late: the time of a collective over the spread of starts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from astranb.core.data_frames import frame
from astranb.core.display import Displayed
from astranb.core.errors import InputError, near
from astranb.core.units import format_time, time_ps
from astranb.sim import Simulation

from .random_runs import Ensemble, ensemble

if TYPE_CHECKING:
    import pandas as pd

    from astranb.collectives import Collective

__all__ = ["DISTRIBUTIONS", "Skew", "drawn_starts", "skew"]

DISTRIBUTIONS: Final = {
    "uniform": "each rank starts between 0 and the spread",
    "exponential": "the spread is the mean of how late ranks start",
    "one": "one rank, drawn, is as late as the spread",
}
"""Distributions of the starts of ranks, and the meaning of the spread in each."""


@dataclass(frozen=True, repr=False)
class Skew(Displayed):
    """Times of collectives whose ranks start at drawn times.

    Attributes
    ----------
    title : str
    distribution : str
        One of :data:`DISTRIBUTIONS`.
    seed : int
    names : tuple of str
        Of the collectives.
    spreads_ps : tuple of int
    latest_ps : ndarray of int64, shape (spreads, runs)
        When the last rank starts; the first one starts at 0.
    together_ps : ndarray of int64, shape (collectives,)
        Time where all ranks start together.
    ensembles : dict of (int, int) to Ensemble
        By the numbers of a collective and of a spread: the times of its runs.
    """

    title: str
    distribution: str
    seed: int
    names: tuple[str, ...]
    spreads_ps: tuple[int, ...]
    latest_ps: np.ndarray
    together_ps: np.ndarray
    ensembles: dict[tuple[int, int], Ensemble]

    def to_dataframe(self, *, time: str | None = None) -> pd.DataFrame:
        """Return a row for each run.

        Parameters
        ----------
        time : str, optional
            Unit of all times: ``ps`` (by default), ``ns``, ``us``, ``ms`` or ``s``.

        Returns
        -------
        pandas.DataFrame
            ``collective``, ``spread_ps``, ``run``, ``latest_ps`` (when the last rank starts), ``time_ps``,
            ``together_ps``, ``lost_ps`` (how much longer it takes than together) and ``lost_fraction`` of
            the latest start: 1 where the time grows by as much as the last rank is late, less where the
            others have work to do meanwhile, more where they are in its way.
        """
        rows = []
        for (which, spread), found in self.ensembles.items():
            together = int(self.together_ps[which])
            for run, ps in enumerate(found.times_ps["time"].tolist()):
                late = int(self.latest_ps[spread, run])
                rows.append(
                    {
                        "collective": self.names[which], "spread_ps": self.spreads_ps[spread], "run": run,
                        "latest_ps": late, "time_ps": ps, "together_ps": together, "lost_ps": ps - together,
                        "lost_fraction": (ps - together) / late if late else 0.0,
                    }
                )  # fmt: skip
        return frame(rows, time)

    def summary(self) -> pd.DataFrame:
        """Return a row for each collective and spread.

        Returns
        -------
        pandas.DataFrame
            ``collective``, ``spread_ps``, the mean ``time_ps`` with its confidence interval from ``low_ps``
            to ``high_ps``, the longest time ``worst_ps``, ``slowdown`` (times together) and the mean
            ``lost_fraction`` of the latest start.
        """
        import pandas as pd

        every, rows = self.to_dataframe(), []
        for (which, spread), found in self.ensembles.items():
            name, ps, mean = self.names[which], self.spreads_ps[spread], found.interval()
            mine = every[(every["collective"] == name) & (every["spread_ps"] == ps)]
            rows.append(
                {
                    "collective": name, "spread_ps": ps, "time_ps": mean.value_ps,
                    "low_ps": mean.low_ps, "high_ps": mean.high_ps,
                    "worst_ps": int(found.times_ps["time"].max()),
                    "slowdown": mean.value_ps / max(1, int(self.together_ps[which])),
                    "lost_fraction": float(mine["lost_fraction"].mean()),
                }
            )  # fmt: skip
        return pd.DataFrame(rows)

    def figure(self, *, dark: bool = False) -> Any:
        """Draw the mean time over the spread, a line for each collective: a Bokeh figure."""
        from astranb.drawing import figures

        return figures.skew_curve(self.summary(), title=self.title, dark=dark)

    def __str__(self) -> str:
        """A line for each collective and spread."""
        lines = [f"{self.title}: {DISTRIBUTIONS[self.distribution]}; seed {self.seed}"]
        width = max(map(len, self.names))
        for row in self.summary().to_dict("records"):
            took, low, high, spread = (
                format_time(_three_digits(row[name]))
                for name in ("time_ps", "low_ps", "high_ps", "spread_ps")
            )
            lines.append(
                f"{row['collective']:<{width}}  spread {spread:>8}  {took} (95%: {low} to {high}), "
                f"{row['slowdown']:.2f} times together, {row['lost_fraction']:.0%} of the latest start lost"
            )
        return "\n".join(lines)

    __repr__ = __str__


def _three_digits(ps: int) -> int:
    """Round a mean: more digits would say more than is known."""
    return round(ps, 3 - len(str(ps))) if ps else 0


def drawn_starts(distribution: str, spread_ps: int, ranks: int, seed: int, run: int) -> list[int]:
    """Draw when ranks start; the first one at 0.

    Parameters
    ----------
    distribution : str
        One of :data:`DISTRIBUTIONS`.
    spread_ps, ranks : int
    seed, run : int
        The same ones draw the same, whatever the spread: only the scale differs.

    Examples
    --------
    >>> one, twice = (drawn_starts("uniform", ps, 4, 1, 0) for ps in (1000, 2000))
    >>> min(one), [b - 2 * a in (-1, 0, 1) for a, b in zip(one, twice)]
    (0, [True, True, True, True])
    """
    draw = np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, run])))
    if distribution == "one":
        late = np.zeros(ranks)
        late[draw.integers(ranks)] = 1.0
    else:
        late = draw.uniform(size=ranks) if distribution == "uniform" else draw.exponential(size=ranks)
    return [round(float(part) * spread_ps) for part in late - late.min()]


def skew(
    infra: Any,
    collective: Collective | Sequence[Collective],
    *,
    spreads: Sequence[str | int] = ("1 us", "5 us", "20 us"),
    distribution: str = "uniform",
    seed: int = 0,
    runs: int = 10,
    **options: Any,
) -> Skew:
    """Simulate collectives whose ranks start at different times.

    Parameters
    ----------
    infra : Infra or str or Path
        As for :class:`astranb.Simulation`.
    collective : Collective or sequence of Collective
        Several are given the same starts, so that they can be compared run by run.
    spreads : sequence of str or int
        How far apart starts are: what it is of, :data:`DISTRIBUTIONS` says.
    distribution : str
        ``uniform``, ``exponential`` or ``one``.
    seed : int
        Decides what is drawn.
    runs : int
        For each collective and spread.
    **options
        Of :class:`astranb.Simulation`: ``fidelity``, ``gpu``, ...

    Returns
    -------
    Skew

    Raises
    ------
    InputError
        There is no such distribution, no collective or spread, or a number is out of range.

    Examples
    --------
    >>> import astranb as anb
    >>> several = [anb.collectives.all_reduce("4 KiB", name) for name in ("ring", "allpairs")]
    >>> found = skew("switch:gpus=4", several, spreads=["0 ns", "10 us"], runs=3)
    >>> found.summary()["slowdown"].round(1).tolist()[0]
    1.0
    >>> bool((found.to_dataframe()["time_ps"] >= found.to_dataframe()["latest_ps"]).all())
    True
    """
    chosen = list(collective) if isinstance(collective, Sequence) else [collective]
    if isinstance(collective, str):
        hint = "make one, as astranb.collectives.all_reduce('1 MiB', 'ring')"
        raise InputError(f"not a collective: {collective!r:.40}", where="skew", hint=hint)
    if distribution not in DISTRIBUTIONS:
        hint = near(distribution, DISTRIBUTIONS)
        raise InputError(f"unknown distribution {distribution!r:.40}", where="skew", hint=hint)
    if not chosen or not spreads or isinstance(spreads, str):
        raise InputError(
            "nothing to run", where="skew", hint="give a collective, and spreads=['1 us', '5 us']"
        )
    if seed < 0:
        raise InputError(f"a seed of {seed}", where="skew", hint="take 0 or more")
    if "start" in options:
        raise InputError(
            "the starts are drawn", where="start", hint="leave it out, or use Simulation(start=)"
        )
    given = {"record": False, "checkpoint_bytes": 0, **options}
    spreads_ps = tuple(time_ps(one, where="spreads") for one in spreads)
    alone = [Simulation(infra, one, **given) for one in chosen]
    ranks = alone[0].ranks
    starts = [[drawn_starts(distribution, ps, ranks, seed, run) for run in range(runs)] for ps in spreads_ps]
    for sim in alone:
        sim.run()
    ensembles = {
        (which, spread): ensemble(
            lambda run, one=one, mine=mine: Simulation(infra, one, start=mine[run], **given), runs=runs
        )
        for which, one in enumerate(chosen)
        for spread, mine in enumerate(starts)
    }
    return Skew(
        f"{chosen[0].name} on {alone[0].engine.headline().what.partition(' on ')[2].partition(',')[0]}",
        distribution,
        seed,
        _names(chosen),
        spreads_ps,
        np.array([[max(one) for one in each] for each in starts], np.int64),
        np.array([sim.result.time_ps for sim in alone], np.int64),
        ensembles,
    )


def _names(chosen: Sequence[Collective]) -> tuple[str, ...]:
    """Name collectives by what they differ in: the algorithm, the protocol, or their number."""
    for named in (
        [one.algorithm_name for one in chosen],
        [f"{one.algorithm_name}, {one.protocol}" for one in chosen],
        [one.title for one in chosen],
    ):
        if len(set(named)) == len(named):
            return tuple(named)
    return tuple(f"{one.algorithm_name} {number}" for number, one in enumerate(chosen))
