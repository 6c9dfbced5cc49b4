"""The on-chip mesh: routers, and links from and to SMs, memory channels and I/O ports.

The links of a mesh are rows of the same table as those between devices. Their numbers
follow from what they join, so that no route is stored: a request knows the router it is
at, the one it goes to, and the link by which it leaves the mesh. Dimension order (columns
first), which cannot deadlock (Dally and Seitz, IEEE Transactions on Computers 1987).
"""

from __future__ import annotations

from astranb.core.jit import Records, kernel
from astranb.core.queue import schedule

from .tables import HOP, ON_CHIP, Machine

__all__ = ["enter_from_channel", "enter_from_port", "enter_from_sm", "next_in_mesh"]


@kernel
def units(gpus: Records, gpu: int) -> int:
    """SMs and copy engines of a GPU."""
    return gpus[gpu].sms + gpus[gpu].engines


@kernel
def router_of_unit(gpus: Records, gpu: int, unit: int) -> int:
    """SMs are shared out over the routers in order; engines likewise."""
    routers = gpus[gpu].columns * gpus[gpu].rows
    if unit < gpus[gpu].sms:
        return unit * routers // gpus[gpu].sms
    return (unit - gpus[gpu].sms) % routers


@kernel
def router_of_channel(gpus: Records, gpu: int, channel: int) -> int:
    """Half of the memory channels lie along the top row of routers, half along the bottom row."""
    columns = gpus[gpu].columns
    place = channel * 2 * columns // gpus[gpu].channels
    return place if place < columns else (gpus[gpu].rows - 2) * columns + place


@kernel
def router_of_port(gpus: Records, gpu: int, port: int) -> int:
    """Half of the I/O ports lie along the left column of routers, half along the right one."""
    rows = gpus[gpu].rows
    place = port * 2 * rows // gpus[gpu].ports
    columns = gpus[gpu].columns
    return place * columns if place < rows else (place - rows + 1) * columns - 1


@kernel
def from_unit(gpus: Records, gpu: int, unit: int) -> int:
    """Link from an SM or engine to its router."""
    return gpus[gpu].first_chip_link + unit


@kernel
def to_unit(gpus: Records, gpu: int, unit: int) -> int:
    """Link from its router to an SM or engine."""
    return gpus[gpu].first_chip_link + units(gpus, gpu) + unit


@kernel
def to_channel(gpus: Records, gpu: int, channel: int) -> int:
    """Link from its router to a memory channel."""
    return gpus[gpu].first_chip_link + 2 * units(gpus, gpu) + channel


@kernel
def from_channel(gpus: Records, gpu: int, channel: int) -> int:
    """Link from a memory channel to its router."""
    return to_channel(gpus, gpu, channel) + gpus[gpu].channels


@kernel
def to_port(gpus: Records, gpu: int, port: int) -> int:
    """Link from its router to an I/O port."""
    return gpus[gpu].first_chip_link + 2 * units(gpus, gpu) + 2 * gpus[gpu].channels + port


@kernel
def from_port(gpus: Records, gpu: int, port: int) -> int:
    """Link from an I/O port to its router."""
    return to_port(gpus, gpu, port) + gpus[gpu].ports


@kernel
def between_routers(gpus: Records, gpu: int, router: int, side: int) -> int:
    """Link out of a router: 0 to the right, 1 to the left, 2 down, 3 up."""
    return to_port(gpus, gpu, 0) + 2 * gpus[gpu].ports + 4 * router + side


@kernel
def enter(m: Machine, request: int, time_ps: int, link: int, here: int, there: int, exit_link: int) -> None:
    """Send a request into the mesh by one link, to leave it by another."""
    m.requests[request].leg = ON_CHIP
    m.details[request].next_link = link
    m.details[request].router = here
    m.details[request].to_router = there
    m.details[request].exit_link = exit_link
    schedule(m.event_queue, time_ps, HOP, request)


@kernel
def enter_from_sm(m: Machine, request: int, unit: int, channel: int, port: int, time_ps: int) -> None:
    """From the SM that issued it to a memory channel (``port`` -1) or to an I/O port."""
    gpu = m.requests[request].gpu
    here = router_of_unit(m.gpus, gpu, unit)
    if port < 0:
        there = router_of_channel(m.gpus, gpu, channel)
        out = to_channel(m.gpus, gpu, channel)
    else:
        there = router_of_port(m.gpus, gpu, port)
        out = to_port(m.gpus, gpu, port)
    enter(m, request, time_ps, from_unit(m.gpus, gpu, unit), here, there, out)


@kernel
def enter_from_channel(m: Machine, request: int, unit: int, channel: int, port: int, time_ps: int) -> None:
    """From a memory channel to the SM that waits for it (``port`` -1) or to an I/O port."""
    gpu = m.requests[request].target
    here = router_of_channel(m.gpus, gpu, channel)
    if port < 0:
        there = router_of_unit(m.gpus, gpu, unit)
        out = to_unit(m.gpus, gpu, unit)
    else:
        there = router_of_port(m.gpus, gpu, port)
        out = to_port(m.gpus, gpu, port)
    link = from_channel(m.gpus, gpu, channel)
    enter(m, request, time_ps, link, here, there, out)


@kernel
def enter_from_port(
    m: Machine, request: int, gpu: int, port: int, unit: int, channel: int, time_ps: int
) -> None:
    """From an I/O port to a memory channel, or back to the SM that waits for it (``channel`` -1)."""
    here = router_of_port(m.gpus, gpu, port)
    if channel < 0:
        there = router_of_unit(m.gpus, gpu, unit)
        out = to_unit(m.gpus, gpu, unit)
    else:
        there = router_of_channel(m.gpus, gpu, channel)
        out = to_channel(m.gpus, gpu, channel)
    enter(m, request, time_ps, from_port(m.gpus, gpu, port), here, there, out)


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
    return between_routers(gpus, gpu, here, side)
