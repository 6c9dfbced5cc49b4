"""The picture of an infrastructure as a file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, overload

from astranb.core.errors import InputError
from astranb.core.extras import needs_extra
from astranb.core.files import whole_file
from astranb.core.svg import to_svg
from astranb.infragraph import Infra, resolve

from ._pyvis import pyvis

if TYPE_CHECKING:
    from IPython.display import SVG

__all__ = ["draw"]


@overload
def draw(infra: Infra | str | Path, path: str | Path, *, dark: bool = False) -> Path: ...


@overload
def draw(infra: Infra | str | Path, path: None = None, *, dark: bool = False) -> SVG: ...


def draw(infra: Infra | str | Path, path: str | Path | None = None, *, dark: bool = False) -> Path | SVG:
    """Draw an infrastructure with no run on it, in the workbench's layout.

    Parameters
    ----------
    infra : Infra or str or Path
        An infrastructure, its file, or a blueprint's name.
    path : str or Path, optional
        ``.svg``: a picture, links coloured by kind, with their rates in a legend and where one
        points at them. ``.html``: a page to drag nodes about (:func:`pyvis`, which is an
        extra). Written whole or not at all.
    dark : bool
        For dark ground.

    Returns
    -------
    Path or IPython.display.SVG
        The file; without a path the picture, which a notebook shows.

    Raises
    ------
    InputError
        Another ending; for ``.html``, pyvis is not installed or there are too many nodes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = draw("ring:gpus=4", Path(folder, "ring.svg")).read_text()
    >>> text[:4], text.count("<rect"), "each way" in text
    ('<svg', 5, True)
    """
    known = infra if isinstance(infra, Infra) else resolve(str(infra))
    ending = Path(path).suffix.lower() if path is not None else ".svg"
    if ending == ".html" and path is not None:
        return pyvis(known, path, dark=dark)
    if ending != ".svg":
        raise InputError(f"no picture is known by {ending!r}", where=str(path), hint="take .svg or .html")
    from astranb.widgets._map import map_of

    text = to_svg(map_of(known, dark=dark))
    if path is None:
        with needs_extra("export.draw"):
            from IPython.display import SVG

        return SVG(text)  # type: ignore[no-untyped-call]
    with whole_file(Path(path)) as file:
        file.write(text.encode())
    return Path(path)
