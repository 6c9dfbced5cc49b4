"""One collective by messages: it takes what its algorithm takes by hand."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import algorithms
from astranb.workload.astrasim2 import ALGORITHM_WORDS, COLLECTIVE_NAMES

_TWO = """
name: two
devices:
- name: box
  components:
  - {name: gpu, choice: xpu, count: 2}
  - {name: sw, choice: switch, count: 1}
  - {name: nic, choice: nic, count: 2}
  links:
  - {name: nvl, physical: {bandwidth: {gigabytes_per_second: 400}, latency: {ns: 100}}}
  - {name: pci, physical: {bandwidth: {gigabytes_per_second: 400}, latency: {ns: 100}}}
  edges:
  - {ep1: {component: gpu}, ep2: {component: sw}, scheme: many2many, link: nvl}
  - {ep1: {component: gpu}, ep2: {component: nic}, scheme: one2one, link: pci}
links:
- {name: cable, physical: {bandwidth: {gigabytes_per_second: 25}, latency: {ns: 500}}}
instances:
- {name: host, device: box, count: 2}
edges:
- ep1: {instance: "host[0]", component: nic}
  ep2: {instance: "host[1]", component: nic}
  scheme: one2one
  link: cable
"""
_LATENCIES = 1.03  # of the few messages of such an algorithm, beside what their bytes take


@pytest.mark.parametrize("fidelity", ["analytical", "congestion"])
@pytest.mark.parametrize(
    "collective, inside, between",
    [
        # Scattered within a box, reduced between two boxes by one exchange each way, gathered within a box.
        ("all_reduce", 2 * 1 / 2, 2 * 1 / 2 * 1 / 2),
        ("reduce_scatter", 1 / 2, 1 / 2 * 1 / 2),
        ("all_gather", 1 / 2, 1 / 2 * 1 / 2),
        # Every rank gives half of its bytes to the other GPU of its box, and half to the other box.
        ("all_to_all", 1 / 2, 1 / 2),
    ],
)
def test_hierarchical_moves_most_bytes_within_boxes(
    collective: str, inside: float, between: float, fidelity: str
) -> None:
    size = 8 << 20
    work = anb.collectives.Collective.of(collective, size, "hierarchical")
    sim = anb.Simulation(anb.infragraph.load(_TWO), work, fidelity=fidelity)
    sim.run()
    by_hand_ps = size * (inside / 400 + between / 25) * 1000
    assert by_hand_ps <= sim.now_ps <= _LATENCIES * by_hand_ps


@pytest.mark.parametrize("fidelity", ["analytical", "congestion"])
def test_hierarchical_uses_all_nics_of_a_box(fidelity: str) -> None:
    size, boxes, gpus = 64 << 20, 4, 8
    work = anb.collectives.all_reduce(size, "hierarchical")
    sim = anb.Simulation(f"clos:servers={boxes}", work, fidelity=fidelity)
    sim.run()
    inside_ps = 2 * size * (gpus - 1) / gpus / 450 * 1000
    between_ps = 2 * (size / gpus) * (boxes - 1) / boxes / 50 * 1000
    assert inside_ps + between_ps <= sim.now_ps <= 1.1 * (inside_ps + between_ps)


# Every name on every kind of box. The oracle is arithmetic: what has to leave the busiest box, and its NICs.

_NIC_Bps = {
    "dgx-h100": (8, 8, 50e9),
    "dgx-a100": (8, 8, 25e9),
    "a3-high": (8, 4, 25e9),
    "mi300x": (8, 8, 50e9),
    "dgx-gb200": (4, 4, 50e9),
}
_NAMED = [
    (name, algorithm)
    for name in COLLECTIVE_NAMES
    for algorithm in (one.name for one in algorithms(name))
    if algorithm in ALGORITHM_WORDS and algorithm != "switch"
]


def _leaves_bytes(name: str, algorithm: str, size: int, boxes: int, gpus: int) -> float:
    """Bytes that at least one box has to send to the others, or to get from them."""
    if algorithm == "allpairs_oneshot":
        return size * gpus * gpus * (boxes - 1)
    return (
        size
        * {
            "all_reduce": 2 * (boxes - 1) / boxes,
            "reduce_scatter": (boxes - 1) / boxes,
            "all_gather": (boxes - 1) / boxes,
            "all_to_all": gpus * (boxes - 1) / boxes,
            "broadcast": 1,
            "reduce": 1,
            "scatter": (boxes - 1) / boxes,
            "gather": (boxes - 1) / boxes,
        }[name]
    )


def _took_ps(infra: str, name: str, algorithm: str, size: int, fidelity: str) -> int:
    sim = anb.Simulation(infra, anb.collectives.Collective.of(name, size, algorithm), fidelity=fidelity)
    sim.run()
    return sim.now_ps


@given(
    st.sampled_from(_NAMED),
    st.sampled_from(["single-tier", "rails", "clos", "fat-tree"]),
    st.sampled_from(sorted(_NIC_Bps)),
    st.integers(2, 3),
    st.integers(12, 26),
    st.sampled_from(["analytical", "congestion"]),
)
@settings(max_examples=40)
def test_no_collective_sends_more_than_the_nics_of_a_box(named, network, server, boxes, power, fidelity):
    name, algorithm = named
    gpus, nics, each_Bps = _NIC_Bps[server]  # noqa: N806 - unit in the name
    assume(algorithm != "halving_doubling" or boxes == 2)  # a power of two
    infra = f"{network}:servers={boxes},server={server}"
    if fidelity == "analytical":
        nics = gpus  # without congestion, GPUs that share a NIC do not wait for each other
    least_ps = 1e12 * _leaves_bytes(name, algorithm, 1 << power, boxes, gpus) / (nics * each_Bps)
    assert _took_ps(infra, name, algorithm, 1 << power, fidelity) >= 0.999 * least_ps


def _against_lines(named: tuple[str, str], network: str, boxes: int, size: int) -> None:
    """Cache lines have the library's signals and copies besides, messages nothing that they have not."""
    infra = f"{network}:servers={boxes},server=dgx-gb200"
    messages_ps = _took_ps(infra, *named, size, "congestion")
    assert messages_ps <= 1.1 * _took_ps(infra, *named, size, "cacheline")


