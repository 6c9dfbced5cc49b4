"""Graphs and timelines of traces."""

from __future__ import annotations

import gzip
import json
from xml.etree import ElementTree as ET

import pytest

from astranb.chakra import (
    Node,
    NodeType,
    Trace,
    TraceBuilder,
    draw,
    recorded_times,
    write,
    write_timeline,
)
from astranb.cli import main
from astranb.core.errors import InputError


def _chain(count: int) -> Trace:
    made = TraceBuilder()
    last: list[int] = []
    for number in range(count):
        last = [made.compute(f"n{number}", duration_us=2, after=last)]
    return made.build()


def test_a_picture_says_what_it_leaves_out(tmp_path):
    file = tmp_path / "t.svg"
    said = draw(_chain(50), file, most=10, start=5)
    assert said == {"nodes": 10, "dependencies": 9, "nodes_left_out": 40, "dependencies_left_out": 40}
    text = file.read_text()
    assert "10 of 50 nodes, 5 before and 35 after them left out, with 40 dependencies" in text
    root = ET.fromstring(text)
    assert len(root.findall(".//{*}path")) == 9
    assert draw(_chain(100_000), file)["nodes"] == 400
    assert file.stat().st_size < 500_000


def test_names_of_others_stay_text(tmp_path):
    evil = '<script>alert("&")</script>\x00\x1b"]; evil [label="\\'
    trace = Trace.of([Node(1, evil, NodeType.COMP), Node(2, "bad \udcff", 99, ctrl_deps=(1,))], source=evil)
    draw(trace, tmp_path / "t.svg")
    root = ET.fromstring((tmp_path / "t.svg").read_text())
    assert not root.findall(".//{*}script")
    titles = [one.text or "" for one in root.findall(".//{*}rect/{*}title")]
    assert titles[0].startswith('1 <script>alert("&")</script>??"]; evil')
    draw(trace, tmp_path / "t.dot")
    lines = (tmp_path / "t.dot").read_text().splitlines()
    assert [line for line in lines if "->" in line] == ["  n0 -> n1;"]
    label = next(line for line in lines if line.startswith("  n0 [label="))
    assert '\\"]; evil [label=\\"\\\\' in label
    assert len(lines) == 6


@pytest.mark.parametrize(
    "name, more, said",
    [
        ("t.png", {}, "unknown file extension"),
        ("t.svg", {"most": 0}, "0 nodes"),
        ("t.dot", {"start": 3}, "3 nodes"),
    ],
)
def test_what_is_no_picture(name, more, said, tmp_path):
    with pytest.raises(InputError, match=said):
        draw(_chain(3), tmp_path / name, **more)


def test_without_starts_nodes_begin_as_early_as_they_can(tmp_path):
    made = TraceBuilder()
    first = made.compute("a", duration_us=5)
    second = made.compute("b", duration_us=5)  # the same lane: after it
    made.collective("all_reduce", 8, duration_us=3, after=first)
    made.compute("host", duration_us=1, cpu=True, after=second)
    when = recorded_times(made.build())
    assert when.start_ns.tolist() == [0, 5000, 5000, 10000]
    assert when.end_ns.tolist() == [5000, 10000, 8000, 11000]
    starts = [Node(1, "x", 4, start_us=70, duration_us=4), Node(2, "y", 4, start_us=100), Node(3, "z", 4)]
    when = recorded_times(Trace.of(starts))
    assert when.start_ns.tolist() == [0, 30000, -1]
    said = write_timeline([Trace.of(starts)] * 3, [when] * 3, tmp_path / "t.json.gz", most=5)
    assert (said["spans"], said["ranks"], said["ranks_left_out"]) == (4, 2, 1)
    document = json.loads(gzip.decompress((tmp_path / "t.json.gz").read_bytes()))
    spans = [event for event in document["traceEvents"] if event["ph"] == "X"]
    assert [(event["name"], event["ts"], event["dur"]) for event in spans[:2]] == [("x", 0, 4), ("y", 30, 0)]
    assert document["otherData"] == said


def test_a_simulated_timeline_ends_when_the_run_does(tmp_path, capsys):
    for rank in range(2):
        made = TraceBuilder()
        done = made.compute("forward", duration_us=7)
        made.collective("all_reduce", 65536, after=done)
        write(made.build(), tmp_path / f"t.{rank}.et")
    (tmp_path / "s.json").write_text('{"all-reduce-implementation": ["ring"]}')
    (tmp_path / "n.yml").write_text("topology: [Ring]\nnpus_count: [2]\nbandwidth: [50]\nlatency: [500]\n")
    files = ["--system", str(tmp_path / "s.json"), "--network", str(tmp_path / "n.yml")]
    assert main(["run", "trace", str(tmp_path / "t"), *files, "--json"]) == 0
    run = json.loads(capsys.readouterr().out)
    out = tmp_path / "out.json"
    assert main(["chakra", "timeline", str(tmp_path / "t"), "--output", str(out), *files, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["times"] == "simulated"
    spans = [event for event in json.loads(out.read_text())["traceEvents"] if event["ph"] == "X"]
    assert spans[0]["dur"] == 7
    assert spans[1]["args"]["collective"] == "all_reduce"
    assert [1e6 * (one["ts"] + one["dur"]) for one in spans[1::2]] == pytest.approx([run["time_ps"]] * 2)
    assert main(["chakra", "timeline", str(tmp_path / "t"), "--output", str(out), *files[:2]]) == 2
    assert "--network is missing" in capsys.readouterr().err


@pytest.mark.parametrize("duration, start", [(2**48, 0), (2**63 - 1, 0), (2**62, 2**62), (1, 2**62)])
def test_a_timeline_of_times_that_cannot_be_counted_names_the_node(duration, start):
    nodes = [Node(0, "first", 4, start_us=min(start, 1), duration_us=1)]
    nodes += [Node(n, f"n{n}", 4, (n - 1,), start_us=start, duration_us=duration) for n in range(1, 40)]
    with pytest.raises(InputError, match=r"node 1 'n1'.* ends more than 26 days after the start"):
        recorded_times(Trace.of(nodes))
