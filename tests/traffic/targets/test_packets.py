"""Packet traces: cycles, flits and what packets wait for."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.infragraph import resolve
from astranb.traffic import MessageGraph
from astranb.traffic._schedule import message_times
from astranb.traffic.targets import translate
from astranb.workload.astrasim2 import COMPUTE
from tests.traffic.targets.graphs import graphs, halving_doubling, ring


def flits_of(graph: MessageGraph, flit: int) -> Counter[tuple[int, int]]:
    found: Counter[tuple[int, int]] = Counter()
    for node in graph.nodes[graph.sends]:
        found[int(node["rank"]), int(node["peer"])] += max(1, -(-int(node["bytes"]) // flit))
    return found


@given(graph=graphs, flit=st.sampled_from([1, 16, 100]), flits=st.integers(1, 9), cycle=st.integers(1, 5000))
def test_booksim(
    graph: MessageGraph, flit: int, flits: int, cycle: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    file = tmp_path_factory.mktemp("booksim") / "t.trace"
    large = {"flit": flit * 1000, "packet": flit * flits * 1000}
    translate(graph, "booksim", file, cycle=cycle, **large)
    rows = [[int(word) for word in line.split()] for line in file.read_text().splitlines()]
    assert all(len(row) == 4 for row in rows)
    cycles = [row[0] for row in rows]
    assert cycles == sorted(cycles)
    assert all(1 <= row[3] <= flits for row in rows)
    sent: Counter[tuple[int, int]] = Counter()
    for _, source, target, count in rows:
        sent[source, target] += count
    assert sent == flits_of(graph, flit * 1000)
    if rows:
        assert cycles[0] == int(message_times(graph).start_ps.min()) // cycle


@given(graph=graphs)
def test_packets_wait_for_packets(graph: MessageGraph, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("packets") / "p.csv"
    made = translate(graph, "packets", file, packet="64 KiB")
    with file.open(newline="") as text:
        rows = list(csv.DictReader(text))
    assert [int(row["id"]) for row in rows] == list(range(len(rows)))
    assert [int(row["cycle"]) for row in rows] == sorted(int(row["cycle"]) for row in rows)
    of: dict[int, list[dict[str, str]]] = {}
    for row in rows:
        of.setdefault(int(row["message"]), []).append(row)
    # Messages are numbered by their starts: find each one's send.
    order = sorted(range(graph.messages), key=lambda n: (int(message_times(graph).start_ps[n]), n))
    number = {int(graph.sends[n]): place for place, n in enumerate(order)}
    number |= {int(graph.nodes["match"][send]): place for send, place in list(number.items())}
    lost = 0
    for send in graph.sends.tolist():
        deps = graph.deps[graph.dep_start[send] : graph.dep_start[send + 1]].tolist()
        own = of[number[send]]
        want = [int(of[number[dep]][-1]["id"]) for dep in deps if graph.nodes["kind"][dep] != COMPUTE]
        assert all([int(word) for word in row["waits_for"].split()] == want for row in own)
        assert {(int(row["source"]), int(row["target"])) for row in own} == {
            (int(graph.nodes["rank"][send]), int(graph.nodes["peer"][send]))
        }
        waiting = [
            d
            for d in deps
            if d in number and d not in graph.sends and graph.dep_start[d] < graph.dep_start[d + 1]
        ]
        lost += len(deps) - len(want) + len(waiting)
    said = [one for one in made.not_expressed if "dependencies of messages" in one]
    assert [int(one.split()[0]) for one in said] == ([lost] if lost else [])


def test_a_network_with_cycles_of_the_trace(tmp_path: Path) -> None:
    found = translate(
        ring(4, 5000), "booksim", tmp_path / "t.trace", topology=resolve("switch:gpus=4"), cycle="2 ns"
    )
    assert [file.name for file in found.files] == ["t.trace", "t.anynet"]
    assert "router 0 router 1 375" in (tmp_path / "t.anynet").read_text()  # 750 ns


@pytest.mark.parametrize(
    "options, error",
    [
        ({"cycle": "0 ns"}, "a cycle and a flit must be greater than 0"),
        ({"flit": "64 B", "packet": "32 B"}, "a packet of 32 bytes is smaller than a flit of 64"),
        ({"flit": "1 B", "packet": "1 B", "size": 1 << 26}, "packets; give larger packets"),
    ],
)
def test_what_cannot_be_written_is_refused(options: dict[str, int | str], error: str, tmp_path: Path) -> None:
    size = options.pop("size", 1000)
    with pytest.raises(InputError, match=error):
        translate(halving_doubling(8, int(size)), "booksim", tmp_path / "t", **options)
    assert not (tmp_path / "t").exists()
