"""ns-3: flow files as third.cc reads them, and schedules that are replayed by their rows alone."""

from __future__ import annotations

import csv
import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from astranb.chakra import NodeType, read_ranks
from astranb.core.errors import InputError
from astranb.infragraph import load, resolve
from astranb.traffic import MessageGraph
from astranb.traffic.schedule import message_times
from astranb.traffic.targets import translate
from tests.traffic.targets.graphs import NAMED, Builder, bytes_by_pair, graphs, ring


def read_flows(text: str) -> list[tuple[int, int, int, float]]:
    """Read words as third.cc does, whose size is a uint32, and check the order of starts."""
    words = iter(text.split())
    rows = []
    for _ in range(int(next(words))):
        source, target, group, port, size = (int(next(words)) for _ in range(5))
        assert (group, port) == (3, 100)
        assert 0 < size < 2**32
        rows.append((source, target, size, float(next(words))))
    assert next(words, None) is None
    starts = [row[3] for row in rows]
    assert starts == sorted(starts)
    return rows


@given(graph=graphs)
def test_flows(graph: MessageGraph, tmp_path_factory: pytest.TempPathFactory) -> None:
    file = tmp_path_factory.mktemp("ns3") / "flow.txt"
    made = translate(graph, "ns3", file)
    rows = read_flows(file.read_text())
    nodes = graph.nodes[graph.sends]
    want = Counter((int(n["rank"]), int(n["peer"]), max(1, int(n["bytes"]))) for n in nodes)
    assert Counter(row[:3] for row in rows) == want
    starts = sorted(message_times(graph).start_ps.tolist())
    assert all(abs(row[3] * 1e12 - ps) <= 501 for row, ps in zip(rows, starts, strict=True))
    empty = sum(n["bytes"] == 0 for n in nodes)
    assert any(
        "of no bytes" in line and line.startswith(f"{empty} of") for line in made.not_expressed
    ) == bool(empty)
    assert any("starts messages by the clock" in one for one in made.not_expressed) == bool(len(graph.deps))
    assert made.messages == graph.messages


def test_large_messages_are_several_flows_and_small_times_are_rounded(tmp_path: Path) -> None:
    made = Builder(2, "large")
    begun = made.compute(0, 1_499_501)
    made.send(0, 1, 3 * (2**32 - 1) - 5, deps=[begun])
    made.receive(1, 0, 3 * (2**32 - 1) - 5)
    found = translate(made.graph(), "ns3", tmp_path / "f.txt")
    rows = read_flows((tmp_path / "f.txt").read_text())
    assert sum(row[2] for row in rows) == 3 * (2**32 - 1) - 5
    assert {row[3] for row in rows} == {1500e-9}
    assert "1 of 1 messages: of more than 4,294,967,295 bytes: several flows" in found.not_expressed
    assert "1 of 1 starts: rounded to nanoseconds, ns-3's unit" in found.not_expressed


def test_a_topology_and_a_configuration_are_beside_the_flows(tmp_path: Path) -> None:
    found = translate(ring(8, 1 << 20), "ns3", tmp_path / "flow.txt", topology=resolve("dgx-h100"))
    assert [file.name for file in found.files] == [
        "flow.txt", "flow.topology.txt", "flow.config.txt", "flow.trace.txt"
    ]  # fmt: skip
    assert all(file.exists() for file in found.files)
    settings = dict(line.split(" ", 1) for line in (tmp_path / "flow.config.txt").read_text().splitlines())
    assert {settings[f"{key}_FILE"] for key in ("TOPOLOGY", "FLOW", "TRACE")} == {
        "flow.topology.txt", "flow.txt", "flow.trace.txt"
    }  # fmt: skip
    assert len(load(tmp_path / "flow.topology.txt").expand().gpus) == 8
    rates = {line.split()[2] for line in (tmp_path / "flow.topology.txt").read_text().splitlines()[2:]}
    bits = {int(rate[:-4]) * {"G": 10**9, "M": 10**6}[rate[-4]] for rate in rates}
    for key in ("KMIN_MAP", "KMAX_MAP", "PMAX_MAP"):  # third.cc aborts at a rate that is missing
        count, *pairs = settings[key].split()
        assert int(count) * 2 == len(pairs)
        assert {int(rate) for rate in pairs[::2]} == bits
    assert any(one.startswith("topology: ") for one in found.not_expressed)
    with pytest.raises(InputError, match="9 ranks, but"):
        translate(ring(9, 1), "ns3", tmp_path / "no.txt", topology=resolve("dgx-h100"))
    assert not (tmp_path / "no.txt").exists()


