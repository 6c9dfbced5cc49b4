"""Layer tables, PyTorch's traces, and Kineto's joined to them."""

from __future__ import annotations

import contextlib
import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from astranb.chakra import NodeType, Trace, link, pytorch_document, pytorch_trace, read
from astranb.cli import main
from astranb.core.document import DocumentNode as Value
from astranb.core.document import DocumentSource
from astranb.core.errors import InputError
from astranb.workload.astrasim1 import layer_table_trace

LAYER = "fc{n} -1 10{n} ALLGATHER 1{n} 20{n} REDUCESCATTER 2{n} 30{n} ALLREDUCE 3{n} 99"


def _table(tmp_path, loop: str, layers: int = 3) -> str:
    file = tmp_path / "w.txt"
    lines = [LAYER.format(n=n) for n in range(layers)]
    file.write_text("\n".join([loop, str(layers), *lines]) + "\n")
    return str(file)


def _told(trace: Trace) -> list[tuple[str, int, list[str | None]]]:
    return [
        (
            (trace.names[row] or "").replace("COMP_NODE_", "").replace("COMM_COLL_NODE_", ""),
            max(int(trace.comm_size[row]), int(trace.duration_us[row])),
            [trace.names[int(one)] for one in trace.parents.of(row)],
        )
        for row in range(len(trace))
    ]


def test_data_parallel_tables_are_as_chakras_converter_has_them(tmp_path):
    """The expected nodes are read off src/converter/text_converter.py of mlcommons/chakra."""
    told = _told(layer_table_trace(_table(tmp_path, "DATA", 2), passes=2).trace)
    assert told[:7] == [
        ("fc0_FWD", 100, []),
        ("fc1_FWD", 101, ["COMP_NODE_fc0_FWD"]),
        ("fc1_BWD_WG", 301, ["COMP_NODE_fc1_FWD"]),
        ("fc1_ALLREDUCE", 31, ["COMP_NODE_fc1_BWD_WG"]),
        ("fc1_BWD_IG", 201, ["COMP_NODE_fc1_BWD_WG"]),
        ("fc0_BWD_WG", 300, ["COMP_NODE_fc1_BWD_IG"]),
        ("fc0_ALLREDUCE", 30, ["COMP_NODE_fc0_BWD_WG"]),
    ]
    # The second pass waits for the gradients; it does for nothing else of the first one there.
    assert told[8] == ("fc1_FWD", 101, ["COMM_COLL_NODE_fc1_ALLREDUCE", "COMP_NODE_fc0_FWD"])


@pytest.mark.parametrize(
    "loop, collectives", [("MODEL", 3 + 2), ("HYBRID_DATA_MODEL", 8), ("MICRO", 1), ("DATA", 3)]
)
def test_loops_send_what_their_layers_say(tmp_path, loop, collectives):
    trace = layer_table_trace(_table(tmp_path, loop)).trace
    assert int((trace.type == NodeType.COMM_COLL).sum()) == collectives
    assert int((trace.type == NodeType.COMP).sum()) == (0 if loop == "MICRO" else 9 if collectives > 4 else 8)


def test_dlrm_waits_for_its_embeddings_where_the_bottom_ends(tmp_path):
    file = tmp_path / "w.txt"
    rows = ["e -1 3 ALLTOALL 9 3 ALLTOALL 9 3 NONE 0 1"]
    rows += [f"m{n} -1 1 NONE 0 1 NONE 0 1 ALLREDUCE 8 1" for n in range(3)]
    file.write_text("HYBRID_DLRM 2\n4\n" + "\n".join(rows) + "\n")
    told = {name: parents for name, _, parents in _told(layer_table_trace(file).trace)}
    assert told["m1_FWD"] == ["COMP_NODE_m0_FWD"]  # the last bottom layer computes, and then waits
    assert told["m2_FWD"] == ["COMM_COLL_NODE_e_ALLTOALL", "COMP_NODE_m1_FWD"]
    assert told["m2_BWD_IG"] == ["COMP_NODE_m2_BWD_WG"]


