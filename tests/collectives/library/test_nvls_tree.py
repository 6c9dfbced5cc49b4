"""NCCL's NVLSTree: a switch in each node, binary trees along the rails between nodes."""

from __future__ import annotations

import numpy as np
import pytest

import astranb as anb
from astranb.collectives import Collective, verify
from astranb.core.errors import InputError
from astranb.gpu import tables as t


def fabric(servers):
    return f"single-tier:servers={servers},server=dgx-h100"


@pytest.mark.parametrize("servers", [1, 2, 3, 4])
@pytest.mark.parametrize("channels", [1, 2])
def test_it_is_right_on_any_number_of_nodes(servers, channels):
    infra = "dgx-h100" if servers == 1 else fabric(servers)
    wanted = Collective.of("all_reduce", "70 KiB", "nvls_tree", channels=channels, chunk_bytes=2048)
    assert verify(wanted, infra) == []
    sim = anb.Simulation(infra, wanted, record=False)
    sim.run()  # checks contents
    assert sim.finished
    assert (sim.engine.machine.requests["live"] == 0).all()


def test_every_node_sends_each_byte_once_up_or_down_a_tree():
    size = 1 << 20
    sim = anb.Simulation(fabric(2), Collective.of("all_reduce", size, "nvls_tree", channels=2), record=False)
    sim.run()
    machine = sim.engine.machine
    for node in range(2):
        lanes = [sim.engine.fabric.find(f"dgx_h100.{node}.cx7.{k}->switch.0.port.*")[0] for k in range(8)]
        sent = machine.links["bytes"][lanes]
        assert (sent > size / 8).all()  # half of its head's data up, half down
        assert (sent < 1.05 * size / 8).all()


def test_switches_add_within_nodes_alone():
    sim = anb.Simulation(fabric(2), Collective.of("all_reduce", "64 KiB", "nvls_tree"), record=False)
    ops = sim.engine.machine.ops
    assert set(np.unique(ops["sources"][ops["in_switch"] == t.SWITCH_READS])) == {8}
    with pytest.raises(InputError, match="no switch joins all GPUs directly"):
        anb.Simulation(fabric(2), anb.collectives.all_reduce("64 KiB", "nvls"))


def test_a_library_that_runs_it_is_simulated_so():
    choice = anb.collectives.library_choice(fabric(2), "all_reduce", "64 MiB")
    assert (choice.algorithm, choice.simulated) == ("NVLSTree", "nvls_tree")
    # Eight heads and as many channels cut 64 MiB into steps of the library's chunk.
    program = choice.to_run().program(fabric(2))
    assert program.cut.of_channel == (64 << 20) // 8 // choice.channels // choice.chunk_bytes


def test_steps_follow_one_another_through_all_stages():
    def took_us(chunk):
        wanted = Collective.of("all_reduce", "4 MiB", "nvls_tree", channels=4, chunk_bytes=chunk)
        sim = anb.Simulation(fabric(2), wanted, record=False, network=anb.Network(coalesce=4))
        sim.run()
        return sim.result.time_us

    assert took_us(32_768) < 0.8 * took_us(131_072)