def read_rows(file: Path) -> list[dict[str, Any]]:
    """Read a schedule of either form."""
    if file.suffix == ".json":
        found: list[dict[str, Any]] = json.loads(file.read_text())
        return found
    with file.open(newline="") as text:
        rows = []
        for row in csv.DictReader(text):
            ends = {"source": int(row["source"]), "target": int(row["target"])} if row["target"] else {
                "rank": int(row["source"])
            }  # fmt: skip
            size = {"bytes": int(row["bytes"])} if row["bytes"] else {}
            waits = [int(word) for word in row["waits_for"].split()]
            rows.append({"id": int(row["id"]), "kind": row["kind"], **ends, **size,
                         "delay_ps": int(row["delay_ps"]), "waits_for": waits})  # fmt: skip
        return rows


def replayed_starts(rows: list[dict[str, Any]], graph: MessageGraph) -> list[tuple[int, int, int, int]]:
    """Run a schedule: each row begins when those that it waits for have ended."""
    takes = dict(
        zip(graph.nodes["bytes"][graph.sends].tolist(), message_times(graph).takes_ps.tolist(), strict=True)
    )
    ends: dict[int, int] = {}
    flows = []
    for number, row in enumerate(rows):
        assert row["id"] == number
        begin = max((ends[one] for one in row["waits_for"]), default=0)
        ends[number] = begin + (takes[row["bytes"]] if row["kind"] == "flow" else row["delay_ps"])
        if row["kind"] == "flow":
            flows.append((row["source"], row["target"], row["bytes"], begin))
    return sorted(flows)


@pytest.mark.parametrize("suffix", [".csv", ".json"])
@given(graph=graphs)
def test_a_schedule_has_all_dependencies(
    suffix: str, graph: MessageGraph, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """A replay of the rows alone begins every flow when the graph does."""
    file = tmp_path_factory.mktemp("flows") / f"s{suffix}"
    made = translate(graph, "flows", file)
    nodes = graph.nodes[graph.sends]
    starts = message_times(graph).start_ps
    want = sorted(
        (int(n["rank"]), int(n["peer"]), int(n["bytes"]), int(ps))
        for n, ps in zip(nodes, starts, strict=True)
    )
    assert replayed_starts(read_rows(file), graph) == want
    assert made.not_expressed == ()


@pytest.mark.parametrize("name", NAMED)
def test_known_graphs(name: str, tmp_path: Path) -> None:
    graph = NAMED[name]()
    translate(graph, "flows", tmp_path / "s.csv", topology=resolve(f"switch:gpus={graph.ranks}"))
    rows = read_rows(tmp_path / "s.csv")
    assert replayed_starts(rows, graph)
    totals: Counter[tuple[int, int]] = Counter()
    for row in rows:
        if row["kind"] == "flow":
            totals[row["source"], row["target"]] += row["bytes"]
    assert totals == bytes_by_pair(graph)
    assert (tmp_path / "s.topology.txt").exists()


@given(graph=graphs)
def test_astrasim_has_all_nodes_and_dependencies(
    graph: MessageGraph, tmp_path_factory: pytest.TempPathFactory
) -> None:
    prefix = tmp_path_factory.mktemp("astrasim") / "step"
    found = translate(graph, "astrasim-ns3", prefix)
    assert json.loads(Path(f"{prefix}.logical.json").read_text()) == {"logical-dims": [str(graph.ranks)]}
    traces = read_ranks(prefix)
    assert len(traces) == graph.ranks
    sent: Counter[tuple[int, int, int, int]] = Counter()
    waits = 0
    for rank, trace in enumerate(traces):
        for row in range(len(trace)):
            waits += len(trace.parents.of(row))
            if trace.type[row] == NodeType.COMM_SEND:
                ends = rank, int(trace.comm_dst[row])
                sent[(*ends, int(trace.comm_size[row]), int(trace.comm_tag[row]))] += 1
    nodes = graph.nodes[graph.sends]
    assert sent == Counter((int(n["rank"]), int(n["peer"]), int(n["bytes"]), int(n["tag"])) for n in nodes)
    assert waits == len(graph.deps)
    assert sum(map(len, traces)) == len(graph.nodes)
    assert len(found.files) == graph.ranks + 1


def test_astrasim_with_a_topology(tmp_path: Path) -> None:
    found = translate(ring(4, 1000), "astrasim-ns3", tmp_path / "s.1", topology=resolve("switch:gpus=4"))
    names = [f"s.1.{rank}.et" for rank in range(4)] + ["s.1.logical.json", "s.1.topology.txt"]
    assert [file.name for file in found.files] == [*names, "s.1.config.txt", "s.1.trace.txt", "s.1.flow.txt"]
    settings = (tmp_path / "s.1.config.txt").read_text()
    assert "TOPOLOGY_FILE s.1.topology.txt\nFLOW_FILE s.1.flow.txt\nTRACE_FILE s.1.trace.txt\n" in settings
    made = Builder(2, "tags")
    made.send(0, 1, 1, 2**31)
    made.receive(1, 0, 1, 2**31)
    with pytest.raises(InputError, match=r"tags: node 0 of rank 0 \(send to 1\) has tag 2147483648"):
        translate(made.graph(), "astrasim-ns3", tmp_path / "no")
