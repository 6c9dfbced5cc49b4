"""The picture of an infrastructure: an SVG, or a pyvis page whose nodes can be dragged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, overload

import numpy as np

from astranb.core.colours import Colours
from astranb.core.errors import InputError
from astranb.core.extras import needs_extra
from astranb.core.files import whole_file
from astranb.core.plural import plural
from astranb.core.units import format_bandwidth, format_time
from astranb.infragraph import Infra, resolve
from astranb.net import compile_fabric

from .layout import lay_out
from .map import joined, map_of
from .svg_files import svg_of

if TYPE_CHECKING:
    from IPython.display import SVG

__all__ = ["draw", "pyvis"]

_MOST_NODES = 2000  # vis.js draws a few frames per second beyond this
_FETCHED = re.compile(r"<(link|script)\b[^>]*\bhttps?:[^>]*>(\s*</script>)?", re.IGNORECASE)


@overload
def draw(infra: Infra | str | Path, path: str | Path, *, dark: bool = False) -> Path: ...


@overload
def draw(infra: Infra | str | Path, path: None = None, *, dark: bool = False) -> SVG: ...


def draw(infra: Infra | str | Path, path: str | Path | None = None, *, dark: bool = False) -> Path | SVG:
    """Draw an infrastructure in the layout of the workbench.

    Parameters
    ----------
    infra : Infra or str or Path
        An infrastructure, its file, or the name of a blueprint.
    path : str or Path, optional
        ``.svg``: a picture with links coloured by kind and their bandwidths in a legend and in
        tool tips. ``.html``: a page with draggable nodes (:func:`pyvis`). An existing file is
        replaced only when the new one is complete.
    dark : bool
        Colours for a dark background.

    Returns
    -------
    Path or IPython.display.SVG
        The file; without a path, the picture, which a notebook shows.

    Raises
    ------
    InputError
        The extension is unknown, or for ``.html``, pyvis is not installed or there are too many
        nodes.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     text = draw("ring:gpus=4", Path(folder, "ring.svg")).read_text()
    >>> text[:4], text.count("<rect"), "per direction" in text
    ('<svg', 5, True)
    """
    known = resolve(infra)
    if path is not None and Path(path).suffix.lower() == ".html":
        return pyvis(known, path, dark=dark)
    return svg_of(map_of(known, dark=dark), path, "export.draw", hint="use .svg or .html")


def pyvis(infra: Infra | str | Path, path: str | Path, *, dark: bool = False) -> Path:
    """Write an infrastructure as an HTML page of pyvis, in the layout of the workbench.

    Parameters
    ----------
    infra : Infra or str or Path
        An infrastructure, its file, or the name of a blueprint.
    path : str or Path
        An existing file is replaced only when the new one is complete.
    dark : bool
        Colours for a dark background.

    Returns
    -------
    Path
        The file, 0.7 MB: it contains vis.js and fetches nothing. Nodes begin where the
        workbench draws them and can be dragged.

    Raises
    ------
    InputError
        pyvis is not installed, or there are too many nodes to draw.
    """
    with needs_extra("export.pyvis"):
        from pyvis.network import Network

    fabric = compile_fabric(resolve(infra).expand())
    layout = lay_out(fabric, np.arange(len(fabric.links)))
    if len(layout.boxes) > _MOST_NODES:
        raise InputError(
            f"{len(layout.boxes):,} nodes are too many for pyvis",
            where="export.pyvis",
            hint=f"pyvis draws up to {_MOST_NODES:,}; use .svg or the workbench",
        )
    colours = Colours.of(dark)
    page = Network(
        height="95vh", width="100%", bgcolor=colours.back, font_color=colours.ink, cdn_resources="in_line"
    )
    page.toggle_physics(status=False)
    for number, box in enumerate(layout.boxes):
        gpu = box.label.startswith("GPU")
        page.add_node(
            number,
            label=box.label,
            title=_text(f"{box.kind}: {box.name}"),
            x=box.x,
            y=box.y,
            shape="box" if gpu else "ellipse",
            color={"background": colours.gpu if gpu else colours.node, "border": colours.line},
            physics=False,
        )
    for (a, b), bundle in joined(layout).items():
        lanes = list(layout.bundles[bundle][2])
        rate = int(fabric.links["bandwidth_Bps"][lanes].sum())
        latency = int(fabric.links["latency_ps"][lanes].max())
        tip = f"{plural(len(lanes), 'lane')}, {format_bandwidth(rate)} per direction, {format_time(latency)}"
        page.add_edge(a, b, title=tip, color=colours.line, width=1 + np.log2(len(lanes)), smooth=False)
    ground = f"<style>body{{background:{colours.back}}}#mynetwork{{border:0!important}}</style></head>"
    text = _FETCHED.sub("", page.generate_html()).replace("</head>", ground, 1)
    with whole_file(Path(path)) as file:
        file.write(text.encode())
    return Path(path)


def _text(title: str) -> str:
    """Return a title that pyvis shows as text: it takes a title with "href" for markup."""
    return title.replace("href", "hr\N{ZERO WIDTH SPACE}ef")
