"""A picture as pixels, drawn with Pillow and the font that it brings: no system library, no network."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import IO, Any

from PIL import Image, ImageDraw, ImageFont

from astranb.core.svg import Circle, Picture, Polygon, SvgBox, SvgLine, Text

from .topology import Dot

__all__ = ["to_image", "write_frames"]

_SPELT = str.maketrans({"µ": "u", "·": "-", "\N{MULTIPLICATION SIGN}": "x", "→": "->", "…": "..."})
_FINER = 2  # pixels are drawn so many times finer, for smooth edges


def to_image(one: Picture, scale: float = 2.0) -> Image.Image:
    """Draw a picture; ``scale`` is pixels a unit of the layout."""
    k = scale * _FINER
    size = (round(one.width * k), round(one.height * k))
    image = Image.new("RGB", size, one.colours.back)
    pen = ImageDraw.Draw(image)
    for shape in one.shapes:
        if isinstance(shape, SvgLine):
            ends = (shape.x0 * k, shape.y0 * k, shape.x1 * k, shape.y1 * k)
            pen.line(ends, fill=shape.colour, width=max(1, round(shape.width * k)))
        elif isinstance(shape, SvgBox):
            corners = (shape.x * k, shape.y * k, (shape.x + shape.width) * k, (shape.y + shape.height) * k)
            pen.rounded_rectangle(corners, shape.radius * k, shape.fill, shape.stroke, max(1, round(k)))
        elif isinstance(shape, Dot):
            for x, y, w, h in shape.boxes:
                pen.rectangle((x * k, y * k, (x + w) * k - 1, (y + h) * k - 1), fill=shape.fill)
        elif isinstance(shape, Polygon):
            pen.polygon([(x * k, y * k) for x, y in shape.corners], fill=shape.fill)
        elif isinstance(shape, Circle):
            pen.circle((shape.x * k, shape.y * k), shape.radius * k, fill=shape.fill)
        elif isinstance(shape, Text):
            text, font = _plain(shape.text), _font(round(shape.size * k))
            if shape.room and pen.textlength(text, font=font) > shape.room * k:
                narrower = shape.size * k * shape.room * k / pen.textlength(text, font=font)
                font = _font(max(1, int(narrower)))
            anchor = {"start": "ls", "middle": "ms", "end": "rs"}[shape.anchor]
            pen.text((shape.x * k, shape.y * k), text, fill=shape.colour, font=font, anchor=anchor)
    return image.reduce(_FINER)


def write_frames(frames: Sequence[Image.Image], file: IO[bytes], *, kind: str, seconds: float) -> None:
    """Write pictures that take turns, over and over, as ``GIF``, ``PNG`` or ``WEBP``."""
    each_ms = max(20, round(seconds * 1000 / len(frames)))  # browsers show a frame for at least 20 ms
    if kind == "GIF":
        # One palette for all, from the fullest frames, so that colours do not flicker.
        sheet = Image.new("RGB", (frames[0].width, frames[0].height * 3))
        for place, k in enumerate((0, len(frames) // 2, len(frames) - 1)):
            sheet.paste(frames[k], (0, place * frames[0].height))
        palette = sheet.quantize(colors=255)
        frames = [one.quantize(palette=palette, dither=Image.Dither.NONE) for one in frames]
    frames[0].save(file, kind, save_all=True, append_images=frames[1:], duration=each_ms, loop=0)


def _plain(text: str) -> str:
    """Spell a text with the letters of the font: ASCII."""
    return text.translate(_SPELT).encode("ascii", "replace").decode()


@cache
def _font(size: int) -> Any:
    """Aileron, which comes with Pillow and reads no file of the system."""
    return ImageFont.load_default(size)
