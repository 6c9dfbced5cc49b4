"""Pictures of the states that a workbench is most often in, light and dark, kept in ``build/ui``.

They are there to be looked at. What a test can say of them is checked: each has been drawn, no
part stands out of the workbench, and no text is wider than what it stands in.
"""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.ui.harness import THEMES, Host, evaluate, screenshot

_RUN = """
import astranb as anb
sim = anb.Simulation({!r}, anb.collectives.Collective.of({!r}, {!r}, {!r}))
sim.run({!r})
workbench = anb.Workbench(sim)
workbench
"""
_CLOSED = {"blocks": False, "activity": False}
_STATES = {
    8: {
        "start": ("", {}),
        "inspect": ("gpu[3]", {}),
        "explain": ("gpu[5]", {"side": "explain"}),
        "change": ("dgx_h100.0.xpu.0->dgx_h100.0.nvsw.0", {"side": "change"}),
        "breakpoints": ("gpu[2]", {"side": "breaks"}),
        "source": ("gpu[1].block.0", {"side": "source"}),
        "table": ("gpu[4]", {"stage": "table"}),
        "data": ("gpu[6]", {"stage": "chunks"}),
        "traffic": ("", {"stage": "traffic"}),
        "buffer": ("gpu[7]", {**_CLOSED, "buffer": True}),
    },
    64: {"start": ("", {}), "traffic": ("gpu[9]", {"stage": "traffic"}), "inspect": ("gpu[20]", _CLOSED)},
    1024: {"start": ("", _CLOSED), "inspect": ("gpu[77]", {}), "table": ("", {"stage": "table"})},
}
_RUNS = {
    8: ("dgx-h100", "all_reduce", "1 MiB", "ring", "11 us"),
    64: ("clos:servers=8,per_leaf=4", "all_gather", "256 KiB", "ring", "20 us"),
    1024: ("clos:servers=128,per_leaf=4", "send_recv", "1 KiB", "put", "3 us"),
}

# What of the page is wrong: what stands out of the workbench, and texts that are cut without a sign of it.
_WRONG = """() => {
    const root = document.querySelector(".anb-workbench")
    const outer = root.getBoundingClientRect()
    const wrong = []
    for (const part of root.querySelectorAll("*")) {
        const scrolls = ".anb-holder, .anb-code, .anb-tablepanel, .anb-unseen, svg, datalist, select"
        if (!part.checkVisibility() || part.closest(scrolls)) continue
        const { left, right, width, height } = part.getBoundingClientRect()
        if (!width || !height) continue
        const name = `${part.tagName}.${part.className}: ${part.textContent.slice(0, 40)}`
        if (left < outer.left - 1 || right > outer.right + 1) wrong.push(`out: ${name}`)
        const style = getComputedStyle(part)
        const cut = part.clientWidth > 0 && part.scrollWidth > part.clientWidth + 1 && !part.childElementCount
        const silent = style.overflowX === "hidden" && style.textOverflow !== "ellipsis"
        if (cut && silent) wrong.push(`cut: ${name}`)
    }
    return wrong
}"""


@pytest.mark.slow
@pytest.mark.parametrize("gpus", [8, 64, 1024])
def test_pictures_of_the_states_in_use(host: Host, gpus: int) -> None:
    page = host.page
    bench = host.show(_RUN.format(*_RUNS[gpus]), height=1250)
    expect(bench).to_have_attribute("data-events", str(evaluate(host, "sim.events")), timeout=60_000)
    bench.scroll_into_view_if_needed()
    for state, (selection, panels) in _STATES[gpus].items():
        host.change(f"[workbench.select({selection!r}), setattr(workbench, '_panels', {panels!r})]")
        page.wait_for_timeout(500)  # what the panels ask is answered
        for theme in THEMES:
            host.set_theme(theme)
            page.wait_for_timeout(200)
            screenshot(host, f"state-{gpus}-{state}-{theme}")
            assert page.evaluate(_WRONG) == [], state
