"""OMNeT++ with INET: an ini file in which TCP sessions send by the clock, and a network."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np

from astranb.core.files import whole_files
from astranb.core.text_lines import text_lines
from astranb.infragraph import TOPOLOGY_FORMATS, Infra, network_name, topology_text
from astranb.traffic.graph import MessageGraph

from .flows import SECOND_PS, beside, timed_messages
from .translation import Translation

__all__ = ["write_omnet"]

_PORT: Final = 1000
_ROWS: Final = 1 << 18


def write_omnet(
    graph: MessageGraph,
    path: str | Path,
    *,
    topology: Infra | None = None,
    bandwidth: str | int = "400 Gbps",
    latency: str | int = "1 us",
) -> Translation:
    """Write ``omnetpp.ini`` with a TcpSessionApp for each pair of ranks, and the network beside it.

    Each session sends by its script: times in seconds and bytes. Every rank has a TcpSinkApp.

    Parameters
    ----------
    graph : MessageGraph
    path : str or Path
        The ini file; the network is beside it with the suffix ``.ned``.
    topology : Infra, optional
        Without one the ini file names the network ``Network``, with hosts ``host[0]`` and so on.
    bandwidth, latency : str or int
        Between any two ranks, where there is no topology, for starts that were not recorded.

    Raises
    ------
    InputError
        The graph cannot be written, or the topology has less GPUs than the graph ranks.
    """
    file = Path(path)
    flows = timed_messages(graph, topology, bandwidth, latency)
    flows.by_the_clock("a script of INET")
    flows.at_least_one_byte("TcpSessionApp")
    lost = list(flows.not_expressed)
    name, others = "Network", {}
    if topology is not None:
        text, remarks = topology_text(topology.expand(), TOPOLOGY_FORMATS["ned"])
        name, others = network_name(topology.name), {beside(file, ".ned"): text.encode()}
        lost += [f"network: {remark}" for remark in remarks]
    with whole_files() as add:
        with add(file) as out:
            out.write(_head(name, flows.times.end_ps).encode())
            templates, which, values = _sessions(
                flows.source, flows.target, flows.size, flows.start_ps, graph.ranks
            )
            for at in range(0, len(which), _ROWS):
                out.write(text_lines(templates, which[at : at + _ROWS], values[at : at + _ROWS]))
        for other, content in others.items():
            with add(other) as out:
                out.write(content)
    return Translation((file, *others), graph.messages, tuple(lost))


def _head(name: str, end_ps: int) -> str:
    """Return the general part; times of picoseconds reach 106 days."""
    return (
        f"[General]\nnetwork = {name}\nsimtime-resolution = ps\n"
        f"# without congestion the last message or computation ends at {end_ps / SECOND_PS:.6g} s\n"
    )


_APP: Final = "*.host[{0}].app[{1}]"
_SINK: Final = f"""*.host[{{0}}].numApps = {{1}}
*.host[{{0}}].app[0].typename = "TcpSinkApp"
*.host[{{0}}].app[0].localPort = {_PORT}
"""
_SESSION: Final = f"""{_APP}.typename = "TcpSessionApp"
{_APP}.connectAddress = "host[{{2}}]"
{_APP}.connectPort = {_PORT}
{_APP}.tOpen = 0s
{_APP}.tSend = 0s
{_APP}.sendBytes = 0B
{_APP}.tClose = -1s
{_APP}.sendScript = \""""
_TEMPLATES: Final = (_SINK, _SESSION, "{0}e-12 {1}", ";{0}e-12 {1}", '"\n')


def _sessions(
    source: np.ndarray, target: np.ndarray, size: np.ndarray, start_ps: np.ndarray, ranks: int
) -> tuple[tuple[str, ...], np.ndarray, np.ndarray]:
    """Return templates, and the template and values of each part of the text.

    Of each rank its applications, of each session its head, its messages and its end.
    """
    pair = source * ranks + target
    order = np.argsort(pair, kind="stable")  # of one pair in the order of starts
    pair = pair[order]
    fresh = np.diff(pair, prepend=-1) != 0
    pairs = pair[fresh]
    sender = pairs // ranks
    sessions = np.bincount(sender, minlength=ranks)
    app = np.arange(len(pairs)) - (np.cumsum(sessions) - sessions)[sender] + 1
    session = np.cumsum(fresh) - 1
    messages = np.bincount(session, minlength=len(pairs))
    # Each rank is a part, and each session two, beside its messages.
    before = np.cumsum(messages + 2) - (messages + 2) + sender + 1
    count = ranks + len(pair) + 2 * len(pairs)
    values, which = np.zeros((count, 3), np.int64), np.full(count, 3)
    nth = np.arange(len(pair)) - (np.cumsum(messages) - messages)[session]
    place = before[session] + 1 + nth
    values[place, 0], values[place, 1] = start_ps[order], size[order]
    which[place[fresh]] = 2
    values[before, 0], values[before, 1], values[before, 2] = sender, app, pairs % ranks
    which[before] = 1
    which[before + messages + 1] = 4
    of_rank = np.bincount(sender, messages + 2, ranks).astype(np.int64)
    heads = np.cumsum(of_rank + 1) - (of_rank + 1)
    values[heads, 0], values[heads, 1] = np.arange(ranks), sessions + 1
    which[heads] = 0
    return _TEMPLATES, which, values
