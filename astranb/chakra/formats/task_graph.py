"""Task graphs of FlexFlow's simulator: what it writes with ``--taskgraph``.

The schema is that of FlexNet, the FlexFlow of TopoOpt (hipersys-team/FlexFlow b1526834,
``src/runtime/taskgraph.fbs``), as FlatBuffers or as ``flatc --json`` prints them. Times are in ms, bandwidths
in bytes per ms. An all-reduce has the numbers of its GPUs in the place of the tasks that follow it
(``simulator.cc``, ``new_allreduce_task``), and begins ``runtime`` after its last predecessor (``ffapp.cpp``
of Flasew/ffsim-opera 461b21f, ``start_flow``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import Final, NamedTuple

from astranb.core.document import DocumentNode, DocumentSource, contents, parse_document
from astranb.core.errors import InputError
from astranb.core.file_formats import TASK_GRAPHS, format_of, names_format
from astranb.core.limits import MOST_RANKS

from .flatbuffer import FlatField, flat_document

__all__ = ["MESSAGES", "FlexFlowTask", "TaskGraph", "read_task_graph"]

_MOST_BYTES: Final = 1 << 30
_MOST_ID: Final = (1 << 64) - 1
_MOST_MS: Final = 1e9
_MOST_BYTES_MOVED: Final = 1 << 48

_TASKS: Final = (
    "TASK_FORWARD", "TASK_BACKWARD", "TASK_COMM", "TASK_UPDATE", "TASK_BARRIER", "TASK_NOMINAL_COMM",
    "TASK_ALLREDUCE",
)  # fmt: skip
_DEVICES: Final = (
    "DEVICE_COMP_GPU", "DEVICE_COMP_CPU", "DEVICE_MEM_SYSTEM", "DEVICE_MEM_Z_COPY", "DEVICE_MEM_GPU_FB",
    "DEVICE_COMM_MEMBUS_COMM", "DEVICE_COMM_UPI_IN_COMM", "DEVICE_COMM_UPI_OUT_COMM",
    "DEVICE_COMM_NIC_IN_COMM", "DEVICE_COMM_NIC_OUT_COMM",
    "DEVICE_COMM_PCI_TO_HOST_COMM", "DEVICE_COMM_PCI_TO_DEV_COMM",
    "DEVICE_COMM_NVLINK_COMM", "DEVICE_COMM_NW_COMM", "DEVICE_COMM_NW_NOMINAL",
)  # fmt: skip
_GPU, _CPU = _DEVICES[:2]
_BETWEEN_NODES: Final = _DEVICES[-2:]
"""Their property is the number of the first node times that of all nodes and switches, plus the last one."""
MESSAGES: Final = ("TASK_COMM", "TASK_NOMINAL_COMM")
_ALL_REDUCE: Final = "TASK_ALLREDUCE"

_TASK: Final = (
    FlatField("type", "h"), FlatField("taskid", "Q"), FlatField("deviceid", "Q"), FlatField("runtime", "f"),
    FlatField("xfersize", "Q"), FlatField("nexttasks", "[]Q"),
    FlatField("a seventh", "B"),
)  # fmt: skip
_TASK_FIELDS: Final = {one.name for one in _TASK[:-1]}
"""MixNet's FlexFlow writes further ones, and others in the place of these."""
_DEVICE: Final = (
    FlatField("type", "h"), FlatField("deviceid", "Q"), FlatField("nodeid", "Q"),
    FlatField("deviceproperty", "Q"), FlatField("bandwidth", "Q"),
)  # fmt: skip
_CONNECTION: Final = (FlatField("fromnode", "I"), FlatField("tonode", "I"), FlatField("nconn", "I"))
_SCHEMA: Final = (
    FlatField("ngpupernode", "I"), FlatField("nnode", "I"), FlatField("nswitch", "I"),
    FlatField("intergpubw", "f"), FlatField("drambw", "f"), FlatField("netbw", "f"),
    FlatField("conn", "[]table", _CONNECTION), FlatField("ops", "[]table"),
    FlatField("tasks", "[]table", _TASK), FlatField("devices", "[]table", _DEVICE),
)  # fmt: skip


class FlexFlowTask(NamedTuple):
    """A task.

    Attributes
    ----------
    kind : str
        As ``TASK_FORWARD``.
    rank : int
        The GPU that computes, or whose host does; -1 of communication.
    on_cpu : bool
        Whether the host computes.
    ends : tuple of int
        Of a message between nodes, the first and last node, else nothing.
    duration_ns : int
        Of an all-reduce, what it takes before anything is sent.
    size : int
        Bytes that are moved.
    following : tuple of int
        The positions of the tasks that wait for it.
    members : tuple of int
        The ranks of an all-reduce.
    """

    kind: str
    rank: int = -1
    on_cpu: bool = False
    ends: tuple[int, ...] = ()
    duration_ns: int = 0
    size: int = 0
    following: tuple[int, ...] = ()
    members: tuple[int, ...] = ()


