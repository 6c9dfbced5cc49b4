"""Two workloads' runs side by side."""

import sys

import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.sim import Comparison
from tests.engine.operations.support import mixed


def _pair(**changes):
    a = mixed(congestion=True)
    b = a.fork_with(changes or {"rank[5].speed": 0.5})
    a.run()
    b.run()
    return a, b


def test_the_difference_is_that_of_the_results():
    a, b = _pair()
    both = anb.compare(a, b)
    assert isinstance(both, Comparison)
    assert both.names == ("rank[5].speed unchanged", "rank[5].speed 0.5 from event 0")
    assert both.time == {
        "a_ps": a.result.time_ps, "b_ps": b.result.time_ps,
        "difference_ps": b.result.time_ps - a.result.time_ps, "ended": True,
    }  # fmt: skip
    causes = both.causes()
    for side, sim in zip("ab", (a, b), strict=True):
        assert sum(row[f"time_ps_{side}"] for row in causes) == sim.result.time_ps
    ranks = {row["rank"]: row for row in both.table("ranks")}
    assert ranks[5]["compute_ps_difference"] == 14_000_000  # of 9 us and 5 us
    assert ranks[3]["compute_ps_difference"] == 0
    operations = {row["operation"]: row for row in both.table("operations")}
    assert operations["rank[5].op[0] compute"]["lasts_ps_difference"] == 9_000_000
    assert len(operations) == 26
    assert sum(row["bytes_difference"] for row in both.table("links")) == 0
    assert "rank[5].speed unchanged is faster by" in both.verdict()
    assert "rank" in both.summary()


def test_every_table_can_be_had_at_any_moment():
    a, b = _pair(**{"dim[0].bandwidth": "10 GB/s"})
    whole = anb.compare(a, b)
    for both in (whole, whole.at(0), whole.at(6_000_000)):
        for name in ("ranks", "operations", "collectives", "dimensions", "links", "causes"):
            frame = both.to_dataframe(name)
            assert {c[:-2] for c in frame.columns if c.endswith("_a")} == {
                c[:-2] for c in frame.columns if c.endswith("_b")
            }
        for shown in both.shown():
            assert all(row[f"{shown.field}_difference"] is not None for row in shown.rows)
    assert whole.at(0).verdict() == "not both at their end"
    with pytest.raises(InputError, match="did you mean 'ranks'"):
        whole.to_dataframe("rank")


def test_of_many_operations_those_that_differ_most_are_shown(monkeypatch):
    monkeypatch.setattr(sys.modules["astranb.sim.comparison"], "_MOST_ROWS", 3)
    a, b = _pair()
    shown = next(one for one in anb.compare(a, b).shown() if one.key == "operation")
    rows = anb.compare(a, b).table("operations")
    whole = sorted((abs(row["lasts_ps_difference"]) for row in rows), reverse=True)
    assert sorted((abs(row["lasts_ps_difference"]) for row in shown.rows), reverse=True) == whole[:3]
    assert shown.left_out == sum(1 for one in whole if one) - 3


def test_what_two_kinds_have_in_common_is_compared():
    workload = mixed()
    collective = anb.Simulation("switch:gpus=2", anb.collectives.all_gather("1 KiB"))
    assert anb.compare(workload, collective).tables == ["links", "causes"]
    with pytest.raises(InputError, match="not a simulation"):
        anb.compare(workload, 3)
