"""A fit keeps to physics, or says in one line why not: times grow with the size, and links bound them."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.cli import main
from astranb.collectives import Collective, algorithms
from astranb.core.errors import InputError
from astranb.explore import LogFit, fit_log, read_log
from astranb.explore.algorithms.link_bound import LinkBound
from astranb.explore.calibration import log_runs
from astranb.infragraph import resolve
from astranb.net import compile_fabric
from tests.explore.calibration.logs import HEAD, measured, row

SWITCH, BOXES = "switch:gpus=4", "single-tier:servers=2"
KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
# Kept below by arithmetic: each of four ranks sends 3/2 of the buffer at 50 GB/s; each of two boxes of
# eight NICs of 50 GB/s sends all of it.
BYTES_PER_US = {SWITCH: 50e3 / 1.5, BOXES: 400e3}


def log_file(folder: Path, times_us: dict[int, float], collective: str = "all_reduce") -> Path:
    file = folder / f"{collective}.txt"
    rows = "".join(row(size, -1, time_us) for size, time_us in times_us.items())
    file.write_text(f"# Collective test starting: {collective}_perf\n{HEAD}{rows}")
    return file


def check_physics(fit: LogFit, infra: str) -> None:
    rows = fit.rows.sort_values("size_bytes")
    times_us = rows["simulated_us"].tolist()
    assert times_us[0] > 0
    assert times_us == sorted(times_us)
    for size, time_us in zip(rows["size_bytes"].tolist(), times_us, strict=True):
        assert time_us >= size / BYTES_PER_US[infra] * (1 - 1e-9)
    assert all(number.after >= 0 for number in fit.numbers)
    assert any(not number.why_not for number in fit.numbers)
    assert fit.errors("fitted")[0] <= 0.3


@pytest.fixture(autouse=True)
def simulated_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keep what was simulated from one fit to the next: all are of two machines."""
    monkeypatch.setattr(log_runs.LogRuns, "_run", _run_once)


_really_run = log_runs.LogRuns._run
_runs: dict[Any, float] = {}


def _run_once(self: Any, row: Any, gpu: Any, protocol: str) -> float:
    key = self.infra.name, row.key, gpu, protocol, self._algorithm
    if key not in _runs:
        _runs[key] = _really_run(self, row, gpu, protocol)
    return _runs[key]


# A log whose largest sizes are faster than the links of 50 GB/s that it is fitted to.
FAST = {
    KIB: 20.1, 4 * KIB: 20.4, 16 * KIB: 21.0, 64 * KIB: 24.0, 256 * KIB: 30.0, MIB: 52.0, 16 * MIB: 420.0,
    GIB: 24000.0,
}  # fmt: skip


@pytest.mark.parametrize("up_to", ["4 KiB", "16 KiB", "32 KiB", "64 KiB"])
def test_small_runs_do_not_lead_beyond_the_links(tmp_path: Path, up_to: str) -> None:
    """The runs of 8 and 16 KiB differ by their latency: the line through both led to 6.6 ms for 1 GiB."""
    fit = fit_log(read_log(log_file(tmp_path, FAST)), SWITCH, like="h100-sxm", up_to=up_to)
    check_physics(fit, SWITCH)
    rows = fit.rows.set_index("size_bytes")
    assert rows.loc[[16 * MIB, GIB], "use"].tolist() == ["beyond the links"] * 2
    assert rows.loc[GIB, "links_us"] == pytest.approx(GIB / BYTES_PER_US[SWITCH])
    assert rows.loc[[MIB, GIB], "basis"].tolist() == ["links"] * 2
    assert fit.errors("fitted")[0] < 0.05
    assert fit.errors("kept aside")[0] < 0.05


