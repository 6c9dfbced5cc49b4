import numpy as np
import pytest

import astranb as anb
from astranb.gpu import preset
from astranb.gpu import tables as t
from astranb.gpu.mesh import CHANNEL, PORT, UNIT, next_in_mesh, router_of

GENERIC = preset("generic")


def gpu():
    gpus = np.zeros(1, t.GPU).view(np.recarray)
    gpus[0].sms, gpus[0].engines, gpus[0].hbm_channels = GENERIC.sms, GENERIC.engines, GENERIC.hbm_channels
    gpus[0].columns, gpus[0].rows, gpus[0].ports = GENERIC.columns, GENERIC.rows, GENERIC.ports
    return gpus


def test_the_generic_gpu_has_the_papers_448_endpoints():
    routers = GENERIC.columns * GENERIC.rows
    assert GENERIC.sms + GENERIC.hbm_channels + GENERIC.ports + routers == 448


def test_endpoints_stand_where_the_paper_puts_them():
    gpus, columns, rows = gpu(), GENERIC.columns, GENERIC.rows
    units = np.bincount([router_of(gpus, 0, UNIT, u) for u in range(GENERIC.sms)], minlength=columns * rows)
    assert (units == 4).all()
    channels = np.bincount(
        [router_of(gpus, 0, CHANNEL, c) for c in range(GENERIC.hbm_channels)], minlength=columns * rows
    ).reshape(rows, columns)
    assert (channels[[0, -1]] == 16).all()
    assert (channels[1:-1] == 0).all()
    ports = np.bincount(
        [router_of(gpus, 0, PORT, p) for p in range(GENERIC.ports)], minlength=columns * rows
    ).reshape(rows, columns)
    assert (ports[:, [0, -1]] == 4).all()
    assert (ports[:, 1:-1] == 0).all()


def test_every_route_through_the_mesh_is_the_shortest_and_ends():
    gpus, columns, routers = gpu(), GENERIC.columns, GENERIC.columns * GENERIC.rows
    details = np.zeros(1, t.DETAIL).view(np.recarray)
    for here in range(routers):
        for there in range(routers):
            details[0].router, details[0].to_router, details[0].exit_link = here, there, -7
            steps = 0
            while next_in_mesh(gpus, 0, details, 0) != -7:
                steps += 1
            across = abs(here % columns - there % columns) + abs(here // columns - there // columns)
            assert steps == across
            assert details[0].router == there


@pytest.mark.parametrize("network", [anb.Network(), anb.Network(buffers=1), anb.Network(arbitration="fair")])
def test_a_mesh_ends_empty_with_every_buffer_free(network):
    sim = anb.Simulation(
        "switch:gpus=3", anb.collectives.all_reduce("8 KiB", "allpairs"), gpu="generic", network=network
    )
    sim.run()
    assert (sim.engine.machine.requests["live"] == 0).all()
    chip = sim.engine.machine.links[len(sim.engine.fabric.links) :]
    assert chip["messages"].sum() > 1000
    if network.managed:
        assert (sim.engine.machine.queues["waiting"] == 0).all()
        assert len(np.unique(sim.engine.machine.queues["credits"])) == 1
