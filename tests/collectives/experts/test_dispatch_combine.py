"""Dispatch and combine of experts: laws of the traffic, one exact reference, hostile input."""

from __future__ import annotations

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.cli import main
from astranb.collectives import (
    EXCHANGE_KERNELS,
    Routing,
    combine,
    dispatch,
    draw_routing,
    read_routing,
    verify,
)
from astranb.core.errors import InputError, WrongResult
from astranb.net.shape import Shape

TWO_BOXES = "single-tier:servers=2,server=h800"


@st.composite
def routings(draw):
    """Experts of few tokens on up to four nodes; some tokens have none."""
    per_node, nodes, tokens, topk = (draw(st.integers(1, most)) for most in (3, 3, 5, 4))
    ranks = max(2, per_node * nodes)
    per_node = per_node if ranks == per_node * nodes else 1
    experts = ranks * draw(st.integers(1, 3))
    rows = st.lists(st.integers(0, experts - 1), unique=True, max_size=min(topk, experts))
    chosen = np.full((ranks, tokens, min(topk, experts)), -1, np.int64)
    for rank in range(ranks):
        for token in range(tokens):
            row = draw(rows)
            chosen[rank, token, : len(row)] = row
    chosen[0, 0, 0] = experts - 1 if experts - 1 not in chosen[0, 0] else chosen[0, 0, 0]
    if (chosen[0, 0] == experts - 1).sum() > 1 or (chosen == -1).all():
        chosen[0, 0] = -1
        chosen[0, 0, 0] = 0
    return Routing(chosen, experts), Shape(per_node, rdma=nodes > 1)


def moves(program):
    """All moves of a program with their blocks."""
    for block in program.blocks:
        for op in block.operations:
            if op.kind == "move":
                yield block, op


