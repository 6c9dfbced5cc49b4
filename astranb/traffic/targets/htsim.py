"""Connection matrices of htsim: flows that begin at a time or on a trigger, written and read."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np

from astranb.core.arrays import numbered, ranges
from astranb.core.document import contents
from astranb.core.errors import InputError, near
from astranb.core.files import whole_files
from astranb.core.text_lines import text_lines
from astranb.core.units import bandwidth_Bps
from astranb.infragraph import Infra, htsim_topology
from astranb.traffic.graph import MessageGraph
from astranb.traffic.waits import COMPUTATION, JOIN, MESSAGE, TIMER, Waits, waits_of
from astranb.workload.astrasim2 import COMPUTE, RECV, SEND

from .checked import checked_order, counted, labelled, one_line
from .flows import beside
from .translation import Translation

__all__ = ["read_htsim", "write_htsim"]

_MOST: Final = 2**31 - 1  # htsim reads numbers with stoi; starts as float32, exact below 2**24
_MOST_BYTES: Final = 4 << 30
_MOST_START_PS: Final = 2**60
_MOST_NODES: Final = 1 << 24  # htsim makes tables of the pairs of nodes

_FLOW: Final = "{0}->{1} id {2} "
_LINES: Final = (
    _FLOW + "start {3} size {4}\n",
    _FLOW + "start {3} size {4} send_done_trigger {5}\n",
    _FLOW + "trigger {3} size {4}\n",
    _FLOW + "trigger {3} size {4} send_done_trigger {5}\n",
    "trigger id {0} oneshot\n",
    "trigger id {0} barrier count {1}\n",
)
_ONESHOT, _BARRIER = 4, 5


class _Flows(NamedTuple):
    """Flows to write: a row each; ``begin`` is a trigger, or a time where ``timed``; ``done`` 0: none."""

    source: np.ndarray
    target: np.ndarray
    size: np.ndarray
    begin: np.ndarray
    timed: np.ndarray
    done: np.ndarray


def write_htsim(
    graph: MessageGraph,
    path: str | Path,
    *,
    topology: Infra | None = None,
    nodes: int = 0,
    host_bandwidth: str | int = "",
) -> Translation:
    """Write a connection matrix (``.cm``) of htsim.

    A message is a flow, which begins when all flows that it waits for have ended. A flow ends in htsim when
    its sender has the last acknowledgement. It activates one trigger then (``send_done_trigger``: no
    transport of htsim activates ``recv_done_trigger``), and waits for one. What needs more is carried by
    further flows of one byte between neighbours, *relays*, whose numbers come after those of messages.
    Computations that wait for no message are the start of what waits for them.

    Parameters
    ----------
    graph : MessageGraph
    path : str or Path
    topology : Infra, optional
        Gives the number of nodes: its GPUs. Its network between servers is written beside the file as
        ``.topo``, where htsim has such networks, and ranks get the numbers of their hosts there.
    nodes : int
        Nodes of htsim's topology, at least the ranks. Default: those of the topology, otherwise the ranks.
    host_bandwidth : str or int
        The rate of hosts, as ``100 Gb/s``. Where it is given, a computation that waits for messages is a
        flow between two hosts of its own, which takes as long: rank R has nodes ``ranks + 2 R`` and the next
        one, so that three times as many nodes are needed. Otherwise it takes no time.

    Raises
    ------
    InputError
        The graph has a cycle or no messages between ranks, has more ranks than the topology nodes, or
        cannot be written there.
    """
    order = checked_order(graph)
    rate = bandwidth_Bps(host_bandwidth, where="host_bandwidth") if host_bandwidth else 0
    if not isinstance(nodes, int) or nodes < 0:  # options of the command line are text
        raise InputError(f"nodes is {nodes!r}", where="nodes", hint="give a whole number")
    most = graph.ranks * (3 if rate else 1)
    given = nodes or (len(topology.expand().gpus) if topology else most)
    if given < most:
        spare = " with two more nodes for the computations of each" if rate else ""
        what = f"{graph.ranks} ranks{spare} do not fit on {given} nodes"
        raise InputError(what, where=graph.title, hint=f"give {most} nodes or more")
    waits = waits_of(graph, order, with_computations=rate > 0)
    messages = int(waits.needed[: graph.messages].sum())
    if messages == 0:
        hint = "a connection matrix needs a flow"
        raise InputError("there are no messages between ranks", where=graph.title, hint=hint)
    flows, activations = _flows(graph, waits, rate)
    flows, activations, own = _divided(flows, activations, messages)
    count, triggers = len(flows.source), len(activations)
    if max(count, triggers) > _MOST:
        raise InputError(f"{count:,} flows", where=graph.title, hint=f"htsim numbers {_MOST:,} of them")
    begin = np.where(flows.timed, np.float32(flows.begin).astype(np.int64), flows.begin)
    which = np.where(flows.timed, 0, 2) + (flows.done > 0)
    numbers = np.arange(1, count + 1)
    host, others, remarks = _network(topology, given, Path(path))
    ends = host[flows.source], host[flows.target]
    columns = np.stack([*ends, numbers, begin, flows.size, flows.done], 1)
    conditions = np.stack([np.arange(1, triggers + 1), activations], 1)
    head = (
        f"# traffic: {one_line(graph.title)}\n# ids above {own}: computations and relays\n"
        f"Nodes {given}\nConnections {count}\nTriggers {triggers}\n"
    )
    with whole_files() as add:
        with add(Path(path)) as file:
            file.write(head.encode(errors="replace"))
            file.write(text_lines(_LINES, which, columns))
            file.write(text_lines(_LINES, np.where(activations > 1, _BARRIER, _ONESHOT), conditions))
        for name, content in others.items():
            with add(name) as file:
                file.write(content)
    inexact = np.abs(begin - flows.begin)[flows.timed]
    report = _not_expressed(graph, waits, rate > 0, count - own, inexact)
    return Translation((Path(path), *others), messages, (*report, *remarks))


def _network(
    topology: Infra | None, nodes: int, path: Path
) -> tuple[np.ndarray, dict[Path, bytes], tuple[str, ...]]:
    """Return htsim's number of each node, its network, and what that does not express."""
    same = np.arange(nodes)
    if topology is None:
        return same, {}, ()
    graph = topology.expand()
    if len(graph.gpus) != nodes:
        return (
            same,
            {},
            (f"network: there is none of {nodes:,} nodes, {topology.name} has {len(graph.gpus):,}",),
        )
    try:
        text, numbers, lost = htsim_topology(graph)
    except InputError as error:
        return same, {}, (f"network: {error}",)
    return np.array(numbers), {beside(path, ".topo"): text.encode()}, tuple(f"network: {one}" for one in lost)


