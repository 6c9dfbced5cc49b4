"""The files of GPUs are as `fit` writes them from the published timings."""

from __future__ import annotations

import json

import pytest

from astranb.cli import main
from astranb.hardware import GPUS, gpu_named, read_gpu
from astranb.hardware.reader import FOLDER, write_device_file
from scripts.fit_gpus import TIMINGS, fitted, timings

ROWS = timings()


MANY_ROWS = ("h100-sxm", "b200-sxm", "gb200", "gb300")
EACH = [pytest.param(name, marks=[pytest.mark.slow] * (name in MANY_ROWS)) for name in GPUS]


@pytest.mark.parametrize("name", EACH)
def test_a_fit_gives_the_same_bytes(name, tmp_path):
    write_device_file(fitted(name, ROWS), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (FOLDER / "gpus" / f"{name}.json").read_bytes()


def test_every_file_is_as_it_would_be_written(tmp_path):
    """A line for each number, also where no timings are."""
    for path in (FOLDER / "gpus").glob("*.json"):
        write_device_file(json.loads(path.read_text("utf-8")), tmp_path / "again.json")
        assert (tmp_path / "again.json").read_text("utf-8") == path.read_text("utf-8"), path.name


def test_what_fits_best_can_be_taken():
    document = fitted("mi300x", ROWS, take=True)
    before = json.loads((FOLDER / "gpus" / "mi300x.json").read_text("utf-8"))
    changed = document["kernels"]["matrices"]
    assert changed["value"] != before["kernels"]["matrices"]["value"]
    said = before["kernels"]["matrices"]["source"]
    assert all(
        f"{name}: " in said and f"by {value:g}" in said
        for name, value in changed["value"].items()
        if name != "fp16"
    )
    assert document["kernels"]["half_keys"] == before["kernels"]["half_keys"]  # no rows decide it
    assert document["machine"] == before["machine"]


def test_the_command_writes_a_file_from_timings(tmp_path, capsys):
    table, path = tmp_path / "mine.csv", tmp_path / "mine.json"
    lines = (TIMINGS / "aiter.csv").read_text("utf-8").splitlines()
    table.write_text("\n".join(["# sms: 300", "# memory_GBps: 5000", *lines]) + "\n")
    command = ["gpu", "from", str(table), "--like", "mi300x", "--name", "mine", "--output", str(path)]
    assert main([*command, "--json"]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert {row["number"]: row["kind"] for row in printed["numbers"]} == {
        "sms": "measured", "hbm_Bps": "measured", "matrices.bf16": "fitted", "matrices.fp16": "fitted",
        "matrices.fp8": "fitted", "feed": "fitted", "kernel_ns": "fitted",
    }  # fmt: skip
    mine, usual = gpu_named(path), gpu_named("mi300x")
    assert (mine.sms, mine.memory_Bps) == (300, 5 * 10**12)
    assert mine.matrices != usual.matrices
    assert (mine.attention, mine.host, mine.peaks) == (usual.attention, usual.host, usual.peaks)
    assert "rows, mean error" in mine.fitted
    assert read_gpu(path).preset.sms == 300
    before = path.read_bytes()
    assert main(command) == 0
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["none.csv"], "none.csv: No such file"),
        (
            [str(TIMINGS / "aiter.csv"), "--like", "mi300x", "--infra", "mi300x"],
            "--infra: timings of kernels cross no",
        ),
        ([str(TIMINGS / "aiter.csv"), "--like", "generic"], "no GPU 'generic' for a model"),
        ([str(TIMINGS / "vllm.csv"), "--like", "mi300x"], "none of mi300x"),
    ],
)
def test_bad_input_is_one_line(arguments, message, capsys):
    assert main(["gpu", "from", *arguments]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert message in err


def test_an_own_file_is_no_shipped_gpu_by_its_name(tmp_path, capsys):
    path = tmp_path / "h100-sxm.yaml"
    path.write_text("format: astranb-gpu\nversion: 1\nlike: h100-sxm\nmachine: {sms: 66}\n")
    assert main(["gpu", "from", str(TIMINGS / "aiter.csv"), "--like", str(path)]) == 2
    assert f"{path} is not a shipped GPU; give the name of one" in capsys.readouterr().err
