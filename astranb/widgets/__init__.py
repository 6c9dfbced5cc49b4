"""What a person touches in a notebook.

The logic is Python and needs no browser: a session takes commands and plays
(``_session``), a feed knows what a view lacks (``_feed``), a layout says where things stand
(``_layout``). ``Workbench`` is the thin piece between them and the browser, where each view
is one hand-written ES module in ``static/``.
"""

from ._compare import SideBySide
from ._editor import Editor
from ._workbench import Workbench

__all__ = ["Editor", "SideBySide", "Workbench"]