def _flows(graph: MessageGraph, waits: Waits, rate_bytes: int) -> tuple[_Flows, np.ndarray]:
    """Make the flows, those of messages first; returns also how many activations each trigger needs."""
    kind, size, start = waits.kind, waits.set_size, waits.set_start
    events = np.arange(len(kind))
    is_flow = (kind == MESSAGE) | (kind == COMPUTATION)
    first = waits.members[start]
    timer = (size == 1) & (kind[np.minimum(first, len(kind) - 1)] == TIMER)
    triggered = waits.used & (size > 0) & ~timer
    several = np.flatnonzero(triggered & (size > 1))
    lengths = size[several]
    in_set = np.repeat(several, lengths)
    at = ranges(start[several], lengths)
    member = waits.members[at]
    uses = np.bincount(member, minlength=len(kind)) if len(member) else np.zeros(len(kind), np.int64)
    alone = triggered[events + 1]
    # A flow activates one trigger. Where several wait for it, this one begins relays to the others.
    forked = is_flow & waits.needed & (uses + alone > 1)
    triggered[events + 1] |= forked
    trigger = np.cumsum(triggered)
    done = np.zeros(len(kind), np.int64)
    done[member] = trigger[in_set]
    done = np.where(alone | forked, trigger[events + 1], done)
    timed = (size[waits.waits] == 0) | timer[waits.waits] | (kind == TIMER)
    since = np.where(timer[waits.waits], waits.earliest_ps[first[waits.waits]], 0)
    begin = np.where(timed, np.where(kind == TIMER, waits.earliest_ps, since), trigger[waits.waits])

    nodes = graph.nodes
    rank = nodes["rank"][waits.row]

    def relays(event: np.ndarray, begin: np.ndarray, timed: np.ndarray, done: np.ndarray) -> _Flows:
        source = rank[event]
        return _Flows(source, (source + 1) % graph.ranks, np.ones_like(source), begin, timed, done)

    messages = np.flatnonzero((kind == MESSAGE) & waits.needed)
    sends = nodes[graph.sends[messages]]
    computations = np.flatnonzero((kind == COMPUTATION) & waits.needed)
    host = graph.ranks + 2 * rank[computations]
    rate = nodes["duration_ps"][waits.row[computations]] * (rate_bytes / 1e12)
    joins = np.flatnonzero((kind == JOIN) & alone)
    forks = np.flatnonzero(forked[member])
    copies = np.flatnonzero(~is_flow[member])
    parts = (
        _Flows(
            sends["rank"],
            sends["peer"],
            np.maximum(sends["bytes"], 1),
            begin[messages],
            timed[messages],
            done[messages],
        ),
        _Flows(
            host,
            host + 1,
            np.maximum(rate.round().astype(np.int64), 1),
            begin[computations],
            timed[computations],
            done[computations],
        ),
        relays(joins, begin[joins], timed[joins], trigger[joins + 1]),
        relays(member[copies], begin[member[copies]], timed[member[copies]], trigger[in_set[copies]]),
        relays(
            member[forks], trigger[member[forks] + 1], np.zeros(len(forks), np.bool_), trigger[in_set[forks]]
        ),
    )
    return _Flows(*(np.concatenate(columns) for columns in zip(*parts, strict=True))), size[triggered]


