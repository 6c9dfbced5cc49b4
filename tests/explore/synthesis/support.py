"""Helpers for tests of synthesis: networks drawn at random, and a plain check of a schedule."""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import Any

from hypothesis import strategies as st

from astranb.explore.synthesis.schedule import Schedule
from astranb.infragraph import Infra

__all__ = ["faults_of", "networks"]


def _box(ranks: int, joined: list[tuple[str, str, int, int]], switches: int) -> Infra:
    """GPUs, and perhaps switches, joined by links of given GB/s and ns."""
    components = [{"name": "gpu", "count": ranks, "choice": "xpu"}]
    if switches:
        components.append({"name": "sw", "count": switches, "choice": "switch"})
    links, edges = [], []
    for number, (a, b, gigabytes, ns) in enumerate(joined):
        physical = {
            "bandwidth": {"choice": "gigabytes_per_second", "gigabytes_per_second": gigabytes},
            "latency": {"choice": "ns", "ns": ns},
        }
        links.append({"name": f"l{number}", "physical": physical})
        ends = {"ep1": {"component": a}, "ep2": {"component": b}}
        edges.append({**ends, "scheme": "one2one", "link": f"l{number}"})
    device = {"name": "box", "components": components, "links": links, "edges": edges}
    instances = [{"name": "box", "device": "box", "count": 1}]
    document: dict[str, Any] = {"name": "drawn", "devices": [device], "instances": instances}
    return Infra(document)


@st.composite
def networks(draw: st.DrawFn) -> tuple[Infra, list[str]]:
    """Draw a connected network of links that differ, and links that have failed in one direction."""
    ranks = draw(st.integers(2, 6))
    numbers = st.sampled_from([10, 25, 50]), st.sampled_from([100, 500, 2000])
    joined, tree = [], set()
    for rank in range(1, ranks):  # a tree, so that all are connected
        other = draw(st.integers(0, rank - 1))
        tree.add((other, rank))
        joined.append((f"gpu[{other}]", f"gpu[{rank}]", draw(numbers[0]), draw(numbers[1])))
    pairs = [(a, b) for a in range(ranks) for b in range(a + 1, ranks) if (a, b) not in tree]
    down = []
    for a, b in draw(st.lists(st.sampled_from(pairs), unique=True, max_size=5)) if pairs else ():
        joined.append((f"gpu[{a}]", f"gpu[{b}]", draw(numbers[0]), draw(numbers[1])))
        if draw(st.booleans()):
            down.append(f"gpu[{a}]->gpu[{b}]")
    switches = draw(st.integers(0, 1))
    if switches:
        members = draw(st.lists(st.integers(0, ranks - 1), unique=True, min_size=2))
        rate = draw(numbers[0])
        joined += [(f"gpu[{rank}]", "sw[0]", rate, 100) for rank in members]
    return _box(ranks, joined, switches), down


def faults_of(schedule: Schedule) -> list[str]:
    """Return what is wrong with a schedule, followed in the order of time."""
    network, condition, slices = schedule.network, schedule.condition, schedule.slices
    wrong: list[str] = []
    # Whose contributions a rank has of a slice; where nothing is added, all copies are the same.
    held: dict[tuple[int, int], frozenset[int]] = {
        (rank, chunk * slices + part): frozenset([rank] if condition.reduces else [])
        for rank, chunks in condition.before.items()
        for chunk in chunks
        for part in range(slices)
    }
    busy: dict[int, list[tuple[int, int]]] = defaultdict(list)
    carried: dict[int, frozenset[int]] = {}
    starts, ends = schedule.start_ps.tolist(), schedule.end_ps.tolist()
    moments = [(at, 1, number) for number, at in enumerate(starts)]
    for at, sends, number in sorted(moments + [(at, 0, number) for number, at in enumerate(ends)]):
        edge, chunk = int(schedule.edge[number]), int(schedule.chunk[number])
        source, target = int(network.source[edge]), int(network.target[edge])
        if not sends:
            before = held.get((target, chunk), frozenset())
            if schedule.adds[number] and before & carried[number]:
                wrong.append(f"rank {target} adds a contribution to {chunk} twice")
            held[target, chunk] = carried[number] | (before if schedule.adds[number] else frozenset())
            continue
        if (source, chunk) not in held:
            wrong.append(f"rank {source} sends {chunk} at {at}, which it does not have")
        carried[number] = held.get((source, chunk), frozenset())
        slowest = 0
        for port in network.ports(edge).tolist():
            wire = -(-schedule.slice_bytes * 10**12 // int(network.rate_Bps[port]))
            slowest = max(slowest, wire)
            busy[port].append((at, at + wire))
        if ends[number] != at + slowest + int(network.latency_ps[edge]):
            wrong.append(f"a slice crosses edge {edge} in {ends[number] - at} ps")
    for port, times in busy.items():
        both = pairwise(sorted(times))
        wrong += [f"port {port} carries two slices at {later[0]}" for one, later in both if later[0] < one[1]]
    for rank, chunks in condition.after.items():
        for chunk in chunks:
            needed = frozenset(r for r, has in condition.before.items() if condition.reduces and chunk in has)
            for part in range(slices):
                if held.get((rank, chunk * slices + part)) != needed:
                    wrong.append(f"rank {rank} lacks {chunk}, or a contribution to it")
    return wrong
