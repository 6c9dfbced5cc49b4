"""A deadlock as a picture."""

from __future__ import annotations

from html import escape

from ._verify import Fault

__all__ = ["draw_waits"]


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
    tall = len(fault.waits) * (high + gap) + 10
    size = f'viewBox="0 0 {wide + 60} {tall}" width="{wide + 60}" height="{tall}"'
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif" font-size="13" role="img">',
        "<title>Each waits for the one below it, the last one for the first</title>",
    ]
    for k, text in enumerate(fault.waits):
        y = 5 + k * (high + gap)
        parts.append(
            f'<rect x="5" y="{y}" width="{wide}" height="{high}" rx="6" fill="#e69f0033" stroke="#b06a00"/>'
            f'<text x="16" y="{y + 27}" fill="currentColor">{escape(text)}</text>'
        )
        if k + 1 < len(fault.waits):
            parts.append(
                f'<path d="M60 {y + high} v{gap - 6} m-5 -7 l5 7 l5 -7" fill="none" stroke="#b06a00"/>'
                f'<text x="76" y="{y + high + 22}" fill="currentColor">waits for</text>'
            )
    bottom = 5 + (len(fault.waits) - 1) * (high + gap) + high / 2
    parts.append(
        f'<path d="M{wide + 5} {bottom} h30 V27 h-24 m7 -5 l-7 5 l7 5" fill="none" stroke="#b06a00"/></svg>'
    )
    return "".join(parts)
