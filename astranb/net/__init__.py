"""Floor 2: the fabric. Links, switches and routes, compiled from an infrastructure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from .astrasim2 import DIMENSION as DIMENSION
    from .astrasim2 import DOWN as DOWN
    from .astrasim2 import FULLY_CONNECTED as FULLY_CONNECTED
    from .astrasim2 import MESH as MESH
    from .astrasim2 import MESSAGE_ROUTE as MESSAGE_ROUTE
    from .astrasim2 import RING as RING
    from .astrasim2 import ROUTED as ROUTED
    from .astrasim2 import SERVER as SERVER
    from .astrasim2 import SWITCH as SWITCH
    from .astrasim2 import WIRE as WIRE
    from .astrasim2 import arrived_in as arrived_in
    from .astrasim2 import delay_ns as delay_ns
    from .astrasim2 import heading_from as heading_from
    from .astrasim2 import hops_in as hops_in
    from .astrasim2 import link_count as link_count
    from .astrasim2 import link_from as link_from
    from .astrasim2 import node_after as node_after
    from .astrasim2 import port_count as port_count
    from .astrasim2 import port_of as port_of
    from .astrasim2 import route_of as route_of
    from .astrasim2 import wire_ns as wire_ns
    from .cost import LIBRA as LIBRA
    from .cost import PLACES as PLACES
    from .cost import CostRates as CostRates
    from .cost import cost_dollars as cost_dollars
    from .cost import fabric_cost_dollars as fabric_cost_dollars
    from .dimension_links import DimensionLinks as DimensionLinks
    from .dimension_links import links_of_dimensions as links_of_dimensions
    from .dimension_values import ForAll as ForAll
    from .dimension_values import PerDimension as PerDimension
    from .dimension_values import per_dimension as per_dimension
    from .dimension_values import repeat_values as repeat_values
    from .fabric import Fabric as Fabric
    from .fabric import compile_fabric as compile_fabric
    from .link import INJECTS as INJECTS
    from .link import INSIDE as INSIDE
    from .link import LINK as LINK
    from .link import MARKS as MARKS
    from .link import NEVER as NEVER
    from .link import PACKET_BYTES as PACKET_BYTES
    from .link import PAUSES as PAUSES
    from .link import apply_fault as apply_fault
    from .link import cross as cross
    from .link import head_ps as head_ps
    from .message_routing import MessageRoutes as MessageRoutes
    from .message_routing import message_routes as message_routes
    from .options import MULTIPATHS as MULTIPATHS
    from .options import Fault as Fault
    from .options import Network as Network
    from .port import ARBITRATIONS as ARBITRATIONS
    from .port import CLASSES as CLASSES
    from .port import FAIR as FAIR
    from .port import QUEUE as QUEUE
    from .port import choose as choose
    from .port import join as join
    from .port import leave as leave
    from .rate import FLOW as FLOW
    from .rate import ONE as ONE
    from .rate import ROCE as ROCE
    from .rate import catch_up as catch_up
    from .rate import cut as cut
    from .rate import spend as spend
    from .ring_orders import node_chains as node_chains
    from .ring_orders import node_rings as node_rings
    from .ring_orders import ring_order as ring_order
    from .roce import Dcqcn as Dcqcn
    from .roce import Ecn as Ecn
    from .roce import Pfc as Pfc
    from .roce import Roce as Roce
    from .roce import roce_row as roce_row
    from .routes import Routes as Routes
    from .shape import Shape as Shape

# A network of dimensions needs neither links nor InfraGraph.
__getattr__, __dir__ = lazy(__name__)
