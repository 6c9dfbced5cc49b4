"""``astranb chakra convert``, ``synthesize``, ``compare`` and ``draw``."""

from __future__ import annotations

import json

import pytest

from astranb.chakra import TraceBuilder, read, read_ranks, write
from astranb.cli import main


@pytest.fixture
def file(tmp_path):
    made = TraceBuilder()
    made.collective("all_reduce", 4096, after=made.compute("forward", num_ops=10, tensor_size=5))
    write(tmp_path / "t.et", made.build())
    return str(tmp_path / "t.et")


def test_a_table_is_written_for_all_ranks_and_runs(tmp_path, capsys):
    table = tmp_path / "w.txt"
    table.write_text("DATA\n1\nfc -1 5 NONE 0 6 NONE 0 7 ALLREDUCE 4096 9\n")
    prefix = str(tmp_path / "t")
    assert (
        main(["chakra", "convert", str(table), "--output", prefix, "--npus", "3", "--passes", "2", "--json"])
        == 0
    )
    said = json.loads(capsys.readouterr().out)
    assert (said["from"], said["nodes"], len(said["files"])) == ("layer table", 6, 3)
    assert len({trace.data for trace in read_ranks(prefix)}) == 1


def test_a_trace_stays_what_it_was(file, tmp_path, capsys):
    out = str(tmp_path / "u.et.gz")
    assert main(["chakra", "convert", file, "--output", out]) == 0
    assert read(out) == read(file)
    assert main(["chakra", "compare", file, out]) == 0
    assert capsys.readouterr().out.endswith("identical\n")


def test_comparisons_are_told(file, tmp_path, capsys):
    other = tmp_path / "o.et"
    assert main(["chakra", "synthesize", file, "--output", str(other), "--nodes", "7", "--seed", "3"]) == 0
    assert main(["chakra", "compare", file, str(other)]) == 0
    out = capsys.readouterr().out
    assert "  nodes: 2 and 7\n" in out
    assert "first at row 0: names\n" in out
    assert main(["chakra", "compare", file, str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["same"] is False
    prefix = str(tmp_path / "p")
    assert main(["chakra", "synthesize", file, "--output", prefix, "--npus", "2"]) == 0
    assert main(["chakra", "compare", prefix, file]) == 0
    assert "2 and 1 ranks" in capsys.readouterr().out


def test_a_picture(file, tmp_path, capsys):
    assert main(["chakra", "draw", file, "--output", str(tmp_path / "t.svg"), "--most", "1"]) == 0
    assert capsys.readouterr().out == "1 nodes and 0 dependencies; left out: 1 and 1\n"


@pytest.mark.parametrize(
    "command, said",
    [
        ("convert none.et --output x.et", "No such file"),
        ("convert FILE --output x", "take FILE.et, or say --npus N"),
        ("convert FILE --output /no/such/t.et", "cannot be written"),
        ("convert FILE --output x --npus 0", "0 ranks"),
        ("synthesize FILE --output x.et --nodes 0", "0 nodes"),
        ("draw FILE --output x.png", "take FILE.svg or FILE.dot"),
        ("timeline FILE --output x.txt", "take FILE.json"),
        ("compare FILE none.et", "No such file"),
        ("link FILE FILE --output x.json", "not JSON"),
    ],
)
def test_bad_input_is_one_line(command, said, file, capsys):
    words = [file if word == "FILE" else word for word in command.split()]
    assert main(["chakra", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error