def test_the_command_says_what_the_links_decide(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = ["gpu", "fit", str(log_file(tmp_path, FAST)), "--infra", SWITCH, "--like", "h100-sxm"]
    assert main([*command, "--up-to", "16KiB", "-o", str(tmp_path / "x.json")]) == 0
    out = capsys.readouterr().out
    assert "5 rows are at the bandwidth of the links: the runs of 8 KiB and 16 KiB are too small" in out
    assert "2 rows are faster than the links of switch:gpus=4 allow, and not used: all_reduce of 1 GiB" in out


def test_two_boxes_whose_runs_are_all_latency(tmp_path: Path) -> None:
    """Between boxes 128 and 256 KiB take the same time: the line through both fell."""
    times_us = {size: 60 + size / 200e3 for size in (KIB << power for power in range(0, 21, 2))}
    log = read_log(log_file(tmp_path, times_us))
    fit = fit_log(log, BOXES, like="h100-sxm", up_to="256 KiB", protocol="LL")
    check_physics(fit, BOXES)
    assert "links" in set(fit.rows["basis"])
    assert "padded" in set(fit.rows["basis"])  # 4 KiB takes longer than 16 KiB


_sizes = st.lists(st.sampled_from([1 << power for power in range(10, 51)]), min_size=1, max_size=14)


@st.composite
def _times(draw: st.DrawFn) -> dict[int, float]:
    """Times that a machine could have, or that are affine, noisy, falling, constant, anything, or few."""
    sizes = sorted(set(draw(_sizes)))
    kind = draw(st.sampled_from(["usual", "usual", "affine", "noisy", "falling", "constant", "any"]))
    start_us, rate = draw(st.floats(0.1, 1e3)), draw(st.floats(1e2, 1e6))
    noise = draw(st.lists(st.floats(0.3, 3), min_size=len(sizes), max_size=len(sizes)))
    usual = 25 + start_us / 20, draw(st.sampled_from([*BYTES_PER_US.values()])) * draw(st.floats(0.5, 1))
    times = {
        "usual": [
            (usual[0] + size / usual[1]) * factor**0.1 for size, factor in zip(sizes, noise, strict=True)
        ],
        "affine": [start_us + size / rate for size in sizes],
        "noisy": [(start_us + size / rate) * factor for size, factor in zip(sizes, noise, strict=True)],
        "falling": [start_us + 1e6 / (1 + at) for at in range(len(sizes))],
        "constant": [start_us] * len(sizes),
        "any": [start_us * factor**5 for factor in noise],
    }[kind]
    return {size: min(max(0.01, time_us), 1e9) for size, time_us in zip(sizes, times, strict=True)}


@settings(max_examples=30)
@given(_times(), st.sampled_from(["2 KiB", "4 KiB", "8 KiB"]), st.sampled_from([SWITCH, BOXES]))
@example(FAST, "8 KiB", SWITCH)
def test_a_fit_keeps_to_physics_or_fails(
    tmp_path_factory: pytest.TempPathFactory, times_us: dict[int, float], up_to: str, infra: str
) -> None:
    file = log_file(tmp_path_factory.mktemp("log"), times_us)
    try:
        fit = fit_log(read_log(file), infra, like="h100-sxm", up_to=up_to, protocol="LL")
    except InputError as failed:
        if "\n" in str(failed) or not failed.hint:
            raise
    else:
        check_physics(fit, infra)


@pytest.mark.parametrize(
    "times_us, more, said",
    [
        ({KIB << at: 3000 / (1 + at) for at in range(8)}, [], "these rows determine no number"),
        ({KIB * at: 20 + 60.0 * (at % 2) for at in range(1, 9)}, [], "these rows determine no number"),
        ({KIB: 20.0, 2 * KIB: 21.0}, [], "only 2 sizes"),
        ({MIB << at: 1.0 for at in range(8)}, [], "its bytes alone take"),
        ({KIB * at: 200 + 800.0 * (at % 2) for at in range(1, 41)}, [], "the best fit leaves rows"),
        (FAST, ["--up-to", "1"], "runs of 1 and 0 B tell nothing of larger sizes"),
    ],
    ids=["falling", "alternating", "few", "too fast", "noisy", "no run"],
)
def test_a_fit_that_fails_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], times_us: dict[int, float], more: list[str], said: str
) -> None:
    file, out = log_file(tmp_path, times_us), tmp_path / "x.json"
    command = ["gpu", "fit", str(file), "--infra", SWITCH, "--like", "h100-sxm", "-o", str(out), *more]
    assert main(command) == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1
    assert not out.exists()


def test_a_preset_that_is_right_already_is_confirmed(tmp_path: Path) -> None:
    """A number that the rows determine, and that does not move, was called too vague."""
    gpu = anb.gpu.preset("h100-sxm")
    file = tmp_path / "log.txt"
    sizes = [KIB << power for power in range(2, 11)]
    file.write_text(
        measured(SWITCH, "all_reduce", sizes, gpu=gpu, outside_us=gpu.launch_ps / 1e6, protocol="LL")
    )
    fit = fit_log(read_log(file), SWITCH, like=gpu, protocol="LL")
    found = {number.number: number for number in fit.numbers}
    for name in ("launch_ps", "header_bytes"):
        assert not found[name].why_not
        assert found[name].after == pytest.approx(getattr(gpu, name), rel=0.01)


@cache
def _bound(infra: str) -> LinkBound:
    return LinkBound.of(compile_fabric(resolve(infra).expand()))


@pytest.mark.parametrize(
    "infra, collective, root, seconds",
    [
        ("dgx-h100", "all_reduce", 0, 2 * 7 / 8 / 450e9),  # 18 NVLinks of 25 GB/s, not PCIe besides
        ("dgx-h100", "all_gather", 0, 7 / 8 / 450e9),
        ("dgx-h100", "scatter", 5, 7 / 8 / 450e9),
        ("dgx-h100", "broadcast", 5, 1 / 450e9),
        (BOXES, "all_to_all", 0, 8 * 8 / 16 / 400e9),  # eight ranks send half of their buffers
        (BOXES, "reduce_scatter", 0, 15 / 16 / (450e9 + 63.015e9)),
        (BOXES, "gather", 9, 15 / 16 / (450e9 + 63.015e9)),
        (BOXES, "send_recv", 0, 1 / 400e9),
    ],
)
def test_the_bound_is_that_of_the_arithmetic(infra: str, collective: str, root: int, seconds: float) -> None:
    found = _bound(infra).least_us(collective, GIB, root)
    assert found == pytest.approx(GIB * seconds * 1e6, rel=1e-3)


@pytest.mark.parametrize("infra", [SWITCH, "dgx-h100", "ring:gpus=4"])
def test_no_algorithm_is_faster_than_the_bound(infra: str) -> None:
    closest = 0.0
    for kind in algorithms():
        if kind.collective in ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "all_to_all"):
            if infra.startswith("ring") and (kind.name.startswith(("switch", "nvls")) or "_mc" in kind.name):
                continue  # needs a switch
            wanted = Collective.of(kind.collective, 256 * KIB, kind.name)
            sim = anb.Simulation(infra, wanted, gpu="h100-sxm", record=False, checkpoint_bytes=0)
            sim.run()
            in_switch = bool(sim.engine.program.ops["in_switch"].any())
            least_us = _bound(infra).least_us(kind.collective, 256 * KIB, in_switch=in_switch)
            assert least_us * 1e6 <= sim.now_ps, kind.name
            closest = max(closest, least_us * 1e6 / sim.now_ps)
    assert closest > 0.1
