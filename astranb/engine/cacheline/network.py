"""The tables of a network's options: Ethernet and faults."""

from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.errors import InputError
from astranb.core.state import allocate
from astranb.gpu import FRAMES
from astranb.gpu import tables as t
from astranb.net import CLASSES, INSIDE, PAUSES, Fabric, Network, roce_row

if TYPE_CHECKING:
    from astranb.core.jit import Records

__all__ = ["fault_tables", "frames_of", "roce_table"]


def frames_of(roce: Records, links: Records) -> int:
    """Return the most pause frames that can be under way."""
    return FRAMES * CLASSES * int(((links["role"] & PAUSES) > 0).sum()) if roce[0].pfc else 0


def roce_table(network: Network, fabric: Fabric) -> Records:
    """The options of Ethernet, where there is any."""
    if network.roce is not None and not (fabric.links["role"] & ~INSIDE).any():
        raise InputError(
            "roce on an infrastructure without Ethernet",
            where=fabric.graph.title,
            hint="annotate links with astranb.link_type: eth400, or leave roce out",
        )
    return roce_row(network.roce, network.buffers)


def fault_tables(network: Network, fabric: Fabric, links: Records) -> tuple[Records, list[int]]:
    """Return the table of link faults, and the links that they are about."""
    rows: list[tuple[int, int, int, int]] = []
    when: list[int] = []
    for fault in network.faults:
        for lane in fabric.find(fault.link):
            usual = (int(links["bandwidth_Bps"][lane]), int(links["latency_ps"][lane]))
            changed = fault.values(*usual)
            for start, end in fault.periods():
                when.append(start)
                rows.append((lane, *changed, end if fault.down else 0))
                if end:
                    when.append(end)
                    rows.append((lane, *usual, 0))
    table = allocate(max(1, len(rows)), t.FAULT_ROW)
    if rows:
        table[:] = rows
    return table, when
