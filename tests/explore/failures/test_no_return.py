"""The point of no return: the same moment as by trying every one."""

from __future__ import annotations

import pytest

import astranb as anb
from astranb.core.errors import Deadlock, InputError
from astranb.explore import point_of_no_return

SLOW, FAST = ("link[0].bandwidth", "1 GB/s"), ("link[0].bandwidth", "50 GB/s")


def run(size: str = "1 MiB", fidelity: str = "congestion") -> anb.Simulation:
    what = anb.collectives.all_gather(size, "ring")
    return anb.Simulation("ring:gpus=4", what, fidelity=fidelity, record=False)


def repaired_ends(sim: anb.Simulation) -> list[int]:
    """Return the ends of the runs repaired at each event from the last edit on."""
    end = sim.fork()
    end.run()
    found = []
    for event in range(sim.edits[-1][0], end.events + 1):
        fork = end.fork()
        fork.back(end.events - event)
        fork.set(*FAST)
        fork.run()
        found.append(fork.result.time_ps)
    return found


def test_it_is_what_trying_every_event_finds() -> None:
    sim = run()
    sim.step(3)
    sim.set(*SLOW)
    ends = repaired_ends(sim)
    for deadline_us in (100, 400, 700):
        helped = [end <= deadline_us * 10**6 for end in ends]
        found = point_of_no_return(sim, FAST, f"{deadline_us} us")
        assert sim.events == 3
        assert helped == sorted(helped, reverse=True)  # it is monotone, and the search says so
        assert found.exceptions == ()
        assert found.event == 3 + helped.count(True) - 1
        assert found.avoidable
        assert found.avoided_end_ps == ends[found.event - 3] <= deadline_us * 10**6
        assert found.tried < len(helped)
    sim.run()
    sim.back(sim.events - found.event)
    sim.set(*FAST)
    assert sim.run().now_ps == found.avoided_end_ps


def test_a_hang_with_a_repair_and_one_without() -> None:
    sim = run()
    sim.step(5)
    sim.set("link[0].up", "no")
    with pytest.raises(Deadlock):
        sim.run()
    found = point_of_no_return(sim, ("link[0].up", "yes"))
    assert found.event == found.ends_at == sim.events
    assert "avoidable up to the end" in str(found)
    assert found.otherwise.startswith("box.0.gpu.0->box.0.gpu.1 is down")
    never = point_of_no_return(sim, ("link[1].bandwidth", "90 GB/s"))
    assert not never.avoidable
    assert (never.event, never.time_ps, never.avoided_end_ps) == (-1, -1, -1)
    assert str(never).startswith("never avoidable by this repair\notherwise: box.0.gpu.0->box.0.gpu.1")


def test_what_is_not_monotone_is_reported() -> None:
    sim = run()
    sim.set("link[0].up", "no")

    def every_other(fork: anb.Simulation) -> None:
        if fork.events % 2 == 0:
            fork.set("link[0].up", "yes")

    found = point_of_no_return(sim, every_other, checks=12)
    assert found.exceptions
    assert "not monotone" in str(found)


def test_nothing_to_avoid() -> None:
    with pytest.raises(InputError, match="nothing has to be avoided: it ends"):
        point_of_no_return(run(), FAST)
    with pytest.raises(InputError, match="before the deadline"):
        point_of_no_return(run(), FAST, "1 s")


def test_by_cache_lines() -> None:
    sim = run("2 KiB", "cacheline")
    sim.set("gpu[0]->gpu[1].bandwidth", "100 MB/s")
    found = point_of_no_return(sim, ("gpu[0]->gpu[1].bandwidth", "50 GB/s"), "12 us", checks=1)
    assert 0 < found.event < found.ends_at
    assert found.because
    fork = sim.fork()
    fork.step(found.event + 1)
    fork.set("gpu[0]->gpu[1].bandwidth", "50 GB/s")
    fork.run()
    assert fork.result.time_ps > 12_000_000 >= found.avoided_end_ps
