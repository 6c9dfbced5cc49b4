"""One file that plays a recording in any browser, without a network: ``Workbench.to_html``.

It holds the same modules and style sheets as the widget, and what they would be told by a
kernel, packed into one text (``static/offline.js`` unpacks it and answers in the kernel's
place). Whatever comes from a file is in that text or escaped; a policy in the page lets it
load nothing.
"""

from __future__ import annotations

import base64
import gzip
import json
from html import escape
from typing import Any

import numpy as np

from astranb import __version__
from astranb.core.colours import DARK, LIGHT, Colours
from astranb.core.errors import AstranbError, InputError
from astranb.core.units import format_time
from astranb.sim import FLIGHT_KINDS, Simulation

from ._answers import ANSWERS
from ._feed import Feed, Message
from ._session import session_of
from ._static import ENTRY, MODULES, STYLES
from ._svg import draw

__all__ = ["QUESTIONS", "VARIABLES", "page"]

_NOW = {"at_ps": None}
QUESTIONS: dict[str, tuple[dict[str, Any], ...]] = {
    "aggregates": ({},),
    "buffer": tuple({"rank": rank, "buffer": "output", "at": None} for rank in range(8)),
    "chunks": ({"buffer": "output", **_NOW},),
    "critical_path": (_NOW,),
    "device": tuple({"rank": rank, **_NOW} for rank in range(8)),
    "hot": ({},),
    "lost_time": ({"path": "", **_NOW},),
    "ports": (_NOW,),
    "rows": ({},),
    "source": ({},),
    "traffic": ({},),
    "what_if": (_NOW,),
    "where": (_NOW,),
    "why": ({"path": "", **_NOW},),
}
"""Questions of ``_answers.py`` that a page can answer, with the options with which it can: as views ask
when nothing is selected and the cursor is at the end. None of these may change anything."""

_ALWAYS = frozenset({"rows", "source"})
"""Questions whose answer does not change with time; to the others the page knows it at its end."""

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


def page(sim: Simulation, *, most_flights: int, panels: dict[str, Any], selection: str) -> str:
    """Write the page.

    Parameters
    ----------
    sim : Simulation
        As it stands: the page goes from the oldest flight that is recorded up to now.
    most_flights : int
        Most flights of lines to take along; of more, every n-th.
    panels, selection
        What the workbench shows.

    Raises
    ------
    InputError
        Nothing was recorded.
    """
    if not sim.recorder.on:
        raise InputError(
            "nothing was recorded to play", where="to_html", mend="make it with Simulation(..., record=True)"
        )
    recording, said = _record(sim, most_flights)
    header = {
        **recording,
        "modules": {name: text for name, text in MODULES.items() if name != "offline"},
        "entry": ENTRY.read_text("utf-8"),
        "panels": panels,
        "selection": selection,
        "status": _STATUS,
    }
    layout = Feed(session_of(sim)).layout
    title = f"{sim.collective.title} on {sim.infra.name}"
    return _PAGE.format(
        policy=escape(_POLICY),
        title=escape(title),
        styles=STYLES,
        page_styles=_page_styles(),
        picture=draw(sim, layout),
        said=escape(said),
        player=MODULES["offline"],
        recording=_pack(header),
    )


class _Columns:
    """Buffers, and by what numbers the header names them."""

    def __init__(self) -> None:
        self.buffers: list[bytes] = []

    def add(self, *buffers: bytes) -> list[int]:
        first = len(self.buffers)
        self.buffers += buffers
        return list(range(first, len(self.buffers)))

    def message(self, message: Message) -> dict[str, Any]:
        return {"message": message[0], "buffers": self.add(*message[1])}


def _record(sim: Simulation, most_flights: int) -> tuple[dict[str, Any], str]:
    """What the kernel would tell, and a line about it for people."""
    feed, columns = Feed(session_of(sim)), _Columns()
    scene = columns.message(feed.scene())
    state, buffers = feed.state(fine=True, most=most_flights)
    one_in = int(state["one_in"])
    _, all_flights = sim.recorder.since(0)
    flights = all_flights[::one_in]
    used = np.unique(flights["link"])
    moments = (
        np.maximum.accumulate(flights["queued_ps"]).astype("<f8"),
        flights["event"].astype("<f8"),
        flights["kind"].astype("u1"),
        np.searchsorted(used, flights["link"]).astype("<u4"),
    )
    phases = sim.machine.phases
    recording = {
        "scene": scene,
        "state": columns.message(({**state, "playing": False, "failed": False}, buffers)),
        "timeline": columns.message(feed.timeline()),
        "moments": columns.add(*(np.ascontiguousarray(column).tobytes() for column in moments)),
        "words": FLIGHT_KINDS,
        "gpus": [sim.fabric.graph.name(int(node)) for node in sim.fabric.gpus],
        "links": [sim.fabric.name(int(link)) for link in used],
        "phases": sorted(phases["ended_ps"][(phases["left"] == 0) & (phases["ended_ps"] >= 0)].tolist()),
        "oldest": sim.recorder.oldest_ps,
        "inspections": _inspections(sim, feed),
        "answers": _answers(feed, columns),
    }
    places, start = [], 0
    for buffer in columns.buffers:
        places.append((start, len(buffer)))
        start += -(-len(buffer) // 8) * 8
    recording["places"] = places
    recording["buffers"] = columns.buffers
    kept = "all of them" if one_in == 1 else f"1 in {one_in} of them"
    said = (
        f"Simulated up to {format_time(sim.now_ps)} ({sim.events:,} events) with astranb {__version__}. "
        f"Recorded: {len(all_flights):,} flights of lines over links, of which this page holds {kept}; "
        f"Event and Cycle step through these."
    )
    if sim.recorder.oldest_ps:
        said += f" Flights before {format_time(sim.recorder.oldest_ps)} were given up."
    return recording, said


def _inspections(sim: Simulation, feed: Feed) -> dict[str, Any]:
    """What the inspector says now of nodes, links, and, as far as there is room, parts of GPUs."""
    queue = [box.name for box in feed.layout.boxes]
    queue += [sim.fabric.name(lanes[0]).partition("#")[0] for *_, lanes in feed.layout.bundles]
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


def _answers(feed: Feed, columns: _Columns) -> list[dict[str, Any]]:
    """Answers to what views ask; where there is none now, the page says that it needs a kernel."""
    answers = []
    for question, several in QUESTIONS.items():
        for options in several if question in ANSWERS else ():
            try:
                meta, buffers = ANSWERS[question](feed, dict(options))
            except (AstranbError, IndexError):
                continue  # there is no such rank, or nothing to tell
            size = len(json.dumps(meta)) + sum(map(len, buffers))
            if not meta.get("working") and size <= _MOST_ANSWER_BYTES:
                about = {"question": question, "options": options, "always": question in _ALWAYS}
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
