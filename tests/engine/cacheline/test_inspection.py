"""Recording, inspection and results show what the machine did, and nothing else."""

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.core.units import format_time
from astranb.engine.cacheline import CAUSES, SPAN_STATES
from astranb.engine.cacheline.critical_path import WAITS
from astranb.engine.cacheline.time_classes import TIME_CLASSES
from tests.engine.cacheline.support import LINK


def test_every_hop_is_one_flight(done):
    flights, one_in = done.engine.recorder.flights(0, done.now_ps)
    assert one_in == 1
    assert len(flights) == done.engine.machine.clock[0].hops
    counts = np.bincount(flights["link"], minlength=len(done.engine.machine.links))
    assert (counts == done.engine.machine.links["messages"]).all()
    assert (np.diff(flights["event"]) > 0).all()
    assert (flights["end_ps"] > flights["start_ps"]).all()
    waited = np.bincount(flights["link"], flights["start_ps"] - flights["queued_ps"], len(counts))
    assert (waited == done.engine.machine.links["queued_ps"]).all()


def test_a_window_holds_what_overlaps_it(done):
    flights, _ = done.engine.recorder.flights(0, done.now_ps)
    window, _ = done.engine.recorder.flights(1_000_000, 1_200_000)
    expected = (flights["end_ps"] >= 1_000_000) & (flights["queued_ps"] <= 1_200_000)
    assert len(window) == expected.sum() > 0
    some, one_in = done.engine.recorder.flights(0, done.now_ps, limit=100)
    assert len(some) <= 100
    assert one_in == -(-len(flights) // 100)


def test_the_recording_goes_back_with_the_simulation(done):
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "allpairs"))
    sim.run()
    sim.goto("2 us")
    assert sim.engine.recorder.flights(0, 10**12)[0]["event"].max() <= sim.events
    sim.run()
    again, _ = sim.engine.recorder.flights(0, sim.now_ps)
    whole, _ = done.engine.recorder.flights(0, done.now_ps)
    assert (np.asarray(again) == np.asarray(whole)).all()
    assert (sim.engine.recorder.activity()["link_busy"] == done.engine.recorder.activity()["link_busy"]).all()


def test_a_full_ring_keeps_the_newest(monkeypatch):
    monkeypatch.setattr("astranb.engine.cacheline.build._FLIGHTS", 1000)
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "allpairs"))
    sim.run()
    flights, _ = sim.engine.recorder.flights(0, 10**12)
    assert len(flights) == 1000
    assert sim.engine.recorder.oldest_ps >= flights["start_ps"].min() > 0
    last = int(flights["event"][-1])
    sim.back(sim.events - last + 1)
    assert sim.engine.recorder.flights(0, 10**12)[0]["event"].max(initial=0) < last


def test_activity_adds_up_to_what_the_links_say(done):
    activity = done.engine.recorder.activity()
    busy = activity["link_busy"].sum(axis=1) * activity["bin_ps"]
    assert busy == pytest.approx(done.engine.machine.links["busy_ps"].astype(float), rel=0.2)
    lines = done.engine.machine.l2_slices["busy_ps"].reshape(8, -1).sum(axis=1)
    assert activity["l2_busy"].sum(axis=1) * activity["bin_ps"] * 80 == pytest.approx(lines.astype(float))


def test_spans_of_a_block_do_not_overlap(done):
    spans = done.spans()
    for block in np.unique(spans["block"]):
        mine = spans[spans["block"] == block]
        assert (mine["start_ps"][1:] >= mine["end_ps"][:-1]).all()
        assert mine["end_ps"][-1] == done.engine.machine.blocks["ended_ps"][block]
    assert {"issue or data", "semaphore", "fence"} <= {SPAN_STATES[s] for s in np.unique(spans["state"])}


def test_spans_agree_with_the_times_that_blocks_book(done):
    spans = done.spans()
    for state, field in ((0, "moving_ps"), (2, "waiting_ps"), (3, "draining_ps")):
        mine = spans[spans["state"] == state]
        total = int((mine["end_ps"] - mine["start_ps"]).sum())
        assert total == int(done.engine.machine.blocks[field].sum())


def test_in_flight_counts_agree(half):
    live = int((half.engine.machine.requests["live"] == 1).sum())
    assert live > 0
    assert sum(half.inspect(f"gpu[{r}]")["in_flight_count"] for r in range(8)) == live
    inside = half.inspect("gpu[2]")
    per_sm = sum(half.inspect(child["path"])["in_flight_count"] for child in inside["children"])
    assert per_sm == inside["in_flight_count"]


def test_what_a_link_carries_is_what_is_flying(half):
    flights, _ = half.engine.recorder.flights(half.now_ps, half.now_ps)
    for link in range(0, len(half.engine.machine.links), 17):
        inside = half.inspect(half.engine.fabric.name(link))
        # A message that waits for the wire has been taken in, but its first bit is not out.
        later, _ = half.engine.recorder.flights(half.now_ps, 10**12)
        on_it = later[(later["link"] == link) & (later["end_ps"] >= half.now_ps)]
        assert inside["in_flight_count"] == len(on_it)
    assert len(flights)


