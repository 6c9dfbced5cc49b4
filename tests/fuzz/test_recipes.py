"""A recipe that is damaged is refused in one line, or runs: no number leads machine code astray.

The slow test has kernels that check every index:
``ASTRANB_BOUNDS=1 python -m tests.fuzz.test_recipes "layers" 0 1000``.
"""

from __future__ import annotations

import dataclasses
import json
import os
import random
import subprocess
import sys
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import astranb as anb
from astranb.collectives import gemm_reduce_scatter
from astranb.core.archive import read_archive, write_archive
from astranb.core.errors import InputError
from astranb.core.planes import BEGIN, pack, unpack
from astranb.infragraph import resolve
from astranb.net import Fault, Network
from astranb.net.roce import Dcqcn, Ecn, Pfc, Roce
from astranb.sim.engines import read_files
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    COMPUTE,
    MEMORY,
    RECV,
    REPLAY,
    SEND,
    DimensionNetwork,
    InfraNetwork,
    Memory,
    Operations,
    System,
    Workload,
)
from astranb.workload.kernels import Attention, Launch, Product, ShapedKernel
from tests.fuzz.support import damaged_bytes, damaged_json, refused_or_read
from tests.fuzz.test_readers import NETWORK1, SYSTEM1, TABLE

_ROCE = Roce(Pfc("8 KiB", "4 KiB"), Ecn("2 kB", "9 kB", 0.5), Dcqcn())


def _ring(
    size: str = "4 KiB", name: str = "ring", infra: str = "switch:gpus=4", **more: Any
) -> anb.Simulation:
    return anb.Simulation(infra, anb.collectives.all_reduce(size, name, **more.pop("how", {})), **more)


def _pass_on(p: Any) -> None:
    """An exchange that exists only as a function: everybody passes on to its right, and waits."""
    for me in p.everyone:
        me.block().put(me.input[0], me.right.output[0])


def _layers(one: bool = False, **more: Any) -> anb.Simulation:
    with_two = {
        **NETWORK1, "dimensions-count": 2, "topologies-per-dim": ["Ring", "Switch"], "units-count": [4, 4],
        "links-count": [2, 1], "link-latency": [500, 300], "link-bandwidth": [50, 25],
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "w.txt").write_text(TABLE)
        (folder / "s.txt").write_text(
            SYSTEM1.replace("ring\n", "ring_ring\n").replace("direct\n", "direct_direct\n")
        )
        (folder / "n.json").write_text(json.dumps(with_two))
        if one:
            (folder / "s.txt").write_text(SYSTEM1)
            (folder / "n.json").write_text(json.dumps({**NETWORK1, "units-count": [4]}))
        read = read_files(folder / "w.txt", folder / "s.txt", folder / "n.json", passes=1 if one else 2)
    return anb.Simulation(read, **more)


def _around(rank: int, ranks: int, size: int = 1024) -> Operations:
    """A collective's own graph: a message to the next rank and from the one before, and a computation."""
    after, before = (rank + 1) % ranks, (rank - 1) % ranks
    rows = [{"kind": SEND, "peer": after, "bytes": size, "tag": 5},
            {"kind": RECV, "peer": before, "bytes": size, "tag": 5}, {"kind": COMPUTE}]  # fmt: skip
    return Operations.of(rows, [[], [], [1]])


_DIMENSIONS = DimensionNetwork(["Ring", "Switch"], [2, 2], [50, 25], [5, 10])
_MEMORIES = {
    "node": {"memory-type": "PER_NODE_MEMORY_EXPANSION", "remote-mem-latency": 9, "remote-mem-bw": 50,
             "num-npus-per-node": 2},
    "pool": {"memory-type": "HIERARCHICAL_POOL", "pool-topology": "RING", "num-nodes": 2,
             "num-npus-per-node": 2, "num-memory-groups": 2, "remote-mem-bw": 50,
             "num-out-node-switches": 1, "pool-link-bw": 40, "npu-link-bw": 30, "chunk-size": 512},
}  # fmt: skip


