"""Names and places of the views that ``static/panels.js`` makes."""

from __future__ import annotations

from typing import Final

__all__ = ["PANELS"]

PANELS: Final[dict[str, dict[str, str]]] = {
    "cacheline": {
        **dict.fromkeys(("topology", "traffic", "table", "chunks", "buffers"), "stage"),
        **dict.fromkeys(("inspect", "change", "breaks", "explain", "source"), "side"),
        **dict.fromkeys(("result", "blocks", "activity", "events", "interval", "buffer", "compare"), "below"),
    },
    "operations": {
        **dict.fromkeys(("topology", "graph", "modules", "exposed", "traffic", "flows", "buffers"), "stage"),
        **dict.fromkeys(("inspect", "change", "breaks", "explain"), "side"),
        **dict.fromkeys(("result", "tracks", "footprint", "events", "compare"), "below"),
    },
}
"""The slot of each view, by engine and name; a test compares them with the script."""
