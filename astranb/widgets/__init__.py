"""What a person touches in a notebook.

The logic is Python and needs no browser: a session takes commands and plays
(``_session``), a feed knows what a view lacks (``_feed``), a layout says where things stand
(``_layout``). ``Workbench`` is the thin piece between them and the browser, where each view
is one hand-written ES module in ``static/``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from astranb.core.extras import needs_extra

if TYPE_CHECKING:
    from ._compare import SideBySide as SideBySide
    from ._editor import Editor as Editor
    from ._workbench import Workbench as Workbench

__all__ = ["Editor", "SideBySide", "Workbench"]

_WIDGETS = {"Editor": "_editor", "SideBySide": "_compare", "Workbench": "_workbench"}


def __getattr__(name: str) -> Any:
    """Load anywidget only with a widget: pages and pictures do without."""
    if name not in _WIDGETS:
        message = f"module 'astranb.widgets' has no attribute {name!r}"
        raise AttributeError(message)
    with needs_extra(f"anb.{name}"):
        return getattr(import_module(f"astranb.widgets.{_WIDGETS[name]}"), name)