@pytest.mark.parametrize(
    "text, said",
    [
        ("", "line 1: the file is empty"),
        ("DATTA\n1\n", "did you mean 'DATA'"),
        ("DATA\n2\nfc -1 5 NONE 0 6 NONE 0 7 NONE 0 9\n", "line 3: 1 of 2 layers"),
        ("DATA\n1\nfc -1 5 NONE 0\n", "line 3: input gradient compute time is missing"),
        ("DATA\n1\nfc -1 5 NON 0 6 NONE 0 7 NONE 0 9\n", "did you mean 'NONE'"),
        ("DATA\n1\nfc -1 -5 NONE 0 6 NONE 0 7 NONE 0 9\n", "forward compute time: -5 is out of range"),
        ("HYBRID_DLRM 7\n1\nfc -1 5 NONE 0 6 NONE 0 7 NONE 0 9\n", "the last bottom layer is 7 of 1"),
        ("DATA\n" + "9" * 30, "a whole number is expected"),
    ],
)
def test_bad_tables_are_refused_by_line(tmp_path, text, said):
    file = tmp_path / "w.txt"
    file.write_text(text)
    with pytest.raises(InputError, match=said):
        layer_table_trace(file)
    with pytest.raises(InputError, match="passes"):
        layer_table_trace(_table(tmp_path, "DATA"), passes=10**9)


def _op(number: int, name: str, caller: int, record: int, **more: Any) -> dict[str, Any]:
    nothing: dict[str, Any] = {"values": [], "shapes": [], "types": []}
    return {
        "id": number,
        "name": name,
        "ctrl_deps": caller,
        "inputs": nothing,
        "outputs": nothing,
        "attrs": [{"name": "rf_id", "type": "uint64", "value": record}],
        **more,
    }


def _event(name: str, kind: str, start: float, took: float, thread: int = 1, **args: Any) -> dict[str, Any]:
    return {
        "ph": "X",
        "cat": kind,
        "name": name,
        "ts": start,
        "dur": took,
        "pid": 1,
        "tid": thread,
        "args": args,
    }


@pytest.fixture
def run(tmp_path):
    """A step of one rank: a product, an all-reduce, and a second thread that goes on after it."""
    tensor = {
        "values": [[1, 2, 0, 1000, 4, "cuda:0"], 3],
        "shapes": [[1000], []],
        "types": ["Tensor(float)", "Int"],
    }
    root = "[pytorch|profiler|execution_trace|thread]"
    nodes = [
        _op(1, "[pytorch|profiler|execution_trace|process]", 0, 0),
        _op(2, root, 1, 1),
        _op(10, "aten::mm", 2, 5),
        _op(12, "nccl:all_reduce", 2, 6, inputs=tensor),
        _op(3, root, 1, 2),
        _op(20, "aten::add_", 3, 7),
    ]
    host = {
        "schema": "1.1.1-chakra.0.0.4",
        "pid": 1,
        "time": "now",
        "start_ts": 5,
        "finish_ts": 9,
        "nodes": nodes,
    }
    ids = "Record function id"
    events = [
        _event("aten::mm", "cpu_op", 100, 40, **{"External id": 51, ids: 5}),
        _event("cudaLaunchKernel", "cuda_runtime", 120, 10, correlation=7),
        _event(
            "gemm", "kernel", 150, 300, thread=77, correlation=7, stream=7, grid=[4, 33, 1],
            block=[128, 1, 1], **{"External id": 51, "registers per thread": 168, "shared memory": 1000},
        ),
        _event("nccl:all_reduce", "cpu_op", 200, 20, **{"External id": 52, ids: 6}),
        _event("cudaLaunchKernelExC", "cuda_runtime", 205, 5, correlation=8),
        _event(
            "ncclDevKernel_AllReduce_Sum", "kernel", 460, 90, thread=77, correlation=8, stream=20,
            **{"External id": 52, "Process Group Name": "dp"},
        ),
        _event("aten::add_", "cpu_op", 5000, 8, thread=2, **{"External id": 53, ids: 7}),
        _event("lost", "kernel", 900, 5, thread=77, correlation=99),
        {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "python"}},
        {"ph": "s", "id": 7, "pid": 1, "tid": 1, "ts": 120, "cat": "ac2g", "name": "ac2g"},
    ]  # fmt: skip
    files = {"host.json": host, "device.json": {"traceEvents": events}}
    for name, document in files.items():
        (tmp_path / name).write_text(json.dumps(document))
    return tmp_path, host, events


