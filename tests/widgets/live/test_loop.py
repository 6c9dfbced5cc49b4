"""The loop in a page does what the native one does."""

from __future__ import annotations

import astranb as anb
from tests.widgets.live.kernels import page_kernel


def test_a_run_in_a_page_ends_as_the_native_one():
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    with page_kernel(sim) as page:
        page.send({"type": "ready"})
        state, _ = page.send({"type": "to_end"})[-1]
    sim.run()
    assert state["counts"] == sim.counts
