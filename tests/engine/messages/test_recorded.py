"""Every recorded run of ASTRA-sim 2.0 gives the same cycles for every NPU, on both networks.

Each event by event, and where all ranks are alike at once too: to the same state.
"""

import gzip
import json
from collections import Counter
from pathlib import Path

import pytest

from astranb.core.errors import Deadlock, InputError
from astranb.engine.messages import Run
from astranb.workload.astrasim2 import (
    COLLECTIVE,
    COLLECTIVE_NAMES,
    COMPUTE,
    MEMORY,
    RECV,
    REPLAY,
    SEND,
    DimensionNetwork,
    Memory,
    Operations,
    System,
    Workload,
)

TABLE = json.loads(gzip.decompress((Path(__file__).parents[2] / "data" / "astrasim2.json.gz").read_bytes()))
CASES = TABLE["cases"]
KINDS = {
    "COMP": COMPUTE,
    "SEND": SEND,
    "RECV": RECV,
    "MEM_LOAD": MEMORY,
    "MEM_STORE": MEMORY,
    "broadcast": REPLAY,
}

ABORTS = {
    "B/all_reduce/1MB/Ring8/endpoint0": "an event at tick 0 aborts the peer; here it is simulated",
    "B/all_reduce/1MB/Ring2/ring": "a ring of two aborts the peer's congestion-aware network",
    "B/all_gather/1MB/Ring2/ring": "the same",
    "B/reduce_scatter/1MB/Ring2/ring": "the same",
    "B/all_to_all/1MB/Ring2/ring": "the same",
    "B/all_reduce/1MB/Ring2/halvingDoubling": "the same",
    "E/sendrecv_pair": "the same",
    "E/commgroups_tp4_dp2_Ring": "the peer's heap is corrupted by chance (recorded aware, not unaware)",
    "E/metadata_node": "the peer's statistics know no metadata; here it is left out by who reads the trace",
}
"""Runs that the peer did not finish, on one network or both, and that are simulated here."""

REFUSED = {
    "B/all_reduce/1MB/Ring3/doubleBinaryTree": "a tree of 3 is undefined behaviour: the peer crashes",
    "B/all_reduce/1MB/Ring6/doubleBinaryTree": "a tree of 6 likewise",
    "C/Ring_Ring_4x4/all_reduce/1MB/native/baseline/splits4/active1/q1": "one dimension only (aware)",
    "C/Switch_Ring_8x4/all_reduce/1MB/native/baseline/splits4/active1/q1": "the same",
    "C/Ring_Ring_Ring_4x4x4/all_reduce/1MB/native/baseline/splits4/active1/q1": "the same",
    "C/Switch_Switch_2x2/all_reduce/1MB/native/baseline/splits4/active1/q1": "the same",
    "E/coll_barrier": "the peer knows no barrier",
    "E/remote_mem_none": "there is no remote memory to load from",
}
"""Runs that the peer refuses or crashes in, and that are refused here with a line."""

HANGS = {
    "B/all_reduce/1MB/Ring3/halvingDoubling": "halving a ring of 3: every rank is deadlocked",
}
"""Runs that never end, in the peer and here."""

GOES_ON = {
    "E/roofline_zero_tensor": "the peer never issues what waits for a computation that moves nothing",
}
"""Runs that never end in the peer and not here."""


