"""RCCL's and MSCCL++'s choice, and the one entrance to all three."""

import pytest

import astranb as anb
from astranb.cli import main
from astranb.collectives import LIBRARIES, library_choice
from astranb.collectives.choice.mscclpp import choose_mscclpp
from astranb.collectives.choice.nccl import choose_nccl
from astranb.collectives.choice.nccl_symmetric import choose_nccl_symmetric
from astranb.collectives.choice.rccl import choose_rccl, rccl_candidates
from astranb.collectives.choice.rccl_direct import choose_rccl_direct
from astranb.collectives.choice.serving import choose_sglang, choose_vllm
from astranb.collectives.choice.topology import LibraryView, library_view
from astranb.collectives.choice.trtllm import choose_trtllm
from astranb.core.errors import InputError
from astranb.hardware import preset
from astranb.infragraph import resolve

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30
MI300X = LibraryView(8, 8, "mi300x", 0, links=7, switched=False)
H100 = LibraryView(8, 8, "h100-sxm", 90, links=18, switched=True)
B200 = LibraryView(8, 8, "b200-sxm", 100, links=18, switched=True)
A100 = LibraryView(8, 8, "a100-sxm", 80, links=12, switched=True)
MI355X = LibraryView(8, 8, "mi355x", 0, links=7, switched=False)
GB200 = LibraryView(4, 4, "gb200", 100, links=18, switched=True)


@pytest.mark.parametrize(
    "size,algorithm,protocol,blocks",
    [
        (KiB, "MSCCL allpairs", "LL", 32),
        (64 * KiB, "MSCCL allpairs", "LL", 32),
        (256 * KiB, "MSCCL allpairs", "LL", 64),
        (512 * KiB, "MSCCL allpairs", "Simple", 64),
        (16 * MiB, "MSCCL allpairs", "Simple", 64),
        (32 * MiB, "Ring", "Simple", 56),
        (KiB + 4, "Ring", "LL", 1),  # 257 floats do not divide by 256 chunks
    ],
)
def test_rccl_goes_by_its_files_and_then_by_its_model(size, algorithm, protocol, blocks):
    """Sizes and thread blocks are attributes of ROCm/rccl @0cbce2a7 tools/msccl-algorithms/*.xml."""
    choice = choose_rccl(MI300X, "all_reduce", size)
    assert (choice.algorithm, choice.protocol, choice.blocks) == (algorithm, protocol, blocks)


def test_rccls_trees_send_what_fits_in_a_step_at_once():
    """A share of each rank in turn, 4 KiB took 24 % longer than 1 KiB between boxes."""

    def time_us(size):
        sim = anb.explore.library_run("single-tier:servers=2,server=mi355x", "all_reduce", size)
        sim.run()
        return sim.now_us

    assert time_us("4 KiB") < 1.1 * time_us("1 KiB")


def test_rccls_model_by_hand():
    """Seven links of 48 GB/s: a ring moves 336 GB/s, 17 us + 14 hops of 2.1 us before."""
    ring = next(c for c in rccl_candidates(MI300X, "all_reduce", GiB) if c.protocol == "Simple")
    assert ring.latency_us == pytest.approx(17 + 14 * 2.1)
    assert ring.bandwidth_GBps == pytest.approx(336 * 8 / 14)


def test_rccl_between_nodes():
    two = LibraryView(16, 8, "mi300x", 0, links=7, switched=False, nics=8, nic_GBps=48.0)
    assert choose_rccl(two, "all_reduce", KiB).algorithm == "Tree"
    assert choose_rccl(two, "all_reduce", GiB).algorithm == "Ring"
    exchange = choose_rccl(two, "all_to_all", MiB)
    assert (exchange.simulated, exchange.proxy_us) == ("put", 8.5)  # by the proxy threads of Simple
    eight = LibraryView(64, 8, "mi300x", 0, links=7, switched=False, nics=8, nic_GBps=48.0)
    assert choose_rccl(eight, "all_to_all", MiB).simulated == "pxn"