@given(
    st.sampled_from(_NAMED),
    st.sampled_from(["single-tier", "rails", "clos", "fat-tree"]),
    st.integers(2, 3),
    st.sampled_from([1 << 14, 1 << 18, 1 << 20]),
)
@settings(max_examples=12)
def test_messages_are_no_slower_than_cache_lines(named, network, boxes, size):
    assume(named[1] != "halving_doubling" or boxes == 2)
    _against_lines(named, network, boxes, size)


@pytest.mark.slow  # by cache lines 8 MiB take seconds
@pytest.mark.parametrize("network", ["single-tier", "rails", "clos"])
@pytest.mark.parametrize("named", _NAMED, ids="/".join)
def test_large_messages_are_no_slower_than_cache_lines(named, network):
    _against_lines(named, network, 2, 8 << 20)


@pytest.mark.parametrize("fidelity", ["analytical", "congestion"])
@pytest.mark.parametrize("server", sorted(_NIC_Bps))
@pytest.mark.parametrize("name, crossings", [("all_reduce", 2), ("reduce_scatter", 1), ("all_gather", 1)])
def test_a_ring_uses_all_nics_of_a_box(name, crossings, server, fidelity):
    gpus, nics, each_Bps = _NIC_Bps[server]  # noqa: N806 - unit in the name
    size, ranks = 64 << 20, 4 * gpus
    by_hand_ps = 1e12 * crossings * size * (ranks - 1) / ranks / (nics * each_Bps)
    took_ps = _took_ps(f"clos:servers=4,server={server}", name, "ring", size, fidelity)
    assert by_hand_ps <= took_ps <= 1.1 * by_hand_ps


@pytest.mark.parametrize("fidelity", ["analytical", "congestion"])
def test_a_ring_of_parts_of_boxes_uses_the_nics_of_these(fidelity: str) -> None:
    """Of two pairs of GPUs, each with a NIC, one is there by half."""
    size, ranks = 64 << 20, [0, 1, 2, 8, 9, 10]
    job = anb.Job(anb.collectives.all_reduce(size, "ring"), ranks)
    sim = anb.Simulation("clos:servers=2,server=a3-high", jobs=[job], fidelity=fidelity)
    sim.run()
    by_hand_ps = 1e12 * 2 * size * (len(ranks) - 1) / len(ranks) / (2 * 25e9)
    assert by_hand_ps <= sim.now_ps <= 1.1 * by_hand_ps


_HALF = _TWO.replace(
    "component: gpu}, ep2: {component: nic}", "component: 'gpu[0]'}, ep2: {component: 'nic[0]'}"
)


def test_a_ring_over_boxes_with_a_nic_for_some_gpus() -> None:
    infra = anb.infragraph.load(_HALF)
    sim = anb.Simulation(infra, anb.collectives.all_reduce("1 MiB", "ring"), fidelity="congestion")
    assert sim.run().why == "end"
