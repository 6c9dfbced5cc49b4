import math

import pandas as pd
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.explore import AlgorithmMap

SIZES = ["1 KiB", "16 KiB", "256 KiB"]


@pytest.fixture(scope="module")
def found():
    return anb.explore.algorithm_map("switch:gpus={ranks}", "all_gather", sizes=SIZES, ranks=[2, 4])


def test_the_fastest_is_the_one_of_best_algorithm(found):
    winners = found.winners()
    assert len(winners) == 6
    assert sorted(set(winners["ranks"])) == [2, 4]
    for row in winners.itertuples():
        table = anb.explore.best_algorithm(f"switch:gpus={row.ranks}", "all_gather", row.size_bytes)
        assert (row.algorithm, row.protocol, row.time_ps) == tuple(
            table.loc[0, ["algorithm", "protocol", "time_ps"]]
        )


def test_leaving_out_what_was_slower_before_changes_no_winner(found):
    all_of_them = anb.explore.algorithm_map(
        "switch:gpus={ranks}", "all_gather", sizes=SIZES, ranks=[2, 4], margin=math.inf
    )
    same = ["infra", "ranks", "size_bytes", "algorithm", "protocol", "time_ps"]
    pd.testing.assert_frame_equal(found.winners()[same], all_of_them.winners()[same])
    assert not all_of_them.to_dataframe()["reason"].str.startswith("not run").any()


def test_functions_take_part_and_what_has_no_time_says_why():
    def forgets(p):
        for me in p.everyone:
            me.block().wait(me.semaphore())

    found = anb.explore.algorithm_map("switch:gpus=2", "all_gather", ["ring", forgets], sizes=["1 KiB"])
    frame = found.to_dataframe()
    assert set(found.winners()["algorithm"]) == {"ring"}
    reasons = frame[frame["algorithm"] == "forgets"]["reason"]
    assert len(reasons) == 3
    assert reasons.str.contains("wait").all()


def test_a_table_from_a_file_makes_the_same_map(found, tmp_path):
    found.to_dataframe().to_csv(tmp_path / "map.csv", index=False)
    again = AlgorithmMap("all_gather", pd.read_csv(tmp_path / "map.csv"))
    assert str(again) == str(found)
    assert str(again.figure().data) == str(found.figure().data)


def test_the_figure_names_the_fastest_in_each_cell(found, tmp_path):
    drawn = found.figure(tmp_path / "map.svg").read_text()
    for name in set(found.winners()["algorithm"]):
        assert name in drawn
    one = found.winners()["algorithm"].iloc[0]
    assert "fastest" in str(found.figure(algorithm=one, dark=True).data)
    assert found._repr_html_().startswith("<svg")


@pytest.mark.parametrize(
    "wrong, message",
    [
        ({"ranks": [4]}, "need each other"),
        ({"algorithms": ["rign"]}, "did you mean 'ring'"),
        ({"sizes": []}, "no sizes"),
    ],
)
def test_bad_input(wrong, message):
    with pytest.raises(InputError, match=message):
        anb.explore.algorithm_map("switch:gpus=2", "all_gather", **wrong)


def test_bad_figure(found):
    with pytest.raises(InputError, match="no algorithm 'rign'"):
        found.figure(algorithm="rign")
    with pytest.raises(InputError, match="no column 'time_ps'"):
        AlgorithmMap("all_gather", found.to_dataframe().drop(columns="time_ps"))