@settings(max_examples=40, deadline=None)
@given(routings(), st.sampled_from(sorted(EXCHANGE_KERNELS)), st.sampled_from([dispatch, combine]))
def test_every_token_is_where_its_experts_are_and_comes_back_as_their_sum(drawn, algorithm, make):
    routing, shape = drawn
    if algorithm == "one_sided":  # NVLink joins all
        shape = Shape(routing.ranks)
    one = make(algorithm=algorithm, hidden=32, routing=routing, experts=routing.experts)
    program = one.program(routing.ranks, shape)
    assert verify(program, one.name) == []  # at any timing: deadlocks, races, and the result
    layout, copies = program.layout, routing.copies()
    one_token = routing.chosen.shape[2] if algorithm == "low_latency" else 1
    if make is combine:
        assert len(layout.held) == (copies if algorithm == "low_latency" else copies > 0).sum()
    else:
        holder, tokens = layout.outputs[0], layout.outputs[1] // one_token
        came = Counter(zip(holder.tolist(), tokens.tolist(), strict=True))
        assert (layout.inputs[1, layout.held] // one_token == tokens).all()
        for rank, token, holder in np.argwhere(copies > 0).tolist():
            times = int(copies[rank, token, holder]) if algorithm == "low_latency" else 1
            assert came.pop((holder, rank * routing.tokens + token)) == times
        assert not came


@settings(max_examples=40, deadline=None)
@given(routings(), st.sampled_from([dispatch, combine]))
def test_normal_kernels_cross_the_network_once_for_each_remote_node(drawn, make):
    routing, shape = drawn
    one = make(hidden=32, routing=routing, experts=routing.experts)
    program = one.program(routing.ranks, shape)
    crossed = sum(
        1
        for block, op in moves(program)
        for target in op.targets
        if target.rank // shape.per_node != op.sources[0].rank // shape.per_node
    )
    nodes = (routing.holders() // shape.per_node)[..., None] == np.arange(routing.ranks // shape.per_node)
    own = (np.arange(routing.ranks) // shape.per_node)[:, None, None] == np.arange(nodes.shape[-1])
    there = (nodes & (routing.chosen >= 0)[..., None]).any(axis=2)
    assert crossed == (there & ~own).sum()


@settings(max_examples=40, deadline=None)
@given(routings())
def test_low_latency_sends_each_token_for_each_expert(drawn):
    routing, shape = drawn
    one = dispatch(algorithm="low_latency", hidden=32, routing=routing, experts=routing.experts)
    made = [
        (op.sources[0].buffer, op.targets[0].buffer) for _, op in moves(one.program(routing.ranks, shape))
    ]
    assert made.count(("scratch", "scratch")) == (routing.chosen >= 0).sum()
    assert made.count(("input", "scratch")) == (routing.chosen >= 0).any(axis=2).sum()  # cast once


@settings(max_examples=40, deadline=None)
@given(routings())
def test_one_sided_kernels_load_a_token_once_and_read_each_result(drawn):
    """TensorRT-LLM @01f00213, moeAlltoAllKernels.cu: a store to each rank; a load from each."""
    routing, _ = drawn
    copies, (send, back) = (
        routing.copies() > 0,
        (
            make(algorithm="one_sided", hidden=32, routing=routing, experts=routing.experts).program(
                routing.ranks
            )
            for make in (dispatch, combine)
        ),
    )
    assert len(list(moves(send))) == len(list(moves(back))) == copies.any(axis=2).sum()
    assert sum(len(op.targets) for _, op in moves(send)) == copies.sum()
    assert sum(len(op.sources) for _, op in moves(back)) == copies.sum()


@pytest.mark.parametrize("gpus", [4, 8, 64])
def test_one_sided_kernels_are_for_all_gpus_of_a_rack(gpus):
    rack = f"gb200-nvl72:trays={gpus // 4}"
    sim = anb.Simulation(rack, dispatch(2, "one_sided", hidden=128), record=False)
    assert sim.run().why == "end"
    with pytest.raises(InputError, match="16 ranks on 2 nodes: it needs GPUs that NVLink joins"):
        dispatch(2, "one_sided").program("single-tier:server=dgx-b200")


@pytest.mark.parametrize("make", [dispatch, combine])
def test_a_grid_of_a_low_latency_kernel_fits_on_the_gpu(make):
    """Its thread blocks meet, so that all have to be on SMs at once: H20 has 78, the kernels ask for 132."""
    for infra, blocks in (("dgx-h20", 64), ("dgx-h800", 128)):  # 256 experts, by 4 and by 2
        sim = anb.Simulation(infra, make(2, "low_latency", hidden=128), record=False)
        assert sim.run().why == "end"
        assert len(sim.engine.machine.blocks) == 8 * blocks


@pytest.mark.parametrize("make", [dispatch, combine])
def test_normal_kernels_begin_when_all_ranks_have_met(make):
    """However late one of them is: no thread block of the others ends before it has begun."""
    sim = anb.Simulation("dgx-h800", make(8, hidden=512), record=False, start={0: "50 us"})
    assert sim.run().why == "end"
    blocks = sim.engine.machine.blocks
    assert (blocks["kernel"] == 0).sum() == 8
    assert blocks["ended_ps"].min() > 50_000_000


def test_bytes_are_counted_as_deepep_counts_them():
    """Rank 0: two tokens, of three ranks on two nodes; ranks 1 to 3: one for itself."""
    chosen = np.array([[[0, 1], [2, 6]], *([[2 * r, -1], [-1, -1]] for r in range(1, 4))])
    one = dispatch(routing=chosen, experts=8, hidden=128)
    bytes_ = 128 + 4
    # For ranks: 0; 1 and 3; 1; 2; 3. For nodes: 0; 0 and 1; 0; 1; 1.
    assert one.counted_bytes(4, Shape(2)) == {"NVLink": 6 * bytes_ // 4, "RDMA": 6 * bytes_ // 4}
    fast = dispatch(algorithm="low_latency", routing=chosen, experts=8, hidden=128)
    assert fast.counted_bytes(4) == {"RDMA": 7 * (bytes_ + 16) // 4}
    assert combine(routing=chosen, experts=8, hidden=128).token_bytes == 256


@pytest.mark.parametrize("infra", ["dgx-h800", TWO_BOXES])
@pytest.mark.parametrize("algorithm", ["normal", "low_latency"])
@pytest.mark.parametrize("make", [dispatch, combine])
def test_a_run_is_checked_saved_and_continued(make, algorithm, infra, tmp_path):
    sim = anb.Simulation(infra, make(5, algorithm, hidden=256, experts=32, topk=3, seed=3), record=False)
    sim.step(2000)
    sim.save(tmp_path / "half.anb")
    again = anb.Simulation.load(tmp_path / "half.anb")
    assert sim.run().why == again.run().why == "end"
    assert sim.state_hash() == again.state_hash()
    assert all(rate > 0 for rate in sim.result.counted_Bps.values())


def test_a_routing_that_is_given_is_saved_with_the_run(tmp_path):
    routing = np.array([[[0, 1]], [[2, 3]], [[0, -1]], [[-1, -1]]])
    sim = anb.Simulation("ring:gpus=4", dispatch(routing=routing, experts=4, hidden=64), record=False)
    sim.save(tmp_path / "start.anb")
    again = anb.Simulation.load(tmp_path / "start.anb")
    assert sim.run().why == again.run().why == "end"
    assert sim.state_hash() == again.state_hash()
    assert sim.rebuilt(channels=2).run().why == "end"


def test_a_program_without_one_token_has_a_wrong_result():
    one = dispatch(4, hidden=64, experts=8, topk=2)
    sim = anb.Simulation("dgx-h800", one, record=False)
    sim.step(10)
    sim.engine.program.layout.held[:] = np.roll(sim.engine.program.layout.held, 1)
    with pytest.raises(WrongResult, match="dispatch/normal: wrong result on rank 0"):
        sim.run()


def test_the_link_is_the_limit_of_a_dispatch_in_a_box():
    """One warp a peer more makes it no faster than bytes over 160 GB/s of payload, own tokens apart."""
    one = dispatch(128)
    sim = anb.Simulation("dgx-h800", one, record=False)
    sim.run()
    copies = one.on(8).copies > 0
    received = copies.sum(axis=(0, 1)) - np.array([copies[r, :, r].sum() for r in range(8)])
    at_least_us = received.max() * one.token_bytes / 160e9 * 1e6
    assert at_least_us < sim.result.time_ps / 1e6 < 2 * at_least_us


def test_a_gate_of_groups_and_a_skewed_one():
    chosen = draw_routing(4, 500, topk=4, experts=32, groups=2, groups_of=4, seed=1).chosen
    assert max(len({*row.tolist()}) for row in (chosen // 8).reshape(-1, 4)) == 2
    even, skewed = (
        np.bincount(draw_routing(4, 500, topk=4, experts=32, skew=skew).chosen.ravel(), minlength=32)
        for skew in (0.0, 1.0)
    )
    assert even.max() < 1.3 * even.mean() < 2 * even.mean() < skewed.max()
    again = draw_routing(4, 500, topk=4, experts=32, groups=2, groups_of=4, seed=1).chosen
    assert (chosen == again).all()


def test_files_of_a_routing(tmp_path):
    chosen = np.array([[[0, 3], [1, -1]], [[2, 1], [0, 2]]])
    np.savez(tmp_path / "r.npz", chosen=chosen)
    (tmp_path / "r.csv").write_text("rank,a,b\n0,0,3\n0,1,-1\n1,2,1\n1,0,2\n")
    assert (read_routing(tmp_path / "r.npz", 4).chosen == chosen).all()
    assert (read_routing(tmp_path / "r.csv", 4).chosen == chosen).all()
    counts = np.array([[3, 0, 2, 1], [0, 4, 0, 1]])
    np.savez(tmp_path / "c.npz", counts=counts)
    np.savetxt(tmp_path / "c.csv", counts, "%d", ",")
    for name in ("c.npz", "c.csv"):
        found = read_routing(tmp_path / name, 4).chosen
        assert [np.bincount(of[of >= 0], minlength=4).tolist() for of in found] == counts.tolist()


@pytest.mark.parametrize(
    "text,says",
    [
        ("rank,a\n0,9\n1,0\n", "routing: unknown expert 9; experts are 0 to 3"),
        ("rank,a,b\n0,1,1\n1,0,2\n", "duplicate expert of token 0 of rank 0"),
        ("rank,a\n0,1\n0,1\n1,0\n", "ranks must have equally many tokens"),
        ("1,2,3\n1,2,3\n", "it has counts of 3 experts, there are 4"),
        ("1,2,3,x\n", "bad.csv, line 1: number 4 is 'x'; give a whole number of 64 bits"),
        ("0,0,0,0\n0,0,0,0\n", "counts must be positive"),
        ("1,2,3,1.5\n", "bad.csv, line 1: number 4 is '1.5'; give a whole number of 64 bits"),
        ("1,2,3,4\n1,2,3\n", "bad.csv, line 2: 3 numbers, the first row has 4; give rows of equal length"),
        ("1,2,3,-4\n", "bad.csv: counts has -4; give 0 or more"),
        (f"{1 << 62},1,1,1\n" * 4, "bad.csv: counts has 4,611,686,018,427,387,904; give at most 16,777,216"),
        ("2147483647,0,1,1\n", "bad.csv: counts has 2,147,483,647; give at most 16,777,216"),
        (
            "16777216,0,1,1\n" * 2,
            "bad.csv: 33,554,432 tokens are out of range; from 1 to 16,777,216",
        ),
        ("rank,a\n2147483647,0\n", "ranks must have equally many tokens, from rank 0 on"),
        ("rank,a\n-1,0\n", "ranks must have equally many tokens, from rank 0 on"),
        ("rank,a\n0\n", "no token has an expert; give lines of rank,EXPERT,…"),
        ("rank,a\n", "the file holds no numbers"),
        ("", "the file holds no numbers"),
    ],
)
def test_a_bad_file_of_a_routing_is_refused(text, says, tmp_path):
    (tmp_path / "bad.csv").write_text(text)
    with pytest.raises(InputError, match=says):
        read_routing(tmp_path / "bad.csv", 4)


@pytest.mark.parametrize(
    "arrays,says",
    [
        ({"counts": np.full((4, 4), 1 << 62)}, "counts has 4,611,686,018,427,387,904"),
        ({"counts": np.full((4, 4), 1 << 63, np.uint64)}, "counts has 9,223,372,036,854,775,808"),
        ({"counts": np.full((4, 4), 1.5)}, "counts must be whole numbers"),
        ({"counts": np.zeros((4, 1 << 24), np.int8)}, "unpacks to"),
        ({"chosen": np.full((1, 1, 1), 1 << 63, np.uint64)}, "chosen has 9,223,372,036,854,775,808"),
        ({"chosen": np.zeros((4, 4), np.int64)}, "its shape is 4x4; give ranks x tokens x topk"),
        ({"chosen": np.zeros((1, 0, 1), np.int64)}, "its shape is 1x0x1"),
        ({"other": np.zeros(1)}, "neither an array 'chosen' nor 'counts'"),
    ],
)
def test_bad_arrays_of_a_routing_are_refused(arrays, says, tmp_path):
    np.savez_compressed(tmp_path / "bad.npz", **arrays)
    with pytest.raises(InputError, match=says):
        read_routing(tmp_path / "bad.npz", 4)


@pytest.mark.parametrize("chosen", [[[[1.5]]], [[[1 << 70]]], [[0, 1]], [[[0], [1, 2]]], [[[[0]]]]])
def test_a_bad_routing_in_memory_is_refused(chosen):
    with pytest.raises(InputError, match="routing: "):
        dispatch(routing=chosen, experts=4)


@pytest.mark.parametrize(
    "options,says",
    [
        ({"experts": 12}, "12 experts do not divide among 8 ranks; use a multiple of 8"),
        ({"topk": 300}, "a token cannot go to 300 of 256 experts"),
        ({"topk": 0}, "topk must be at least 1"),
        ({"groups": 2}, "2 groups are out of range: there are 1, one for each node"),
        ({"skew": -1.0}, "skew must be from 0 to 10"),
        ({"seed": -1}, "seed must be at least 0"),
        ({"hidden": 0}, "hidden must be from 1"),
        ({"precision": "fp4"}, "unknown precision 'fp4'"),
        ({"algorithm": "ring"}, "dispatch has no algorithm 'ring'; known: low_latency, normal"),
        ({"algorithm": "low_latency", "channels": 2}, "low-latency kernels have no channels"),
        ({"algorithm": "one_sided", "channels": 2}, "one-sided kernels have no channels"),
        ({"channels": 65}, "channels must be at most 64"),
        ({"tokens": 0}, "tokens must be at least 1"),
        ({"tokens": None}, "the number of tokens is needed"),
        ({"tokens": 2**24}, "tokens: this run needs about .* GB of memory"),
        ({"experts": 2**40}, "tokens: this run needs about .* GB of memory"),
        ({"tokens": None, "routing": np.zeros((4, 1, 1), int)}, "of 4 ranks, the infrastructure has 8"),
        ({"routing": np.zeros((8, 1, 1), int)}, "tokens: does not apply to a routing that is given"),
    ],
)
def test_a_bad_exchange_is_refused(options, says):
    with pytest.raises(InputError, match=says):
        dispatch(**{"tokens": 4, **options}).program(8)


def test_the_command_line(capsys):
    command = ["run", "exchange", "combine", "--infra", "dgx-h800", "--tokens", "16", "--hidden", "256"]
    command += ["--seed", "2"]
    assert main([*command, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    sim = anb.Simulation("dgx-h800", combine(16, hidden=256, seed=2), launch="stream")
    sim.run()
    assert said["time_ps"] == sim.result.time_ps
    assert said["state_hash"] == sim.state_hash()
    assert said["counted_GBps"] == {"NVLink": sim.result.counted_Bps["NVLink"] / 1e9}
    assert main(command) == 0
    assert "carried NVLink" in capsys.readouterr().out


@pytest.mark.parametrize(
    "options,says",
    [
        ("--tokens 4 --size 1KiB", "--size; it belongs to astranb run collective"),
        ("--tokens 4 --experts 12", "12 experts do not divide among 8 ranks"),
        (
            "--tokens 4 --fidelity congestion",
            "is simulated by cache lines only, not 'congestion'; leave it out",
        ),
        ("--routing none.csv", "none.csv: No such file or directory"),
        ("", "run exchange: --tokens is missing"),
    ],
)
def test_bad_options_of_the_command_line(options, says, capsys):
    assert main(["run", "exchange", "dispatch", "--infra", "dgx-h800", *options.split()]) == 2
    assert says in capsys.readouterr().err


def test_coalesced_lines_need_as_many_requests_fewer():
    """The limit of what an SM keeps under way is in lines; a request of eight of them is one."""
    room = []
    for lines in (1, 8):
        one = dispatch(32, hidden=1024, topk=4, experts=64)
        sim = anb.Simulation(TWO_BOXES, one, record=False, network=anb.Network(coalesce=lines))
        room.append(int(sim.engine.machine.gpus["max_outstanding"][0]))
        sim.run()  # raises where a token is not where it must be
    assert room[0] == 8 * room[1]