def _workload(
    memory: str = "node", network: Any = _DIMENSIONS, size: int = 2048, system: Any = None
) -> Workload:
    """Each kind of operation, with groups, names, a graph of a collective and a remote memory."""

    def call(name: str, **more: Any) -> dict[str, Any]:
        return {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES[name], "bytes": size, **more}

    rows = [call("all_reduce"), {"kind": COMPUTE, "bytes": 64, "flops": 999}, call("all_gather"),
            {"kind": MEMORY, "bytes": 5000}, call("broadcast", group=3, peer=2),
            call("all_to_all", priority=2), {"kind": COMPUTE, "on_cpu": 1, "duration_ns": 1_000},
            {"kind": REPLAY, "duration_ns": 1_000}, call("reduce", peer=1)]  # fmt: skip
    deps = [[], [0], [1], [], [2], [0], [], [6, 3], []]
    names = [f"operation {number}" for number in range(len(rows))]
    ranks = [Operations.of(rows, deps, {2: _around(rank, 4)}, names) for rank in range(4)]
    described = System.from_document({
        "all-reduce-implementation": ["ring", "halvingDoubling"], "all-to-all-implementation": ["direct"] * 2,
        "all-gather-implementation": ["ring"] * 2, "npu-speed": {"1": 0.5}, "peak-perf": 1,
        "local-mem-bw": 10, "roofline-enabled": 1, **(system or {}),
    })  # fmt: skip
    return Workload(
        ranks, network, described, Memory.from_document(_MEMORIES[memory]), {3: [2, 3, 0, 1]}, title="all"
    )


def _recorded(workload: Workload) -> Workload:
    """The same, with kernels that PyTorch recorded: shapes on every other rank, launches on the others."""
    product = ShapedKernel(Product(100, 64, 64, 2, cast=False), "bf16", 2)
    attention = ShapedKernel(Attention(1, 64, 64, 2, 1, 64, 64), "fp16", 2)
    known: list[ShapedKernel | Launch] = [product, Launch(300, 256, 64, 99), attention, Launch(3)]
    ranks = [
        dataclasses.replace(one, kernels={1: kernel})
        for one, kernel in zip(workload.operations, known, strict=True)
    ]
    return dataclasses.replace(workload, operations=ranks)


def _divided() -> Workload:
    """The ring of a group that divides its messages between nodes over the links of its two ranks there."""
    row = {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES["all_gather"], "bytes": 2048, "group": 1}
    ranks = [Operations.of([row] if rank % 3 else []) for rank in range(9)]
    network = DimensionNetwork(["Switch", "Ring"], [3, 3], [50, 25], [5, 10])
    system = System.from_document({"all-gather-implementation": ["ring"] * 2, "preferred-dataset-splits": 2})
    return Workload(ranks, network, system, groups={1: [1, 2, 4, 5, 7, 8]})


def _edited(sim: anb.Simulation, *changes: tuple[int, str, Any]) -> anb.Simulation:
    """Stop at breakpoints, and make changes at numbers of events."""
    for events, path, value in changes:
        sim.step(events - sim.events)
        sim.set(path, value)
    sim.break_at("900 us")
    sim.watch("gpu[1]->gpu[2].bytes")
    return sim


