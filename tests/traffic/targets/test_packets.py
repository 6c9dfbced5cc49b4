"""Packet traces: cycles, flits and what packets wait for."""

from __future__ import annotations

import csv
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.infragraph import resolve
from astranb.traffic import MessageGraph
from astranb.traffic.schedule import message_times
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
    packet = flit * flits * 1000
    translate(graph, "booksim", file, cycle=cycle, flit=flit * 1000, packet=packet)
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


@given(graph=graphs, packet=st.sampled_from(["64 KiB", "1 MiB"]))
def test_packets_wait_for_packets(
    graph: MessageGraph, packet: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A replay of the rows alone, with the flight of whole messages, begins each when the graph does."""
    graph.nodes["bytes"][graph.nodes["kind"] != COMPUTE] = 100_000
    file = tmp_path_factory.mktemp("packets") / "p.csv"
    made = translate(graph, "packets", file, packet=packet, cycle=1)
    with file.open(newline="") as text:
        rows: list[dict[str, Any]] = [
            {
                key: [int(n) for n in value.split()] if key == "waits_for" else int(value)
                for key, value in row.items()
            }
            for row in csv.DictReader(text)
        ]
    assert [row["id"] for row in rows] == list(range(len(rows)))
    assert [row["cycle"] for row in rows] == sorted(row["cycle"] for row in rows)
    times = message_times(graph)
    sent: Counter[tuple[int, int]] = Counter()
    nodes = graph.nodes[graph.sends]
    begun = {
        (int(node["rank"]), int(node["peer"]), int(start))
        for node, start in zip(nodes, times.start_ps, strict=True)
    }
    ends: dict[int, int] = {}
    found = set()
    left = list(rows)
    while left:  # rows of one cycle may wait for each other
        ready = [row for row in left if all(one in ends for one in row["waits_for"])]
        assert ready
        for row in ready:
            begin = max((ends[one] for one in row["waits_for"]), default=0)
            if row["flits"] == 0:
                assert row["source"] == row["target"]
                assert row["cycle"] == begin
                ends[row["id"]] = begin + row["delay"]
                continue
            sent[row["source"], row["target"]] += row["flits"]
            key = row["source"], row["target"], begin
            found.add(key)
            assert row["cycle"] >= begin
            ends[row["id"]] = begin + int(times.takes_ps[0])  # all messages have one size
        left = [row for row in left if row["id"] not in ends]
    assert found == begun
    assert sent == flits_of(graph, 32)
    assert made.messages == graph.messages
    assert not any("dependencies" in one for one in made.not_expressed)


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
def test_what_cannot_be_written_is_refused(options: dict[str, Any], error: str, tmp_path: Path) -> None:
    size = options.pop("size", 1000)
    with pytest.raises(InputError, match=error):
        translate(halving_doubling(8, int(size)), "booksim", tmp_path / "t", **options)
    assert not (tmp_path / "t").exists()
