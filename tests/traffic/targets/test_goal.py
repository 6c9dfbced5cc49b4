"""GOAL: what is written and read, by an independent reader of the grammar."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given

from astranb.cli import main
from astranb.core.errors import InputError
from astranb.traffic import Label, MessageGraph
from astranb.traffic.targets import translate
from astranb.traffic.targets.goal import read_goal, write_goal
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND
from tests.traffic.targets.graphs import NAMED, Builder, bytes_by_pair, graphs, ring

LINE = re.compile(
    r"(?P<label>[a-zA-Z][a-zA-Z0-9_]*): "
    r"(?:calc (?P<time>\d+)"
    r"|(?P<kind>send|recv) (?P<size>\d+)b (?P<way>to|from) (?P<peer>\d+) tag (?P<tag>\d+))"
)
REQUIRES = re.compile(r"([a-zA-Z][a-zA-Z0-9_]*) requires ([a-zA-Z][a-zA-Z0-9_]*)")


def lines_of(file: Path) -> tuple[int, list[tuple[dict[str, re.Match[str]], list[tuple[str, str]]]]]:
    """Read a file as the grammar says: the number of ranks, and of each its operations and dependencies."""
    text = [line for line in file.read_text().splitlines() if not line.startswith("//")]
    first = re.fullmatch(r"num_ranks (\d+)", text[0])
    assert first
    ranks: list[tuple[dict[str, re.Match[str]], list[tuple[str, str]]]] = []
    is_open = False
    for line in text[1:]:
        if line == f"rank {len(ranks)} {{" and not is_open:
            ranks.append(({}, []))
            is_open = True
        elif line == "}":
            assert is_open
            is_open = False
        elif match := LINE.fullmatch(line):
            assert match["label"] not in ranks[-1][0]
            assert match["kind"] is None or (match["kind"] == "send") == (match["way"] == "to")
            ranks[-1][0][match["label"]] = match
        else:
            match = REQUIRES.fullmatch(line)
            assert match, line
            assert match[1] in ranks[-1][0]
            assert match[2] in ranks[-1][0]  # defined before it is used
            ranks[-1][1].append((match[1], match[2]))
    assert not is_open
    assert len(ranks) == int(first[1])
    return len(ranks), ranks


@given(graphs)
def test_every_node_and_dependency_is_written_and_read_back(
    tmp_path_factory: pytest.TempPathFactory, graph: MessageGraph
) -> None:
    folder = tmp_path_factory.mktemp("goal")
    done = translate(graph, "goal", folder / "a.goal")
    assert done.messages == graph.messages
    count, ranks = lines_of(folder / "a.goal")
    assert count == graph.ranks
    assert sum(len(ops) for ops, _ in ranks) == len(graph.nodes)
    assert sum(len(deps) for _, deps in ranks) == len(graph.deps)
    sent: dict[Any, Any] = {}
    for rank, (ops, _) in enumerate(ranks):
        for op in ops.values():
            if op["kind"] == "send":
                sent[rank, int(op["peer"])] = sent.get((rank, int(op["peer"])), 0) + int(op["size"])
    sends = graph.nodes[graph.sends]
    empty = int((sends["bytes"] == 0).sum())
    assert sum(sent.values()) == graph.bytes + empty
    assert sum(f"{empty} of" in line and "no bytes" in line for line in done.not_expressed) == (empty > 0)

    back = read_goal(folder / "a.goal")
    assert back.title == graph.title
    assert bytes_by_pair(back) == sent
    for name in ("rank", "kind", "peer", "tag", "duration_ps", "match"):
        assert (back.nodes[name] == graph.nodes[name]).all()
    assert (back.deps == graph.deps).all()
    assert (back.dep_start == graph.dep_start).all()
    write_goal(back, folder / "b.goal")
    assert (folder / "b.goal").read_bytes() == (folder / "a.goal").read_bytes()


@pytest.mark.parametrize("name", NAMED)
def test_schedules_are_the_same_after_reading_and_writing(name: str, tmp_path: Path) -> None:
    write_goal(NAMED[name](), tmp_path / "a.goal", time_unit="ps")
    write_goal(read_goal(tmp_path / "a.goal"), tmp_path / "b.goal", time_unit="ps")
    assert (tmp_path / "b.goal").read_bytes() == (tmp_path / "a.goal").read_bytes()


def test_large_graphs_are_written_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = NAMED["random 16"]()
    write_goal(graph, tmp_path / "a.goal")
    monkeypatch.setattr("astranb.traffic.targets.goal._ROWS", 50)
    write_goal(graph, tmp_path / "b.goal")
    assert (tmp_path / "b.goal").read_bytes() == (tmp_path / "a.goal").read_bytes()


def test_what_is_not_expressed_is_counted(tmp_path: Path) -> None:
    made = Builder(2, "two computations\nrank 0 {")
    first, second = made.compute(0, 1500), made.compute(0, 2000)
    third = made.compute(0, 1000, [first])
    made.compute(0, 1000, [second, third])
    sent = made.send(0, 1, 0, 3)
    made.send(0, 1, 5, 3, [sent])
    made.receive(1, 0, 0, 3)
    made.receive(1, 0, 5, 3)
    graph = made.graph()
    done = write_goal(graph, tmp_path / "a.goal")
    assert [line.split(":")[0] for line in done.not_expressed] == [
        "1 of 4 computations",
        "2 of 4 computations",
        "1 of 4 dependencies",
        "1 of 2 messages",
        "2 of 2 messages",
    ]
    assert write_goal(graph, tmp_path / "a.goal", time_unit="ps").not_expressed == done.not_expressed[1:]
    lines_of(tmp_path / "a.goal")  # the title is a comment whatever is in it
    named = MessageGraph(
        2, graph.nodes, graph.dep_start, graph.deps, [Label("layer", "all_reduce", "ring")], "named"
    )
    assert write_goal(named, tmp_path / "a.goal").not_expressed[-1].startswith("8 of 8 nodes: ")


def test_the_whole_grammar_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.goal"
    file.write_bytes(
        b"/* a schedule\r\n of two ranks */ num_ranks 2\r\nrank 0 { // the first\n"
        b"one: calc 10 cpu 3\n\ttwo:send 8 b to 1 tag 5 cpu 1 nic 2\r\nthree : send 9b to 1 nic 1\n"
        b"recv 4b from 1\ncalc 7\nfour: calc 1\n"
        b"two requires one\nthree irequires two\nfour irequires three\n}\n"
        b"rank 1 {\nrecv 8b from 0 tag 5\nrecv 9b from 0 tag 0\nsend 4b to 0\n}\n// end\n"
    )
    graph = read_goal(file)
    assert graph.nodes["kind"].tolist() == [COMPUTE, SEND, SEND, RECV, COMPUTE, COMPUTE, RECV, RECV, SEND]
    assert graph.nodes["bytes"].tolist() == [0, 8, 9, 4, 0, 0, 8, 9, 4]
    assert graph.nodes["tag"].tolist() == [0, 5, 0, 0, 0, 0, 5, 0, 0]
    assert graph.nodes["duration_ps"].tolist() == [10_000, 0, 0, 0, 7000, 1000, 0, 0, 0]
    assert graph.deps.tolist() == [0, 0, 0]  # three and four may begin when two may
    assert np.diff(graph.dep_start).tolist() == [0, 1, 1, 0, 0, 1, 0, 0, 0]
    assert {key: value.split()[0] for key, value in graph.assumptions.items()} == {
        "cpu": "2",
        "nic": "2",
        "irequires": "2",
        "time unit": "ns",
    }
    assert read_goal(file, time_unit="ps").nodes["duration_ps"][0] == 10


PAIR = "num_ranks 2\nrank 0 {\na: send 8b to 1\n}\nrank 1 {\nb: recv 8b from 0\n}\n"
WRONG = [
    ("", "num_ranks is missing"),
    ("hello\n", ":1: 'hello' cannot be read"),
    ("rank 0 {\n}\n", ":1: num_ranks is missing before the first rank"),
    ("num_ranks 2\nrank 0 {\n}\n", "num_ranks is 2, but only 1 ranks have a block"),
    (PAIR.replace("rank 1", "rank 2"), ":5: rank 2 where rank 1 is expected"),
    (PAIR + "rank 2 {\n}\n", ":8: rank 2 where the end of the file is expected"),
    (PAIR.replace("}", "", 1), ":5: rank 1 begins inside rank 0"),
    (PAIR[:-2], "rank 1 has no closing bracket"),
    (PAIR + "}\n", ":8: a closing bracket without a rank"),
    (PAIR + "calc 5\n", ":8: an operation outside a rank"),
    (PAIR.replace("from 0", "from -1"), ":6: a recv with any source (-1)"),
    (PAIR.replace("from 0", "from 0 tag -1"), ":6: a recv with any tag (-1)"),
    (PAIR.replace("from 0", "from 2"), ":6: rank 2 does not exist"),
    (PAIR.replace("to 1", "from 1"), ":3: send … from"),
    (PAIR.replace("to 1", "to 1 tag 4294967295"), ":3: a tag is too large"),
    (PAIR.replace("to 1", "to 1 cpu 256"), ":3: cpu is too large"),
    (PAIR.replace("to 1", "to 1 tag 4"), "rank 1 expects one of 0 with tag 0, which is not sent"),
    (PAIR.replace("to 1", "to 1 junk"), ":3: 'a: send 8b to 1 junk' cannot be read"),
    (PAIR.replace("a: ", "calc: "), ":3: 'calc: send 8b to 1' cannot be read"),
    (PAIR.replace("to 1\n", "to 1\na requires c\n"), ":4: label 'c' is not defined"),
    (PAIR.replace("to 1\n", "to 1\na requires a\n"), ":4: 'a' waits for itself"),
    (PAIR.replace("to 1\n", "to 1\na: calc 5\n"), ":4: label 'a' is a duplicate"),
    (
        PAIR.replace("to 1\n", "to 1\nc: calc 1\na irequires c\nc irequires a\n"),
        ":7: operations wait for one another's beginning in a cycle",
    ),
    ("/* no end\n" + PAIR, ":1: a comment has no end"),
    ("// time unit: hours\n" + PAIR, "unknown unit of time 'hours'"),
    (PAIR.replace("8b", "99999999999999999999b"), "size is too large"),
]


@pytest.mark.parametrize("text, what", WRONG)
def test_wrong_files_are_refused_in_one_line(text: str, what: str, tmp_path: Path) -> None:
    file = tmp_path / "a.goal"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        read_goal(file)
    assert what in str(error.value)
    assert str(file) in str(error.value)


def test_what_cannot_be_written_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "a.goal"
    made = Builder(2, "cycle")
    made.receive(0, 1, 5, deps=[])
    made.send(0, 1, 5, deps=[0])
    made.receive(1, 0, 5)
    made.send(1, 0, 5, deps=[2])
    with pytest.raises(
        InputError, match=r"cycle: node 0 of rank 0 .receive from 1., which waits for"
    ) as error:
        write_goal(made.graph(), file)
    assert "node 1 of rank 1 (send to 0)" in str(error.value)
    alone = Builder(2, "tags")
    alone.send(0, 1, 5, 2**32 - 1)
    alone.receive(1, 0, 5, 2**32 - 1)
    with pytest.raises(InputError, match="has tag 4294967295"):
        write_goal(alone.graph(), file)
    late = ring(2, 8)
    late.nodes["duration_ps"][0] = -1
    with pytest.raises(InputError, match=r"node 0 of rank 0 .compute. has a duration of -1"):
        write_goal(late, file)
    late.nodes["duration_ps"][[0, -1]] = 2**62
    with pytest.raises(InputError, match="the durations of all nodes add up to more than 62 bits"):
        write_goal(late, file)
    open_ended = ring(2, 8)
    open_ended.nodes["match"] = -1
    with pytest.raises(InputError, match="has no other end"):
        write_goal(open_ended, file)
    with pytest.raises(InputError, match="unknown unit of time 'us'"):
        write_goal(ring(2, 8), file, time_unit="us")
    assert not file.exists()


def test_unknown_targets_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"target: unknown target 'gaol'; did you mean 'goal'"):
        translate(ring(2, 8), "gaol", tmp_path / "a")


@pytest.mark.parametrize("sent", [1 << 20, (1 << 20) + 1, (2 << 20) + 1])
def test_a_receive_of_another_size_is_named(
    sent: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One with room to spare takes what is sent, as MPI's; one that is too small is refused."""
    file = tmp_path / "pair.goal"
    file.write_text(f"num_ranks 2\nrank 0 {{\nsend {sent}b to 1\n}}\nrank 1 {{\nrecv 2097152b from 0\n}}\n")
    fits = sent <= 2 << 20
    assert main(["traffic", "replay", str(file), "--infra", "switch:gpus=2"]) == (0 if fits else 2)
    said = (
        "assumed receives: 1 have room for more" if fits else f"rank 0 sends 1 {sent:,} bytes with tag 0, and"
    )
    assert said in capsys.readouterr().err
    if fits:
        assert read_goal(file).nodes["bytes"].tolist() == [sent, sent]