@dataclass(frozen=True)
class TaskGraph:
    """A step of training as FlexFlow plans it: tasks, and the cluster that they were planned for.

    Parameters
    ----------
    title : str
    gpus_per_node, nodes, switches : int
    tasks : sequence of FlexFlowTask
    connections : sequence of tuple of int
        Two nodes and the links between them; switches are numbered behind the nodes.
    link_Bps, gpu_Bps : float
        Bandwidth of a link between nodes, and between GPUs of a node; 0: not given.
    where : str
        The file, for errors.
    """

    title: str
    gpus_per_node: int
    nodes: int
    switches: int
    tasks: Sequence[FlexFlowTask]
    connections: Sequence[tuple[int, int, int]] = ()
    link_Bps: float = 0.0  # noqa: N815 - unit in the name
    gpu_Bps: float = 0.0  # noqa: N815 - unit in the name
    where: str = field(default="task graph", compare=False)

    @property
    def ranks(self) -> int:
        """The number of GPUs."""
        return self.nodes * self.gpus_per_node

    @cached_property
    def preceding(self) -> list[list[int]]:
        """The tasks that each task waits for."""
        found: list[list[int]] = [[] for _ in self.tasks]
        for number, task in enumerate(self.tasks):
            for other in task.following:
                found[other].append(number)
        return found

    @cached_property
    def order(self) -> list[int]:
        """The tasks in the order in which they could begin if each had a GPU; at one time, the file's.

        Raises
        ------
        InputError
            Tasks wait for one another.
        """
        waits = [len(one) for one in self.preceding]
        ready = [(0, number) for number, count in enumerate(waits) if not count]
        begin = [0] * len(self.tasks)
        heapify(ready)
        order = []
        while ready:
            now, number = heappop(ready)
            order.append(number)
            task = self.tasks[number]
            for other in task.following:
                begin[other] = max(begin[other], now + task.duration_ns)
                waits[other] -= 1
                if not waits[other]:
                    heappush(ready, (begin[other], other))
        if len(order) < len(self.tasks):
            stuck = next(number for number, count in enumerate(waits) if count)
            what = f"task {stuck} ({self.tasks[stuck].kind}) waits for itself"
            raise InputError(what, where=self.where, hint="remove the cycle of nexttasks")
        return order


@names_format(*TASK_GRAPHS)
def read_task_graph(path: str | Path) -> TaskGraph:
    """Read a task graph of FlexFlow, FlatBuffers or JSON, which is recognized by its contents.

    Raises
    ------
    InputError
        It is none, or a task or device is not as it should be; the text names it.

    Examples
    --------
    >>> import tempfile
    >>> text = '''{ngpupernode: 1, nnode: 2, nswitch: 0, netbw: 25000000.0,
    ...  tasks: [{type: "TASK_FORWARD", taskid: 1, deviceid: 7, runtime: 0.5, nexttasks: [2]},
    ...          {type: "TASK_ALLREDUCE", taskid: 2, xfersize: 4096, nexttasks: [0, 1]}],
    ...  devices: [{deviceid: 7, nodeid: 1, deviceproperty: 1}]}'''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "step.json")
    ...     _ = file.write_text(text)
    ...     graph = read_task_graph(file)
    >>> graph.ranks, graph.tasks[0].rank, graph.tasks[0].duration_ns, graph.tasks[1].members
    (2, 1, 500000, (0, 1))
    """
    name = str(path)
    data = contents(path, _MOST_BYTES)
    found = format_of(path)
    if found is not None and found.key == TASK_GRAPHS[1]:
        document = parse_document(data, name)
    else:
        document = DocumentNode(flat_document(data, _SCHEMA, name), DocumentSource(name))
    return _TaskGraphReader(document).graph(Path(path).stem)