@pytest.mark.parametrize(
    "collective,size,simulated,channels",
    [
        ("all_reduce", 64 * KiB, "allpairs", 32),
        ("all_reduce", MiB, "allpairs_fifo", 8),  # 64 blocks: eight for each of eight channels
        ("all_reduce", 32 * MiB, "ring", 56),
        ("all_to_all", 4 * MiB, "put", 9),
    ],
)
def test_what_simulates_rccls_files(collective, size, simulated, channels):
    choice = choose_rccl(MI300X, collective, size)
    assert (choice.simulated, choice.channels, choice.difference) == (simulated, channels, "")
    assert choice.to_run().program(8).ranks == 8


@pytest.mark.parametrize(
    "view,size,kernel,blocks",
    [
        (H100, 16 * KiB, "allpair_packet", 28),
        (H100, 32 * KiB, "nvls_packet", 8),
        (H100, MiB, "packet", 56),
        (H100, 2 * MiB, "nvls_warp_pipeline", 32),
        (H100, 16 * MiB, "nvls_block_pipeline", 40),
        (A100, 32 * KiB, "packet", 56),
        (A100, 16 * KiB + 4, "packet", 28),
        (A100, 2 * MiB, "fullmesh", 35),
        (MI300X, 2 * MiB, "fullmesh", 35),
        (B200, 8 * KiB, "nvls_packet", 4),
        (B200, 2 * MiB, "packet", 56),
        (B200, 8 * MiB, "rsag", 64),
        (B200, 16 * MiB, "rsag_pipeline", 128),
    ],
)
def test_mscclpp_goes_by_size(view, size, kernel, blocks):
    choice = choose_mscclpp(view, "all_reduce", size)
    assert (choice.algorithm, choice.blocks) == (kernel, blocks)
    assert choice.to_run().program(8).ranks == 8


@pytest.mark.parametrize(
    "share,blocks", [(16 * KiB, 7), (128 * KiB, 14), (MiB, 28), (8 * MiB, 35), (64 * MiB, 56)]
)
def test_mscclpp_gathers(share, blocks):
    assert choose_mscclpp(H100, "all_gather", 8 * share).blocks == blocks


def test_mscclpp_between_nodes_has_a_plan_or_leaves_it():
    two = LibraryView(16, 8, "h100-sxm", 90, links=18, switched=True, nics=8, nic_GBps=48.0)
    assert choose_mscclpp(two, "all_reduce", 64 * KiB).blocks == 8
    assert choose_mscclpp(two, "all_reduce", MiB).blocks == 29
    with pytest.raises(InputError, match="leaves all_reduce of 4 MiB over 2 nodes to nccl"):
        choose_mscclpp(two, "all_reduce", 4 * MiB)


@pytest.mark.parametrize("view", [H100, MI300X])
@pytest.mark.parametrize(
    "collective", ["all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce"]
)
def test_every_choice_can_be_simulated(view, collective):
    choose = choose_rccl if view.amd else choose_nccl
    for power in range(8, 31):
        collective_to_run = choose(view, collective, 1 << power).to_run()
        assert collective_to_run.size == 1 << power
        if power == 12:
            assert collective_to_run.program(8).ranks == 8


def test_the_machines_own_library():
    assert library_choice("dgx-h100", "all_reduce", "1 MiB").library == "nccl"
    assert library_choice("mi300x", "all_reduce", "1 MiB").library == "rccl"
    assert {library_choice("mi300x", "all_reduce", "1 MiB", library="mscclpp").algorithm} == {"packet"}


def test_the_choice_runs():
    choice = library_choice("dgx-h100", "all_reduce", "4 KiB")
    sim = anb.Simulation("dgx-h100", choice.to_run())
    sim.run()
    assert sim.engine.work.title == "all_reduce/ring/LL"
    assert sim.engine.work.channels == choice.blocks


def test_text_and_data():
    choice = library_choice("dgx-h100", "all_reduce", "2 MiB")
    text = "\n".join(choice.lines())
    assert "nccl runs NVLS/Simple: 16 thread blocks of 640 threads" in text
    assert "NVIDIA/nccl @5067397c" in text
    assert len(choice.document()["candidates"]) == 7


