"""Make an InfraGraph document of what other tools found in a machine."""

from __future__ import annotations

from pathlib import Path

from astranb.core.document import Source, contents
from astranb.core.errors import InputError
from astranb.core.xml import xml_document

from ._infra import Infra
from ._of_lstopo import read_lstopo
from ._of_nccl import read_nccl

__all__ = ["convert"]

_READERS = {"system": read_nccl, "topology": read_lstopo}
_OTHERS = {"graphs": "a graph of NCCL's (NCCL_GRAPH_DUMP_FILE)", "algo": "an algorithm of MSCCL's"}
_HINT = "give a file of NCCL_TOPO_DUMP_FILE (<system>) or of 'lstopo FILE.xml' (<topology>)"


def convert(path: str | Path, name: str | None = None) -> Infra:
    """Make an infrastructure of one host of a topology file.

    Parameters
    ----------
    path : str or Path
        XML as NCCL and RCCL write it (``NCCL_TOPO_DUMP_FILE``), or hwloc's ``lstopo FILE.xml``.
    name : str, optional
        Of the infrastructure; else the product's name, or the file's.

    Returns
    -------
    Infra
        One instance ``host`` of one device. GPUs are ``gpu[n]`` in the order of CUDA devices;
        components are described by models and PCI addresses. Bandwidths are those of the file:
        PCIe by speed and width, NVLinks by count and generation, one lane for each. PCIe
        bridges with one thing behind them are ports and left out. NVSwitches hang on NVLink
        only: no data passes through their PCIe port. What is not in the file (latencies, links
        between CPUs and between NVSwitches, the network) is assumed and listed, or noted.

    Raises
    ------
    InputError
        The file cannot be read, is neither, or holds what does not fit.

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
    >>> infra.summary()["edges_by_link"], int(infra.expand().lanes.max())
    ({'nvlink3': 1, 'pcie4-x16': 2}, 4)
    """
    file = Path(path)
    root = xml_document(file, contents(file))
    read = _READERS.get(root.element.tag)
    if read is None:
        tag = str(root.element.tag)[:40]
        what = _OTHERS.get(tag, f"an element <{tag}>")
        raise InputError(f"this is {what}", where=str(file), hint=_HINT)
    machine = read(root, file.stem)
    if name:
        machine.name = name
    return Infra(machine.document(), source=Source(str(file)), notes=tuple(machine.notes))
