"""The critical path: contiguous, and exactly the time of the run."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from astranb.core.errors import InputError
from astranb.engine.cacheline.state import CacheLineState
from astranb.net import Dcqcn, Ecn, Network, Pfc, Roce
from tests.engine.cacheline.support import CASES, LINK, NETWORKS, check_path, made


def check_flights(sim, path):
    """Check that the path agrees with the records of links: the queue, the wire and the latency."""
    flights, one_in = sim.engine.recorder.flights(0, sim.now_ps)
    assert one_in == 1
    latency = sim.engine.machine.links["latency_ps"]
    for segment in path.line_segments:
        if segment.where[0] != "link" or segment.passes > 1:
            continue
        mine = flights[(flights["link"] == segment.where[1]) & (flights["op"] == segment.op)]
        out = mine["end_ps"] - latency[segment.where[1]]
        first, last = {
            "queue": (mine["queued_ps"], mine["start_ps"]),
            "wire": (mine["start_ps"], out),
            "latency": (out, mine["end_ps"]),
        }[segment.cause]
        assert ((first == segment.start_ps) & (last == segment.end_ps)).any(), segment


@settings(max_examples=25, deadline=None)
@example(case=("gather", "allpairs", "Simple"), size=798, network=NETWORKS[2], part=0.6008067857140387)
@example(
    case=("reduce_scatter", "allpairs", "LL128"), size=9945, network=NETWORKS[5], part=0.8689821166242091
)
@given(case=CASES, size=st.integers(200, 20_000), network=st.sampled_from(NETWORKS), part=st.floats(0.05, 1))
def test_a_critical_path_is_the_time(case, size, network, part):
    kind, name, protocol = case
    if name == "switch":
        network = NETWORKS[0]
    try:
        sim = made(size, name, protocol, kind, network=network)
    except InputError:
        return  # it does not fit the infrastructure
    sim.run()
    path = check_path(sim)
    if network == NETWORKS[0] and name != "switch":
        check_flights(sim, path)
    sim.goto(int(sim.now_ps * part))
    if sim.events:
        check_path(sim)


def test_what_comes_after_the_last_block_is_no_part_of_the_path():
    sim = made("8 KiB", kind="barrier", network=NETWORKS[-1])
    sim.run()
    path = check_path(sim)
    sim.goto("1.5 us")  # all blocks have ended; the link is still down
    assert not sim.finished
    assert sim.now_ps > sim.result.time_ps == path.time_ps
    assert check_path(sim).segments == path.segments


@pytest.mark.parametrize("dcqcn", [None, Dcqcn(interval="2 us", byte_counter="4 kB")])
def test_queues_and_rates_of_ethernet_are_on_the_path(dcqcn):
    roce = Roce(Pfc("2 KiB", "1 KiB"), Ecn("1 kB", "4 kB", 0.5), dcqcn)
    sim = made("32 KiB", "allpairs", infra="clos:servers=4", network=Network(roce=roce))
    sim.run()
    causes = check_path(sim).by_cause()
    assert causes["queue"] > 0
    for part in (0.3, 0.6):
        sim.goto(int(part * sim.now_ps))
        check_path(sim)
        for rank in range(len(sim.engine.machine.gpus)):
            assert len(sim.why(f"gpu[{rank}]")) > 0


@pytest.mark.parametrize("launch", ["graph", "stream"])
def test_launches_are_on_the_path(launch):
    sim = made("4 KiB", protocol="LL", launch=launch)
    sim.run()
    assert check_path(sim).by_cause()["launch"] > 0


def test_a_long_run_is_read_in_stretches(monkeypatch, done):
    whole = done.critical_path()
    monkeypatch.setattr("astranb.engine.cacheline.event_trace._WINDOW", 1000)
    sim = done.fork(record=False)
    assert sim.critical_path().segments == whole.segments


@pytest.mark.parametrize("checkpoint_bytes", [0, 2**30])
def test_each_event_is_replayed_a_few_times_however_long_the_run(monkeypatch, checkpoint_bytes):
    """Also where signals come at the first poll, and what is looked for does not exist."""
    monkeypatch.setattr("astranb.engine.cacheline.event_trace._WINDOW", 1000)
    monkeypatch.setattr("astranb.engine.cacheline.event_trace._STATE_BYTES", 2**40)
    sim = made("64 KiB", "allpairs", record=False, checkpoint_bytes=checkpoint_bytes)
    sim.run()
    handled = 0
    go = CacheLineState.go

    def counted(engine, **limits):
        nonlocal handled
        before = engine.events
        why = go(engine, **limits)
        handled += engine.events - before
        return why

    monkeypatch.setattr(CacheLineState, "go", counted)
    check_path(sim)
    assert sim.events > 50_000
    assert sim.events < handled < 5 * sim.events


def test_nothing_need_be_recorded_and_nothing_moves(done):
    sim = made(record=False)
    sim.run()
    before = sim.state_hash()
    assert sim.critical_path().segments == done.critical_path().segments
    assert sim.state_hash() == before == done.state_hash()


def test_edits_in_the_middle_count():
    sim = made("8 KiB")
    sim.run(until="1 us")
    sim.set(f"{LINK}.latency", "3 us")
    sim.run()
    path = check_path(sim)
    assert max(path.by_resource().values()) > 2_900_000
    sim.goto("2 us")
    check_path(sim)


def test_two_gpus_by_hand():
    """All-gather of a line each: what each segment takes is known."""
    sim = made("128 B", "allpairs", kind="all_gather", infra="switch:gpus=2")
    sim.run()
    path = check_path(sim)
    gpu = sim.engine.machine.gpus[0]
    causes = path.by_cause()
    # Each line that was missing in the L2 is read once, and pays both latencies.
    memory = [p for p in path.line_segments if p.cause == "HBM"]
    assert all(p.end_ps - p.start_ps >= gpu.hbm_ps + gpu.l2_ps for p in memory)
    fences = [p for p in path.line_segments if p.cause == "fence"]
    assert sum(p.end_ps - p.start_ps for p in fences) == causes["fence"] == len(fences) * gpu.fence_ps
    chip = [p for p in path.line_segments if p.cause == "on chip"]
    assert sum(p.end_ps - p.start_ps for p in chip) == sum(p.passes for p in chip) * gpu.noc_ps


def test_a_path_can_be_shown_and_tabled(done):
    path = done.critical_path()
    frame = path.to_dataframe()
    assert frame["length_ps"].sum() == path.time_ps
    assert list(frame["cause"]) == [s.cause for s in path]
    assert len(frame) == len(path)
    assert "Critical path" in str(path)
    assert path._repr_html_().startswith("<b>Critical path")
    assert done.critical_path() is path
