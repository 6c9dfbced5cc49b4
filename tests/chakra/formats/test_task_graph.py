"""FlexFlow's task graphs: read from FlatBuffers and JSON, as traces, simulated."""

from __future__ import annotations

import json
import struct
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.chakra import (
    FlexFlowTask,
    NodeType,
    TaskGraph,
    Trace,
    read_ranks,
    read_task_graph,
    task_graph_traces,
)
from astranb.cli import main
from astranb.core.errors import InputError
from astranb.core.file_formats import is_task_graph
from astranb.engine.messages import Run
from astranb.infragraph import resolve
from astranb.workload.astrasim2 import DimensionNetwork, System, Workload, load
from astranb.workload.astrasim2.traces import operations_of

from .flatbuffers import Value, flatbuffer

FORWARD, BACKWARD, UPDATE, MESSAGE, ALL_REDUCE = 0, 1, 3, 5, 6
KINDS = {
    FORWARD: "TASK_FORWARD",
    BACKWARD: "TASK_BACKWARD",
    MESSAGE: "TASK_NOMINAL_COMM",
    ALL_REDUCE: "TASK_ALLREDUCE",
}
GPU, PCIE_OUT, PCIE_IN, NETWORK = 0, 10, 11, 14
# Ids are addresses in FlexFlow's memory. Three nodes of one GPU, and a switch, node 3.
DEVICES = [(GPU, 2**47 + rank, rank, rank, 0) for rank in range(3)]
DEVICES += [
    (NETWORK, 100, 2**64 - 1, 0 * 4 + 1, 0),
    (PCIE_OUT, 101, 3, 0, 33554432),
    (PCIE_IN, 102, 3, 1, 33554432),
]
TASKS = [  # type, id, device, ms, bytes, next
    (FORWARD, 10, 2**47, 2.0, 0, [20]),
    (FORWARD, 11, 2**47 + 1, 1.0, 0, [12]),
    (MESSAGE, 20, 101, 0.0, 1_000_000, [21]),
    (MESSAGE, 21, 100, 0.0, 1_000_000, [22]),
    (MESSAGE, 22, 102, 0.0, 1_000_000, [12]),
    (BACKWARD, 12, 2**47 + 1, 4.0, 0, [30]),
    (BACKWARD, 13, 2**47 + 2, 0.5, 0, [30, 31]),
    (ALL_REDUCE, 30, 0, 0.0, 4096, [1, 2]),
    (ALL_REDUCE, 31, 0, 0.25, 512, [0, 1, 2]),
]
CONNECTIONS = [(3, 0, 1), (3, 1, 2), (3, 2, 1)]
SYSTEM = {
    f"{name}-implementation": ["ring"]
    for name in ("all-reduce", "all-gather", "reduce-scatter", "all-to-all")
} | {"endpoint-delay": 1, "preferred-dataset-splits": 1}
NAMES = ("type", "taskid", "deviceid", "runtime", "xfersize", "nexttasks")


def written(tasks: Any = TASKS, devices: Any = DEVICES, connections: Any = CONNECTIONS) -> bytes:
    """The file as FlexFlow has it: fields that are 0 are left out, and operators name no task."""

    def number(form: str, value: float) -> Value | None:
        return (form, value) if value else None

    def numbers(row: Any) -> list[Value | None]:
        return [number(form, one) for form, one in zip("hQQQQ", row, strict=True)]

    rows = [
        ("table", [*(number(form, value) for form, value in zip("hQQfQ", row, strict=False)),
                   ("list", [("Q", one) for one in row[5]])])
        for row in tasks
    ]  # fmt: skip
    return flatbuffer([
        ("I", 1), ("I", 3), ("I", 1), ("f", 20971520.0), ("f", 33554432.0), ("f", 25e6),
        ("list", [("table", [number("I", one) for one in row]) for row in connections]),
        ("list", [("table", [("Q", 7), ("Q", 5), ("text", "Dense_100")])]),
        ("list", rows),
        ("list", [("table", numbers(row)) for row in devices]),
    ])  # fmt: skip