def _custom_ring(rank: int, npus: int, size: int) -> Operations:
    """The example graph of the peer's repository: a ring, each rank one chain."""
    part = {"bytes": size // npus}
    rows: list[dict[str, int]] = []
    for step in range(2 * (npus - 1)):
        rows.append({"kind": SEND, "peer": (rank + 1) % npus, **part})
        rows.append({"kind": RECV, "peer": (rank - 1) % npus, **part})
        if step < npus - 1:
            rows.append({"kind": COMPUTE, "duration_ns": 7_000})
    return Operations.of(rows, [[row - 1] if row else [] for row in range(len(rows))])


def _row(node):
    kind = node["type"]
    row = {
        "flops": node.get("num_ops", 0),
        "duration_ns": 1000 * node.get("duration_us", 0),
        "on_cpu": int(node.get("cpu", False)),
        "bytes": node.get("bytes", node.get("tensor_size", 0)),
        "tag": node.get("tag", 0),
    }
    if kind in KINDS:
        row["kind"] = KINDS[kind]
    elif kind in COLLECTIVE_NAMES:
        row |= {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES[kind], "group": node.get("pg", -1)}
    else:
        raise InputError(f"no such operation: {kind}")
    if "involved_dim" in node:
        row["involved"] = sum(1 << dim for dim, part in enumerate(node["involved_dim"]) if part)
    if kind in {"SEND", "RECV"}:
        row["peer"] = node["dst" if kind == "SEND" else "src"]
    return row


def _rank(nodes):
    nodes = sorted((n for n in nodes if n["type"] != "METADATA"), key=lambda node: node["id"])
    place = {node["id"]: number for number, node in enumerate(nodes)}
    deps = [[place[dep] for dep in node.get("deps", []) if dep in place] for node in nodes]
    return Operations.of(map(_row, nodes), deps)


def workload_of(case, compat=True):
    """Make a case's workload from its fields."""
    network = DimensionNetwork.from_document(TABLE["networks"][case["network"]])
    workload = case["workload"]
    if "nodes_all_ranks" in workload:
        operations = [_rank(workload["nodes_all_ranks"])] * network.npus
    elif "nodes_per_rank" in workload:
        operations = [_rank(nodes) for nodes in workload["nodes_per_rank"]]
    else:
        name, _, custom = workload["collective"].partition("(")
        row = {"kind": COLLECTIVE, "collective": COLLECTIVE_NAMES[name], "bytes": workload["bytes"]}
        operations = [Operations.of([row])] * network.npus
        if custom:
            rings = [_custom_ring(rank, network.npus, workload["bytes"]) for rank in range(network.npus)]
            operations = [Operations.of([row], custom={0: ring}) for ring in rings]
    flags = dict(flag.removeprefix("--").split("=") for flag in case["flags"])
    system = System.from_document(
        TABLE["systems"][case["system"]],
        queues=int(flags.get("num-queues-per-dim", 1)),
        injection_scale=float(flags.get("injection-scale", 1)),
        rendezvous=flags.get("rendezvous-protocol") == "true",
    )
    options = {
        "memory": Memory.from_document(case["remote_memory"]),
        "groups": {int(number): ranks for number, ranks in case.get("comm_groups", {}).items()},
        "compat": compat,
    }
    return Workload(operations, network, system, **options)


def rebuilt(case, *, congestion, compat=True):
    """Simulate a case from its fields."""
    inputs = workload_of(case, compat)
    run = Run(inputs, congestion=congestion)
    run.go()  # nothing is folded
    if len({id(one) for one in inputs.operations}) == 1:
        at_once = Run(inputs, congestion=congestion)
        at_once.finish()
        assert at_once.digest() == run.digest(), case["id"]
    return run.result()


def _each(value, npus):
    return value if isinstance(value, list) else [value] * npus


@pytest.mark.reference
@pytest.mark.parametrize("network", ["unaware", "aware"])
def test_recorded_runs_are_exact(network, capsys):
    total: Counter[str] = Counter()
    exact: Counter[str] = Counter()
    wrong = []
    for case in CASES:
        recorded = case["results"].get(network)
        if recorded is None or recorded["status"] != "ok":
            continue
        result = rebuilt(case, congestion=network == "aware")
        npus = len(result.end_ns)
        same = result.end_ns.tolist() == _each(recorded["cycles"], npus)
        if "exposed_comm" in recorded:
            same &= result.exposed_comm_ns.tolist() == _each(recorded["exposed_comm"], npus)
        total[case["group"]] += 1
        exact[case["group"]] += same
        if not same:
            wrong.append(case["id"])
    with capsys.disabled():
        groups = ", ".join(f"{group} {exact[group]} of {count}" for group, count in sorted(total.items()))
        print(f"\n{network}: exact {exact.total()} of {total.total()} ({groups})")
    assert not wrong


def test_what_the_peer_does_not_finish_is_known_by_name():
    unfinished = {case["id"] for case in CASES if any(r["status"] != "ok" for r in case["results"].values())}
    assert unfinished == {*ABORTS, *REFUSED, *HANGS, *GOES_ON}


@pytest.mark.parametrize("case", [c for c in CASES if c["id"] in {*ABORTS, *GOES_ON}], ids=lambda c: c["id"])
def test_what_only_the_peer_cannot_do_is_simulated(case):
    for network in case["results"]:
        assert rebuilt(case, congestion=network == "aware").end_ns.min() > 0


@pytest.mark.parametrize("case", [c for c in CASES if c["id"] in {*REFUSED, *HANGS}], ids=lambda c: c["id"])
def test_what_no_rank_can_do_is_refused(case):
    expected = Deadlock if case["id"] in HANGS else InputError
    for network, recorded in case["results"].items():
        if recorded["status"] != "ok":
            with pytest.raises(expected):
                rebuilt(case, congestion=network == "aware")
