"""``astranb traffic``: what it prints, what it refuses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from astranb.cli import main
from astranb.traffic import TARGETS

_PLAN = ["--dp", "2", "--tp", "2", "--pp", "2", "--batch", "4", "--microbatches", "2"]
_MODEL = ["model", "gpt3-125m", *_PLAN]


@pytest.fixture(scope="module")
def pattern(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("traffic") / "step.parquet"
    assert main(["traffic", "record", *_MODEL, "--seq", "64", "-o", str(file)]) == 0
    return file


def _document(capsys: pytest.CaptureFixture[str], *arguments: str) -> Any:
    capsys.readouterr()
    assert main(["traffic", *arguments, "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def _error(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    capsys.readouterr()
    assert main(["traffic", *arguments]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert len(printed.err.splitlines()) == 1
    return printed.err


def test_from_a_profile_to_a_replay(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    profile, file = str(tmp_path / "job.json"), str(tmp_path / "job.parquet")
    assert _document(capsys, "profile", "--model", *_MODEL[1:], "--seq", "64", "-o", profile)["ranks"] == 8
    recorded = _document(capsys, "record", "profile", profile, "-o", file)
    assert recorded["files"] == [file]
    assert (recorded["ranks"], recorded["classes"]) == (8, 2)
    direct = _document(capsys, "record", *_MODEL, "--seq", "64", "-o", str(tmp_path / "direct.parquet"))
    kept = ("messages", "bytes", "time_ps", "templates")
    assert [recorded[name] for name in kept] == [direct[name] for name in kept]
    replayed = _document(capsys, "replay", file, "--infra", "dgx-h100")
    assert replayed["recorded_ps"] == recorded["time_ps"]
    assert replayed["ratio"] == replayed["time_ps"] / recorded["time_ps"]
    shown = _document(capsys, "show", file)
    assert (shown["messages"], shown["bytes"]) == (recorded["messages"], recorded["bytes"])


def test_a_run_and_a_replay_of_it_agree(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["collective", "all_reduce", "--infra", "dgx-h100", "--size", "1MiB", "--algorithm", "ring"]
    file = str(tmp_path / "ring.parquet")
    assert main(["run", *run, "--fidelity", "congestion", "--json"]) == 0
    ran = json.loads(capsys.readouterr().out)
    recorded = _document(capsys, "record", *run, "--fidelity", "congestion", "-o", file)
    assert recorded["time_ps"] == ran["time_ps"]
    assert _document(capsys, "replay", file, "--infra", "dgx-h100")["time_ps"] == ran["time_ps"]


@pytest.mark.parametrize("target", TARGETS)
def test_every_target_is_written(
    target: str, pattern: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / f"out{TARGETS[target].suffix}")
    done = _document(capsys, "translate", str(pattern), "--to", target, "-o", out)
    shown = _document(capsys, "show", str(pattern))
    assert done["messages"] == shown["messages"]
    assert all(Path(file).stat().st_size > 0 for file in done["files"])


def test_targets_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["target"] for row in _document(capsys, "translate", "--list")] == list(TARGETS)


def test_what_was_translated_is_traffic(
    pattern: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    goal = str(tmp_path / "step.goal")
    _document(capsys, "translate", str(pattern), "--to", "goal", "-o", goal)
    replayed = _document(capsys, "replay", goal, "--infra", "dgx-h100")
    assert replayed["time_ps"] == _document(capsys, "replay", str(pattern), "--infra", "dgx-h100")["time_ps"]


def test_an_algorithm_of_ones_own(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.py").write_text(
        "def star(p):\n"
        "    came = [p.semaphore(rank) for rank in range(p.ranks)]\n"
        "    for rank in range(p.ranks):\n"
        "        block = p.block(rank)\n"
        "        for other in p.others(rank):\n"
        "            block.put(p.input(rank)[0], p.output(other)[rank])\n"
        "            block.signal(came[other])\n"
        "        block.copy(p.input(rank)[0], p.output(rank)[rank])\n"
        "        block.wait(came[rank], p.ranks - 1)\n"
    )
    run = ["collective", "all_gather", "--infra", "switch:gpus=4", "--size", "64KiB", "--algorithm", "ring"]
    use = f"all_gather={tmp_path / 'mine.py'}:star"
    file = str(tmp_path / "star.parquet")
    recorded = _document(capsys, "record", *run, "--use", use, "-o", file)
    assert recorded["bytes"] == 3 * (64 << 10)
    assert recorded["assumptions"]["all_gather"].startswith("star")
    assert {row["algorithm"] for row in _document(capsys, "show", file)["operations"]} == {"star"}


@pytest.mark.parametrize(
    "arguments, error",
    [
        (["record", *_MODEL], "nothing to write"),
        (["record", "model", "gpt3-125m", "--dp", "2", "--ep", "3", "-o", "x.parquet"], "3"),
        (["record", "model", "gpt3-175b", "-o", "x.parquet"], "memory"),
        (["record", *_MODEL, "--use", "all_reduce", "-o", "x.parquet"], "--use"),
        (["record", *_MODEL, "--use", "all_reduce=rings", "-o", "x.parquet"], "rings"),
        (["record", *_MODEL, "--fidelity", "cacheline", "-o", "x.parquet"], "cacheline"),
        (["record", "profile", "job.json", "--dp", "2"], "unknown option --dp"),
        (["show", "nowhere.parquet"], "nowhere.parquet"),
        (["translate", "FILE", "--to", "gaol"], "did you mean 'goal'"),
        (["translate", "FILE"], "traffic translate: --to is missing; --list names"),
        (["translate", "FILE", "--to", "goal", "--set", "speed"], "NAME=VALUE"),
        (
            ["translate", "FILE", "--to", "goal", "--set", "speed=3"],
            "--set: goal has no option 'speed'; known: time_unit",
        ),
        (["replay", "FILE"], "the network is missing; give --infra, or --network FILE"),
        (["replay", "FILE", "--infra", "switch:gpus=4"], "8 ranks on a network of 4 NPUs"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    error: str,
    pattern: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "job.json").write_text("{}")
    assert error in _error(capsys, *(str(pattern) if word == "FILE" else word for word in arguments))
    assert not (tmp_path / "x.parquet").exists()


def test_messages_without_an_end_and_cycles_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "bad.goal"
    file.write_text("num_ranks 2\nrank 0 {\nl1: send 8b to 1\n}\nrank 1 {\n}\n")
    assert "rank 0 sends" in _error(capsys, "replay", str(file), "--infra", "switch:gpus=2")
    file.write_text(
        "num_ranks 2\nrank 0 {\nl1: recv 8b from 1\nl2: send 8b to 1\nl2 requires l1\n}\n"
        "rank 1 {\nl1: recv 8b from 0\nl2: send 8b to 0\nl2 requires l1\n}\n"
    )
    assert "cycle" in _error(capsys, "translate", str(file), "--to", "htsim", "-o", str(tmp_path / "x.cm"))
    assert main(["traffic", "replay", str(file), "--infra", "switch:gpus=2"]) == 3
