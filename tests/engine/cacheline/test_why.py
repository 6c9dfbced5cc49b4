"""Chains of waits at any time, whatever runs."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import Collective
from astranb.core.errors import Deadlock, InputError
from astranb.core.units import format_time
from astranb.gpu import preset
from astranb.gpu import tables as t
from tests.engine.cacheline.support import LINK, NETWORKS, check_path, made


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


@settings(max_examples=25, deadline=None)
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
    assert sim.lost_time()["idle_no_SM_ps"].sum() > 0


def test_ended_and_not_begun(done):
    assert "waits for nothing" in done.why("gpu[1]").links[-1].text
    assert done.why().path
    sim = made("4 KiB", launch="stream")
    assert "its kernel is launched" in str(sim.why("gpu[0]"))
    with pytest.raises(InputError):
        sim.why("gpu[77]")


def test_a_thread_block_that_has_ended_has_the_time_of_its_end(done):
    row = done.result.table("blocks")[0]
    why = done.why(f"gpu[{row['rank']}].block.0")
    assert why.links[-1].text.endswith(f"ended at {format_time(row['ended_ps'])}: it waits for nothing")
    assert "(for" not in str(why)