_FLAPPING = Fault("gpu[0]->gpu[1]", "1 us", "2 us", down=True, every="3 us", times=3)
RUNS: dict[str, tuple[Callable[[], anb.Simulation], tuple[int, ...]]] = {
    "cache lines": (_ring, (0, 300, 2500)),
    "cache lines, packets": (lambda: _ring("2 KiB", "allpairs", how={"protocol": "LL"}, record=True), (900,)),
    "cache lines, Ethernet": (
        lambda: _ring("16 KiB", infra="clos:servers=2", network=Network(roce=_ROCE, buffers=8)), (3000,),
    ),
    "cache lines, in the switch": (lambda: _ring("8 KiB", "switch", "dgx-h100"), (700,)),
    "cache lines, products": (
        lambda: anb.Simulation("ring:gpus=2", gemm_reduce_scatter(256, 64, 128, 2, (64, 64)), gpu="h100-sxm"),
        (0, 3000, 8000),
    ),
    "cache lines, a function": (
        lambda: anb.Simulation("switch:gpus=4", anb.collectives.send_recv("4 KiB", _pass_on, channels=2)),
        (0, 200),
    ),
    "messages": (lambda: _ring("16 KiB", fidelity="analytical", record=True), (0, 60, 200)),
    "messages, congestion": (
        lambda: _ring("16 KiB", "halving_doubling", "dgx-h100", fidelity="congestion"), (300,),
    ),
    "messages, tree": (lambda: _ring("16 KiB", "tree", fidelity="congestion"), (80,)),
    "layers": (_layers, (0, 20, 40)),
}  # fmt: skip
WORKLOADS: dict[str, tuple[Callable[[], anb.Simulation], tuple[int, ...]]] = {
    "workload, cache lines": (
        lambda: anb.Simulation(
            "ring:gpus=4", _recorded(_workload("pool")), fidelity="cacheline", gpu="h100-sxm", launch="graph"
        ),
        (0, 400, 3000),
    ),
    "layers, cache lines": (lambda: _layers(one=True, fidelity="cacheline"), (0, 900)),
    "cache lines, link down": (
        lambda: _edited(
            _ring(infra="ring:gpus=4", network=Network(faults=(_FLAPPING,))),
            (90, "gpu[1]->gpu[2].bandwidth", "9 GB/s"), (200, "gpu[2]->gpu[3].up", "no"),
            (280, "gpu[2]->gpu[3].up", "yes"),
        ),
        (300, 900),
    ),
    "workload": (lambda: anb.Simulation(_workload(), fidelity="congestion"), (0, 60, 150)),
    "workload, divided": (lambda: anb.Simulation(_divided(), fidelity="congestion"), (0, 60, 150)),
    "workload, divided ports": (lambda: anb.Simulation(_divided(), fidelity="analytical"), (60,)),
    "workload, bus": (
        lambda: anb.Simulation(
            None,
            _workload(system={"model-shared-bus": 1, "L": 1, "o": 2, "g": 3, "G": 0.01,
                         "preferred-dataset-splits": 2, "active-chunks-per-dimension": 2}),
            fidelity="analytical",
        ),
        (0, 200),
    ),
    "workload, routed": (
        lambda: anb.Simulation(
            None, _workload("pool", InfraNetwork(resolve("switch:gpus=4"), (2, 2))), fidelity="congestion"
        ),
        (100,),
    ),
}  # fmt: skip
RUNS |= WORKLOADS
NUMBERS = [-2, -1, 0, 1, 2, 3, 7, 255, 256, 1 << 15, 1 << 16, 1 << 20, (1 << 31) - 1, -(1 << 31), 1 << 40,
           1 << 62,
           (1 << 63) - 1, -(1 << 63)]  # fmt: skip


def _saved(name: str) -> list[bytes]:
    """Save a run at its moments."""
    make, moments = RUNS[name]
    sim, found = make(), []
    for at in moments:
        sim.step(at - sim.events)
        found.append(sim.recipe())
    return found


@pytest.fixture(scope="module")
def saved() -> dict[str, list[bytes]]:
    return {name: _saved(name) for name in RUNS}


def _damaged(recipe: bytes, chance: random.Random) -> bytes:
    """Change a few values of the document or numbers of the tables; the position is damaged more rarely."""
    members = read_archive(recipe, "", "", "")
    if chance.random() < 0.1:
        return damaged_bytes(recipe, chance)
    if "tables" in members and chance.random() < 0.5:
        tables = unpack(members["tables"], "", "", "")
        for _ in range(chance.choice((1, 1, 1, 2, 4))):
            _damage_table(tables, chance)
        return write_archive({**members, "tables": pack(tables)})
    document = json.loads(members["recipe.json"])
    part = chance.choice(("inputs", "inputs", "inputs", "shared", "position", ""))
    if not part:
        return write_archive({**members, "recipe.json": damaged_json(members["recipe.json"], chance)})
    text = damaged_json(json.dumps(document[part]).encode(), chance)
    document[part] = json.loads(text)
    return write_archive({**members, "recipe.json": json.dumps(document).encode()})


