"""Fastest algorithm of a collective, over sizes and numbers of ranks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, overload

from astranb.collectives import PROTOCOLS
from astranb.core.data_frames import frame
from astranb.core.display import Displayed
from astranb.core.errors import InputError, near
from astranb.core.progress import bar
from astranb.core.text_table import aligned
from astranb.core.units import format_bytes, format_time, size_bytes
from astranb.gpu import GpuChoice
from astranb.infragraph import Infra, resolve
from astranb.net import Network

from .trials import Trial, candidates, race

if TYPE_CHECKING:
    import pandas as pd
    from IPython.display import SVG

    from .trials import Writer

__all__ = ["AlgorithmMap", "algorithm_map"]

_SIZES: Final = ("1 KiB", "4 KiB", "16 KiB", "64 KiB", "256 KiB", "1 MiB", "4 MiB")
_MARGIN: Final = 1.1
_MOST_EVENTS: Final = 1_000_000
_KEYS: Final = ("algorithm", "protocol")
_COLUMNS: Final = {
    "infra": "object", "ranks": "int64", "size_bytes": "int64", "algorithm": "object", "protocol": "object",
    "time_ps": "Int64", "slower": "float64", "algbw_Bps": "float64", "busbw_Bps": "float64",
    "events": "Int64", "reason": "object",
}  # fmt: skip


@dataclass(frozen=True)
class AlgorithmMap(Displayed):
    """Times of a collective by its algorithms, over sizes and infrastructures.

    Attributes
    ----------
    collective : str
    table : DataFrame
        As :meth:`to_dataframe` returns it: one that was written to a file makes the same map.

    Examples
    --------
    >>> import astranb as anb
    >>> found = anb.explore.algorithm_map("switch:gpus={ranks}", "all_gather", sizes=["1 KiB"], ranks=[2, 4])
    >>> again = AlgorithmMap("all_gather", found.to_dataframe())
    >>> again.winners()["protocol"].tolist()
    ['LL128', 'LL128']
    """

    collective: str
    table: pd.DataFrame

    def __post_init__(self) -> None:
        """Check that the table has the columns that are used."""
        for name in ("infra", "ranks", "size_bytes", *_KEYS, "time_ps"):
            if name not in self.table:
                raise InputError(
                    f"no column {name!r}", where="AlgorithmMap", hint=near(name, map(str, self.table.columns))
                )

    def to_dataframe(self, *, time: str | None = None) -> pd.DataFrame:
        """Return a row for each infrastructure, size, algorithm and protocol.

        The columns are ``infra``, ``ranks``, ``size_bytes``, ``algorithm``, ``protocol``, ``time_ps``,
        ``slower`` (times the fastest), ``algbw_Bps``, ``busbw_Bps``, ``events``, ``reason`` (why there is no
        time). Times are in the unit asked for, as ``"us"``.
        """
        return frame(self.table.copy(), time)

    def winners(self) -> pd.DataFrame:
        """Return a row for each infrastructure and size: the fastest algorithm, and the next one.

        ``next_algorithm`` is the fastest of the other algorithms that ran to the end, with any protocol, and
        ``next_slower`` how many times as long it took; both are missing where no other one did.
        """
        import pandas as pd

        rows = []
        ran = self.table.dropna(subset=["time_ps"])
        for (infra, ranks, size), of_cell in ran.groupby(["infra", "ranks", "size_bytes"], sort=False):
            ordered = of_cell.sort_values(["time_ps", *_KEYS], kind="stable")
            best = ordered.iloc[0]
            others = ordered[ordered["algorithm"] != best["algorithm"]]
            after = others.iloc[0] if len(others) else None
            rows.append(
                {
                    "infra": infra,
                    "ranks": ranks,
                    "size_bytes": size,
                    **{name: best[name] for name in (*_KEYS, "time_ps")},
                    "next_algorithm": None if after is None else after["algorithm"],
                    "next_slower": float("nan") if after is None else after["time_ps"] / best["time_ps"],
                }
            )
        return pd.DataFrame(rows).astype({"time_ps": "Int64"})

    @overload
    def figure(self, path: str | Path, *, algorithm: str = "", dark: bool = False) -> Path: ...

    @overload
    def figure(self, path: None = None, *, algorithm: str = "", dark: bool = False) -> SVG: ...

    def figure(
        self, path: str | Path | None = None, *, algorithm: str = "", dark: bool = False
    ) -> Path | SVG:
        """Draw the fastest algorithm of each size and infrastructure, or how far one is from it.

        Parameters
        ----------
        path : str or Path, optional
            An ``.svg`` file; without it, what a notebook shows.
        algorithm : str, optional
            Where given: how many times as long as the fastest this one takes, with its best protocol.
        dark : bool
            Colours for a dark background.

        Raises
        ------
        InputError
            The algorithm is not in the map, or the file cannot be written.
        """
        from astranb.drawing import algorithm_chart, svg_of

        if algorithm and algorithm not in set(self.table["algorithm"]):
            hint = near(algorithm, sorted(set(self.table["algorithm"])))
            raise InputError(f"no algorithm {algorithm[:40]!r} in this map", where="figure", hint=hint)
        ran = self.table.dropna(subset=["time_ps"])
        drawn = algorithm_chart(self.collective, ran.to_dict("records"), algorithm, dark=dark)
        return svg_of(drawn, path, "AlgorithmMap.figure")

    def _repr_html_(self) -> str:
        """For a notebook: the figure."""
        return str(self.figure().data)

    def __str__(self) -> str:
        """The fastest algorithm and its time, for each infrastructure and size."""
        rows = [
            [
                str(row["infra"]), str(row["ranks"]), format_bytes(int(row["size_bytes"])),
                str(row["algorithm"]), str(row["protocol"]), format_time(int(row["time_ps"])),
                "" if isnan(row["next_slower"])
                else f"{row['next_algorithm']}, {row['next_slower']:.2f} times",
            ]
            for row in self.winners().to_dict("records")
        ]  # fmt: skip
        heads = ["infrastructure", "ranks", "size", "fastest", "protocol", "time", "next fastest"]
        return "\n".join([f"{self.collective}:", *aligned(heads, rows, left=(0, 3, 4, 6))])


def algorithm_map(
    infra: Infra | str | Path | Sequence[Infra | str | Path],
    collective: str,
    algorithms: Sequence[str | Writer] | None = None,
    *,
    sizes: Sequence[int | str] = _SIZES,
    ranks: Sequence[int] = (),
    protocols: Sequence[str] = PROTOCOLS,
    gpu: GpuChoice | None = None,
    channels: int | None = None,
    root: int = 0,
    network: Network | None = None,
    launch: str = "none",
    margin: float = _MARGIN,
    most_events: int = _MOST_EVENTS,
) -> AlgorithmMap:
    """Find the fastest algorithm of a collective for each size and number of ranks, by cache lines.

    Every run is simulated by cache lines: whole messages do not execute an algorithm's program. To save time,
    a run stops once it is slower than the best one of its size, and what took longer at a smaller size is not
    run at all.

    Parameters
    ----------
    infra : Infra or str or Path, or a sequence of them
        The infrastructures; ``{ranks}`` in a name is replaced by each of ``ranks``, as in
        ``"switch:gpus={ranks}"``.
    collective : str
        As ``"all_reduce"``.
    algorithms : sequence of str or callable, optional
        Names, functions or plans; by default all names of ``astranb collective list``.
    sizes : sequence of int or str
        Bytes of the larger buffer of a rank.
    ranks : sequence of int
        Values of ``{ranks}``.
    protocols : sequence of str
        Those to try with each algorithm that supports them.
    gpu, channels, root, network, launch
        As for :class:`astranb.Simulation` and :class:`astranb.collectives.Collective`.
    margin : float
        What took more than so many times the best time at a smaller size is not run: its time would have to
        fall with size. ``math.inf`` runs all.
    most_events : int
        After how many events, and again after as many, a run is compared with the best one.

    Returns
    -------
    AlgorithmMap
        A frame, its winners, and a figure.

    Raises
    ------
    InputError
        Something is unknown, ``{ranks}`` and ``ranks`` do not match, or no algorithm can run somewhere.

    Examples
    --------
    >>> import astranb as anb
    >>> found = anb.explore.algorithm_map(
    ...     "switch:gpus={ranks}", "all_reduce", ["ring", "allpairs"], sizes=["4 KiB", "64 KiB"], ranks=[4]
    ... )
    >>> found.winners()["algorithm"].tolist()
    ['allpairs', 'allpairs']
    """
    import pandas as pd

    places = [resolve(one) for one in _infrastructures(infra, ranks)]
    ordered = sorted({size_bytes(one) for one in sizes})
    if not ordered:
        raise InputError("no sizes", where="sizes", hint="give at least one, as '64 KiB'")
    rows: list[dict[str, Any]] = []
    with bar(len(places) * len(ordered), what="mapping algorithms", unit="size") as shown:
        for place in places:
            count = len(place.completed(None).expand().gpus)
            least_ps: dict[tuple[str, str], int] = {}  # what each took at a smaller size, or more
            for size in ordered:
                asked = candidates(collective, size, algorithms, protocols, channels, root)
                trials = [
                    Trial(one, "", least_ps.get((one.algorithm_name, one.protocol), 0)) for one in asked
                ]
                trials.sort(key=lambda trial: trial.least_ps)
                found = race(
                    place, trials, gpu=gpu, network=network, launch=launch, most_events=most_events,
                    margin=margin, quiet=True,
                )  # fmt: skip
                fastest = min((row["time_ps"] for row in found if "time_ps" in row), default=None)
                if fastest is None:
                    what = f"no algorithm of {collective} can run: {found[0]['reason']}"
                    raise InputError(what, where=place.name)
                for row in found:
                    key = row["algorithm"], row["protocol"]
                    least_ps[key] = row.get("time_ps", row.get("slower_than_ps", least_ps.get(key, 0)))
                    row["slower"] = row["time_ps"] / fastest if "time_ps" in row else None
                rows += [{"infra": place.name, "ranks": count, **row} for row in found]
                shown.update(1)
    table = pd.DataFrame(rows).reindex(columns=list(_COLUMNS)).astype(_COLUMNS)
    return AlgorithmMap(collective, table)


def _infrastructures(
    infra: Infra | str | Path | Sequence[Infra | str | Path], ranks: Sequence[int]
) -> Iterable[Infra | str | Path]:
    """Fill in the numbers of ranks."""
    given = [infra] if isinstance(infra, Infra | str | Path) else list(infra)
    open_names = [one for one in given if isinstance(one, str) and "{ranks}" in one]
    if bool(open_names) != bool(ranks):
        hint = "write for example 'switch:gpus={ranks}' with ranks=[4, 8]"
        raise InputError("ranks and {ranks} in an infrastructure need each other", where="infra", hint=hint)
    for one in given:
        if one in open_names:
            yield from (str(one).replace("{ranks}", str(number)) for number in ranks)
        else:
            yield one