def _divided(flows: _Flows, activations: np.ndarray, own: int) -> tuple[_Flows, np.ndarray, int]:
    """Divide flows that are too large for htsim into several, one after the other."""
    parts = (flows.size + _MOST - 1) // _MOST
    if (parts == 1).all():
        return flows, activations, own
    row = np.repeat(np.arange(len(parts)), parts)
    turn = numbered(parts)
    last = turn == parts[row] - 1
    links = np.cumsum(~last)  # a trigger between each part and the next one
    link = len(activations) + links
    divided = _Flows(
        flows.source[row],
        flows.target[row],
        np.where(last, flows.size[row] - turn * _MOST, _MOST),
        np.where(turn == 0, flows.begin[row], np.roll(link, 1)),
        flows.timed[row] & (turn == 0),
        np.where(last, flows.done[row], link),
    )
    more = np.ones(int(links[-1]), np.int64)
    return divided, np.concatenate([activations, more]), int(parts[:own].sum())


def _not_expressed(
    graph: MessageGraph, waits: Waits, with_computations: bool, more: int, inexact_ps: np.ndarray
) -> tuple[str, ...]:
    nodes = graph.nodes
    sends = nodes[graph.sends]
    computes = int((nodes["kind"] == COMPUTE).sum())
    takes_time = int(((nodes["kind"] == COMPUTE) & (nodes["duration_ps"] > 0)).sum())
    timers = int((waits.kind == TIMER).sum())
    flows = int(((waits.kind == COMPUTATION) & waits.needed).sum())
    local = int((sends["rank"] == sends["peer"]).sum())
    lost = (
        counted(flows, computes, "computations", "flows between spare hosts, of a round trip or longer")
        if with_computations
        else counted(
            takes_time - timers,
            computes,
            "computations",
            "wait for messages and take no time: htsim has no delay (host_bandwidth makes flows of them)",
        )
    )
    return (
        *lost,
        *counted(
            int((nodes["kind"][graph.deps] == RECV).sum()),
            len(graph.deps),
            "dependencies",
            "on a receive, which ends when the sender has the acknowledgement",
        ),
        *counted(
            more - flows,
            more + len(sends) - local,
            "flows",
            "relays of one byte for dependencies, of a round trip",
        ),
        *counted(local, len(sends), "messages", "to the own rank, no flow"),
        *counted(int((sends["bytes"] == 0).sum()), len(sends), "messages", "of no bytes, written as 1 byte"),
        *counted(
            int((sends["bytes"] > _MOST).sum()), len(sends), "messages", "above 2 GiB, several flows in turn"
        ),
        *counted(
            int((inexact_ps > 0).sum()),
            len(inexact_ps),
            "starts",
            f"rounded to float32, by up to {int(inexact_ps.max(initial=0)):,} ps",
        ),
        *counted(
            int((sends["tag"] != 0).sum()), len(sends), "messages", "have a tag, which htsim does not know"
        ),
        *labelled(graph, "operation, phase and chunk have no place in a connection matrix"),
    )


