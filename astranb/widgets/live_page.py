"""A page that simulates in any browser: our own Python, the run as inputs and edits, and what was recorded.

``static/live_page.js`` opens it: it shows what was recorded at once, starts Python in a Worker of the page,
and hands the workbench over when that is ready (:mod:`.page_host` is Python's side). Two kinds: one file with
all of Python in it, which opens from disk without a network, and a small one with a folder beside it, for
sites and for many pages.
"""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any, Final

from astranb.browser import LICENCES, PYODIDE, Pack, runtime
from astranb.core.errors import InputError
from astranb.core.files import whole_file
from astranb.core.svg import to_svg
from astranb.core.version import __version__

from .assets import EDITOR, ENTRY, LIVE_PLAYER, MODULES, WORKER
from .feed import AnyFeed, Columns
from .offline_page import wrapped
from .pictures import picture_of
from .recording import record

__all__ = ["RUNTIME_FOLDER", "live_page", "write_runtime"]

RUNTIME_FOLDER: Final = "astranb-runtime"
"""The folder beside pages that share their Python."""

_MOST_BYTES: Final = 15 * 10**8
"""The memory of a page that a machine may take, which ends at 2 GiB (``browser/limit_memory.js``)."""
_ADDRESS: Final = re.compile(r"[\w./:~%+@-]+")
_MOST_FLIGHTS: Final = 5_000
"""Flights of lines or operations of what is shown until Python is ready."""


def live_page(feed: AnyFeed, shown: dict[str, Any], run: bytes, shared: str = "") -> str:
    """Write a page that simulates: it opens at the present moment, and goes on, back and elsewhere.

    Parameters
    ----------
    feed : Feed
        One that has sent nothing yet.
    shown
        What the workbench shows beside the run, by name.
    run : bytes
        The run as :meth:`.Bench.recipe` gives it.
    shared : str
        Where its Python is: a folder beside the page or an address; empty: in the page.

    Raises
    ------
    InputError
        The machine takes more memory than a page has, or there is no Python for pages.
    """
    needed = feed.sim.engine.state_bytes
    if needed > _MOST_BYTES:
        what = f"this machine takes {needed / 1e9:,.1f} GB of memory, and a page has 1.5 GB for it"
        raise InputError(what, where="to_html", hint="open it in JupyterLab, or simulate fewer GPUs")
    columns = Columns()
    recording = record(feed, columns, _MOST_FLIGHTS).fields if feed.sim.recording else {}
    header = {
        **recording,
        "engine": feed.engine,
        "inspections": {}, "answers": [], "free": {},
        "status": "what was recorded: Python starts",
        "panels": shown["panels"], "selection": shown["selection"], "sizes": shown["sizes"],
        "redraw_hz": shown["redraw_hz"],
        "run": columns.add(run)[0],
        "buffers": columns.buffers,
        "modules": MODULES,
        "entry": ENTRY,
        "editor": EDITOR,
        "about": f"astranb {__version__}, with Pyodide {PYODIDE}. In this page: {LICENCES}.",
    }  # fmt: skip
    if shared and not _ADDRESS.fullmatch(shared):
        hint = "give a folder beside the page, or an address without spaces and quotes"
        raise InputError(f"{shared!r:.60} is not an address", where="to_html", hint=hint)
    packs = runtime()
    where = "in this page" if not shared else f"at {shared}"
    return wrapped(
        header,
        title=feed.title,
        still=to_svg(picture_of(feed)),
        caption=f"This page simulates with astranb {__version__}, as JupyterLab does: its Python is {where}, "
        "and nothing is installed. It takes about 0.8 GB of memory.",
        player=LIVE_PLAYER,
        scripts="\n".join(
            [*(_script(pack, shared) for pack in packs), _WORKER.format(worker=_plain(WORKER))]
        ),
        fetches=_origin(shared) if shared else "",
        simulates=True,
    )


def write_runtime(folder: Path) -> None:
    """Write the Python that pages share into a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    for pack in runtime():
        with whole_file(folder / f"{pack.name}.gz") as file:
            file.write(pack.data)


def _script(pack: Pack, shared: str) -> str:
    kind = pack.name.partition("-")[0]
    if shared:
        return f'<script type="text/plain" data-pack="{kind}" data-from="{shared}/{pack.name}.gz"></script>'
    return f'<script type="text/plain" data-pack="{kind}">{base64.b64encode(pack.data).decode()}</script>'


def _origin(shared: str) -> str:
    """Return the origin that a page may fetch from: its own site, or the address of its Python."""
    return f"{shared}/" if "://" in shared else "'self'"


def _plain(script: str) -> str:
    """Have a script stand in a page as text."""
    return script.replace("</", "<\\/")


_WORKER: Final = '<script type="text/plain" id="anb-worker">{worker}</script>'
