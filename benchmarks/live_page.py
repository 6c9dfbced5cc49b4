"""Pages that simulate: size, first picture, events/s beside the native run, how long the picture rests."""

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

_GAP = """async ([action, when, status]) => {
    const find = name => document.querySelector(name)
    const late = () => find(".anb-inspector .anb-moment").dataset.late !== "false"
    const began = performance.now()
    let [last, most, took] = [began, 0, 0]
    const frame = () => new Promise(done => requestAnimationFrame(() => {
        const now = performance.now()
        most = Math.max(most, now - last)
        last = now
        done()
    }))
    const enter = (field, value, event) => {
        field.value = String(value)
        field.dispatchEvent(new Event(event, { bubbles: true }))
    }
    if (action === "drag") {
        for (let part = 0.95; part > 0.3; part -= 0.01) {
            enter(find(".anb-scrub"), part, "input")
            await frame()
        }
        while (late()) await frame()
    } else {
        if (action === "goto") enter(find(".anb-goto"), when, "change")
        else find(action).click()
        while (!find(".anb-status").textContent.startsWith(status)) await frame()
    }
    took = performance.now() - began
    while (performance.now() < began + took + 1000) await frame() // what is asked for then counts, too
    return [most, took]
}"""
"""Do something; gives the longest time between two frames, and how long it took, in ms."""

_WORK = {
    "the cursor dragged through the past": ("drag", "", ""),
    "Back": (".anb-button.anb-back", "", "went back"),
    "Hash": ("[aria-label=Page] button:last-of-type", "", "hash"),
    "Go to the past": ("goto", "15 us", "went back"),
}
_GAP_LIMIT_MS = {8: 100, _GPUS: 250}


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
    _gaps(chrome, row, 8, _ring())
    large = anb.Simulation(f"clos:servers={_GPUS // 8}", anb.collectives.all_reduce("128 KiB", "ring"))
    _gaps(chrome, row, _GPUS, large)


def _gaps(chrome: Browser, row: Callable[..., None], gpus: int, sim: anb.Simulation) -> None:
    """Add rows of how long the picture stands still while the page is busy."""
    found: dict[str, list[list[float]]] = {name: [] for name in _WORK}
    with TemporaryDirectory() as folder:
        file = sim.to_html(Path(folder, "page.html"), live=True)
        events = sim.run().events
        for _ in range(_RUNS):
            page = chrome.new_page(viewport={"width": 1280, "height": 720})
            page.goto(file.as_uri(), wait_until="commit")
            page.evaluate(_SHOWN, 0)
            page.get_by_role("tab", name="Inspect", exact=True).click()
            field = page.get_by_label("Object to inspect")
            field.fill("gpu[3]")
            field.press("Enter")
            page.locator(".anb-to_end").click()
            page.evaluate(_SHOWN, events)
            page.wait_for_timeout(3000)
            for name, work in _WORK.items():
                found[name].append(page.evaluate(_GAP, work))
            page.close()
    limit = _GAP_LIMIT_MS[gpus]
    for name, times in found.items():
        gap, took = median(gap for gap, _ in times), median(took for _, took in times)
        row(
            f"{gpus} GPUs, {events:,} events, {name}: longest time between two frames (limit {limit} ms)",
            gap,
            "ms",
            f"the {took / 1000:.1f} s that it takes",
            gap / took,
        )
