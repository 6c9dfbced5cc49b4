"""The loop in a page does what the native one does."""

from __future__ import annotations

import astranb as anb
from astranb.widgets.feed import Columns, feed_of
from astranb.widgets.live import live
from astranb.widgets.session import session_of
from tests.widgets.live.kernels import page_kernel


def test_a_run_in_a_page_ends_as_the_native_one():
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    with page_kernel(sim) as page:
        page.send({"type": "ready"})
        state, _ = page.send({"type": "to_end"})[-1]
    sim.run()
    assert state["counts"] == sim.counts


def test_a_page_holds_nothing_of_what_was_recorded():
    sim = anb.Simulation("ring:gpus=4", anb.collectives.all_reduce("8 KiB", "ring"))
    sizes = []
    for _ in range(2):
        columns = Columns()
        live(feed_of(session_of(sim)), columns)
        sizes.append(sum(map(len, columns.buffers)))
        sim.run()
    assert abs(sizes[0] - sizes[1]) < 1000  # of megabytes that were recorded
