"""Why something waits, what the time consists of, and what would help: checked against the run itself."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import ALGORITHMS, Collective
from astranb.core.errors import Deadlock, InputError
from astranb.core.units import format_time
from astranb.engine.cacheline import CAUSES, LOSSES
from astranb.engine.cacheline.critical_path import WAITS
from astranb.gpu import preset
from astranb.gpu import tables as t
from astranb.net import Dcqcn, Ecn, Fault, Network, Pfc, Roce

LINK = "dgx_h100.0.xpu.0->dgx_h100.0.nvsw.0"
NETWORKS = (
    Network(),
    Network(arbitration="fair"),
    Network(buffers=3),
    Network(cut_through=True),
    Network(buffers=16, arbitration="round_robin", cut_through=True, multipath="spray"),
    Network(faults=(Fault(LINK, at="1 us", until="2 us", down=True),)),
)


def made(size="64 KiB", algorithm="allpairs", protocol="Simple", kind="all_reduce", infra="dgx-h100", **rest):
    return anb.Simulation(infra, Collective.of(kind, size, algorithm, protocol=protocol), **rest)


@pytest.fixture(scope="module")
def done():
    sim = made()
    sim.run()
    return sim


@pytest.fixture
def half(done):
    sim = made()
    sim.goto(done.result.time_ps // 2)
    return sim


# The critical path ---------------------------------------------------------------


def check_path(sim):
    """The law: contiguous, from 0 to the end, exactly the time, and of blocks that were at it."""
    path = sim.critical_path()
    assert path.time_ps == sim.result.time_ps
    assert path.segments[0].start_ps == 0
    assert path.segments[-1].end_ps == path.time_ps
    for one, other in zip(path.segments, path.segments[1:], strict=False):
        assert one.end_ps == other.start_ps
    assert sum(path.by_cause().values()) == sum(path.by_resource().values()) == path.time_ps
    ops, blocks = sim.engine.machine.ops, sim.engine.machine.blocks
    for segment in path.line_segments:
        assert segment.cause in CAUSES
        block = blocks[segment.block]
        if segment.cause == "launch":
            assert segment.end_ps == block.started_ps
            continue
        assert segment.start_ps >= block.started_ps
        assert block.state != t.DONE or segment.end_ps <= block.ended_ps
        if segment.op >= 0:
            op = ops[segment.op]
            assert op.block == segment.block
            # A wait for the SM ends when the operation begins; a fence stands before it.
            if segment.cause not in ("issue", "stalled", "fence"):
                assert 0 <= op.started_ps <= segment.end_ps
    return path


def check_flights(sim, path):
    """What the path says of links is what was recorded there: the queue, the wire and the latency."""
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


CASES = st.sampled_from(
    [(kind, name, p) for (kind, name), a in ALGORITHMS.items() for p in a.protocols if name != "hierarchical"]
)


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


# Lost time -------------------------------------------------------------------------


@pytest.mark.parametrize("part", [0, 0.1, 0.5, 0.9, 1])
@pytest.mark.parametrize("protocol,launch", [("Simple", "none"), ("LL", "stream")])
def test_lost_times_add_up(part, protocol, launch):
    sim = made("16 KiB", protocol=protocol, launch=launch)
    sim.run()
    sim.goto(int(part * sim.now_ps)) if part < 1 else None
    for per, rows in (("block", len(sim.engine.machine.blocks)), ("rank", 8)):
        frame = sim.lost_time(per)
        assert len(frame) == rows
        causes = [f"{name.replace(' ', '_')}_ps" for name in LOSSES]
        assert (frame[causes].to_numpy() >= 0).all()
        assert (frame[causes].sum(axis=1) == frame["time_ps"]).all()
    if part == 1:
        blocks = sim.engine.machine.blocks
        assert (sim.lost_time("block")["signal_ps"] == blocks["waiting_ps"]).all()
        assert (sim.lost_time("block")["ended_ps"] == sim.result.time_ps - blocks["ended_ps"]).all()
    with pytest.raises(InputError, match="per rank or per block"):
        sim.lost_time("link")


# What if ---------------------------------------------------------------------------


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


# Why ---------------------------------------------------------------------------------


def waiting(sim):
    """Go on until a thread block waits for a signal; gives its number."""
    while not (sim.engine.machine.blocks["state"] == t.WAITING).any():
        sim.step(200)
    return int(np.flatnonzero(sim.engine.machine.blocks["state"] == t.WAITING)[0])


def test_a_waiting_block_leads_to_whom_it_waits_for():
    sim = made("64 KiB", "ring")
    block = waiting(sim)
    rank = int(sim.engine.machine.blocks["gpu"][block])
    path = f"gpu[{rank}].block.{block - int(np.searchsorted(sim.engine.machine.blocks['gpu'], rank))}"
    why = sim.why(path)
    op = sim.engine.machine.ops[int(sim.engine.machine.blocks["op"][block])]
    assert f"for semaphore {op.semaphore}" in why.links[0].text
    assert why.links[0].since_ps == sim.engine.machine.blocks["since_ps"][block]
    assert "signal" in why.links[1].text
    assert why.links[1].path.startswith("dgx_h100.0.xpu.")
    assert sim.at(why.links[1].path).kind == "block"
    assert not why.circle
    assert "1. GPU" in str(why)
    assert why._repr_html_().count("<li>") == len(why)
    for step in why:  # each can be selected
        assert sim.inspect(step.path)["path"] == step.path


@settings(max_examples=40, deadline=None)
@given(
    case=st.sampled_from([("allpairs", "Simple"), ("ring", "LL"), ("tree", "LL128"), ("switch", "Simple")]),
    network=st.sampled_from(NETWORKS),
    part=st.floats(0, 1),
)
def test_everything_can_be_asked_about_at_any_time(case, network, part):
    sim = made("4 KiB", *case, network=NETWORKS[0] if case[0] == "switch" else network)
    sim.run()
    sim.goto(int(part * sim.now_ps))
    some = [f"gpu[{rank}]" for rank in range(8)]
    some += [some[0] + ".sm.0", "gpu[5].block.0", LINK, f"{LINK}#0", "dgx_h100.0.nvsw.1"]
    some += sim.inspect("gpu[0]")["lines"]
    for path in some:
        why = sim.why(path)
        assert len(why) > 0
        assert not why.circle
        for step in why:
            sim.inspect(step.path)
            assert step.since_ps <= sim.now_ps
        sim.at(path)


def test_a_deadlock_is_a_circle_by_name():
    def stuck(p):
        first, second = p.semaphore(0), p.semaphore(1)
        one, other = p.block(0), p.block(1)
        one.wait(first)
        one.signal(second)
        other.wait(second)
        other.signal(first)

    sim = anb.Simulation("switch:gpus=2", Collective.of("all_reduce", "256 B", stuck))
    with pytest.raises(Deadlock):
        sim.run()
    why = sim.why("gpu[0]")
    assert why.circle
    assert "GPU0 block 0 <- GPU1 block 0 <- GPU0 block 0" in why.links[-1].text
    assert check_path(sim)


def test_one_that_has_no_place_waits_for_one_that_has():
    few = replace(preset("h100-sxm"), sms=1, blocks_per_sm=1)
    sim = made("64 KiB", gpu=few)
    sim.run(until="500 ns")
    why = sim.why("gpu[2].block.3")
    assert "has not begun" in why.links[0].text
    assert why.links[1].path.endswith("xpu.2.block.0")
    sim.run()
    assert check_path(sim)
    assert sim.lost_time()["no_SM_ps"].sum() > 0


def test_ended_and_not_begun(done):
    assert "waits for nothing" in done.why("gpu[1]").links[-1].text
    assert done.why().path
    sim = made("4 KiB", launch="stream")
    assert "its kernel is launched" in str(sim.why("gpu[0]"))
    with pytest.raises(InputError):
        sim.why("gpu[77]")


# Objects and lines -------------------------------------------------------------------


def test_a_line_tells_where_it_is_and_its_way(half):
    half.goto("1 us")
    lines = half.inspect("gpu[0]")["lines"]
    flights, _ = half.engine.recorder.flights(half.now_ps, half.now_ps)
    crossing = 0
    for path in lines:
        line = half.at(path)
        assert line.kind == "line"
        assert line["title"] == path
        request = half.engine.machine.requests[int(path[5:-1])]
        assert line.state["issued_ps"] == request.issued_ps
        words = [text.rpartition(": ")[2] for text in line["route"]]
        order = {"crossed": 0, "on it": 1, "to go": 2}
        assert [order[w] for w in words] == sorted(order[w] for w in words)
        if "on it" in words:
            crossing += 1
            name = line["route"][words.index("on it")].rpartition(": ")[0]
            on = flights[(flights["op"] == request.op) & (flights["end_ps"] == request.arrives_ps)]
            assert name in {half.engine.fabric.name(int(link)) for link in on["link"]}
    assert crossing > 0
    with pytest.raises(InputError, match="not under way"):
        half.inspect("line[4000000]")


def test_the_last_things_that_happened(half, done):
    for path in ("gpu[3]", "gpu[3].sm.0", "gpu[3].block.0", LINK, "dgx_h100.0.nvsw.1"):
        recent = half.inspect(path)["recent"]
        assert 0 < len(recent) <= 10
    carried = half.inspect(f"{LINK}#0")["recent"]
    link = half.engine.fabric.find(f"{LINK}#0")[0]
    flights, _ = half.engine.recorder.flights(0, half.now_ps)
    mine = flights[flights["link"] == link]
    last = mine["end_ps"][mine["end_ps"] <= half.now_ps].max()
    assert any(format_time(int(last)) in text for text in carried)
    assert done.inspect("gpu[3].block.0")["recent"][0].endswith("block 0 ends")


def test_an_object_has_numbers_and_words(half):
    gpu = half.at("gpu[3]")
    assert gpu.path == gpu["path"] == "dgx_h100.0.xpu.3"
    assert gpu.state["max_outstanding"] == half.engine.machine.gpus["max_outstanding"][3]
    assert dict(gpu)["kind"] == gpu.kind == "gpu"
    assert "GPU3" in repr(gpu)
    assert "<table>" in gpu._repr_html_()
    link = half.at(LINK)
    rows = half.engine.fabric.find(LINK)
    assert link.state["lanes"] == len(rows)
    assert link.state["bytes"] == half.engine.machine.links["bytes"][rows].sum()
    assert 0 <= link.state["utilisation"] <= 1
    assert half.at("dgx_h100.0.nvsw.1").state["forward_ps"] > 0
    assert half.at("gpu[3].block.1").state["doing"] in t.BLOCK_STATES
    assert set(WAITS) <= set(CAUSES)
