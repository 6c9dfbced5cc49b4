"""Every picture that a person can reach is laid out in a page as in Python, to the last bit."""

from __future__ import annotations

import json
import random
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.export.layout import Layout, lay_out
from astranb.export.layout.collapse import DrawnNetwork
from astranb.infragraph import NodeKind
from astranb.net import Network, compile_fabric
from tests.widgets.live.kernels import NODE, STATIC, PythonKernel, page_kernel, same

HERE = Path(__file__).parent
INFRAS = (
    "dgx-h100", "dgx-1", "mi300x", "dgx-gb200", "p5", "ring:gpus=3", "ring:gpus=12", "switch:gpus=5",
    "switch:gpus=200", "fully-connected:gpus=6", "torus2d:rows=4,columns=5", "torus2d:rows=8,columns=20",
    "torus3d:planes=3,rows=3,columns=4", "mesh2d:rows=2,columns=7", "dragonfly:groups=3",
    "dragonfly:groups=9", "rails:servers=3", "rails:servers=20", "single-tier:servers=3,server=mi300x",
    "single-tier:servers=2,server=dgx-1", "clos:servers=3", "clos:servers=8", "clos:servers=16",
    "clos:servers=40,per_leaf=4", "fat-tree:ports=16,levels=2", "gb200-nvl72:trays=18",
    "single-tier:servers=130,server=dgx-h100", "fat-tree:ports=16,levels=3,server=dgx-gb200",
)  # fmt: skip
"""Together they have every shape, tier and level of detail."""


@dataclass
class _Nodes:
    """The nodes of a network that no document describes."""

    kind: np.ndarray
    instance: np.ndarray

    def __len__(self) -> int:
        return len(self.kind)

    def name(self, node: int) -> str:
        return f"{self.instance_name(node)}.{NodeKind(int(self.kind[node])).name.lower()}.{node}"

    def instance_name(self, node: int) -> str:
        return f"box{self.instance[node] % 3}.{self.instance[node]}"


@dataclass
class _Network:
    graph: _Nodes
    links: dict[str, np.ndarray]
    gpus: np.ndarray


