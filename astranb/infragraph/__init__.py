"""InfraGraph: read, check, expand and write descriptions of clusters.

The file format is InfraGraph's (Keysight/infragraph, schema 2.4 to 3.1). The expansion to arrays is
our own: the simulator needs bandwidths, lanes and directions, and a data centre must expand quickly.
"""

from __future__ import annotations

from ._blueprints import blueprint, blueprints, resolve
from ._dimensions import dimensions
from ._flat import FlatNetwork, flattened
from ._graph import Link, NodeGraph
from ._infra import Infra
from ._link_types import LINK_TYPES, LinkType, family
from ._load import convert, load
from ._ned import network_name
from ._plan import NodeKind
from ._topology_files import (
    TOPOLOGY_FORMATS,
    anynet_text,
    htsim_topology,
    is_topology_file,
    topology_format,
    topology_text,
    write_topology,
)

__all__ = [
    "LINK_TYPES",
    "TOPOLOGY_FORMATS",
    "FlatNetwork",
    "Infra",
    "Link",
    "LinkType",
    "NodeGraph",
    "NodeKind",
    "anynet_text",
    "blueprint",
    "blueprints",
    "convert",
    "dimensions",
    "family",
    "flattened",
    "htsim_topology",
    "is_topology_file",
    "load",
    "network_name",
    "resolve",
    "topology_format",
    "topology_text",
    "write_topology",
]
