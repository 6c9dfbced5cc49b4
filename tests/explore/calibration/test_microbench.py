"""The simulated GPUs measure what was measured on real ones, within 10 %."""

import json
from pathlib import Path

import pytest

import astranb as anb

PUBLISHED = json.loads((Path(__file__).parents[2] / "data" / "published.json").read_text())["gpus"]


@pytest.mark.parametrize("gpu", sorted(PUBLISHED))
def test_latencies_and_bandwidths(gpu):
    table = anb.explore.microbenchmarks(gpu).set_index("what")["value"]
    for what, published in PUBLISHED[gpu].items():
        assert table[what] == pytest.approx(published, rel=0.10), what


def test_more_blocks_copy_faster_until_the_links_are_full():
    table = anb.explore.microbenchmarks("h100-sxm", "dgx-h100").set_index("what")["value"]
    copies = [table[f"copy to a peer, {n} blocks"] for n in (1, 4, 16, 64)]
    assert copies == sorted(copies)
    assert copies[1] == pytest.approx(4 * copies[0], rel=0.05)
    # NVLink 4: 450 GB/s a direction, of which NCCL reaches 370 (nccl-tests#212).
    assert 350 < copies[3] < 450
