"""``astranb collective``: list and verify algorithms."""

from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.cli import main
from astranb.collectives import Collective, algorithms
from astranb.sim import Simulation


def test_collective_list(capsys):
    assert main(["collective", "list", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast"} <= {
        r["collective"] for r in said
    }
    names = {r["algorithm"] for r in said if r["collective"] == "all_reduce"}
    assert {"ring", "allpairs", "allpairs_oneshot"} <= names
    assert main(["collective", "list"]) == 0
    assert "ring" in capsys.readouterr().out


def test_verify_proves_all_that_is_shipped(capsys):
    assert main(["collective", "verify", "all", "--ranks", "4", "--channels", "1"]) == 0
    out = capsys.readouterr().out
    assert out.count("correct: no deadlock, no race, the promised result") == sum(
        len(one.protocols) for one in algorithms()
    )


WRONG = """
def dead(p):
    gates = [p.semaphore(r) for r in range(p.ranks)]
    for r in range(p.ranks):
        block = p.block(r)
        block.wait(gates[r])
        block.signal(gates[(r + 1) % p.ranks])

def lost(p):
    for r in range(p.ranks):
        p.block(r).copy(p.input(r)[0], p.output(r)[0])
"""


def test_verify_names_faults_and_draws_deadlocks(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(WRONG)
    verb = ["collective", "verify", "all_reduce", "--ranks", "3", "--channels", "1"]
    picture = tmp_path / "dead.svg"
    assert main([*verb, "--algorithm", f"{tmp_path}/mine.py:dead", "--picture", str(picture)]) == 3
    assert "deadlock: rank" in capsys.readouterr().out
    assert picture.read_text().startswith("<svg")
    assert (
        main([*verb, "--algorithm", f"{tmp_path}/mine.py:lost", "--picture", str(tmp_path / "no.svg")]) == 4
    )
    assert "no.svg: not written, there is no deadlock" in capsys.readouterr().err
    assert main([*verb, "--algorithm", f"{tmp_path}/mine.py:lost", "--json"]) == 4
    (row,) = json.loads(capsys.readouterr().out)
    assert row["faults"][0]["kind"] == "result"


def test_faults_that_are_alike_are_counted(tmp_path, capsys):
    """Every rank makes the same mistakes: each is shown once."""
    (tmp_path / "mine.py").write_text(WRONG)
    command = ["collective", "verify", "all_reduce", "--ranks", "8", "--channels", "1", "--algorithm"]
    assert main([*command, f"{tmp_path}/mine.py:lost"]) == 4
    assert capsys.readouterr().out.count("mine.py line 11") == 1


DETOUR = """
def detour(p):
    start = next((rank for rank in p.everyone if len(rank.neighbours) == 1), p.everyone[0])
    path = [start]
    while len(path) < p.ranks:
        path.append(next(rank for rank in path[-1].neighbours if rank not in path))
    for ranks in (path, path[::-1]):
        wires = p.connections()
        for at, me in enumerate(ranks):
            block = me.block()
            got = block.copy(me.input[0], me.output[me])
            for other in [me, *ranks[:at][::-1]]:
                if other is not me:
                    got = block.copy(wires[ranks[at - 1], me].receive(block), me.output[other])
                if me is not ranks[-1]:
                    wires[me, ranks[at + 1]].send(block, got)
"""


def test_an_algorithm_is_verified_shown_and_exported_around_a_link_that_is_down(tmp_path, capsys):
    (tmp_path / "mine.py").write_text(DETOUR)
    where = ["--algorithm", f"{tmp_path}/mine.py:detour", "--infra", "ring:gpus=6"]
    down = ["--down", "gpu[0]->gpu[1]"]
    assert main(["collective", "verify", "all_gather", *where, *down]) == 0
    assert "all_gather/detour (6 ranks): correct" in capsys.readouterr().out
    shown = ["collective", "show", "all_gather", *where, "--rank", "0", "--json"]
    blocks = []
    for more in ([], down):
        assert main([*shown, *more]) == 0
        blocks.append(json.loads(capsys.readouterr().out)["blocks"])
    sent = [
        sum("rank 1 scratch" in line for block in some for line in block["operations"]) for some in blocks
    ]
    assert sent[0] > sent[1] == 0
    file = tmp_path / "mine.json"
    assert main(["collective", "export", "all_gather", *where, *down, "--size=64KiB", "-o", str(file)]) == 0
    assert "(+0.0%)" in capsys.readouterr().out  # as fast to a tenth of a percent, not -0.0
    run = ["run", "collective", "all_gather", "--infra", "ring:gpus=6", "--size", "64KiB", "--json"]
    times = []
    for algorithm in (f"{tmp_path}/mine.py:detour", str(file)):
        assert main([*run, "--algorithm", algorithm, "--down", "gpu[0]->gpu[1]"]) == 0
        times.append(json.loads(capsys.readouterr().out)["time_ps"])
    assert abs(times[1] / times[0] - 1) < 0.001


def test_verify_refuses_what_does_not_exist(capsys):
    assert main(["collective", "verify", "all_reduc"]) == 2
    assert "did you mean 'all_reduce'" in capsys.readouterr().err


def test_export_reports_what_it_wrote(tmp_path, capsys):
    file = str(tmp_path / "ring.json")
    command = ["collective", "export", "all_reduce", "--algorithm", "ring", "--ranks", "4", "-o", file]
    assert main([*command, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["file"] == file
    assert main(["collective", "import", file, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["ranks"] == 4


def _channels(file):
    """The thread blocks of rank 0 in a plan of MSCCL++: a ring has one in each channel."""
    return len(json.loads(Path(file).read_text())["gpus"][0]["threadblocks"])


@settings(max_examples=8, deadline=None)
@given(st.sampled_from(["all_reduce", "all_gather"]), st.integers(2, 4), st.integers(10, 20))
def test_a_file_has_the_channels_of_a_run(tmp_path_factory, name, ranks, power):
    file, size = str(tmp_path_factory.mktemp("out") / "ring.json"), 1 << power
    command = ["collective", "export", name, "--algorithm", "ring", "--ranks", str(ranks), "-o", file]
    assert main([*command, "--size", str(size)]) == 0
    ran = Simulation(f"switch:gpus={ranks}", Collective.of(name, size, "ring"))
    ran.run()
    assert _channels(file) == ran.result.per_rank()[0]["blocks"]


def test_a_file_for_a_machine_is_what_its_library_runs(tmp_path, capsys):
    file = str(tmp_path / "plan.json")
    what = ["all_reduce", "--size", "256KiB"]
    assert main(["collective", "export", *what, "--infra", "dgx-h100", "-o", file, "--json"]) == 0
    exported = json.loads(capsys.readouterr().out)
    assert main(["run", "collective", *what, "--infra", "dgx-h100", "--json"]) == 0
    ran = json.loads(capsys.readouterr().out)
    assert exported["time_ps"] == ran["time_ps"]
    assert _channels(file) == ran["per_rank"][0]["blocks"] > 1


def test_what_the_other_system_refuses_is_said_once(tmp_path, capsys):
    file = str(tmp_path / "plan.json")
    command = ["collective", "export", "all_reduce", "--algorithm", "ring", "--ranks", "8", "-o", file]
    assert main([*command, "--channels", "4", "--size", "16MiB"]) == 0
    said = [line for line in capsys.readouterr().err.splitlines() if "at most 64 operations" in line]
    assert len(said) == 1
    assert "and 31 others have too many" in said[0]