@dataclass
class _Flow:
    source: int
    target: int
    line: int
    id: int = 0
    size: int = 0
    start_ps: int = -1
    trigger: int = 0
    send_done: int = 0
    recv_done: int = 0


@dataclass
class _Trigger:
    line: int = 0  # 0: named by a flow, not described so far
    kind: str = ""
    count: int = 0
    begins: list[int] = field(default_factory=list)  # flows, by their place
    activated_by: list[tuple[int, bool]] = field(default_factory=list)  # and whether by the receiver


def read_htsim(path: str | Path) -> MessageGraph:
    r"""Read a connection matrix (``.cm``) of htsim, by the rules of its own reader.

    Each flow is a message. A start is a computation before it, a trigger dependencies on the messages that
    activate it; where these end at another rank, an empty message is sent from there.

    Parameters
    ----------
    path : str or Path

    Raises
    ------
    InputError
        htsim would refuse the file, a flow never ends or never begins, or what a trigger begins depends on
        the order of time.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "two.cm"
    >>> _ = file.write_text("Nodes 16\nConnections 2\nTriggers 1\n0->1 id 1 start 500 size 8000 "
    ...     "send_done_trigger 1\n1->2 id 2 trigger 1 size 4000\ntrigger id 1 oneshot\n")
    >>> graph = read_htsim(file)
    >>> graph.messages, graph.bytes, graph.nodes["duration_ps"].tolist(), graph.deps.tolist()
    (2, 12000, [500, 0, 0, 0, 0], [0, 2])
    """
    where = str(path)
    reader = _Reader(where)
    for number, line in enumerate(contents(path, _MOST_BYTES).decode(errors="replace").split("\n"), 1):
        tokens = line.rstrip("\r").split(" ")
        if tokens[-1] == "":
            tokens.pop()
        if tokens and not tokens[0].startswith("#"):
            reader.line(number, tokens)
    return reader.graph()


