"""``astranb chakra``: what its verbs print and write."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from astranb.chakra import (
    Attribute,
    Node,
    NodeType,
    Trace,
    TraceBuilder,
    read,
    read_ranks,
    summary,
    topological_order,
    write,
    write_ranks,
)
from astranb.chakra.corpus import CorpusJob
from astranb.cli import main


def step(rank: int) -> Trace:
    made = TraceBuilder(note="toy")
    forward = made.compute("forward", num_ops=10**9, tensor_size=10**6, duration_us=5)
    made.collective("all_reduce", 4096, group="1", after=forward)
    last = made.collective("all_reduce", 4, after=forward)
    made.send(10, 1 - rank, rank=rank, after=last)
    made.recv(20, 1 - rank, after=last)
    return made.build()


@pytest.fixture
def prefix(tmp_path: Path) -> str:
    for rank in range(2):
        write(step(rank), tmp_path / f"t.{rank}.et")
    return str(tmp_path / "t")


def test_info_of_a_file(prefix: str, capsys: pytest.CaptureFixture[str]):
    assert main(["chakra", "info", f"{prefix}.1.et", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said == {
        "format": "Chakra trace",
        "notes": [],
        "source": f"{prefix}.1.et",
        "version": "0.0.4",
        "metadata": {"note": "toy"},
        "nodes": 5,
        "dependencies": 4,
        "depth": 3,
        "types": {"COMP": 1, "COMM_SEND": 1, "COMM_RECV": 1, "COMM_COLL": 2},
        "collectives": {"all_reduce": {"count": 2, "bytes": 4100}},
        "groups": ["1"],
        "sent_bytes": 10,
        "received_bytes": 20,
        "num_ops": 10**9,
        "duration_us": 5,
        "attributes": sorted(
            [
                "comm_dst",
                "comm_size",
                "comm_src",
                "comm_tag",
                "comm_type",
                "is_cpu_op",
                "num_ops",
                "pg_name",
                "tensor_size",
            ]
        ),
    }
    assert main(["chakra", "info", f"{prefix}.1.et"]) == 0
    out = capsys.readouterr().out
    assert "nodes: 5, dependencies: 4, longest chain: 3\n" in out
    assert "collectives: all_reduce 2 (4,100 bytes)\n" in out
    assert out.endswith("note: toy\n")


def test_info_of_all_ranks(prefix: str, capsys: pytest.CaptureFixture[str]):
    assert main(["chakra", "info", prefix, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["ranks"], [one["nodes"] for one in said["traces"]]) == (2, [5, 5])
    assert main(["chakra", "info", prefix]) == 0
    assert capsys.readouterr().out.splitlines()[2] == "rank 1: 5 nodes, all_reduce 2 (4,100 bytes)"


def test_a_bad_trace_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    file = tmp_path / "t.et"
    nodes = [Node(one, "ab"[one - 1], NodeType.COMP, data_deps=(3 - one,)) for one in (1, 2)]
    write(Trace.of(nodes), file)
    assert main(["chakra", "scale", str(file), "-o", str(tmp_path / "t"), "--ranks", "2"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert main(["chakra", "draw", str(file), "-o", str(tmp_path / "t.svg")]) == 0  # with a note
    assert "cycle" in capsys.readouterr().err
    assert main(["chakra", "info", str(file)]) == 0  # it is described
    assert "2 nodes that wait for each other in cycles: 1 'a' waits for 2 'b'" in capsys.readouterr().err
    assert main(["chakra", "json", str(file)]) == 0  # it can still be looked at
    assert main(["chakra", "info", str(tmp_path / "none")]) == 2


def test_nodes_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    said = {
        "raw": Attribute(b"\xff", "bytes_val"),
        "inf": Attribute(float("inf"), "double_val"),
        "dims": Attribute((True, False), "bool_list"),
        "no": Attribute(None),
    }
    nodes = [
        Node(
            1, "é", NodeType.COMP, start_us=3, attributes=said, inputs=("[1]", "", "x"), other=b"\xf8\x01\x05"
        ),
        Node(2, "bad \udcff", 99, ctrl_deps=(1,)),
    ]
    file = tmp_path / "t.et"
    write(Trace.of(nodes), file)
    assert main(["chakra", "json", str(file)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines == [
        {
            "id": 1,
            "name": "é",
            "type": "COMP",
            "start_us": 3,
            "attributes": {"raw": "ff", "inf": "inf", "dims": [True, False], "no": None},
            "inputs": {"values": "[1]", "shapes": "", "types": "x"},
            "other": "f80105",
        },
        {"id": 2, "name": "bad ?", "type": 99, "ctrl_deps": [1]},
    ]
    assert main(["chakra", "json", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == lines


def test_order_and_depth_where_parents_come_later():
    trace = Trace.of([Node(1, "", 4, data_deps=(3,)), Node(2, "", 4), Node(3, "", 4, data_deps=(2,))])
    assert topological_order(trace).tolist() == [1, 2, 0]
    assert summary(trace)["depth"] == 3
    assert summary(Trace.of([]))["depth"] == 0


@pytest.fixture
def file(tmp_path):
    made = TraceBuilder()
    made.collective("all_reduce", 4096, after=made.compute("forward", num_ops=10, tensor_size=5))
    write(made.build(), tmp_path / "t.et")
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
    assert (said["from"], said["nodes"], len(said["files"])) == ("layer table", 6, 4)
    assert json.loads(Path(f"{prefix}.job.json").read_text())["data"] == 3
    assert len({trace.data for trace in read_ranks(prefix)}) == 1


def test_a_trace_stays_what_it_was(file, tmp_path, capsys):
    out = str(tmp_path / "u.et.gz")
    assert main(["chakra", "convert", file, "--output", out]) == 0
    assert read(out) == read(file)
    assert main(["chakra", "compare", file, out]) == 0
    assert capsys.readouterr().out.endswith("identical\n")


def test_comparisons_are_printed(file, tmp_path, capsys):
    other = tmp_path / "o.et"
    longer = TraceBuilder()
    for _ in range(7):
        longer.compute("renamed", num_ops=5, tensor_size=5)
    write(longer.build(), other)
    assert main(["chakra", "compare", file, str(other)]) == 0
    out = capsys.readouterr().out
    assert "  nodes: 2 and 7\n" in out
    assert "first at row 0: " in out
    assert main(["chakra", "compare", file, str(other), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["same"] is False
    prefix = str(tmp_path / "p")
    write_ranks(lambda _rank: longer.build().data, prefix, ranks=2)
    assert main(["chakra", "compare", prefix, file]) == 0
    assert "2 and 1 ranks" in capsys.readouterr().out


def test_a_workload_like_those_of_a_corpus(tmp_path, capsys):
    folder = tmp_path / "corpus"
    folder.mkdir()
    for layers in range(4, 14):
        made, last = TraceBuilder(), 0
        for layer in range(layers):
            after = last if layer else ()
            last = made.compute(f"secret {layer}", num_ops=10**6 * layers, duration_us=layers, after=after)
            last = made.collective("all_reduce", 1000 * layers, after=last)
        CorpusJob([made.build()] * 2, parameters=layers**3, data=2).write(folder / f"job{layers}")
    out, report = str(tmp_path / "new"), str(tmp_path / "report.json")
    words = ["chakra", "synthesize", str(folder), "-o", out, "--ranks", "4", "--model-size", "1000"]
    assert main([*words, "--report", report]) == 0
    said = capsys.readouterr().out
    assert "4 ranks, 80 nodes, like 10 workloads" in said
    assert "(tensor 1, data 4, pipeline 1)" in said
    assert "0 sizes verbatim" in said
    assert b"secret" not in Path(f"{out}.3.et").read_bytes()
    found = json.loads(Path(report).read_text())["statistical"]
    assert {"clusters", "distances", "privacy", "learnt_from", "held_out", "unlike"} == found.keys()
    assert main([*words, "--pp", "3"]) == 2
    assert "4 ranks, but tensor, data, pipeline 1, 1, 3" in capsys.readouterr().err


def test_a_picture(file, tmp_path, capsys):
    assert main(["chakra", "draw", file, "--output", str(tmp_path / "t.svg"), "--most", "1"]) == 0
    assert capsys.readouterr().out == "1 node and 0 dependencies; left out: 1 and 1\n"


@pytest.mark.parametrize(
    "command, said",
    [
        ("convert none.et --output x.et", "No such file"),
        ("convert FILE --output x", "use FILE.et, or give --npus N"),
        ("convert FILE --output /no/such/t.et", "cannot be written"),
        ("convert FILE --output x --npus 0", "--npus: 0 is out of range; use 1 to "),
        ("synthesize FILE --output x --pp 7", "the corpus has no such plan"),
        ("synthesize none --output x", "none: no trace none.RANK.et"),
        ("synthesize FILE --output x --report x.txt", "name it FILE.json or FILE.html"),
        ("draw FILE --output x.png", "use FILE.svg or FILE.dot"),
        ("timeline FILE --output x.txt", "use FILE.json"),
        ("compare FILE none.et", "No such file"),
        ("link FILE FILE --output x.json", "this is a Chakra trace"),
    ],
)
def test_bad_input_is_one_line(command, said, file, capsys):
    words = [file if word == "FILE" else word for word in command.split()]
    assert main(["chakra", *words]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error


def test_a_pipe_is_not_waited_for(tmp_path, capsys):
    os.mkfifo(tmp_path / "pipe")
    assert main(["chakra", "convert", str(tmp_path / "pipe"), "--output", "x.et"]) == 2
    assert "pipe: this is not a regular file; give a file to convert" in capsys.readouterr().err
