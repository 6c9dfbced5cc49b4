"""Algorithms that call others: right for any ranks, and clear errors."""

import math
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import Collective, Program, lower, verify
from astranb.core.errors import InputError
from astranb.net.shape import Shape


def _whole(p, collective, algorithm, **options):
    p.call(
        collective,
        algorithm,
        ranks=range(p.ranks),
        source=p.input,
        target=p.output,
        **options,
    )


def _faults(write, ranks, *, shape=None, size="64 KiB", kind="all_reduce", **options):
    return verify(Collective.of(kind, size, write, **options).program(ranks, shape), kind)


@settings(max_examples=25, deadline=None)
@given(
    inner=st.sampled_from(["ring", "allpairs", "get", "pat"]),
    outer=st.sampled_from(["ring", "allpairs", "tree", "recursive_doubling", "halving_doubling"]),
    gather=st.sampled_from(["ring", "allpairs", "get", "bruck", "pat"]),
    width=st.integers(1, 4),
    nodes=st.integers(1, 4),
    channels=st.integers(1, 3),
    rdma=st.booleans(),
)
def test_any_algorithms_within_and_between_nodes_make_an_all_reduce(
    inner, outer, gather, width, nodes, channels, rdma
):
    def levels(p):
        boxes = [range(first, first + width) for first in range(0, p.ranks, width)]
        rails = [range(position, p.ranks, width) for position in range(width)]

        def sums(r):
            return p.scratch(r)[0:nodes]

        def results(r):
            return p.output(r)[r % width * nodes : (r % width + 1) * nodes]

        p.call("reduce_scatter", inner, ranks=boxes, source=p.input, target=sums)
        p.call("all_reduce", outer, ranks=rails, source=sums, target=results)
        p.call("all_gather", gather, ranks=boxes, source=results, target=p.output)

    assert _faults(levels, width * nodes, shape=Shape(width, rdma=rdma), channels=channels) == []


@pytest.mark.parametrize("algorithm", ["allpairs", "tree", "halving_doubling", "bidirectional_ring"])
def test_a_call_of_all_ranks_is_the_algorithm(algorithm):
    def called(p):
        _whole(p, "all_reduce", algorithm)

    inside, alone = (
        Collective.of("all_reduce", "64 KiB", of, channels=2).program(6) for of in (called, algorithm)
    )
    tables = [lower(program, kind="all_reduce", size=65536) for program in (inside, alone)]
    assert len(tables[0].blocks) == len(tables[1].blocks)
    assert np.bincount(tables[0].ops["kind"]).tolist() == np.bincount(tables[1].ops["kind"]).tolist()
    assert tables[0].phase_names == tuple(f"all_reduce/{algorithm}: {name}" for name in tables[1].phase_names)


def test_a_called_algorithm_takes_as_long_as_it_does():
    def called(p):
        _whole(p, "reduce_scatter", "allpairs")

    def time_ps(algorithm):
        work = Collective.of("reduce_scatter", "64 KiB", algorithm, channels=2)
        sim = anb.Simulation("switch:gpus=4", work, record=False)
        sim.run()
        return sim.result.time_ps

    assert time_ps(called) == time_ps("allpairs")


def test_calls_of_one_stage_follow_one_another_and_others_run_beside_them():
    # Half of the chunks of four ranks are two: as many as two ranks have.
    def write(p, stages):
        for k in (0, 1):
            for pair in ([0, 1], [2, 3]):
                p.call(
                    "all_reduce",
                    "allpairs",
                    ranks=pair,
                    source=lambda r, k=k: p.input(r)[2 * k : 2 * k + 2],
                    target=lambda r, k=k: p.scratch(r)[2 * k : 2 * k + 2],
                    stage=str(k) if stages else "",
                )

    blocks = {}
    for stages in (False, True):
        program = Collective.of(
            "custom", "64 KiB", lambda p, stages=stages: write(p, stages), channels=1
        ).program(4)
        blocks[stages] = len(program.blocks)
    assert blocks == {False: 4, True: 8}


