"""Edits in the middle of a run: dead links, SMs, undo, parameters that a reset keeps, new runs."""

from contextlib import suppress

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.core.errors import Deadlock, InputError
from astranb.core.units import bandwidth_Bps, time_ps
from astranb.net.link import NEVER
from astranb.sim import Replay

SIZE = "32 KiB"


def make(algorithm="ring", size=SIZE, network=None, **options):
    options.setdefault("record", False)
    collective = anb.collectives.all_reduce(size, algorithm, **options.pop("collective", {}))
    return anb.Simulation("dgx-h100", collective, network=network, **options)


@pytest.fixture(scope="module")
def whole():
    """The same run without any edit, at its end."""
    sim = make()
    sim.run()
    return sim


def link_of(sim, rank=0):
    row = int((sim.engine.machine.links["src"] == sim.engine.fabric.gpus[rank]).argmax())
    return sim.engine.fabric.name(row).partition("#")[0]


def rows_of(sim):
    """Everything that links say, but for what a run's own end decides."""
    return [{k: v for k, v in row.items() if k != "utilisation"} for row in sim.result.table("links")]


# Dead links ------------------------------------------------------------------


def test_a_dead_link_ends_the_run_with_its_name():
    sim = make()
    sim.step(1500)
    link = link_of(sim)
    sim.take_down(link)
    with pytest.raises(Deadlock, match=r"is down since .* lines wait for it") as caught:
        sim.run()
    assert link in str(caught.value)
    assert "\n" not in str(caught.value)
    assert dict(sim.inspect(link)["state"])["down"].startswith("5 of 5 lanes")
    assert not sim.finished
    with pytest.raises(Deadlock):  # and says so again
        sim.run()


@pytest.mark.parametrize("steps", [7, 1000, 50_000])
def test_it_ends_at_the_same_event_however_it_is_divided(steps):
    one, other = make(size="4 KiB"), make(size="4 KiB")
    for sim in (one, other):
        sim.take_down(link_of(sim))
    with pytest.raises(Deadlock):
        one.run()
    with pytest.raises(Deadlock):  # noqa: PT012 - whichever of the steps it is
        while True:
            other.step(steps)
    assert other.events == one.events
    assert other.state_hash() == one.state_hash()


@pytest.mark.parametrize(
    "options",
    [
        {"algorithm": "allpairs"},
        {"collective": {"protocol": "LL"}},
        {"network": anb.Network(arbitration="fair")},
        {"network": anb.Network(buffers=4)},
        {"network": anb.Network(cut_through=True)},
    ],
    ids=["all pairs", "LL", "fair", "buffers", "cut through"],
)
def test_no_kind_of_run_hangs_and_all_can_be_repaired(options):
    sim = make(size="8 KiB", **options)
    sim.step(800)
    link = link_of(sim, 1)
    sim.take_down(link)
    with pytest.raises(Deadlock, match="is down"):
        sim.run()
    sim.repair(link)
    assert sim.run().why == "end"
    assert (sim.engine.machine.links["free_at_ps"] < NEVER).all()
    assert not any(row["queued_ps"] < 0 for row in sim.result.table("links"))


@settings(max_examples=8, deadline=None)
@given(after=st.integers(0, 6000), more=st.integers(0, 9000))
def test_down_and_back_is_as_if_never(whole, after, more):
    sim = make()
    sim.step(after + 1)
    sim.take_down(link_of(sim, 2))
    with suppress(Deadlock):
        sim.step(more)
    sim.back(sim.events - after)
    assert sim.edits == []
    sim.run()
    assert sim.state_hash() == whole.state_hash()


@settings(max_examples=8, deadline=None)
@given(after=st.integers(0, 6000))
def test_down_and_undo_is_as_if_never(whole, after):
    sim = make()
    sim.step(after)
    sim.take_down(link_of(sim, 2), both=True)
    sim.undo(0)
    assert (sim.events, sim.edits) == (after, [])
    sim.run()
    assert sim.state_hash() == whole.state_hash()


