"""Formats are recognized by their contents, and what can be a trace becomes one."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from astranb.chakra import (
    CollectiveType,
    Node,
    NodeType,
    Trace,
    TraceBuilder,
    as_document,
    compare,
    from_networkx,
    graph_trace,
    json_trace,
    kineto_summary,
    pytorch_document,
    pytorch_trace,
    read,
    read_kineto,
    to_networkx,
    write,
    write_graphml,
)
from astranb.cli import main
from astranb.core.errors import InputError, InputWarning
from astranb.core.file_formats import format_of
from tests.chakra.support import NODES

RECORDED = Path(__file__).resolve().parents[2] / "data" / "chakra_link.json.gz"


def _step() -> Trace:
    step = TraceBuilder(note="toy")
    forward = step.compute("forward <&>", num_ops=10**9, tensor_size=10**6, duration_us=5)
    last = step.collective("all_reduce", 4096, group="1", dims=(True, False), after=forward)
    step.send(10, 1, rank=0, tag=3, after=last)
    return step.build()


def _same(one: Trace, other: Trace) -> bool:
    """Return whether nodes, dependencies and attributes are the same, not their bytes."""
    documents = [{**as_document(node), "attributes": None} for node in one.nodes()]
    values = [{name: kind.value for name, kind in node.attributes.items()} for node in one.nodes()]
    return documents == [{**as_document(node), "attributes": None} for node in other.nodes()] and values == [
        {name: kind.value for name, kind in node.attributes.items()} for node in other.nodes()
    ]


@pytest.mark.parametrize(
    "key, data",
    [
        ("Chakra", _step().data),
        ("Chakra JSON", b'{"id": 0, "name": "a", "type": "COMP"}\n'),
        ("Chakra JSON", b'{\n  "version": "0.0.4"\n}{\n  "id": "1",\n  "name": "a"\n}'),
        (
            "Chakra JSON",
            b'{\n  "attr": [\n {"name": "x", "int64Val": "1"}, {"name": "y"} ]\n}{ "id": "1", "name": "a"}',
        ),
        ("Chakra JSON", b'{"workload_graph": [{"Id": 2}]}'),
        ("Chakra JSON", b'[{"id": 0, "name": "a", "type": "COMP"}]'),
        ("Kineto trace", b'{"schemaVersion": 1, "deviceProperties": [], "traceEvents": []}'),
        ("Kineto trace", b'[{"name": "a", "ph": "X", "ts": 1}]'),
        ("execution trace", b'{"schema": "1.0.1", "nodes": []}'),
        ("node-link graph", b'{"directed": true, "multigraph": false, "nodes": []}'),
        ("GraphML", b'<?xml version="1.0"?>\n<graphml xmlns="x"/>'),
        ("layer table", b"DATA_REORDER\n2\nfc"),
        (
            "SimAI workload",
            b"HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 2 ep: 1 pp: 1 all_gpus: 4\n",
        ),
    ],
)
def test_formats_are_told_by_contents_packed_or_not(tmp_path: Path, key: str, data: bytes):
    for name, content in (("a", data), ("b", gzip.compress(data))):
        (tmp_path / name).write_bytes(content)
        found = format_of(tmp_path / name)
        assert found is not None
        assert found.key == key


def test_what_our_json_prints_is_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write(_step(), tmp_path / "t.et")
    assert main(["chakra", "json", str(tmp_path / "t.et")]) == 0
    (tmp_path / "t.json").write_text(capsys.readouterr().out)
    assert _same(json_trace(tmp_path / "t.json"), _step())
    assert main(["chakra", "convert", str(tmp_path / "t.json"), "-o", str(tmp_path / "u.et")]) == 0
    assert _same(read(tmp_path / "u.et"), _step())
    assert main(["chakra", "info", str(tmp_path / "t.json")]) == 0
    assert "format: Chakra JSON" in capsys.readouterr().out


def test_json_of_protocol_buffers_and_workload_graphs_is_read(tmp_path: Path):
    file = tmp_path / "t.json"
    file.write_text(
        '{"version": "0.0.4", "attr": [{"name": "pid", "int64Val": "7"}]}{"id": "18446744073709551615",\n'
        '"name": "a\\ud800", "type": "COMM_COLL_NODE", "dataDeps": ["1"], "ctrlDeps": ["2"],\n'
        '"durationMicros": "5", "inputs": {"values": "[1]", "shapes": "[]", "types": "[]"},\n'
        '"attr": [{"name": "comm_size", "uint64Val": "64"}, {"name": "is_cpu_op", "boolVal": false},\n'
        '{"name": "dims", "boolList": {"values": [true, false]}},\n'
        '{"name": "raw", "bytesVal": "AAE="}, {"name": "no"}]}'
    )
    trace = json_trace(file)
    node = trace.node(0)
    assert (trace.version, trace.metadata["pid"].value) == ("0.0.4", 7)
    assert (node.id, node.name, node.type) == (2**64 - 1, "a?", NodeType.COMM_COLL)
    assert (node.data_deps, node.ctrl_deps, node.duration_us, node.inputs) == (
        (1,),
        (2,),
        5,
        ("[1]", "[]", "[]"),
    )
    values = {name: (one.value, one.kind) for name, one in node.attributes.items()}
    assert values == {
        "comm_size": (64, "uint64_val"),
        "is_cpu_op": (False, "bool_val"),
        "dims": ((True, False), "bool_list"),
        "raw": (b"\0\1", "bytes_val"),
        "no": (None, ""),
    }
    file.write_text(
        '{"workload_graph": [{"Id": 3, "Name": "b", "NodeType": 7, "runtime": 28, "data_deps": [1],'
        '"comm_type": 5, "comm_size": 8, "is_cpu_op": false}], "ngpus": 8}'
    )
    trace = json_trace(file)
    assert (trace.names[0], trace.duration_us.tolist(), trace.comm_type.tolist()) == (
        "b",
        [28],
        [CollectiveType.BROADCAST],
    )


@pytest.mark.parametrize(
    "text, said",
    [
        ('{"id": 1, "name": "a"}\n{"id": 2, "na', r"byte 33: not JSON: Unterminated string.*cut off"),
        ('{"id": 1, "name": "a"} x', "byte 23: not JSON"),
        ('{"id": -1, "name": "a"}', "node 0, id: -1 is not a whole number"),
        ('{"id": 1, "name": "a", "type": "COMPUTE"}', "unknown node type 'COMPUTE'"),
        ('{"id": 1, "name": "a", "data_deps": 7}', "node 0, data_deps: a list is expected"),
        ('{"id": 1, "name": "a", "attr": [{"name": "x", "int64Val": "y"}]}', "'y' is not a int64"),
        ('{"workload_graph": 7}', "workload_graph must be a list"),
        ("[]", "no nodes"),
        ('{"a": 1}', "no nodes"),
        ("[" * 100_000, "nested too deep"),
    ],
)
def test_json_that_is_no_trace_is_refused_with_its_place(tmp_path: Path, text: str, said: str):
    (tmp_path / "t.json").write_text(text)
    with pytest.raises(InputError, match=said):
        json_trace(tmp_path / "t.json")


def test_graphs_both_ways(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    trace = _step()
    write_graphml(trace, tmp_path / "t.graphml")
    assert _same(graph_trace(tmp_path / "t.graphml"), trace)
    write(trace, tmp_path / "t.et")
    assert main(["chakra", "convert", str(tmp_path / "t.et"), "-o", str(tmp_path / "u.graphml")]) == 0
    assert main(["chakra", "convert", str(tmp_path / "u.graphml"), "-o", str(tmp_path / "u.et")]) == 0
    assert "GraphML: 3 nodes in 1 file" in capsys.readouterr().out
    assert _same(read(tmp_path / "u.et"), trace)


def test_networkx_reads_our_graphml_and_we_read_its_graphs(tmp_path: Path):
    networkx = pytest.importorskip("networkx")
    trace = _step()
    graph = to_networkx(trace)
    assert _same(from_networkx(graph), trace)
    write_graphml(trace, tmp_path / "t.graphml")
    theirs = networkx.read_graphml(tmp_path / "t.graphml")
    assert {int(one): more["name"] for one, more in theirs.nodes(data=True)} == {
        one: more["name"] for one, more in graph.nodes(data=True)
    }
    assert sorted((int(a), int(b)) for a, b in theirs.edges) == sorted(graph.edges)
    (tmp_path / "t.json").write_text(json.dumps(networkx.node_link_data(graph, edges="edges")))
    assert _same(graph_trace(tmp_path / "t.json"), trace)
    named = networkx.DiGraph([("load", "matmul"), ("matmul", "all_reduce")])
    named.nodes["all_reduce"].update(type="COMM_COLL", comm_type="all_reduce", comm_size=8)
    made = from_networkx(named)
    assert made.names.values == ("load", "matmul", "all_reduce")
    assert made.parents.of(2).tolist() == [1]
    networkx.write_graphml(named, tmp_path / "n.graphml")
    assert compare(graph_trace(tmp_path / "n.graphml"), made)["same"]
    with pytest.raises(InputError, match="not directed"):
        from_networkx(networkx.Graph([(1, 2)]))


@settings(max_examples=30, deadline=None)
@given(NODES)
def test_any_node_survives_as_a_graph(node: Node):
    """Names and numbers come back; what GraphML cannot hold is replaced."""
    graph = pytest.importorskip("networkx").DiGraph()
    graph.add_node(
        node.id,
        name=node.name,
        type=NodeType(node.type).name,
        start_us=node.start_us,
        duration_us=node.duration_us,
    )
    back = from_networkx(graph).node(0)
    assert (back.id, back.name, back.type, back.start_us, back.duration_us) == (
        node.id, node.name, node.type, node.start_us, node.duration_us,
    )  # fmt: skip


def test_older_and_newer_schemas_of_pytorch(tmp_path: Path):
    recorded = json.loads(gzip.decompress(RECORDED.read_bytes()))["host"]
    file = tmp_path / "t.json.gz"

    def made(document: object) -> Trace:
        file.write_bytes(gzip.compress(json.dumps(document).encode()))
        return pytorch_trace(pytorch_document(file))

    expected = made(recorded)
    older = {**recorded, "schema": "1.0.1", "nodes": []}
    for node in recorded["nodes"]:
        flat = {"id": node["id"], "name": node["name"], "parent": node["ctrl_deps"]}
        flat |= {one["name"]: one["value"] for one in node["attrs"]}
        for side in ("input", "output"):
            values = node[f"{side}s"]
            flat |= {
                f"{side}s": values["values"],
                f"{side}_shapes": values["shapes"],
                f"{side}_types": values["types"],
            }
        older["nodes"].append(flat)
    assert list(made(older).nodes()) == list(expected.nodes())
    with pytest.warns(InputWarning, match=r"schema 1\.2\.0-chakra\.0\.0\.4 is newer than 1\.1\.1"):
        assert list(made({**recorded, "schema": "1.2.0-chakra.0.0.4"}).nodes()) == list(expected.nodes())
    with pytest.raises(InputError, match=r"unknown schema '0\.9'; known"):
        made({**recorded, "schema": "0.9"})


def _kineto(count: int) -> str:
    events: list[dict[str, Any]] = [{"ph": "M", "name": "process_name"}]
    for n in range(count):
        args = {
            "External id": n,
            "Record function id": n,
            "Input Dims": [[512, 1024], []],
            "Concrete Inputs": ["", ""],
        }
        events.append(
            {
                "ph": "X",
                "cat": "cpu_op",
                "name": f"aten::op_{n % 700}",
                "tid": 1 + n % 4,
                "ts": 10.5 + n,
                "dur": 3,
                "args": args,
            }
        )
        launch = {"External id": n, "stream": 7, "correlation": n, "grid": [512, 1, 1], "block": [256, 1, 1]}
        events.append(
            {
                "ph": "X",
                "cat": "kernel",
                "name": f"kernel_{n % 90}",
                "tid": 7,
                "ts": 12.5 + n,
                "dur": 2,
                "args": launch,
            }
        )
    return json.dumps(
        {
            "schemaVersion": 1,
            "distributedInfo": {"backend": "nccl", "rank": 3, "world_size": 8},
            "traceEvents": events,
        }
    )


def test_a_kineto_trace_is_described_also_when_it_is_cut_off(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    text = _kineto(50)
    (tmp_path / "k.json").write_text(text[: len(text) // 2])
    with pytest.raises(InputError, match=r"k\.json: byte \d+: .*cut off"):
        read_kineto(tmp_path / "k.json")
    assert main(["chakra", "info", str(tmp_path / "k.json"), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["format"], said["rank"], said["ranks"], said["threads"], said["streams"]) == (
        "Kineto trace",
        "3",
        "8",
        4,
        1,
    )
    assert 40 < said["events"] < 60
    assert said["truncated"].startswith("byte ")
    (tmp_path / "k.json.gz").write_bytes(gzip.compress(text.encode()))
    assert kineto_summary(read_kineto(tmp_path / "k.json.gz"))["categories"] == {"cpu_op": 50, "kernel": 50}
    assert main(["chakra", "convert", str(tmp_path / "k.json.gz"), "-o", str(tmp_path / "t.et")]) == 0
    assert "150 nodes, 0 collectives" in capsys.readouterr().out
    assert main(["chakra", "convert", str(tmp_path / "k.json"), "-o", str(tmp_path / "t.et")]) == 2
    assert "cut off" in capsys.readouterr().err


def test_amd_kernels_and_calls_are_known(tmp_path: Path):
    """Names as ROCm's profiler writes them: HIP's calls have the category cuda_runtime."""

    def event(category: str, name: str, **args: object) -> dict[str, object]:
        return {"ph": "X", "cat": category, "name": name, "ts": 1, "dur": 1, "args": args}

    events = [
        event("cuda_runtime", "hipExtModuleLaunchKernel", correlation=1, stream="0x0"),
        event("cuda_runtime", "hipStreamWaitEvent", correlation=2),
        event("kernel", "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", correlation=1, stream=0,
              **{"Collective name": "allreduce", "Group size": 4}),
    ]  # fmt: skip
    (tmp_path / "k.json").write_text(json.dumps({"traceEvents": events}))
    found = read_kineto(tmp_path / "k.json")
    assert [one.is_launch for one in found.events] == [True, False, False]
    assert found.events[2].comm["Collective name"] == "allreduce"
    assert kineto_summary(found)["collectives"] == {"ncclDevKernel_Generic": 1}


@pytest.mark.parametrize(
    "event, said",
    [
        ('{"ph": "X", "cat": "kernel", "name": "k", "ts": "soon"}', "event 1 'k': 'ts' is soon"),
        ('{"ph": "X", "cat": "kernel", "name": "k", "dur": 1e400}', "event 1 'k': 'dur' is inf"),
        ("7", "event 1 is 7, not an object"),
    ],
)
def test_a_bad_event_is_named(tmp_path: Path, event: str, said: str):
    (tmp_path / "k.json").write_text(f'{{"traceEvents": [{{"ph": "M"}}, {event}]}}')
    with pytest.raises(InputError, match=said):
        read_kineto(tmp_path / "k.json")


_PEAK = """
import resource, sys
from astranb.chakra import read_kineto
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
read_kineto(sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


@pytest.mark.slow
def test_a_large_kineto_trace_takes_less_than_twice_its_size(tmp_path: Path):
    text = _kineto(90_000)
    (tmp_path / "k.json").write_text(text)
    done = subprocess.run(
        [sys.executable, "-c", _PEAK, str(tmp_path / "k.json")],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )
    assert int(done.stdout) * 1024 < 2 * len(text)


@pytest.mark.parametrize("command", [["info"], ["check"], ["convert", "-o", "t.et"]])
@pytest.mark.parametrize("packed", [bytes, gzip.compress])
@pytest.mark.parametrize(
    "form, text", [("JSON", '{\n "hello": [1, 2]}'), ("JSON", "\ufeff [3]"), ("text", "hello\nwörld" * 900)]
)
def test_text_of_another_kind_is_named(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    form: str,
    text: str,
    packed: Callable[[bytes], bytes],
    command: list[str],
):
    (tmp_path / "t.json").write_bytes(packed(text.encode()))
    assert main(["chakra", command[0], str(tmp_path / "t.json"), *command[1:]]) == 2
    assert f"t.json: {form}, but no trace of a known format; give a Chakra trace" in capsys.readouterr().err


def test_a_node_without_an_id_is_node_0_where_protocol_buffers_were_printed(tmp_path: Path):
    """Chakra's jsonizer leaves out what is 0 (`MessageToJson`)."""
    file = tmp_path / "t.json"
    nodes = (
        '{"name": "a", "type": "COMP_NODE"}{"id": "1", "name": "b", "type": "COMP_NODE", "dataDeps": ["0"]}'
    )
    file.write_text('{"version": "0.0.4"}' + nodes)
    trace = json_trace(file)
    assert (trace.version, trace.id.tolist(), trace.parents.of(1).tolist()) == ("0.0.4", [0, 1], [0])
    file.write_text('{"id": 1, "name": "a", "type": 4}{"name": "b", "type": 4}')
    with pytest.raises(InputError, match="node 1: 'id' is missing"):
        json_trace(file)