def _damage_table(tables: dict[str, np.ndarray], chance: random.Random) -> None:
    """Change a number, the length or the type of a table, or remove it."""
    if not tables:
        return
    name = chance.choice(list(tables))
    table = np.array(tables[name])
    how = chance.randrange(40)
    if how == 0:
        tables[name] = table[: len(table) // 2] if table.ndim else table
    elif how == 1:
        tables[name] = np.concatenate([table, table]) if table.ndim else table
    elif how == 2:
        del tables[name]
    elif how == 3:
        tables[name] = table.astype([("other", "i8")]) if table.dtype.names is None else table.view(np.uint8)
    elif table.size:
        flat = table.reshape(-1)
        row = chance.choice((0, 0, len(flat) - 1, chance.randrange(len(flat))))
        field = chance.choice(table.dtype.names) if table.dtype.names else None
        column = flat[field] if field else flat
        if column.dtype.kind in "iu":
            low, high = (int(v) for v in (np.iinfo(column.dtype).min, np.iinfo(column.dtype).max))
            value = chance.choice((
                chance.choice(NUMBERS), int(column[row]) + chance.choice((-1, 1, 2, 8)),
                int(column[chance.randrange(len(flat))]), chance.randrange(1 + min(high, 4 * len(flat))),
            ))  # fmt: skip
            column[row] = min(max(value, low), high)
        tables[name] = table


def _use(recipe: bytes, most: int = 20_000) -> None:
    """Open a recipe, whatever state it reaches, and go on with it; time goes back."""
    sim = anb.Simulation.of_saved_bytes(recipe, "x.anb", unequal=True)
    before = sim.events
    sim.step(most)
    sim.state_hash()
    sim.back(min(3000, sim.events))
    sim.step(before % 1000)
    sim.result.summary()


@pytest.mark.parametrize("name", RUNS)
def test_a_recipe_that_is_not_damaged_is_opened(name: str, saved: dict[str, list[bytes]]) -> None:
    for recipe in saved[name]:
        assert anb.Simulation.of_saved_bytes(recipe).recipe() == recipe
        assert len(recipe) < 20_000
        _use(recipe)


def _try(name: str, recipes: list[bytes], numbers: range) -> int:
    """Damage a recipe so often; returns how often it was not refused."""
    ran = 0
    for number in numbers:
        chance = random.Random(f"{name} {number}")
        damaged = _damaged(chance.choice(recipes), chance)
        try:
            with refused_or_read(60):
                _use(damaged)
                ran += 1
        except BaseException as error:
            error.add_note(f"case {number} of {name}")
            raise
    return ran


@pytest.mark.parametrize("name", RUNS)
def test_a_damaged_recipe_is_refused_or_runs(name: str, saved: dict[str, list[bytes]]) -> None:
    count = 60 if "Ethernet" in name else 25 if name in WORKLOADS else 40
    assert _try(name, saved[name], range(count)) > 0


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_a_damaged_recipe_never_leads_beyond_its_tables(name: str) -> None:
    """The same in 20,000 cases, with kernels that check their indices."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-m", "tests.fuzz.test_recipes", name, "0", str(20_000 // len(RUNS))],
        env={**os.environ, "ASTRANB_BOUNDS": "1", "PYTHONFAULTHANDLER": "1"},
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]


def test_a_recipe_that_unpacks_to_far_more_than_its_size_is_refused() -> None:
    bomb = write_archive({"recipe.json": bytes(1 << 29)})
    assert len(bomb) < 1 << 20
    with pytest.raises(InputError, match=r"unpacks to 536,870,912 bytes from"):
        anb.Simulation.of_saved_bytes(bomb)


@pytest.mark.parametrize(
    "zeros, match",
    [(2 * 10**8, "not tables, or damaged"), (6_000_000, "lists have more than 16,777,216 numbers")],
)
def test_a_recipe_whose_lists_are_far_larger_than_it_is_refused(zeros: int, match: str) -> None:
    """Before they are unpacked, or before each number becomes an object of Python."""
    members = read_archive(WORKLOADS["workload"][0]().recipe(), "", "", "")
    document = json.loads(members["recipe.json"])
    document["inputs"]["workload"]["groups"] = {str(number): {"array": "zeros"} for number in range(3)}
    tables = pack({**unpack(members["tables"], "", "", ""), "zeros": np.zeros(zeros, np.int8)})
    unpacking = zlib.decompressobj()
    unpacking.decompress(tables[len(BEGIN) + 16 :])
    tables = tables.removesuffix(unpacking.unused_data)  # which makes it as large as its tables ask for
    forged = write_archive({**members, "recipe.json": json.dumps(document).encode(), "tables": tables})
    assert len(forged) < 16_000
    with pytest.raises(InputError, match=match):
        anb.Simulation.of_saved_bytes(forged)


def _main(name: str, first: str, count: str) -> None:
    """Print how many of so many damaged recipes were not refused."""
    ran = _try(name, _saved(name), range(int(first), int(first) + int(count)))
    print(f"{name}: {count} damaged recipes, {ran} ran")


if __name__ == "__main__":
    _main(*sys.argv[1:])