@settings(max_examples=8, deadline=None)
@given(after=st.integers(1, 4000), wait=st.integers(1, 20_000))
@example(after=1553, wait=17_133)  # nothing can happen any more before the repair
def test_down_and_repair_is_a_fault_from_the_one_to_the_other(after, wait):
    sim = make()
    sim.goto(sim.step(after).now_ps)  # all of that instant: a fault comes before what else happens then
    from_ps, link = sim.now_ps, link_of(sim, 3)
    until_ps = from_ps + 1000 * wait
    sim.take_down(link)
    sim.repair(link, at=until_ps)
    sim.run()
    faults = (anb.Fault(link, at=from_ps + 1, until=until_ps, down=True),)
    other = make(network=anb.Network(faults=faults))
    other.run()
    assert sim.result.time_ps == other.result.time_ps
    assert rows_of(sim) == rows_of(other)


def test_what_waited_is_recorded_when_it_goes_on():
    sim = make(record=True, size="4 KiB")
    link = link_of(sim)
    sim.step(100)
    sim.take_down(link)
    sim.goto("4 us")
    lanes = sim.engine.fabric.find(link)
    before = sim.engine.recorder.since(0)[1]
    assert before["end_ps"].max() < NEVER
    sim.repair(link)
    flights = sim.engine.recorder.since(len(before))[1]
    assert set(flights["link"].tolist()) <= set(lanes)
    assert (flights["start_ps"] >= sim.now_ps).all()
    sim.run()
    busy = sim.engine.recorder.activity()["link_busy"][lanes].sum() * sim.engine.recorder.activity()["bin_ps"]
    assert busy == pytest.approx(sim.engine.machine.links["busy_ps"][lanes].sum(), rel=1e-9)