def test_kernels_find_the_operations_that_launched_them(run, capsys):
    folder = run[0]
    out = folder / "t.et"
    command = ["chakra", "link", str(folder / "host.json"), str(folder / "device.json"), "--output"]
    assert main([*command, str(out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["collectives"], told["messages"], told["notes"]) == (1, 0, [])
    assert told["steps_us"] == [4908]  # no step is marked: all that was recorded
    trace = read(out)
    rows = {name: row for row in range(len(trace)) if (name := trace.names[row])}
    gemm, reduce = rows["gemm"], rows["ncclDevKernel_AllReduce_Sum"]
    assert (int(trace.duration_us[gemm]), bool(trace.is_cpu_op[gemm])) == (300, False)
    launch = ("num_blocks", "block_threads", "thread_registers", "block_shared_bytes")
    assert [int(trace.integers(name)[gemm]) for name in launch] == [132, 128, 168, 1000]
    assert not any(trace.has(name)[reduce] for name in launch)  # which Kineto did not say of it
    assert (trace.type[reduce], trace.comm_type[reduce], trace.comm_size[reduce]) == (7, 0, 4000)
    assert trace.pg_name[reduce] == "dp"
    # A launch ends a piece; calls follow each other, work of the device its launch, a thread the other one.
    assert int(trace.duration_us[rows["aten::mm"]]) == int(trace.duration_us[rows["host: aten::mm"]]) == 20
    for after, before in (
        (gemm, "aten::mm"), (rows["host: aten::mm"], "aten::mm"), (reduce, "nccl:all_reduce"),
        (rows["aten::add_"], "host"),
    ):  # fmt: skip
        assert trace.id[rows[before]] in trace.data_deps.of(after)
    assert trace.start_us[gemm] == 50
    # As JSON it is what mlcommons' tool makes.
    assert main([*command, str(folder / "plus.json"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "hosts": 3, "devices": 2, "orphans": 1, "waits": 0, "nodes": 8,
    }  # fmt: skip
    assert main(["chakra", "convert", str(folder / "plus.json"), "--output", str(folder / "u.et")]) == 0
    assert len(read(folder / "u.et")) == 8 - 1  # the process is no operation


def test_a_host_trace_alone_is_an_order(run):
    trace = pytorch_trace(pytorch_document(run[0] / "host.json"))
    assert trace.is_cpu_op.all()
    assert trace.metadata["schema"].value == "1.1.1-chakra.0.0.4"


def test_a_trace_without_durations_warns(run, capsys):
    """Each computation takes 1 ns then, which looks like a result."""
    warning = "no computation has a duration: each takes 1 ns; 'astranb chakra link' adds those of a profile"
    folder, _, events = run
    events[5]["args"].pop("Process Group Name")
    (folder / "device.json").write_text(json.dumps({"traceEvents": events}))
    host, device = str(folder / "host.json"), str(folder / "device.json")
    system = {"scheduling-policy": "LIFO", "all-reduce-implementation": ["ring"]}
    (folder / "system.json").write_text(json.dumps(system))
    network = "topology: [ Ring ]\nnpus_count: [ 2 ]\nbandwidth: [ 50 ]\nlatency: [ 500 ]\n"
    (folder / "network.yml").write_text(network)
    files = ["--system", str(folder / "system.json"), "--network", str(folder / "network.yml")]
    for command, warns in ((["convert", host], True), (["link", host, device], False)):
        for rank in range(2):
            assert main(["chakra", *command, "--output", str(folder / f"t.{rank}.et")]) == 0
            assert (warning in capsys.readouterr().err) == warns
        started = ["run", "trace", str(folder / "t"), *files]
        assert main(started) == 0
        assert (warning in capsys.readouterr().err) == warns
        assert main([*started, "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["notes"] == ([warning] if warns else [])


def test_bad_traces_of_pytorch_are_refused(run, capsys):
    folder, host, events = run
    file = folder / "bad.json"
    for change, said in [
        ({"schema": "1.1.1"}, "unknown schema '1.1.1'"),
        ({"nodes": 7}, "nodes: a list is expected"),
        ({"nodes": [{"id": -1}]}, "-1 is out of range"),
        ({"nodes": [host["nodes"][0]] * 2}, "duplicate node id 1"),
        ({"nodes": [_op(1, "x", 0, 0, inputs=5)]}, None),
    ]:
        file.write_text(json.dumps(host | change))
        if said is None:
            assert len(pytorch_trace(pytorch_document(file))) == 0
            continue
        with pytest.raises(InputError, match=said):
            pytorch_trace(pytorch_document(file))
    twice = [*events, events[1]]
    for what, said in [
        ({"traceEvents": twice}, "duplicate correlation"),
        ({"traceEvents": []}, "no operation of the host"),
        ([], "no operation of the host"),  # a list alone is Kineto's, too
        (7, "neither an object nor a list"),
    ]:
        file.write_text(json.dumps(what))
        with pytest.raises(InputError, match=said):
            link(folder / "host.json", file)
    assert main(["chakra", "link", str(folder / "host.json"), str(file), "--output", "x.txt"]) == 2
    assert "use FILE.et or FILE.json" in capsys.readouterr().err


def test_a_run_is_joined_and_converted_as_the_public_tools_did(tmp_path):
    """Recorded from mlcommons/chakra's trace_link and converter (without Holistic Trace Analysis)."""
    data = Path(__file__).resolve().parents[2] / "data" / "chakra_link.json.gz"
    recorded = json.loads(gzip.decompress(data.read_bytes()))
    for name in ("host", "device"):
        (tmp_path / f"{name}.json").write_text(json.dumps(recorded[name]))
    found = link(tmp_path / "host.json", tmp_path / "device.json")
    assert found.document["nodes"] == recorded["linked"]
    trace = pytorch_trace(Value(found.document, DocumentSource("linked")))
    made = [
        [
            *(node.id, node.name, int(node.type), sorted(node.data_deps), node.duration_us),
            *(int(trace.comm_type[row]), bool(trace.is_cpu_op[row])),
        ]
        for row, node in enumerate(trace.nodes())
    ]
    assert made == recorded["converted"]


_VALUES = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.just([]), st.just({}),
    st.sampled_from([0, 1, 2, 10, -1, 1 << 70, "kernel", "ncclDevKernel_SendRecv", [1], {"x": 1}]),
)  # fmt: skip


def damaged(value: Any, draw: Any) -> Any:
    """A document in which one value, somewhere, is another one."""
    if not isinstance(value, list | dict) or not value or draw(st.integers(0, 6)) == 0:
        return draw(_VALUES)
    copy = value.copy()
    key = draw(st.sampled_from(sorted(copy) if isinstance(copy, dict) else range(len(copy))))
    if draw(st.integers(0, 8)) == 0:
        del copy[key]
    else:
        copy[key] = damaged(copy[key], draw)
    return copy


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_damaged_traces_are_refused_or_read_and_never_crash(run, data):
    folder, host, events = run
    plus = link(folder / "host.json", folder / "device.json").document
    files = {"host": host, "device": {"traceEvents": events}, "plus": plus}
    which = data.draw(st.sampled_from(sorted(files)))
    files[which] = damaged(files[which], data.draw)
    for name, document in files.items():
        (folder / f"x{name}.json").write_text(json.dumps(document))
    with contextlib.suppress(InputError):
        if which == "plus":
            pytorch_trace(pytorch_document(folder / "xplus.json"))
        else:
            found = link(folder / "xhost.json", folder / "xdevice.json")
            pytorch_trace(Value(found.document, DocumentSource("linked")))
