"""``astranb collective``: list and verify algorithms."""

from __future__ import annotations

import json

from astranb.cli import main
from astranb.collectives import algorithms


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
    assert main([*verb, "--algorithm", f"{tmp_path}/mine.py:lost", "--json"]) == 4
    (row,) = json.loads(capsys.readouterr().out)
    assert row["faults"][0]["kind"] == "result"


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
