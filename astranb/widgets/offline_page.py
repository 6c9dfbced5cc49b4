"""One file that plays a recording in any browser, without a network.

It holds the modules and style sheets of the widget, and what a kernel would send, packed into
one text (``static/offline.js`` unpacks it, and gives views what was recorded for them). Whatever comes
from a file is in that text or escaped; a policy in the page lets it load nothing.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from contextlib import suppress
from html import escape
from typing import Any

from astranb.browser import packed as compressed
from astranb.core.colours import DARK, LIGHT, Colours
from astranb.core.errors import AstranbError
from astranb.core.plural import plural
from astranb.core.svg import to_svg
from astranb.core.units import format_time
from astranb.core.version import __version__

from .assets import ENTRY, PLAYER, STYLES
from .feed import QUICK_EVENTS, AnyFeed, Columns, answers
from .pictures import picture_of
from .plugged import module_texts
from .recording import FREE, record
from .views import always, answers_of, offline_questions

__all__ = ["VARIABLES", "answers", "offline_page", "packed", "wrapped"]

_MOST_OBJECTS = 300  # some ms each
_MOST_EARLIER = 320  # inspections of the main objects before the end
_MOST_MOMENTS = 24
_MOST_INSPECTED_BYTES = 4_000_000
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:{wasm}; "
    "style-src 'unsafe-inline'; img-src data: blob:"
)
_WITH_PYTHON = "; worker-src blob:; connect-src blob: {fetches}"
_STATUS = "a recording: it plays and steps through what was simulated; more needs the kernel"

VARIABLES: dict[str, str] = {
    "--jp-border-color1": "line",
    "--jp-border-color2": "faint",
    "--jp-brand-color1": "brand",
    "--jp-content-link-color": "brand",
    "--jp-layout-color1": "back",
    "--jp-layout-color2": "panel",
    "--jp-ui-font-color1": "ink",
    "--jp-ui-font-color2": "dim",
    "--jp-ui-inverse-font-color1": "back",
}
"""JupyterLab's variables that the style sheets use, by what takes their place."""


def offline_page(feed: AnyFeed, *, most: int, panels: dict[str, Any], selection: str) -> str:
    """Write a page that plays a run up to now.

    Parameters
    ----------
    feed : Feed
        One that has sent nothing yet.
    most : int
        Most flights of lines, or operations, to include.
    panels, selection
        What the workbench shows.

    Raises
    ------
    InputError
        Nothing was recorded.
    """
    columns = Columns()
    recording = record(feed, columns, most)
    header = {
        **recording.fields,
        "engine": feed.engine,
        "inspections": _inspections(feed, recording.objects, int(recording.fields["oldest"])),
        "answers": [
            *recording.answers,
            *answers(feed, columns, answers_of(feed), offline_questions(feed), always(feed)),
        ],
        "free": FREE,
        "panels": panels,
        "selection": selection,
        "buffers": columns.buffers,
        "modules": module_texts(),
        "entry": ENTRY,
        "status": _STATUS,
    }
    simulated = f"{format_time(feed.sim.now_ps)} ({plural(feed.sim.events, 'event')})"
    return wrapped(
        header,
        title=recording.title,
        still=to_svg(picture_of(feed)),
        caption=f"Simulated up to {simulated} with astranb {__version__}. {recording.caption}",
        player=PLAYER,
    )


def wrapped(
    header: dict[str, Any],
    *,
    title: str,
    still: str,
    caption: str,
    player: str,
    scripts: str = "",
    fetches: str = "",
    simulates: bool = False,
) -> str:
    """Write a page around what a kernel would send.

    Parameters
    ----------
    header : dict
        With its ``buffers``.
    title, caption : str
    still : str
        Markup for browsers that run no scripts.
    player : str
        A module with ``openPage(host, text)``.
    scripts : str
        Further elements that hold texts.
    fetches : str
        What it may fetch; nothing where it is empty.
    simulates : bool
        Whether the page may run WebAssembly that it holds, in a Worker.
    """
    policy = _POLICY.format(wasm=" 'wasm-unsafe-eval'" if simulates else "")
    return _PAGE.format(
        policy=escape(policy + _WITH_PYTHON.format(fetches=fetches) if simulates else policy),
        title=escape(title),
        styles=STYLES,
        page_styles=_page_styles(),
        picture=still,
        caption=escape(caption),
        player=player,
        scripts=scripts,
        recording=packed(header),
    )


def _inspections(feed: AnyFeed, paths: Sequence[str], oldest_ps: int) -> dict[str, list[tuple[int, Any]]]:
    """Return the inspector's views of objects, by moment: now, and at some moments before.

    As far as there is room, of their parts, too; of these only now.
    """
    sim, queue = feed.sim, list(paths)
    found: dict[str, list[tuple[int, Any]]] = {}
    moments = min(_MOST_MOMENTS, _MOST_EARLIER // max(1, len(paths))) if sim.events <= QUICK_EVENTS else 0
    for k in range(moments):
        at_ps = oldest_ps + (sim.now_ps - oldest_ps) * k // moments
        past = feed.session.at(at_ps)
        for path in paths:
            with suppress(AstranbError):  # a group of nodes is no object
                found.setdefault(path, []).append((at_ps, past.inspect(path)))
    seen: set[str] = set()
    room = _MOST_INSPECTED_BYTES
    for path in queue:  # grows while it is walked
        if len(seen) >= _MOST_OBJECTS or room < 0:
            break
        if path in seen:
            continue
        seen.add(path)
        try:
            now = sim.inspect(path)
        except AstranbError:
            continue
        found.setdefault(path, []).append((sim.now_ps, now))
        room -= len(json.dumps(now))
        queue += [child["path"] for child in now["children"]]
    return found


def packed(header: dict[str, Any]) -> str:
    """Pack a header and its columns, as text."""
    buffers = header.pop("buffers")
    return base64.b64encode(compressed(header, buffers)).decode()


def _page_styles() -> str:
    """JupyterLab's colours, in light and dark."""

    def rules(colours: Colours) -> str:
        return "".join(f"{name}:{getattr(colours, field)};" for name, field in VARIABLES.items())

    return (
        f":root{{color-scheme:light dark;--jp-ui-font-family:system-ui,sans-serif;--jp-error-color1:#d32f2f;"
        f"{rules(LIGHT)}}}"
        f"@media (prefers-color-scheme:dark){{:root{{--jp-error-color1:#ff8a80;{rules(DARK)}}}}}"
        "body{background:var(--jp-layout-color1);color:var(--jp-ui-font-color1);"
        "font:13px/1.4 var(--jp-ui-font-family);margin:12px auto;max-width:1400px;padding:0 12px}"
        ".anb-caption{color:var(--jp-ui-font-color2);margin:8px 0}noscript svg{height:auto;max-width:100%}"
    )


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
{styles}
{page_styles}
</style>
</head>
<body>
<main id="anb-host"><noscript>{picture}</noscript></main>
<p class="anb-caption">{caption}</p>
<script type="text/plain" id="anb-recording">{recording}</script>
{scripts}
<script type="module">
{player}
const host = document.getElementById("anb-host");
openPage(host, document.getElementById("anb-recording").textContent).catch((error) => {{
  host.textContent = `This page cannot be shown: ${{error}}`;
}});
</script>
</body>
</html>
"""
