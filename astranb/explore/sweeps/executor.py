"""Running points: in this process, or on a Dask cluster, whose workers may die."""

from __future__ import annotations

import logging
import math
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from threading import Event
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Protocol
from uuid import uuid4

from astranb.core.errors import InputError
from astranb.core.extras import needs_extra
from astranb.core.host import require_threads

from .points import FAILED, run_points

if TYPE_CHECKING:
    from distributed import Client, Future, Variable

__all__ = ["Executor", "executor"]

Task = tuple[str, Mapping[str, Any]]
Rows = list[dict[str, Any]]

_DEATHS: Final = 3
"""Of how many workers a point is blamed."""
_KILLED: Final = f"{_DEATHS} workers died while they ran it; is there too little memory?"
_NO_NOTES: Final = {"runs": "", "deaths": {}}
"""Hash of the running point of a batch, and the number of workers that have died at each point."""
_BATCH_S: Final = 1
"""Aimed time of a batch in seconds: it is lost where the sweep is stopped."""
_FETCH_S: Final = 5
"""Seconds to wait for a result; until another worker has it, other results are waiting too."""
_NOTES_S: Final = 10
_CONNECT_S: Final = 10
"""Seconds until a scheduler, and then a first worker, has to appear."""
_PATIENCE_S: Final = 1
_ANSWER_S: Final = 30
"""Seconds in which a scheduler has to answer."""
_ALONE_S: Final = 60
"""Seconds that a cluster may be without workers."""
_AGAIN: Final = "start it, and run the sweep again: what has ended is kept where it has a folder"


class Executor(Protocol):
    """Runs points."""

    at_once: int

    def run(self, tasks: Iterable[Task], size: int) -> Iterator[Rows]:
        """Run points and yield their rows as they end.

        Parameters
        ----------
        tasks : iterable of (str, mapping)
            Hash and words of each; taken as workers become free.
        size : int
            How many points a worker is given at a time, at most.

        Yields
        ------
        list of dict
            Empty where nothing has ended for a while: the caller may want to stop.
        """
        ...


class _Here:
    """Runs points in this process."""

    at_once = 1

    def run(self, tasks: Iterable[Task], size: int) -> Iterator[Rows]:
        del size  # each is kept as it ends
        for task in tasks:
            yield run_points([task])


@dataclass
class _Batch:
    """Points that a worker has, or will have."""

    tasks: list[Task]
    future: Future
    notes: Variable
    deaths: int = 0


class _OnDask:
    """Runs points on a cluster.

    What a batch has become is asked of its future: callbacks of Dask only wake, since they come once and a
    result that was there is lost with its worker.
    """

    def __init__(self, client: Client) -> None:
        self._client = client
        self._woken = Event()
        self._alone_since: float | None = None
        self.at_once = max(1, self._threads())

    def run(self, tasks: Iterable[Task], size: int) -> Iterator[Rows]:
        under_way: list[_Batch] = []
        more = iter(tasks)
        fitting = 1  # until it is known how long a point takes

        def fill() -> None:
            # Single points are a search, whose next point follows from those that have ended.
            ahead = self.at_once if size == 1 else 2 * self.at_once
            while len(under_way) < ahead and (batch := list(islice(more, fitting))):
                under_way.append(self._begun(batch))

        try:
            fill()
            while under_way:
                if not self._woken.wait(_PATIENCE_S):
                    self._check_workers()
                    yield []
                self._woken.clear()
                for batch in [one for one in under_way if one.future.done()]:
                    rows = self._rows(batch)
                    if rows is not None:
                        under_way.remove(batch)
                        self._forget(batch)
                        took_s = sum(row["seconds"] for row in rows)
                        # Not a number of seconds: a worker died with it.
                        fitting = max(1, min(size, int(_BATCH_S * len(rows) / took_s))) if took_s > 0 else 1
                        yield rows
                fill()
        finally:
            for batch in under_way:
                self._forget(batch)

    def _begun(self, tasks: list[Task]) -> _Batch:
        from distributed import Variable

        with self._reaching():
            notes = Variable(f"astranb-{uuid4().hex}", client=self._client)
            self._client.sync(partial(notes.set, asynchronous=True), _NO_NOTES, callback_timeout=_ANSWER_S)
            return _Batch(tasks, self._submitted(tasks, notes), notes)

    def _submitted(self, tasks: list[Task], notes: Variable) -> Future:
        future = self._client.submit(_run_noted, tasks, notes.name, pure=False)
        future.add_done_callback(lambda _: self._woken.set())
        return future

    def _rows(self, batch: _Batch) -> Rows | None:
        """Return the rows of a batch that has ended; None: it runs again."""
        error: Any = None
        with self._reaching():
            if batch.future.status == "finished":
                return self._result(batch.future)
            if batch.future.status == "error":
                error = batch.future.exception(timeout=_ANSWER_S)
            if batch.future.status == "cancelled" and self._client.status != "running":
                raise self._gone()
            if batch.future.status == "cancelled":  # by a scheduler that was started again
                batch.deaths += 1
            elif type(error).__name__ == "KilledWorker":
                batch.deaths += error.allowed_failures + 1
            else:
                return [_lost(task, f"{type(error).__name__}: {error}") for task in batch.tasks]
            if batch.deaths <= _DEATHS * (len(batch.tasks) + 1):  # notes say which point it was
                batch.future = self._submitted(batch.tasks, batch.notes)
                return None
        return [_lost(task, _KILLED) for task in batch.tasks]

    def _result(self, future: Future) -> Rows | None:
        """Fetch the rows that a worker has; None: it has died with them, and they are computed again."""
        gather = partial(self._client.gather, errors="skip", asynchronous=True)
        try:
            found = self._client.sync(gather, [future], callback_timeout=_FETCH_S)
        except TimeoutError:
            return None
        return next(iter(found), None)

    def _forget(self, batch: _Batch) -> None:
        """Drop a batch from the scheduler: it would run again if the worker that has the result dies."""
        with suppress(Exception):
            batch.future.release()
            batch.notes.delete()

    def _check_workers(self) -> None:
        """Raise where nobody will ever answer."""
        threads = self._threads()
        self.at_once = max(self.at_once, threads)
        if threads:
            self._alone_since = None
        elif self._alone_since is None:
            self._alone_since = monotonic()
        elif monotonic() - self._alone_since > _ALONE_S:
            raise InputError("all Dask workers have ended", where=self._address(), hint=_AGAIN)

    def _threads(self) -> int:
        with self._reaching():
            if self._client.status != "running":
                raise self._gone()
            found = self._client.sync(self._client.scheduler.ncores, callback_timeout=_ANSWER_S)
            return sum(found.values())

    @contextmanager
    def _reaching(self) -> Iterator[None]:
        """Report in one line that the scheduler does not answer."""
        from distributed.client import CancelledError, ClosedClientError

        try:
            yield
        except (OSError, TimeoutError, CancelledError, ClosedClientError):
            raise self._gone() from None

    def _gone(self) -> InputError:
        return InputError("the Dask scheduler does not answer any more", where=self._address(), hint=_AGAIN)

    def _address(self) -> str:
        scheduler = self._client.scheduler
        return "scheduler" if scheduler is None else str(scheduler.address)


