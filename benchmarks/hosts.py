"""Native and Pyodide in one table: what people do, in CPython, in Pyodide, and in a page that is drawn."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import TYPE_CHECKING

import pytest

import astranb as anb
from astranb.browser import bring, node, runtime
from tests.browser.conftest import HERE, written
from tests.ui.firefox import firefox
from tests.ui.harness import largest_tab, served

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.ui.harness import Lab

__all__ = ["in_browsers", "in_node"]

_RUNS = 3
_STEPS = 40
_VERBS = Path(__file__).with_name("verbs.py")
_WHOLE_MB, _THIN_MB = 16.5, 1.0
_PICTURE_S, _STATE_S, _FIREFOX_S, _THIN_S, _END_S = 1.0, 4.0, 3.0, 2.5, 0.7
_STEP_MS, _BACK_MS, _GAP_MS = 60.0, 150.0, 130.0

_UNTIL = """async test => {
    const began = performance.now()
    const host = () => document.getElementById("anb-host")?.dataset ?? {}
    const bench = () => document.querySelector(".anb-workbench")?.dataset ?? {}
    const done = {
        picture: () => bench().frames,
        ready: () => host().ready && bench().events !== undefined,
    }[test] ?? (() => Number(bench().events) === Number(test))
    while (!done()) await new Promise(next => requestAnimationFrame(next))
    await new Promise(next => requestAnimationFrame(next))
    return performance.now() - began
}"""
"""Wait until a picture is drawn, Python is ready, or so many events are; gives how long it took."""

_DO = """async ([selector, events]) => {
    const bench = () => document.querySelector(".anb-workbench").dataset
    const [began, before] = [performance.now(), bench().events]
    let [last, most] = [began, 0]
    const frame = () => new Promise(next => requestAnimationFrame(() => {
        const now = performance.now()
        most = Math.max(most, now - last)
        last = now
        next()
    }))
    document.querySelector(selector).click()
    const done = () => events ? Number(bench().events) === events : bench().events !== before
    while (!done()) await frame()
    const took = performance.now() - began
    return [took, most]
}"""
"""Press something, until the events are others, or so many; gives how long it took, and the longest frame."""


def in_node(row: Callable[..., None], _bare: float) -> None:
    """Add the rows that need no browser: what people do, natively and in Pyodide, and how large pages are."""
    native: dict[str, float] = {}
    found: dict[str, float] = {}
    with TemporaryDirectory() as folder:
        python = written(Path(folder))
        other = [*node(), str(HERE / "pyodide.mjs"), str(python), str(_VERBS), folder]
        began = perf_counter()
        subprocess.run([*other[:-2], str(HERE / "nothing.py"), folder], check=True)
        row("Pyodide in Node, started, with NumPy and astranb unpacked", perf_counter() - began, "s")
        for command, into in (([sys.executable, "-m", "benchmarks.verbs"], native), (other, found)):
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            into.update(json.loads(done.stdout.splitlines()[-1]))
    for name, seconds in found.items():
        row(
            f"{name}: in Pyodide",
            1000 * seconds,
            "ms",
            f"native, {1000 * native[name]:,.1f} ms",
            seconds / native[name],
        )
    with TemporaryDirectory() as folder:
        whole, thin = (
            anb.export.page(_ring(), Path(folder, "page.html"), live=live).stat().st_size / 1e6
            for live in (True, "shared")
        )
    row(
        "whole page of a DGX H100, 1 MiB ring", whole, "MB", f"the limit of {_WHOLE_MB} MB", whole / _WHOLE_MB
    )
    row("thin page of the same", thin, "MB", f"the limit of {_THIN_MB} MB", thin / _THIN_MB)
    row("its runtime", sum(len(pack.data) for pack in runtime()) / 1e6, "MB")


def in_browsers(chrome: Browser, _lab: Lab, row: Callable[..., None]) -> None:
    """Add the rows of pages in Chromium and Firefox: whole from disk, thin from a server of this machine."""
    bring()
    events = _ring().run().events
    times: dict[str, list[float]] = {
        name: [] for name in ("picture", "state", "firefox", "thin", "step", "back", "end", "gap")
    }
    with TemporaryDirectory() as folder, served(Path(folder)) as address:
        whole = anb.export.page(_ring(), Path(folder, "page.html"), live=True)
        thin = anb.export.page(_ring(), Path(folder, "thin.html"), live="shared")
        for _ in range(_RUNS):
            page = chrome.new_page(viewport={"width": 1280, "height": 720})
            began = perf_counter()
            page.goto(whole.as_uri(), wait_until="commit")
            page.evaluate(_UNTIL, "picture")
            times["picture"].append(perf_counter() - began)
            page.evaluate(_UNTIL, "ready")
            times["state"].append(perf_counter() - began)
            _drive(page, events, times)
            memory = largest_tab()
            page.close()
        context = chrome.new_context(viewport={"width": 1280, "height": 720})
        for k in range(_RUNS + 1):  # the first one fills the cache
            page = context.new_page()
            began = perf_counter()
            page.goto(f"{address}/{thin.name}", wait_until="commit")
            page.evaluate(_UNTIL, "ready")
            if k:
                times["thin"].append(perf_counter() - began)
            page.close()
        context.close()
        with suppress(pytest.skip.Exception), firefox() as tab:
            for _ in range(_RUNS):
                began = perf_counter()
                tab.open(whole.as_uri())
                tab.wait("document.getElementById('anb-host').dataset.ready ?? ''", "true")
                times["firefox"].append(perf_counter() - began)
    for name, what, limit in (
        ("picture", "whole page from disk to its first picture", _PICTURE_S),
        ("state", "  to its first state by Python", _STATE_S),
        ("firefox", "  the same in Firefox", _FIREFOX_S),
        ("thin", "thin page, its Python in the browser's cache, to its first state", _THIN_S),
        ("end", f"  End of {events:,} events", _END_S),
    ):
        if not times[name]:
            continue  # there is no Firefox
        seconds = median(times[name])
        row(what, seconds, "s", f"the limit of {limit:g} s", seconds / limit)
    step = quantiles(times["step"], n=20)[-1]
    row(
        f"  Step to painted, 95 % of {len(times['step'])}",
        step,
        "ms",
        f"the limit of {_STEP_MS:g} ms",
        step / _STEP_MS,
    )
    for name, what, limit in (
        ("back", "  Back", _BACK_MS),
        ("gap", "  longest time between two frames", _GAP_MS),
    ):
        longest = median(times[name]) if name == "back" else max(times[name])
        row(what, longest, "ms", f"the limit of {limit:g} ms", longest / limit)
    row("  memory of the renderer, after End", memory / 1e6, "MB")


def _ring() -> anb.Simulation:
    return anb.Simulation("dgx-h100", anb.collectives.all_reduce("1 MiB", "ring"))


def _drive(page: Page, events: int, times: dict[str, list[float]]) -> None:
    page.wait_for_timeout(1000)
    for _ in range(_STEPS):
        took, gap = page.evaluate(_DO, [".anb-step-event", 0])
        times["step"].append(took)
        times["gap"].append(gap)
        page.wait_for_timeout(300)
    took, gap = page.evaluate(_DO, [".anb-to_end", events])
    times["end"].append(took / 1000)
    times["gap"].append(gap)
    page.wait_for_timeout(2000)
    took, gap = page.evaluate(_DO, [".anb-button.anb-back", 0])
    times["back"].append(took)
    times["gap"].append(gap)
