"""Sweeps on a Dask cluster: processes of one's own, a scheduler that is there, and workers that die."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[3]
SWEEP = {
    "run": {"infra": "switch:gpus={gpus}", "collective": "all_reduce", "fidelity": "analytical"},
    "axes": {"gpus": [2, 4, 8, 16], "size": "1 MiB..10 MiB by 1 MiB"},
}
KILLED = """
import os, signal
from astranb.explore.sweeps import points
run, batches = points.run_points, []
def killed(batch):
    batches.append(batch)
    if len(batches) == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return run(batch)
if run.__name__ == "run_points":  # Dask loads this twice
    points.run_points = killed
"""
"""What a worker loads that is killed while it runs its third batch."""
ENDS_ITS_WORKER = """
import os
from astranb.explore.sweeps import points
run = points.run_points
def ends(batch):
    if any((words["infra"], words["size"]) == ("switch:gpus=4", "3145728 B") for _, words in batch):
        os._exit(1)
    return run(batch)
if run.__name__ == "run_points":  # Dask loads this twice
    points.run_points = ends
"""


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(REPOSITORY), **more}


def explored(folder: Path, *more: str, **variables: str) -> dict[str, Any]:
    """Run the sweep as a command, and return its document."""
    file = folder / "sweep.json"
    file.write_text(json.dumps(SWEEP))
    command = [sys.executable, "-m", "astranb", "explore", str(file), "--json", *more]
    ended = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=folder, env=environment(**variables)
    )
    assert (ended.returncode, ended.stderr) == (0, "")
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def rows(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in row if name != "seconds"} for row in document["points"]]


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing(tmp_path: Path) -> None:
    """A scheduler and two workers as processes; one is killed in the middle."""
    preload = tmp_path / "killed.py"
    preload.write_text(KILLED)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    with ExitStack() as ending:

        def start(what: str, *arguments: str) -> subprocess.Popen[bytes]:
            command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *arguments, "--no-dashboard"]
            process = subprocess.Popen(
                command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
            )
            ending.callback(process.wait)
            ending.callback(process.kill)
            return process

        start("scheduler", "--host", "127.0.0.1", "--port", address.rpartition(":")[2])
        worker = (address, "--no-nanny", "--nthreads", "1", "--host", "127.0.0.1")
        killed = start("worker", *worker, "--preload", str(preload))
        other = start("worker", *worker)
        found = explored(tmp_path, "--scheduler", address, "-o", str(tmp_path / "results"))
        assert killed.wait() == -signal.SIGKILL
        assert other.poll() is None
    assert found["counts"] == {"done": 40}
    assert len({row["hash"] for row in found["points"]}) == 40
    assert rows(found) == rows(explored(tmp_path, "--workers", "0"))


@pytest.mark.slow  # each of six deaths starts a process
def test_a_point_that_ends_its_workers_is_recorded(tmp_path: Path) -> None:
    preload = tmp_path / "ends.py"
    preload.write_text(ENDS_ITS_WORKER)
    found = explored(tmp_path, "--workers", "2", DASK_DISTRIBUTED__WORKER__PRELOAD=str(preload))
    assert found["counts"] == {"done": 39, "failed": 1}
    (failed,) = [row for row in found["points"] if row["status"] == "failed"]
    assert (failed["gpus"], failed["size"]) == (4, "3145728 B")
    assert failed["error"].startswith("3 workers died while they ran it")


def test_no_scheduler_is_one_line(tmp_path: Path) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        address = f"tcp://127.0.0.1:{free.getsockname()[1]}"
    file = tmp_path / "sweep.json"
    file.write_text(json.dumps(SWEEP))
    command = [sys.executable, "-m", "astranb", "explore", str(file), "--scheduler", address]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"astranb: {address}: no Dask scheduler answers")
    assert ended.stderr.count("\n") == 1