def _random_network(rng: random.Random) -> _Network:
    """GPUs in a shape with any numbers, or whatever comes; some with switches and NICs."""
    rows, columns, wraps = rng.randint(1, 5), rng.randint(2, 6), rng.random() < 0.5
    count = rows * columns
    number = rng.sample(range(count), count) if rng.random() < 0.7 else list(range(count))
    pairs = {(number[k], number[k + 1]) for k in range(count) if k % columns < columns - 1}
    pairs |= {(number[k], number[k + columns]) for k in range(count - columns)}
    if wraps:
        pairs |= {(number[k * columns], number[k * columns + columns - 1]) for k in range(rows)}
    if rng.random() < 0.4:
        pairs |= {(rng.randrange(count), rng.randrange(count)) for _ in range(rng.randint(1, 4))}
    more = rng.choice([0, 0, rng.randint(1, 9)])
    pairs |= {(count + k % more, rng.randrange(count + more)) for k in range(3 * more)}
    kinds = [NodeKind.XPU] * count + [
        rng.choice([NodeKind.NIC, NodeKind.SWITCH, NodeKind.CUSTOM]) for _ in range(more)
    ]
    each = rng.choice([1, 3, count, count + more])
    ends = [(a, b) for a, b in sorted(pairs) if a != b] or [(0, 1)]
    src, dst = np.array([pair for a, b in ends for pair in ((a, b), (b, a))]).T
    nodes = _Nodes(np.array(kinds, np.int64), np.arange(count + more) // each)
    return _Network(nodes, {"src": src, "dst": dst}, np.arange(count))


def _routed(name: str) -> tuple[DrawnNetwork, np.ndarray]:
    """A machine, and the links between neighbours among its ranks, and between some that are far away."""
    fabric = compile_fabric(anb.infragraph.resolve(name).expand())
    n = len(fabric.gpus)
    far = random.Random(name).sample(range(n), min(n, 12))
    pairs = {(a, (a + 1) % n) for a in range(n)} | {(a, b) for a in far for b in far if a != b}
    return fabric, np.unique(fabric.routes(sorted(pairs))[0].links)


def _looks(fabric: DrawnNetwork, used: np.ndarray) -> list[dict[str, Any]]:
    names, rng = lay_out(fabric, used).units.names, random.Random(1)
    some = rng.sample(names, min(len(names), 6))
    return [
        {},
        *({"focus": name} for name in some),
        *({"opened": [name]} for name in some),
        *({"opened": rng.sample(names, min(len(names), count))} for count in (2, 3, 9)),
        {"opened": [names[0], "nothing"], "focus": "nobody"},
        {"opened": some, "focus": some[0]},
    ]


def _described(fabric: DrawnNetwork, used: np.ndarray, looks: list[dict[str, Any]]) -> dict[str, Any]:
    graph, nodes = fabric.graph, range(len(fabric.graph))
    return {
        "nodes": [graph.name(node) for node in nodes],
        "kinds": [NodeKind(int(kind)).name.lower() for kind in np.asarray(graph.kind)],
        "instance": graph.instance.tolist(),
        "instances": [graph.instance_name(node) for node in nodes],
        "src": fabric.links["src"].tolist(),
        "dst": fabric.links["dst"].tolist(),
        "gpus": fabric.gpus.tolist(),
        "used": used.tolist(),
        "looks": looks,
    }


def _written(layout: Layout) -> dict[str, Any]:
    units, detail = layout.units, layout.detail
    sizes = {"width": layout.width, "height": layout.height, "hidden": layout.hidden, "focus": layout.focus}
    found = {
        **sizes,
        "boxes": [
            {
                "name": b.name, "label": b.label, "kind": b.kind, "rank": b.rank, "last": b.last_rank,
                "count": b.count, "x": b.x, "y": b.y, "w": b.width, "h": b.height,
            }
            for b in layout.boxes
        ],
        "bundles": layout.bundles,
        "frames": [{"name": f.name, "x": f.x, "y": f.y, "w": f.width, "h": f.height} for f in layout.frames],
        "inside": layout.inside, "bent": layout.bent, "ports": layout.ports, "shapes": layout.shapes,
        "detail": {"level": detail.level, "hot": detail.hot},
        "tiles": layout.tiles,
        "units": {"of": units.of.tolist(), "names": units.names, "ranks": units.ranks, "gpus": units.gpus},
    }  # fmt: skip
    read: dict[str, Any] = json.loads(json.dumps(found))
    return read


def _in_a_page(networks: list[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    command = [NODE, str(HERE / "lay_out.mjs"), str(STATIC)]
    done = subprocess.run(command, input=json.dumps(networks), capture_output=True, text=True, check=True)
    found: list[list[dict[str, Any]]] = json.loads(done.stdout)
    return found


def _check(given: list[tuple[str, DrawnNetwork, np.ndarray]]) -> None:
    looks = [_looks(fabric, used) for _, fabric, used in given]
    described = [_described(fabric, used, own) for (_, fabric, used), own in zip(given, looks, strict=True)]
    for (name, fabric, used), own, theirs in zip(given, looks, _in_a_page(described), strict=True):
        for look, found in zip(own, theirs, strict=True):
            mine = _written(lay_out(fabric, used, **look))
            for part, value in mine.items():
                assert found[part] == value, (name, look, part)
            assert found.keys() == mine.keys()


@pytest.mark.parametrize("part", [0, *(pytest.param(k, marks=pytest.mark.slow) for k in (1, 2, 3))])
def test_layouts(part: int) -> None:
    _check([(name, *_routed(name)) for name in INFRAS[part::4]])


@pytest.mark.parametrize("seed", [1, *(pytest.param(k, marks=pytest.mark.slow) for k in range(2, 9))])
def test_layouts_of_any_network(seed: int) -> None:
    rng, given = random.Random(seed), list[tuple[str, DrawnNetwork, np.ndarray]]()
    for number in range(150):
        network = _random_network(rng)
        links = range(len(network.links["src"]))
        used = rng.sample(links, rng.randint(1, len(links))) if rng.random() < 0.3 else links
        given.append((str(number), network, np.array(sorted(used))))
    _check(given)


def _ask(question: str, **options: Any) -> dict[str, Any]:
    return {"type": "ask", "id": 7, "question": question, "options": options}


@pytest.mark.parametrize("servers", [8, pytest.param(64, marks=pytest.mark.slow)])
def test_a_person_looks_around_in_a_large_system(servers: int) -> None:
    """Whatever is opened, the picture and all that is said about it are those of Python."""
    sim = anb.Simulation(
        f"clos:servers={servers}", anb.collectives.all_reduce("1 KiB", "ring"), network=Network(buffers=8)
    )
    with page_kernel(sim) as page:
        python, rng = PythonKernel(sim), random.Random(servers)
        for kernel in (python, page):
            kernel.send({"type": "event", "n": 5_000})
        mine, theirs = (kernel.send({"type": "ready"}) for kernel in (python, page))
        assert theirs[0] == mine[0]
        names = python.feed.units.names
        for _ in range(4):
            opened = rng.sample(names, rng.randint(0, min(len(names), 5)))
            same(python, page, _ask("picture", opened=opened, focus=rng.choice(["", rng.choice(names)])))
            same(python, page, {"type": "timeline"})
            for question in ("hot", "aggregates", "ports"):
                same(python, page, _ask(question, at_ps=None))
        for look in (
            {"opened": names},
            {"opened": "host"},
            {"opened": [1, None, names[0], {}]},
            {"opened": 3},
            {"focus": 7},
            {"focus": None},
            {"focus": [names[0]]},
        ):
            same(python, page, _ask("picture", **look))
