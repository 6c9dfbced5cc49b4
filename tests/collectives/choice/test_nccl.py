"""NCCL's choice against public records of what it chose.

- H100, H200: "Inside NCCL's all-reduce: ring, double binary tree, or neither?", a blog of 2 August 2026 with
  NCCL's tuning log at commit 5067397c: one node of 8 H100 (ring and LL up to 1 MiB, NVLS from 2 MiB; blocks
  of three sizes; the same on 8 H200). Its runs over EFA are left out: there AWS's tuner plugin decides
  (aws/aws-ofi-nccl @2daf7d30 src/tuner/nccl_ofi_regions.cpp), not NCCL's model.
- https://github.com/NVIDIA/nccl-tests/issues/309 (23 May 2025), 8 H100: 8 B to 1 MB RING and LL, from
  2 MB NVLS and SIMPLE.
- stas00/ml-engineering @744d01e1 network/benchmarks/README.md, 8 H200: RING and LL up to 1 MiB, then NVLS.
- https://github.com/NVIDIA/nccl/pull/2343, B200: Ring/LL128 is modelled at 640 GB/s on two GPUs, about 480
  on three.
- https://github.com/NVIDIA/nccl/issues/1455, 8 H100, GPUs 1 to 8: NVLS gains on the ring from 5 GPUs on.
- https://github.com/NVIDIA/nccl/issues/1453, three nodes of 8 H100 with eight 200 Gb/s NICs each (NCCL
  2.22.3): "2048 Bytes -> Algo 0 proto 0 time 25.495272", and so on.
- https://github.com/NVIDIA/nccl-tests/issues/100, HGX A100: "Channel 23/24".
"""

from dataclasses import replace

import pytest

from astranb.collectives.choice.nccl import choose_nccl, nccl_candidates, nccl_cost
from astranb.collectives.choice.nccl_graphs import channel_graphs
from astranb.collectives.choice.topology import LibraryView, library_view
from astranb.core.errors import InputError
from astranb.infragraph import resolve

H100 = LibraryView(8, 8, "h100-sxm", 90, links=18, switched=True, cpu="intel")
A100 = LibraryView(8, 8, "a100-sxm", 80, links=12, switched=True, cpu="amd")
KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30


def chosen(view: LibraryView, size: int, collective: str = "all_reduce") -> tuple[str, str]:
    choice = choose_nccl(view, collective, size)
    return choice.algorithm, choice.protocol


@pytest.mark.parametrize("power", range(8, 33))
def test_one_node_of_h100(power):
    expected = ("Ring", "LL") if power <= 20 else ("NVLS", "Simple")
    assert chosen(H100, 1 << power) == expected


@pytest.mark.parametrize("size,blocks", [(4 * KiB, 1), (MiB, 24), (2 * MiB, 16)])
def test_channels_of_one_node_of_h100(size, blocks):
    """The log's ``channel{Lo..Hi}``: {0..0}, {0..23}, {0..15}."""
    assert choose_nccl(H100, "all_reduce", size).blocks == blocks


@pytest.mark.parametrize(
    "size,protocol,time_us",
    [
        (2048, "LL", 25.495272),
        (65_536, "LL", 37.798233),
        (131_072, "LL128", 51.603912),
        (262_144, "LL128", 54.707825),
    ],
)
def test_the_predicted_times_are_nccls(size, protocol, time_us):
    view = LibraryView(24, 8, "h100-sxm", 90, links=18, switched=True, nics=8, nic_GBps=25.0, cpu="intel")
    assert channel_graphs(view).channels == 16  # "16 coll channels, ... 16 nvls channels"
    best = nccl_candidates(view, "all_reduce", size)[0]
    assert (best.algorithm, best.protocol) == ("Tree", protocol)
    assert best.time_us == pytest.approx(time_us, abs=2e-6)


@pytest.mark.parametrize("gpus,rate_GBps", [(2, 640), (3, 480)])
def test_the_modelled_bandwidth_of_b200_is_nccls(gpus, rate_GBps):  # noqa: N803 - unit in the name
    view = LibraryView(gpus, gpus, "b200-sxm", 100, links=18, switched=True)
    ring = next(
        c for c in nccl_candidates(view, "all_reduce", GiB) if (c.algorithm, c.protocol) == ("Ring", "LL128")
    )
    assert ring.bandwidth_GBps == pytest.approx(rate_GBps)


