"""Response times of the workbench, in a real JupyterLab and a real browser.

Every figure is compared with a bare ipywidgets button of the same notebook, whose time the machine,
JupyterLab and the kernel need in any case.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import TYPE_CHECKING, Any

from astranb import Simulation
from astranb.collectives import all_reduce
from tests.ui.harness import (
    BARE,
    CYCLES,
    OPEN,
    chromium,
    kept,
    open_notebook,
    run_all,
    run_cell,
    serve,
    wait_idle,
)

from . import NotMeasured, attempted, measured
from .first_picture import first_picture
from .hosts import in_browsers
from .lite import lite
from .timelines import WINDOW, window
from .trace_timeline import OPENS, READS, million, opened

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.ui.harness import Lab

Row = Callable[..., None]

_CLICKS = 40
_SETTLED_MS = 700  # after a step its views ask the kernel: the next click comes when it is idle again
_CYCLES = 1000
_CYCLES_S = 900
_PAUSES = 40
_FRAMES_S = 5
_STARTS = (0.98, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3)
_SENT_MS = 10_000
_MOVING = "least => Number(document.querySelector('.anb-workbench').dataset.dots) >= least"

_BARE = """
import ipywidgets
label, button = ipywidgets.Label("0"), ipywidgets.Button(description="bare")
def count(_):
    label.value = str(int(label.value) + 1)
button.on_click(count)
ipywidgets.HBox([button, label])
"""
_RING = """
import astranb as anb
sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("1 MiB", "ring"))
sim.step(200_000)
anb.Workbench(sim)
"""
_LONG = """
long = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 MiB", "ring"))
anb.Workbench(long)
"""
_DENSE = """
dense = anb.Simulation("dgx-h100", anb.collectives.all_reduce("8 MiB", "ring", channels=64))
dense.run("9 us")
anb.Workbench(dense)
"""

_MANY = """
far = anb.Simulation(anb.infragraph.load('''
name: far apart
devices:
  - name: box
    components: [{name: gpu, count: 8, choice: xpu}, {name: sw, count: 4, choice: switch}]
    links: [{name: long, physical: {bandwidth: {gigabytes_per_second: 100}, latency: {ns: 20000}}}]
    edges: [{ep1: {component: gpu}, ep2: {component: sw}, scheme: many2many, link: long}]
instances: [{name: box, device: box, count: 1}]
'''), anb.collectives.all_gather("64 MiB", "ring", channels=64), gpu="h100-sxm")
far.run("24 us")  # the first lines arrive after 20 us: until then nothing happens, and all are in flight
anb.Workbench(far)
"""

_MESSAGES = """
import astranb as anb
from astranb.workload.astrasim2 import COLLECTIVE, DimensionNetwork, Operations, System, Workload
from astranb.workload.astrasim2.kinds import ALL_TO_ALL
system = System.from_document({
    "all-to-all-implementation": ["direct"], "preferred-dataset-splits": 4,
    "active-chunks-per-dimension": 4, "local-mem-bw": 1600,
})
rank = Operations.of([{"kind": COLLECTIVE, "collective": ALL_TO_ALL, "bytes": 64 << 20}])
network = DimensionNetwork(["Switch"], [64], [50], [20000])
crowd = anb.Simulation(Workload([rank] * 64, network, system), fidelity="analytical")
crowd.run("30 us")
anb.Workbench(crowd)
"""


@dataclass(frozen=True)
class _Crowd:
    """A picture in which much moves.

    Attributes
    ----------
    cell : str
        Makes the simulation and shows it.
    things : str
        What moves.
    least : int
        How many of them there must be in a frame that counts.
    frames : int
        The fewest frames a second asked for.
    start : float
        Where playing begins, as a part of what is simulated; elsewhere if too little moves there.
    power : float
        The power of ten of the simulated ps a second.
    """

    cell: str
    things: str
    least: int
    frames: int
    start: float
    power: float


_CROWDS = (
    _Crowd(_DENSE, "lines", 10_000, 55, 0.36, 4.7),
    _Crowd(_MANY, "lines", 100_000, 55, 0.8, 4.7),
    _Crowd(_MESSAGES, "messages", 10_000, 50, 0.5, 5.7),
)

# From a click to the end of the first frame that shows the change. What changes from a message
# is painted by the next frame: its own callback runs before that, a timer set in it after. The
# workbench changes its attributes in the callback of the frame that draws: a timer is enough.
_CLICK = """async ([button, seen, attribute]) => {
    const target = document.querySelector(seen)
    const began = performance.now()
    const changed = new Promise(done => {
        const observer = new MutationObserver(() => {
            observer.disconnect()
            const painted = () => setTimeout(() => done(performance.now() - began))
            attribute ? painted() : requestAnimationFrame(painted)
        })
        const what = attribute
            ? { attributes: true, attributeFilter: [attribute] }
            : { childList: true, subtree: true, characterData: true }
        observer.observe(target, what)
    })
    document.querySelector(button).click()
    return changed
}"""

# How long the callbacks of frames take that show another event.
_TIMED = """() => {
    const root = document.querySelector(".anb-workbench")
    const request = window.requestAnimationFrame.bind(window)
    window.drawing = []
    window.requestAnimationFrame = call => request(now => {
        const [began, before] = [performance.now(), root.dataset.events]
        call(now)
        if (root.dataset.events !== before) window.drawing.push(performance.now() - began)
    })
}"""

_DRAWN = """async ([seconds, lines]) => {
    const root = document.querySelector(".anb-workbench")
    const began = performance.now()
    let last = began, frames = 0, drawn = 0, before = root.dataset.frames
    const gaps = [], counts = []
    while (last - began < 1000 * seconds) {
        const now = await new Promise(requestAnimationFrame)
        if (root.dataset.frames !== before && Number(root.dataset.dots) >= lines) {
            gaps.push(now - last)
            counts.push(Number(root.dataset.dots))
        }
        before = root.dataset.frames
        last = now
    }
    return [gaps, counts]
}"""


def browser(row: Row, only: Collection[str] = ()) -> bool:
    """Add the browser's rows to the table: of all parts, or of those named; false if one measured nothing."""
    complete = True
    with tempfile.TemporaryDirectory() as folder:
        home, root = Path(folder, "home"), Path(folder, "root")
        home.mkdir()
        root.mkdir()
        with serve(home, root) as lab, chromium() as chrome:
            for name, part in PARTS.items():
                if not only or name in only:
                    complete &= attempted(name, partial(part, chrome, lab, row))
    return complete