class _TaskGraphReader:
    """From a document to a task graph; numbers that are not there are 0, as in FlatBuffers."""

    def __init__(self, document: DocumentNode) -> None:
        self.document = document
        self.gpus_per_node = _number(document, "ngpupernode", 1, MOST_RANKS)
        self.nodes = _number(document, "nnode", 1, MOST_RANKS // self.gpus_per_node)
        self.switches = _number(document, "nswitch", 0, MOST_RANKS)
        self.ranks = self.nodes * self.gpus_per_node
        self.devices = {_number(one, "deviceid", 0, _MOST_ID): one for one in _items(document, "devices")}

    def graph(self, title: str) -> TaskGraph:
        listed = _items(self.document, "tasks")
        if not listed:
            raise self.document.error("the task graph has no tasks", "write it with FlexFlow's --taskgraph")
        numbers: dict[int, int] = {}
        for number, one in enumerate(listed):
            name = _number(one, "taskid", 0, _MOST_ID)
            if numbers.setdefault(name, number) != number:
                raise one.error(f"duplicate task {name}", "give each an id of its own")
        last = self.nodes + self.switches - 1
        return TaskGraph(
            title,
            self.gpus_per_node,
            self.nodes,
            self.switches,
            [self.task(one, numbers) for one in listed],
            [
                (
                    _number(one, "fromnode", 0, last),
                    _number(one, "tonode", 0, last),
                    _number(one, "nconn", 0, MOST_RANKS),
                )
                for one in _items(self.document, "conn")
            ],
            1000 * _real(self.document, "netbw", 1e15),
            1000 * _real(self.document, "intergpubw", 1e15),
            self.document.file,
        )  # fmt: skip

    def task(self, one: DocumentNode, numbers: dict[int, int]) -> FlexFlowTask:
        kind = _word(one, _TASKS)
        if unknown := [name for name in one.value if name not in _TASK_FIELDS]:
            what = f"a field that FlexNet's schema does not have: {unknown[0][:40]}"
            raise one.error(what, f"a task has {', '.join(sorted(_TASK_FIELDS))}")
        duration_ns = round(_real(one, "runtime", _MOST_MS) * 10**6)
        size = _number(one, "xfersize", 0, _MOST_BYTES_MOVED)
        if kind == _ALL_REDUCE:
            members = tuple(node.number(0, self.ranks - 1) for node in _items(one, "nexttasks"))
            if not members or len(set(members)) < len(members):
                raise one.error("an all-reduce must list each of its GPUs once (nexttasks)", "list them")
            return FlexFlowTask(kind, duration_ns=duration_ns, size=size, members=members)
        following = []
        for node in _items(one, "nexttasks"):
            if (number := numbers.get(node.number(0, _MOST_ID))) is None:
                raise node.error(f"unknown task {node.brief}", "name existing tasks")
            following.append(number)
        device, unique = self.device(one), tuple(dict.fromkeys(following))
        place = _number(device, "deviceproperty", 0, _MOST_ID)
        where = _word(device, _DEVICES)
        if kind in MESSAGES:
            ends = divmod(place, self.nodes + self.switches) if where in _BETWEEN_NODES else ()
            if ends and max(ends) >= self.nodes + self.switches:
                raise device.error(f"the device joins nodes {ends[0]} and {ends[1]}", "name existing nodes")
            return FlexFlowTask(kind, ends=ends, duration_ns=duration_ns, size=size, following=unique)
        if where not in (_GPU, _CPU):
            raise one.error(f"{kind} cannot run on a {where}", "take a GPU or CPU")
        node_id = _number(device, "nodeid", 0, _MOST_ID)
        rank = place if where == _GPU else node_id * self.gpus_per_node
        if rank >= self.ranks:
            raise device.error(
                f"GPU {rank} is out of range: the cluster has {self.ranks}",
                "count GPUs from 0 (deviceproperty)",
            )
        return FlexFlowTask(kind, rank, where == _CPU, duration_ns=duration_ns, following=unique)

    def device(self, task: DocumentNode) -> DocumentNode:
        name = _number(task, "deviceid", 0, _MOST_ID)
        if name not in self.devices:
            raise task.error(f"unknown device {name}", "list it under devices")
        return self.devices[name]


def _items(node: DocumentNode, key: str) -> list[DocumentNode]:
    return node.get(key).items() if node.has(key) else []


def _number(node: DocumentNode, key: str, low: int, high: int) -> int:
    if low and not node.has(key):
        raise node.error(f"{key!r} is missing", "give it")
    return node.get(key, 0).number(low, high)


def _real(node: DocumentNode, key: str, most: float) -> float:
    return node.get(key, 0).real(0, most)


def _word(node: DocumentNode, choices: tuple[str, ...]) -> str:
    """Return a type, which FlatBuffers have as a number and JSON as a word."""
    given = node.get("type", 0)
    if isinstance(given.value, str):
        return given.choice(choices)
    return choices[given.number(0, len(choices) - 1)]
