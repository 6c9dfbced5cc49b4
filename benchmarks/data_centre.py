"""An InfraGraph document of 16,384 GPUs: 12 kB of text, 102,720 nodes, 190,464 edges.

The ``infragraph`` package takes 48.7 s to expand it (measured with 0.9 on two cores).
"""

from __future__ import annotations

__all__ = ["data_centre"]

DATA_CENTRE = """
name: big
devices:
- name: srv
  components:
  - {name: cpu, count: 2, choice: cpu}
  - {name: gpu, count: 8, choice: xpu}
  - {name: nvsw, count: 4, choice: switch}
  - {name: pcisw, count: 4, choice: switch}
  - {name: nic, count: 8, choice: nic}
  links: [{name: upi}, {name: nvlink4}, {name: pcie5}]
  edges:
  - {ep1: {component: 'cpu[0]'}, ep2: {component: 'cpu[1]'}, scheme: one2one, link: upi}
  - {ep1: {component: gpu}, ep2: {component: nvsw}, scheme: many2many, link: nvlink4}
  - {ep1: {component: 'cpu[0]'}, ep2: {component: 'pcisw[:2]'}, scheme: many2many, link: pcie5}
  - {ep1: {component: 'cpu[-1]'}, ep2: {component: 'pcisw[2:]'}, scheme: many2many, link: pcie5}
PAIRS
- name: leafsw
  components: [{name: asic, count: 1, choice: switch}, {name: port, count: 128, choice: port}]
  links: [{name: xbar}]
  edges: [{ep1: {component: asic}, ep2: {component: port}, scheme: many2many, link: xbar}]
- name: spinesw
  components: [{name: asic, count: 1, choice: switch}, {name: port, count: 256, choice: port}]
  links: [{name: xbar}]
  edges: [{ep1: {component: asic}, ep2: {component: port}, scheme: many2many, link: xbar}]
links:
- {name: eth, physical: {bandwidth: {choice: gigabits_per_second, gigabits_per_second: 400}}}
instances:
- {name: host, device: srv, count: 2048}
- {name: leaf, device: leafsw, count: 256}
- {name: spine, device: spinesw, count: 64}
edges:
EDGES
"""


def data_centre() -> str:
    """Return the document."""
    pairs = [
        f"  - {{ep1: {{component: 'pcisw[{s}]'}}, ep2: {{component: '{part}[{2 * s}:{2 * s + 2}]'}}, "
        "scheme: many2many, link: pcie5}"
        for s in range(4)
        for part in ("gpu", "nic")
    ]
    edges = [
        f"- {{ep1: {{instance: 'host[{8 * k}:{8 * k + 8}]', component: nic}}, "
        f"ep2: {{instance: 'leaf[{k}]', component: 'port[0:64]'}}, scheme: one2one, link: eth}}"
        for k in range(256)
    ]
    edges += [
        f"- {{ep1: {{instance: leaf, component: 'port[{64 + k}]'}}, "
        f"ep2: {{instance: 'spine[{k}]', component: port}}, scheme: one2one, link: eth}}"
        for k in range(64)
    ]
    return DATA_CENTRE.replace("PAIRS", "\n".join(pairs)).replace("EDGES", "\n".join(edges))
