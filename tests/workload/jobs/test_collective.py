"""One collective by messages: it takes what its algorithm takes by hand."""

from __future__ import annotations

import pytest

import astranb as anb

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