class _Reader:
    """Takes a connection matrix line by line."""

    def __init__(self, where: str) -> None:
        self.where = where
        self.header: dict[str, int] = {}
        self.flows: list[_Flow] = []
        self.triggers: dict[int, _Trigger] = {}
        self.ids: set[int] = set()
        self.left_out = {"priorities": 0, "addon": 0, "failures": 0}
        self.described = 0

    def error(self, what: str, line: int = 0, hint: str = "") -> InputError:
        return InputError(what, where=f"{self.where}:{line}" if line else self.where, hint=hint)

    def number(self, tokens: list[str], at: int, line: int, least: int = 0) -> int:
        text = tokens[at] if at < len(tokens) else ""
        if not text.isascii() or not text.isdecimal() or not least <= int(text[:20]) <= _MOST:
            what = f"{tokens[at - 1]!r} needs a whole number, not {text[:20]!r}"
            raise self.error(what, line, f"give {least} to {_MOST}, behind a single space")
        return int(text)

    def line(self, line: int, tokens: list[str]) -> None:
        word = tokens[0]
        begun = bool(self.flows or self.described or self.left_out["failures"])
        if word in ("Nodes", "Connections", "Triggers", "Failures") and not begun:
            self.header[word] = self.number(tokens, 1, line)
        elif "->" in word:
            self.flow(line, tokens)
        elif word == "trigger":
            self.trigger(line, tokens)
        elif word == "failure":
            self.left_out["failures"] += 1
        else:
            known = ("Nodes", "Connections", "Triggers", "Failures", "trigger", "failure")
            raise self.error(f"unknown word {word[:20]!r}", line, near(word, known))

    def flow(self, line: int, tokens: list[str]) -> None:
        ends = tokens[0].split("->")
        if len(ends) != 2 or not all(end.isascii() and end.isdecimal() and len(end) < 11 for end in ends):
            raise self.error(f"a flow {tokens[0][:30]!r}", line, "write it as 0->1")
        flow = _Flow(int(ends[0]), int(ends[1]), line)
        at = 1
        while at < len(tokens):
            word = tokens[at]
            if word == "addon":
                self.left_out["addon"] += 1
                at += 1
                continue
            if word == "id":
                flow.id = self.number(tokens, at + 1, line, 1)
            elif word == "size":
                flow.size = self.number(tokens, at + 1, line, 1)
            elif word == "start":
                flow.start_ps = self.start(tokens, at + 1, line)
            elif word == "trigger":
                if not flow.id:
                    raise self.error("a flow with a trigger and no id before it", line, "give it an id")
                flow.trigger = self.number(tokens, at + 1, line, 1)
            elif word == "send_done_trigger":
                flow.send_done = self.number(tokens, at + 1, line, 1)
            elif word == "recv_done_trigger":
                flow.recv_done = self.number(tokens, at + 1, line, 1)
            elif word == "prio":
                self.number(tokens, at + 1, line)
                self.left_out["priorities"] += 1
            else:
                known = ("id", "start", "trigger", "size", "send_done_trigger", "recv_done_trigger", "prio")
                raise self.error(f"unknown word {word[:20]!r} of a flow", line, near(word, known))
            at += 2
        self.check(flow)
        place = len(self.flows)
        self.flows.append(flow)
        if flow.trigger:
            self.triggers.setdefault(flow.trigger, _Trigger()).begins.append(place)
        for which, at_receiver in ((flow.send_done, False), (flow.recv_done, True)):
            if which:
                self.triggers.setdefault(which, _Trigger()).activated_by.append((place, at_receiver))

    def start(self, tokens: list[str], at: int, line: int) -> int:
        """Read a start in picoseconds, which htsim keeps as float32."""
        try:
            start_ps = float(tokens[at]) if at < len(tokens) else -1.0
        except ValueError:
            start_ps = -1.0
        if not 0 <= start_ps < _MOST_START_PS:
            raise self.error("a start needs a number of picoseconds", line, "give 0 or more")
        return int(np.float32(start_ps))

    def check(self, flow: _Flow) -> None:
        if flow.id and flow.id in self.ids:
            raise self.error(f"two flows have id {flow.id}", flow.line, "number them differently")
        self.ids.add(flow.id)
        if flow.start_ps >= 0 and flow.trigger:
            raise self.error("a flow with a start and a trigger", flow.line, "give one of them")
        if flow.start_ps < 0 and not flow.trigger:
            raise self.error("a flow with neither a start nor a trigger", flow.line, "give one of them")
        if flow.size == 0:
            raise self.error("a flow without a size never ends", flow.line, "give its size in bytes")

    def trigger(self, line: int, tokens: list[str]) -> None:
        number, count, kind = 0, 0, ""
        at = 1
        while at < len(tokens):
            word = tokens[at]
            if word in ("oneshot", "multishot", "barrier"):
                if kind:
                    raise self.error("a trigger of two kinds", line, "give one")
                kind = word
                at += 1
                continue
            if word == "id":
                number = self.number(tokens, at + 1, line, 1)
            elif word == "count":
                count = self.number(tokens, at + 1, line)
            else:
                known = ("id", "oneshot", "multishot", "barrier", "count")
                raise self.error(f"unknown word {word[:20]!r} of a trigger", line, near(word, known))
            at += 2
        if not number or not kind:
            raise self.error("a trigger needs an id and a kind", line, "write: trigger id 1 oneshot")
        found = self.triggers.setdefault(number, _Trigger())
        if found.line:
            raise self.error(f"duplicate trigger {number}", line, f"once in line {found.line}")
        found.line, found.kind, found.count = line, kind, count
        self.described += 1

    def graph(self) -> MessageGraph:
        counts = (("Connections", len(self.flows)), ("Triggers", self.described))
        for word, found in (*counts, ("Failures", self.left_out["failures"])):
            if self.header.get(word, 0) != found:
                what = f"{word} is {self.header.get(word, 0)}, but the file has {found}"
                raise self.error(what, hint="correct the header")
        if not self.flows:
            raise self.error("no flows", hint="is it a connection matrix of htsim?")
        ranks = self.header.get("Nodes", 0)
        if ranks > _MOST_NODES:
            raise self.error(f"Nodes is {ranks}", hint=f"at most {_MOST_NODES}")
        for flow in self.flows:
            if max(flow.source, flow.target) >= ranks:
                what = f"node {max(flow.source, flow.target)} does not exist"
                raise self.error(what, flow.line, f"Nodes is {ranks}")
        for number, trigger in self.triggers.items():
            self.check_trigger(number, trigger)
        return _graph_of(self, ranks)

    def check_trigger(self, number: int, trigger: _Trigger) -> None:
        """Check that htsim would run the trigger to its end, and that not only time decides it."""
        first = trigger.line or self.flows[(trigger.begins or [trigger.activated_by[0][0]])[0]].line
        found = len(trigger.activated_by)
        needed = trigger.count if trigger.kind == "barrier" else 1
        if not trigger.kind:
            raise self.error(
                f"trigger {number} is not described", first, f"write: trigger id {number} oneshot"
            )
        if trigger.begins and found < needed:
            what = f"trigger {number} has {found} of {needed} activations, so its flows never begin"
            raise self.error(what, first, "name it as send_done_trigger of a flow")
        if trigger.kind == "multishot" and (found > 1 or len(trigger.begins) > 1):
            what = f"trigger {number} begins a flow for each activation, in the order of time"
            raise self.error(what, first, "use a oneshot trigger for each flow")
        if found > needed:
            raise self.error(
                f"trigger {number} is activated {found} times, not {needed}", first, "use a barrier"
            )


