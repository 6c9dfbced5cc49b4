"""One file that plays a recording in any browser, without a network.

It holds the same modules and style sheets as the widget, and what they would be told by a
kernel, packed into one text (``static/offline.js`` unpacks it and answers in the kernel's
place). Whatever comes from a file is in that text or escaped; a policy in the page lets it
load nothing.
"""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from html import escape
from typing import Any

from astranb.core.colours import DARK, LIGHT, Colours
from astranb.core.errors import AstranbError

from ._feed import Message
from ._static import ENTRY, MODULES, PLAYER, STYLES
from ._study import study_of

__all__ = ["VARIABLES", "Columns", "answers_of", "inspections_of", "write_page"]

_QUICK_EVENTS = 5_000_000  # a critical path is found in some seconds
_MOST_OBJECTS = 300  # some ms each
_MOST_INSPECTED_BYTES = 4_000_000
_MOST_ANSWER_BYTES = 4_000_000
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline' blob:; style-src 'unsafe-inline'; img-src data: blob:"
)
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


class Columns:
    """Buffers, and by what numbers the header names them."""

    def __init__(self) -> None:
        self.buffers: list[bytes] = []

    def add(self, *buffers: bytes) -> list[int]:
        """Take buffers; gives their numbers."""
        first = len(self.buffers)
        self.buffers += buffers
        return list(range(first, len(self.buffers)))

    def message(self, message: Message) -> dict[str, Any]:
        """Take a message."""
        return {"message": message[0], "buffers": self.add(*message[1])}

    def placed(self) -> dict[str, Any]:
        """Where each stands, for the header, and the buffers themselves."""
        places, start = [], 0
        for buffer in self.buffers:
            places.append((start, len(buffer)))
            start += -(-len(buffer) // 8) * 8
        return {"places": places, "buffers": self.buffers}


def write_page(recording: dict[str, Any], title: str, picture: str, said: str) -> str:
    """Write a page.

    Parameters
    ----------
    recording : dict
        What ``static/offline.js`` plays.
    title, said : str
        Of the page, and a line about it for people; may hold anything.
    picture : str
        An ``<svg>`` for browsers without scripts.
    """
    header = {
        **recording,
        "modules": MODULES,
        "entry": ENTRY,
        "status": _STATUS,
    }
    return _PAGE.format(
        policy=escape(_POLICY),
        title=escape(title),
        styles=STYLES,
        page_styles=_page_styles(),
        picture=picture,
        said=escape(said),
        player=PLAYER,
        recording=_pack(header),
    )


def inspections_of(sim: Any, paths: Sequence[str]) -> dict[str, Any]:
    """What the inspector says now of objects, and, as far as there is room, of their parts."""
    queue = list(paths)
    found: dict[str, Any] = {}
    room = _MOST_INSPECTED_BYTES
    for path in queue:  # grows while it is walked
        if len(found) >= _MOST_OBJECTS or room < 0:
            break
        if path in found:
            continue
        try:
            found[path] = sim.inspect(path)
        except AstranbError:
            continue  # a group of nodes is no object
        room -= len(json.dumps(found[path]))
        queue += [child["path"] for child in found[path]["children"]]
    return found


def answers_of(
    feed: Any,
    columns: Columns,
    known: Mapping[str, Callable[[Any, dict[str, Any]], Message]],
    questions: Mapping[str, Sequence[Mapping[str, Any]]],
    always: Collection[str] = (),
) -> list[dict[str, Any]]:
    """Answers to what views ask; where there is none now, the page says that it needs a kernel.

    Parameters
    ----------
    feed : Feed or WorkloadFeed
    columns : Columns
        Gets the buffers.
    known : mapping of str to callable
        What answers, by question.
    questions : mapping of str to sequence of mapping
        The options with which each is asked.
    always : collection of str
        Questions whose answer does not change with time.
    """
    answers = []
    for question, several in questions.items():
        for options in several if question in known else ():
            try:
                meta, buffers = known[question](feed, dict(options))
                if meta.get("working") and feed.sim.events <= _QUICK_EVENTS:  # nobody can ask again
                    study_of(feed.session).finish()
                    meta, buffers = known[question](feed, dict(options))
            except (AstranbError, IndexError):
                continue  # there is no such rank, or nothing to tell
            size = len(json.dumps(meta)) + sum(map(len, buffers))
            if not meta.get("working") and size <= _MOST_ANSWER_BYTES:
                about = {"question": question, "options": options, "always": question in always}
                answers.append({**about, **columns.message((meta, buffers))})
    return answers


def _pack(header: dict[str, Any]) -> str:
    """Length of the header, the header, and the columns, each from a multiple of 8 on; packed, as text."""
    buffers = header.pop("buffers")
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    parts = [len(text).to_bytes(8, "little"), text, bytes(-len(text) % 8)]
    for buffer in buffers:
        parts += [buffer, bytes(-len(buffer) % 8)]
    return base64.b64encode(gzip.compress(b"".join(parts), 6, mtime=0)).decode()


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
        ".anb-said{color:var(--jp-ui-font-color2);margin:8px 0}noscript svg{height:auto;max-width:100%}"
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
<p class="anb-said">{said}</p>
<script type="text/plain" id="anb-recording">{recording}</script>
<script type="module">
{player}
const host = document.getElementById("anb-host");
openRecording(host, document.getElementById("anb-recording").textContent).catch((error) => {{
  host.textContent = `This page cannot be shown: ${{error}}`;
}});
</script>
</body>
</html>
"""
