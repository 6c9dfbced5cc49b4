"""The command line: exit codes, one clear line, one JSON document."""

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from astranb.cli import main

RUN = ["run", "collective", "all_reduce", "--infra", "dgx-h100"]


def test_a_run_as_json(capsys):
    assert main([*RUN, "--size", "64KiB", "--algorithm", "ring", "--json"]) == 0
    out, err = capsys.readouterr()
    assert err == ""
    said = json.loads(out)
    assert said["time_ps"] > 0
    assert said["busbw_GBps"] == pytest.approx(1.75 * said["algbw_GBps"])
    assert said["algbw_GBps"] == pytest.approx(65536 / said["time_ps"] * 1e3)
    assert [row["rank"] for row in said["per_rank"]] == list(range(8))
    assert max(row["end_ps"] for row in said["per_rank"]) == said["time_ps"]
    assert sum(said["breakdown"].values()) == pytest.approx(1)
    assert len(said["state_hash"]) == 32


@pytest.mark.parametrize("algorithm", ["ring", "allpairs", "allpairs_oneshot"])
def test_the_same_hash_twice(capsys, algorithm):
    hashes = []
    for _ in range(2):
        assert main([*RUN, "--size", "16KiB", "--algorithm", algorithm, "--json"]) == 0
        hashes.append(json.loads(capsys.readouterr().out)["state_hash"])
    assert hashes[0] == hashes[1]


def test_text_for_a_person(capsys):
    assert main([*RUN, "--size", "4KiB", "--explain"]) == 0
    out = capsys.readouterr().out
    assert "busbw" in out
    assert "Assumed" in out


def test_save(tmp_path, capsys):
    assert main([*RUN, "--size", "4KiB", "--save", str(tmp_path / "run"), "--json"]) == 0
    import astranb as anb

    assert (
        anb.Simulation.load(tmp_path / "run").state_hash()
        == json.loads(capsys.readouterr().out)["state_hash"]
    )


@pytest.mark.parametrize(
    "arguments,says",
    [
        ([*RUN, "--size", "1 MX"], "unknown size unit"),
        ([*RUN, "--size", "-5"], "negative"),
        ([*RUN, "--size", "-1MiB"], "negative"),
        ([*RUN, "--size", "1PiB"], "memory"),
        ([*RUN, "--size", "0"], "at least 1 B"),
        ([*RUN, "--size", "1KiB", "--algorithm", "rign"], "did you mean 'ring'"),
        ([*RUN, "--size", "1KiB", "--gpu", "h100-smx"], "did you mean 'h100-sxm'"),
        ([*RUN, "--size", "1KiB", "--fidelity", "exact"], "fidelity"),
        ([*RUN, "--size", "1TiB"], "memory"),
        ([*RUN, "--size", "1KiB", "--channels", "0"], "channels"),
        ([*RUN, "--size", "1KiB", "--channels", "many"], "--channels"),
        (
            ["run", "collective", "all_reduce", "--infra", "dgx-h10", "--size", "1"],
            "did you mean 'dgx-h100'",
        ),
        (["run", "collective", "all_reduce", "--infra", "nowhere.yaml", "--size", "1"], "nowhere.yaml"),
        (["run", "collective", "all_redcue", "--infra", "dgx-h100", "--size", "1"], "did you mean"),
        (
            ["run", "collective", "all_reduce", "--infra", "switch:gpus=1", "--size", "1"],
            "at least 2 ranks",
        ),
        (["run"], "run: WHAT is missing; give one of collective, exchange, model, trace, jobs"),
        (["fly"], "unknown command 'fly'"),
        ([], "COMMAND is missing; give one of run, "),
        (["infra", "show", "/etc"], "/etc"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(arguments, says, capsys):
    assert main(arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("astranb: ")
    assert "astranb: astranb" not in err
    assert err.count("\n") == 1
    assert says in err


def test_gpus_without_a_route_are_named(tmp_path, capsys):
    document = {
        "name": "islands",
        "devices": [{"name": "d", "components": [{"name": "gpu", "count": 1, "choice": "xpu"}]}],
        "instances": [{"name": "island", "device": "d", "count": 2}],
    }
    path = tmp_path / "islands.json"
    path.write_text(json.dumps(document))
    arguments = ["run", "collective", "all_reduce", "--infra", str(path), "--size", "1KiB"]
    assert main(arguments) == 2
    err = capsys.readouterr().err
    assert "no route from island." in err
    assert "island.0.gpu.0" in err
    assert "island.1.gpu.0" in err


_MINE = """
def stuck(p):
    gates = [p.semaphore(r) for r in range(p.ranks)]
    for r in range(p.ranks):
        block = p.block(r)
        block.wait(gates[r])
        block.signal(gates[(r + 1) % p.ranks])

def wrong(p):
    for r in range(p.ranks):
        for c in range(p.output_chunks):
            p.block(r).copy(p.input(r)[c], p.output(r)[c])

def broken(p):
    raise ValueError("no idea")
"""


@pytest.mark.parametrize(
    "name,code,says",
    [
        ("stuck", 3, "deadlock"),
        ("wrong", 4, "the contribution of rank 1"),
        ("broken", 2, "no idea"),
        ("wrnog", 2, "did you mean 'wrong'"),
    ],
)
def test_an_algorithm_of_ones_own(tmp_path, capsys, name, code, says):
    file = tmp_path / "mine.py"
    file.write_text(_MINE)
    assert main([*RUN, "--size", "4KiB", "--algorithm", f"{file}:{name}", "--json"]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert says in err
    assert err.count("\n") == 1


def test_an_algorithm_file_that_cannot_be_run(tmp_path, capsys):
    (tmp_path / "bad.py").write_text("1/0")
    for file, says in (("bad.py", "ZeroDivisionError"), ("none.py", "No such file")):
        assert main([*RUN, "--size", "4KiB", "--algorithm", f"{tmp_path / file}:f"]) == 2
        assert says in capsys.readouterr().err


def test_help_and_version(capsys):
    assert main(["--version"]) == 0
    assert main(["run", "collective", "--help"]) == 0
    assert "--infra" in capsys.readouterr().out


def test_an_interrupt_exits_130():
    command = [sys.executable, "-m", "astranb", *RUN, "--size", "256MiB", "--algorithm", "allpairs"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    time.sleep(4)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=30)
    assert process.returncode == 130
    assert err.strip().splitlines()[-1] == "astranb: interrupted"
    assert out == ""


def test_as_a_module_and_a_script():
    done = subprocess.run(
        [sys.executable, "-m", "astranb", "collective", "list"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "all_to_all" in done.stdout
    script = Path(sys.executable).parent / "astranb"
    assert subprocess.run(
        [script, "--version"], capture_output=True, timeout=60, check=True
    ).stdout.startswith(b"astranb")