def _clicks(chrome: Browser, lab: Lab, row: Row) -> None:
    page = _page(chrome, lab, [_BARE, _RING, _LONG], workbenches=2)
    _steps(page, row)
    _pauses(page, row)
    page.close()


def _crowds(things: str, chrome: Browser, lab: Lab, row: Row) -> None:
    for crowd in _CROWDS:
        if crowd.things == things:
            page = _page(chrome, lab, ["import astranb as anb", crowd.cell], workbenches=1)
            _frames(page, row, crowd)
            page.close()


def _window(chrome: Browser, lab: Lab, row: Row) -> None:
    page = _page(chrome, lab, [WINDOW], workbenches=1)
    window(page, row)
    page.close()


def _traces(chrome: Browser, lab: Lab, row: Row) -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "million.et")
        million(file)
        page = chrome.new_page(viewport={"width": 1400, "height": 1400})
        page.set_default_timeout(120_000)
        open_notebook(page, lab, [READS.format(file=str(file)), OPENS])
        opened(page, row)
        page.close()


def _page(chrome: Browser, lab: Lab, cells: list[str], *, workbenches: int) -> Page:
    """A page with a notebook whose cells have been run, and whose workbenches are drawn."""
    page = chrome.new_page(viewport={"width": 1400, "height": 1400})
    page.set_default_timeout(60_000)
    open_notebook(page, lab, cells)
    run_all(page)
    page.wait_for_function(
        f"document.querySelectorAll('.anb-workbench[data-events]').length === {workbenches}"
    )
    page.wait_for_timeout(1500)
    return page


def _steps(page: Page, row: Row) -> None:
    """Measure from a click on Step to the painted picture, alternating with a bare button."""
    bare, step = [], []
    page.evaluate(_TIMED)
    for _ in range(_CLICKS):
        bare.append(page.evaluate(_CLICK, [".jupyter-button", ".widget-label", ""]))
        page.wait_for_timeout(_SETTLED_MS)
        step.append(page.evaluate(_CLICK, [".anb-step-event", ".anb-workbench", "data-events"]))
        page.wait_for_timeout(_SETTLED_MS)
    for name, of in (("median", median), ("p95", _p95)):
        row(f"a bare ipywidgets button, click to painted, {name}", of(bare), "ms")
        row(f"Step, click to painted, {name}", of(step), "ms", "bare button", of(step) / of(bare))
    row("Step beyond the bare button, p95 (limit 10 ms)", _p95(step) - _p95(bare), "ms")
    drawing = _p95(page.evaluate("window.drawing"))
    row("Step in the browser: what drawing it takes, p95 (limit 5 ms)", drawing, "ms", "5 ms", drawing / 5)


