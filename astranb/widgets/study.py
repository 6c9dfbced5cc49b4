"""``Study``: a sweep in a notebook cell, while it runs and afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from threading import Thread
from time import perf_counter, sleep
from typing import TYPE_CHECKING, Any, Final

import anywidget
import traitlets

from astranb.core.errors import AstranbError, InputError
from astranb.core.host import require_threads
from astranb.explore import Sweep, SweepResult
from astranb.explore.sweeps import AxisEffect

from .assets import STUDY, STUDY_MODULES, STYLES
from .study_message import PointDetails, effects_of, study_message
from .study_page import write_study
from .workbench import Workbench

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Study"]

_EVERY_S: Final = 0.5
_SPARED: Final = 5
"""A message is made again after so many times the time that it took to make."""


class Study(anywidget.AnyWidget):
    """Look at a sweep: Pareto front, parallel coordinates, heat maps, sensitivity, a table, single points.

    A sweep begins to run at once, beside the notebook's cells; its points appear as they end. A point that is
    chosen in one picture is chosen in all; *Open* shows its run in a workbench below.

    Parameters
    ----------
    what : Sweep, SweepResult, str, Path or mapping
        A sweep, what one has found, or what :meth:`.Sweep.of` reads.
    client, folder, workers, scheduler, retry
        As for :meth:`.Sweep.run`.

    Raises
    ------
    InputError
        It is no sweep, or something in it cannot be read.

    Examples
    --------
    >>> import astranb as anb
    >>> study = anb.Study({
    ...     "run": {"infra": "switch:gpus=4", "collective": "all_reduce", "fidelity": "analytical"},
    ...     "axes": {"size": ["1 MiB", "4 MiB"], "algorithm": ["ring", "allpairs"]},
    ... }, workers=0)
    >>> result = study.wait()
    >>> study.choose(result.best()[0])
    >>> study.show().sim.title
    'all_reduce/allpairs, 1 MiB'
    >>> study.close()
    """

    _esm = STUDY
    _css = STYLES
    _modules = traitlets.Dict().tag(sync=True)
    _progress = traitlets.Dict().tag(sync=True)  # stage, how far it is, what went wrong
    _chosen = traitlets.Int(-1).tag(sync=True)  # the number of a point; negative: none
    _opened = traitlets.Dict().tag(sync=True)  # point and title of the run below, reference to its view

    def __init__(
        self,
        what: Sweep | SweepResult | str | Path | Mapping[str, Any],
        *,
        client: Client | None = None,
        folder: str | Path | None = None,
        workers: int = 2,
        scheduler: str | None = None,
        retry: bool = False,
    ) -> None:
        if not isinstance(what, Sweep | SweepResult | str | Path | Mapping):
            hint = "Study(Sweep.of(...)), or Study(result)"
            raise InputError(f"not a sweep: {type(what).__name__}", where="Study", hint=hint)
        if not isinstance(what, Sweep | SweepResult):
            what = Sweep.of(what)
        super().__init__(_modules=STUDY_MODULES)
        self.spec = what.spec
        self._result = SweepResult(what.spec, [], [], []) if isinstance(what, Sweep) else what
        self._stopped = False
        self._pace: tuple[str, int, float] | None = None  # when a stage was first seen, and how far it was
        self._error: AstranbError | None = None
        self._effects: dict[str, list[AxisEffect]] | None = None
        self._sent: tuple[SweepResult | None, bool] = (None, False)
        self._next_s = 0.0
        self._bench: Workbench | None = None
        options: dict[str, Any] = {
            "folder": folder,
            "workers": workers,
            "scheduler": scheduler,
            "retry": retry,
        }
        run = what.run if isinstance(what, Sweep) else None

        def work() -> None:
            try:
                if run is not None:
                    self._result = run(client, on_result=self._found, **options)
                self._effects = effects_of(self._result)
            except AstranbError as error:
                self._error = error

        require_threads("a study")
        self._thread = Thread(target=work, daemon=True, name="astranb-study")
        self.on_msg(self._received)
        self._thread.start()
        self._report()
        with suppress(RuntimeError):  # outside of a notebook wait() reports
            self._task = asyncio.get_running_loop().create_task(self._follow())

    def _found(self, result: SweepResult) -> bool:
        """Take what has been found so far, in the sweep's thread; whether it is to go on."""
        self._result = result
        return not self._stopped

    @property
    def result(self) -> SweepResult:
        """Result so far."""
        return self._result

    @property
    def running(self) -> bool:
        """Whether there is more to come."""
        return self._thread.is_alive()

    @property
    def chosen(self) -> int | None:
        """The number of the point that is chosen."""
        return None if self._chosen < 0 else self._chosen

    @property
    def opened(self) -> Workbench | None:
        """The workbench below."""
        return self._bench

    def wait(self) -> SweepResult:
        """Wait until the sweep has ended, and return what it has found.

        Raises
        ------
        InputError
            The sweep could not be run.
        """
        while self.running:
            self._report()
            sleep(0.02)
        self._report()
        if self._error is not None:
            raise self._error
        return self.result

    def stop(self) -> None:
        """End the sweep after the points that are under way; what has ended stays."""
        self._stopped = True

    def choose(self, point: int) -> None:
        """Choose a point in all pictures."""
        self.result.shares(point)  # refuses one that there is not
        self._chosen = point

    def show(self, point: int | None = None) -> Workbench:
        """Show the run of a point in a workbench below, at its start.

        Parameters
        ----------
        point : int, optional
            Default: the one that is chosen.

        Raises
        ------
        InputError
            No point is chosen, or it cannot be simulated.
        """
        number = self._chosen if point is None else point
        if number < 0:
            raise InputError("no point is chosen", where="show", hint="choose one, or give its number")
        sim = self.result.simulation(number)
        self._chosen = number
        before, self._bench = self._bench, Workbench(sim)
        self._opened = {"point": number, "title": sim.title, "view": f"anywidget:{self._bench.model_id}"}
        if before is not None:
            before.close()
        return self._bench

    def to_html(self, path: str | Path, *, most: int = 5000) -> Path:
        """Write one file that shows what has been found in any browser, without a network.

        Instead of *Open* it gives the command line that runs a point.

        Parameters
        ----------
        path : str or Path
            Written whole or not at all.
        most : int
            Most points in the file; of more, a random choice, and all of the Pareto front.
        """
        return write_study(self.result, path, effects=self._effects, most=most)

    def close(self) -> None:
        """Stop the sweep, and close the views."""
        if "_result" in self.__dict__:  # else it was refused before it showed anything
            self.stop()
            if self._bench is not None:
                self._bench.close()
        super().close()

    def __repr__(self) -> str:
        """One line: what it shows."""
        counts = ", ".join(f"{number:,} {status}" for status, number in self.result.counts().items())
        return f"<Study of {self.spec.name}: {counts}>"

    async def _follow(self) -> None:
        """Report while there is more to come."""
        while self.running:
            self._report()
            await asyncio.sleep(_EVERY_S / 5)
        self._report()

    def _report(self) -> None:
        """Send the browser the sweep's progress and the points that it lacks, not too often."""
        ended = not self.running
        if not ended and perf_counter() < self._next_s:
            return
        began_s, result = perf_counter(), self._result
        stage, done, total = result.progress()
        self._progress = {
            "stage": stage,
            "done": done,
            "total": total,
            "left_s": self._left_s(stage, done, total),
            "running": not ended,
            "stopped": self._stopped,
            "error": "" if self._error is None else str(self._error),
        }
        if self._sent[0] is not result or self._sent[1] != ended:
            self._sent = (result, ended)
            self._send_study()
        self._next_s = perf_counter() + max(_EVERY_S, _SPARED * (perf_counter() - began_s))

    def _left_s(self, stage: str, done: int, total: int) -> float | None:
        """Return how long the rest of a stage takes, at the pace so far; None: not known."""
        now_s = perf_counter()
        if self._pace is None or self._pace[0] != stage:
            self._pace = (stage, done, now_s) if total else None
            return None
        _, before, began_s = self._pace
        return None if done == before else round((now_s - began_s) / (done - before) * (total - done), 1)

    def _send_study(self) -> None:
        message, buffers = study_message(self.result, self._effects)
        self.send(message, buffers=buffers)

    def _received(self, _widget: Any, content: Any, _buffers: Any) -> None:
        """Answer the browser."""
        kind, point = content.get("type"), content.get("point", -1)
        known = isinstance(point, int) and 0 <= point < len(self._result.rows)
        if kind == "ready":
            self._send_study()
        elif kind == "stop":
            self.stop()
        elif kind == "detail" and known:
            self.send(PointDetails(self.result).of(point))
        elif kind == "open" and known:
            try:
                self.show(point)
            except AstranbError as error:
                self._opened = {"point": point, "title": "", "view": "", "error": str(error)}
