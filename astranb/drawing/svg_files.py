"""A picture as an SVG: in a file, or as a notebook shows it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from astranb.core.errors import InputError
from astranb.core.extras import needs_extra
from astranb.core.files import whole_file
from astranb.core.svg import Picture, to_svg

if TYPE_CHECKING:
    from IPython.display import SVG

__all__ = ["svg_of"]


def svg_of(picture: Picture, path: str | Path | None, what: str, *, hint: str = "use .svg") -> Path | SVG:
    """Write a picture to a file, or give what a notebook shows.

    Parameters
    ----------
    picture : Picture
    path : str or Path, optional
        An ``.svg`` file, which is replaced only when the new one is complete.
    what : str
        Who needs IPython, where there is no path.
    hint : str
        Which extensions there are.

    Returns
    -------
    Path or IPython.display.SVG
        The file; without a path, the picture.

    Raises
    ------
    InputError
        The extension is another, or the file cannot be written.
    """
    if path is None:
        with needs_extra(what):
            from IPython.display import SVG

        return SVG(to_svg(picture))  # type: ignore[no-untyped-call]
    file = Path(path)
    if file.suffix.lower() != ".svg":
        raise InputError(f"unknown file extension {file.suffix.lower()!r}", where=str(path), hint=hint)
    with whole_file(file) as out:
        out.write(to_svg(picture).encode())
    return file
