import pytest

import astranb as anb
from astranb.core.errors import InputError


def test_every_algorithm_is_tried_and_the_fastest_comes_first():
    table = anb.explore.best_algorithm("switch:gpus=4", "all_reduce", "4 KiB", channels=1)
    tried = {(a.name, p) for a in anb.collectives.algorithms("all_reduce") for p in a.protocols}
    assert set(zip(table["algorithm"], table["protocol"], strict=True)) == tried
    ran = table.dropna(subset=["time_ps"])
    assert ran["time_ps"].is_monotonic_increasing
    assert table.loc[0, "slower"] == 1
    best = anb.collectives.all_reduce(
        "4 KiB", str(table.loc[0, "algorithm"]), protocol=str(table.loc[0, "protocol"]), channels=1
    )
    sim = anb.Simulation("switch:gpus=4", best)
    sim.run()
    assert sim.result.time_ps == table.loc[0, "time_ps"]


def test_what_cannot_run_says_why():
    table = anb.explore.best_algorithm("ring:gpus=3", "all_reduce", "1 KiB", channels=1)
    said = dict(zip(table["algorithm"], table["reason"], strict=True))
    assert "no switch joins all GPUs" in said["switch"]
    assert said["halving_doubling"] == ""  # it folds the ranks beyond a power of two
    assert table["time_ps"].iloc[:3].notna().all()


@pytest.mark.slow
def test_large_messages_want_other_algorithms_than_small_ones():
    small, large = (anb.explore.best_algorithm("dgx-h100", "all_gather", size) for size in ("1 KiB", "4 MiB"))
    assert small.loc[0, "protocol"] != "Simple"
    assert large.loc[0, "protocol"] != "LL"


def test_unknown_collective():
    with pytest.raises(InputError, match="did you mean 'all_reduce'"):
        anb.explore.best_algorithm("switch:gpus=2", "all_reduc", "1 KiB")


def test_the_librarys_choice_has_a_row_beside_the_best():
    table = anb.explore.best_algorithm("dgx-h100", "all_reduce", "1 KiB", library="nccl")
    row = table[table["library"] == "nccl"]
    assert len(row) == 1
    choice = anb.collectives.library_choice("dgx-h100", "all_reduce", "1 KiB", library="nccl")
    assert (row["algorithm"].item(), row["protocol"].item()) == (choice.simulated, choice.simulated_protocol)
    sim = anb.Simulation("dgx-h100", choice.to_run())
    sim.run()
    assert sim.result.time_ps == row["time_ps"].item() > table.loc[0, "time_ps"]