def _pauses(page: Page, row: Row) -> None:
    """Click Pause, while the kernel simulates as fast as it can, to the picture at rest."""
    took: list[float] = []
    bench = page.locator(".anb-workbench").nth(1)
    page.evaluate("document.querySelectorAll('.anb-workbench')[1].id = 'long'")
    for _ in range(_PAUSES):
        events = bench.get_attribute("data-events")
        bench.locator(".anb-to_end").click()
        page.wait_for_function(f"document.querySelector('#long').dataset.events !== '{events}'")
        page.wait_for_timeout(200)
        took.append(page.evaluate(_CLICK, ["#long .anb-play", "#long .anb-play", "aria-label"]))
    row("Pause at full speed, click to picture at rest, median", median(took), "ms")
    row("Pause at full speed, p95 of 40 (limit 120 ms)", _p95(took), "ms", "120 ms", _p95(took) / 120)


def _find(page: Page, crowd: _Crowd) -> None:
    """Put the view where enough moves, and wait for it: a machine that is faster plays before it is sent."""
    from playwright.sync_api import TimeoutError as TooLong

    cursor = page.locator(".anb-workbench").get_by_label("View cursor")
    for start in (crowd.start, *_STARTS):
        cursor.fill(str(start))
        with suppress(TooLong):
            page.wait_for_function(_MOVING, arg=crowd.least, timeout=_SENT_MS)
            return
    raise NotMeasured(f"{crowd.least:,} {crowd.things} are nowhere in flight")


def _frames(page: Page, row: Row, crowd: _Crowd) -> None:
    """Frames a second while at least so much moves in the picture."""
    shown = page.locator(".anb-workbench")
    shown.scroll_into_view_if_needed()
    shown.get_by_label("Speed").fill(str(crowd.power))
    _find(page, crowd)
    shown.locator(".anb-play").click()
    page.wait_for_timeout(500)
    things, asked = crowd.things, crowd.frames
    gaps, counts = page.evaluate(_DRAWN, [_FRAMES_S, crowd.least])
    row(f"{things} in flight while frames are counted, at least", min(measured(counts, things)), things)
    rate = 1000 * len(gaps) / sum(gaps)
    what = f"frames with {crowd.least:,} {things} and more (least {asked})"
    row(what, rate, "frames/s", f"the {asked} asked for", rate / asked)
    row("the same, from one frame to the next, p95", _p95(gaps), "ms")
    shown.locator(".anb-play").click()


def _leaks(chrome: Browser, lab: Lab, row: Row) -> None:
    """Measure what opening and closing a view a thousand times leaves in the browser, beside a bare label."""
    left = []
    for first in (BARE, OPEN):
        page = chrome.new_page(viewport={"width": 1400, "height": 1400})
        page.set_default_timeout(120_000)
        open_notebook(page, lab, [first, CYCLES.format(cycles=20), CYCLES.format(cycles=_CYCLES)])
        run_cell(page, 0)
        run_cell(page, 1)
        before = kept(page)
        run_cell(page, 2, wait=False)
        wait_idle(page, timeout_s=_CYCLES_S)
        after = kept(page)
        left.append({name: (after[name] - before[name]) / _CYCLES for name in before})
        page.close()
    for name, unit in (("Nodes", ""), ("JSEventListeners", ""), ("JSHeapUsedSize", "bytes")):
        bare, view = (one[name] for one in left)
        row(f"{name} left by each of {_CYCLES:,} open/close cycles", view, unit, "a bare label", view / bare)


def _back(_chrome: Browser, _lab: Lab, row: Row) -> None:
    """Going back over a million events, to the state there."""
    sim = Simulation("dgx-h100", all_reduce("2 MiB", "ring"))
    sim.run()
    took = []
    for _ in range(5):
        began = perf_counter()
        sim.back(1_000_000)
        took.append(1e3 * (perf_counter() - began))
        sim.run()
    row(
        "back over 1,000,000 events, median of 5 (limit 500 ms)",
        median(took),
        "ms",
        "500 ms",
        median(took) / 500,
    )


PARTS: dict[str, Callable[[Browser, Lab, Row], None]] = {
    "clicks": _clicks,
    "lines": partial(_crowds, "lines"),
    "messages": partial(_crowds, "messages"),
    "window": _window,
    "traces": _traces,
    "first-picture": first_picture,
    "live-page": in_browsers,
    "leaks": _leaks,
    "back": _back,
    "lite": lite,
}
"""The parts of the table that need a browser, by name."""


def _p95(values: list[Any]) -> float:
    return float(sorted(values)[int(0.95 * (len(values) - 1))])
