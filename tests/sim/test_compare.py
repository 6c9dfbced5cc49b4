"""Two runs side by side: the differences are those of their results."""

import pytest

import astranb as anb
from astranb.core.errors import InputError


@pytest.fixture(scope="module")
def pair():
    a = anb.Simulation("dgx-h100", anb.collectives.all_reduce("32 KiB", "ring"), record=False)
    b = a.rebuilt(algorithm="allpairs")
    a.run()
    b.run()
    return a, b


def test_time_and_names(pair):
    a, b = pair
    both = anb.compare(a, b)
    assert both.names == ("algorithm ring", "algorithm allpairs")
    assert both.time == {
        "a_ps": a.result.time_ps,
        "b_ps": b.result.time_ps,
        "difference_ps": b.result.time_ps - a.result.time_ps,
        "ended": True,
    }
    assert "algorithm allpairs is faster by" in both.summary()
    assert "algorithm: ring and allpairs" in both.summary()


def test_tables_hold_what_the_results_say(pair):
    a, b = pair
    both = anb.Comparison(a, b, ("one", "two"))
    links = {row["link"]: row for row in both.table("links")}
    for sim, letter in ((a, "a"), (b, "b")):
        every = sim.result.table("links")
        assert sum(row[f"bytes_{letter}"] for row in links.values()) == sum(r["bytes"] for r in every)
        one = "dgx_h100.0.xpu.0->dgx_h100.0.nvsw.0"
        busy = sum(r["busy_ps"] for r in every if r["link"].startswith(f"{one}#"))
        assert links[one][f"busy_ps_{letter}"] == busy // 5
        ends = [r["end_ps"] for r in sim.result.per_rank()]
        assert [row[f"end_ps_{letter}"] for row in both.table("gpus")] == ends
        total = sum(row[f"time_ps_{letter}"] for row in both.causes())
        assert total == pytest.approx(sim.result.time_ps, abs=5)
    for row in both.table("links"):
        assert row["bytes_difference"] == row["bytes_b"] - row["bytes_a"]
    assert both._repr_html_().startswith("<pre>one and two")


def test_phases_of_different_algorithms_stand_side_by_side(pair):
    a, b = pair
    names = [row["phase"] for row in anb.compare(a, b).table("phases")]
    assert names == [*a.engine.program.phase_names, *b.engine.program.phase_names]
    both = anb.compare(a, a.fork()).table("phases")
    assert all(row["lasts_ps_difference"] == 0 and row["end_ps_a"] > 0 for row in both)


def test_the_same_run_has_no_differences(pair):
    a, _ = pair
    both = anb.compare(a, a.fork())
    assert both.inputs == []
    assert "the same" in both.summary()
    assert all(
        not value
        for what in ("phases", "links", "gpus", "causes")
        for row in both.table(what)
        for key, value in row.items()
        if key.endswith("_difference")
    )


def test_at_a_time_is_the_comparison_of_runs_stopped_there(pair):
    a, b = pair
    when = b.result.time_ps // 2
    stopped = a.rebuilt(), b.rebuilt()
    for sim in stopped:
        sim.goto(when)
    assert anb.compare(a, b).at(when).table("links") == anb.compare(*stopped).table("links")
    assert anb.compare(a, b).at(when).causes() == anb.compare(*stopped).causes()
    assert a.finished
    assert b.finished
    late = anb.compare(a, b).at(10**15)
    assert late.time["ended"]


def test_edits_and_options_are_said():
    a = anb.Simulation("dgx-h100", anb.collectives.all_reduce("4 KiB", "ring"), record=False)
    b = a.rebuilt(size="8 KiB", gpu={"unroll": 8}, network={"arbitration": "fair"})
    b.set("gpu[1].l2", "1 us")
    assert anb.compare(a, b).inputs == [
        ("size", "4 KiB", "8 KiB"),
        ("gpu unroll", str(a.engine.chosen[0].unroll), "8"),
        ("network arbitration", "fifo", "fair"),
        ("dgx_h100.0.xpu.1.l2", "unchanged", "1 us from event 0"),
    ]
    assert anb.compare(a, b).names == ("a", "b")
    assert "not both at their end" in anb.compare(a, b).summary()


def test_frames_and_mistakes(pair):
    both = anb.compare(*pair)
    frame = both.to_dataframe("links")
    assert {"link", "bytes_a", "bytes_b", "bytes_difference"} <= set(frame.columns)
    assert len(both.to_dataframe("gpus")) == 8
    with pytest.raises(InputError, match="did you mean 'links'"):
        both.to_dataframe("link")
    with pytest.raises(InputError, match="not a simulation"):
        anb.compare(pair[0], "b")
