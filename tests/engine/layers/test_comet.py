"""COMET's fork of ASTRA-sim 1.0: its recorded run, its rooflines, and what its files say differently."""

import csv
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from astranb.cli import main
from astranb.core.errors import InputError
from astranb.engine.layers import LayerRun
from astranb.engine.stops import ENDED
from astranb.workload.astrasim1 import load, read_layer_table, write_layer_table

from .test_recorded import differences, run_of

TABLE = json.loads((Path(__file__).parents[2] / "data" / "comet.json").read_text())
CASE = TABLE["cases"][0]
TWO_LAYERS = {**CASE, "workload": {"table": "two layers"}}
COUNTED = {key: value for key, value in TABLE["systems"][0].items() if "roofline" not in key}
COUNTED |= {"enable-roofline": "true", "roofline-bw-in-bytes-per-ns": 900}
COUNTED |= {"roofline-neg-y-intercept": "0.0", "roofline-peak-perf-in-gigaflops": 125_000}


def _system(path, keys):
    path.write_text("".join(f"{key}: {value}\n" for key, value in keys.items()))
    return path


def _load(folder, *, system="system.txt", **options):
    return load(folder / "workload.txt", folder / system, folder / "network.json", **options)


@pytest.fixture
def files(tmp_path):
    """The recorded run's inputs."""
    run_of(CASE, tmp_path, TABLE)
    return tmp_path


@pytest.mark.reference
def test_the_recorded_run_is_exact(tmp_path):
    run = run_of(CASE, tmp_path, TABLE)
    assert run.go() == ENDED
    assert differences(CASE, run.result()) == []
    assert differences({**CASE, "time_ns": 94_809_518}, run.result()) == ["validation: time_ns"]


@pytest.mark.reference
def test_the_command_writes_the_recorded_latencies_of_chunks(files, capsys):
    names = [f"--{name}-configuration={files / file}" for name, file in (
        ("workload", "workload.txt"), ("system", "system.txt"), ("network", "network.json"),
    )]  # fmt: skip
    assert main(["run", "trace", "--compat=astrasim1", f"--path={files / 'out'}", *names]) == 0
    capsys.readouterr()
    with (files / "out" / "backend_dim_info.csv").open(newline="") as lines:
        assert [row["AverageChunkLatency"] for row in csv.DictReader(lines)] == CASE["chunk_us"]


