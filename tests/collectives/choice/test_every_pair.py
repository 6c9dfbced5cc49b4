"""Each library on each blueprint: what it runs, the nearest rules that were taken, or what to use instead."""

import pytest

from astranb.cli import main
from astranb.collectives import LIBRARIES, library_choice
from astranb.collectives.choice.nccl import choose_nccl
from astranb.collectives.choice.nccl_releases import NCCL_RELEASES, nccl_release
from astranb.collectives.choice.serving import choose_vllm
from astranb.collectives.choice.topology import LibraryView, library_view
from astranb.core.errors import InputError
from astranb.infragraph import blueprint, blueprints

KiB, MiB, GiB = 1 << 10, 1 << 20, 1 << 30
COLLECTIVES = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce")
SIZES = (KiB, 32 * KiB, 256 * KiB, MiB, 4 * MiB, 32 * MiB, GiB)
IN_SWITCH = ("switch", "nvls", "nvls_tree")  # and all that end in _mc
B200 = LibraryView(8, 8, "b200-sxm", 100, links=18, switched=True)
TWO_B200 = LibraryView(16, 8, "b200-sxm", 100, links=18, switched=True, nics=8, nic_GBps=48.0, cpu="intel")


def chosen_or_said(machine, collective, size, library):
    try:
        return library_choice(machine, collective, size, library=library)
    except InputError as error:
        return str(error)


@pytest.mark.parametrize("infra", [name.partition(":")[0] for name, _ in blueprints()])
def test_a_library_chooses_or_says_what_to_use(infra):
    machine = blueprint(infra)
    try:
        view = library_view(machine)
    except InputError:
        view = None
    for library in LIBRARIES:
        for collective in COLLECTIVES:
            for size in SIZES:
                choice = chosen_or_said(machine, collective, size, library)
                if isinstance(choice, str):
                    assert "\n" not in choice
                    assert any(word in choice for word in ("; use ", "; give an algorithm", "; only "))
                    continue
                assert choice.lines()[0].startswith(f"{library} runs {choice.algorithm}/")
                assert choice.to_run().algorithm
                assert view is not None
                by_switch = choice.simulated in IN_SWITCH or choice.simulated.endswith("_mc")
                assert view.multicast or not by_switch, (library, collective, size)


def test_switches_that_join_no_two_boards_do_not_add(capsys):
    """A DGX-2 has switches on two boards: NCCL counts no NVLS there, and what it runs can be simulated."""
    assert not library_view(blueprint("dgx-2")).multicast
    assert library_view(blueprint("dgx-h100")).multicast
    command = "run collective all_reduce --infra dgx-2 --size 4KiB --library nccl --explain"
    assert main([*command.split()]) == 0
    said = capsys.readouterr().out
    assert "no NVLS" in said
    assert "16 GPUs are taken for h100-sxm: nothing else is specified" in said


def test_workstation_blackwells_have_no_switches():
    """Their compute capability is 12: MSCCL++ (algorithm_selector.cc) asks for 10."""
    choice = library_choice("rtxpro6000", "all_reduce", "4 KiB", library="mscclpp")
    assert choice.algorithm == "allpair_packet"
    assert library_choice("dgx-b200", "all_reduce", "4 KiB", library="mscclpp").algorithm == "nvls_packet"


def test_vllm_has_limits_for_blackwell_ultra():
    """vllm-project/vllm @00d618aa, all_reduce_utils: on eight to 4 MiB of 10.3, 1 MiB of 10.0."""
    b300 = LibraryView(8, 8, "b300", 103, links=18, switched=True)
    assert choose_vllm(b300, "all_reduce", 4 * MiB).algorithm == "two stages"
    assert choose_vllm(B200, "all_reduce", 4 * MiB).algorithm == "multimem"


@pytest.mark.parametrize(
    "asked,taken,known",
    [
        ((2, 26, 2), "2.27.3", False),
        ((2, 27, 3), "2.27.3", True),
        ((2, 28, 9), "2.28.9", True),
        ((2, 28), "2.28.9", True),
        ((2, 29, 2), "2.29.2", True),
        ((2, 30, 7), "2.30.3", True),
        ((2, 31), "2.30.3", False),
        ((3,), "2.30.3", False),
        ((), "2.30.3", True),
    ],
)
def test_the_rules_of_a_release_or_of_the_nearest(asked, taken, known):
    release, own = nccl_release(asked)
    assert (release.version, own) == (taken, known)


def test_releases_are_in_order():
    assert [one.since for one in NCCL_RELEASES] == sorted(one.since for one in NCCL_RELEASES)


def test_nvls_by_hand_in_two_releases():
    """Eight heads of 80 GB/s: 2.27 takes 5/6 of them; 2.28 the efficiency of 74 %, 7/8, twice, and 8/14."""
    machine = blueprint("dgx-b200")
    for version, rate in (("2.27.3", 8 * 80 * 5 / 6), ("2.28.9", 8 * 80 * 0.74 * 7 / 8 * 2 * 8 / 14)):
        choice = library_choice(machine, "all_reduce", 4 * MiB, library=f"nccl@{version}")
        nvls = next(one for one in choice.candidates if one.algorithm == "NVLS")
        assert nvls.bandwidth_GBps == pytest.approx(rate)


def test_nvlstree_is_corrected_by_size_on_blackwell_beside_x86():
    """``ncclTopoGetAlgoTime`` from 2.29.2 on: at 64 MiB NVLSTree counts 80 % (``treeCorrectionFactor``)."""

    def rate(size: int, **changed: object) -> float:
        view = LibraryView(**{**TWO_B200.__dict__, **changed})
        found = choose_nccl(view, "all_reduce", size).candidates
        return next(one.bandwidth_GBps for one in found if one.algorithm == "NVLSTree")

    size = 1 << 26
    assert rate(size) == pytest.approx(0.8 * rate(size, version=(2, 28, 9)))
    assert rate(size, cpu="") == pytest.approx(rate(size, version=(2, 28, 9)))


def test_a_release_is_in_the_output(capsys):
    command = "run collective all_reduce --infra dgx-h100 --size 4KiB --library"
    assert main([*command.split(), "nccl@2.27.3", "--explain"]) == 0
    printed = capsys.readouterr()
    assert printed.out.startswith("nccl 2.27.3 runs Ring/LL")
    assert "source: NVIDIA/nccl v2.27.3-1," in printed.out
    assert "not known" not in printed.out + printed.err
    assert main([*command.split(), "vllm@0.11"]) == 0
    says = "rules of vllm 0.11 are not known: those of vllm-project/vllm @b250ac3d are taken"
    assert says in capsys.readouterr().err
    for wrong in ("nccl@new", "nccl@", "nccl@2.27.3-1"):
        assert main([*command.split(), wrong]) == 2
        assert "is no release of nccl; numbers with dots, as nccl@2.27.3" in capsys.readouterr().err
    assert library_choice("dgx-h100", "all_reduce", KiB, library="nccl@2.28").version == "2.28"
