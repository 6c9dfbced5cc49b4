"""A picture as SVG text: still, or with frames that take turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from astranb.core.colours import KIND_COLOURS
from astranb.sim import Simulation

from ._layout import Layout
from ._still import Box, Dot, Line, Picture, Text, still

__all__ = ["draw", "frames_to_svg", "to_svg"]


def draw(sim: Simulation, layout: Layout) -> str:
    """Draw the topology as it is now as one ``<svg>`` element (see :func:`.still`)."""
    return to_svg(still(sim, layout))


def to_svg(one: Picture) -> str:
    """Give a picture as one ``<svg>`` element; names from files are escaped."""
    return _document(one, _all(one.shapes))


def frames_to_svg(frames: Sequence[Picture], seconds: float) -> str:
    """Give pictures that take turns, over and over, without a script.

    Parameters
    ----------
    frames : sequence of Picture
        Of one layout.
    seconds : float
        How long a turn of all takes.
    """
    count, parts = len(frames), []
    for k, one in enumerate(frames):
        # Discrete: hidden, shown from k/count on, hidden from (k + 1)/count on.
        times = [0.0, k / count, (k + 1) / count] if k else [0.0, 1 / count]
        values = ["none", "inline", "none"] if k else ["inline", "none"]
        if k == count - 1:
            times, values = times[:-1], values[:-1]
        parts.append(
            f'<g display="{"inline" if k == 0 else "none"}"><animate attributeName="display" '
            f'calcMode="discrete" dur="{seconds:g}s" repeatCount="indefinite" values="{";".join(values)}" '
            f'keyTimes="{";".join(f"{t:.5f}" for t in times)}"/>'
            f"{_all(one.links)}{_all(one.moving)}{_all(one.caption)}</g>"
        )
    return _document(frames[0], "".join(parts) + _all(frames[0].boxes))


def _document(one: Picture, inside: str) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {one.width:.0f} {one.height:.0f}" '
        f'width="{min(900.0, one.width):.0f}" font-family="sans-serif" role="img">'
        f"<title>{escape(one.title)}</title>"
        f'<rect width="100%" height="100%" fill="{one.colours.back}"/>{inside}</svg>'
    )


def _all(shapes: Iterable[Line | Box | Dot | Text]) -> str:
    return "".join(map(_element, shapes))


def _element(shape: Line | Box | Dot | Text) -> str:
    if isinstance(shape, Line):
        return (
            f'<line x1="{shape.x0:.1f}" y1="{shape.y0:.1f}" x2="{shape.x1:.1f}" y2="{shape.y1:.1f}" '
            f'stroke="{shape.colour}" stroke-width="{shape.width:.1f}">{_title(shape.title)}</line>'
        )
    if isinstance(shape, Box):
        return (
            f'<rect x="{shape.x:.1f}" y="{shape.y:.1f}" width="{shape.width:.1f}" '
            f'height="{shape.height:.1f}" rx="{shape.radius:.1f}" fill="{shape.fill}" '
            f'stroke="{shape.stroke}">{_title(shape.title)}</rect>'
        )
    if isinstance(shape, Dot):
        path = "".join(f"M{x:.1f} {y:.1f}h{w:g}v{h:g}h-{w:g}z" for x, y, w, h in shape.boxes)
        return f'<path d="{path}" fill="{KIND_COLOURS[shape.kind]}"/>'
    narrow = ""
    if shape.room and 0.55 * shape.size * len(shape.text) > shape.room:  # about as wide as it comes out
        narrow = f' textLength="{shape.room:.0f}" lengthAdjust="spacingAndGlyphs"'
    return (
        f'<text x="{shape.x:.1f}" y="{shape.y:.1f}" text-anchor="{shape.anchor}" '
        f'font-size="{shape.size:g}" fill="{shape.colour}"{narrow}>{escape(shape.text)}</text>'
    )


def _title(text: str) -> str:
    return f"<title>{escape(text)}</title>" if text else ""