def as_json(tasks: Any = TASKS, devices: Any = DEVICES, **changes: Any) -> str:
    """The same file as ``flatc --strict-json`` prints it."""
    keys = ("type", "deviceid", "nodeid", "deviceproperty", "bandwidth")
    document = {
        "ngpupernode": 1, "nnode": 3, "nswitch": 1, "intergpubw": 20971520.0, "netbw": 25e6,
        "conn": [dict(zip(("fromnode", "tonode", "nconn"), row, strict=True)) for row in CONNECTIONS],
        "tasks": [{**dict(zip(NAMES, row, strict=True)), "type": KINDS[row[0]]} for row in tasks],
        "devices": [dict(zip(keys, row, strict=True)) for row in devices],
    }  # fmt: skip
    return json.dumps(document | changes, indent=2)


@pytest.fixture
def file(tmp_path: Path) -> str:
    (tmp_path / "step.fbuf").write_bytes(written())
    return str(tmp_path / "step.fbuf")


@pytest.fixture
def system(tmp_path: Path) -> str:
    (tmp_path / "system.json").write_text(json.dumps(SYSTEM))
    return str(tmp_path / "system.json")


def test_flatbuffers_byte_by_byte() -> None:
    """A file of one table by hand: what the tests' own writer makes of it."""
    assert flatbuffer([("I", 7), None, ("text", "ab")]) == bytes(
        [
            14, 0, 0, 0,  # the root table is at byte 14
            10, 0, 12, 0, 4, 0, 0, 0, 8, 0,  # vtable: 10 bytes, the table 12; slots 0 and 2 are at 4 and 8
            10, 0, 0, 0,  # the table: its vtable is 10 bytes before it
            7, 0, 0, 0,
            6, 0, 0, 0,  # the text is 6 bytes behind this place
            0, 0, 2, 0, 0, 0, 97, 98, 0,
        ]
    )  # fmt: skip


def test_flatbuffers_and_json_give_the_same_graph(file: str, tmp_path: Path) -> None:
    graph = read_task_graph(file)
    (tmp_path / "step.json").write_text(as_json())
    loose = as_json().replace('"tasks"', "tasks").replace('"nnode"', "nnode")  # flatc's own JSON
    (tmp_path / "loose.json").write_text(loose)
    for other in ("step.json", "loose.json"):
        again = read_task_graph(tmp_path / other)
        assert again.tasks == graph.tasks
        assert (again.ranks, again.connections, again.link_Bps) == (3, CONNECTIONS, 25e9)
    assert [task.rank for task in graph.tasks] == [0, 1, -1, -1, -1, 1, 2, -1, -1]
    assert graph.tasks[3] == FlexFlowTask("TASK_NOMINAL_COMM", ends=(0, 1), size=1_000_000, following=(4,))
    assert graph.tasks[8] == FlexFlowTask("TASK_ALLREDUCE", duration_ns=250_000, size=512, members=(0, 1, 2))


def told(trace: Trace) -> list[tuple[str, list[str | None]]]:
    return [
        (trace.names[row] or "", [trace.names[int(one)] for one in trace.parents.of(row)])
        for row in range(len(trace))
    ]


def test_tasks_become_nodes(file: str) -> None:
    traces, groups = task_graph_traces(read_task_graph(file))
    assert groups == {1: [1, 2]}
    first = "all-reduce 8 inside a GPU"  # its GPUs wait for it 0.25 ms; it begins before the other all-reduce
    assert told(traces[0]) == [
        ("forward 0", []), (first, []), ("all-reduce 8", [first]), ("message 2", ["forward 0"]),
    ]  # fmt: skip
    assert told(traces[1]) == [
        ("forward 1", []), (first, []), ("all-reduce 8", [first]), ("message 2", []),
        ("backward 5", ["forward 1", "message 2"]), ("all-reduce 7", ["all-reduce 8", "backward 5"]),
    ]  # fmt: skip
    assert told(traces[2]) == [
        ("backward 6", []), (first, ["backward 6"]), ("all-reduce 8", [first]),
        ("all-reduce 7", ["backward 6", "all-reduce 8"]),
    ]  # fmt: skip
    sent, received = traces[0].node(3), traces[1].node(3)
    assert (sent.type, received.type) == (NodeType.COMM_SEND, NodeType.COMM_RECV)
    assert traces[0].comm_size[3] == traces[1].comm_size[3] == 1_000_000
    assert traces[1].pg_name[5] == "1"
    assert not traces[1].pg_name[2]  # of all ranks
    assert traces[2].duration_us.tolist() == [500, 250, 0, 0]
    assert traces[2].is_cpu_op.tolist() == [False, True, False, False]