def test_every_object_can_be_looked_at(half):
    for path in (
        "gpu[0]",
        "gpu[7].sm.0",
        "gpu[3].block.0",
        half.engine.fabric.name(5),
        half.engine.fabric.name(5).partition("#")[0],
    ):
        inside = half.inspect(path)
        assert inside["state"]
        assert all(isinstance(text, str) for _, text in inside["state"])
    switch = int(half.engine.machine.links[0].dst)
    assert half.inspect(half.engine.fabric.graph.name(switch))["kind"] == "node"


def test_every_event_has_a_sentence():
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("4 KiB", "ring"))
    assert sim.narrate() == "nothing has happened yet"
    words = set()
    while not sim.finished:
        sim.step(7)
        text = sim.narrate()
        assert "\n" not in text
        words.update(text.replace(":", " ").split())
    assert {"load", "store", "signal", "poll", "acknowledgement", "instruction", "HBM", "L2"} <= words


def test_results_while_it_runs_and_at_the_end(half, done):
    assert half.result.algbw_Bps is None
    assert half.result.absent["algbw_Bps"] == "the run has not ended"
    assert "so far" in half.result.summary()
    assert done.result.busbw_Bps == pytest.approx(1.75 * done.result.algbw_Bps)
    assert done.result.time_ps == max(row["end_ps"] for row in done.result.per_rank())
    for result in (half.result, done.result):
        assert sum(result.breakdown().values()) == pytest.approx(1, abs=0.01)
        for name, rows in (
            ("ranks", 8),
            ("links", len(done.engine.machine.links)),
            ("phases", 2),
            ("blocks", 8 * done.engine.program.channels),
            ("ops", len(done.engine.machine.ops)),
        ):
            assert len(result.to_dataframe(name)) == rows
    with pytest.raises(InputError, match="did you mean 'links'"):
        done.result.to_dataframe("link")


def test_the_explanation_names_what_matters(done):
    text = done.result.explain()
    for part in (
        "Where the thread blocks' time went",
        "Busiest links",
        "Bandwidth limit",
        "ended last",
        "Assumed",
    ):
        assert part in text
    assert done.result._repr_html_().startswith("<pre>")


def test_a_line_shows_where_it_is_and_its_route(half):
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


def test_an_object_has_numbers_and_words(half, done):
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
    block = half.at("gpu[3].block.1")
    assert block.doing in {*TIME_CLASSES, "pending", "done"}
    (spot,) = (spot for spot in half.where() if (spot.gpu, spot.block) == (3, 1))
    assert block.line == spot.line > 0
    assert block.code == half.source.parts[spot.part].line(spot.line) != ""
    ended = done.at("gpu[3].block.1")
    assert (ended.line, ended.code) == (0, "")
    assert set(WAITS) <= set(CAUSES)


def test_links_are_busy_for_the_time_until_now_only():
    """Messages taken and not sent yet do not count: a link is never busier than 100 %."""
    queued = 0
    for sim, steps in (
        (anb.Simulation("ring:gpus=4", anb.collectives.all_gather("1 MiB", "ring")), 5003),
        (anb.Simulation("clos:servers=2", anb.collectives.all_gather("16 KiB", "allpairs")), 3001),
        (
            anb.Simulation(
                "ring:gpus=4", anb.collectives.all_gather("16 KiB", "ring"), network=anb.Network(buffers=3)
            ),
            301,
        ),
    ):
        for _ in range(12):
            sim.step(steps)
            now, links = max(1, sim.now_ps), sim.engine.machine.links
            carried = {row["link"]: row["busy_ps"] for row in sim.aggregate(0, now).links}
            rows = sim.result.table("links")
            queued += int((links["busy_ps"] > now).sum())
            for number, row in enumerate(rows):
                wire = int(links[number].wire_ps)  # a message may be sent a little after the wire is free
                assert abs(row["utilisation"] * now - carried.get(row["link"], 0)) <= wire, (now, row)
            busiest = max(rows, key=lambda row: row["utilisation"])
            assert busiest["utilisation"] <= 1
            shown = f"{busiest['utilisation']:.1%}"
            assert dict(sim.inspect(busiest["link"])["state"])["utilisation so far"] == shown
    assert queued > 0  # there were links that had taken more than could have been sent


def test_what_waits_for_a_link_that_is_down_has_not_kept_it_busy():
    sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("64 KiB", "ring"))
    sim.step(1000)
    sim.take_down(LINK)
    sim.step(30_000)
    before = dict(sim.inspect(LINK)["state"])
    assert "lines wait" in before["down"]
    assert before["utilisation so far"] == "0.0%"
    sim.repair(LINK)
    assert dict(sim.inspect(LINK)["state"])["utilisation so far"] == "0.0%"
    sim.step(1000)
    assert dict(sim.inspect(LINK)["state"])["utilisation so far"] != "0.0%"
