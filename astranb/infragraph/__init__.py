"""InfraGraph: read, check, expand and write descriptions of clusters.

The file format is InfraGraph's (Keysight/infragraph, schema 2.4 to 3.1). The expansion to arrays is
our own: the simulator needs bandwidths, lanes and directions, and a data centre must expand quickly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .blueprint_catalog import blueprint as blueprint
    from .blueprint_catalog import blueprints as blueprints
    from .blueprint_catalog import resolve as resolve
    from .flat import FlatNetwork as FlatNetwork
    from .flat import flattened as flattened
    from .graph import Link as Link
    from .graph import NodeGraph as NodeGraph
    from .infra import Infra as Infra
    from .link_properties import LINK_COLUMNS as LINK_COLUMNS
    from .link_properties import LINK_PROPERTIES as LINK_PROPERTIES
    from .link_properties import LinkProperty as LinkProperty
    from .link_types import LINK_TYPES as LINK_TYPES
    from .link_types import LinkType as LinkType
    from .link_types import family as family
    from .loading import convert as convert
    from .loading import load as load
    from .ned import network_name as network_name
    from .network_dimensions import dimensions as dimensions
    from .plan import NodeKind as NodeKind
    from .topology_files import TOPOLOGY_FORMATS as TOPOLOGY_FORMATS
    from .topology_files import anynet_text as anynet_text
    from .topology_files import htsim_topology as htsim_topology
    from .topology_files import is_topology_file as is_topology_file
    from .topology_files import topology_format as topology_format
    from .topology_files import topology_text as topology_text
    from .topology_files import write_topology as write_topology

__getattr__, __dir__ = lazy(__name__)
