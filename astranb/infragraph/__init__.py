"""InfraGraph: read, check, expand and write descriptions of clusters.

The file format is InfraGraph's (Keysight/infragraph, schema 2.4 to 3.1). The expansion to arrays is
our own: the simulator needs bandwidths, lanes and directions, and a data centre must expand quickly.
"""

from __future__ import annotations

from .blueprint_catalog import blueprint, blueprints, resolve
from .flat import FlatNetwork, flattened
from .graph import Link, NodeGraph
from .infra import Infra
from .link_properties import LINK_COLUMNS, LINK_PROPERTIES, LinkProperty
from .link_types import LINK_TYPES, LinkType, family
from .loading import convert, load
from .ned import network_name
from .network_dimensions import dimensions
from .plan import NodeKind
from .topology_files import (
    TOPOLOGY_FORMATS,
    anynet_text,
    htsim_topology,
    is_topology_file,
    topology_format,
    topology_text,
    write_topology,
)

__all__ = [
    "LINK_COLUMNS",
    "LINK_PROPERTIES",
    "LINK_TYPES",
    "TOPOLOGY_FORMATS",
    "FlatNetwork",
    "Infra",
    "Link",
    "LinkProperty",
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
