"""Pages that simulate: their size, how soon they show something, and events/s beside the native run."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING, Any

import astranb as anb
from tests.widgets.live.kernels import page_kernel

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.ui.harness import Lab

__all__ = ["in_chromium", "in_node"]

_RUNS = 3
_MB_LIMIT, _PICTURE_LIMIT_S, _RUN_LIMIT_S = 1.5, 1.0, 3.0
_GPUS = 64

_SHOWN = """async finished => {
    const began = performance.now()
    const bench = () => document.querySelector(".anb-workbench")?.dataset
    while (!(finished ? Number(bench()?.events) >= finished : bench()?.events)) {
        await new Promise(done => requestAnimationFrame(done))
    }
    return [performance.timeOrigin + performance.now(), performance.now() - began]
}"""
"""Wait until something, or the end, is shown; gives when that was, and how long it took."""


def _ring(record: bool = True) -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce("1 MiB", "ring"), record=record)


def _native() -> tuple[int, float]:
    """Events of a native run that is recorded, and the events/s of it."""
    found = []
    for _ in range(_RUNS):
        sim = _ring()
        began = perf_counter()
        sim.run()
        found.append(sim.events / (perf_counter() - began))
    return sim.events, median(found)


def _megabytes(sim: anb.Simulation, file: Path) -> float:
    """Give the size of a live page."""
    return sim.to_html(file, live=True).stat().st_size / 1e6


def in_node(row: Callable[..., None], _bare: float) -> None:
    """Add the rows that need no browser: sizes, and the kernel of a page in Node."""
    with TemporaryDirectory() as folder:
        many = anb.Simulation(f"switch:gpus={_GPUS}", anb.collectives.all_reduce("64 KiB", "ring"))
        one, other = (_megabytes(sim, Path(folder, "page.html")) for sim in (_ring(), many))
    row("live page of DGX H100, 1 MiB ring", one, "MB", f"the limit of {_MB_LIMIT} MB", one / _MB_LIMIT)
    row(f"live page of {_GPUS} GPUs, 64 KiB ring", other, "MB")
    events, native = _native()
    row("1 MiB ring, native, recorded", native, "events/s")
    found = []
    for _ in range(_RUNS):
        with page_kernel(_ring()) as page:
            page.send({"type": "event", "n": 1})
            began = perf_counter()
            page.send({"type": "to_end"})
            found.append((events - 1) / (perf_counter() - began))
    row("  the same in a page's kernel, in Node", median(found), "events/s", "native", median(found) / native)


def in_chromium(chrome: Browser, _lab: Lab, row: Callable[..., None]) -> None:
    """Add the rows of a page opened from disk: its first picture, and the run to its end, drawn."""
    events, native = _native()
    pictures, runs = [], []
    with TemporaryDirectory() as folder:
        file = _ring().to_html(Path(folder, "page.html"), live=True)
        for _ in range(_RUNS):
            page = chrome.new_page(viewport={"width": 1280, "height": 720})
            began: Any = perf_counter()
            page.goto(file.as_uri(), wait_until="commit")
            page.evaluate(_SHOWN, 0)
            pictures.append(perf_counter() - began)
            page.locator(".anb-to_end").click()
            runs.append(page.evaluate(_SHOWN, events)[1] / 1000)
            page.close()
    first, whole = median(pictures), median(runs)
    row(
        "live page of DGX H100 to its first picture", first, "s", f"the limit of {_PICTURE_LIMIT_S:g} s",
        first / _PICTURE_LIMIT_S,
    )  # fmt: skip
    row(
        "  1 MiB ring to its end, drawn", whole, "s", f"the limit of {_RUN_LIMIT_S:g} s", whole / _RUN_LIMIT_S
    )
    row("  that is", events / whole, "events/s", "native", events / whole / native)
