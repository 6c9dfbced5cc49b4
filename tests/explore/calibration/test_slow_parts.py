"""``gpu diagnose`` finds a slow part of a machine from the table alone."""

import random

import pytest

from astranb.cli import main
from astranb.explore import diagnose, joined_logs, read_log
from tests.explore.calibration.logs import measured

SIZE = 1 << 19


def rooted_log(folder, infra, ranks, edits, *, seed=0, size=SIZE):
    """Scatter and gather with every root, with 0.3 % of noise and 8 us outside the kernels."""
    rng = random.Random(seed)
    files = []
    for collective in ("scatter", "gather"):
        file = folder / f"{collective}.txt"
        noise = lambda: rng.gauss(0, 0.003)  # noqa: E731
        text = measured(infra, collective, [size], range(ranks), edits=edits, outside_us=8.0, noise=noise)
        file.write_text(text.replace("H100 80GB HBM3", "GPU"))
        files.append(file)
    return files


@pytest.mark.parametrize(
    "seed", [0, 5, 9, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3, 4, 6, 7, 8))]
)
def test_it_finds_a_link_slowed_at_random(tmp_path, seed):
    links = sorted(f"mi300x.0.xpu.{a}->mi300x.0.xpu.{b}" for a in range(8) for b in range(8) if a != b)
    slow = random.Random(seed).choice(links)
    files = rooted_log(tmp_path, "mi300x", 8, [(f"{slow}.bandwidth", "28125 MB/s")], seed=seed)
    found = diagnose(joined_logs([read_log(file) for file in files]), "mi300x")
    assert found.explained
    assert found.suspects[0].name == slow
    assert found.suspects[0].alike == ()
    assert found.suspects[0].factor == pytest.approx(0.5, abs=0.1)
    assert found.suspects[0].error < 0.01 < found.healthy


def test_a_healthy_machine_has_no_suspect(tmp_path, capsys):
    files = rooted_log(tmp_path, "switch:gpus=4", 4, [])
    assert main(["gpu", "diagnose", *map(str, files), "--infra", "switch:gpus=4"]) == 0
    assert "nothing is slow" in capsys.readouterr().out


def test_one_table_of_an_all_reduce_does_not_tell_links_of_a_ring_apart(tmp_path):
    slow = "box.0.gpu.1->box.0.sw.0"
    sizes = [1 << 15, 1 << 16, 1 << 17, 1 << 18]
    half = [(f"{slow}.bandwidth", "22500 MB/s")]
    text = measured("switch:gpus=4", "all_reduce", sizes, edits=half, protocol="Simple")
    file = tmp_path / "log.txt"
    file.write_text(text.replace("H100 80GB HBM3", "GPU"))
    found = diagnose(read_log(file), "switch:gpus=4", protocol="Simple")
    first = found.suspects[0]
    assert slow in (first.name, *first.alike)
    assert len(first.alike) >= 3
    assert "_perf -r" in found.next
    assert not found.by_root


def test_a_slow_rank_is_named_beside_its_cable(tmp_path):
    links = ["box.0.gpu.2->box.0.sw.0", "box.0.sw.0->box.0.gpu.2"]
    edits = [(f"{link}.bandwidth", "25 GB/s") for link in links]
    files = rooted_log(tmp_path, "switch:gpus=4", 4, edits)
    first = diagnose(joined_logs([read_log(file) for file in files]), "switch:gpus=4").suspects[0]
    assert first.kind == "cable"
    assert "rank 2, all links" in first.alike


@pytest.mark.parametrize(
    "infra,text,expected",
    [
        ("switch:gpus=8", None, "a log of 4 ranks, but switch has 8 GPUs"),
        ("switch:gpus=4", "short", "only 1 rows to compare"),
    ],
)
def test_what_cannot_be_compared(tmp_path, capsys, infra, text, expected):
    sizes = [1 << 12] if text else [1 << k for k in range(10, 15)]
    file = tmp_path / "log.txt"
    file.write_text(measured("switch:gpus=4", "all_reduce", sizes).replace("H100 80GB HBM3", "GPU"))
    assert main(["gpu", "diagnose", str(file), "--infra", infra]) == 2
    err = capsys.readouterr().err
    assert expected in err
    assert err.count("\n") == 1
