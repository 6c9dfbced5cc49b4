"""NICs that move data between nodes: their times, bytes and order."""

from __future__ import annotations

import numpy as np
import pytest

import astranb as anb
from astranb.core.errors import InputError
from astranb.gpu import preset
from astranb.gpu import tables as t

_TWO = "single-tier:servers=2,server=dgx-h100"


def _send(size, *, gpu=None, algorithm="put", **options):
    wanted = anb.collectives.Collective.of("send_recv", size, algorithm, channels=1)
    sim = anb.Simulation(_TWO, wanted, gpu=gpu, record=False, **options)
    sim.run()
    return sim


def _post(p):
    """Every rank posts its buffer to its right neighbour: NICs read it where it is."""
    came = [p.semaphore(r) for r in range(p.ranks)]
    for me in p.everyone:
        block = me.block()
        block.post(me.input[0], me.right.output[0])
        block.signal(came[me.right.number])
        block.wait(came[me.number])


def _between(sim):
    """The links out of the NIC by which rank 7 reaches rank 8."""
    return sim.engine.machine.links[sim.engine.fabric.find("dgx_h100.0.cx7.7->switch.0.port.7")]


def test_a_message_takes_longer_by_what_a_post_takes():
    plain = _send("4 KiB", gpu=preset("h100-sxm"))
    slower = _send("4 KiB", gpu=preset("h100-sxm").but(nic_post_ps=3_000_000))
    assert slower.now_ps - plain.now_ps == 2_000_000


def test_requests_are_of_4_kib_with_one_header():
    link = _between(_send("64 KiB"))[0]
    assert link.bytes == 16 * (4096 + 42) + 16 + 16  # the last is the signal
    assert link.messages == 16 + 1


def test_large_messages_fill_the_wire_of_a_nic():
    sim = _send("2 MiB", algorithm=_post)
    link = _between(sim)[0]
    assert link.busy_ps > 0.9 * link.free_at_ps  # 5 % until the first bytes come


@pytest.mark.parametrize("most", [8, 256])
def test_no_more_requests_are_in_flight_than_a_nic_has_room_for(most):
    wanted = anb.collectives.Collective.of("send_recv", "1 MiB", _post, channels=1)
    gpu = preset("h100-sxm").but(nic_outstanding=most)
    sim = anb.Simulation(_TWO, wanted, gpu=gpu, record=False, checkpoint_bytes=0)
    seen = 0
    while not sim.finished:
        sim.step(20_000)
        nics = sim.engine.machine.sms[sim.engine.machine.sms["engine"] == t.NIC]
        assert (nics["outstanding"] <= most + nics["resident"]).all()
        seen = max(seen, int(nics["outstanding"].max()))
    assert seen >= min(most, 100)


@pytest.mark.parametrize(
    "network",
    [
        {},
        {"arbitration": "fair"},
        {"multipath": "spray"},
        {"buffers": 4},
        {"faults": [anb.net.Fault("dgx_h100.0.cx7.7->switch.0.port.7", until="8 us", latency="9 us")]},
    ],
)
def test_no_signal_overtakes_its_data(network):
    wanted = anb.collectives.all_reduce("256 KiB", "ring")
    sim = anb.Simulation(_TWO, wanted, network=anb.net.Network(**network), record=False)
    sim.run()  # raises where a rank has read what had not come
    assert sim.finished


def test_no_signal_overtakes_its_data_where_a_latency_falls_meanwhile():
    sim = anb.Simulation(_TWO, anb.collectives.all_reduce("256 KiB", "ring"), record=False)
    link = "dgx_h100.0.cx7.7->switch.0.port.7"
    sim.set(f"{link}.latency", "20 us")
    for _ in range(20):
        sim.step(5000)
        sim.set(f"{link}.latency", "0 ns")
        sim.step(2000)
        sim.set(f"{link}.latency", "20 us")
    sim.run()
    assert sim.finished


def test_queue_pairs_share_the_nic_of_their_gpu():
    sim = anb.Simulation(_TWO, anb.collectives.all_reduce("256 KiB", "ring"), record=False)
    sim.run("5 us")
    machine = sim.engine.machine
    pairs = machine.blocks[machine.blocks["engine"] == t.NIC]
    assert len(pairs) == 2 * sim.engine.program.channels  # a ring leaves each node once
    assert (np.bincount(pairs["gpu"]) == 2 * sim.engine.program.channels // 16).all()
    assert (machine.sms["engine"][pairs["sm"]] == t.NIC).all()
    assert sim.inspect("gpu[0].nic.0")["kind"] == "nic"
    assert len(sim.why("gpu[0].nic.0")) > 0


def test_connections_that_one_block_posts_for_take_all_spines():
    """As many spines as NICs are as good as one switch; over a single one 1 MiB took 2.7 times as long."""

    def time_us(infra):
        sim = anb.explore.library_run(infra, "all_to_all", "512 KiB", fidelity="cacheline")
        sim.run()
        return sim.now_us

    one_switch = time_us("single-tier:servers=4,server=dgx-h100")
    assert one_switch < time_us("clos:servers=4") < 1.1 * one_switch


def test_stepping_back_restores_the_state_of_nics():
    sim = anb.Simulation(_TWO, anb.collectives.all_reduce("64 KiB", "hierarchical"))
    sim.run("8 us")
    before = sim.state_hash()
    sim.step(500)
    sim.back(500)
    assert sim.state_hash() == before


def test_requests_wait_at_a_nic_for_proxy_threads_and_responses_do_not():
    def added_ps(name):
        wanted = anb.collectives.library_choice(_TWO, name, "1 KiB").to_run()
        times = [
            anb.Simulation(_TWO, wanted, network=anb.Network(proxy_ps=ps), record=False).run().now_ps
            for ps in (0, 5_000_000)
        ]
        return times[1] - times[0]

    # Up and down a tree of two nodes; around a ring, where every chunk but two leaves both nodes.
    for name in ("all_reduce", "all_gather"):
        assert added_ps(name) == pytest.approx(2 * 5_000_000, rel=0.05)


def test_proxy_threads_are_on_the_link_from_a_host_to_its_nic():
    slower = _send("4 KiB", algorithm=_post, network=anb.Network(proxy_ps=5_000_000))
    links, find = slower.engine.machine.links, slower.engine.fabric.find
    ways = ("pciesl.7->dgx_h100.0.cx7.7", "cx7.7->dgx_h100.0.pciesl.7", "cx7.7->switch.0.port.7")
    assert [int(links[find(f"dgx_h100.0.{way}")].post_ps.max()) for way in ways] == [5_000_000, 0, 0]
    assert slower.now_ps - _send("4 KiB", algorithm=_post).now_ps >= 5_000_000


def test_inside_a_node_there_are_no_proxy_threads():
    inside = anb.collectives.all_reduce("4 KiB", "ring")
    times = [
        anb.Simulation("dgx-h100", inside, network=anb.Network(proxy_ps=ps), record=False).run().now_ps
        for ps in (0, 5_000_000)
    ]
    assert times[0] == times[1]


@pytest.mark.parametrize("proxy", [-1, 1.5, True, 10**13])
def test_a_proxy_needs_a_time(proxy):
    with pytest.raises(InputError, match="proxy_ps"):
        anb.Network(proxy_ps=proxy)
