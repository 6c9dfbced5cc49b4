"""A still picture for places that run no widgets: topology and utilisation at the present time."""

from __future__ import annotations

from html import escape

from astranb.core.units import format_time
from astranb.sim import Simulation

from ._layout import Layout

__all__ = ["draw"]

# Steps of the cividis ramp (Nunez, Anderton and Renslow 2018), busy is dark.
_RAMP = ("#c3b369", "#a59c74", "#8a8678", "#707173", "#575d6d", "#3b496c", "#123570", "#00224e")
_IDLE = "#bdbdbd"
_APART = 4.0  # between the two directions


def draw(sim: Simulation, layout: Layout) -> str:
    """Draw the topology as SVG text.

    Parameters
    ----------
    sim : Simulation
    layout : Layout

    Returns
    -------
    str
        One ``<svg>`` element; names from files are escaped. A line's width and colour show
        how much of the time so far its lanes were busy; one points at it for the number.
    """
    parts = [_link(sim, layout, number) for number in range(len(layout.bundles))]
    for box in layout.boxes:
        fill = "#e3f3e6" if box.label.startswith("GPU") else "#e2ecf9"
        parts.append(
            f'<rect x="{box.x - box.width / 2:.1f}" y="{box.y - box.height / 2:.1f}" '
            f'width="{box.width:.0f}" height="{box.height:.0f}" rx="6" fill="{fill}" stroke="#777"/>'
            f'<text x="{box.x:.1f}" y="{box.y + 5:.1f}" text-anchor="middle" font-size="14" fill="#222">'
            f"{escape(box.label)}<title>{escape(box.name)}</title></text>"
        )
    state = "finished" if sim.finished else "under way"
    caption = (
        f"{sim.collective.title} on {sim.infra.name}, {state}: "
        f"simulated to {format_time(sim.now_ps)}, {sim.events:,} events"
    )
    height = layout.height + 30
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {layout.width:.0f} {height:.0f}" '
        f'width="{min(900.0, layout.width):.0f}" font-family="sans-serif" role="img">'
        f'<rect width="100%" height="100%" fill="#fff"/>{"".join(parts)}'
        f'<text x="12" y="{height - 10:.0f}" font-size="14" fill="#222">{escape(caption)}</text></svg>'
    )


def _link(sim: Simulation, layout: Layout, number: int) -> str:
    """One direction of a link: a line beside the straight way, on its right."""
    a, b, lanes = layout.bundles[number]
    busy = min(1.0, float(sim.machine.links["busy_ps"][list(lanes)].mean()) / max(1, sim.now_ps))
    p, q = layout.boxes[a], layout.boxes[b]
    dx, dy = q.x - p.x, q.y - p.y
    length = max(1.0, (dx * dx + dy * dy) ** 0.5)
    sx, sy = -dy / length * _APART, dx / length * _APART
    colour = _RAMP[min(len(_RAMP) - 1, int(busy * len(_RAMP)))] if busy else _IDLE
    name = escape(sim.fabric.name(lanes[0]).partition("#")[0])
    return (
        f'<line x1="{p.x + sx:.1f}" y1="{p.y + sy:.1f}" x2="{q.x + sx:.1f}" y2="{q.y + sy:.1f}" '
        f'stroke="{colour}" stroke-width="{1 + 5 * busy:.1f}"><title>{name}: {busy:.0%}</title></line>'
    )
