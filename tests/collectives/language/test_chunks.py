"""Chunks: how many there are, ranges of them, and that what a collective promises holds for any number."""

from __future__ import annotations

from typing import Any

import pytest

import astranb as anb
from astranb.collectives import COLLECTIVES, Collective, verify
from astranb.core.errors import InputError
from tests.collectives.support import run


def _direct(p):
    """Every rank puts its chunks where they belong, and sums what it gets."""
    kind = p.name.partition("/")[0]
    n, arrived = p.ranks, [me.semaphore() for me in p.everyone]
    for me in p.everyone:
        block, others = me.block(), [you for you in p.everyone if you != me]
        each = len(me.output) if kind in ("reduce_scatter", "scatter") else max(1, len(me.input) // n)
        part = slice(me.number * each, (me.number + 1) * each)
        for you in others:
            theirs = slice(you.number * each, (you.number + 1) * each)
            match kind:
                case "all_gather" | "gather":
                    whole = len(me.input)
                    block.put(me.input[:], you.output[me.number * whole : (me.number + 1) * whole])
                case "all_to_all":
                    block.put(me.input[theirs], you.output[part])
                case "scatter" if me.number == p.root:
                    block.put(me.input[theirs], you.output[:])
                case "broadcast" if me.number == p.root:
                    block.put(me.input[:], you.output[:])
                case "send_recv" if you == me.right:
                    block.put(me.input[:], you.output[:])
                case "reduce_scatter":
                    first = me.number * each
                    block.put(me.input[theirs], you.scratch[first : first + each])
                case "all_reduce" | "reduce":
                    whole = len(me.input)
                    block.put(me.input[:], you.scratch[me.number * whole : (me.number + 1) * whole])
            block.signal(arrived[you.number])
        block.wait(arrived[me.number], n - 1)
        match kind:
            case "all_gather" | "gather":
                whole = len(me.input)
                block.copy(me.input[:], me.output[me.number * whole : (me.number + 1) * whole])
            case "all_to_all":
                block.copy(me.input[part], me.output[part])
            case "scatter" if me.number == p.root:
                block.copy(me.input[part], me.output[:])
            case "broadcast" if me.number == p.root:
                block.copy(me.input[:], me.output[:])
            case "reduce_scatter":
                got = [me.scratch[you.number * each : (you.number + 1) * each] for you in others]
                block.reduce([me.input[part], *got], me.output[:])
            case "all_reduce" | "reduce":
                whole = len(me.input)
                got = [me.scratch[you.number * whole : (you.number + 1) * whole] for you in others]
                block.reduce([me.input[:], *got], me.output[:])


@pytest.mark.parametrize("size", ["16 KiB", "15999 B"])
@pytest.mark.parametrize("chunks", [4, 12])
@pytest.mark.parametrize(
    "kind",
    [
        "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce", "gather",
        "scatter", "send_recv",
    ],
)  # fmt: skip
def test_what_is_promised_holds_for_any_number_of_chunks(kind, chunks, size):
    collective = Collective.of(kind, size, _direct, channels=2, chunks=chunks)
    assert verify(collective.program(4), kind) == []
    run(_direct, kind, size=size, channels=2, chunks=chunks)


def test_a_wrong_chunk_is_found_where_there_are_several():
    def swapped(p):
        _direct(p)
        block = p.blocks[0]
        block.copy(p.input(0)[1], p.output(0)[0])

    for kind in ("all_gather", "all_to_all"):
        found = verify(Collective.of(kind, "16 KiB", swapped, channels=1, chunks=12).program(4), kind)
        assert "output chunk 0: it holds chunk 1 instead of chunk 0" in found[0].message


def test_counts_follow_the_sizes_of_the_buffers():
    assert COLLECTIVES["all_gather"].chunk_counts(8, 64) == (8, 64)
    assert COLLECTIVES["reduce_scatter"].chunk_counts(8, 64) == (64, 8)
    assert COLLECTIVES["all_to_all"].chunk_counts(8, 64) == (64, 64)
    assert COLLECTIVES["all_reduce"].chunk_counts(8, 3) == (3, 3)


def test_chunks_that_do_not_divide_name_the_line_and_the_nearest():
    collective = Collective.of("all_gather", "1 MiB", _direct, chunks=60)
    with pytest.raises(InputError, match="60 chunks of all_gather do not divide among 8 ranks; use 56 or 64"):
        collective.program(8)

    def asks(p):
        p.chunks(60)

    with pytest.raises(InputError, match=r"test_chunks.py line \d+: 60 chunks .*; use 56 or 64"):
        Collective.of("all_gather", "1 MiB", asks).program(8)


def test_a_function_asks_for_its_chunks_first_and_the_same_in_all_channels():
    def asks(p):
        p.chunks(12)
        _direct(p)

    assert verify(Collective.of("all_to_all", "16 KiB", asks, channels=2).program(4), "all_to_all") == []
    given = Collective.of("all_to_all", "16 KiB", asks, channels=2, chunks=8)
    with pytest.raises(InputError, match=r"line \d+: it has 8 chunks, 12 are asked for"):
        given.program(4)

    def late(p):
        p.everyone[0].block().put(p.input(0)[0], p.output(1)[0])
        p.chunks(12)

    with pytest.raises(InputError, match=r"after a buffer has been used; call p.chunks\(\) first"):
        Collective.of("all_to_all", "16 KiB", late).program(4)

    def unequal(p):
        p.chunks(4 + 4 * p.channel)

    with pytest.raises(InputError, match="it has 4 chunks, 8 are asked for"):
        Collective.of("all_to_all", "16 KiB", unequal, channels=2).program(4)


def test_only_algorithms_for_any_number_of_chunks_take_them():
    few, many = (run("ring", "broadcast", size="1 MiB", channels=1, chunks=count) for count in (2, 32))
    assert many < few  # a longer pipeline
    with pytest.raises(InputError, match="all_reduce/ring has its own chunks; leave it out"):
        Collective.of("all_reduce", "1 MiB", "ring", chunks=64)
    wrongs: tuple[Any, ...] = (0, -1, 1.5, True, "many")
    for wrong in wrongs:
        with pytest.raises(InputError, match="chunks must be at least 1"):
            Collective.of("all_reduce", "1 MiB", _direct, chunks=wrong)


def test_ranges_and_loops_over_buffers_and_slices():
    program = Collective.of("broadcast", "1 MiB", lambda _: None).program(2)
    me = program.rank(0)
    assert len(me.input) == 8
    assert [chunk.index for chunk in me.input] == list(range(8))
    assert [chunk.index for chunk in me.output[1::3]] == [1, 4, 7]
    assert list(me.input[range(2, 5)]) == list(me.input[2:5])
    assert len(me.scratch[10:20]) == 10
    with pytest.raises(InputError, match="any number of chunks"):
        len(me.scratch)
    with pytest.raises(InputError, match="needs a slice with an end"):
        me.scratch[:]


def test_a_saved_run_keeps_chunks_and_parameters(tmp_path):
    def asks(p, *, chunks=4):
        p.chunks(chunks)
        _direct(p)

    sim = anb.Simulation(
        "switch:gpus=4", Collective.of("all_to_all", "16 KiB", asks, params={"chunks": 8}), record=False
    )
    sim.step(100)
    sim.save(tmp_path / "run.npz")
    again = anb.Simulation.load(tmp_path / "run.npz")
    assert again.engine.work.title == "all_to_all/asks(chunks=8)"
    again.run()
    sim.run()
    assert again.state_hash() == sim.state_hash()


def _sliced(p, *, slices=4):
    """Slices follow one another down a chain, in every channel."""
    blocks, came = [me.block() for me in p.everyone], [me.semaphore() for me in p.everyone]
    for _ in p.cut_into(slices):
        for me, block in zip(p.everyone, blocks, strict=True):
            if me.number:
                block.wait(came[me.number])
            source = me.output if me.number else me.input
            targets = [] if me.number else [me.output[0]]
            if me.right.number:
                targets.append(me.right.output[0])
            if targets:
                block.copy(source[0], *targets)
            if me.right.number:
                block.signal(came[me.right.number])


@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("size", ["1 MiB", "100001 B"])
def test_channels_are_cut_into_slices(channels, size):
    wanted = Collective.of("broadcast", size, _sliced, channels=channels, chunks=1, params={"slices": 8})
    program = wanted.program(4)
    assert program.width == 8 * channels
    assert verify(program, "broadcast") == []
    one, several = (
        run(_sliced, "broadcast", size=size, channels=channels, chunks=1, params={"slices": slices})
        for slices in (1, 8)
    )
    assert several < one or size != "1 MiB"  # of a small chunk, a slice is hardly worth its semaphore


def test_all_channels_are_cut_into_as_many_slices():
    def unequal(p):
        for _ in p.cut_into(2 + p.channel):
            p.block(0).put(p.input(0)[0], p.output(1)[0])

    with pytest.raises(InputError, match=r"line \d+: chunks are cut into 2 slices already, not 3; use 2"):
        Collective.of("custom", "1 MiB", unequal, channels=2).program(2)
    with pytest.raises(InputError, match="cannot be cut into 0 slices; use a whole number of at least 1"):
        Collective.of("custom", "1 MiB", _sliced, params={"slices": 0}).program(2)