def test_a_step_takes_what_it_takes_by_hand(file: str, tmp_path: Path) -> None:
    """The forward pass, 1 MB at 1 GB/s over a link without latency, the backward pass, and 4 KiB's ring."""
    network = tmp_path / "network.yml"
    network.write_text("topology: [FullyConnected]\nnpus_count: [3]\nbandwidth: [1.0]\nlatency: [0.0]\n")
    with_roofline = tmp_path / "roofline.json"  # tasks keep their durations
    with_roofline.write_text(json.dumps(SYSTEM | {"roofline-enabled": 1, "peak-perf": 100}))
    run = Run(load(file, with_roofline, network))
    run.finish()
    ring = 2 * 2048  # two steps of half of it; endpoints add a few ns
    assert run.now_ns == pytest.approx(2_000_000 + 1_000_000 + 4_000_000 + ring, abs=100)


def test_the_command_line(file: str, system: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["chakra", "info", file]) == 0
    assert "rank 1: 6 nodes, all_reduce 2 (4,608 bytes)" in capsys.readouterr().out
    assert main(["chakra", "convert", file, "--output", str(tmp_path / "step")]) == 0
    assert "9 tasks of 3 GPUs in 4 files" in capsys.readouterr().out
    assert read_ranks(tmp_path / "step") == task_graph_traces(read_task_graph(file))[0]
    assert main(["chakra", "timeline", file, "--output", str(tmp_path / "t.json")]) == 0
    assert "14 spans of 3 ranks" in capsys.readouterr().out
    times = []
    converted = [str(tmp_path / "step"), "--comm-group", str(tmp_path / "step.groups.json")]
    for source in ([file], converted):
        assert main(["run", "trace", *source, "--infra", file, "--system", system, "--json"]) == 0
        times.append(json.loads(capsys.readouterr().out)["time_ps"])
    assert times[0] == times[1]


def test_the_cluster_of_a_task_graph(file: str, tmp_path: Path) -> None:
    graph = resolve(file).expand()
    assert len(graph.gpus) == 3
    assert sorted(graph.edges["bandwidth_Bps"][0].tolist()) == [25 * 10**9, 25 * 10**9, 50 * 10**9]
    # Of several GPUs, a node is a switch. Nodes 0 and 1 are joined in both directions, listed or not.
    boxes = as_json([TASKS[1]], ngpupernode=2, nnode=2, nswitch=0, conn=[
        {"tonode": 1, "nconn": 1}, {"fromnode": 1, "tonode": 0, "nconn": 1},
    ]).replace("[\n        12\n      ]", "[]")  # fmt: skip
    (tmp_path / "boxes.json").write_text(boxes)
    graph = resolve(str(tmp_path / "boxes.json")).expand()
    assert len(graph.gpus) == 4
    assert sorted(graph.edges["bandwidth_Bps"][0].tolist()) == [20_971_520_000] * 4 + [25 * 10**9]
    (tmp_path / "none.json").write_text(as_json(conn=[]))
    with pytest.raises(InputError, match="no connections between nodes"):
        resolve(str(tmp_path / "none.json"))


def _changed(at: int, **fields: Any) -> list[Any]:
    tasks = [list(row) for row in TASKS]
    for name, value in fields.items():
        tasks[at][NAMES.index(name)] = value
    return tasks


