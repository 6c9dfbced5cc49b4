"""Rings send through a buffer of slots, which the receiver frees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import Collective, lower
from astranb.collectives.language.fifo import FIRST_SLOT, nccl_cut
from astranb.collectives.proof.verify import verify

RINGS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce")


@pytest.mark.parametrize(
    "protocol, chunk_bytes, cut",
    [
        ("Simple", 1, (1, 1, 4)),
        ("Simple", 32 * 2**10, (1, 1, 4)),  # a slice has 32 KiB at least
        ("Simple", 2**20, (1, 2, 4)),
        ("Simple", 8 * 2**20, (4, 2, 4)),  # a chunk has 2 MiB at most
        ("LL", 32 * 2**10, (1, 1, 8)),
        ("LL128", 576_000 + 1, (2, 1, 8)),
    ],
)
def test_how_nccl_cuts_a_chunk(protocol, chunk_bytes, cut):
    assert nccl_cut("all_reduce", protocol, chunk_bytes)[:3] == cut


@pytest.mark.parametrize("protocol", ["Simple", "LL", "LL128"])
def test_a_tree_sends_as_much_at_once_as_the_library(protocol):
    """Parts of several ranks travel together where a chunk of the library holds them."""
    tree = Collective.of("all_reduce", "64KiB", "tree", channels=1, protocol=protocol, chunk_bytes=16384)
    p = tree.program(16)
    assert (p.cut.together, p.cut.slots) == (4, 32)
    assert verify(p, "all_reduce") == []
    waits = [op for op in p.blocks[-1].operations if op.kind in ("wait", "compute")]
    assert len(waits) >= 4 if protocol == "Simple" else waits == []  # it keeps what comes from above


@given(
    st.integers(1, 300_000), st.sampled_from(["Simple", "LL", "LL128"]), st.integers(1, 4), st.integers(2, 9)
)
@settings(max_examples=30, deadline=None)
def test_trees_are_right_at_any_size(size, protocol, channels, ranks):
    tree = Collective.of("all_reduce", size, "tree", channels=channels, protocol=protocol, chunk_bytes=18_000)
    assert verify(tree.program(ranks, 3 if ranks % 3 == 0 else ranks), "all_reduce") == []


def test_a_tree_goes_up_and_down_at_once():
    sim = anb.Simulation("dgx-h100", Collective.of("all_reduce", "1MiB", "tree", channels=2))
    sim.run()
    phases = sim.result.to_dataframe("phases").set_index("phase")
    assert phases.start_ps["down"] < phases.end_ps["up"]


def test_a_step_of_an_ll128_ring_takes_what_nccl_has_in_its_table():
    ring = Collective.of("all_reduce", "4KiB", "ring", channels=1, protocol="LL128")
    sim = anb.Simulation("dgx-h100", ring, record=False)
    sim.run()
    assert 1.8e6 < sim.result.time_ps / 14 < 2.0e6


@pytest.mark.parametrize("size", ["1KiB", "300001", "40MiB"])
@pytest.mark.parametrize("collective", RINGS)
def test_no_slot_is_written_before_it_is_read(collective, size):
    p = Collective.of(collective, size, "ring", channels=2).program(6)
    assert verify(p, collective) == []


@pytest.mark.parametrize("collective", RINGS)
def test_without_the_wait_for_a_free_slot_it_is_overwritten(collective):
    p = Collective.of(collective, "40MiB", "ring", channels=1).program(6)
    for block in p.blocks:
        block.operations = [op for op in block.operations if op.kind != "wait" or op.semaphore not in p.frees]
    assert "race" in {flaw.kind for flaw in verify(p, collective)}


@pytest.mark.parametrize("protocol", ["Simple", "LL", "LL128"])
def test_a_buffer_takes_no_more_memory_than_its_slots(protocol):
    wanted = Collective.of("all_reduce", "24MiB", "ring", channels=2, protocol=protocol)
    program = wanted.program(4)
    low = lower(program, kind="all_reduce", size=wanted.size)
    messages = low.slices[low.slices["chunk"] >= FIRST_SLOT]
    for channel in range(2):
        for gpu in range(4):
            own = messages[
                (messages["gpu"] == gpu) & (messages["channel"] // program.cut.of_channel == channel)
            ]
            assert len(own) > 2 * program.cut.slots
            assert len(np.unique(own["line"])) == program.cut.slots
            assert (np.diff(np.unique(own["line"])) >= own["lines"].max()).all()


@settings(max_examples=5, deadline=None)
@given(
    st.integers(1, 200_000), st.sampled_from(["Simple", "LL", "LL128"]), st.integers(1, 2), st.integers(2, 5)
)
def test_no_more_is_under_way_than_there_are_slots(stop, protocol, channels, ranks):
    """A sender has begun at most so many messages more than the receiver has freed; and back is exact."""
    size = 300_000 * channels * ranks
    wanted = Collective.of("all_reduce", size, "ring", channels=channels, protocol=protocol)
    slots = wanted.program(ranks).cut.slots
    sim = anb.Simulation(f"switch:gpus={ranks}", wanted, record=False)
    sim.step(stop)
    state = sim.state_hash()
    machine = sim.engine.machine
    ops, operands, slices = machine.ops, machine.operands, machine.slices
    moves = np.flatnonzero((ops["kind"] == 0) & (ops["lines"] > 0))
    sent: dict[tuple[int, int], list[int]] = {}
    read: dict[tuple[int, int], list[int]] = {}
    for n in moves.tolist():
        first, middle = int(ops["first_source"][n]), int(ops["first_target"][n])
        for found, rows in (
            (sent, range(middle, middle + int(ops["targets"][n]))),
            (read, range(first, middle)),
        ):
            for row in rows:
                slice_ = slices[operands["slice"][row]]
                if slice_["chunk"] >= FIRST_SLOT:
                    channel = int(slice_["channel"]) // wanted.program(ranks).cut.of_channel
                    found.setdefault((int(slice_["gpu"]), channel), []).append(n)
    for buffer, senders in sent.items():
        begun = sum(ops["started_ps"][n] >= 0 for n in senders)
        done = sum(ops["issued_ps"][n] >= 0 for n in read[buffer])
        assert 0 <= begun - done <= slots
    sim.step(50)
    sim.back(50)
    assert sim.state_hash() == state
