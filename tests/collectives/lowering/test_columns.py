"""Programs as columns of integers: the same operations and tables as one by one."""

import dataclasses
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from astranb.collectives import (
    BUFFERS,
    Chunk,
    Collective,
    Program,
    all_gather_gemm,
    gemm_reduce_scatter,
    lower,
)
from astranb.collectives.lowering.columns import ChunkKeys, columns_of, distinct
from astranb.collectives.lowering.fences import paces, paces_of
from astranb.collectives.lowering.lower import Extents
from astranb.core.errors import InputError
from astranb.gpu import preset
from astranb.gpu.tables import COUNTED
from astranb.workload.kernels import tile_of

PROGRAMS = [
    ("all_reduce", "hierarchical", "Simple", 64, 8),
    ("all_to_all", "hierarchical", "Simple", 16, 4),
    ("all_reduce", "ring", "Simple", 6, None),
    ("all_reduce", "allpairs", "LL", 5, None),
    ("all_gather", "allpairs", "LL128", 4, None),
    ("all_reduce", "switch", "Simple", 8, None),
    ("broadcast", "ring", "LL", 7, None),
    ("reduce_scatter", gemm_reduce_scatter(256, 64, 128, 2, (64, 64)), "Simple", 2, None),
    ("all_gather", all_gather_gemm(256, 128, 128, 2, (64, 64)), "Simple", 2, None),
]


def program_of(kind, algorithm, protocol, ranks, per_node, size="40 KiB", channels=2):
    if isinstance(algorithm, Collective):
        return algorithm.program(ranks)
    return Collective.of(kind, size, algorithm, protocol=protocol, channels=channels).program(ranks, per_node)


def lowered_of(program, kind):
    return lower(program, kind=kind, size=program.size, tiled=partial(tile_of, gpu=preset("h100-sxm")))


def tables(program, kind):
    lowered = lowered_of(program, kind)
    named = ("tiles", "blocks", "ops", "operands", "slices", "semaphores", "phases", "lines", "block_channel")
    found = {name: np.asarray(getattr(lowered, name)).tobytes() for name in named}
    return found | {"part": lowered.source.part.tobytes(), "line": lowered.source.line.tobytes()}


@pytest.mark.parametrize("kind,algorithm,protocol,ranks,per_node", PROGRAMS)
def test_operations_as_objects_give_the_same_tables(kind, algorithm, protocol, ranks, per_node):
    columns, objects = (program_of(kind, algorithm, protocol, ranks, per_node) for _ in range(2))
    for block in objects.blocks:
        block.operations = [dataclasses.replace(op) for op in block.operations]
    assert tables(columns, kind) == tables(objects, kind)


@pytest.mark.parametrize("kind,algorithm,protocol,ranks,per_node", PROGRAMS)
def test_fences_and_sizes_are_those_of_one_block_and_one_operation_at_a_time(
    kind, algorithm, protocol, ranks, per_node
):
    program = program_of(kind, algorithm, protocol, ranks, per_node)
    order = list(range(len(program.blocks)))
    c = columns_of(program, order)
    names = ChunkKeys(ranks, c.index, c.channel)
    keys, number = distinct(names.keys(c.rank, c.buffer, c.index, c.channel))
    is_source = np.arange(len(c.op)) - c.first_chunk[c.op] < c.sources[c.op]
    fences, aheads, _ = paces_of(c, number, is_source)
    lowered = lowered_of(program, kind)
    numbers: dict[Any, int] = {}
    expected = []
    for block in program.blocks:
        sides = [
            [[numbers.setdefault(chunk, len(numbers)) for chunk in side(op)] for op in block.operations]
            for side in (lambda op: op.sources, lambda op: op.targets)
        ]
        expected += paces(block, *sides)
    assert fences.tolist() == [pace.fence for pace in expected]
    assert aheads.tolist() == [pace.ahead for pace in expected]
    assert len(keys) == len(numbers)
    known = Extents(program, kind, program.size, 128).settle(
        [op for b in program.blocks for op in b.operations]
    )
    sizes = {
        Chunk(int(s.gpu), BUFFERS[s.buffer], int(s.chunk), int(s.channel)):
        int(s.bytes)
        for s in lowered.slices
    }  # fmt: skip
    assert {chunk: sizes[chunk] for chunk in known} == {chunk: size for chunk, (_, size) in known.items()}


