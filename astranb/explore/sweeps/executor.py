"""Running points: in this process, or on a Dask cluster, whose workers may die."""

from __future__ import annotations

import math
import signal
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from multiprocessing import resource_tracker
from queue import Empty, SimpleQueue
from typing import TYPE_CHECKING, Any, Final, Protocol

from astranb.core.errors import InputError
from astranb.core.extras import needs_extra

from .points import FAILED, run_points

if TYPE_CHECKING:
    from distributed import Client

__all__ = ["Executor", "executor"]

Task = tuple[str, Mapping[str, Any]]
Rows = list[dict[str, Any]]

_DEATHS: Final = 3
_PATIENCE_S: Final = 1
_ALONE_S: Final = 60
"""How long a cluster may be without workers."""
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
            How many points a worker is given at a time.

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


class _OnDask:
    """Runs points on a cluster."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.at_once = max(1, sum(client.nthreads().values()))

    def run(self, tasks: Iterable[Task], size: int) -> Iterator[Rows]:
        under_way: dict[str, list[Task]] = {}
        ended: SimpleQueue[Any] = SimpleQueue()
        more = iter(tasks)

        def submit(batch: list[Task]) -> None:
            future = self._client.submit(run_points, batch, pure=False)
            under_way[future.key] = batch
            future.add_done_callback(ended.put)

        def fill() -> None:
            # Single points are a search, whose next point follows from those that have ended.
            ahead = self.at_once if size == 1 else 2 * self.at_once
            while len(under_way) < ahead and (batch := list(islice(more, size))):
                submit(batch)

        fill()
        alone_s = 0.0
        while under_way:
            try:
                future = ended.get(timeout=_PATIENCE_S)
            except Empty:
                alone_s = 0 if self._client.nthreads() else alone_s + _PATIENCE_S
                if alone_s > _ALONE_S:
                    raise InputError("all Dask workers have ended", where="scheduler", hint=_AGAIN) from None
                yield []
                continue
            alone_s = 0.0
            batch = under_way.pop(future.key)
            if future.status == "finished":
                yield future.result()
            elif future.status == "cancelled":
                raise InputError("the Dask scheduler has ended", where="scheduler", hint=_AGAIN)
            elif len(batch) > 1 and type(future.exception()).__name__ == "KilledWorker":
                for task in batch:  # one of them ends its worker: each is tried by itself
                    submit([task])
            else:
                yield [_lost(task, future.exception()) for task in batch]
            fill()


def _lost(task: Task, error: BaseException | None) -> dict[str, Any]:
    """Return the row of a point that no worker could run."""
    what = f"{type(error).__name__}: {error}"
    if type(error).__name__ == "KilledWorker":
        what = f"{_DEATHS} workers died while they ran it; is there too little memory?"
    return {"hash": task[0], "status": FAILED, "error": what[:500], "seconds": math.nan}


@contextmanager
def executor(
    workers: int = 2, client: Client | None = None, scheduler: str | None = None
) -> Iterator[Executor]:
    """Give what runs points.

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
    with needs_extra("a sweep on several processes"):
        import dask
        from distributed import Client, LocalCluster
        from distributed.utils import LoopRunner
    if scheduler is not None:
        try:
            there = Client(scheduler, timeout=10, set_as_default=False)
        except (OSError, ValueError) as error:
            what = f"no Dask scheduler answers: {' '.join(str(error).split())[:120]}"
            hint = "start one with dask scheduler, and workers with dask worker"
            raise InputError(what, where=scheduler, hint=hint) from None
        with there:
            if not there.nthreads():
                raise InputError(
                    "the scheduler has no workers", where=scheduler, hint="start some with dask worker"
                )
            yield _OnDask(there)
        return
    options = {
        "distributed.scheduler.allowed-failures": _DEATHS - 1,
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
    """Let the thread that is started inside start processes that Ctrl-C does not reach.

    A terminal sends it to them too, and each would print a traceback. They end with this process. A thread
    inherits which signals are blocked, and a process those of the thread that starts it.
    """
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
