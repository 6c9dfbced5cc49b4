"""Sends and receives as NCCL does them: between nodes on the receiver's rail, through FIFOs."""

from __future__ import annotations

import pytest

import astranb as anb
from astranb.collectives import Collective, verify
from astranb.collectives.language.listing import list_operations
from astranb.gpu import preset
from astranb.net.shape import Shape

_RAILS = "rails:servers=2,server=dgx-h100"
_TWO = Shape(4, rdma=True)


def _run(collective, size, algorithm, infra=_RAILS, **options):
    sim = anb.Simulation(infra, Collective.of(collective, size, algorithm, **options), record=False)
    sim.run()  # raises where a rank ends with anything but what it must have
    return sim


def _bytes(sim, source, target):
    """Bytes on each of the links between two kinds of devices, by their names."""
    links = sim.result.to_dataframe("links")
    found = links[links["link"].str.contains(f"{source}.*->.*{target}")]
    return found.set_index("link")["bytes"]


@pytest.mark.parametrize("size", ["64KiB", "1MiB", "300001"])
@pytest.mark.parametrize("collective", ["all_to_all", "send_recv"])
@pytest.mark.parametrize("protocol", ["Simple", "LL"])
@pytest.mark.parametrize("shape", [_TWO, Shape(8), Shape(1, rdma=True)])
def test_it_is_right_at_any_timing(collective, size, protocol, shape):
    wanted = Collective.of(collective, size, "pxn", channels=2, protocol=protocol, chunk_bytes=8192)
    assert verify(wanted.program(8, shape), collective) == []


def test_without_the_wait_for_a_free_slot_it_is_overwritten():
    p = Collective.of("all_to_all", "8MiB", "pxn", channels=1, chunk_bytes=65_536).program(4)
    assert p.cut[:3] == (32, 1, 8)
    for block in p.blocks:
        block.operations = [op for op in block.operations if op.kind != "wait" or op.semaphore not in p.frees]
    assert "race" in {flaw.kind for flaw in verify(p, "all_to_all")}


def test_the_nic_of_the_receivers_rail_sends_what_another_gpu_has_stored_there():
    program = Collective.of("send_recv", "4KiB", "pxn", channels=1).program(8, _TWO)
    nics = {rank: rows for rank in range(8) if (rows := _of_nic(program, rank))}
    buffer = "scratch[sent 0]"
    assert list(nics) == [0, 4]  # rank 3 sends to rank 4 by the NIC of rank 0
    assert nics[0][2] == f"rank 0 {buffer} -> rank 4 scratch[3]"
    stored = [row["operations"][0] for row in list_operations(program, 3) if row["unit"] == "sm"]
    assert f"rank 3 input[0] -> rank 0 {buffer}" in stored


def _of_nic(program, rank):
    rows = [row for row in list_operations(program, rank) if row["unit"] == "nic"]
    return [text for row in rows for text in row["operations"]]


def test_messages_stay_on_their_rails():
    size, n = 2**20, 16
    straight, on_rails = (_run("all_to_all", size, name, channels=1) for name in ("put", "pxn"))
    crossing = 2 * 8 * 7 * size // n  # to the seven other rails of the other node
    assert crossing < _bytes(straight, "leafsw", "spinesw").sum() < 1.1 * crossing
    for sim in (straight, on_rails):
        assert _bytes(sim, "cpu", "pciesl").sum() == 0
    assert _bytes(on_rails, "leafsw", "spinesw").sum() == 0
    out = _bytes(on_rails, "cx7", "leafsw")
    data = 8 * size // n  # of eight senders for one receiver
    assert len(out) == 16
    assert out.nunique() == 1
    assert data < out.iloc[0] < 1.02 * data


def test_one_thread_posts_all_that_leaves_by_a_nic():
    """Eight ranks send to one of the other node: its rail's NIC has their posts one after another."""
    wanted = Collective.of("all_to_all", "4KiB", "pxn", channels=1)
    took = []
    for post_ps in (1_000_000, 3_000_000):
        gpu = preset("h100-sxm").but(nic_post_ps=post_ps)
        sim = anb.Simulation(_RAILS, wanted, gpu=gpu, record=False)
        sim.run()
        took.append(sim.now_ps)
    assert took[1] - took[0] == pytest.approx(8 * 2_000_000, rel=0.05)


def test_eight_sends_and_receives_share_an_sm():
    sim = anb.Simulation(_RAILS, Collective.of("all_to_all", "1MiB", "pxn", channels=2), record=False)
    sim.run("2 us")
    blocks, sms = sim.engine.machine.blocks, sim.engine.machine.sms
    used = {(gpu, sm) for gpu, sm in zip(blocks["gpu"], blocks["sm"], strict=True) if sms["engine"][sm] == 0}
    assert len(used) == 16 * 2 * 2  # two channels, and two nodes
    assert (sms["resident"][[sm for _, sm in used]] <= 16).all()
