"""The browser's side as text: views travel with the widget, because a notebook has no address for them."""

from __future__ import annotations

from pathlib import Path

__all__ = ["EDITOR", "ENTRY", "MODULES", "PAIR", "STYLES"]

_FOLDER = Path(__file__).parent / "static"

ENTRY = _FOLDER / "workbench.js"
"""The module that loads the others."""

PAIR = _FOLDER / "pair.js"
"""That of two workbenches beside each other."""

_EDITOR = _FOLDER / "editor.js"

MODULES = {
    file.stem: file.read_text("utf-8")
    for file in sorted(_FOLDER.glob("*.js"))
    if file not in (ENTRY, PAIR, _EDITOR)
}
"""Text of the ES modules by name."""

EDITOR = f"{MODULES['theme']}\n{_EDITOR.read_text('utf-8')}"
"""The module of the editor, which is a widget of its own, with what it uses of the others in front."""

_FIRST = _FOLDER / "workbench.css"
STYLES = "\n".join(
    file.read_text("utf-8") for file in (_FIRST, *sorted(set(_FOLDER.glob("*.css")) - {_FIRST}))
)
"""All style sheets, the common one first."""
