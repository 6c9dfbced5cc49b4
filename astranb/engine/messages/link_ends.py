"""The ends of the links of a workload's network, and the messages that wait for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np

from astranb.engine.operations import About
from astranb.infragraph import ARROW, title_of
from astranb.net import FULLY_CONNECTED, ROUTED, SWITCH

from . import tables as t

if TYPE_CHECKING:
    from .link_names import LinkNames

__all__ = ["dimension_of", "ends_of", "link_count", "link_title", "reverse_link", "waiting_for"]


def link_count(about: About, machine: t.MessageMachine) -> int:
    """Count the links: none where they are not simulated, or where no message takes one.

    Their table has a row then, too.
    """
    if not machine.config[0].congestion:
        return 0
    empty = machine.config[0].routed and len(machine.links) == 1
    return len(about.links) if empty else len(machine.links)


def dimension_of(machine: t.MessageMachine, link: int) -> int:
    """The dimension of a link; -1 where links have none, as in an infrastructure."""
    if machine.config[0].routed:
        return -1
    # Dimensions of one NPU have links, too, so that no two begin with the same.
    return int(np.searchsorted(machine.dims.first_link, link, side="right")) - 1


def ends_of(about: About, machine: t.MessageMachine, link: int) -> tuple[str, str]:
    """Name both ends of a link: ranks, a switch of a dimension, or short names of nodes."""
    dim = dimension_of(machine, link)
    if dim < 0:
        return cast("LinkNames", about.links).ends(link)
    source, target = _ranks(machine, dim, link)
    if machine.dims[dim].kind != SWITCH:
        return f"rank[{source}]", f"rank[{target}]"
    switch = _switch(machine, dim, source)
    up = link - int(machine.dims[dim].first_link) < len(machine.npus)
    return (f"rank[{source}]", switch) if up else (switch, f"rank[{source}]")


def link_title(about: About, machine: t.MessageMachine, link: int) -> str:
    """Return the title of a link: its name in an infrastructure, or its number and both ends.

    The nodes of a network of dimensions have no names, so its links are called ``link[5]``.
    """
    name = about.links[link] if dimension_of(machine, link) < 0 else f"link[{link}]"
    return title_of(name, "" if ARROW in name else " to ".join(ends_of(about, machine, link)))


def reverse_link(machine: t.MessageMachine, link: int) -> int:
    """The link from where a link leads to back to where it begins; -1 where there is none."""
    dim = dimension_of(machine, link)
    if dim < 0:
        return -1
    row, npus = machine.dims[dim], len(machine.npus)
    source, target = _ranks(machine, dim, link)
    first, back = int(row.first_link), int(row.back_link)
    if row.kind == FULLY_CONNECTED:
        return first + target * int(row.nodes) + _at(machine, dim, source)
    ahead = link - first < npus
    end = source if row.kind == SWITCH else target
    return (back if ahead else first) + end


def waiting_for(machine: t.MessageMachine, link: int) -> int:
    """Return the number of messages that wait for a link."""
    count, at = 0, int(machine.links[link].head)
    while at >= 0:
        count, at = count + 1, int(machine.messages[at].behind)
    return count


def _at(machine: t.MessageMachine, dim: int, rank: int) -> int:
    """A rank's index within a dimension."""
    row = machine.dims[dim]
    return (rank // int(row.stride)) % int(row.nodes)


def _ranks(machine: t.MessageMachine, dim: int, link: int) -> tuple[int, int]:
    """Return both ends of a link; to and from a switch, both are the rank."""
    row, npus = machine.dims[dim], len(machine.npus)
    nodes, stride = int(row.nodes), int(row.stride)
    own = link - int(row.first_link)
    if row.kind == FULLY_CONNECTED:
        rank, peer = divmod(own, nodes)
        return rank, rank + (peer - _at(machine, dim, rank)) * stride
    rank = own % npus
    if row.kind in (SWITCH, ROUTED):
        return rank, rank
    here = _at(machine, dim, rank)
    peer = (here + (1 if own < npus else -1)) % nodes
    return rank, rank + (peer - here) * stride


def _switch(machine: t.MessageMachine, dim: int, rank: int) -> str:
    """Name the switch of a dimension that a rank is connected to, after its first ranks."""
    row = machine.dims[dim]
    if len(machine.npus) == int(row.nodes):
        return "switch"
    first = rank - _at(machine, dim, rank) * int(row.stride)
    return f"switch of dim {dim} (ranks {first}, {first + int(row.stride)}, …)"
