"""Results of a run, and where the time went; readable at any moment of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from astranb.core.data_frames import frame
from astranb.core.display import Displayed
from astranb.core.errors import InputError, near
from astranb.core.files import write_frames
from astranb.core.perfetto import write_trace
from astranb.core.units import format_time

if TYPE_CHECKING:
    import pandas as pd

    from astranb.engine import CriticalPath, Engine

__all__ = ["Result"]

_QUICK_EVENTS = 20_000_000  # ten seconds of replay
_LEAST_SHARE = 0.005


class Result(Displayed):
    """Times, bandwidths, tables and words about a simulation as it is now.

    It has the same fields whatever runs at whatever fidelity. What a fidelity cannot know is None or no
    table, and :attr:`absent` says why.

    Parameters
    ----------
    engine : Engine
        It may be in the middle of the run: then everything is up to now.
    find_path : callable
        Finds the critical path.
    run_alone : callable
        Runs one of several jobs without the others, and gives its time in ps.
    """

    def __init__(self, engine: Engine, find_path: Any, run_alone: Callable[[str], int]) -> None:
        self._engine, self._find_path, self._run_alone = engine, find_path, run_alone

    def _elsewhere(self, name: str) -> str:
        if name in ("bandwidth", "bandwidth_Bps"):
            return "write algbw_Bps or busbw_Bps"
        return f"write to_dataframe({name!r})" if name in self.tables else ""

    @property
    def finished(self) -> bool:
        """Whether nothing is left to happen."""
        return self._engine.next_ps < 0

    @property
    def time_ps(self) -> int:
        """Completion time of the last rank; the current time while it runs."""
        return self._engine.time_ps

    @property
    def time_us(self) -> float:
        """:attr:`time_ps` in microseconds."""
        return self.time_ps / 1e6

    @property
    def time_ms(self) -> float:
        """:attr:`time_ps` in milliseconds."""
        return self.time_ps / 1e9

    @property
    def events(self) -> int:
        """Events handled so far."""
        return self._engine.count("events")

    @property
    def absent(self) -> Mapping[str, str]:
        """Fields and tables that this run cannot know, each with the reason."""
        found = dict(self._engine.absent)
        if self._engine.collective is None:
            reason = "a workload is more than one collective: it has no single size"
            found |= {"algbw_Bps": reason, "busbw_Bps": reason}
        elif not self.finished:
            found |= dict.fromkeys(("algbw_Bps", "busbw_Bps"), "the run has not ended")
        return found

    @property
    def algbw_Bps(self) -> float | None:  # noqa: N802 - unit in the name
        """Algorithm bandwidth, size / time (nccl-tests, doc/PERFORMANCE.md); None: see :attr:`absent`."""
        found = self._engine.collective
        if found is None or not self.finished or not self.time_ps:
            return None
        return found.size * 1e12 / self.time_ps

    @property
    def busbw_Bps(self) -> float | None:  # noqa: N802
        """Bus bandwidth: algbw times a factor, as 2(n-1)/n for an all-reduce; None: see :attr:`absent`."""
        found, algbw = self._engine.collective, self.algbw_Bps
        factor = None if found is None else found.bus_factor
        return None if factor is None or algbw is None else algbw * factor

    @property
    def roundings(self) -> int | None:
        """Largest number of roundings of an output; None: see :class:`Contract`'s dtype."""
        found = self._rounded()
        return None if found is None else found[0]

    def _rounded(self) -> tuple[int, str] | None:
        """Largest number of roundings, also in words; None before the end, or where it is not known."""
        found = self._engine.collective
        return None if found is None or not self.finished else found.roundings()

    @property
    def counted_Bps(self) -> dict[str, float]:  # noqa: N802
        """Bandwidth of an exchange of experts over each kind of link, as DeepEP counts it; else empty."""
        found = self._engine.collective
        if found is None or not self.finished or not self.time_ps:
            return {}
        return {link: size * 1e12 / self.time_ps for link, size in found.counted_bytes.items()}

    def per_rank(self) -> list[dict[str, Any]]:
        """One dict a rank: its end, ``end_ps``, and how its time divides, in ps."""
        rows: list[dict[str, Any]] = self._engine.tables()["ranks"]()
        return rows

    def breakdown(self) -> dict[str, float]:
        """Fractions of the time of all ranks; they add up to 1."""
        return dict(self._engine.breakdown().parts)

    def critical_path(self) -> CriticalPath:
        """Return the critical path from the start to the end (up to now, while it runs)."""
        found: CriticalPath = self._find_path()
        return found

    def by_cause(self) -> dict[str, int]:
        """Return the time of the critical path by cause, in ps; the largest first."""
        return self.critical_path().by_cause()

    def by_line(self, *, time: str | None = None) -> pd.DataFrame:
        """Divide the time by line of the program, by cache lines.

        Parameters
        ----------
        time : str, optional
            As of :meth:`to_dataframe`.

        Returns
        -------
        pandas.DataFrame
            The table ``lines`` with ``path_ps``, the part of the critical path that passes at each line:
            ``source`` and ``line``, its ``text``, how many ``operations`` of it have begun, the time of all
            thread blocks there by state (``issue_or_data_ps``, ``signal_ps``, ``semaphore_ps``,
            ``fence_ps``), ``idle_ps`` and all of it, ``block_ps``. The last row is the time outside of all
            operations. ``path_ps`` adds up to the time of the run, ``block_ps`` to that times the number
            of thread blocks.

        Raises
        ------
        InputError
            Another fidelity, or a program whose text is not known.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
        >>> sim.run().why
        'end'
        >>> lines = sim.result.by_line()
        >>> int(lines["path_ps"].sum()) == sim.result.time_ps
        True
        >>> lines.sort_values("path_ps").iloc[-1]["text"]
        'block.signal(gathered[peer])'
        """
        return self._frame(partial(self._engine.time_by, "line"), time)

    def by_phase(self, *, time: str | None = None) -> pd.DataFrame:
        """Divide the time by phase of the program, by cache lines.

        Parameters
        ----------
        time : str, optional
            As of :meth:`to_dataframe`.

        Returns
        -------
        pandas.DataFrame
            The table ``phases`` with ``path_ps`` and a row for the time outside of all operations: see
            :meth:`by_line`.

        Raises
        ------
        InputError
            Another fidelity.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
        >>> sim.run().why
        'end'
        >>> phases = sim.result.by_phase()
        >>> int(phases["block_ps"].sum()) == sim.result.time_ps * len(sim.result.to_dataframe("blocks"))
        True
        """
        return self._frame(partial(self._engine.time_by, "phase"), time)

    def _frame(self, divided: Callable[[CriticalPath | None], Any], time: str | None) -> pd.DataFrame:
        """Times of a program as a frame, with what is on the critical path."""
        divided(None)  # refuses what is not known before the path is searched
        return frame(divided(self.critical_path()), time)

    def summary(self) -> str:
        """A few lines for a person."""
        what, work, costs = self._engine.headline()
        took = format_time(self.time_ps) + ("" if self.finished else " so far")
        lines = [what, f"time    {took}   ({work})"]
        algbw, busbw = self.algbw_Bps, self.busbw_Bps
        if self.counted_Bps:
            rates = "   ".join(f"{link} {rate / 1e9:.2f} GB/s" for link, rate in self.counted_Bps.items())
            lines.append(f"carried {rates}   (as DeepEP counts, GB = 10^9 bytes)")
        elif algbw is not None:
            bus = "" if busbw is None else f"   busbw {busbw / 1e9:.2f} GB/s"
            lines.append(f"algbw   {algbw / 1e9:.2f} GB/s{bus}   (GB = 10^9 bytes)")
        if costs:
            lines.append(f"costs   {costs}")
        collective, rounded = self._engine.collective, self._rounded()
        if collective is not None and collective.unchecked_text:
            lines.append(f"checks  none: {collective.unchecked_text}")
        if rounded is not None:
            lines.append(f"numbers {rounded[1]}")
        whose, parts, _ = self._engine.breakdown()
        large = {name: part for name, part in parts.items() if part >= _LEAST_SHARE}
        shares = ", ".join(f"{name.replace('_', ' ')} {part:.0%}" for name, part in large.items())
        lines.append(f"{whose:<7} {shares}")
        return "\n".join(lines)

    def explain(self) -> str:
        """Explain where the time went, and what had to wait for what.

        The critical path of more than 20 million events is left out, in words: it takes a replay.
        """
        path = self.critical_path() if 0 < self.events <= _QUICK_EVENTS else None
        lines = [self.summary(), "", *self._engine.explain(path)]
        if path is None and self.events:
            left_out = f"The critical path of {self.events:,} events takes a replay and was left out:"
            lines += ["", f"{left_out} critical_path() finds it."]
        return "\n".join(lines)

    @property
    def tables(self) -> list[str]:
        """The tables that there are."""
        return list(self._engine.tables())

    def to_dataframe(self, what: str = "ranks", *, time: str | None = None) -> pd.DataFrame:
        """Return a table as a pandas frame.

        Parameters
        ----------
        what : str
            One of :attr:`tables`. Everywhere: ``ranks`` and ``phases``. By cache lines also ``lines`` (the
            time by line of the program), ``links``, ``blocks``, ``ops``, ``spans`` (what thread blocks
            did), ``events`` (beginnings and ends), ``signals`` (which signal let which wait go on), and, as
            far as recorded, ``flights`` (every line on every link) and ``activity`` (how busy links, issue
            slots, L2 and HBM were over time); over Ethernet ``rates`` (of each flow, by DCQCN). Of
            workloads also ``operations`` (a row for each that has
            begun). By messages also
            ``collectives`` (a row for each, over its ranks), ``dimensions``, ``links`` (with congestion; here
            and by cache lines each has a ``source`` and a ``target``, ``gpu[5]`` and ``nvsw.2``),
            ``layers`` (of ASTRA-sim 1.0's files) and ``critical_path``; of steps of transformers
            ``memory``: the bytes that one rank of each stage holds from a time on, by what they are for.
            ``flows`` has a row for each recorded message. Of several jobs ``jobs``, and with congestion
            ``job_links``.
        time : str, optional
            Unit of all times: ``ps`` (by default), ``ns``, ``us``, ``ms`` or ``s``.

        Returns
        -------
        pandas.DataFrame
            The unit is in a column's name: ``_ps`` (or that of `time`), ``_Bps`` (bytes a second),
            ``bytes``, ``_fraction``.

        Raises
        ------
        InputError
            There is no such table of this run, or no such unit.

        Examples
        --------
        >>> import astranb as anb
        >>> sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 KiB", "allpairs"))
        >>> sim.run().why
        'end'
        >>> spans = sim.result.to_dataframe("spans")
        >>> bool((spans["end_ps"] - spans["start_ps"] == spans["duration_ps"]).all())
        True
        >>> sim.result.time_us == max(sim.result.to_dataframe(time="us")["end_us"])
        True
        """
        return frame(self.table(what), time)

    def jobs(self, *, alone: bool = False, time: str | None = None) -> pd.DataFrame:
        """Return when each of several jobs began and ended, and how much slower it was than alone.

        Parameters
        ----------
        alone : bool
            Whether to simulate each job once more without the others, on the same GPUs. Together these
            runs handle about as many events as this one; what :meth:`Simulation.set` has changed is not
            part of them.
        time : str, optional
            As of :meth:`to_dataframe`.

        Returns
        -------
        pandas.DataFrame
            ``job``, ``ranks`` (how many), ``gpus``, ``start_ps``, ``end_ps``, ``duration_ps``, ``done``; with
            ``alone`` also ``alone_ps`` and ``slowdown``. ``to_dataframe("job_links")`` has the bytes of each
            job on each link.

        Raises
        ------
        InputError
            It is not a run of several jobs.

        Examples
        --------
        >>> import astranb as anb
        >>> ring = anb.collectives.all_reduce("1 MiB", "ring")
        >>> pair = [anb.Job(ring, ranks=[0, 8], name="a"), anb.Job(ring, ranks=[1, 9], name="b")]
        >>> sim = anb.Simulation("clos:servers=2", jobs=pair, fidelity="congestion")
        >>> sim.run().why
        'end'
        >>> sim.result.jobs(alone=True)[["job", "gpus", "slowdown"]].values.tolist()
        [['a', '0,8', 1.0], ['b', '1,9', 1.0]]
        >>> bool(sim.result.jobs(time="us")["end_us"].max() == sim.result.time_us)
        True
        """
        found = self.to_dataframe("jobs")
        if alone:
            alone_ps = [self._run_alone(name) for name in found["job"]]
            found["alone_ps"] = alone_ps
            done = found["done"] & (found["alone_ps"] > 0)
            found["slowdown"] = (found["duration_ps"] / found["alone_ps"]).where(done)
        return frame(found, time)

    def table(self, what: str) -> Any:
        """The same without pandas: a list of rows, or columns by name."""
        makers = self._engine.tables()
        if what not in makers:
            reason = self.absent.get(what)
            hint = reason or near(what, makers)
            raise InputError(f"unknown table {what!r} of this run", hint=hint)
        return makers[what]()

    def write_frames(self, folder: str | Path) -> list[str]:
        """Write every table as ``NAME.csv`` into a folder, which is made where it is missing.

        Parameters
        ----------
        folder : str or Path

        Returns
        -------
        list of str
            The tables' names; those without a row have no file.

        Raises
        ------
        InputError
            It cannot be written there.
        """
        return write_frames({name: self.to_dataframe(name) for name in self.tables}, folder)

    def to_perfetto(self, path: str | Path, **options: Any) -> dict[str, Any]:
        """Write what happened so far as a trace that ui.perfetto.dev and chrome://tracing open.

        Parameters
        ----------
        path : str or Path
            ``.json``, or ``.json.gz`` for a compressed one. Written whole or not at all.
        **options
            By cache lines ``most_lines``: most spans on the tracks of links.

        Returns
        -------
        dict
            What was written, as in the file's ``otherData``.

        Raises
        ------
        InputError
            The file cannot be written.
        """
        engine = self._engine
        written: dict[str, Any] = {
            "title": engine.title,
            "simulated_ps": engine.now_ps,
            "events": self.events,
            "finished": self.finished,
            "recording": engine.recording,
        }
        write_trace(engine.trace_events(written, **options), written, Path(path))
        return written

    def __repr__(self) -> str:
        """The summary."""
        return self.summary()
