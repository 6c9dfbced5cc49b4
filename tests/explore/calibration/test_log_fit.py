"""``gpu fit`` recovers the numbers of the machine whose log it reads."""

import json

import pytest

import astranb as anb
from astranb.cli import main
from astranb.explore import fit_log, joined_logs, read_log
from tests.explore.calibration.logs import measured

TRUTH = {"header_bytes": 32, "fence_ps": 1_500_000}
SIZES = [1 << power for power in range(10, 21, 2)]
INFRA = "switch:gpus=4"


def log_of(tmp_path, protocols=("Simple",), collectives=("all_reduce", "all_gather"), outside_us=9.0):
    gpu = anb.gpu.preset("h100-sxm").but(**TRUTH)
    files = []
    for collective in collectives:
        for protocol in protocols:
            file = tmp_path / f"{collective}-{protocol}.txt"
            text = measured(INFRA, collective, SIZES, gpu=gpu, outside_us=outside_us, protocol=protocol)
            file.write_text(text)
            files.append(file)
    return files


def test_numbers_of_a_simulated_machine_are_recovered(tmp_path):
    log = joined_logs([read_log(file) for file in log_of(tmp_path)])
    fit = fit_log(log, INFRA, like="h100-sxm", name="mine", protocol="Simple")
    assert fit.preset.name == "mine"
    assert fit.preset.launch_ps == pytest.approx(9e6, rel=0.02)
    assert fit.preset.header_bytes == pytest.approx(32, abs=3)
    assert fit.preset.fence_ps == pytest.approx(1.5e6, rel=0.02)
    assert fit.preset.sources["fence_ps"].source.startswith("to a log (all_reduce-Simple.txt")
    assert fit.preset.sources["sms"].source.startswith("not fitted, as h100-sxm")
    for use in ("fitted", "kept aside"):
        mean, worst = fit.errors(use)
        assert mean < 0.01
        assert worst < 0.03
        assert fit.errors(use, "before_us")[0] > 0.2
    # The rows of the fit are what the new preset gives when it is run.
    exact = fit.rows[fit.rows["exact"] & (fit.rows["collective"] == "all_reduce")].iloc[-1]
    collective = anb.collectives.all_reduce(int(exact["size_bytes"]), "ring")
    sim = anb.Simulation(INFRA, collective, gpu=fit.preset, launch=fit.launch, record=False)
    sim.run()
    assert sim.now_ps / 1e6 == pytest.approx(exact["simulated_us"], abs=1e-6)
    aside = fit.rows[fit.rows["use"] == "kept aside"]
    assert set(aside["size_bytes"]) == {SIZES[1], SIZES[4]}


def test_large_sizes_are_on_a_line_through_exact_runs(tmp_path):
    file = tmp_path / "log.txt"
    sizes = [1 << power for power in range(16, 24)]
    gpu = anb.gpu.preset("h100-sxm")
    file.write_text(measured(INFRA, "all_gather", sizes, gpu=gpu, protocol="Simple", channels=4))
    fit = fit_log(read_log(file), INFRA, like=gpu, protocol="Simple", channels=4, up_to="2 MiB")
    rows = fit.rows.set_index("size_bytes")
    assert not rows.loc[[4 << 20, 8 << 20], "exact"].any()
    assert rows.loc[: 2 << 20, "exact"].all()
    # The log is of the same machine without a launch: four times beyond the exact runs the line is 8 % off
    off = (rows["before_us"] - gpu.launch_ps / 1e6) / rows["measured_us"] - 1
    assert off.abs().max() < 0.1


def test_what_the_rows_do_not_determine_stays_as_it_was(tmp_path):
    (file,) = log_of(tmp_path, protocols=("LL",), collectives=("all_gather",))
    fit = fit_log(read_log(file), INFRA, like="h100-sxm", protocol="LL", up_to="64 KiB")
    fence = next(number for number in fit.numbers if number.number == "fence_ps")
    assert fence.why_not == "no row depends on it"
    assert fence.before == fence.after == fit.preset.fence_ps == anb.gpu.preset("h100-sxm").fence_ps


def test_small_messages_alone_do_not_tell_a_fence_from_the_time_outside(tmp_path):
    gpu = anb.gpu.preset("h100-sxm").but(**TRUTH)
    file = tmp_path / "log.txt"
    sizes = [256, 512, 1024, 2048, 4096, 8192]
    file.write_text(measured(INFRA, "all_reduce", sizes, gpu=gpu, outside_us=9.0, protocol="Simple"))
    fit = fit_log(read_log(file), INFRA, like="h100-sxm", protocol="Simple")
    reasons = {number.number: number.why_not for number in fit.numbers}
    assert reasons["fence_ps"] == "these rows cannot tell it from launch_ps"
    assert reasons["header_bytes"] == "no row depends on it"


def test_the_command(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (file,) = log_of(tmp_path, protocols=("LL",), collectives=("all_gather",))
    command = ["gpu", "fit", str(file), "--infra", INFRA, "--like", "h100-sxm", "--protocol", "LL"]
    assert main([*command, "--up-to", "64KiB", "--name", "mine"]) == 0
    out = capsys.readouterr().out
    assert "wrote mine to mine.preset.json; use it with --gpu mine.preset.json --launch stream" in out
    assert "fence_ps      a system-wide fence" in out
    assert "kept aside" in out
    assert anb.gpu.preset("mine.preset.json").launch_ps == pytest.approx(9e6, rel=0.1)
    assert main([*command, "--up-to", "64KiB", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["numbers"][0]["number"] == "launch_ps"
    assert document["errors"]["kept aside"]["mean"] < 0.1


@pytest.mark.parametrize(
    "infra,more,expected",
    [
        ("switch:gpus=8", [], "a log of 4 ranks, but switch has 8 GPUs"),
        (INFRA, ["--protocol", "LL256"], "LL256"),
        (INFRA, ["--algorithm", "rign"], "rign"),
        (INFRA, ["--up-to", "lots"], "--up-to"),
        (INFRA, ["--collective", "all_reduec"], "did you mean"),
        (INFRA, ["--name", "a/b"], "--name"),
    ],
)
def test_what_cannot_be_fitted_gets_one_line(tmp_path, capsys, infra, more, expected):
    file = tmp_path / "log.txt"
    file.write_text(measured(INFRA, "all_gather", SIZES))
    assert main(["gpu", "fit", str(file), "--infra", infra, "--output", str(tmp_path / "x.json"), *more]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1


def test_a_log_of_another_gpu(tmp_path, capsys):
    file = tmp_path / "log.txt"
    file.write_text(measured("mi300x", "all_gather", SIZES[:3]))  # devices are named H100
    assert main(["gpu", "fit", str(file), "--infra", "mi300x"]) == 2
    assert "a log of NVIDIA H100 80GB HBM3, but mi300x-infra has mi300x" in capsys.readouterr().err
