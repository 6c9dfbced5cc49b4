"""Every reader of files refuses what is damaged by the project's own error, or reads it; nothing else."""

from __future__ import annotations

import gzip
import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import astranb as anb
from astranb import chakra
from astranb.chakra import TraceBuilder, link, pytorch_document, pytorch_trace, read, read_groups
from astranb.chakra import check as check_trace
from astranb.collectives import Collective, read_algorithm, write_algorithm
from astranb.gpu import preset, read_measured, write_preset
from astranb.infragraph import convert
from astranb.infragraph import load as load_infra
from astranb.traffic import Label, MessageGraph, read_traffic, translate
from astranb.traffic.targets.goal import read_goal
from astranb.traffic.targets.htsim import read_htsim
from astranb.workload import astrasim1, astrasim2
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND
from astranb.workload.astrasim2.documents import read_memory
from astranb.workload.models import read_model
from astranb.workload.systolic import read_shapes
from tests.fuzz.support import damaged_bytes, damaged_json, damaged_text, refused_or_read

HERE = Path(__file__).resolve().parents[1]
ROOT = HERE.parent
COUNTS = [300, pytest.param(20_000, marks=pytest.mark.slow)]
BOX = {
    "name": "lab",
    "devices": [
        {
            "name": "box",
            "components": [
                {"name": "gpu", "count": 2, "choice": "xpu"},
                {"name": "sw", "count": 1, "choice": "switch"},
            ],
            "links": [{"name": "nvlink"}],
            "edges": [
                {
                    "ep1": {"component": "gpu[0:2]"},
                    "ep2": {"component": "sw[0]"},
                    "scheme": "many2many",
                    "link": "nvlink",
                }
            ],
        }
    ],
    "instances": [{"name": "host", "device": "box", "count": 1}],
}
NOTES = {
    "nodes": [
        {"name": f"host.0.gpu.{gpu}", "attributes": [{"attribute": "astranb.rank", "value": str(1 - gpu)}]}
        for gpu in range(2)
    ],
    "links": [{"name": "nvlink", "attributes": [{"attribute": "astranb.bandwidth", "value": "9 GB/s"}]}],
}
SYSTEM2 = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "active-chunks-per-dimension": 1,
    "preferred-dataset-splits": 4,
    "all-reduce-implementation": ["ring"],
    "all-gather-implementation": ["ring"],
    "reduce-scatter-implementation": ["direct2"],
    "all-to-all-implementation": ["ring"],
    "collective-optimization": "localBWAware",
    "local-mem-bw": 1600,
    "boost-mode": 0,
    "roofline-enabled": 1,
    "peak-perf": 900,
}
MEMORY = {
    "memory-type": "PER_NODE_MEMORY_EXPANSION",
    "remote-mem-latency": 100,
    "remote-mem-bw": 50,
    "num-nodes": 2,
    "num-npus-per-node": 2,
}
SYSTEM1 = (
    "scheduling-policy: LIFO\nendpoint-delay: 10\nactive-chunks-per-dimension: 1\n"
    "preferred-dataset-splits: 4\nboost-mode: 1\nall-reduce-implementation: ring\n"
    "all-gather-implementation: ring\nreduce-scatter-implementation: ring\n"
    "all-to-all-implementation: direct\ncollective-optimization: localBWAware\n"
)
NETWORK1 = {
    "dimensions-count": 1,
    "topologies-per-dim": ["Ring"],
    "units-count": [8],
    "links-count": [2],
    "link-latency": [500],
    "link-bandwidth": [50],
}
LSTOPO = """<?xml version="1.0"?><!DOCTYPE topology SYSTEM "hwloc2.dtd"><topology version="2.0">
<object type="Machine" os_index="0"><object type="Package" os_index="0"><object type="NUMANode" os_index="0"/>
<object type="Bridge" bridge_type="0-1" bridge_pci="0000:[00-0a]">
<object type="PCIDev" pci_busid="0000:01:00.0" pci_type="0302 [10de:2330]" pci_link_speed="31.5">
<object type="OSDev" name="cuda0" osdev_type="5"/></object>
<object type="PCIDev" pci_busid="0000:02:00.0" pci_type="0207 [15b3:1021]" pci_link_speed="31.5">
<object type="OSDev" name="mlx5_0" osdev_type="3"/></object></object></object></object></topology>"""
MEASURED = {
    "format": "astranb-gpu-microbench",
    "version": 1,
    "device": {"name": "H100", "sms": 132, "clock_MHz": 1980, "memory_GBps": 3350},
    "measured": [
        {"what": "streaming reads", "value": 3000, "unit": "GB/s"},
        {"what": "memory", "value": 600, "unit": "ns"},
    ],
}
MESSAGES = MessageGraph.of(
    3,
    [
        {"rank": 0, "kind": COMPUTE, "duration_ps": 5000},
        {"rank": 0, "kind": SEND, "peer": 1, "bytes": 4096, "tag": 3},
        {"rank": 1, "kind": RECV, "peer": 0, "bytes": 4096, "tag": 3},
        {"rank": 1, "kind": SEND, "peer": 2, "bytes": 64},
        {"rank": 2, "kind": RECV, "peer": 1, "bytes": 64},
    ],
    [(), (0,), (), (2,), ()],
    [Label("layer", "all_gather")],
)


