"""``benchmarks/kernel_timings.py`` without a GPU: its rows, its clock by a stand-in, and all of it on the
processor where PyTorch is installed."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from astranb.workload.kernels import GPUS, KernelTimes
from astranb.workload.kernels.timings import COLUMNS, KERNELS, read_facts, read_timings

SCRIPT = Path(__file__).resolve().parents[3] / "benchmarks" / "kernel_timings.py"


@pytest.fixture(scope="module")
def script() -> Any:
    spec = importlib.util.spec_from_file_location("kernel_timings", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _called(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-S", str(SCRIPT), *arguments], capture_output=True, text=True, check=False
    )


def test_it_needs_nothing_to_say_what_it_does():
    assert "--output" in _called("--help").stdout
    assert _called("--list", "--sizes", "quick").returncode == 0
    for arguments, said in (
        ((), "--output: name the file"),
        (("-o", "nowhere/x.csv"), "there is no folder nowhere"),
        (("-o", "x.csv"), "PyTorch is missing"),
        (("--list", "--only", "gem"), "no row of gem"),
    ):
        found = _called(*arguments)
        assert found.returncode == 2
        assert said in found.stderr
        assert found.stderr.count("\n") == 1


@pytest.mark.parametrize("sizes", ["full", "quick", "tiny"])
def test_its_rows_are_ones_that_a_table_may_have(script, tmp_path, sizes):
    """The rows that it would write can be read, and every row has a predicted time."""
    lines = _called("--list", "--sizes", sizes).stdout.splitlines()
    path = tmp_path / "mine.csv"
    path.write_text("\n".join([script.COLUMNS, *(f"mine,{line},1000" for line in lines), ""]))
    rows = read_timings(path)
    assert len(rows) == len(script.rows(sizes)) == len(lines)
    assert {row.kernel for row in rows} == set(KERNELS) - {"experts", "prompt"}
    gpu = GPUS["h100-sxm"]
    assert all(row.predicted_ns(KernelTimes(gpu, row.precision)) > 0 for row in rows)
    assert tuple(script.COLUMNS.split(",")) == COLUMNS


class _Clock:
    """A stand-in for PyTorch's CUDA: each call takes 3 µs in a graph and 5 outside."""

    def __init__(self, *, graphs: bool) -> None:
        self.now_ns, self.inside, self.graphs = 0, False, graphs
        self.cuda = SimpleNamespace(
            Event=self.event, CUDAGraph=self.graph_object, graph=self.capture,
            synchronize=lambda _device: None,
        )  # fmt: skip

    def call(self) -> None:
        self.now_ns += 0 if self.inside else 5000
        if self.inside:
            self.captured += 1

    def event(self, *, enable_timing: bool) -> Any:
        one = SimpleNamespace(at=0)
        one.record = lambda: setattr(one, "at", self.now_ns)
        one.synchronize = lambda: None
        one.elapsed_time = lambda other: (other.at - one.at) / 1e6
        assert enable_timing
        return one

    def graph_object(self) -> Any:
        self.captured = 0
        return SimpleNamespace(replay=self.replay)

    def replay(self) -> None:
        self.now_ns += 3000 * self.captured

    def capture(self, _graph: Any) -> Any:
        clock = self

        class Capture:
            def __enter__(self) -> None:
                if not clock.graphs:
                    raise RuntimeError("operation not permitted when stream is capturing")
                clock.inside = True

            def __exit__(self, *_: object) -> None:
                clock.inside = False

        return Capture()


@pytest.mark.parametrize("graphs, ns", [(True, 3000), (False, 5000)])
def test_calls_are_timed_in_a_graph_where_that_can_be(script, graphs, ns):
    clock = _Clock(graphs=graphs)
    bench = script.Bench(clock, "cuda", 3)
    assert bench.ns([clock.call] * 3) == pytest.approx(ns)
    assert bench.ns([clock.call], graph=False, runs=1000) == pytest.approx(5000)


def test_everything_is_measured_on_a_processor(script, tmp_path, capsys):
    pytest.importorskip("torch")
    path = tmp_path / "mine.csv"
    options = ["-o", str(path), "--device", "cpu", "--sizes", "tiny", "--repeats", "3", "--name", "mine"]
    assert script.main(options) == 0
    found = {row.kernel for row in read_timings(path)}
    assert found == set(KERNELS) - {"experts", "prompt", "launch graph"}
    assert read_facts(path) == {}
    assert "no CUDA graphs on a processor" in capsys.readouterr().err