def _run_noted(tasks: list[Task], name: str) -> Rows:
    """Run points on a worker, and note at the scheduler which one runs.

    A worker that dies leaves that note to the one that gets the batch next. So a point that ends its workers
    is known, though its neighbours in the batch were lost with it each time.

    Parameters
    ----------
    tasks : list of (str, mapping)
    name : str
        Of the variable that holds the notes.
    """
    from distributed import Variable

    notes = Variable(name)
    deaths: dict[str, int] = {}
    with suppress(Exception):  # without notes points run all the same
        known = notes.get(timeout=_NOTES_S)
        deaths = dict(known["deaths"])
        if known["runs"]:
            deaths[known["runs"]] = deaths.get(known["runs"], 0) + 1

    def note(runs: str) -> None:
        with suppress(Exception):
            notes.set({"runs": runs, "deaths": deaths})

    def noted() -> Iterator[Task]:
        for task in tasks:
            if deaths.get(task[0], 0) < _DEATHS:
                note(task[0])
                yield task

    rows = run_points(noted())
    note("")
    return rows + [_lost(task, _KILLED) for task in tasks if deaths.get(task[0], 0) >= _DEATHS]


def _lost(task: Task, what: str) -> dict[str, Any]:
    """Return the row of a point that no worker could run."""
    return {"hash": task[0], "status": FAILED, "error": what[:500], "seconds": math.nan}


@contextmanager
def executor(
    workers: int = 2, client: Client | None = None, scheduler: str | None = None
) -> Iterator[Executor]:
    """Create an executor of points.

    Parameters
    ----------
    workers : int
        Processes on this machine; 0: none but this one.
    client : distributed.Client, optional
        Of a cluster that is there, instead.
    scheduler : str, optional
        The address of its scheduler, as ``tcp://host:8786``.

    Raises
    ------
    InputError
        The scheduler does not answer.
    """
    if client is not None:
        yield _OnDask(client)
        return
    if workers == 0 and scheduler is None:
        yield _Here()
        return
    require_threads("a sweep on several processes")
    with needs_extra("a sweep on several processes"):
        import dask
        from distributed import Client, LocalCluster
        from distributed.utils import LoopRunner, silence_logging_cmgr
    if scheduler is not None:
        try:
            connected = Client(scheduler, timeout=_CONNECT_S, set_as_default=False)
        except (OSError, ValueError) as error:
            what = f"no Dask scheduler answers: {' '.join(str(error).split())[:120]}"
            hint = "start one with dask scheduler, and workers with dask worker"
            raise InputError(what, where=scheduler, hint=hint) from None
        with silence_logging_cmgr(logging.CRITICAL), connected:
            try:
                connected.wait_for_workers(1, timeout=_CONNECT_S)
            except TimeoutError:
                hint = "start some with dask worker"
                raise InputError("the scheduler has no workers", where=scheduler, hint=hint) from None
            yield _OnDask(connected)
        return
    options = {
        "distributed.comm.timeouts.connect": "60s",
        "distributed.admin.system-monitor.gil.enabled": False,
    }
    loops = LoopRunner(asynchronous=False)
    with _started_quietly():
        loops.start()
    with (
        tempfile.TemporaryDirectory() as folder,
        dask.config.set(options),
        LocalCluster(
            n_workers=workers,
            threads_per_worker=1,
            processes=True,
            host="127.0.0.1",
            dashboard_address="127.0.0.1:0",
            scheduler_kwargs={"dashboard": False},
            local_directory=folder,
            silence_logs=50,
            loop=loops.loop,
        ) as cluster,
        Client(cluster, set_as_default=False) as local,
    ):
        yield _OnDask(local)


@contextmanager
def _started_quietly() -> Iterator[None]:
    """Shield processes of the thread that is started inside from Ctrl-C.

    A terminal sends it to them too, and each would print a traceback. They end with this process. A thread
    inherits which signals are blocked, and a process those of the thread that starts it.
    """
    from multiprocessing import resource_tracker  # not there in a browser, which has no cluster either

    options = list(sys.warnoptions)
    sys.warnoptions.append("ignore::UserWarning")
    try:
        resource_tracker.ensure_running()  # else it prints what an interrupted process has left
    finally:
        sys.warnoptions[:] = options
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
