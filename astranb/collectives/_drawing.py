"""A deadlock as a picture."""

from __future__ import annotations

from astranb.core.colours import OKABE_ITO
from astranb.core.svg import Box, Path, Shape, Text, document

from ._verify import Fault

__all__ = ["draw_waits"]

_FILL, _EDGE = f"{OKABE_ITO[1]}33", "#b06a00"


def draw_waits(fault: Fault) -> str:
    """Draw the circle of waits of a deadlock as a small SVG picture; empty without one.

    Examples
    --------
    >>> from astranb.collectives import Fault
    >>> draw_waits(Fault("deadlock", "...", waits=("a", "b")))[:4]
    '<svg'
    """
    if not fault.waits:
        return ""
    wide, high, gap = 640, 44, 34
    count = len(fault.waits)
    bottom = 5 + (count - 1) * (high + gap) + high / 2
    shapes: list[Shape] = []
    for k, text in enumerate(fault.waits):
        y = 5 + k * (high + gap)
        shapes.append(Box(5, y, wide, high, 6, _FILL, _EDGE))
        shapes.append(Text(16, y + 27, text, 13, "currentColor"))
        if k + 1 < count:
            shapes.append(Path(f"M60 {y + high}v{gap - 6}m-5 -7l5 7l5 -7", _EDGE))
            shapes.append(Text(76, y + high + 22, "waits for", 13, "currentColor"))
    shapes.append(Path(f"M{wide + 5} {bottom:g}h30V27h-24m7 -5l-7 5l7 5", _EDGE))
    title = "Each waits for the one below it, the last one for the first"
    return document(wide + 60, count * (high + gap) + 10, shapes, title=title, scroll=True)
