"""Sweeps on a Dask cluster: processes of one's own, a scheduler that is there, and workers that die."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from astranb.core.errors import InputError
from astranb.explore import Sweep, SweepResult
from astranb.explore.sweeps import executor, points, running

if TYPE_CHECKING:
    from distributed import Client

REPOSITORY = Path(__file__).parents[3]
SIZES = [f"{size} KiB" for size in range(1, 13)]
ALGORITHM = """
def special(p):
    wires = p.connections()
    for me in p.everyone:
        block = me.block()
        for you in me.others:
            wires[me, you].send(block, me.input[you.number])
        parts = [wires[you, me].receive(block) for you in me.others]
        block.reduce([me.input[me.number], *parts], me.output[me.number])
        for you in me.others:
            wires[me, you].send(block, me.output[me.number])
            block.copy(wires[you, me].receive(block), me.output[you.number])
"""
WAITS = """
import os, time
from pathlib import Path
os.close(os.open("{folder}/" + str(os.getpid()), os.O_CREAT))  # it runs now, and here
while not Path("{folder}/go").exists():
    time.sleep(0.01)
"""
ENDS = """
import os
from pathlib import Path
if not Path("{folder}/safe").exists():
    os._exit(1)
"""


def sweep(folder: Path, before: str) -> Sweep:
    """Return a sweep, one point of which executes Python where it runs."""
    (folder / "special.py").write_text(before.format(folder=folder) + ALGORITHM)
    special = {"size": "4 KiB", "algorithm": f"{folder}/special.py:special"}
    return Sweep.of(
        {
            "run": {"infra": "ring:gpus=2", "collective": "all_reduce"},
            "axes": {"what": [{"size": size, "algorithm": "ring"} for size in SIZES] + [special]},
        }
    )


def rows(found: SweepResult) -> list[dict[str, Any]]:
    return [{name: row[name] for name in row if name != "seconds"} for row in found.rows]


@dataclass(frozen=True)
class Cluster:
    """The processes of a cluster, and the file that says where it is."""

    file: Path
    scheduler: subprocess.Popen[bytes]
    workers: list[subprocess.Popen[bytes]]


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler and two workers, each a process."""
    file = tmp_path_factory.mktemp("dask") / "scheduler.json"
    with ExitStack() as ending:

        def start(what: str, *arguments: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--scheduler-file", str(file)]
            process = subprocess.Popen(
                [*command, "--no-dashboard", "--host", "127.0.0.1", *arguments],
                env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            ending.callback(process.wait)
            ending.callback(process.kill)
            return process

        scheduler = start("scheduler", "--port", "0", "--dashboard-address", "127.0.0.1:0")
        workers = [start("worker", "--no-nanny", "--nthreads", "1") for _ in range(2)]
        while not file.exists():
            time.sleep(0.05)
        yield Cluster(file, scheduler, workers)


@contextmanager
def connected(file: Path, workers: int) -> Iterator[Client]:
    from distributed import Client
    from distributed.utils import silence_logging_cmgr

    with (
        silence_logging_cmgr(logging.CRITICAL),
        Client(scheduler_file=str(file), timeout=60, set_as_default=False) as client,
    ):
        client.wait_for_workers(workers, timeout=60)
        yield client


@contextmanager
def kills_when_it_runs(marks: Path, victim: Callable[[int], int]) -> Iterator[list[int]]:
    """Kill a process when the special point is known to run, and tell in which processes it has begun."""
    began: list[int] = []

    def kill() -> None:
        while not began:
            time.sleep(0.01)
            began.extend(int(file.name) for file in marks.glob("[0-9]*"))
        (marks / "go").touch()  # where it runs again, it does not wait
        os.kill(victim(began[0]), signal.SIGKILL)

    killer = Thread(target=kill)
    killer.start()
    yield began
    killer.join()


def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path, cluster: Cluster) -> None:
    asked = sweep(tmp_path, WAITS)
    with connected(cluster.file, 2) as client, kills_when_it_runs(tmp_path, lambda pid: pid) as began:
        found = asked.run(client, tmp_path / "results")
    (killed,) = [worker for worker in cluster.workers if worker.pid == began[0]]
    assert killed.wait() == -signal.SIGKILL
    assert sum(worker.poll() is None for worker in cluster.workers) == 1
    assert len(list(tmp_path.glob("[0-9]*"))) == 2
    assert found.counts() == {"done": len(SIZES) + 1}
    assert rows(found) == rows(asked.run(workers=0))


def test_a_scheduler_that_is_killed_is_one_line(tmp_path: Path, cluster: Cluster) -> None:
    """It is the last test of this cluster."""
    asked = sweep(tmp_path, WAITS)
    scheduler = cluster.scheduler.pid
    with (
        connected(cluster.file, 1) as client,
        kills_when_it_runs(tmp_path, lambda _: scheduler),
        pytest.raises(InputError, match=r"tcp:.*the Dask scheduler does not answer any more; start it"),
    ):
        asked.run(client, tmp_path / "results")
    found = asked.run(workers=0, folder=tmp_path / "results")
    assert found.counts() == {"done": len(SIZES) + 1}


@pytest.fixture
def inside() -> Iterator[Callable[[int], Client]]:
    """A cluster without processes, of some workers."""
    from distributed import Client, LocalCluster

    with ExitStack() as ending:

        def made(workers: int) -> Client:
            cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=False, host="127.0.0.1",
                protocol="tcp://", dashboard_address="127.0.0.1:0", silence_logs=50,
            )  # fmt: skip
            return ending.enter_context(Client(ending.enter_context(cluster), set_as_default=False))

        yield made


def test_a_point_that_ends_its_workers_is_blamed_alone(
    tmp_path: Path, inside: Callable[[int], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    from distributed import KilledWorker

    begun: list[dict[str, Any]] = []

    def ending(batch: Any) -> Any:
        def each() -> Any:
            for digest, words in batch:
                begun.append(words)
                if words["algorithm"] != "ring":
                    raise KilledWorker(digest, SimpleNamespace(address="there"), 0)  # as a scheduler says
                yield digest, words

        return points.run_points(each())

    monkeypatch.setattr(executor, "run_points", ending)
    monkeypatch.setattr(running, "_LARGEST", 4)
    found = sweep(tmp_path, "").run(inside(1))
    assert sum(words["algorithm"] != "ring" for words in begun) == 3
    assert found.counts() == {"done": len(SIZES), "failed": 1}
    assert found.rows[-1]["error"].startswith("3 workers died while they ran it")


def test_no_workers_is_one_line(
    tmp_path: Path, inside: Callable[[int], Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "_PATIENCE_S", 0.05)
    monkeypatch.setattr(executor, "_ALONE_S", 0.2)
    with pytest.raises(InputError, match=r"all Dask workers have ended; start it"):
        sweep(tmp_path, "").run(inside(0))


def test_no_scheduler_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executor, "_CONNECT_S", 0.2)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with pytest.raises(InputError, match=f"{address}: no Dask scheduler answers: .*; start one with"):
        sweep(tmp_path, "").run(scheduler=address)


@pytest.mark.slow  # each of the three deaths starts a process
def test_a_point_that_ends_its_workers_is_recorded(tmp_path: Path) -> None:
    asked = sweep(tmp_path, ENDS)
    found = asked.run(workers=2)
    assert found.counts() == {"done": len(SIZES), "failed": 1}
    assert found.rows[-1]["error"].startswith("3 workers died while they ran it")
    (tmp_path / "safe").touch()
    assert rows(found)[:-1] == rows(asked.run(workers=0))[:-1]
