"""htsim's connection matrices: what is written and read, by an independent reader of the format."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given

from astranb.cli import main
from astranb.core.errors import InputError
from astranb.infragraph import blueprint, htsim_topology, load, resolve
from astranb.traffic import Label, MessageGraph
from astranb.traffic.order import node_order
from astranb.traffic.targets import translate
from astranb.traffic.targets.htsim import read_htsim, write_htsim
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND
from tests.traffic.targets.graphs import NAMED, Builder, all_to_all, bytes_by_pair, graphs, random_graph, ring

FLOW = re.compile(
    r"(\d+)->(\d+) id (\d+) (?:start (\d+)|trigger (\d+)) size (\d+)(?: send_done_trigger (\d+))?"
)
TRIGGER = re.compile(r"trigger id (\d+) (?:oneshot|barrier count (\d+))")


@dataclass
class Matrix:
    """A connection matrix as htsim reads it."""

    nodes: int
    flows: dict[int, tuple[int, int, int, int, int, int]] = field(default_factory=dict)
    counts: dict[int, int] = field(default_factory=dict)
    own: int = 0  # flows of messages

    def starts(self) -> dict[int, int]:
        """Begin all flows as triggers say, where each ends at once; returns the start of each.

        A flow's end activates its trigger; one that is activated too often stops htsim.
        """
        start: dict[int, int] = {}
        left = dict(self.counts)
        latest = dict.fromkeys(self.counts, 0)
        waiting: dict[int, list[int]] = {}
        ready = []
        for number, (_, _, at, trigger, _, _) in self.flows.items():
            if trigger:
                waiting.setdefault(trigger, []).append(number)
            else:
                ready.append((number, at))
        while ready:
            number, at = ready.pop()
            start[number] = at
            done = self.flows[number][5]
            if done:
                left[done] -= 1
                assert left[done] >= 0
                latest[done] = max(latest[done], at)
                if left[done] == 0:
                    ready += [(other, latest[done]) for other in waiting.get(done, ())]
        return start

    def before(self) -> dict[int, set[int]]:
        """Of each flow those that have ended when it begins."""
        activating: dict[int, list[int]] = {}
        for number, (*_, done) in self.flows.items():
            activating.setdefault(done, []).append(number)
        known: dict[int, set[int]] = {}

        def of(number: int) -> set[int]:
            if number not in known:
                trigger = self.flows[number][3]
                found: set[int] = set()
                for other in activating.get(trigger, ()) if trigger else ():
                    found |= {other} | of(other)
                known[number] = found
            return known[number]

        for number in self.flows:
            of(number)
        return known


def matrix(file: Path) -> Matrix:
    """Read a file as the format says; counts and triggers must fit."""
    lines = file.read_text().splitlines()
    own = next(int(found[1]) for line in lines if (found := re.match(r"# ids above (\d+):", line)))
    body = [line for line in lines if not line.startswith("#")]
    header = {word: int(number) for word, number in (line.split(" ") for line in body[:3])}
    assert list(header) == ["Nodes", "Connections", "Triggers"]
    read = Matrix(header["Nodes"], own=own)
    for line in body[3:]:
        if found := FLOW.fullmatch(line):
            source, target, number, start, trigger, size, done = (int(each or 0) for each in found.groups())
            assert number == len(read.flows) + 1
            assert max(source, target) < read.nodes
            assert source != target
            assert 1 <= size < 2**31
            assert start == int(np.float32(start))
            read.flows[number] = source, target, start, trigger, size, done
        else:
            found = TRIGGER.fullmatch(line)
            assert found, line
            assert int(found[1]) == len(read.counts) + 1
            read.counts[int(found[1])] = int(found[2] or 1)
    assert len(read.flows) == header["Connections"]
    assert len(read.counts) == header["Triggers"]
    used = {flow[3] for flow in read.flows.values()} | {flow[5] for flow in read.flows.values()}
    assert used - {0} == set(read.counts)
    activations = dict.fromkeys(read.counts, 0)
    for *_, done in read.flows.values():
        if done:
            activations[done] += 1
    assert activations == read.counts
    return read


def dependencies(graph: MessageGraph) -> list[tuple[set[int], int]]:
    """Of each message the messages that must have ended, and the time of computations that wait for none."""
    number = {int(row): place for place, row in enumerate(graph.sends)}
    at_end: dict[int, tuple[set[int], int]] = {}
    found: dict[int, tuple[set[int], int]] = {}
    nodes = graph.nodes
    for row in node_order(graph).tolist():
        messages: set[int] = set()
        time_ps = 0
        for dep in graph.deps[graph.dep_start[row] : graph.dep_start[row + 1]].tolist():
            messages |= at_end[dep][0]
            time_ps = max(time_ps, at_end[dep][1])
        kind, local = nodes["kind"][row], nodes["peer"][row] == nodes["rank"][row]
        if kind == SEND:
            found[number[row]] = messages, time_ps
            if not local:
                messages = messages | {number[row]}
        elif kind == RECV:
            before, earliest = at_end[int(nodes["match"][row])]
            messages = messages | before
            time_ps = max(time_ps, earliest)
        elif not messages:
            time_ps += int(nodes["duration_ps"][row])
        at_end[row] = messages, time_ps
    return [found[place] for place in range(graph.messages)]


def check(graph: MessageGraph, read: Matrix) -> None:
    """All flows begin, and each after all that its message waits for."""
    between = [
        place for place, row in enumerate(graph.sends) if graph.nodes["rank"][row] != graph.nodes["peer"][row]
    ]
    assert read.own == len(between)
    sends = graph.nodes[graph.sends[between]]
    for number, node in enumerate(sends, 1):
        assert read.flows[number][:2] == (node["rank"], node["peer"])
        assert read.flows[number][4] == max(1, node["bytes"])
    assert all(flow[4] == 1 for number, flow in read.flows.items() if number > read.own)
    starts, before = read.starts(), read.before()
    assert len(starts) == len(read.flows)
    flow_of = {place: number for number, place in enumerate(between, 1)}
    for place, (messages, time_ps) in enumerate(dependencies(graph)):
        if place in flow_of:
            own = flow_of[place]
            assert {flow_of[each] for each in messages} <= before[own]
            assert starts[own] >= int(np.float32(time_ps)) * (1 - 1e-6)
            # and no later than anything that comes before it
            assert not before[own] or before[own] & set(range(1, read.own + 1)) <= {
                flow_of[each] for each in messages
            } | set().union(*(before[flow_of[each]] for each in messages))


@given(graphs)
def test_every_flow_begins_after_all_that_its_message_waits_for(
    tmp_path_factory: pytest.TempPathFactory, graph: MessageGraph
) -> None:
    file = tmp_path_factory.mktemp("htsim") / "a.cm"
    if graph.messages == 0:
        with pytest.raises(InputError, match="there are no messages between ranks"):
            translate(graph, "htsim", file)
        return
    done = translate(graph, "htsim", file)
    read = matrix(file)
    check(graph, read)
    relays = len(read.flows) - read.own
    assert sum(f"{relays:,} of {len(read.flows):,} flows: relays" in line for line in done.not_expressed) == (
        relays > 0
    )
    back = read_htsim(file)
    sent = bytes_by_pair(graph)
    empty = graph.nodes[graph.sends]
    for node in empty[empty["bytes"] == 0]:
        sent[int(node["rank"]), int(node["peer"])] += 1
    found = bytes_by_pair(back)
    for source, target, *_, size, _ in list(read.flows.values())[read.own :]:
        found[source, target] -= size
    assert {pair: size for pair, size in found.items() if size} == sent


@pytest.mark.parametrize("seed", [1300, *range(40)])
def test_a_start_is_kept_beside_messages(seed: int, tmp_path: Path) -> None:
    graph = random_graph(3, 11, seed, zero=False)
    translate(graph, "htsim", tmp_path / "a.cm")
    check(graph, matrix(tmp_path / "a.cm"))


@pytest.mark.parametrize("name", NAMED)
def test_named_graphs(name: str, tmp_path: Path) -> None:
    graph = NAMED[name]()
    write_htsim(graph, tmp_path / "a.cm", nodes=1024)
    read = matrix(tmp_path / "a.cm")
    assert read.nodes == 1024
    check(graph, read)


def test_sets_get_more_room_where_they_need_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_htsim(NAMED["random 16"](), tmp_path / "a.cm")
    monkeypatch.setattr("astranb.traffic.waits._ROOM", 0)
    write_htsim(NAMED["random 16"](), tmp_path / "b.cm")
    assert (tmp_path / "b.cm").read_bytes() == (tmp_path / "a.cm").read_bytes()


def test_computations_are_flows_of_spare_hosts(tmp_path: Path) -> None:
    graph = NAMED["pipeline 4"]()
    file = tmp_path / "a.cm"
    done = write_htsim(graph, file, host_bandwidth="10 GB/s")
    read = matrix(file)
    assert read.nodes == 12
    hosts = [flow for flow in read.flows.values() if flow[0] >= 4]
    waits = [node for node in graph.nodes if node["kind"] == COMPUTE]
    assert len(hosts) == 28 - 4  # rank 0's forward passes wait for no message; the last computation counts
    assert {flow[4] for flow in hosts} == {
        round(node["duration_ps"] / 100)
        for node in waits
        if node["rank"] or node["duration_ps"] == 20_000_000
    }
    assert all(flow[1] == flow[0] + 1 and flow[0] % 2 == 0 for flow in hosts)
    assert any(
        f"{len(hosts)} of {len(waits)} computations: flows between spare hosts" in line
        for line in done.not_expressed
    )
    assert len(read.starts()) == len(read.flows)


def test_the_pipeline_without_computations_says_so(tmp_path: Path) -> None:
    done = write_htsim(NAMED["pipeline 4"](), tmp_path / "a.cm")
    assert any(
        "28 of 32 computations: wait for messages and take no time" in line for line in done.not_expressed
    )


def test_what_is_not_expressed_is_counted(tmp_path: Path) -> None:
    made = Builder(2, "several\nNodes 3")
    begun = made.compute(0, 2**24 + 1)
    made.send(0, 1, 2 * (2**31 - 1) + 5, 3, [begun])
    got = made.receive(1, 0, 2 * (2**31 - 1) + 5, 3)
    made.send(1, 0, 0, 0, [got])
    made.receive(0, 1, 0)
    local = made.send(0, 0, 7, 1)
    made.receive(0, 0, 7, 1, [local])
    graph = made.graph()
    labels = [Label("layer", "all_reduce", "ring")]
    graph = MessageGraph(2, graph.nodes, graph.dep_start, graph.deps, labels, graph.title)
    done = write_htsim(graph, tmp_path / "a.cm")
    assert [line.split(":")[0] for line in done.not_expressed] == [
        "1 of 3 dependencies",
        "1 of 3 messages",
        "1 of 3 messages",
        "1 of 3 messages",
        "1 of 1 starts",
        "2 of 3 messages",
        "7 of 7 nodes",
    ]
    assert done.messages == 2
    read = matrix(tmp_path / "a.cm")
    assert [flow[4] for flow in read.flows.values()] == [2**31 - 1, 2**31 - 1, 5, 1]
    assert read.before()[4] == {1, 2, 3}
    assert read.flows[1][2] == 2**24


def test_the_topology_gives_the_nodes(tmp_path: Path) -> None:
    infra = blueprint("ring:gpus=16")
    write_htsim(ring(4, 100), tmp_path / "a.cm", topology=infra)
    assert matrix(tmp_path / "a.cm").nodes == 16
    with pytest.raises(InputError, match="17 ranks do not fit on 16 nodes; give 17 nodes"):
        write_htsim(ring(17, 100), tmp_path / "b.cm", topology=infra)
    with pytest.raises(InputError, match=r"4 ranks with two more .* do not fit on 8 nodes; give 12"):
        write_htsim(ring(4, 100), tmp_path / "b.cm", nodes=8, host_bandwidth=10**9)
    for wrong, what in (
        ({"host_bandwidth": "much"}, "host_bandwidth"),
        ({"nodes": "many"}, "nodes: nodes is 'many'; give a whole number"),
        ({"nodes": -3}, "nodes: nodes is -3"),
    ):
        with pytest.raises(InputError, match=what):
            translate(ring(4, 100), "htsim", tmp_path / "b.cm", **wrong)


def test_a_connection_matrix_is_read(tmp_path: Path) -> None:
    file = tmp_path / "a.cm"
    file.write_text(
        "# made by hand\nNodes 4\nConnections 4\nTriggers 2\nFailures 1\n"
        "0->1 id 1 start 16777217 size 100 send_done_trigger 1 prio 3\n"
        "2->3 id 2 start 0.0 size 50 recv_done_trigger 1\n\n"
        "1->3 id 3 trigger 1 size 70 send_done_trigger 2 addon\r\n"
        "1->0 trigger_ size 5\n".replace("1->0 trigger_", "1->0 id 9 trigger 2")
        + "trigger id 1 barrier count 2\ntrigger id 2 oneshot\n"
        "failure switch_type TOR switch_id 0 link_id 1\n"
    )
    graph = read_htsim(file)
    assert graph.messages == 5
    assert bytes_by_pair(graph) == {(0, 1): 100, (2, 3): 50, (1, 3): 70, (1, 0): 5, (3, 1): 0}
    assert graph.nodes["duration_ps"].max() == 2**24
    assert set(graph.assumptions) == {"priorities", "addon", "failures", "joined"}
    waits = dependencies(graph)
    sends = graph.nodes[graph.sends]
    of = {(int(node["rank"]), int(node["peer"])): place for place, node in enumerate(sends)}
    assert waits[of[1, 3]][0] == {of[0, 1], of[2, 3], of[3, 1]}
    assert waits[of[1, 0]][0] == {of[1, 3]} | waits[of[1, 3]][0]


RECORDED = json.loads((Path(__file__).parents[2] / "data" / "traffic.json").read_text())["htsim"]
NODES = 16  # of the fat tree that htsim_ndp makes of switches with four ports
LINK_BPUS = 12_500  # its links' 100 Gbit/s in bytes for a microsecond


def check_times(read: Matrix, end_us: dict[int, float]) -> None:
    """Flows ended in an order that dependencies allow, and took as long as their bytes do."""
    assert set(end_us) == set(read.flows)
    before = read.before()
    for number, (_, _, start_ps, _, size, _) in read.flows.items():
        begun_us = max((end_us[other] for other in before[number]), default=start_ps / 1e6)
        assert end_us[number] >= begun_us + size / LINK_BPUS


@pytest.mark.reference
@pytest.mark.parametrize("name", RECORDED["graphs"])
def test_htsim_ran_the_flows_to_their_end(name: str, tmp_path: Path) -> None:
    write_htsim(NAMED[name](), tmp_path / "a.cm", nodes=NODES)
    check_times(matrix(tmp_path / "a.cm"), dict(enumerate(RECORDED["graphs"][name], 1)))


def htsim(file: Path, nodes: int = NODES, *more: str) -> dict[int, float]:
    """Run htsim_ndp; returns when each flow ended, in microseconds."""
    program = os.environ.get("HTSIM_NDP") or shutil.which("htsim_ndp")
    if not program:
        pytest.skip("htsim_ndp is not on the path, and HTSIM_NDP does not name it")
    command = [program, "-nodes", str(nodes), "-tm", file.name, "-strat", "perm", "-end", "1000000", *more]
    done = subprocess.run(command, cwd=file.parent, check=True, capture_output=True, text=True)
    return {
        int(number): float(end) for number, end in re.findall(r"flow_id (\d+) finished at (\S+)", done.stdout)
    }


@pytest.mark.parametrize("name", RECORDED["graphs"])
def test_htsim_still_says_what_was_recorded(name: str, tmp_path: Path) -> None:
    write_htsim(NAMED[name](), tmp_path / "a.cm", nodes=NODES)
    assert htsim(tmp_path / "a.cm") == dict(enumerate(RECORDED["graphs"][name], 1))


@pytest.mark.parametrize("seed", range(10))
def test_htsim_runs_random_graphs_to_their_end(seed: int, tmp_path: Path) -> None:
    graph = random_graph(2 + seed % 5, 40 + 10 * seed, seed, zero=True)
    rate = 12_500_000_000 if seed % 2 and 3 * graph.ranks <= NODES else 0
    write_htsim(graph, tmp_path / "a.cm", nodes=NODES, host_bandwidth=rate)
    check_times(matrix(tmp_path / "a.cm"), htsim(tmp_path / "a.cm"))


@pytest.mark.parametrize("name", ["rails:servers=16", "clos:servers=4", "switch:gpus=9"])
def test_a_network_is_written_and_ranks_have_its_numbers(name: str, tmp_path: Path) -> None:
    infra = resolve(name)
    graph = infra.expand()
    ranks = len(graph.gpus)
    pattern = all_to_all(4, 1000)
    pattern = MessageGraph(ranks, pattern.nodes, pattern.dep_start, pattern.deps, title="a")
    _, host, _ = htsim_topology(graph)
    found = write_htsim(pattern, tmp_path / "a.cm", topology=infra)
    assert [file.name for file in found.files] == ["a.cm", "a.topo"]
    assert len(load(tmp_path / "a.topo").expand().gpus) == ranks
    read = matrix(tmp_path / "a.cm")
    ends = {flow[:2] for number, flow in read.flows.items() if number <= read.own}
    assert ends == {(host[a], host[b]) for a in range(4) for b in range(4) if a != b}
    assert all(one.startswith("network: ") for one in found.not_expressed if "hosts" in one)


@pytest.mark.parametrize("name", ["rails:servers=16", "clos:servers=4", "switch:gpus=9"])
def test_htsim_runs_on_the_network(name: str, tmp_path: Path) -> None:
    infra = resolve(name)
    ranks = len(infra.expand().gpus)
    small = ring(4, 10_000)
    graph = MessageGraph(ranks, small.nodes, small.dep_start, small.deps, title="a")
    write_htsim(graph, tmp_path / "a.cm", topology=infra)
    ended = htsim(tmp_path / "a.cm", ranks, "-topo", "a.topo")
    assert set(ended) == set(matrix(tmp_path / "a.cm").flows)


def test_networks_that_htsim_has_not_are_reported(tmp_path: Path) -> None:
    found = write_htsim(ring(8, 100), tmp_path / "a.cm", topology=resolve("dgx-h100"))
    assert [file.name for file in found.files] == ["a.cm"]
    assert any(
        one.startswith("network: dgx_h100-infra: not a network of htsim's") for one in found.not_expressed
    )
    found = write_htsim(ring(2, 100), tmp_path / "a.cm", topology=resolve("switch:gpus=4"), nodes=9)
    assert "network: there is none of 9 nodes, switch has 4" in found.not_expressed


GOOD = (
    "Nodes 4\nConnections 2\nTriggers 1\n0->1 id 1 start 0 size 8 send_done_trigger 1\n"
    "1->2 id 2 trigger 1 size 8\ntrigger id 1 oneshot\n"
)
WRONG = [
    ("", "no flows"),
    ("junk\n", ":1: unknown word 'junk'"),
    (GOOD.replace("Connections 2", "Connections 3"), "Connections is 3, but the file has 2"),
    (GOOD.replace("Triggers 1\n", ""), "Triggers is 0, but the file has 1"),
    (GOOD.replace("1->2", "1->4"), ":5: node 4 does not exist; Nodes is 4"),
    (GOOD.replace("id 1 start", "id 0 start"), ":4: 'id' needs a whole number, not '0'"),
    (GOOD.replace("1->2 id 2 ", "1->2 "), ":5: a flow with a trigger and no id before it"),
    (GOOD.replace("id 2 trigger", "id 1 trigger"), ":5: two flows have id 1"),
    (GOOD.replace("start 0 ", ""), ":4: a flow with neither a start nor a trigger"),
    (GOOD.replace("start 0 ", "start 0 trigger 1 "), ":4: a flow with a start and a trigger"),
    (GOOD.replace("start 0 ", "start now "), ":4: a start needs a number of picoseconds"),
    (GOOD.replace("start 0 ", "start nan "), ":4: a start needs a number of picoseconds"),
    (GOOD.replace("trigger 1 size 8", "trigger 1"), ":5: a flow without a size never ends"),
    (GOOD.replace("size 8\n", "size 0\n"), ":5: 'size' needs a whole number, not '0'"),
    (GOOD.replace("size 8\n", "size 2147483648\n"), ":5: 'size' needs a whole number"),
    (GOOD.replace("size 8\n", "size  8\n"), ":5: 'size' needs a whole number, not ''"),
    (GOOD.replace("size 8\n", "sise 8\n"), ":5: unknown word 'sise' of a flow; did you mean 'size'?"),
    (GOOD.replace("0->1", "0->1->2"), ":4: a flow '0->1->2'"),
    (GOOD.replace("oneshot", ""), ":6: a trigger needs an id and a kind"),
    (GOOD.replace("oneshot", "oneshot barrier"), ":6: a trigger of two kinds"),
    (GOOD.replace("oneshot", "sometimes"), ":6: unknown word 'sometimes' of a trigger"),
    (GOOD.replace("oneshot\n", "oneshot\ntrigger id 1 oneshot\n"), ":7: duplicate trigger 1"),
    (GOOD.replace("trigger id 1 oneshot\n", "").replace("Triggers 1\n", ""), "trigger 1 is not described"),
    (GOOD.replace("oneshot", "barrier count 2"), ":6: trigger 1 has 1 of 2 activations"),
    (GOOD.replace(" send_done_trigger 1", ""), ":6: trigger 1 has 0 of 1 activations"),
    (GOOD.replace("size 8\n", "size 8 send_done_trigger 1\n"), ":6: trigger 1 is activated 2 times, not 1"),
    (
        GOOD.replace("size 8\n", "size 8 send_done_trigger 1\n").replace("oneshot", "multishot"),
        ":6: trigger 1 begins a flow for each activation",
    ),
]


@pytest.mark.parametrize("text, what", WRONG)
def test_wrong_files_are_refused_in_one_line(text: str, what: str, tmp_path: Path) -> None:
    file = tmp_path / "a.cm"
    file.write_text(text)
    with pytest.raises(InputError) as error:
        read_htsim(file)
    assert what in str(error.value)
    assert str(file) in str(error.value)


def test_multishot_triggers_of_one_flow_are_read(tmp_path: Path) -> None:
    file = tmp_path / "a.cm"
    file.write_text(GOOD.replace("oneshot", "multishot"))
    assert read_htsim(file).deps.tolist() == [1]


def test_starts_of_a_matrix_are_known(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "starts.cm"
    file.write_text("Nodes 4\nConnections 2\n0->1 id 1 start 0 size 2000\n2->1 id 2 start 5000 size 100\n")
    assert [node["start_ps"] for node in read_htsim(file).nodes if node["kind"] == SEND] == [0, 5000]
    assert main(["traffic", "show", str(file)]) == 0
    assert "bins of 50 ps, 98% of them idle" in capsys.readouterr().out
    file.write_text(
        "Nodes 4\nConnections 2\nTriggers 1\n0->1 id 1 start 0 size 2000 send_done_trigger 1\n"
        "1->2 id 2 trigger 1 size 100\ntrigger id 1 oneshot\n"
    )
    assert main(["traffic", "show", str(file)]) == 2
    assert "1 of 2 messages have no start; replay" in capsys.readouterr().err
