"""What-if answers: exact ones are runs, estimates keep their bound."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from astranb.core.errors import Deadlock, InputError
from tests.engine.cacheline.support import CASES, LINK, made, made_of, posting


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


FIELDS = (
    "*->*.latency", "*->*.bandwidth", "gpu[*].noc", "gpu[*].l2", "gpu[*].hbm", "gpu[*].issue", "gpu[*].fence",
    "gpu[*].atomic", "gpu[2].fence", f"{LINK}.latency", "gpu[1].hbm",
)  # fmt: skip


@settings(max_examples=25, deadline=None)
@given(
    case=CASES,
    size=st.integers(200, 12_000),
    path=st.sampled_from(FIELDS),
    factor=st.sampled_from(["x0.25", "x0.5", "x2", "x3"]),
)
def test_no_run_is_shorter_than_the_bound_of_its_estimate(case, size, path, factor):
    kind, name, protocol = case
    try:
        sim = made(size, name, protocol, kind, record=False)
    except InputError:
        return  # it does not fit the infrastructure
    sim.run()
    try:
        change = sim.what_if(path, factor)
    except InputError as error:
        assert "is 0 here" in str(error)  # noqa: PT017
        return
    # A packet that no longer comes after its first read is found in L2: a read of HBM less.
    saved_ps = sim.critical_path().by_cause().get("HBM", 0) if protocol != "Simple" else 0
    saved_ps *= max(1, float(factor[1:]))
    assert change.at_least_ps <= change.exact_ps + saved_ps, change
    assert change.at_least_ps <= change.estimate_ps, change


@pytest.mark.parametrize("algorithm,protocol", [("ring", "LL"), ("allpairs", "LL"), ("allpairs", "LL128")])
@pytest.mark.parametrize("path", ["*->*.latency", "gpu[*].hbm", "gpu[*].issue"])
@pytest.mark.parametrize("factor", ["x0.5", "x3"])
def test_the_bound_holds_for_packets(algorithm, protocol, path, factor):
    """The path goes to the sender, not round the reader's own tries."""
    sim = made(500, algorithm, protocol, record=False)
    sim.run()
    assert sim.critical_path().by_cause()["latency"] > 0
    change = sim.what_if(path, factor)
    assert change.at_least_ps <= change.exact_ps, change


@pytest.mark.parametrize("value", ["x0.5", "x2", "200 ns"])
def test_fences_of_signals_that_are_posted_are_asked_about(value):
    sim = made_of("broadcast", "16 KiB", posting, record=False)
    sim.run()
    change = sim.what_if("gpu[*].fence", value)
    assert change.on_path_ps > 0
    assert change.at_least_ps <= change.exact_ps
    assert change.estimate_ps == pytest.approx(change.exact_ps, rel=0.1), change
    one = sim.what_if("gpu[3].fence", value)
    assert one.at_least_ps <= one.exact_ps
    other = made_of("broadcast", "16 KiB", posting)
    was = int(other.engine.machine.gpus["fence_ps"][3])
    other.set("gpu[3].fence", f"{int(was * float(value[1:]))} ps" if value.startswith("x") else value)
    other.run()
    assert one.exact_ps == other.result.time_ps


def test_everything_that_can_be_set_can_be_asked(done):
    """A run replaces a missing estimate; parameters that are fixed at the start are refused in a line."""
    for object_ in ("gpu[3]", LINK):
        for parameter in done.parameters(object_):
            name = parameter.path.rpartition(".")[2]
            value = {"sms": "8", "up": "yes"}.get(name, "x0.5")
            try:
                change = done.what_if(f"{object_}.{name}", value)
            except InputError as error:
                assert "is 0 here" in str(error)  # noqa: PT017
                continue
            other = made()
            if name in ("sms", "up"):
                assert change.estimate_ps is None
                assert change.was == parameter.value
                other.set(f"{object_}.{name}", value)
                other.run()
                assert change.exact_ps == other.result.time_ps
            else:
                assert change.estimate_ps is not None
    with pytest.raises(Deadlock):
        done.what_if(f"{LINK}.up", "no")


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
        ("gpu[1].poll", "x2", "cannot be changed"),
        ("gpu[1].sms", "x2", "a number of SMs must be 1 to 132"),
        ("launch", "none", "rebuilt.launch"),
        ("gpu[3].start", "1 us", "rebuilt.start"),
        ("gpu[99].hbm", "x2", "99"),
        (f"{LINK}.bandwidth", "x0", "not a factor"),
        (f"{LINK}.bandwidth", "0", "positive|cannot be 0|bandwidth"),
        (f"{LINK}.bandwidth", "fast", "bandwidth"),
    ],
)
def test_what_cannot_be_asked_is_refused(done, path, value, said):
    with pytest.raises(InputError, match=said):
        done.what_if(path, value)
