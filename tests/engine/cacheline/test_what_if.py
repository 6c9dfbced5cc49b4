"""What would help: exact answers are runs, estimates keep their bound."""

import pytest

from astranb.core.errors import InputError
from tests.engine.cacheline.support import LINK, made


def test_an_exact_answer_is_a_run_with_the_change(done):
    change = done.what_if(f"{LINK}.latency", "2 us")
    other = made()
    other.set(f"{LINK}.latency", "2 us")
    other.run()
    assert change.exact_ps == other.result.time_ps > change.before_ps == done.result.time_ps
    assert done.finished


def test_what_is_asked_in_the_middle_is_about_the_whole_run(half, done):
    before = half.state_hash()
    change = half.what_if(f"{LINK}.latency", "2 us")
    assert change.before_ps == done.result.time_ps
    assert half.state_hash() == before


def test_changes_made_before_count(half):
    sim = half.fork()
    sim.run(sim.now_ps)
    when_ps = sim.now_ps
    sim.set(f"{LINK}.bandwidth", "1 GB/s")
    asked = sim.what_if("gpu[*].hbm", "x0.5")
    sim.run()
    assert asked.before_ps == sim.result.time_ps
    assert sim.what_if("gpu[*].hbm", "x0.5") == asked
    other = made()
    for rank in range(other.ranks):
        value = other.at(f"gpu[{rank}]").state["hbm_ps"] // 2
        other.set(f"gpu[{rank}].hbm", f"{value} ps")
    other.run(when_ps)
    other.set(f"{LINK}.bandwidth", "1 GB/s")
    other.run()
    assert asked.exact_ps == other.result.time_ps


@pytest.mark.parametrize("algorithm,protocol", [("allpairs", "Simple"), ("ring", "LL"), ("ring", "Simple")])
def test_estimates_and_their_bound_hold(algorithm, protocol):
    """The bound: nothing becomes faster than the old path with the change and without waits for others."""
    sim = made("8 KiB", algorithm, protocol)
    sim.run()
    for path, value in (
        ("*->*.latency", "x0.5"), ("*->*.bandwidth", "x2"), ("gpu[*].hbm", "x0.5"), ("gpu[*].l2", "x0.5"),
        ("gpu[*].noc", "x0.5"), ("gpu[*].issue", "x0.5"), ("*->*.latency", "x3"), ("gpu[2].hbm", "5 ns"),
    ):  # fmt: skip
        change = sim.what_if(path, value)
        assert change.at_least_ps <= change.exact_ps, change
        assert change.at_least_ps <= change.estimate_ps
        if protocol == "Simple":  # what is scaled along the path says most of what a change does
            assert change.estimate_ps == pytest.approx(change.exact_ps, rel=0.08), change


def test_the_table_of_changes_is_sorted_and_says_what_is_an_estimate(done):
    table = done.what_if()
    times = [row.estimate_ps for row in table]
    assert times == sorted(times)
    assert all(row.exact_ps is None and row.estimate_ps < row.before_ps for row in table)
    assert "an estimate" in str(table)
    assert "<th>estimate</th>" in table._repr_html_()
    assert len(table.to_dataframe()) == len(table) > 3
    assert "exact" in str(done.what_if(table.rows[0].path, table.rows[0].value))


@pytest.mark.parametrize(
    "path,value,said",
    [
        ("gpu[*].latency", "x2", "cannot be changed"),
        ("gpu[1].sm.0.issue", "x2", "cannot be changed"),
        ("gpu[99].hbm", "x2", "99"),
        (f"{LINK}.bandwidth", "x0", "no factor"),
        (f"{LINK}.bandwidth", "0", "positive|cannot be 0|bandwidth"),
        (f"{LINK}.bandwidth", "fast", "bandwidth"),
    ],
)
def test_what_cannot_be_asked_is_refused(done, path, value, said):
    with pytest.raises(InputError, match=said):
        done.what_if(path, value)