def test_slices_of_three_stages_are_a_pipeline():
    def rails(p):
        boxes = [[0, 1], [2, 3]]
        for _ in p.cut_into(4):
            one = p.call(
                "reduce_scatter", "ring", ranks=boxes, stage="one",
                source=p.input, target=lambda r: p.scratch(r)[0:2],
            )  # fmt: skip
            two = p.call(
                "all_reduce", "ring", ranks=[[0, 2], [1, 3]], stage="two", after=one,
                source=lambda r: p.scratch(r)[0:2], target=lambda r: p.scratch(r)[2:4],
            )  # fmt: skip
            p.call(
                "all_gather", "ring", ranks=boxes, stage="three", after=two,
                source=lambda r: p.scratch(r)[2:4], target=p.output,
            )  # fmt: skip

    program = Collective.of("all_reduce", "64 KiB", rails, channels=1).program(4)
    assert verify(program, "all_reduce") == []
    assert len(program.blocks) == 12


def test_a_block_waits_for_a_call_and_a_call_for_a_block():
    def write(p):
        blocks = [me.block() for me in p.everyone]
        for me, block in zip(p.everyone, blocks, strict=True):
            block.copy(me.input[:], me.scratch[0 : p.ranks])
        call = p.call(
            "all_reduce", "tree", ranks=range(p.ranks), after=blocks,
            source=lambda r: p.scratch(r)[0 : p.ranks], target=lambda r: p.scratch(r)[9 : 9 + p.ranks],
        )  # fmt: skip
        for me, block in zip(p.everyone, blocks, strict=True):
            call.wait(block)
            block.copy(me.scratch[9 : 9 + p.ranks], me.output[:])

    assert _faults(write, 5, channels=1) == []


def test_without_waiting_it_is_refused():
    def write(p):
        blocks = [me.block() for me in p.everyone]
        for me, block in zip(p.everyone, blocks, strict=True):
            block.copy(me.input[:], me.scratch[0 : p.ranks])
        p.call(
            "all_reduce", "ring", ranks=range(p.ranks),
            source=lambda r: p.scratch(r)[0 : p.ranks], target=p.output,
        )  # fmt: skip

    assert {flaw.kind for flaw in _faults(write, 4, channels=1)} & {"race", "order"}


def test_a_rooted_collective_needs_sources_of_the_root_only():
    def write(p):
        p.call(
            "reduce", "chain", ranks=[2, 0, 1, 3], root=1,
            source=p.input, target=lambda r: p.output(r) if r == 1 else None,
        )  # fmt: skip
        p.call(
            "broadcast", "chain", ranks=[0, 1, 2, 3], root=1,
            source={1: [p.output(1)[k] for k in range(4)]}, target=p.output,
        )  # fmt: skip

    assert _faults(write, 4) == []


def test_an_algorithm_that_cuts_chunks_is_called_first():
    def first(p):
        _whole(p, "all_reduce", "bidirectional_ring")

    def second(p):
        _whole(p, "all_reduce", "allpairs")
        _whole(p, "all_reduce", "bidirectional_ring")

    assert _faults(first, 4) == []
    with pytest.raises(InputError, match="cuts every chunk into 2 slices, but work on chunks has begun"):
        _faults(second, 4)


def test_the_line_of_a_call_is_the_users():
    def write(p):
        _whole(p, "all_reduce", "ring")

    program = Collective.of("all_reduce", "4 KiB", write).program(4)
    assert {line.file for line in program.lines if line is not None} == {__file__}


