"""Topology files of packet simulators: written from an infrastructure, and read back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NamedTuple

from astranb.core.document import DocumentSource, contents
from astranb.core.errors import InputError, near
from astranb.core.file_formats import TASK_GRAPHS, FileFormat, format_of, is_task_graph, read_by_plugin
from astranb.core.files import whole_file

from .anynet import read_anynet, write_anynet
from .flat import FlatNetwork, fabric_of, flattened
from .flat_document import document_of
from .flexflow import flexflow_network
from .graph import NodeGraph
from .htsim import htsim_hosts, read_htsim, write_htsim
from .infra import Infra
from .ned import write_ned
from .ns3 import read_ns3, write_ns3

__all__ = [
    "TOPOLOGY_FORMATS",
    "TopologyFormat",
    "anynet_text",
    "htsim_topology",
    "is_topology_file",
    "read_topology",
    "topology_format",
    "topology_text",
    "write_topology",
]

_MOST_BYTES: Final = 256 << 20


class TopologyFormat(NamedTuple):
    """A format of topology files.

    Attributes
    ----------
    name : str
    description : str
        What reads it.
    suffix : str
    write : callable
        Returns the text of a flat network, and what it does not express.
    read : callable, optional
        Reads a text; its second argument is the file's name.
    key : str
        Of :func:`astranb.core.file_formats.format_of`.
    fabric : bool
        Whether hosts have one link only, so that links inside servers are left out.
    """

    name: str
    description: str
    suffix: str
    write: Callable[[FlatNetwork], tuple[str, list[str]]]
    read: Callable[[str, str], FlatNetwork] | None = None
    key: str = ""
    fabric: bool = False


TOPOLOGY_FORMATS: Final = {
    one.name: one
    for one in (
        TopologyFormat("ns3", "ns-3 of HPCC and ASTRA-sim", ".txt", write_ns3, read_ns3, "ns-3 topology"),
        TopologyFormat(
            "htsim", "htsim's Clos networks", ".topo", write_htsim, read_htsim, "HTSim topology", fabric=True
        ),
        TopologyFormat("anynet", "BookSim's anynet", ".anynet", write_anynet, read_anynet, "BookSim network"),
        TopologyFormat("ned", "OMNeT++ with INET", ".ned", write_ned),
    )
}
"""Formats of topology files, by name."""


def topology_format(name: str | None, path: Path) -> TopologyFormat | None:
    """Find a format by name, or by the suffix of a file; None: it is none of them.

    Raises
    ------
    InputError
        There is no such name.

    Examples
    --------
    >>> topology_format(None, Path("two.topo")).name, topology_format(None, Path("two.yaml"))
    ('htsim', None)
    """
    if name is None:
        return next((one for one in TOPOLOGY_FORMATS.values() if one.suffix == path.suffix.lower()), None)
    if name not in TOPOLOGY_FORMATS:
        hint = near(name, TOPOLOGY_FORMATS)
        raise InputError(f"unknown topology format {name[:40]!r}", where="--to", hint=hint)
    return TOPOLOGY_FORMATS[name]


def topology_text(graph: NodeGraph, form: TopologyFormat) -> tuple[str, list[str]]:
    """Return the text of a topology file, and what it does not express.

    Raises
    ------
    InputError
        The format has no such networks, or there is no GPU.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> text, remarks = topology_text(blueprint("switch:gpus=2").expand(), TOPOLOGY_FORMATS["ns3"])
    >>> text.splitlines()[2], remarks
    ('0 2 400Gbps 0.00075ms 0', ['the latency of switches (1): half of it is in each of their links'])
    """
    if not len(graph.gpus):
        raise InputError(
            "the infrastructure has no GPU", where=graph.title, hint="a GPU is a component with choice: xpu"
        )
    return form.write(fabric_of(graph) if form.fabric else flattened(graph))


def anynet_text(graph: NodeGraph, cycle_ps: int) -> tuple[str, list[str]]:
    """Return a network file of BookSim with cycles of a given time, and what it does not express.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> anynet_text(blueprint("switch:gpus=2").expand(), 250)[0].splitlines()[0]
    'router 0 router 1 3000'
    """
    return write_anynet(flattened(graph), cycle_ps)


def htsim_topology(graph: NodeGraph) -> tuple[str, list[int], list[str]]:
    """Return a ``.topo`` file, htsim's number of each rank, and what the file does not express.

    Raises
    ------
    InputError
        The network is none of htsim's.

    Examples
    --------
    >>> from astranb.infragraph import blueprint
    >>> htsim_topology(blueprint("rails:servers=16").expand())[1][:10]
    [0, 16, 32, 48, 64, 80, 96, 112, 1, 17]
    """
    network = fabric_of(graph)
    text, remarks = write_htsim(network)
    return text, htsim_hosts(network), remarks


def write_topology(infra: Infra, path: str | Path, *, name: str | None = None) -> list[str]:
    """Write the topology file of a packet simulator.

    Parameters
    ----------
    infra : Infra
    path : str or Path
    name : str, optional
        One of :data:`TOPOLOGY_FORMATS`; by default by the suffix.

    Returns
    -------
    list of str
        What the file does not express.

    Raises
    ------
    InputError
        The format is unknown or has no such networks, or the file cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from astranb.infragraph import blueprint, load
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     remarks = write_topology(blueprint("clos:servers=4"), Path(folder, "four.topo"))
    ...     load(Path(folder, "four.topo"))
    <Infra 'four': 44 nodes, 32 GPUs>
    >>> remarks[-1]
    'left out: 192 links inside servers (NVLink, PCIe); hosts have one link'
    """
    form = topology_format(name, Path(path))
    if form is None:
        known = ", ".join(f"{one.suffix} ({one.name})" for one in TOPOLOGY_FORMATS.values())
        raise InputError("unknown kind of topology file", where=str(path), hint=f"known: {known}")
    text, remarks = topology_text(infra.expand(), form)
    with whole_file(Path(path)) as file:
        file.write(text.encode())
    return remarks


def is_topology_file(path: str | Path) -> bool:
    """Return whether a file is a packet simulator's topology, a task graph of FlexFlow, or a plug-in's."""
    found = format_of(path)
    if found is None:
        return False
    return found.becomes == "infrastructure" or found.key in TASK_GRAPHS or _form(found) is not None


def _form(found: FileFormat | None) -> TopologyFormat | None:
    return next((one for one in TOPOLOGY_FORMATS.values() if found and one.key == found.key), None)


def read_topology(path: str | Path, name: str | None = None) -> Infra:
    """Read the topology file of a packet simulator: its hosts are GPUs; or the cluster of a task graph.

    Parameters
    ----------
    path : str or Path
    name : str, optional
        Of the infrastructure; by default that of the file.

    Raises
    ------
    InputError
        It cannot be read, or is none of :data:`TOPOLOGY_FORMATS` and no task graph of FlexFlow.
    """
    file = Path(path)
    given: dict[str, Any] | None = read_by_plugin(file, "infrastructure", dict)
    if given is not None:
        return Infra(
            {**given, "name": name or given.get("name", file.stem)}, source=DocumentSource(str(file))
        )
    if is_task_graph(file):
        from astranb.chakra import read_task_graph  # the package needs compiled kernels

        network, described = flexflow_network(read_task_graph(file)), "task graph of FlexFlow"
    else:
        network, described = _read_text(file)
    document, annotations = document_of(network, f"read from a {described}")
    document["name"] = name or document["name"]
    return Infra(document, annotations, source=DocumentSource(str(file)), notes=network.remarks)


def _read_text(file: Path) -> tuple[FlatNetwork, str]:
    """Read the topology file of a packet simulator, and say what it is."""
    form = _form(format_of(file))
    if form is None or form.read is None:
        raise InputError("not a topology of a packet simulator", where=str(file), hint="see infra convert")
    try:
        text = contents(file, _MOST_BYTES).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"byte {error.start} is not text", where=str(file), hint="is it whole?") from None
    return form.read(text, str(file)), f"topology of {form.description}"