def test_both_layers_compute_what_their_shapes_say(tmp_path):
    """Forward passes twice, but for those of the layers that begin a recomputation, and gradients."""
    run = run_of(TWO_LAYERS, tmp_path, TABLE)
    assert run.go() == ENDED
    whole = 0
    for number, row in enumerate(TABLE["tables"]["two layers"]["layers"]):
        m, k, n = row[3:6]
        operations = 2 * m * k * n
        rate = min(900 * operations // (2 * (m * k + k * n + m * n)), 125_000)
        whole += int(np.float32(operations) / np.float32(rate)) * (3 if number in (8, 17) else 4)
    assert run.result().compute_ns == whole


def test_remote_memory_has_its_own_roofline(files):
    local = _load(files, compat=True).table.layers[0].forward.compute_ns
    text = (files / "workload.txt").read_text()
    (files / "workload.txt").write_text(text.replace("17999994\t0\t", "17999994\t1\t", 1))
    layer = _load(files, compat=True).table.layers[0]
    # Remote memory computes at 10 TFLOPS of the 12.5 times faster local one's.
    assert layer.forward.compute_ns == pytest.approx(12.5 * local, rel=1e-6)
    assert layer.input_gradient.compute_ns == local


def test_without_a_roofline_the_tables_own_times_hold(files):
    _system(files / "plain.txt", {k: v for k, v in COUNTED.items() if "roofline" not in k})
    off = _system(files / "off.txt", {**COUNTED, "enable-roofline": "false"})
    for name in ("plain.txt", off.name):
        assert _load(files, system=name, compat=True).table.layers[0].forward.compute_ns == 17_999_994
    on = _system(files / "on.txt", COUNTED)
    assert _load(files, system=on.name, compat=True).table.layers[0].forward.compute_ns == 9_895_605
    # Without the fork's 32-bit floats, and with the checkpoints that this table has.
    text = (files / "workload.txt").read_text()
    head = (
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 128 checkpoints: 0 checkpoint_initiates: 0"
    )
    (files / "workload.txt").write_text("\n".join([head, *text.splitlines()[1:]]))
    exact = 2 * 131072 * 24576 * 192 / 125_000
    assert _load(files, system=on.name).table.layers[0].forward.compute_ns == round(exact)


def test_the_later_version_counts_operations_and_bytes(files):
    _system(files / "on.txt", COUNTED)
    (files / "workload.txt").write_text(
        "DATA\n1\nx -1 1.25e9 1000 7 NONE 0 9000 1000 7 NONE 0 0 0 7 ALLREDUCE 4096 1\n"
    )
    layer = _load(files, system="on.txt", compat=True).table.layers[0]
    # The peak; 900 bytes a nanosecond of 9 operations each, cut to whole nanoseconds; nothing.
    assert [part.compute_ns for part in layer.parts] == [10_000, 1, 0]
    assert [part.work for part in layer.parts] == [None] * 3


def test_gradients_overlap_as_in_the_fork_and_wait_as_before(files):
    inputs = _load(files, compat=True)
    waits = replace(inputs, table=replace(inputs.table, overlapped=False))
    times = []
    for each in (inputs, waits):
        run = LayerRun(each)
        run.go()
        times.append(run.result().time_ns)
    assert times[0] == CASE["time_ns"]
    # The weight gradient comes after, and so does what of its collective is not hidden.
    assert times[1] >= times[0] + inputs.table.layers[0].weight_gradient.compute_ns


@pytest.mark.parametrize("text", ["", "counted"])
def test_tables_are_written_as_they_are_read(text, files):
    if text:
        (files / "workload.txt").write_text("DATA\n1\nx -1 2.5 8 7 NONE 0 0 0 7 NONE 0 3 1 7 ALLREDUCE 4 1\n")
    table = read_layer_table(files / "workload.txt", compat=True)
    assert table.overlapped
    write_layer_table(table, files / "again.txt")
    assert replace(read_layer_table(files / "again.txt"), where=table.where) == table


@pytest.mark.parametrize(
    "change, message",
    [
        ({"roofline-bw-in-bytes-per-ns": "0"}, "the roofline must be greater than zero"),
        ({"roofline-bw-in-bytes-per-ns": "fast"}, "roofline-bw-in-bytes-per-ns is 'fast'; use a number"),
        ({"enable-roofline": "yes"}, "enable-roofline is 'yes'"),
        ({"remote-mem-roofline-bw": "100"}, "keys of both versions of rooflines"),
        ({"rofline-neg-y-intercept": "1"}, "unknown key 'rofline-neg-y-intercept'; did you mean"),
    ],
)
def test_rooflines_that_are_refused(change, message, files):
    _system(files / "bad.txt", {**COUNTED, **change})
    with pytest.raises(InputError, match=message):
        _load(files, system="bad.txt", compat=True)


@pytest.mark.parametrize(
    "before, after, message",
    [
        ("\t0\t131072", "\t2\t131072", "line 3: forward memory: 2 is out of range"),
        ("24576\t192\tNONE", "24576\t192.5\tNONE", "line 3: forward N: a whole number"),
        (
            "\tALLREDUCE\t9437184\t1",
            "\tALLREDUCE\t9437184\t1\t7",
            "line 3: '7' after the layer; a layer has 24",
        ),
        ("checkpoints: 2 0 9", "checkpoints: 2 0 9", "line 1: checkpoints names layer 9 of 1"),
    ],
)
def test_tables_that_are_refused(before, after, message, files):
    text = (files / "workload.txt").read_text()
    assert before in text
    (files / "workload.txt").write_text(text.replace(before, after, 1))
    with pytest.raises(InputError, match=message):
        _load(files)