@pytest.mark.parametrize("gpus", range(2, 9))
def test_nvls_is_worth_it_from_five_gpus_on(gpus):
    view = LibraryView(gpus, gpus, "h100-sxm", 90, links=18, switched=True)
    assert chosen(view, 2 * GiB)[0] == ("NVLS" if gpus > 4 else "Ring")


def test_channels_of_the_search():
    assert channel_graphs(A100).channels == 24
    assert channel_graphs(H100).nvls_channels == 16
    assert channel_graphs(A100).nvls.channels == 0


def test_a100_has_no_nvls():
    assert {one.algorithm for one in nccl_candidates(A100, "all_reduce", MiB)} == {"Tree", "Ring"}
    assert chosen(A100, KiB) == ("Ring", "LL")
    assert chosen(A100, 4 * MiB) == ("Ring", "LL128")
    assert chosen(A100, GiB) == ("Ring", "Simple")


@pytest.mark.parametrize("collective", ["all_gather", "reduce_scatter"])
def test_rings_gather_and_scatter(collective):
    """NVLS is "supposed to be always slower than the ring" there (the thread that NVIDIA/nccl#2377 ends)."""
    assert {chosen(H100, 1 << power, collective)[0] for power in range(10, 31)} == {"Ring"}


def test_pat_between_nodes_of_one_gpu():
    view = LibraryView(16, 1, "h100-sxm", 90, links=18, switched=True, nics=1, nic_GBps=48.0)
    assert {one.algorithm for one in nccl_candidates(view, "all_gather", MiB)} == {"Ring", "PAT"}


def test_small_messages_have_few_threads():
    """``topoGetAlgoInfo``: 512 threads are halved down to 64, never below three warps."""
    assert choose_nccl(H100, "all_reduce", KiB).threads == 96
    assert choose_nccl(H100, "all_reduce", 64 * KiB).threads == 512
    assert choose_nccl(A100, "all_reduce", GiB).threads == 512 + 32


@pytest.mark.parametrize(
    "size,blocks,protocol", [(64 * KiB, 7, "LL"), (4 * MiB, 28, "Simple"), (GiB, 56, "Simple")]
)
def test_an_exchange_has_channels_for_each_peer(size, blocks, protocol):
    choice = choose_nccl(H100, "all_to_all", size)
    assert (choice.blocks, choice.protocol) == (blocks, protocol)


@pytest.mark.parametrize(
    "size,channels,chunk", [(MiB, 1, 32 * KiB), (8 * MiB, 4, 64 * KiB), (256 * MiB, 4, 128 * KiB)]
)
def test_an_exchange_between_nodes_goes_by_the_receivers_rail(size, channels, chunk):
    """``ncclTopoGetNchannels`` (14 GB/s a channel) and ``addP2pToPlan`` (64 KiB at least, then the chunk)."""
    two = LibraryView(16, 8, "h100-sxm", 90, links=18, switched=True, nics=8, nic_GBps=48.0)
    choice = choose_nccl(two, "all_to_all", size)
    assert (choice.simulated, choice.protocol) == ("pxn", "Simple")
    assert (choice.channels, choice.chunk_bytes, choice.blocks) == (channels, chunk, 2 * channels)
    assert choose_nccl(two, "send_recv", size).simulated == "pxn"
    assert "NIC of the receiver's rail" in choice.why[-1]
    assert "sender's NIC" in choose_nccl(two, "scatter", size).difference


def test_what_it_sees_of_a_dgx_h100():
    assert library_view(resolve("dgx-h100"), "h100-sxm") == replace(H100, saved_us=1.17)
    two = library_view(resolve("clos:servers=2,server=dgx-h100"), "h100-sxm")
    assert (two.nodes, two.nics, two.nic_GBps) == (2, 8, 48.0)
    assert library_view(resolve("dgx-a100"), "a100-sxm") == replace(A100, saved_us=1.26)


@pytest.mark.parametrize(
    "name,gpu,says",
    [
        ("switch:gpus=4", "h100-sxm", "without NVLink or xGMI"),
        ("dgx-h100", "generic", "no model of the library of GPU 'generic'"),
    ],
)
def test_a_machine_without_a_model(name, gpu, says):
    with pytest.raises(InputError, match=says):
        library_view(resolve(name), gpu)


