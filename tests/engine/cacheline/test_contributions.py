"""Contributions to sums: at any moment what was really read and written, at the end what is promised."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import COLLECTIVES, MIXED, NOTHING, Collective, contents
from astranb.core.errors import InputError, WrongResult
from astranb.engine.cacheline.contributions import slice_contents
from astranb.gpu import tables as t

RUNS = [
    ("all_reduce", "ring", "Simple"),
    ("all_reduce", "ring", "LL"),
    ("all_reduce", "allpairs", "Simple"),
    ("all_reduce", "tree", "Simple"),
    ("all_reduce", "halving_doubling", "Simple"),
    ("all_gather", "ring", "Simple"),
    ("reduce_scatter", "ring", "Simple"),
    ("all_to_all", "allpairs", "Simple"),
    ("broadcast", "ring", "Simple"),
    ("reduce", "ring", "Simple"),
    ("barrier", "allpairs", "Simple"),
]


def simulation(kind, algorithm, protocol="Simple", *, channels=2, size="3 KiB", gpus=4):
    collective = Collective.of(kind, size, algorithm, channels=channels, protocol=protocol)
    return anb.Simulation(f"switch:gpus={gpus}", collective)


def one_by_one(sim):
    """The same as ``contents``, an operation at a time: the yardstick."""
    machine, ranks = sim.engine.machine, sim.engine.program.ranks
    ops, operands, slices = machine.ops, machine.operands, machine.slices
    of_op: dict[int, tuple[np.ndarray, int]] = {}

    def held(slice_, writer):
        if writer >= 0:
            return of_op[writer]
        if writer == t.INITIAL:
            return np.eye(1, ranks, slices[slice_].gpu, dtype=int)[0], int(slices[slice_].chunk)
        return np.zeros(ranks, int), MIXED

    for op in np.argsort(ops["issued_ps"], kind="stable"):
        row = ops[op]
        if row.kind != t.MOVE or row.issued_ps < 0 or not row.lines:
            continue
        sources = [operands[k] for k in range(row.first_source, row.first_source + row.sources)]
        found = [held(source.slice, int(source.seen)) for source in sources]
        chunks = {chunk for _, chunk in found}
        of_op[int(op)] = sum(times for times, _ in found), chunks.pop() if len(chunks) == 1 else MIXED
    rows = []
    for number, slice_ in enumerate(slices):
        if slice_.writing >= 0:
            rows.append((np.zeros(ranks, int), MIXED))
        elif slice_.writer == t.UNWRITTEN:
            rows.append((np.zeros(ranks, int), NOTHING))
        else:
            rows.append(held(number, int(slice_.writer)))
    return np.array([times for times, _ in rows]), np.array([chunk for _, chunk in rows])


@pytest.mark.parametrize("kind,algorithm,protocol", RUNS)
def test_at_every_moment_it_is_what_was_read_and_written(kind, algorithm, protocol):
    sim = simulation(kind, algorithm, protocol)
    before = -1
    while not sim.finished:
        sim.step(311)
        times, chunk = one_by_one(sim)
        held, promised = slice_contents(sim.engine)
        assert np.array_equal(held.times, times)
        assert np.array_equal(held.chunk, chunk)
        kept = int(promised.kept(held).sum())
        assert kept >= before, "what is right stays right"
        before = kept
    assert before == len(promised.slices)


@settings(max_examples=25, deadline=None)
@given(
    run=st.sampled_from(RUNS),
    channels=st.integers(1, 3),
    size=st.integers(1, 5000),
    gpus=st.sampled_from([2, 4, 8]),
)
def test_at_the_end_it_is_what_is_promised(run, channels, size, gpus):
    kind, algorithm, protocol = run
    sim = simulation(kind, algorithm, protocol, channels=channels, size=size, gpus=gpus)
    start = sim.contributions("output")
    sim.run()  # its own check passes
    end = sim.contributions("output")
    assert not start.most.any()
    promised = end.cells["promised"] > 0
    assert end.cells["kept"][promised].all()
    assert (end.least[promised].sum(axis=1) == end.cells["promised"][promised]).all()
    assert (end.most[promised] <= 1).all()
    assert not end.cells["writing"].any()
    if COLLECTIVES[kind].silent:
        assert not promised.any()
    elif not COLLECTIVES[kind].root_only:
        assert promised.all()


def test_the_cells_say_it_in_words():
    sim = simulation("all_reduce", "ring", channels=1)
    assert sim.contributions("input").text(1) == "GPU0 input[1]: 0"
    sim.run()
    assert sim.contributions("output").text(1) == "GPU0 output[1]: 0+1+2+3 of 4, final"
    many = simulation("all_reduce", "allpairs", channels=1, gpus=16, size="4 KiB")
    many.run()
    assert many.contributions("output").text(0) == "GPU0 output[0]: 16 ranks of 16, final"


def test_what_is_counted_twice_is_called_wrong():
    def twice(p):
        for me in p.everyone:
            block = me.block()
            block.reduce([me.input[0], me.input[0]], me.output[0])
            block.reduce([me.input[1], me.right.input[1]], me.output[1])

    sim = simulation("all_reduce", twice, gpus=2, channels=1)
    with pytest.raises(WrongResult, match="2 times"):
        sim.run()
    found = sim.contributions("output")
    assert found.text(0) == "GPU0 output[0]: 0+0 of 2, wrong: rank 0 is in it more than once"
    assert found.text(1) == "GPU0 output[1]: 0+1 of 2, final"
    assert found.cells["kept"].tolist() == [0, 1, 0, 1]


def test_chunks_are_shared_by_lanes_which_may_be_unequally_far():
    sim = simulation("all_gather", "ring", channels=2, size="4 KiB")
    seen = set()
    while not sim.finished:
        sim.step(97)
        found = sim.contributions("output")
        assert (found.least <= found.most).all()
        seen |= {
            text for k in range(len(found.cells)) if "in some of its 2 channels" in (text := found.text(k))
        }
    assert seen


def test_the_table_has_a_row_a_contribution():
    sim = simulation("all_reduce", "ring", channels=1)
    sim.run()
    frame = sim.contributions("output").to_dataframe()
    assert len(frame) == 4 * 4 * 4
    assert frame["kept"].all()
    assert set(frame["buffer"]) == {"output"}
    assert list(frame.columns) == ["rank", "buffer", "chunk", "of", "least", "most", "kept"]
    assert len(sim.contributions().cells) > len(sim.contributions("output").cells)


def test_the_fullest_copy_says_how_far_the_sums_are():
    sim = simulation("all_reduce", "ring", channels=1)
    counts = []
    while True:
        found = sim.contributions("fullest")
        assert len(found.cells) == 16
        assert sorted(set(found.cells["of_chunk"])) == [0, 1, 2, 3]
        counts.append(int((found.least > 0).sum()))
        if sim.finished:
            break
        sim.step(211)
    assert (counts[0], counts[-1]) == (16, 64), "each has its own at first, and all at the end"
    assert counts == sorted(counts)
    assert found.cells["kept"].all()
    with pytest.raises(InputError, match="hold different data"):
        simulation("all_gather", "ring").contributions("fullest")


def test_an_unknown_buffer_is_refused_with_the_near_one():
    with pytest.raises(InputError, match="did you mean 'output'"):
        simulation("barrier", "allpairs").contributions("ouput")


def test_the_check_at_the_end_uses_the_same_contents():
    sim = simulation("all_reduce", "allpairs")
    sim.run()
    machine = sim.engine.machine
    held = contents(sim.engine.program, machine.ops, machine.operands, machine.slices)
    assert np.array_equal(held.times, slice_contents(sim.engine)[0].times)