@pytest.mark.parametrize(
    "tasks, said",
    [
        (_changed(0, nexttasks=[99]), r"tasks\[0\].nexttasks\[0\]: unknown task 99; name existing tasks"),
        (_changed(0, deviceid=99), r"tasks\[0\]: unknown device 99"),
        (_changed(0, deviceid=100), r"tasks\[0\]: TASK_FORWARD cannot run on a DEVICE_COMM_NW_NOMINAL"),
        (_changed(1, taskid=10), r"tasks\[1\]: duplicate task 10"),
        (_changed(0, type=7), r"tasks\[0\].type: 7 is out of range"),
        (_changed(0, runtime=float("nan")), r"tasks\[0\].runtime: nan is out of range"),
        (_changed(7, nexttasks=[1, 3]), r"tasks\[7\].nexttasks\[1\]: 3 is out of range; take 0 to 2"),
        (_changed(7, nexttasks=[1, 1]), r"tasks\[7\]: an all-reduce must list each of its GPUs once"),
        (_changed(7, nexttasks=[]), r"tasks\[7\]: an all-reduce must list each of its GPUs once"),
        (_changed(5, nexttasks=[20]), r"task 2 \(TASK_NOMINAL_COMM\) waits for itself"),
        ([], "the task graph has no tasks"),
    ],
)  # fmt: skip
def test_bad_tasks_get_one_line(tasks: Any, said: str, tmp_path: Path) -> None:
    (tmp_path / "bad.fbuf").write_bytes(written(tasks))
    with pytest.raises(InputError, match=said):
        task_graph_traces(read_task_graph(tmp_path / "bad.fbuf"))


def test_tasks_with_further_fields_are_refused(tmp_path: Path) -> None:
    """As MixNet's FlexFlow writes them: their fields are others, and so is what they mean."""
    task = [("h", 1), ("Q", 10), ("Q", 2**47), ("f", 1.0), ("Q", 1), None, ("list", [("Q", 10)])]
    data = flatbuffer([("I", 1), ("I", 1), *6 * [None], ("list", [("table", task)]), ("list", [])])
    (tmp_path / "bad.fbuf").write_bytes(data)
    (tmp_path / "bad.json").write_text(as_json().replace('"xfersize"', '"counter"', 1))
    for name, said in (("bad.fbuf", "a seventh"), ("bad.json", "counter")):
        with pytest.raises(InputError, match=rf"tasks\[0\]: a field that FlexNet's .* not have: {said}"):
            read_task_graph(tmp_path / name)


def test_messages_need_two_gpus(tmp_path: Path) -> None:
    for which, device in (("from", (NETWORK, 100, 0, 3 * 4 + 1, 0)), ("to", (NETWORK, 100, 0, 0 * 4 + 3, 0))):
        (tmp_path / "bad.fbuf").write_bytes(written(devices=[*DEVICES[:3], device, *DEVICES[4:]]))
        with pytest.raises(InputError, match=f"task 2 is a message {which} GPU 3"):
            task_graph_traces(read_task_graph(tmp_path / "bad.fbuf"))
    (tmp_path / "bad.fbuf").write_bytes(
        written(devices=[*DEVICES[:3], (NETWORK, 100, 0, 17, 0), *DEVICES[4:]])
    )
    with pytest.raises(InputError, match="the device joins nodes 4 and 1"):
        read_task_graph(tmp_path / "bad.fbuf")


def test_bad_options_get_one_line(file: str, system: str, capsys: pytest.CaptureFixture[str]) -> None:
    run = ["run", "trace", file, "--system", system, "--infra"]
    assert main([*run, "dgx-h100"]) == 2
    assert f"{file}: the task graph has 3 GPUs, the network 8; give" in capsys.readouterr().err
    assert main([*run, file, "--comm-group", "g.json"]) == 2
    assert "g.json: a task graph of FlexFlow has its own groups" in capsys.readouterr().err
    assert main(["chakra", "convert", file, "--npus", "3", "-o", "x"]) == 2
    assert "--npus: a task graph has its own number of GPUs" in capsys.readouterr().err


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    """Cut off, or with four bytes changed: an error of ours, or a graph."""
    data, bad = written(), tmp_path / "bad.fbuf"
    for size in range(0, len(data), 17):
        bad.write_bytes(data[:size])
        with pytest.raises(InputError):
            read_task_graph(bad)
    for at in range(0, len(data) - 4, 14):
        for word in (0, 1, 0x7FFFFFFF, 0xFFFFFFF0):
            bad.write_bytes(data[:at] + struct.pack("<I", word) + data[at + 4 :])
            if is_task_graph(bad):
                with suppress(InputError):
                    read_task_graph(bad)