@pytest.mark.parametrize("rate,says", [(0.05, "NICs of 0.05 GB/s"), (0.0, "without NICs between them")])
def test_nodes_that_nothing_fast_joins(rate, says):
    view = LibraryView(16, 8, "h100-sxm", 90, 18, switched=True, nics=int(rate > 0), nic_GBps=rate)
    with pytest.raises(InputError, match=says):
        choose_nccl(view, "all_reduce", MiB)


def test_a_mesh_of_nvlinks_has_no_model():
    with pytest.raises(InputError, match="without a switch"):
        choose_nccl(LibraryView(8, 8, "v100", 70, links=6, switched=False), "all_reduce", MiB)


def test_two_gpus_need_no_switch():
    """By hand: 12 links of 20.6 GB/s are 247.2: 4 channels of 60, each split in two; no NVLS."""
    view = library_view(resolve("h100-nvl"))
    assert (view.links, view.switched, view.per_node) == (12, False, 2)
    graphs = channel_graphs(view)
    assert (graphs.ring.channels, graphs.ring.intra_GBps, graphs.nvls.channels) == (8, 30.0, 0)
    assert {one.algorithm for one in nccl_candidates(view, "all_reduce", MiB)} == {"Ring", "Tree"}


@pytest.mark.parametrize("infra,pcie", [("l40s", 22.0), ("rtxpro6000", 22.0)])
def test_cards_have_rings_over_pcie(infra, pcie):
    """By hand: 22 GB/s between sockets, a ring of 20; 6.6 us and 14 hops of 1 us by LL, no LL128, no NVLS."""
    view = library_view(resolve(infra))
    assert (view.pcie_GBps, view.gpu_GBps, view.nodes) == (pcie, pcie, 1)
    graphs = channel_graphs(view)
    assert (graphs.ring.channels, graphs.ring.intra_GBps, graphs.channels) == (1, 20.0, 2)
    assert graphs.nvls.channels == 0
    found = {(one.algorithm, one.protocol): one for one in nccl_candidates(view, "all_reduce", KiB)}
    assert {protocol for _, protocol in found} == {"LL", "Simple"}
    assert found["Ring", "LL"].latency_us == pytest.approx(6.6 + 14)
    assert found["Ring", "Simple"].latency_us == pytest.approx(8.4 + 14 * 5.7)
    assert choose_nccl(view, "all_reduce", KiB).protocol == "LL"
    assert choose_nccl(view, "all_reduce", 16 * MiB).simulated == "ring"


@pytest.mark.parametrize(
    "size,chunk", [(4 * MiB, 16 * KiB), (16 * MiB, 32 * KiB), (64 * MiB, 64 * KiB), (GiB, 128 * KiB)]
)
def test_nvls_fills_its_buffers_and_empties_them(size, chunk):
    """A round of 16 channels for 8 heads before the switch adds the first, and one after the last."""
    cost = nccl_cost(H100, "all_reduce", size)
    assert cost.fill_bytes == 2 * 16 * 8 * chunk
    assert nccl_cost(H100, "all_reduce", MiB).fill_bytes == 0  # a ring of packets


def test_nvls_between_nodes_is_as_fast_within_one():
    """The search between nodes gives a head of B200 48 GB/s, what its NIC carries; alone it has 80."""
    two = library_view(resolve("single-tier:servers=2,server=dgx-b200"))
    best, cost = nccl_candidates(two, "all_reduce", GiB)[0], nccl_cost(two, "all_reduce", GiB)
    assert best.algorithm == "NVLSTree"
    assert best.bandwidth_GBps < 300 < cost.bandwidth_GBps < 8 * 50
    assert cost.bandwidth_GBps == pytest.approx(8 * 2 * 48 * 0.92 * 16 / 30)


def test_an_exchange_is_posted_chunk_by_chunk():
    """Eight ranks send through a NIC to its rail's rank: 64 KiB to each, in chunks of 32 KiB."""
    two = library_view(resolve("single-tier:servers=2,server=dgx-h100"))
    assert nccl_cost(two, "all_to_all", KiB).posts == 8
    assert nccl_cost(two, "all_to_all", MiB).posts == 8 * 2
    assert nccl_cost(H100, "all_to_all", MiB).posts == 0


def test_all_peers_of_an_exchange_share_the_channels():
    large = nccl_cost(H100, "all_to_all", GiB)
    assert large.blocks == 32 < choose_nccl(H100, "all_to_all", GiB).blocks
    assert large.fill_bytes == 32 * 512 * KiB
    assert nccl_cost(H100, "all_to_all", KiB).fill_bytes == 0  # packets are taken out as they come