def _graph_of(reader: _Reader, ranks: int) -> MessageGraph:
    """Make nodes of flows: computation, send, receive, and empty messages between ranks."""
    nodes: list[dict[str, int]] = []
    deps: list[list[int]] = []

    def add(dep: list[int], **described: int) -> int:
        nodes.append(described)
        deps.append(dep)
        return len(nodes) - 1

    tags: dict[tuple[int, int], int] = {}

    def message(source: int, target: int, size: int, after: list[int], start_ps: int = -1) -> tuple[int, int]:
        tag = tags[source, target] = tags.get((source, target), -1) + 1
        sent = add(after, rank=source, kind=SEND, peer=target, bytes=size, tag=tag, start_ps=start_ps)
        return sent, add([], rank=target, kind=RECV, peer=source, bytes=size, tag=tag)

    ends: list[tuple[int, int]] = []
    for flow in reader.flows:
        after = []
        if flow.start_ps > 0:
            after = [add([], rank=flow.source, kind=COMPUTE, duration_ps=flow.start_ps)]
        ends.append(message(flow.source, flow.target, flow.size, after, flow.start_ps))
    joined = 0
    for trigger in reader.triggers.values():
        for place in trigger.begins:
            rank, own = reader.flows[place].source, ends[place][0]
            for activating, _ in trigger.activated_by:
                before = reader.flows[activating]
                if before.source == rank:
                    deps[own].append(ends[activating][0])
                elif before.target == rank:
                    deps[own].append(ends[activating][1])
                else:
                    deps[own].append(message(before.target, rank, 0, [ends[activating][1]])[1])
                    joined += 1
    order = sorted(range(len(nodes)), key=lambda row: (nodes[row]["rank"], row))
    at = {row: number for number, row in enumerate(order)}
    lists = [sorted(at[dep] for dep in deps[row]) for row in order]
    said = {what: f"{count:,} in the file, left out" for what, count in reader.left_out.items() if count}
    if joined:
        said["joined"] = f"{joined:,} messages of no bytes carry triggers to other ranks"
    title = Path(reader.where).stem
    return MessageGraph.of(ranks, [nodes[row] for row in order], lists, title=title, assumptions=said)
