"""Read an infrastructure from a file, text or dict, or convert the topology file of a server."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from astranb.core.document import DocumentSource, Place, contents, parse_document, read_document
from astranb.core.errors import InputError
from astranb.core.file_formats import TASK_GRAPHS, names_format
from astranb.core.xml import xml_document

from .detected import DetectedServer
from .infra import Infra
from .lstopo import LstopoReader
from .nccl import NcclReader
from .topology_files import TOPOLOGY_FORMATS, is_topology_file, read_topology

__all__ = ["convert", "load"]

_MOST_BYTES = 256 << 20
_COMBINED = {"infrastructure", "annotations"}


def load(source: Any, annotations: Any = None) -> Infra:
    """Read an InfraGraph document.

    Parameters
    ----------
    source : path, str, dict or object
        A YAML or JSON file; text (with a line break, or beginning with ``{``); a dict; an object
        of the ``infragraph`` package (anything with ``serialize``); the combined form
        ``{infrastructure: …, annotations: …}``; a topology file of NCCL or lstopo (``.xml``), ns-3,
        htsim or BookSim, a task graph of FlexFlow, or a file of a plug-in's format (see `convert`).
    annotations : path, str, dict or object, optional
        Annotations that replace those in the document.

    Raises
    ------
    InputError
        It cannot be read or is invalid; the message names file and line.

    Examples
    --------
    >>> load({"devices": [], "instances": [{"name": "host", "device": "box", "count": 1}]})
    Traceback (most recent call last):
        ...
    astranb.core.errors.InputError: infrastructure, instances[0].device: unknown device 'box'; declare it
    under devices
    """
    if _is_topology(source):
        made = convert(source)
        if annotations is None:
            return made
        source = made
    return _load(source, annotations)


@names_format("InfraGraph")
def _load(source: Any, annotations: Any) -> Infra:
    data, place = _read(source, "infrastructure")
    at: Place = ()
    annotations_at: Place = ()
    notes: Any = None
    notes_place = place
    if isinstance(data, dict) and set(data) <= _COMBINED and isinstance(data.get("infrastructure"), dict):
        notes = data.get("annotations")
        data, at, annotations_at = data["infrastructure"], ("infrastructure",), ("annotations",)
    if annotations is not None:
        notes, notes_place = _read(annotations, "annotations")
        annotations_at = ()
        if isinstance(notes, dict) and set(notes) <= _COMBINED and "annotations" in notes:
            notes, annotations_at = notes["annotations"], ("annotations",)
    return Infra(
        data, notes, source=place, annotations_source=notes_place, at=at, annotations_at=annotations_at
    )


def _is_topology(source: Any) -> bool:
    named = isinstance(source, str | os.PathLike) and "\n" not in str(source)
    return named and (str(source).lower().endswith(".xml") or is_topology_file(source))


def _read(source: Any, name: str) -> tuple[Any, DocumentSource]:
    if isinstance(source, Infra):
        return source.to_dict(), DocumentSource(name)
    if isinstance(source, dict):
        return source, DocumentSource(name)
    if hasattr(source, "serialize"):
        try:
            return source.serialize("dict"), DocumentSource(name)
        except (TypeError, ValueError, AttributeError) as error:
            raise InputError(f"the object cannot be serialised: {error}", where=name) from None
    if isinstance(source, str) and ("\n" in source or source.lstrip()[:1] == "{"):
        node = parse_document(source, f"<{name}>")
        return node.value, node.source
    if isinstance(source, str | os.PathLike):
        node = read_document(Path(source), _MOST_BYTES)
        return node.value, node.source
    raise InputError(
        f"cannot read {name} from a {type(source).__name__}",
        hint="give a file, text, a dict or an InfraGraph object",
    )


_READERS: dict[str, type[NcclReader | LstopoReader]] = {"system": NcclReader, "topology": LstopoReader}
_OTHERS = {"graphs": "a graph of NCCL's (NCCL_GRAPH_DUMP_FILE)"}
_HINT = "give a file of NCCL_TOPO_DUMP_FILE (<system>) or of 'lstopo FILE.xml' (<topology>)"


@names_format(
    "NCCL topology",
    "lstopo",
    "infrastructure",
    *TASK_GRAPHS,
    *(form.key for form in TOPOLOGY_FORMATS.values() if form.key),
)
def convert(path: str | Path, name: str | None = None, gpu: str | None = None) -> Infra:
    """Convert the topology file of a server or of a packet simulator to an infrastructure.

    Parameters
    ----------
    path : str or Path
        XML as NCCL and RCCL write it (``NCCL_TOPO_DUMP_FILE``) or read it (``NCCL_TOPO_FILE``), or
        hwloc's ``lstopo FILE.xml``; the topology of HPCC's or ASTRA-sim's ns-3; htsim's ``.topo``; the
        network file of BookSim's ``anynet``; a task graph of FlexFlow, which has the cluster that it was
        planned for. The format of a simulator's file follows from its contents. Plug-ins read others.
    name : str, optional
        Name of the infrastructure; by default that of the product or file.
    gpu : str, optional
        Name of the GPUs, for a file without the links among them; see `Infra.completed`.

    Returns
    -------
    Infra
        Of a simulator's file: GPUs, which are its hosts, and switches. Of a server's: one instance
        ``host`` of one device. GPUs are ``gpu[n]`` in the order of CUDA devices;
        components are described by models and PCI addresses. Bandwidths are those of the file:
        PCIe by speed and width, NVLinks by count and generation, one lane for each. PCIe
        bridges with one device behind them are ports and left out. NVSwitches have only NVLinks:
        no data passes through their PCIe port. What is not in the file (latencies, links
        between CPUs and between NVSwitches, the network) is assumed and listed, or in ``notes``.

    Raises
    ------
    InputError
        The file cannot be read, has another format, or is invalid.

    Examples
    --------
    >>> import tempfile
    >>> text = '''<system version="1"><cpu numaid="0">
    ... <pci busid="0000:01:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
    ...   <gpu dev="0" sm="80"><nvlink target="0000:02:00.0" count="4" tclass="0x030200"/></gpu>
    ... </pci><pci busid="0000:02:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
    ...   <gpu dev="1" sm="80"><nvlink target="0000:01:00.0" count="4" tclass="0x030200"/></gpu></pci>
    ... </cpu></system>'''
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = Path(folder, "two.xml")
    ...     _ = file.write_text(text)
    ...     infra = convert(file)
    >>> infra.summary()["edges_by_link"], int(infra.expand().edges.lanes.max())
    ({'nvlink3': 1, 'pcie4-x16': 2}, 4)
    """
    file = Path(path)
    if is_topology_file(file):
        return read_topology(file, name)
    root = xml_document(file, contents(file))
    reader = _READERS.get(root.element.tag)
    if reader is None:
        tag = str(root.element.tag)[:40]
        what = _OTHERS.get(tag, f"an element <{tag}>")
        raise InputError(f"this is {what}", where=str(file), hint=_HINT)

    def made(gpu: str | None) -> Infra:
        machine = DetectedServer(file.stem)
        reader(machine).read(root)
        if gpu and machine.missing:
            machine.complete(gpu)
        machine.name = name or machine.name
        source = DocumentSource(str(file))
        infra = Infra(machine.document(), source=source, notes=tuple(machine.notes))
        if machine.missing:
            infra.missing, infra.with_gpu = machine.missing, made
        return infra

    return made(gpu)