@pytest.mark.parametrize(
    "infra,collective,options,says",
    [
        ("dgx-h100", "all_reduce", {"library": "ncl"}, "unknown library 'ncl'; did you mean 'nccl'"),
        ("dgx-h100", "all_reduce", {"library": "rccl"}, "rccl does not run on h100-sxm; use nccl"),
        ("dgx-h100", "all_reduc", {}, "did you mean 'all_reduce'"),
        ("dgx-h100", "barrier", {}, "NCCL has no barrier"),
        (
            "dgx-h100",
            "all_to_all",
            {"library": "mscclpp"},
            "MSCCL\\+\\+ leaves all_to_all within a node to nccl",
        ),
        ("mi300x", "scatter", {}, "no model of RCCL's scatter"),
        ("ring:gpus=4", "all_reduce", {}, "without NVLink or xGMI"),
        ("switch:gpus=1", "all_reduce", {}, "without NVLink or xGMI"),
    ],
)
def test_what_has_no_choice_says_so(infra, collective, options, says):
    with pytest.raises(InputError, match=says):
        library_choice(infra, collective, "1 MiB", **options)


def test_a_size_of_nothing():
    with pytest.raises(InputError, match="at least 1 B"):
        library_choice("dgx-h100", "send_recv", 0)


def test_zero_channels_are_refused():
    with pytest.raises(InputError, match="channels must be a whole number of at least 1"):
        library_choice("dgx-h100", "all_reduce", 64).to_run(channels=0)


def test_the_libraries():
    by_vendor = ("nccl", "nccl-symmetric", "nccl-ce", "rccl", "rccl-dda", "rccl-ce")
    assert (*by_vendor, "mscclpp", "vllm", "sglang", "trtllm") == LIBRARIES


def test_gpus_without_links(tmp_path):
    parts = "components: [{name: gpu, count: 2, choice: xpu}], links: [], edges: []"
    file = tmp_path / "alone.yaml"
    file.write_text(
        f"name: h100\ndevices: [{{name: box, {parts}}}]\ninstances: [{{name: host, device: box, count: 1}}]\n"
    )
    with pytest.raises(InputError, match="without NVLink or xGMI"):
        library_choice(str(file), "all_reduce", "1 MiB")


def test_rccls_choice_takes_what_rccl_tests_measured():
    """8 MI300X (hisohara/ai-scripts @0780bb3c): the kernel and RCCL's base latency, nothing fitted."""
    measured_us = {
        "1 KiB": 13.67, "4 KiB": 13.72, "16 KiB": 15.47, "64 KiB": 14.25, "256 KiB": 17.46, "1 MiB": 28.39
    }  # fmt: skip
    errors = []
    for size, us in measured_us.items():
        choice = library_choice("mi300x", "all_reduce", size)
        sim = anb.Simulation("mi300x", choice.to_run(), record=False, checkpoint_bytes=0)
        sim.run()
        errors.append(abs((sim.result.time_ps / 1e6 + choice.base_us) / us - 1))
    assert sum(errors) / len(errors) < 0.05
    assert max(errors) < 0.11  # 16 KiB, which takes longer than 64 KiB


def test_an_own_files_library_section_counts_as_a_preset_too(tmp_path):
    path = tmp_path / "mine.yaml"
    head = "format: astranb-gpu\nversion: 1\nlike: h100-sxm\n"
    path.write_text(head + "library: {compute_capability: 100}\n")
    infra = resolve("dgx-h100")
    assert library_view(infra, path) == library_view(infra, preset(path))
    assert library_view(infra, preset(path)).capability == 100
    assert library_choice(infra, "all_reduce", "1 MiB", gpu=preset("h100-sxm")).library == "nccl"


def test_a_base_latency_counts_a_launch():
    """Of NCCL and RCCL: a graph saves the difference of the GPU's launches, or what was measured."""
    choice = library_choice("dgx-h100", "all_reduce", "64 KiB")
    h100 = preset("h100-sxm")
    assert choice.launch == "6.6 us"
    assert choice.launched("graph") == f"{6.6 - (h100.launch_ps - h100.graph_ps) / 1e6:g} us"
    assert library_choice("mi300x", "all_reduce", "64 KiB").launched("graph") == "5.8 us"
    assert choice.launched("none") == "none"