SETTINGS = System.from_document(SYSTEM)


@st.composite
def graphs(draw: st.DrawFn) -> TaskGraph:
    """Tasks of three GPUs: each waits for earlier ones, over a message or not; all-reduces among them."""
    tasks: list[Any] = []
    following: list[list[int]] = []
    computed: list[int] = []

    def add(task: FlexFlowTask) -> int:
        tasks.append(task)
        following.append([])
        return len(tasks) - 1

    ranks = st.integers(0, 2)
    for _ in range(draw(st.integers(1, 12))):
        before = draw(st.lists(st.sampled_from(computed), max_size=3, unique=True)) if computed else []
        if draw(st.integers(0, 3)) == 0:
            members = tuple(draw(st.lists(ranks, min_size=1, max_size=3, unique=True)))
            this = add(FlexFlowTask("TASK_ALLREDUCE", size=draw(st.integers(0, 9999)), members=members))
        else:
            this = add(FlexFlowTask("TASK_FORWARD", draw(ranks), duration_ns=draw(st.integers(0, 5000))))
            computed.append(this)
        for other in before:
            if draw(st.booleans()) and tasks[this].kind == "TASK_FORWARD":
                ends = (tasks[other].rank, tasks[this].rank)
                message = add(FlexFlowTask("TASK_COMM", ends=ends, size=draw(st.integers(0, 9999))))
                following[other].append(message)
                following[message].append(this)
            else:
                following[other].append(this)
    done = [one._replace(following=tuple(then)) for one, then in zip(tasks, following, strict=True)]
    return TaskGraph("drawn", 1, 3, 0, done)


@settings(max_examples=25, deadline=None)
@given(graphs(), st.booleans())
def test_every_graph_ends_in_its_order(graph: TaskGraph, congestion: bool) -> None:
    """No deadlock; what follows a task begins when it has ended, on whichever GPU."""
    traces, groups = task_graph_traces(graph)
    network = DimensionNetwork(["Ring"], [3], [10], [100])
    workload = Workload(
        [operations_of(one, groups) for one in traces], network, System.from_document(SYSTEM), groups=groups
    )
    run = Run(workload, congestion=congestion)
    run.finish()
    run.result()
    table, at = run.machine.operations, 0
    begin: dict[str, int] = {}
    end: dict[str, int] = {}
    for trace in traces:
        for row in range(len(trace)):
            name = trace.names[row] or ""
            if name.startswith("forward"):
                begin[name], end[name] = int(table["start_ns"][at]), int(table["end_ns"][at])
            elif name.startswith("all-reduce"):
                end[name] = max(end.get(name, 0), int(table["end_ns"][at]))
            at += 1
    for number, task in enumerate(graph.tasks):
        for path in _paths(graph, number) if task.kind == "TASK_FORWARD" else ():
            name = f"forward {number}"
            then = f"{'forward' if graph.tasks[path].kind == 'TASK_FORWARD' else 'all-reduce'} {path}"
            if then in begin:
                assert begin[then] >= end[name]
            elif then in end:
                assert end[then] >= end[name]
    for first, second in pairwise(graph.order):
        assert second not in graph.preceding[first]


def _paths(graph: TaskGraph, number: int) -> list[int]:
    """List the tasks that follow a task, behind messages too."""
    found: list[int] = []
    for one in graph.tasks[number].following:
        found += graph.tasks[one].following if graph.tasks[one].kind == "TASK_COMM" else (one,)
    return found
