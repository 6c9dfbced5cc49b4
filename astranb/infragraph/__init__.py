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
    from .names import ARROW as ARROW
    from .names import ambiguous as ambiguous
    from .names import each_named as each_named
    from .names import find_nodes as find_nodes
    from .names import is_link as is_link
    from .names import is_several as is_several
    from .names import is_short as is_short
    from .names import link_ends as link_ends
    from .names import one_node as one_node
    from .names import opposite as opposite
    from .names import short_name as short_name
    from .names import spelled as spelled
    from .names import spelled_rank as spelled_rank
    from .names import the_only as the_only
    from .names import title_of as title_of
    from .names import typed as typed
    from .ned import network_name as network_name
    from .network_dimensions import dimensions as dimensions
    from .network_types import NETWORK_TYPES as NETWORK_TYPES
    from .network_types import NetworkType as NetworkType
    from .network_types import network_type as network_type
    from .network_types import recognise_network as recognise_network
    from .node_names import near_names as near_names
    from .node_names import numbers_in as numbers_in
    from .node_names import pattern_of as pattern_of
    from .plan import NodeKind as NodeKind
    from .topology_files import TOPOLOGY_FORMATS as TOPOLOGY_FORMATS
    from .topology_files import anynet_text as anynet_text
    from .topology_files import htsim_topology as htsim_topology
    from .topology_files import is_topology_file as is_topology_file
    from .topology_files import topology_format as topology_format
    from .topology_files import topology_text as topology_text
    from .topology_files import write_topology as write_topology

__getattr__, __dir__ = lazy(__name__)
