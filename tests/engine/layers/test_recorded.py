"""Every recorded run of ASTRA-sim 1.0 gives the same nanoseconds, bytes, dollars and layers."""

import gzip
import json
from pathlib import Path

import pytest

from astranb.cli import main
from astranb.engine.layers import LayerRun
from astranb.engine.stops import ENDED
from astranb.workload.astrasim1 import load

TABLE = json.loads(gzip.decompress((Path(__file__).parents[2] / "data" / "astrasim1.json.gz").read_bytes()))
CASES = TABLE["cases"]
SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "reference" / "astrasim1" / "workload"
TUTORIAL = SAMPLES.parents[1] / "asplos2022"
OWN = [case for case in CASES if "sample" not in case["workload"]]
SAMPLED = [case for case in CASES if "sample" in case["workload"]]


def _workload(case, folder, tables):
    """Write the case's layer table, or find the sample that it ran."""
    workload = case["workload"]
    if "sample" in workload:
        return SAMPLES / f"{workload['sample']}.txt"
    file = folder / "workload.txt"
    if "micro" in workload:
        collective, size = workload["micro"]
        file.write_text(f"MICRO\n1\nx -1 1 NONE 0 1 NONE 0 1 {collective} {size} 1\n")
    else:
        table = tables["tables"][workload["table"]]
        rows = ["\t".join(map(str, [row[0], -1, *row[1:]])) for row in table["layers"]]
        head = workload.get("loop", table["head"])
        file.write_text("\r\n".join([head, str(len(rows)), *rows]))
    return file


def run_of(case, folder, tables=TABLE):
    """Make a run of a case's inputs, at its start."""
    (folder / "network.json").write_text(json.dumps(tables["networks"][case["network"]]))
    system = tables["systems"][case["system"]]
    (folder / "system.txt").write_text("".join(f"{key}: {value}\n" for key, value in system.items()))
    flags = case["flags"]
    inputs = load(
        _workload(case, folder, tables),
        folder / "system.txt",
        folder / "network.json",
        compute_scale=flags.get("compute-scale", 1),
        comm_scale=flags.get("comm-scale", 1),
        passes=flags.get("num-passes", 1),
        compat=True,
    )
    return LayerRun(inputs)


def _run(case, folder):
    run = run_of(case, folder)
    assert run.go() == ENDED
    return run.result()


def differences(case, result):
    """Return the recorded figures that differ."""
    here = {
        "time_ns": result.time_ns,
        "compute_ns": result.compute_ns,
        "exposed_ns": result.exposed_ns,
        "message_MiB": f"{result.message_bytes / 2**20:.6f}",
        "layers_ns": (result.layers // 1000).tolist(),
        "dims_MiB": [f"{size / 2**20:.6f}" for size in result.bytes_per_dim],
        "cost": result.cost_dollars,
    }
    return [f"{case['name']}: {key}" for key, value in here.items() if case.get(key, value) != value]


def _all_exact(cases, folder, capsys, what):
    wrong = [difference for case in cases for difference in differences(case, _run(case, folder))]
    with capsys.disabled():
        print(f"\n{what}: exact {len(cases) - len({w.split(':')[0] for w in wrong})} of {len(cases)}")
    assert wrong == []


@pytest.mark.reference
def test_recorded_runs_are_exact(tmp_path, capsys):
    assert len(OWN) == 99
    _all_exact(OWN, tmp_path, capsys, "ASTRA-sim 1.0")


@pytest.mark.reference
@pytest.mark.skipif(not SAMPLES.is_dir(), reason="the shared folder with ASTRA-sim 1.0's samples is not here")
def test_recorded_runs_of_the_sample_workloads_are_exact(tmp_path, capsys):
    assert len(SAMPLED) == 42
    _all_exact(SAMPLED, tmp_path, capsys, "ASTRA-sim 1.0's samples")


@pytest.mark.parametrize("name", ["asplos2022/1", "asplos2022/3/gpt3-dgx2", "asplos2022/4/reorder"])
def test_a_difference_would_be_seen(name, tmp_path):
    case = next(case for case in OWN if case["name"] == name)
    result = _run(case, tmp_path)
    assert differences(case, result) == []
    for key in ("time_ns", "layers_ns", "cost"):
        assert differences({**case, key: None}, result) == [f"{name}: {key}"]


@pytest.mark.reference
@pytest.mark.skipif(not TUTORIAL.is_dir(), reason="the shared folder with the tutorial's results is not here")
@pytest.mark.parametrize("exercise", ["collectives", "message_sizes"])
def test_tables_of_the_tutorial_are_the_same_byte_by_byte(exercise, tmp_path, capsys):
    place = TUTORIAL / "exercise_2"
    runs = [("Ring", 1024), ("Switch", 1024), ("FullyConnected", 1024)]
    if exercise == "message_sizes":
        runs = [("Ring", 2**power) for power in range(11)]
    for row, (kind, scale) in enumerate(runs):
        command = [
            *("run", "trace", "--compat=astrasim1", f"--path={tmp_path}", f"--comm-scale={scale}"),
            f"--run-name={kind if exercise == 'collectives' else scale}",
            *(f"--total-stat-rows={len(runs)}", f"--stat-row={row}"),
            f"--workload-configuration={place / 'inputs' / 'all_reduce.txt'}",
            f"--system-configuration={place / 'inputs' / f'{kind.lower()}.txt'}",
            f"--network-configuration={place / 'inputs' / f'{kind.lower()}.json'}",
        ]
        assert main(command) == 0
    capsys.readouterr()
    for name in ("EndToEnd.csv", "backend_end_to_end.csv", "tutorial_result.csv"):
        assert (tmp_path / name).read_bytes() == (place / f"result_{exercise}" / name).read_bytes()
