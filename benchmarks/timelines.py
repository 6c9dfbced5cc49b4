"""Timelines: ten million spans, and a trace of 25 MB from the kernel to the painted page."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np

from astranb.core.density import Stretch, flatten
from astranb.engine.cacheline import SPAN

if TYPE_CHECKING:
    from playwright.sync_api import Page

__all__ = ["WINDOW", "lod", "window"]

_SPANS = 10_000_000
_TRACKS = 192
_VISIBLE = 32  # tracks of a screen
_COLUMNS = 512
_QUERIES = 30
_LOADS = 5

WINDOW = """
import astranb as anb
wide = anb.Simulation("dgx-h100", anb.collectives.all_reduce("4 MiB", "ring"))
wide.run()
window = anb.Workbench(wide)
window
"""
"""A notebook's cell whose workbench has a full ring of flights."""

_SEND = "window.feed._whole = 0; window.connection.answer({'type': 'fine'})"

_LAST = "[...document.querySelectorAll('.anb-workbench')].at(-1)"
_LOADED = """async code => {
    const root = [...document.querySelectorAll(".anb-workbench")].at(-1)
    const before = root.dataset.seq
    const painted = new Promise(done => {
        const observer = new MutationObserver(() => {
            if (root.dataset.seq === before) return
            observer.disconnect()
            requestAnimationFrame(() => setTimeout(() => done(performance.now())))
        })
        observer.observe(root, { attributes: true, attributeFilter: ["data-seq"] })
    })
    const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel
    const began = performance.now()
    kernel.requestExecute({ code, silent: true, store_history: false })
    return (await painted) - began
}"""


def lod(row: Callable[..., None]) -> None:
    """Measure sorting ten million spans of 192 tracks once, and then reading windows of them."""
    random = np.random.default_rng(1)
    each = _SPANS // _TRACKS
    spans = np.zeros(_TRACKS * each, SPAN)
    length = random.integers(500, 5000, (_TRACKS, each))
    spans["end_ps"] = np.cumsum(length, axis=1).ravel()
    spans["start_ps"] = spans["end_ps"] - length.ravel()
    spans["block"] = np.repeat(np.arange(_TRACKS), each)
    spans["state"] = random.integers(0, 4, len(spans))
    end_ps = int(spans["end_ps"].max())
    began = perf_counter()
    stretch = flatten(
        0, end_ps, _TRACKS, 10, spans["block"], spans["state"], spans["start_ps"], spans["end_ps"]
    )
    stretch.spent(np.array([0]), np.array([0]))  # fills the tables that the first look-up makes
    row(f"{len(spans):,} spans sorted", perf_counter() - began, "s")
    for what, part in (("all of the time", 1.0), ("a hundredth of it", 0.01), ("a millionth of it", 1e-6)):
        took = [
            _query(stretch, random.random() * (1 - part) * end_ps, part * end_ps) for _ in range(_QUERIES)
        ]
        row(
            f"{_VISIBLE} tracks x {_COLUMNS} columns of {what}",
            1e3 * median(took),
            "ms",
            "16 ms",
            1e3 * median(took) / 16,
        )


def _query(stretch: Stretch, start_ps: float, length_ps: float) -> float:
    """Return the seconds that one window of a screen takes."""
    edges = np.linspace(start_ps, start_ps + length_ps, _COLUMNS + 1).astype(np.int64)
    tracks = np.repeat(np.arange(_VISIBLE), len(edges))
    began = perf_counter()
    spent = stretch.spent(tracks, np.tile(edges, _VISIBLE)).reshape(_VISIBLE, len(edges), -1)
    shares = np.diff(spent, axis=1)
    took = perf_counter() - began
    whole = np.diff(edges)[None, :]
    if (shares.sum(axis=2) > whole).any():
        message = "more time than there is"
        raise AssertionError(message)
    return took


def window(page: Page, row: Callable[..., None]) -> None:
    """A full ring of flights, from the kernel to the painted page; the last workbench is :data:`WINDOW`'s."""
    page.wait_for_function(
        "[...document.querySelectorAll('.anb-workbench')].at(-1)?.dataset.flights > 1000000"
    )
    flights = int(page.evaluate("[...document.querySelectorAll('.anb-workbench')].at(-1).dataset.flights"))
    page.evaluate("[...document.querySelectorAll('.anb-workbench')].at(-1).scrollIntoView()")
    page.wait_for_timeout(1500)
    took = []
    for _ in range(_LOADS):
        took.append(page.evaluate(_LOADED, _SEND) / 1000)
        page.wait_for_timeout(1000)
    row("trace window sent to the browser", flights * 24 / 1e6, "MB")
    row("the same, kernel to painted, median (limit 2 s)", median(took), "s", "2 s", median(took) / 2)
    row("the same, longest of 5", max(took), "s")