@pytest.mark.parametrize(
    "view,collective,size,kernel,blocks,simulated",
    [
        (H100, "all_gather", 2 * KiB, "AllGather_LLMC", 1, "packets_mc"),
        (H100, "all_gather", 512 * KiB, "AllGather_STMC", 2, "store_mc"),
        (H100, "reduce_scatter", 2 * KiB, "ReduceScatter_LL", 1, "allpairs"),
        (H100, "reduce_scatter", 512 * KiB, "ReduceScatter_LDMC", 2, "switch"),
        (H100, "all_reduce", KiB, "AllReduce_AGxLLMC_R", 2, "oneshot_packets_mc"),
        (H100, "all_reduce", 64 * MiB, "AllReduce_RSxLDMC_AGxSTMC", 2, "switch"),
        (A100, "all_gather", 64 * MiB, "AllGather_ST", 9, "allpairs"),
        (A100, "all_reduce", 64 * MiB, "AllReduce_RSxLD_AGxST", 7, "allpairs_load_store"),
        (A100, "reduce_scatter", 64 * MiB, "ReduceScatter_LD", 9, "get"),
    ],
)
def test_nccl_has_kernels_for_symmetric_memory(view, collective, size, kernel, blocks, simulated):
    """By NCCL's model: switches need NVLink SHARP, 16 blocks (32 of Blackwell) of all ranks fill them."""
    choice = choose_nccl_symmetric(view, collective, size)
    assert (choice.algorithm, choice.blocks, choice.simulated) == (kernel, blocks, simulated)
    assert choice.launched("graph") == "graph"
    assert choice.candidates[0].time_us == min(one.time_us for one in choice.candidates)
    assert choice.to_run().program(8).ranks == 8


def test_symmetric_kernels_are_named_and_refused_where_there_are_none():
    with pytest.raises(InputError, match="no kernel of its own for all_to_all in symmetric memory"):
        library_choice("dgx-h100", "all_to_all", KiB, library="nccl-symmetric")
    with pytest.raises(InputError, match="no model of NCCL's kernels in symmetric memory between nodes"):
        library_choice("single-tier:server=dgx-h100", "all_gather", KiB, library="nccl-symmetric")
    with pytest.raises(InputError, match="nccl-symmetric does not run on mi300x; use rccl"):
        library_choice("mi300x", "all_gather", KiB, library="nccl-symmetric")
    said = "\n".join(library_choice("dgx-h100", "all_gather", KiB).lines())
    assert "for buffers in symmetric memory other kernels run: --library nccl-symmetric" in said
    assert "nccl-symmetric" not in "\n".join(library_choice("dgx-h100", "broadcast", KiB).lines())


def test_rules_that_are_taken_of_the_nearest_gpu_are_named(capsys):
    command = "run collective all_reduce --size 1KiB --infra"
    for infra, says in (
        ("mi350x", "RCCL's rules for mi350x are not known: MI300X's are taken"),
        ("mi325x", ""),
    ):
        assert main([*command.split(), infra]) == 0
        assert (capsys.readouterr().err.strip() or "astranb: ") == f"astranb: {says}"


def test_copy_engines_take_no_thread_blocks():
    choice = library_choice("dgx-h100", "all_gather", 64 * KiB, library="nccl-ce")
    program = choice.to_run().program(8)
    assert {block.unit for block in program.blocks} == {"engine"}
    with pytest.raises(
        InputError, match="no model of all_reduce by NCCL's copy engines; use nccl, or all_gather"
    ):
        library_choice("dgx-h100", "all_reduce", KiB, library="nccl-ce")
    with pytest.raises(InputError, match="by NCCL's copy engines between nodes"):
        library_choice("single-tier:server=dgx-h100", "all_gather", KiB, library="nccl-ce")


