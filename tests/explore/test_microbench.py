"""The simulated GPUs measure what was measured on real ones, within 10 %."""

import pytest

import astranb as anb

# caps-tum/mt4g @4cc5566, RRZE-HPC/gpu-benches @1038c5d, markdewing/AI_kernels: ns and GB/s.
PUBLISHED = {
    "h100-sxm": {"L2 hit, near": 111, "L2 hit, far": 239, "memory": 421, "streaming reads": 2750},
    "a100-sxm": {"L2 hit, near": 146, "L2 hit, far": 285, "memory": 377, "streaming reads": 1805},
    "mi300x": {"L2 hit, near": 102, "L2 hit, far": 218, "memory": 410, "streaming reads": 3900},
    "b200-sxm": {"L2 hit, near": 150, "memory": 438},
}


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
