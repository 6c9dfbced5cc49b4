"""The on-chip mesh: routers, and links from and to SMs, memory channels and I/O ports.

The links of a mesh are rows of the same table as those between devices. Their numbers
follow from what they join, so that no route is stored: a request knows the router it is
at, the one it goes to, and the link by which it leaves the mesh. Dimension order (columns
first), which cannot deadlock (Dally and Seitz, IEEE Transactions on Computers 1987).
"""

from __future__ import annotations

from typing import Final

from astranb.core.jit import Records, kernel
from astranb.core.queue import schedule

from .tables import HOP, ON_CHIP, Machine

__all__ = ["CHANNEL", "PORT", "UNIT", "cross_mesh", "next_in_mesh", "router_of"]

# What a router has links to.
UNIT: Final = 0  # an SM or a copy engine
CHANNEL: Final = 1  # a memory channel
PORT: Final = 2  # an I/O port


@kernel
def router_of(gpus: Records, gpu: int, kind: int, number: int) -> int:
    """Return the router that an SM, engine, channel or port is attached to.

    SMs are shared out over the routers in order, engines likewise. Half of the memory channels lie
    along the top row of routers, half along the bottom row; half of the I/O ports along the left
    column, half along the right one.
    """
    columns = gpus[gpu].columns
    rows = gpus[gpu].rows
    if kind == CHANNEL:
        place = number * 2 * columns // gpus[gpu].hbm_channels
        return place if place < columns else (rows - 2) * columns + place
    if kind == PORT:
        place = number * 2 * rows // gpus[gpu].ports
        return place * columns if place < rows else (place - rows + 1) * columns - 1
    if number < gpus[gpu].sms:
        return number * columns * rows // gpus[gpu].sms
    return (number - gpus[gpu].sms) % (columns * rows)


@kernel
def chip_link(gpus: Records, gpu: int, kind: int, number: int, leaves: int) -> int:
    """Return the link of an SM, engine, channel or port into the mesh, or (``leaves`` 1) out of it."""
    units = gpus[gpu].sms + gpus[gpu].engines + gpus[gpu].nics
    channels = gpus[gpu].hbm_channels
    first = gpus[gpu].first_chip_link
    if kind == UNIT:
        return first + leaves * units + number
    if kind == CHANNEL:
        return first + 2 * units + (1 - leaves) * channels + number
    return first + 2 * (units + channels) + (1 - leaves) * gpus[gpu].ports + number


@kernel
def cross_mesh(
    m: Machine, request: int, gpu: int, kind: int, number: int, to_kind: int, to_number: int, time_ps: int
) -> None:
    """Send a request through the mesh of a GPU, from one SM, channel or port to another."""
    m.requests[request].leg = ON_CHIP
    m.details[request].next_link = chip_link(m.gpus, gpu, kind, number, 0)
    m.details[request].router = router_of(m.gpus, gpu, kind, number)
    m.details[request].to_router = router_of(m.gpus, gpu, to_kind, to_number)
    m.details[request].exit_link = chip_link(m.gpus, gpu, to_kind, to_number, 1)
    schedule(m.event_queue, time_ps, HOP, request)


@kernel
def next_in_mesh(gpus: Records, gpu: int, details: Records, request: int) -> int:
    """Move a request on from its router; returns the link it takes."""
    here = details[request].router
    there = details[request].to_router
    if here == there:
        return details[request].exit_link
    columns = gpus[gpu].columns
    across = there % columns - here % columns
    if across > 0:
        step, side = 1, 0
    elif across < 0:
        step, side = -1, 1
    elif there > here:
        step, side = columns, 2
    else:
        step, side = -columns, 3
    details[request].router = here + step
    units = gpus[gpu].sms + gpus[gpu].engines + gpus[gpu].nics
    ends = 2 * (units + gpus[gpu].hbm_channels + gpus[gpu].ports)
    return gpus[gpu].first_chip_link + ends + 4 * here + side  # to the right, to the left, down, up
