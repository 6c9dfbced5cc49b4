"""The simulators that traffic is written for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from inspect import signature
from pathlib import Path
from typing import Any, Final

from astranb.core.errors import InputError, near
from astranb.core.plugins import Registry
from astranb.infragraph import Infra
from astranb.traffic.graph import MessageGraph

from . import goal, htsim, ns3, omnet, packets, pcap, tables
from .translation import Translation

__all__ = ["TARGETS", "TrafficTarget", "translate"]


@dataclass(frozen=True)
class TrafficTarget:
    """A simulator, or a format, that traffic is written for.

    Attributes
    ----------
    name : str
    description : str
        What reads such files.
    suffix : str
        Of the file, as ``.goal``.
    write : callable
        Takes the graph, the path, options of its own and, where a topology matters, ``topology=``.
    """

    name: str
    description: str
    suffix: str
    write: Callable[..., Translation]


_ALL: Final = (
    TrafficTarget("goal", "LogGOPSim and ATLAHS: operations with dependencies", ".goal", goal.write_goal),
    TrafficTarget("htsim", "htsim: a connection matrix of flows with triggers", ".cm", htsim.write_htsim),
    TrafficTarget("csv", "tables of messages, computations and dependencies", ".csv", tables.write_csv),
    TrafficTarget("parquet", "the same tables as Parquet", ".parquet", tables.write_parquet),
    TrafficTarget("ns3", "ns-3 of HPCC and ASTRA-sim: flows by the clock", ".txt", ns3.write_ns3),
    TrafficTarget("astrasim-ns3", "ASTRA-sim with ns-3: Chakra traces", "", ns3.write_astrasim_ns3),
    TrafficTarget(
        "flows", "flows with dependencies, for scripts in ns-3 and others", ".csv", ns3.write_flow_schedule
    ),
    TrafficTarget("omnet", "OMNeT++ with INET: TCP sessions by the clock", ".ini", omnet.write_omnet),
    TrafficTarget(
        "booksim", "BookSim with file injection: packets by cycles", ".trace", packets.write_booksim
    ),
    TrafficTarget(
        "packets", "Garnet and others: packets with dependencies", ".csv", packets.write_packet_trace
    ),
    TrafficTarget("pcap", "test-beds: headers of RoCEv2 packets", ".pcap", pcap.write_pcap),
)

TARGETS: Final[Registry[str, TrafficTarget]] = Registry(
    "targets", TrafficTarget, lambda target: target.name, {target.name: target for target in _ALL}
)
"""All targets by name, those of plug-ins too."""


def translate(
    graph: MessageGraph, target: str, path: str | Path, *, topology: Infra | None = None, **options: Any
) -> Translation:
    """Write traffic for a simulator.

    Parameters
    ----------
    graph : MessageGraph
    target : str
        One of :data:`TARGETS`.
    path : str or Path
        The file; further files of a target lie beside it.
    topology : Infra, optional
        The machine, for targets that write a topology or check that the ranks fit; others refuse it.
    **options
        Of the target.

    Raises
    ------
    InputError
        The target does not exist, or cannot express the graph, or the file cannot be written.
    """
    if target not in TARGETS:
        raise InputError(f"unknown target {target!r}", where="target", hint=near(target, TARGETS))
    write = TARGETS[target].write
    taken = signature(write).parameters.values()
    any_name = any(one.kind is one.VAR_KEYWORD for one in taken)
    named = [one.name for one in taken if one.kind is one.KEYWORD_ONLY]
    known = [name for name in named if name != "topology"]
    for name in options:
        if name not in known and not any_name:
            hint = near(name, known) if known else "it has none"
            raise InputError(f"{target} has no option {name[:40]!r}", where="options", hint=hint)
    if topology is not None:
        if "topology" not in named and not any_name:
            raise InputError(f"{target} files have no network", where="topology", hint="leave it out")
        options["topology"] = topology
    with TARGETS.running(target):
        return write(graph, Path(path), **options)
