"""Starts of messages: as recorded, or as early as possible, over rates given or those of a topology."""

from __future__ import annotations

from fractions import Fraction
from math import ceil

import numpy as np
import pytest
from hypothesis import given

from astranb.core.errors import InputError
from astranb.infragraph import Infra, resolve
from astranb.traffic import MessageGraph
from astranb.traffic.schedule import flat_network_of, message_times
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND
from tests.traffic.targets.graphs import Builder, graphs, ring

RATE, LATENCY_PS = 3_000_000_007, 1_250_000


def plain_starts(graph: MessageGraph) -> tuple[list[int], int]:
    """Begin of each send and the end of all, node by node until nothing changes."""
    nodes = graph.nodes.tolist()
    fields = list(graph.nodes.dtype.names or ())
    rows = [dict(zip(fields, node, strict=True)) for node in nodes]
    begin, end = [0] * len(rows), [0] * len(rows)
    changed = True
    while changed:
        changed = False
        for row, node in enumerate(rows):
            deps = graph.deps[graph.dep_start[row] : graph.dep_start[row + 1]]
            begin[row] = max((end[dep] for dep in deps), default=0)
            over = (
                LATENCY_PS + ceil(Fraction(node["bytes"] * 10**12, RATE))
                if node["rank"] != node["peer"]
                else 0
            )
            done = begin[row] + {COMPUTE: node["duration_ps"], SEND: over, RECV: 0}[node["kind"]]
            if node["kind"] == RECV:
                done = max(done, end[node["match"]])
            changed |= done != end[row]
            end[row] = done
    return [begin[row] for row in graph.sends], max(end, default=0)


@given(graphs)
def test_starts_without_congestion(graph: MessageGraph) -> None:
    times = message_times(graph, bandwidth=RATE, latency=LATENCY_PS)
    starts, end_ps = plain_starts(graph)
    assert times.start_ps.tolist() == starts
    assert times.end_ps == end_ps
    assert times.remark.startswith("starts without congestion, with 3 GB/s and 1.25 µs")


def test_recorded_starts_count_where_all_messages_have_one() -> None:
    graph = ring(3, 1000)
    graph.nodes["start_ps"][graph.sends] = 7 * np.arange(graph.messages)
    times = message_times(graph)
    assert times.start_ps.tolist() == [7 * n for n in range(graph.messages)]
    assert times.remark == "starts as recorded"
    graph.nodes["start_ps"][graph.sends[0]] = -1
    assert message_times(graph).remark.startswith("starts without congestion")


def pair(size: int, ranks: int, source: int, target: int) -> MessageGraph:
    made = Builder(ranks, "pair")
    made.send(source, target, size)
    made.receive(target, source, size)
    return made.graph()


@pytest.mark.parametrize(
    "name, source, target, rate, latency_ps",
    [
        # 18 NVLinks of 25 GB/s to NVSwitches, each of 100 ns, and 100 ns in the switch.
        ("dgx-h100", 0, 5, 450 * 10**9, 300_000),
        # A NIC of 50 GB/s; the lane on each rail has one switch of 500 ns, links of 150 ns, PCIe and NICs.
        ("rails:servers=16", 3, 11, 50 * 10**9, 2_400_000),
        # Other rails are behind the spine, not behind another GPU's NIC: two more switches and cables.
        ("rails:servers=2", 0, 12, 50 * 10**9, 3_700_000),
        ("rails:servers=2", 0, 9, 50 * 10**9, 3_700_000),
        ("switch:gpus=4", 1, 2, 50 * 10**9, 1_500_000),
        # Two hops on either side of a ring of four: both ways together.
        ("ring:gpus=4", 0, 2, 100 * 10**9, 1_000_000),
        ("ring:gpus=4", 0, 1, 50 * 10**9, 500_000),
    ],
)
def test_rates_of_a_topology(name: str, source: int, target: int, rate: int, latency_ps: int) -> None:
    infra = resolve(name)
    graph = pair(9_000_000, len(infra.expand().gpus), source, target)
    network = flat_network_of(infra, graph)
    takes = int(message_times(graph, network).takes_ps[0])
    assert takes == latency_ps + ceil(Fraction(9_000_000 * 10**12, rate))


def test_a_topology_with_too_few_gpus_or_parts_is_refused() -> None:
    with pytest.raises(InputError, match=r"pair: 9 ranks, but .* has 8 GPUs; give a topology with a GPU"):
        flat_network_of(resolve("dgx-h100"), pair(1, 9, 0, 1))
    box = {
        "name": "box",
        "components": [{"name": "gpu", "count": 1, "choice": "xpu"}],
        "links": [],
        "edges": [],
    }
    apart = Infra(
        {"name": "two", "devices": [box], "instances": [{"name": "host", "device": "box", "count": 2}]}
    )
    network = flat_network_of(apart, MessageGraph.of(2, []))
    assert message_times(MessageGraph.of(2, []), network).end_ps == 0
    graph = pair(1, 2, 0, 1)
    with pytest.raises(InputError, match="two: rank 0 cannot reach rank 1"):
        message_times(graph, flat_network_of(apart, graph))