class Reader(NamedTuple):
    """Reader of a file, valid contents of it, and the damage that is done to these."""

    use: Callable[[Path], Any]
    suffix: str
    valid: Callable[[], list[bytes]]
    damages: tuple[Callable[[bytes, random.Random], bytes], ...]


def _plan(path: Path) -> None:
    found = read_algorithm(path)
    found.summary()
    Collective.of(found.collective or "all_reduce", "4KiB", found).program(found.ranks)


def _trace(path: Path) -> None:
    trace = read(path)
    check_trace(trace)
    list(trace.nodes())


def _kineto(path: Path) -> None:
    chakra.kineto_summary(chakra.read_kineto(path, whole=False))


def _repaired(path: Path) -> None:
    trace, _ = chakra.repaired(chakra.read_part(path)[0])
    list(map(str, chakra.faults(trace)))
    chakra.summary(trace)


def _graphml() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        chakra.write_graphml(chakra.Trace(_traces()[0]), Path(folder, "t.graphml"))
        return [Path(folder, "t.graphml").read_bytes()]


def _infra(path: Path) -> None:
    load_infra(path).expand()


def _pytorch(path: Path) -> None:
    pytorch_trace(pytorch_document(path))


def _linked(path: Path) -> None:
    host, device = path.with_name("host.json"), path.with_name("device.json")
    both = json.loads(path.read_bytes(), parse_constant=str) if path.stat().st_size < 1 << 24 else {}
    parts = both if isinstance(both, dict) else {}
    host.write_text(json.dumps(parts.get("host")))
    device.write_text(json.dumps(parts.get("device")))
    link(host, device)


def _tables(path: Path) -> None:
    """Read the tables of messages with this one as the messages."""
    folder = path.parent
    translate(MESSAGES, "csv", folder / "job.csv")
    (folder / "job.messages.csv").write_bytes(path.read_bytes())
    read_traffic(folder / "job.csv")


def _written(target: str, file: str) -> Callable[[], list[bytes]]:
    def made() -> list[bytes]:
        with tempfile.TemporaryDirectory() as folder:
            translate(MESSAGES, target, Path(folder, "job" + Path(file).suffix))
            return [Path(folder, file).read_bytes()]

    return made


def _json(*values: Any) -> Callable[[], list[bytes]]:
    return lambda: [json.dumps(value).encode() for value in values]


def _plans(suffix: str) -> Callable[[], list[bytes]]:
    def made() -> list[bytes]:
        found = []
        for collective, name, ranks in (("all_reduce", "ring", 2), ("all_gather", "allpairs", 3)):
            one = getattr(anb.collectives, collective)("4KiB", name)
            with tempfile.TemporaryDirectory() as folder:
                file = Path(folder, f"plan{suffix}")
                write_algorithm(one.program(ranks), file)
                found.append(file.read_bytes())
        return found

    return made


def _traces() -> list[bytes]:
    step = TraceBuilder()
    first = step.compute("a", duration_us=3)
    step.collective("all_reduce", "1 MiB", after=[first])
    one = step.build().data
    return [one]