@given(st.lists(st.tuples(st.integers(0, 5), st.integers(0, 4), st.integers(0, 3)), max_size=30))
def test_waits_for_some_moves_are_those_of_one_block(steps):
    """Moves, waits for all but the last ones, signals and fences: as tables and as objects."""
    p = Program("x", ranks=1, channels=1, input_chunks=5, output_chunks=5)
    me, other = p.rank(0), p.semaphore(0)
    for _ in range(2):
        block = me.block()
        for what, one, two in steps:
            if what < 3:
                block.copy(me.scratch[one], me.scratch[5 + two])
            elif what == 3:
                block.waitcnt(two)
            elif what == 4:
                block.signal(other, relaxed=one > 1)
            else:
                block.fence()
    c = columns_of(p, [0, 1])
    names = ChunkKeys(1, np.append(c.index, 0), np.append(c.channel, 0))
    number = names.keys(c.rank, c.buffer, c.index, c.channel)
    is_source = np.arange(len(c.op)) - c.first_chunk[c.op] < c.sources[c.op]
    fences, aheads, (at, first, last) = paces_of(c, number, is_source)
    numbers: dict[Any, int] = {}
    expected = []
    for block in p.blocks:
        sides = [
            [[numbers.setdefault(chunk, len(numbers)) for chunk in side(op)] for op in block.operations]
            for side in (lambda op: op.sources, lambda op: op.targets)
        ]
        expected += paces(block, *sides)
    assert fences.tolist() == [pace.fence for pace in expected]
    assert aheads.tolist() == [pace.ahead for pace in expected]
    assert at.tolist() == np.flatnonzero(fences == COUNTED).tolist()
    kinds = [op.kind for block in p.blocks for op in block.operations]
    for wait, begin, end in zip(at.tolist(), first.tolist(), last.tolist(), strict=True):
        assert begin <= end < wait
        assert kinds[end] == kinds[begin] == "move"
        left = p.blocks[0].operations[wait % len(steps)].value
        assert kinds[end + 1 : wait].count("move") == left
        # Stores before the first one are acknowledged already, those after the last one need not be.
        assert expected[wait].clean == (wait if left == 0 else kinds.index("move", end + 1)) % len(steps)


def sliced(p):
    for me in p.everyone:
        block = me.block()
        block.put(me.input[0:4], me.right.scratch[2:10:2])
        block.reduce([me.input[:], me.input[0:4]], me.output[:])


def chunk_by_chunk(p):
    for me in p.everyone:
        block = me.block()
        for k in range(4):
            block.put(me.input[k], me.right.scratch[2 + 2 * k])
        for k in range(4):
            block.reduce([me.input[k], me.input[k]], me.output[k])


def test_a_move_of_slices_is_a_move_of_each_chunk():
    one, other = (Collective.of("custom", "64 KiB", write).program(4) for write in (sliced, chunk_by_chunk))
    assert [b.operations for b in one.blocks] == [b.operations for b in other.blocks]


@pytest.mark.parametrize(
    "move,says",
    [
        (lambda b, me: b.copy(me.input[0:2], me.output[0:3]), "different lengths"),
        (lambda b, me: b.copy(me.input[0:2], me.output[0]), "different lengths"),
        (lambda b, me: b.copy(me.input[0:2], me.output[1:3], me.output[1:3]), "twice"),
        (lambda b, me: b.copy(me.input[2:6], me.output[0:4]), "does not exist"),
        (lambda b, me: b.copy(me.input[-1:1], me.output[0:2]), "does not exist"),
        (lambda b, me: b.copy(me.input[2:2], me.output[0:2]), "does not exist"),
        (lambda b, me: b.copy(me.scratch[2:], me.output[0:2]), "a slice with an end"),
        (lambda b, me: b.copy(me.input[0:2], "output"), "not a chunk"),
        (lambda b, me: b.put(me.right.input[0:2], me.output[0:2]), "cannot put from rank 1 input\\[0:2\\]"),
    ],
)
def test_slices_that_do_not_fit_are_refused(move, says):
    p = Program("x", ranks=2, channels=1, input_chunks=4, output_chunks=4)
    with pytest.raises(InputError, match=says):
        move(p.rank(0).block(), p.rank(0))


def far(*indices):
    def write(p):
        for me in p.everyone:
            block = me.block()
            for index in indices:
                block.put(me.input[0], me.scratch[index])
            block.copy(me.scratch[7], me.output[0])

    return lower(Collective.of("custom", "1 KiB", write).program(2), kind="custom", size=1024)


def test_scratch_takes_only_the_memory_that_is_used_whatever_its_indices():
    lowered = far(2**31 - 1, 7, 2**20)
    assert lowered.slices["line"][lowered.slices["buffer"] == 2].tolist() == [16, 20, 24] * 2
    with pytest.raises(InputError, match="index 2147483648"):
        far(7, 2**31)


def test_a_program_that_cannot_fit_in_memory_is_refused_while_it_is_written(monkeypatch):
    monkeypatch.setattr("astranb.collectives.language.program._FITTING", 1000)
    monkeypatch.setattr("astranb.core.state.free_bytes", lambda: 10**6)
    with pytest.raises(InputError, match=r"needs about 0\.0 GB of memory"):
        program_of("all_reduce", "hierarchical", "Simple", 64, 8)
