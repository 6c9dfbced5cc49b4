"""ns-3: HPCC's and ASTRA-sim's flow files, and schedules with dependencies for scripts of one's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from astranb.core.arrays import numbered
from astranb.core.errors import InputError
from astranb.core.files import whole_files
from astranb.core.text_lines import text_lines
from astranb.infragraph import TOPOLOGY_FORMATS, Infra, topology_text
from astranb.traffic.graph import MessageGraph
from astranb.traffic.order import node_name
from astranb.traffic.schedule import flat_network_of
from astranb.traffic.store import write_chakra
from astranb.workload.astrasim2 import COMPUTE, SEND

from .checked import checked_order, counted, labelled
from .flows import SECOND_PS, WaitingNodes, beside, timed_messages
from .translation import Translation

__all__ = ["write_astrasim_ns3", "write_flow_schedule", "write_ns3"]

_PRIORITY_GROUP, _PORT = 3, 100  # as in HPCC's own flow.txt
_MOST_BYTES: Final = 2**32 - 1
_MICROSECOND_PS: Final = 10**6
_ROWS: Final = 1 << 18


def write_ns3(
    graph: MessageGraph,
    path: str | Path,
    *,
    topology: Infra | None = None,
    bandwidth: str | int = "400 Gbps",
    latency: str | int = "1 us",
) -> Translation:
    """Write the flow file of HPCC's ns-3, with its topology and configuration where there is a topology.

    A line is ``source target 3 100 bytes start``, in the order of starts, which are as recorded, otherwise
    as early as possible without congestion: this simulator knows no dependencies.

    Parameters
    ----------
    graph : MessageGraph
    path : str or Path
        ``flow.txt``; beside it ``flow.topology.txt``, ``flow.config.txt`` and ``flow.trace.txt``.
    topology : Infra, optional
    bandwidth, latency : str or int
        Between any two ranks, where there is no topology, for starts that were not recorded.

    Raises
    ------
    InputError
        The graph cannot be written, or the topology has less GPUs than the graph ranks.
    """
    file = Path(path)
    flows = timed_messages(graph, topology, bandwidth, latency)
    flows.by_the_clock("ns-3's flow file")
    flows.at_least_one_byte("ns-3")
    parts = -(-flows.size // _MOST_BYTES)
    lost = list(flows.not_expressed)
    lost += counted(
        int((parts > 1).sum()), len(flows), "messages", f"of more than {_MOST_BYTES:,} bytes: several flows"
    )
    message = np.repeat(np.arange(len(flows)), parts)
    nth = numbered(parts)
    size = np.minimum(flows.size[message] - nth * _MOST_BYTES, _MOST_BYTES)
    start_ns = (flows.start_ps[message] + 500) // 1000
    inexact = int((flows.start_ps % 1000 != 0).sum())
    lost += counted(inexact, len(flows), "starts", "rounded to nanoseconds, ns-3's unit")
    values = np.stack([flows.source[message], flows.target[message], size, start_ns], 1)
    line = f"{{0}} {{1}} {_PRIORITY_GROUP} {_PORT} {{2}} {{3}}e-9\n"
    others = _simulator_files(file.with_suffix(""), file, topology, flows.times.end_ps, lost)
    with whole_files() as add:
        with add(file) as out:
            out.write(f"{len(message)}\n".encode())
            for at in range(0, len(message), _ROWS):
                block = values[at : at + _ROWS]
                out.write(text_lines([line], np.zeros(len(block), np.int64), block))
        for name, content in others.items():
            with add(name) as out:
                out.write(content)
    return Translation((file, *others), graph.messages, tuple(lost))


def write_astrasim_ns3(
    graph: MessageGraph, path: str | Path, *, topology: Infra | None = None
) -> Translation:
    """Write what ASTRA-sim's ns-3 runs: a Chakra trace of each rank and the logical topology.

    ASTRA-sim sends a message when what it waits for has ended, so all dependencies are kept.

    Parameters
    ----------
    graph : MessageGraph
    path : str or Path
        A prefix: ``PREFIX.RANK.et``, ``PREFIX.logical.json``, and with a topology ``PREFIX.topology.txt``,
        ``PREFIX.config.txt``, and ``PREFIX.flow.txt`` and ``PREFIX.trace.txt``, which are empty.
    topology : Infra, optional

    Raises
    ------
    InputError
        The graph cannot be written, or the topology has less GPUs than the graph ranks.
    """
    prefix, nodes = Path(path), graph.nodes
    checked_order(graph)
    lost: list[str] = []
    computes = nodes["kind"] == COMPUTE
    rounded = int((nodes["duration_ps"][computes] % _MICROSECOND_PS != 0).sum())
    rest = "durations are rounded up to microseconds, Chakra's unit"
    lost += counted(rounded, int(computes.sum()), "computations", rest)
    messages = nodes["kind"] != COMPUTE
    wide = np.flatnonzero(messages & ((nodes["tag"] < 0) | (nodes["tag"] >= 2**31)))
    if len(wide):
        what = f"{node_name(graph, int(wide[0]))} has tag {nodes['tag'][wide[0]]}"
        raise InputError(what, where=graph.title, hint="tags of Chakra are 0 to 2,147,483,647")
    flat_network_of(topology, graph)
    logical = json.dumps({"logical-dims": [str(graph.ranks)]}) + "\n"
    others = {Path(f"{prefix}.logical.json"): logical.encode()}
    flow = Path(f"{prefix}.flow.txt")
    made = _simulator_files(prefix, flow, topology, None, lost)
    others |= {**made, flow: b"0\n"} if made else {}
    return Translation(tuple(write_chakra(graph, prefix, others=others)), graph.messages, tuple(lost))


def _simulator_files(
    prefix: Path, flow: Path, topology: Infra | None, end_ps: int | None, lost: list[str]
) -> dict[Path, bytes]:
    """Return topology, configuration and an empty list of nodes to trace; none without a topology."""
    if topology is None:
        return {}
    text, remarks = topology_text(topology.expand(), TOPOLOGY_FORMATS["ns3"])
    lost += [f"topology: {remark}" for remark in remarks]
    made, config, trace = (Path(f"{prefix}.{name}.txt") for name in ("topology", "config", "trace"))
    rates = sorted({row.split()[2] for row in text.splitlines()[2:]})
    settings = _configuration(flow, made, trace, rates, end_ps)
    return {made: text.encode(), config: settings.encode(), trace: b"0\n"}


def _configuration(flow: Path, topology: Path, trace: Path, rates: list[str], end_ps: int | None) -> str:
    """Return HPCC's settings for DCQCN, as its ``simulation/run.py`` (08d4ba0) makes them.

    Marking starts at 100 KB and ends at 400 KB for each 25 Gbps of a link, and buffers have 16 MB for
    each 50 Gbps of the slowest one.
    """
    bits = sorted({_bits(rate) for rate in rates})
    slowest = bits[0]

    def by_rate(kilobytes: int) -> str:
        rows = (f"{rate} {max(1, kilobytes * rate // (25 * 10**9))}" for rate in bits)
        return f"{len(bits)} {' '.join(rows)}"

    # Without an end, as in ASTRA-sim's own configuration: it stops when all ranks are done.
    stop = "40000000000000.00" if end_ps is None else f"{end_ps / SECOND_PS + 4:.2f}"
    marked = f"{len(bits)} {' '.join(f'{rate} 0.2' for rate in bits)}"
    additive = max(1, 5 * slowest // (25 * 10**9))
    settings = {
        "ENABLE_QCN": 1, "USE_DYNAMIC_PFC_THRESHOLD": 1, "PACKET_PAYLOAD_SIZE": 1000,
        "TOPOLOGY_FILE": topology.name, "FLOW_FILE": flow.name, "TRACE_FILE": trace.name,
        "TRACE_OUTPUT_FILE": f"{flow.stem}.out.tr", "FCT_OUTPUT_FILE": f"{flow.stem}.fct.txt",
        "PFC_OUTPUT_FILE": f"{flow.stem}.pfc.txt", "SIMULATOR_STOP_TIME": stop,
        "CC_MODE": 1, "ALPHA_RESUME_INTERVAL": 1, "RATE_DECREASE_INTERVAL": 4, "CLAMP_TARGET_RATE": 0,
        "RP_TIMER": 300, "EWMA_GAIN": 0.00390625, "FAST_RECOVERY_TIMES": 1, "RATE_AI": f"{additive}Mb/s",
        "RATE_HAI": f"{10 * additive}Mb/s", "MIN_RATE": "1000Mb/s", "DCTCP_RATE_AI": "1000Mb/s",
        "ERROR_RATE_PER_LINK": "0.0000", "L2_CHUNK_SIZE": 4000, "L2_ACK_INTERVAL": 1,
        "L2_BACK_TO_ZERO": 0, "HAS_WIN": 0, "GLOBAL_T": 1, "VAR_WIN": 0, "FAST_REACT": 0,
        "U_TARGET": 0.95, "MI_THRESH": 0, "INT_MULTI": 1, "MULTI_RATE": 0, "SAMPLE_FEEDBACK": 0,
        "PINT_LOG_BASE": 1.01, "PINT_PROB": 1.0, "RATE_BOUND": 1, "ACK_HIGH_PRIO": 1,
        "LINK_DOWN": "0 0 0", "ENABLE_TRACE": 0, "KMAX_MAP": by_rate(400), "KMIN_MAP": by_rate(100),
        "PMAX_MAP": marked, "BUFFER_SIZE": max(1, 16 * slowest // (50 * 10**9)),
        "QLEN_MON_FILE": f"{flow.stem}.qlen.txt", "QLEN_MON_START": 0, "QLEN_MON_END": 0,
    }  # fmt: skip
    return "".join(f"{key} {value}\n" for key, value in settings.items())


def _bits(rate: str) -> int:
    number = rate.rstrip("GMbps")
    return int(number) * {"Gbps": 10**9, "Mbps": 10**6, "bps": 1}[rate[len(number) :]]


_CSV: Final = ("{0},flow,{1},{2},{3},0,", "{0},delay,{1},,,{2},", "{0}", " {0}", "\n", "\n")
_JSON: Final = (
    '{"id":{0},"kind":"flow","source":{1},"target":{2},"bytes":{3},"delay_ps":0,"waits_for":[',
    '{"id":{0},"kind":"delay","rank":{1},"delay_ps":{2},"waits_for":[',
    "{0}", ",{0}", "]},\n", "]}\n",
)  # fmt: skip


def write_flow_schedule(
    graph: MessageGraph,
    path: str | Path,
    *,
    topology: Infra | None = None,
) -> Translation:
    """Write flows with their dependencies, for a script of one's own in ns-3 or any other simulator.

    A row is a flow or a delay. Each begins when all rows that it waits for have ended: a flow when its last
    byte has arrived, a delay after its picoseconds. Delays are computations, and receives that begin later
    than their flow may arrive (of 0 ps). Rows are in an order in which they can begin.

    Parameters
    ----------
    graph : MessageGraph
    path : str or Path
        ``.json`` writes a list of objects, anything else CSV with ids separated by spaces.
    topology : Infra, optional
        Written beside it, as for ns-3.

    Raises
    ------
    InputError
        The graph cannot be written.
    """
    file = Path(path)
    order = checked_order(graph)
    as_json = file.suffix.lower() == ".json"
    templates = _JSON if as_json else _CSV
    lost = list(labelled(graph, "labels have no place in a schedule"))
    recorded = int((graph.nodes["start_ps"] >= 0).sum())
    lost += counted(recorded, len(graph.nodes), "nodes", "recorded starts are left out: rows wait for rows")
    others: dict[Path, bytes] = {}
    if topology is not None:
        made, remarks = topology_text(topology.expand(), TOPOLOGY_FORMATS["ns3"])
        lost += [f"topology: {remark}" for remark in remarks]
        others = {beside(file, ".topology.txt"): made.encode()}
    with whole_files() as add:
        with add(file) as out:
            out.write(b"[\n" if as_json else b"id,kind,source,target,bytes,delay_ps,waits_for\n")
            for values, which in _schedule_rows(graph, order):
                out.write(text_lines(templates, which, values))
            out.write(b"]\n" if as_json else b"")
        for name, content in others.items():
            with add(name) as out:
                out.write(content)
    return Translation((file, *others), graph.messages, tuple(lost))


def _schedule_rows(graph: MessageGraph, order: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows in blocks: the values and templates of the parts of their text."""
    nodes, waiting = graph.nodes, WaitingNodes(graph, order)
    for at in range(0, len(waiting.listed), _ROWS // 4):
        rows = waiting.listed[at : at + _ROWS // 4]
        flow = waiting.kind[rows] == SEND
        delay_ps = np.where(waiting.kind[rows] == COMPUTE, nodes["duration_ps"][rows], 0)
        third = np.where(flow, nodes["peer"][rows], delay_ps)
        heads = np.stack([waiting.number[rows], nodes["rank"][rows], third, nodes["bytes"][rows]], 1)
        values, which = waiting.parts(rows, heads, np.where(flow, 0, 1))
        if at + len(rows) == len(waiting.listed):
            which[-1] = 5
        yield values, which