def _recorded(*names: str) -> Callable[[], list[bytes]]:
    def made() -> list[bytes]:
        recorded = json.loads(gzip.decompress((HERE / "data" / "chakra_link.json.gz").read_bytes()))
        found = [recorded[name] for name in names]
        if "linked" in names:
            found = [{**recorded["host"], "nodes": recorded["linked"]}]
        elif len(names) > 1:
            found = [dict(zip(names, found, strict=True))]
        return [json.dumps(one).encode() for one in found]

    return made


def _presets() -> list[bytes]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "gpu.json")
        write_preset(preset("h100-sxm"), file)
        return [file.read_bytes()]


def _text(*values: str) -> Callable[[], list[bytes]]:
    return lambda: [value.encode() for value in values]


AS_JSON = (damaged_json, damaged_json, damaged_text, damaged_bytes)
AS_TEXT = (damaged_text, damaged_text, damaged_bytes)
AS_BYTES = (damaged_bytes,)
NCCL = ROOT / "tutorials" / "data" / "four_a100_nccl_topology.xml"
TABLE = "HYBRID_DATA_MODEL\n2\n" + "".join(
    f"{name} -1 5 ALLGATHER 64 5 NONE 0 5 ALLREDUCE 2048 1\n" for name in "ab"
)
SIMAI = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 2 pp: 1 vpp: 1 ga: 1 all_gpus: 4 "
    "checkpoints: 0 checkpoint_initiates: 0\n1\nmoe -1 9 ALLTOALL_EP 64 9 ALLREDUCE 8 9 ALLGATHER_DP_EP 8 0\n"
)
NODES = '{"id": "1", "name": "a", "type": "COMP_NODE", "attr": [{"name": "num_ops", "int64Val": "7"}]}'
GRAPH = '{"workload_graph": [{"Id": 1, "Name": "a", "NodeType": 7, "data_deps": [], "comm_size": 8}]}'
NS3_TOPOLOGY = (
    "5 2 4\n3 4\n0 3 100Gbps 0.001ms 0\n1 3 100Gbps 500ns 0\n2 4 10MB/s 1us 0\n3 4 1Tbps 0ms 0.01\n"
)
HTSIM_TOPOLOGY = (
    "# leaf and spine\nNodes 8\nTiers 2\nPodsize 8\n\nTier 0\nDownlink_speed_Gbps 100\nRadix_Down 4\n"
    "Radix_Up 4\nDownlink_Latency_ns 1000\nTier 1\nDownlink_speed_Gbps 100\nRadix_Down 4\nBundle 2\n"
    "Downlink_Latency_ns 1000\nSwitch_Latency_ns 250\n"
)
BOOKSIM_NETWORK = "router 0 node 0 node 1 router 1 15\nrouter 1 node 2 router 0 15\nnode 3 router 1\n"
READERS = {
    "InfraGraph, JSON": Reader(
        _infra, ".json", _json(BOX, {"infrastructure": BOX, "annotations": NOTES}), AS_JSON
    ),
    "InfraGraph, YAML": Reader(
        _infra, ".yaml", lambda: [(HERE / "data/infragraph/hgx6.yaml").read_bytes()], AS_TEXT
    ),
    "NCCL topology": Reader(
        lambda path: convert(path).expand(), ".xml", lambda: [NCCL.read_bytes()], AS_TEXT
    ),
    "ns-3 topology": Reader(_infra, ".txt", _text(NS3_TOPOLOGY), AS_TEXT),
    "htsim topology": Reader(_infra, ".topo", _text(HTSIM_TOPOLOGY), AS_TEXT),
    "BookSim network": Reader(_infra, ".anynet", _text(BOOKSIM_NETWORK), AS_TEXT),
    "lstopo": Reader(lambda path: convert(path).expand(), ".xml", _text(LSTOPO), AS_TEXT),
    "Chakra trace": Reader(_trace, ".et", _traces, AS_BYTES),
    "Chakra trace, compressed": Reader(
        _trace, ".et.gz", lambda: [gzip.compress(one) for one in _traces()], AS_BYTES
    ),
    "PyTorch trace": Reader(_pytorch, ".json", _recorded("linked"), AS_JSON),
    "PyTorch and Kineto": Reader(_linked, ".json", _recorded("host", "device"), (damaged_json,)),
    "Kineto trace": Reader(_kineto, ".json", _recorded("device"), AS_JSON),
    "Chakra JSON": Reader(chakra.json_trace, ".json", _text(NODES, GRAPH), AS_JSON),
    "GraphML": Reader(chakra.graph_trace, ".graphml", _graphml, AS_TEXT),
    "a faulty trace": Reader(_repaired, ".et", _traces, AS_BYTES),
    "layer table to trace": Reader(
        lambda path: astrasim1.layer_table_trace(path, 2), ".txt", _text(TABLE), AS_TEXT
    ),
    "SimAI workload": Reader(astrasim1.simai_trace, ".txt", _text(SIMAI), AS_TEXT),
    "layer table": Reader(astrasim1.read_layer_table, ".txt", _text(TABLE), AS_TEXT),
    "ASTRA-sim 1.0 system": Reader(astrasim1.read_system, ".txt", _text(SYSTEM1), AS_TEXT),
    "ASTRA-sim 1.0 network": Reader(astrasim1.read_network, ".json", _json(NETWORK1), AS_JSON),
    "ASTRA-sim 2.0 network": Reader(
        astrasim2.read_network, ".yml",
        _text("topology: [ Ring, Switch ]\nnpus_count: [ 4, 2 ]\nbandwidth: [ 50, 25 ]\nlatency: [ 5, 1 ]\n"),
        AS_TEXT,
    ),
    "ASTRA-sim 2.0 system": Reader(astrasim2.read_system, ".json", _json(SYSTEM2), AS_JSON),
    "ASTRA-sim 2.0 memory": Reader(read_memory, ".json", _json(MEMORY), AS_JSON),
    "ASTRA-sim 2.0 groups": Reader(
        lambda path: read_groups(path, 8), ".json", _json({"1": [0, 1], "2": [2, 7]}), AS_JSON
    ),
    "MSCCL": Reader(_plan, ".xml", _plans(".xml"), AS_TEXT),
    "MSCCL++": Reader(_plan, ".json", _plans(".json"), AS_JSON),
    "GPU preset": Reader(preset, ".json", _presets, AS_JSON),
    "GPU measurement": Reader(read_measured, ".json", _json(MEASURED), AS_JSON),
    "model": Reader(
        read_model, ".yaml",
        _text("{layers: 2, hidden: 64, heads: 4, ffn: 256, vocab: 1000, experts: 4, top_k: 2}"),
        AS_TEXT,
    ),
    "systolic shapes": Reader(
        read_shapes, ".csv", _text("Layer,m,n,k\na,64,32,16\nb,1,2,3,DATA\n"), AS_TEXT
    ),
    "GOAL": Reader(read_goal, ".goal", _written("goal", "job.goal"), AS_TEXT),
    "htsim": Reader(read_htsim, ".cm", _written("htsim", "job.cm"), AS_TEXT),
    "messages": Reader(_tables, ".csv", _written("csv", "job.messages.csv"), AS_TEXT),
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(READERS))
def test_what_is_damaged_is_made_from_what_can_be_read(name: str, tmp_path: Path):
    reader = READERS[name]
    for number, data in enumerate(reader.valid()):
        file = tmp_path / f"valid{number}{reader.suffix}"
        file.write_bytes(data)
        reader.use(file)


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", sorted(READERS))
def test_a_damaged_file_is_refused_or_read(name: str, count: int, tmp_path: Path):
    reader = READERS[name]
    valid = reader.valid()
    file = tmp_path / f"damaged{reader.suffix}"
    # One sequence: the first few hundred cases are those of the quick test.
    for number in range(count):
        chance = random.Random(f"{name} {number}")
        data = chance.choice(reader.damages)(chance.choice(valid), chance)
        file.write_bytes(data)
        try:
            with refused_or_read():
                reader.use(file)
        except BaseException as error:
            error.add_note(f"case {number} of {name}")
            raise
