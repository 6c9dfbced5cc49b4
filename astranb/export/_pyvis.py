"""The picture of an infrastructure as a page of pyvis: nodes to drag about."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from astranb.core.colours import Colours
from astranb.core.errors import InputError
from astranb.core.extras import needs_extra
from astranb.core.files import whole_file
from astranb.core.units import format_bandwidth, format_time
from astranb.infragraph import Infra, resolve
from astranb.net import compile_fabric

__all__ = ["pyvis"]

_MOST_NODES = 2000  # vis.js draws some thousands at a few frames a second
_FETCHED = re.compile(r"<(link|script)\b[^>]*\bhttps?:[^>]*>(\s*</script>)?", re.IGNORECASE)


def pyvis(infra: Infra | str | Path, path: str | Path, *, dark: bool = False) -> Path:
    """Write an InfraGraph as an HTML page of pyvis, in the workbench's layout.

    Parameters
    ----------
    infra : Infra or str or Path
        An infrastructure, its file, or a blueprint's name.
    path : str or Path
        Written whole or not at all.
    dark : bool
        For dark ground.

    Returns
    -------
    Path
        The file, 0.7 MB: vis.js is in it, and nothing is fetched. Nodes stand where the
        workbench draws them, the same every time, and can be dragged.

    Raises
    ------
    InputError
        pyvis is not installed, or there are too many nodes to draw.
    """
    with needs_extra("export.pyvis"):
        from pyvis.network import Network
    from astranb.widgets._layout import lay_out
    from astranb.widgets._map import joined

    fabric = compile_fabric((infra if isinstance(infra, Infra) else resolve(str(infra))).expand())
    layout = lay_out(fabric, np.arange(len(fabric.links)))
    if len(layout.boxes) > _MOST_NODES:
        raise InputError(
            f"{len(layout.boxes):,} nodes are too many for pyvis",
            where="export.pyvis",
            hint=f"it draws up to {_MOST_NODES:,}: use the workbench",
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
        words = f"{len(lanes)} lanes, {format_bandwidth(rate)} each way, {format_time(latency)}"
        page.add_edge(a, b, title=words, color=colours.line, width=1 + np.log2(len(lanes)), smooth=False)
    ground = f"<style>body{{background:{colours.back}}}#mynetwork{{border:0!important}}</style></head>"
    text = _FETCHED.sub("", page.generate_html()).replace("</head>", ground, 1)
    with whole_file(Path(path)) as file:
        file.write(text.encode())
    return Path(path)


def _text(title: str) -> str:
    """Give a title that pyvis shows as text: the word "href" would make it take it for markup."""
    return title.replace("href", "hr\N{ZERO WIDTH SPACE}ef")