def test_back_and_forth_over_edits_is_exact():
    sim = make()
    link = link_of(sim)
    sim.step(900)
    sim.set(f"{link}.bandwidth", "2 GB/s")
    sim.step(700)
    sim.take_down(link)
    sim.step(300)
    sim.repair(link)
    sim.set("gpu[1].sms", 3)
    sim.step(2000)
    here, hashed = sim.events, sim.state_hash()
    sim.back(200)
    sim.step(200)
    assert (sim.events, sim.state_hash()) == (here, hashed)
    replay = Replay(sim)
    replay.goto(0)
    replay.goto(sim.now_ps // 2)
    replay.goto(sim.now_ps)
    assert replay.sim.state_hash() == hashed
    assert len(replay.sim.edits) == 4


def test_a_run_with_a_dead_link_can_be_saved(tmp_path):
    sim = make(size="4 KiB")
    sim.step(300)
    link = link_of(sim)
    sim.take_down(link)
    sim.step(300)
    sim.save(tmp_path / "run")
    other = anb.Simulation.load(tmp_path / "run")
    for one in (sim, other):
        one.repair(link)
        one.run()
    assert other.state_hash() == sim.state_hash()


# SMs ---------------------------------------------------------------------------


def test_sms_from_the_start_are_those_of_a_smaller_gpu():
    channels = {"collective": {"channels": 12}}
    sim = make(size="64 KiB", **channels)
    for rank in range(8):
        sim.set(f"gpu[{rank}].sms", 3)
    sim.run()
    small = sim.rebuilt(gpu={"sms": 3}, keep=False)
    small.run()
    free = make(size="64 KiB", **channels)
    free.run()
    assert sim.result.time_ps == small.result.time_ps != free.result.time_ps
    used = {row["sm"] for row in sim.result.table("blocks")}
    assert used == {0, 1, 2}


def test_blocks_that_have_begun_stay_and_others_move():
    sim = make(size="64 KiB", collective={"channels": 16})
    sim.step(20)
    begun = [b for b in sim.result.table("blocks") if b["rank"] == 7 and b["state"] != "pending"]
    sim.set("gpu[7].sms", "2")
    moved = {b["block"]: b["sm"] for b in sim.result.table("blocks") if b["rank"] == 7}
    assert all(moved[b["block"]] == b["sm"] for b in begun)
    assert {sm for block, sm in moved.items() if block not in {b["block"] for b in begun}} <= {0, 1, -1}
    assert sim.run().why == "end"


# Parameters --------------------------------------------------------------------


def test_reset_keeps_parameters_when_asked():
    sim = make()
    link = link_of(sim)
    sim.step(100)
    sim.set(f"{link}.latency", "2 us")
    sim.step(100)
    sim.set(f"{link}.latency", "3 us")
    sim.run()
    sim.reset(keep=True)
    full = f"{link}.latency"
    assert (sim.events, sim.edits) == (0, [(0, full, "3 us")])
    sim.run()
    from_start = make()
    from_start.set(full, "3 us")
    from_start.run()
    assert sim.result.time_ps == from_start.result.time_ps
    sim.reset(keep=True)
    sim.reset(keep=True)
    assert len(sim.edits) == 1
    sim.undo()
    assert sim.edits == []


def test_reset_undoes_what_was_changed_on_the_way(whole):
    sim = make()
    sim.step(100)
    sim.take_down(link_of(sim))
    sim.reset()
    assert sim.edits == []
    sim.run()
    assert sim.state_hash() == whole.state_hash()


def test_undo_of_one_in_the_middle_forgets_later_ones():
    sim = make()
    for rank in range(3):
        sim.step(10)
        sim.set(f"gpu[{rank}].l2", "1 us")
    stop = sim.undo(1)
    assert (stop.why, sim.events, len(sim.edits)) == ("back", 20, 1)
    with pytest.raises(InputError, match="there are 1"):
        sim.undo(4)


@pytest.mark.parametrize("path", ["gpu[3]", "link"])
def test_what_parameters_say_can_be_set(path):
    sim = make()
    path = link_of(sim) if path == "link" else path
    for parameter in sim.parameters(path):
        sim.set(parameter.path, parameter.value)
        assert parameter.effect.startswith("now")
    after = make()
    after.run()
    sim.run()
    assert sim.result.time_ps == after.result.time_ps  # nothing has become different


def test_parameters_of_other_things():
    sim = make()
    assert sim.parameters("gpu[0].sm.3") == []
    by_path = {p.path: p for p in sim.parameters()}
    assert by_path["algorithm"].value == "ring"
    assert "allpairs" in by_path["algorithm"].choices
    assert by_path["gpu.sms"].value == "132"
    assert all(p.effect == "from the start of a new run" for p in by_path.values())


@pytest.mark.parametrize(
    "path,value,says",
    [
        ("gpu[0].sms", 0, "1 to 132"),
        ("gpu[0].sms", 133, "1 to 132"),
        ("gpu[0].sms", "many", "1 to 132"),
        ("gpu[0].smss", 3, "did you mean 'sms'"),
        ("link.up", "perhaps", "neither yes nor no"),
        ("link.bandwidth", 0, "bandwidth"),
        ("link.bandwidth", True, "not a value"),
        ("gpu[0].issue", 0, "greater than zero"),
    ],
)
def test_a_bad_edit_is_one_line(path, value, says):
    sim = make(size="4 KiB")
    with pytest.raises(InputError, match=says) as caught:
        sim.set(path.replace("link", link_of(sim)), value)
    assert "\n" not in str(caught.value)
    assert sim.edits == []


# New runs ------------------------------------------------------------------------


def test_rebuilt_is_what_one_would_have_made():
    sim = make()
    sim.step(500)
    other = sim.rebuilt(algorithm="allpairs", size="16 KiB", network={"arbitration": "fair"})
    made = make("allpairs", "16 KiB", anb.Network(arbitration="fair"))
    assert other.events == 0
    assert other.state_hash() == made.state_hash()
    other.run()
    made.run()
    assert other.state_hash() == made.state_hash()
    assert sim.events == 500


def test_rebuilt_keeps_parameters():
    sim = make()
    link = link_of(sim)
    sim.step(500)
    sim.set(f"{link}.bandwidth", "1 GB/s")
    assert sim.rebuilt(algorithm="allpairs").edits == [(0, f"{link}.bandwidth", "1 GB/s")]
    assert sim.rebuilt(algorithm="allpairs", keep=False).edits == []


def test_rebuilt_of_a_coalesced_run_starts_from_the_gpu_as_given():
    sim = make(network=anb.Network(coalesce=4))
    assert sim.rebuilt(network={"coalesce": 1}).engine.presets == sim.engine.chosen
    assert sim.rebuilt().engine.presets == sim.engine.presets


def test_fork_with_changes_of_objects_has_the_same_past():
    sim = make()
    sim.step(500)
    link = link_of(sim)
    same_past = sim.fork_with({f"{link}.bandwidth": "1 GB/s"})
    assert same_past.events == 500
    anew = sim.fork_with(
        {"algorithm": "allpairs", "gpu.unroll": "8", "network.buffers": "8", "channels": "2"}
    )
    assert (anew.events, anew.engine.chosen[0].unroll, anew.engine.network.buffers) == (0, 8, 8)
    assert anew.engine.work.channels == 2


@pytest.mark.parametrize(
    "changes,says",
    [
        ({"algorithm": "rign"}, "did you mean 'ring'"),
        ({"algoritm": "ring"}, "did you mean 'algorithm'"),
        ({"size": "0 B"}, "at least 1 B"),
        ({"network.arbitration": "unfair"}, "did you mean 'fair'"),
        ({"gpu.sms": "0"}, "sms is out of range: 0; take 1 to"),
        ({"gpu.unroll": "lots"}, "whole number"),
        ({"network.buffers": "lots"}, "number of messages"),
        ({"channels": "lots"}, "channels"),
    ],
)
def test_a_bad_fork_is_one_line(changes, says):
    with pytest.raises(InputError, match=says) as caught:
        make(size="4 KiB").fork_with(changes)
    assert "\n" not in str(caught.value)


def test_written_values_are_read_back():
    assert bandwidth_Bps("25 GB/s") == 25_000_000_000
    assert time_ps("1.5 µs") == 1_500_000


def test_the_bandwidth_of_a_link_is_that_of_all_its_lanes():
    sim = make()
    link = next(
        name
        for name in map(sim.engine.fabric.name, range(99))
        if len(sim.engine.fabric.find(name.partition("#")[0])) == 5
    )
    link = link.partition("#")[0]
    assert dict(sim.inspect(link)["state"])["bandwidth"] == "125 GB/s (5 lanes x 25 GB/s)"
    shown = {p.path.rpartition(".")[2]: p for p in sim.parameters(link)}["bandwidth"]
    assert (shown.value, shown.meaning) == ("125 GB/s", "from one end to the other: 5 lanes x 25 GB/s")
    sim.set(f"{link}.bandwidth", "62.5 GB/s")
    assert dict(sim.inspect(link)["state"])["bandwidth"] == "62.5 GB/s (5 lanes x 12.5 GB/s)"
    assert sim.at(link).state["bandwidth_Bps"] == 62_500_000_000
    assert {p.path: p.value for p in sim.parameters(link)}[f"{link}.bandwidth"] == "62.5 GB/s"
    assert sim.what_if(f"{link}.bandwidth", "62.5 GB/s").was == "62.5 GB/s"
    sim.set(f"{link}#2.bandwidth", "2.5 GB/s")
    assert dict(sim.inspect(link)["state"])["bandwidth"] == "52.5 GB/s (5 lanes x 2.5 GB/s to 12.5 GB/s)"
    assert {p.path: p.value for p in sim.parameters(f"{link}#2")}[f"{link}#2.bandwidth"] == "2.5 GB/s"
