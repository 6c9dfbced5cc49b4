"""Tables of messages: what is written and read, by Python's own CSV reader and by pandas."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.traffic import Label, MessageGraph
from astranb.traffic.targets import translate
from astranb.traffic.targets.tables import read_tables, tables_of
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND
from tests.traffic.targets.graphs import NAMED, bytes_by_pair, graphs

LABELS = st.lists(
    st.builds(Label, *[st.text(st.characters(codec="utf-8"), max_size=6)] * 4),
    min_size=1,
    max_size=4,
)


def same(one: MessageGraph, other: MessageGraph) -> bool:
    """Return whether two graphs have the same nodes, labels by name, and dependencies."""
    fields = [name for name in one.nodes.dtype.names or () if name != "label"]
    names = [[graph.labels[at] for at in graph.nodes["label"].tolist()] for graph in (one, other)]
    return (
        one.ranks == other.ranks
        and names[0] == names[1]
        and all((one.nodes[name] == other.nodes[name]).all() for name in fields)
        and one.dep_start.tolist() == other.dep_start.tolist()
        and one.deps.tolist() == other.deps.tolist()
    )


def labelled(graph: MessageGraph, labels: list[Label]) -> MessageGraph:
    """Return the nodes labels, starts, phases and chunks; a receive those of its send."""
    nodes = graph.nodes.copy()
    number = np.arange(len(nodes))
    nodes["start_ps"] = 1000 * number - 1
    first = np.where(nodes["kind"] == RECV, nodes["match"], number)
    nodes["label"], nodes["phase"], nodes["chunk"] = first % len(labels), first % 3 - 1, first % 5 - 1
    return MessageGraph(graph.ranks, nodes, graph.dep_start, graph.deps, labels, "tried", {"from": "a test"})


@pytest.mark.parametrize("ending", ["csv", "parquet"])
@given(graph=graphs, labels=LABELS)
def test_graphs_are_read_as_they_were_written(
    ending: str, tmp_path_factory: pytest.TempPathFactory, graph: MessageGraph, labels: list[Label]
) -> None:
    given_graph = labelled(graph, labels)
    file = tmp_path_factory.mktemp("tables") / f"job.{ending}"
    done = translate(given_graph, ending, file)
    assert [path.name for path in done.files] == [
        f"job.{name}.{ending}" for name in ("messages", "computations", "dependencies", "ranks")
    ]
    assert done.messages == graph.messages
    assert done.not_expressed == (
        ("1 of 1 assumptions: no place in CSV; Parquet has one",) if ending == "csv" else ()
    )
    back = read_tables(file)
    assert same(back, given_graph)
    if ending == "parquet":
        assert (back.title, back.assumptions) == ("tried", {"from": "a test"})
    translate(back, ending, file.with_name(f"again.{ending}"))
    for path in done.files:
        again = path.with_name(path.name.replace("job", "again"))
        if ending == "csv":
            assert again.read_bytes() == path.read_bytes()


def test_others_read_the_tables(tmp_path: Path) -> None:
    graph = labelled(
        NAMED["random 8"](), [Label('a "quoted",\nname', "all_reduce", "ring", "job 1"), Label("{0}")]
    )
    translate(graph, "csv", tmp_path / "job.csv")
    translate(graph, "parquet", tmp_path / "job.parquet")
    with (tmp_path / "job.messages.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    totals: dict[tuple[int, int], int] = {}
    for row in rows:
        key = int(row["source_rank"]), int(row["target_rank"])
        totals[key] = totals.get(key, 0) + int(row["bytes"])
    assert len(rows) == graph.messages
    assert totals == bytes_by_pair(graph)
    assert {row["name"] for row in rows} == {'a "quoted",\nname', "{0}"}
    frames = tables_of(graph)
    for name, frame in frames.items():
        written = pd.read_parquet(tmp_path / f"job.{name}.parquet")
        text = pd.read_csv(tmp_path / f"job.{name}.csv", keep_default_na=False)
        for column in frame:
            assert written[column].tolist() == frame[column].tolist() == text[column].tolist()
    nodes = graph.nodes
    assert frames["ranks"]["bytes_sent"].sum() == frames["ranks"]["bytes_received"].sum() == graph.bytes
    assert (
        frames["ranks"]["messages_sent"].tolist()
        == np.bincount(nodes["rank"][graph.sends], minlength=8).tolist()
    )
    assert frames["ranks"]["computed_ps"].sum() == nodes["duration_ps"][nodes["kind"] == COMPUTE].sum()


def test_receives_with_other_labels_are_counted(tmp_path: Path) -> None:
    graph = labelled(NAMED["ring 4"](), [Label("a"), Label("b")])
    graph.nodes["chunk"][np.flatnonzero(graph.nodes["kind"] == RECV)[:3]] = 77
    done = translate(graph, "parquet", tmp_path / "job.parquet")
    assert done.not_expressed == ("3 of 24 messages: the receive has another label, phase or chunk",)


def test_cycles_are_refused_and_nothing_is_written(tmp_path: Path) -> None:
    graph = MessageGraph.of(1, [{"rank": 0, "kind": COMPUTE}], [[0]])
    for target in ("csv", "parquet"):
        with pytest.raises(InputError, match="in a cycle"):
            translate(graph, target, tmp_path / "job")
    assert list(tmp_path.iterdir()) == []


def change(folder: Path, table: str, old: str, new: str) -> None:
    file = folder / f"job.{table}.csv"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new, 1))


WRONG = [
    ("messages", "bytes", "size", "column 'bytes' is missing; it has send_node"),
    ("messages", "\n1,", "\nx,", "cannot be read: "),
    ("messages", "\n1,", "\n99999999999999999999,", "cannot be read: "),
    ("messages", "\n1,", "\n0,", "the 5 nodes are not numbered 0 to 4"),
    ("messages", "\n1,", "\n7,", "the 5 nodes are not numbered 0 to 4"),
    ("computations", "\n0,0", "\n0,1", "nodes are not ordered by rank"),
    ("dependencies", "\n1,0", "\n1,4", "a node waits for a node of another rank"),
    ("dependencies", "\n1,0", "\n9,4", "a dependency of a node that does not exist"),
    ("ranks", "\n1,", "\n2,", "the ranks are not numbered 0, 1"),
]


@pytest.mark.parametrize("table, old, new, what", WRONG)
def test_wrong_tables_are_refused_in_one_line(
    table: str, old: str, new: str, what: str, tmp_path: Path
) -> None:
    graph = MessageGraph.of(
        2,
        [
            {"rank": 0, "kind": COMPUTE, "duration_ps": 5},
            {"rank": 0, "kind": SEND, "peer": 1, "bytes": 100},
            {"rank": 1, "kind": COMPUTE, "duration_ps": 5},
            {"rank": 1, "kind": RECV, "peer": 0, "bytes": 100},
            {"rank": 1, "kind": COMPUTE, "duration_ps": 5},
        ],
        [(), (0,), (), (), (3,)],
    )
    translate(graph, "csv", tmp_path / "job.csv")
    assert same(read_tables(tmp_path / "job.csv"), graph)
    change(tmp_path, table, old, new)
    with pytest.raises(InputError) as error:
        read_tables(tmp_path / "job.csv")
    assert what in str(error.value)
    assert "job" in str(error.value)
    assert "\n" not in str(error.value)


def test_files_that_are_no_tables_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"tables with the ending '.txt'; give job.csv"):
        read_tables(tmp_path / "job.txt")
    with pytest.raises(InputError, match="No such file"):
        read_tables(tmp_path / "job.csv")
    graph = NAMED["ring 4"]()
    translate(graph, "parquet", tmp_path / "job.parquet")
    file = tmp_path / "job.messages.parquet"
    pd.read_parquet(file).assign(bytes=0.5).to_parquet(file)
    with pytest.raises(InputError, match="column 'bytes' is not of whole numbers"):
        read_tables(tmp_path / "job.parquet")
    file.write_bytes(b"PAR1 junk")
    with pytest.raises(InputError, match=r"job\.messages\.parquet: cannot be read: "):
        read_tables(tmp_path / "job.parquet")
