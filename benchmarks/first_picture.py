"""The time from ``Workbench(sim)`` with 1,024 GPUs or ranks to its first picture, and the bytes sent."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from tests.ui.harness import Lab, evaluate, open_notebook, run_cell, wait_idle

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_LIMIT_S = 2.0
_BUILD_LIMIT_S = 20.0
_BUILD_S = 600

_CLOS = """
import astranb as anb, time
began = time.perf_counter()
sim = anb.Simulation("clos:servers=128", anb.collectives.all_reduce("64 KiB", "hierarchical"))
built = time.perf_counter() - began
"""
_STEP = """
import astranb as anb, time
import astranb.workload.models as models
began = time.perf_counter()
step = models.workload("gpt3-175b", models.Parallelism(data=8, tensor=8, pipeline=16))
sim = anb.Simulation(step)
built = time.perf_counter() - began
"""
_SHOW = "workbench = anb.Workbench(sim)\nworkbench"
_SCENE = "[len(__import__('json').dumps(m)) + sum(map(len, b)) for m, b in [workbench.feed.scene()]][0]"

_SYSTEMS = (
    # what, the cell that makes it, the limit in seconds of that, what is painted last
    ("1,024-GPU Clos, 64 KiB hierarchical all-reduce", _CLOS, _BUILD_LIMIT_S, ".anb-groups > *"),
    ("GPT-3 175B, 8 x 8 x 16 ranks, a step", _STEP, None, ".anb-ranks[data-drawn]"),
)

# From running the cell to the frame after the state has been drawn, and after what comes last has.
_PAINTED = """async last => {
    const panel = window.jupyterapp.shell.currentWidget
    panel.content.activeCellIndex = 1
    const began = performance.now()
    window.jupyterapp.commands.execute("notebook:run-cell")
    const painted = test => new Promise(done => {
        const look = () => {
            if (test()) setTimeout(() => done(performance.now() - began))
            else requestAnimationFrame(look)
        }
        look()
    })
    const first = await painted(() => document.querySelector(".anb-workbench")?.dataset.events)
    const whole = await painted(() => document.querySelector(last))
    return [first, whole]
}"""


def first_picture(chrome: Browser, lab: Lab, row: Callable[..., None]) -> None:
    """Add the rows of a Clos network of 1,024 GPUs, and of a training step of as many ranks."""
    for what, make, limit_s, last in _SYSTEMS:
        page = chrome.new_page(viewport={"width": 1400, "height": 1000})
        page.set_default_timeout(_BUILD_S * 1000)
        open_notebook(page, lab, [make, _SHOW])
        run_cell(page, 0, wait=False)
        wait_idle(page, timeout_s=_BUILD_S)
        built = evaluate(page, "built")
        if limit_s is None:
            row(f"{what}: Simulation(...)", built, "s")
        else:
            row(
                f"{what}: Simulation(...) (limit {limit_s:g} s)",
                built, "s", f"the limit of {limit_s:g} s", built / limit_s,
            )  # fmt: skip
        first, whole = page.evaluate(_PAINTED, last)
        wait_idle(page)
        row(
            "  Workbench(sim) to the first picture (limit 2 s)",
            first / 1000, "s", f"the limit of {_LIMIT_S:g} s", first / 1000 / _LIMIT_S,
        )  # fmt: skip
        row("  until what is asked for then is painted, too", whole / 1000, "s")
        row("  bytes of the scene", evaluate(page, _SCENE) / 1e3, "kB")
        page.close()