@pytest.mark.parametrize(
    "choose,view,size,algorithm,blocks,simulated",
    [
        (choose_vllm, H100, 4 * KiB, "one stage", 1, "allpairs_oneshot"),
        (choose_vllm, H100, 128 * KiB, "one stage", 16, "allpairs_oneshot"),
        (choose_vllm, H100, 256 * KiB, "two stages", 32, "allpairs_get"),
        (choose_vllm, H100, MiB, "multimem", 24, "switch"),
        (choose_vllm, B200, MiB, "two stages", 36, "allpairs_get"),
        (choose_vllm, B200, 2 * MiB, "multimem", 24, "switch"),
        (choose_vllm, A100, 8 * MiB, "two stages", 36, "allpairs_get"),
        (choose_sglang, H100, 128 * KiB, "one stage", 16, "allpairs_oneshot"),
        (choose_sglang, H100, 4 * MiB, "two stages", 36, "allpairs_get"),
        (choose_vllm, MI355X, 192 * KiB, "one stage", 16, "allpairs_oneshot"),
        (choose_trtllm, H100, 4 * KiB, "one shot (lamport)", 2, "oneshot_poison"),
        (choose_trtllm, H100, 256 * KiB, "one shot (lamport)", 128, "oneshot_poison"),
        (choose_trtllm, H100, MiB, "two shots", 64, "staged_load_store"),
        (choose_trtllm, B200, MiB, "one shot (lamport)", 128, "oneshot_poison"),
        (choose_trtllm, B200, 4 * MiB, "two shots", 128, "staged_load_store"),
    ],
)
def test_servers_have_kernels_of_their_own(choose, view, size, algorithm, blocks, simulated):
    choice = choose(view, "all_reduce", size)
    assert (choice.algorithm, choice.blocks, choice.simulated) == (algorithm, blocks, simulated)
    assert choice.launch == "graph"
    threads = choice.threads if choice.library == "trtllm" else 512
    assert choice.channels == max(1, min(64, blocks * threads // 512))
    assert choice.to_run().program(8).ranks == 8


@pytest.mark.parametrize(
    "library,infra,collective,size,says",
    [
        ("vllm", "dgx-h100", "all_gather", KiB, "vLLM leaves all_gather to nccl; use nccl"),
        ("vllm", "dgx-h100", "all_reduce", 64 * MiB, "vLLM leaves an all-reduce of 64 MiB to nccl"),
        ("sglang", "dgx-h100", "all_reduce", 8 * MiB, "SGLang leaves an all-reduce of 8 MiB to nccl"),
        ("sglang", "single-tier:server=dgx-h100", "all_reduce", KiB, "leaves 16 GPUs in 2 nodes to nccl"),
        ("sglang", "mi300x", "all_reduce", KiB, "where it takes AITER's kernels; use rccl or vllm"),
        ("trtllm", "mi300x", "all_reduce", KiB, "TensorRT-LLM does not run on mi300x; use rccl or vllm"),
        ("trtllm", "dgx-h100", "all_reduce", 8 * MiB, "TensorRT-LLM leaves an all-reduce of 8 MiB to nccl"),
        ("trtllm", "dgx-h100", "all_gather", KiB, "TensorRT-LLM leaves all_gather to nccl; use nccl"),
        ("trtllm", "single-tier:server=dgx-h100", "all_reduce", KiB, "leaves 16 GPUs of type h100-sxm in 2"),
    ],
)
def test_what_servers_leave_to_others(library, infra, collective, size, says):
    with pytest.raises(InputError, match=says):
        library_choice(infra, collective, size, library=library)


@pytest.mark.parametrize(
    "size,kind,blocks,threads",
    [
        (4 * KiB, "MNNVL one shot", 2, 128),
        (64 * KiB, "MNNVL one shot", 32, 128),
        (MiB, "MNNVL two shots", 512, 128),
    ],
)
def test_where_nvlink_joins_trays_switches_multiply_what_ranks_store(size, kind, blocks, threads):
    """One shot up to 1 MiB that a rank receives; two shots: eight blocks of 128 threads for each token."""
    two = LibraryView(8, 8, "gb200", 100, links=18, switched=True)
    choice = choose_trtllm(two, "all_reduce", size)
    assert (choice.algorithm, choice.blocks, choice.threads) == (kind, blocks, threads)
    assert choice.simulated.endswith("poison_mc")
    assert choose_trtllm(GB200, "all_reduce", size).simulated == "oneshot_poison"  # one tray: by its table


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("capability,sms", [(90, 132), (103, 148)])
def test_grids_of_tensorrt_llm_fit_the_gpu(ranks, capability, sms):
    view = LibraryView(ranks, ranks, "b300", capability, links=18, switched=True)
    for power in range(7, 23):
        choice = choose_trtllm(view, "all_reduce", 1 << power)
        assert 1 <= choice.blocks <= sms
        assert 1 <= choice.threads <= 1024


@pytest.mark.parametrize(
    "view,collective,size,algorithm,blocks,simulated",
    [
        (MI355X, "all_reduce", 8 * KiB, "DDA flat", 1, "staged_oneshot"),
        (MI355X, "all_reduce", 256 * KiB, "DDA flat", 24, "staged_oneshot"),
        (MI355X, "all_reduce", 128 * MiB, "DDA tree", 24, "staged_get"),
        (MI355X, "all_gather", 128 * KiB, "DDA", 2, "staged_get"),
        (MI355X, "reduce_scatter", 128 * MiB, "DDA", 24, "staged_get"),
        (MI355X, "all_to_all", 4 * MiB, "DDA", 24, "staged_get"),
        (MI300X, "all_reduce", 8 * MiB, "DDA tree", 24, "staged_get"),
    ],
)
def test_rccl_has_direct_data_access(view, collective, size, algorithm, blocks, simulated):
    """Limits of gfx942 and gfx950, 24 blocks of 512 threads that load 16 B: ROCm/rocm-systems @006a440c."""
    choice = choose_rccl_direct(view, collective, size)
    assert (choice.algorithm, choice.blocks, choice.simulated) == (algorithm, blocks, simulated)
    apart = algorithm == "DDA tree" or collective == "reduce_scatter" or size == 4 * MiB
    assert choice.launch == ("stream + 2.05 us" if apart else "stream")
    assert choice.to_run().program(8).ranks == 8


@pytest.mark.parametrize(
    "infra,collective,size,says",
    [
        ("mi355x", "all_reduce", 256 * MiB, "leaves all_reduce of 256 MiB to its other kernels; use rccl"),
        ("mi300x", "all_reduce", 16 * MiB, "direct data access is for multiples of 16 B up to 8 MiB"),
        ("mi355x", "all_to_all", 8 * MiB, "up to 4 MiB"),
        ("mi355x", "all_gather", 100, "leaves all_gather of 100 B"),
        ("mi355x", "broadcast", KiB, "no direct data access for broadcast on 8 GPUs"),
        ("dgx-h100", "all_reduce", KiB, "rccl-dda does not run on h100-sxm; use nccl"),
    ],
)
def test_what_direct_data_access_is_not_for(infra, collective, size, says):
    with pytest.raises(InputError, match=says):
        library_choice(infra, collective, size, library="rccl-dda")


def test_limits_of_direct_data_access_are_taken_of_the_nearest_gpu():
    later = choose_rccl_direct(LibraryView(8, 8, "mi455x", 0, links=7, switched=False), "all_reduce", MiB)
    assert later.nearest == "RCCL's limits for mi455x are not known: those of gfx950 are taken"
    assert not choose_rccl_direct(MI355X, "all_reduce", MiB).nearest


def test_rccl_copies_by_engines_too():
    choice = library_choice("mi355x", "all_to_all", 64 * KiB, library="rccl-ce")
    assert {block.unit for block in choice.to_run().program(8).blocks} == {"engine"}
    assert preset("mi355x").engines == 14 >= 8 + 2  # a list for each peer and the local copy, two that meet
    with pytest.raises(InputError, match="no model of all_reduce by RCCL's copy engines; use rccl"):
        library_choice("mi355x", "all_reduce", KiB, library="rccl-ce")
    with pytest.raises(InputError, match="rccl-ce does not run on h100-sxm"):
        library_choice("dgx-h100", "all_gather", KiB, library="rccl-ce")