@pytest.mark.parametrize(
    "call,says",
    [
        (
            lambda p: _whole(p, "all_reduce", "rign"),
            "all_reduce has no algorithm 'rign'; did you mean 'ring'",
        ),
        (lambda p: _whole(p, "all_redcue", "ring"), "unknown collective 'all_redcue'"),
        (lambda p: p.call("all_reduce", "ring", ranks=[0, 9], source={}, target={}), "rank 9 does not exist"),
        (lambda p: p.call("all_reduce", "ring", ranks=[], source={}, target={}), "no rank takes part"),
        (
            lambda p: p.call("all_reduce", "ring", ranks=[[0, 1], [1, 2]], source={}, target={}),
            "rank 1 takes part twice",
        ),
        (
            lambda p: p.call(
                "all_reduce",
                "ring",
                ranks=[0, 1, 2],
                source=p.input,
                target=p.output,
            ),
            "the source of rank 0 has 4 chunks; give 3, or a multiple of 3",
        ),
        (
            lambda p: p.call(
                "all_gather",
                "ring",
                ranks=[0, 1],
                source=lambda _: p.input(1)[0],
                target=lambda r: p.output(r)[0:2],
            ),
            r"the source of rank 0 is rank 1 input\[0\]",
        ),
        (
            lambda p: p.call(
                "all_gather",
                "ring",
                ranks=[0, 1],
                source=lambda r: p.input(r)[0],
                target=lambda r: [p.output(r)[0]] * 2,
            ),
            r"duplicate target rank 0 output\[0\]",
        ),
        (
            lambda p: p.call(
                "all_gather",
                "ring",
                ranks=[0, 1],
                source=lambda r: p.input(r)[0],
                target=p.output,
            ),
            "1 and 2 chunks stand for one",
        ),
        (lambda p: _whole(p, "all_reduce", "ring", slics=3), "has no parameter 'slics'"),
        (lambda p: _whole(p, "all_reduce", "ring", root=9), "root 9 takes no part"),
        (
            lambda p: p.call(
                "all_reduce",
                "swing",
                ranks=[0, 1, 2],
                source=lambda r: p.input(r)[0:3],
                target=lambda r: p.output(r)[0:3],
            ),
            "needs a power of two of ranks, the call has 3",
        ),
        (lambda p: p.split({}), "no algorithm is given"),
        (lambda p: p.split({"ring": 1, "switch": -1}), "share -1 is not above zero"),
        (lambda p: p.split({"ring": 1, "swich": 1}), "did you mean 'switch'"),
    ],
)
def test_a_call_that_cannot_be_is_an_error_with_its_line(call, says):
    with pytest.raises(InputError, match=says) as caught:
        Collective.of("all_reduce", "64 KiB", call).program(4)
    assert re.search(r"test_compose\.py line \d+", str(caught.value))


def test_names_need_a_library():
    program = Program("by hand", ranks=2, channels=1, input_chunks=2, output_chunks=2)
    with pytest.raises(InputError, match="no library knows all_reduce/ring; give a function"):
        _whole(program, "all_reduce", "ring")


@given(
    first=st.integers(1, 9),
    second=st.integers(1, 9),
    size=st.integers(1, 2**20),
    channels=st.integers(1, 4),
    ranks=st.integers(2, 6),
)
@settings(max_examples=25, deadline=None)
def test_split_shares_bytes_to_a_line(first, second, size, channels, ranks):
    def both(p):
        p.split({"allpairs": first, "ring": second})

    program = Collective.of("all_reduce", size, both, channels=channels).program(ranks)
    assert verify(program, "all_reduce") == []
    slices = lower(program, kind="all_reduce", size=size).slices
    outputs = slices[(slices["buffer"] == 1) & (slices["gpu"] == 0)]
    assert outputs["bytes"].sum() == size
    filled = outputs[outputs["lines"] > 0]
    assert (np.diff(filled["line"]) == filled["lines"][:-1]).all()  # no line twice, none left out
    whole = math.ceil(math.ceil(math.ceil(size / 128) / ranks) / channels)
    share = whole * first / (first + second)
    most = outputs["lines"][outputs["channel"] % 2 == 0].max(initial=0)
    assert most <= np.ceil(share + 0.5)
