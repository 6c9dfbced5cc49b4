"""Contracts of one's own: what they say, what they refuse, and that programs which meet them are proved."""

from __future__ import annotations

import functools
import json
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.cli import main
from astranb.collectives import (
    Collective,
    Contract,
    Program,
    check_text,
    contract,
    lower,
    prove,
    verify,
)
from astranb.core.archive import read_archive, write_archive
from astranb.core.errors import InputError, WrongResult
from astranb.core.planes import pack, unpack
from tests.collectives.judge.contracts import direct, random_contract

COUNTS = [[0, 3000, 128, 77], [4096, 1, 9000, 0], [5, 5, 5, 5], [1000, 20_000, 300, 4]]


def exchange(**more):
    """An all-to-all of uneven chunks."""
    return Contract(
        name="all_to_all_v",
        ranks=4,
        inputs=lambda r: COUNTS[r],
        outputs=lambda r: [row[r] for row in COUNTS],
        post=lambda r, k: {(k, r)},
        **more,
    )


def one(size=4096, **more):
    """Every rank gets the chunk of its left neighbour."""
    fields = {"inputs": lambda r: size, "outputs": lambda r: size, "post": lambda r, k, n: {((r - 1) % n, 0)}}
    return Contract(**{**fields, **more})


def run(contract, write, ranks=4, **options):
    sim = anb.Simulation(
        f"ring:gpus={ranks}",
        Collective.of(contract, algorithm=write, **options),
        gpu="h100-sxm",
        record=False,
    )
    sim.run()
    return sim


# What a contract says --------------------------------------------------------------------


def test_sizes_are_lists_or_one_size_as_numbers_or_text():
    contract = Contract(
        inputs=lambda r: ["4 KiB", 0, np.int64(7), "0 B"] if r else 4096,
        outputs=lambda r: "4 KiB",
        post=lambda r, k: [(0, 0)],
    )
    layout = contract.on(2)
    assert layout.inputs.tolist() == [[0, 1, 1, 1, 1], [0, 0, 1, 2, 3], [4096, 4096, 0, 7, 0]]
    assert layout.counts == (4, 1)
    assert contract.size(2) == 4103


def test_a_function_with_one_parameter_more_gets_the_number_of_ranks():
    def sizes(scale, _, n, unit=10):
        return [scale * unit * n]

    contract = Contract(
        inputs=functools.partial(sizes, 2),
        outputs=lambda r, n: [20 * n],
        post=lambda r, k, n: {(n - 1 - r, k)},
    )
    assert contract.on(3).inputs[2].tolist() == [60] * 3
    assert contract.on(3).held.tolist() == [2, 1, 0]


def test_a_contract_asks_its_functions_once_for_each_number_of_ranks():
    asked: list[int] = []

    def inputs(r):
        asked.append(r)
        return 8

    contract = one(inputs=inputs, outputs=lambda r: 8)
    assert contract.on(3) is contract.on(3)
    assert asked == [0, 1, 2]


def test_contributions_that_are_held_together_have_one_item_and_a_column_each():
    post = [{(0, 0), (0, 1), (1, 0)}, {(1, 0), (2, 0)}, {(2, 1)}]
    layout = Contract(inputs=lambda r: [8, 8], outputs=lambda r: [8], post=lambda r, k: post[r], ranks=3).on(
        3
    )
    assert layout.most == 2
    assert layout.item.tolist() == [0, 0, 0, 3, 0, 5]
    assert len(set(zip(layout.item.tolist(), layout.column.tolist(), strict=True))) == 6
    assert layout.times.sum(axis=1).tolist() == [3, 2, 1]
    assert layout.by_rank(layout.times).tolist() == [[1, 1, 0], [0, 1, 1], [0, 0, 1]]
    assert layout.output_item.tolist() == [0, 0, 5]


def test_a_chain_of_sums_is_one_item():
    """However long the way from one contribution to another is."""
    layout = one(post=lambda r, k, n: {(r, 0), ((r + 1) % n, 0)}).on(500)
    assert layout.item.tolist() == [0] * 500


def test_the_parts_of_a_buffer_have_names():
    contract = Contract(
        inputs={"tokens": lambda r: [256] * (r + 1), "scales": lambda r: 8},
        outputs={"tokens": lambda r, n: [256] * (1 + (r - 1) % n), "scales": lambda r: 8},
        post={
            "tokens": lambda r, k, n: {((r - 1) % n, "tokens", k)},
            "scales": lambda r, k, n: {((r - 1) % n, "scales", k)},
        },
    )

    def shift(p):
        arrived = {me.number: me.semaphore() for me in p.everyone}
        for me in p.everyone:
            block = me.block()
            for k in range(me.number + 1):
                block.put(me.input["tokens"][k], me.right.output["tokens"][k])
            block.put(me.input["scales"][0], me.right.output["scales"][0])
            block.signal(arrived[me.right.number])
            block.wait(arrived[me.number])

    assert verify(Collective.of(contract, algorithm=shift).program(3), "contract") == []
    assert run(contract, shift, 3).finished
    me = Collective.of(contract, algorithm=shift).program(3).rank(2)
    assert me.input["scales"][0] == me.input[3]
    assert me.input["tokens"][1:3].indices == range(1, 3)
    with pytest.raises(InputError, match=r"input of rank 2 has no part 'scale'.*scales"):
        me.input["scale"]
    with pytest.raises(InputError, match=r"input\[1\] of rank 2 does not exist; the buffer has 1 chunk \|"):
        me.input["scales"][1]


# What is refused -------------------------------------------------------------------------


@pytest.mark.parametrize(
    "changes,message",
    [
        (
            {"outputs": lambda r: 100},
            r"output\[0\] of rank 0 has 100 B, and input\[0\] of rank 1, .* 4,096 B",
        ),
        (
            {"post": lambda r, k: {(2, 0)}},
            "must hold a chunk of rank 2, which does not exist; ranks are 0 to 1",
        ),
        (
            {"post": lambda r, k: {(1, 3)}},
            r"must hold input\[3\] of rank 1, which does not exist; .* 1 chunk",
        ),
        ({"post": lambda r, k: {(0, -1)}}, r"must hold input\[-1\] of rank 0, which does not exist"),
        ({"post": lambda r, k: set()}, r"output\[0\] of rank 0 is promised nothing"),
        ({"post": lambda r, k: (0, 0)}, r"must hold 0; let post return a set of \(rank, chunk\)"),
        ({"post": lambda r, k: 5}, "must hold None; let post return a set"),
        ({"post": lambda r, k: {("a", "b")}}, "must hold .'a', 'b'.; let post return a set"),
        ({"post": lambda r, k: 1 // 0}, r"post\(0, 0\): ZeroDivisionError"),
        ({"post": lambda r: {(0, 0)}}, r"post\(0, 0\): TypeError"),
        ({"inputs": lambda r: [1, 2][r + 1]}, r"inputs\(1\): IndexError: list index out of range"),
        ({"inputs": lambda r: "4 KiX"}, r"inputs\(0\): unknown size unit 'KiX'"),
        ({"inputs": lambda r: -1}, r"inputs\(0\): chunk size must not be negative, got -1"),
        ({"inputs": lambda r: [1.5]}, r"inputs\(0\) returns \[1.5\]; return the bytes of each chunk"),
        ({"inputs": lambda r: None}, r"inputs\(0\) returns None"),
        ({"outputs": lambda r: []}, "no rank has an output"),
        (
            {"in_place": {0: 1}},
            r"output\[0\] of rank 0 shares the memory of input\[1\], which does not exist",
        ),
        (
            {"in_place": {0: 1}, "inputs": lambda r: [4096, 5]},
            r"output\[0\] of rank 0 has 4,096 B, input\[1\], whose memory it shares, 5 B",
        ),
        (
            {"in_place": lambda r, k: 0, "outputs": lambda r: [4096, 4096]},
            r"two outputs of rank 0 share the memory of input\[0\]",
        ),
        (
            {"dtype": "fp32", "inputs": lambda r: 4095},
            "a chunk of 4,095 B does not hold a whole number of fp32",
        ),
        ({"in_place": {3: 0}}, r"output\[3\], which in_place names, does not exist on any rank; .* 0 to 0"),
        ({"busbw": lambda n: 1 / (n - 2)}, r"busbw\(2\): ZeroDivisionError"),
        ({"busbw": lambda n: "half"}, r"busbw\(2\) returns 'half'"),
        ({"ranks": 3}, "it is for 3 ranks, not 2; use an infrastructure with 3 GPUs"),
    ],
)
def test_what_cannot_be_met_is_refused_with_its_line(changes, message):
    with pytest.raises(InputError, match=message) as error:
        one(name="mine", **changes).on(2)
    assert "mine" in str(error.value)
    if "ranks" not in changes:
        assert "test_contract.py line" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "changes,message",
    [
        ({"name": "all_reduce"}, "name 'all_reduce' is taken"),
        ({"name": "a/b"}, "'a/b' is not a valid name"),
        ({"inputs": 4096}, "inputs must be a function"),
        ({"outputs": {"a": lambda r: 8}}, "post and outputs must have functions for the same buffers"),
        ({"reduce": "mean"}, "unknown reduction 'mean'"),
        ({"reduce": "summ"}, "did you mean 'sum'"),
        ({"dtype": "bf61"}, "unknown numbers 'bf61'; did you mean 'bf16'"),
        ({"accumulate": "fp32"}, "accumulate needs a dtype"),
        ({"dtype": "fp32", "accumulate": "bf16"}, "fp32 cannot be accumulated in bf16"),
        ({"dtype": "bf16", "accumulate": "int32"}, "bf16 cannot be accumulated in int32"),
        ({"ranks": 0}, "ranks must be at least 1"),
        ({"busbw": "half"}, "busbw must be a number, got 'half'"),
    ],
)
def test_what_no_contract_can_be_is_refused(changes, message):
    with pytest.raises(InputError, match=message):
        one(**changes)


@pytest.mark.parametrize(
    "options,message",
    [
        ({"size": 4096, "algorithm": direct}, "size: does not apply to a contract"),
        ({"algorithm": "ring"}, "contract 'contract' has no algorithm 'ring'; give a function"),
        ({}, "contract 'contract' has no algorithm; give a function"),
        ({"algorithm": direct, "root": 1}, "root: does not apply to a contract"),
        ({"algorithm": direct, "chunk_bytes": 128}, "chunk_bytes: does not apply to a contract"),
    ],
)
def test_a_collective_of_a_contract_has_no_size_or_root_of_its_own(options, message):
    with pytest.raises(InputError, match=message):
        Collective.of(one(), **options)


def test_a_chunk_that_does_not_exist_is_an_error_at_the_line_that_names_it():
    def write(p):
        p.block(0).copy(p.input(0)[1], p.output(0)[0])

    with pytest.raises(InputError, match=r"test_contract.py line \d+: input\[1\] of rank 0 does not exist"):
        Collective.of(one(), algorithm=write).program(2)


# Programs that meet it -------------------------------------------------------------------


@pytest.mark.parametrize("protocol", ["Simple", "LL", "LL128"])
@pytest.mark.parametrize("channels", [1, 3])
def test_an_uneven_exchange_is_proved_and_runs_right(protocol, channels):
    contract = exchange()
    collective = Collective.of(contract, algorithm=direct, channels=channels, protocol=protocol)
    assert verify(collective.program(4), "all_to_all_v") == []
    sim = run(contract, direct, channels=channels, protocol=protocol)
    size = max(*map(sum, COUNTS), *map(sum, zip(*COUNTS, strict=True)))
    assert sim.result.algbw_Bps == pytest.approx(size * 1e12 / sim.result.time_ps)
    assert sim.result.busbw_Bps is None
    assert "busbw" in sim.result.absent["busbw_Bps"]
    assert "busbw" not in sim.result.summary()


def test_bytes_on_the_links_are_those_of_the_chunks():
    """Every byte that crosses a rank's boundary in the contract crosses it once, and no line more."""
    program = Collective.of(exchange(), algorithm=direct, channels=1).program(4)
    lowered = lower(program, kind="all_to_all_v", size=0)
    slices = lowered.slices
    given = slices[slices["buffer"] == 0]
    assert given["bytes"].tolist() == [size for row in COUNTS for size in row]
    assert given["lines"].tolist() == [-(-size // 128) for row in COUNTS for size in row]


@given(st.randoms(use_true_random=False), st.integers(1, 3), st.sampled_from(["Simple", "LL"]))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_any_contract_is_met_by_sending_what_others_need(rng, channels, protocol):
    contract = random_contract(rng)
    collective = Collective.of(contract, algorithm=direct, channels=channels, protocol=protocol)
    assert contract.ranks is not None
    assert verify(collective.program(contract.ranks), "random") == []
    run(contract, direct, contract.ranks, channels=channels, protocol=protocol)


def without_one(rng):
    """The direct algorithm, but one output has a contribution less, or another one."""

    def write(p: Program) -> None:
        direct(p)
        assert p.layout is not None
        moves = [
            (block, i)
            for block in p.blocks
            for i, op in enumerate(block.operations)
            if op.kind == "move"
            and op.targets[0].buffer == "output"
            and p.layout.outputs[2, p.layout.find("output", op.targets[0].rank, op.targets[0].index)] > 0
        ]
        if not moves:
            return
        block, i = rng.choice(moves)
        op = block.operations[i]
        kept = op.sources[1:]
        block.operations[i : i + 1] = [
            anb.collectives.Operation("move", op.phase, kept, op.targets, line=op.line)
        ] * bool(kept)

    return write


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_a_contribution_that_is_left_out_is_found(seed):
    contract = random_contract(random.Random(seed))
    collective = Collective.of(contract, algorithm=without_one(random.Random(seed)), channels=1)
    assert contract.ranks is not None
    layout = contract.on(contract.ranks)
    program = collective.program(contract.ranks)
    flaws = [flaw for flaw in verify(program, "random") if flaw.severity == "error"]
    if not (layout.outputs[2] > 0).any():
        assert flaws == []
        return
    # An output in place of its only contribution holds it already.
    untouched = (layout.places >= 0) & (np.diff(layout.first) == 1)
    if not flaws:
        assert (layout.places[untouched] == layout.held[layout.first[:-1][untouched]]).any()
        return
    assert {flaw.kind for flaw in flaws} == {"result"}
    with pytest.raises(WrongResult, match="random/write: wrong result on rank"):
        run(contract, without_one(random.Random(seed)), contract.ranks, channels=1)


def test_a_fault_names_the_contributions():
    def swapped(p):
        for me in p.everyone:
            block = me.block()
            block.copy(me.input[1], me.output[0])
            block.copy(me.input[0], me.output[1])

    contract = Contract(inputs=lambda r: [8, 8], outputs=lambda r: [8, 8], post=lambda r, k: {(r, k)})
    program = Collective.of(contract, algorithm=swapped, channels=1).program(1)
    message = verify(program, "contract")[0].message
    assert (
        "rank 0, output chunk 0: rank 0 input[0] is missing; rank 0 input[1] should not be in it" in message
    )


# Reductions ------------------------------------------------------------------------------


def doubled(p):
    """The sum of both ranks' chunks, with the own one twice."""
    wires = p.connections()
    for me in p.everyone:
        block = me.block()
        wires[me, me.right].send(block, me.input[0])
        came = wires[me.left, me].receive(block)
        block.reduce([me.input[0], me.input[0], came], me.output[0])


@pytest.mark.parametrize("operator", ["sum", "prod", "average", "max", "min"])
def test_a_contribution_that_is_there_twice_is_right_in_a_maximum_only(operator):
    contract = one(post=lambda r, k: {(0, 0), (1, 0)}, reduce=operator)
    flaws = verify(Collective.of(contract, algorithm=doubled).program(2), "contract")
    if operator in ("max", "min"):
        assert flaws == []
        run(contract, doubled, 2)
    else:
        assert "rank 0 input[0] is there 2 times" in flaws[0].message
        with pytest.raises(WrongResult, match=r"rank 0 input\[0\] is there 2 times"):
            run(contract, doubled, 2)


def ring_sum(p):
    """A chain of additions, one a rank, that ends on rank 0."""
    wires, last = p.connections(), p.ranks - 1
    for me in reversed(p.everyone):
        block = me.block()
        parts = [me.input[0]]
        if me.number != last:
            parts.append(wires[me.right, me].receive(block))
        if me.number:
            wires[me, me.left].send(block, parts)
        else:
            block.reduce(parts, me.output[0])


def star_sum(p):
    """All additions in one move of rank 0."""
    wires, root = p.connections(), p.rank(0)
    for me in p.everyone[1:]:
        wires[me, root].send(me.block(), me.input[0])
    block = root.block()
    block.reduce([root.input[0], *(wires[me, root].receive(block) for me in p.everyone[1:])], root.output[0])


@pytest.mark.parametrize(
    "write,numbers,rounded",
    [
        (ring_sum, {"dtype": "bf16", "accumulate": "fp32"}, 4),
        (ring_sum, {"dtype": "bf16"}, 4),
        (star_sum, {"dtype": "bf16", "accumulate": "fp32"}, 1),
        (star_sum, {"dtype": "bf16"}, 4),
        (star_sum, {"dtype": "bf16", "reduce": "average"}, 5),
        (star_sum, {"dtype": "bf16", "reduce": "average", "accumulate": "fp32"}, 1),
        (star_sum, {"dtype": "bf16", "reduce": "max"}, None),
        (star_sum, {"dtype": "int32"}, None),
        (star_sum, {}, None),
    ],
)
def test_the_proof_and_the_run_count_the_same_roundings(write, numbers, rounded):
    contract = Contract(
        inputs=lambda r: 1024,
        outputs=lambda r: [] if r else 1024,
        post=lambda r, k, n: {(s, 0) for s in range(n)},
        **numbers,
    )
    proof = prove(Collective.of(contract, algorithm=write, channels=2).program(5), "contract")
    assert proof.flaws == []
    assert proof.roundings == rounded
    sim = run(contract, write, 5, channels=2)
    assert sim.result.roundings == rounded
    assert ("rounded at most" in sim.result.summary()) == (rounded is not None)
    assert proof.rounding_text in sim.result.summary()


# In place --------------------------------------------------------------------------------


def shift_in_place(p):
    """Every rank's chunk goes to its right neighbour, into the memory of that one's own."""
    wires = p.connections()
    blocks = [me.block() for me in p.everyone]
    for me, block in zip(p.everyone, blocks, strict=True):
        wires[me, me.right].send(block, me.input[0])
        came = wires[me.left, me].receive(block)
        block.copy(came, me.output[0])


def put_to_the_right(p, buffer):
    """Put every rank's chunk to a buffer of its right neighbour; gives the blocks once theirs has come."""
    arrived = {me.number: me.semaphore() for me in p.everyone}
    for me in p.everyone:
        block = me.block()
        block.put(me.input[0], getattr(me.right, buffer)[0])
        block.signal(arrived[me.right.number])
        block.wait(arrived[me.number])
        yield me, block


def early(p):
    """As before, but straight into the output, which the neighbour may not have read yet."""
    list(put_to_the_right(p, "output"))


def test_outputs_that_share_the_memory_of_inputs():
    contract = one(in_place=True)
    program = Collective.of(contract, algorithm=shift_in_place, channels=2).program(4)
    assert verify(program, "contract") == []
    lowered = lower(program, kind="contract", size=0)
    assert not (lowered.slices["buffer"] == 1).any()
    sim = run(contract, shift_in_place, channels=2)
    held = sim.contributions("input")
    assert held.cells["kept"].all()
    assert held.text(1) == "GPU1 input[0]: 0 of 1, final"
    assert verify(Collective.of(one(), algorithm=early).program(4), "contract") == []
    flaws = verify(Collective.of(contract, algorithm=early).program(4), "contract")
    assert "race" in {flaw.kind for flaw in flaws}


def hurried(p):
    """Every rank sends its chunk and stores over it what comes: packets may come while it still reads."""
    for me, block in put_to_the_right(p, "scratch"):
        block.copy(me.scratch[0], me.output[0])


@pytest.mark.parametrize("in_place", [False, True])
def test_a_block_has_read_an_input_before_it_stores_to_the_output_in_its_place(in_place):
    contract = one(in_place=in_place)
    program = Collective.of(contract, algorithm=hurried, protocol="LL").program(4)
    assert verify(program, "contract") == []
    lowered = lower(program, kind="contract", size=0)
    assert set(lowered.ops["ahead"][lowered.ops["kind"] == 0].tolist()) == ({0} if in_place else {0, 1})
    run(contract, hurried, protocol="LL")


def test_an_output_that_is_its_own_input_needs_no_move():
    contract = Contract(
        inputs=lambda r: [256, 256],
        outputs=lambda r: [256, 256],
        post=lambda r, k: {(r, 1 - k)},
        in_place={0: 1, 1: 0},
    )

    def nothing(p):
        p.block(0).compute(1)

    assert verify(Collective.of(contract, algorithm=nothing, channels=1).program(2), "contract") == []
    run(contract, nothing, 2, channels=1)


# The collectives that astranb has --------------------------------------------------------


@pytest.mark.parametrize(
    "collective,algorithm",
    [
        ("all_reduce", "ring"), ("all_reduce", "tree"), ("all_gather", "allpairs"),
        ("reduce_scatter", "ring"),
        ("all_to_all", "allpairs"), ("broadcast", "ring"), ("reduce", "ring"), ("gather", "allpairs"),
        ("scatter", "allpairs"), ("send_recv", "put"),
    ],
)  # fmt: skip
def test_a_collective_and_its_contract_run_alike(collective, algorithm):
    contract = Contract.like(collective, "16 KiB")
    mine = run(contract, algorithm, channels=2)
    theirs = anb.Simulation(
        "ring:gpus=4",
        Collective.of(collective, "16 KiB", algorithm, channels=2),
        gpu="h100-sxm",
        record=False,
    )
    theirs.run()
    assert mine.result.time_ps == theirs.result.time_ps
    assert mine.result.busbw_Bps == theirs.result.busbw_Bps
    assert mine.title.startswith(f"{collective}_sum/{algorithm}, 16 KiB")


def test_the_numbers_of_a_collective_that_astranb_has():
    proofs = {}
    for algorithm in ("ring", "allpairs"):
        contract = Contract.like("all_reduce", "64 KiB", dtype="bf16", accumulate="fp32")
        program = Collective.of(contract, algorithm=algorithm, channels=1).program(8)
        proofs[algorithm] = prove(program, contract.name)
    assert {name: proof.roundings for name, proof in proofs.items()} == {"ring": 7, "allpairs": 1}
    assert proofs["ring"].rounding_text == "outputs are rounded at most 7 times (bf16, accumulated in fp32)"


def right_in_place(collective, name, in_place):
    contract = Contract.like(collective, "16 KiB", in_place=in_place)
    program = Collective.of(contract, algorithm=name, channels=1).program(4)
    return not any(flaw.severity == "error" for flaw in verify(program, contract.name))


def test_which_algorithms_are_right_in_place():
    """As users of NCCL call them: with the same pointer, or with a pointer into the larger buffer."""
    ways = {
        "all_reduce": True,
        "all_gather": lambda r, k: 0 if k == r else None,
        "reduce_scatter": lambda r, k: r,
        "all_to_all": True,
    }
    right = {
        (a.collective, a.name): right_in_place(a.collective, a.name, ways[a.collective])
        for a in anb.collectives.algorithms()
        if a.collective in ways
    }
    wrong = {key for key, fine in right.items() if not fine}
    oneshots = {("all_reduce", "allpairs_oneshot"), ("all_reduce", "oneshot_mc")}
    exchanges = {key for key in right if key[0] == "all_to_all"} - {
        ("all_to_all", "allpairs_poison"),
        ("all_to_all", "staged_get"),
    }
    assert wrong == exchanges | oneshots


@pytest.mark.parametrize(
    "arguments,message",
    [
        (("barrier", 8), "a barrier promises no chunks"),
        (("dispatch", 8), "a dispatch promises no chunks"),
        (("all_reduced", 8), "unknown collective 'all_reduced'"),
        (("all_reduce", 10), "10 B of all_reduce on 4 ranks do not divide; use a multiple of 4 B"),
    ],
)
def test_what_has_no_contract(arguments, message):
    with pytest.raises(InputError, match=message):
        Contract.like(*arguments).on(4)


def test_an_algorithm_of_the_collective_is_needed():
    with pytest.raises(InputError, match="all_reduce has no algorithm 'rang'"):
        Collective.of(Contract.like("all_reduce", 4096), algorithm="rang")


# Saved and rebuilt -----------------------------------------------------------------------


@pytest.mark.parametrize("contract", [exchange(), exchange(dtype="int8", reduce="max", busbw=0.75)])
def test_a_saved_run_keeps_its_contract(tmp_path, contract):
    sim = anb.Simulation("ring:gpus=4", Collective.of(contract, algorithm=direct, channels=2), gpu="h100-sxm")
    sim.step(500)
    sim.save(tmp_path / "half.anb")
    again = anb.Simulation.load(tmp_path / "half.anb")
    assert again.run().why == sim.run().why == "end"
    assert again.state_hash() == sim.state_hash()
    assert again.result.algbw_Bps == sim.result.algbw_Bps
    assert again.result.busbw_Bps == sim.result.busbw_Bps
    assert again.result.summary() == sim.result.summary()
    assert (again.contributions("output").most == sim.contributions("output").most).all()


def test_a_saved_run_of_a_wrong_program_is_still_wrong(tmp_path):
    write = without_one(random.Random(3))
    sim = anb.Simulation(
        "ring:gpus=4", Collective.of(exchange(), algorithm=write, channels=1), gpu="h100-sxm"
    )
    sim.save(tmp_path / "start.anb")
    with pytest.raises(WrongResult, match="all_to_all_v/write: wrong result"):
        anb.Simulation.load(tmp_path / "start.anb").run()


@pytest.mark.parametrize("table", ["inputs", "outputs", "first", "held"])
def test_a_damaged_contract_is_refused(tmp_path, table):
    sim = anb.Simulation(
        "ring:gpus=4", Collective.of(exchange(), algorithm=direct, channels=1), gpu="h100-sxm"
    )
    found = read_archive(sim.recipe(), "", "", "")
    tables = unpack(found["tables"], "", "", "")
    name = json.loads(found["recipe.json"])["inputs"]["work"]["contract"][table]["array"]
    tables[name] = tables[name] + 1_000
    (tmp_path / "start.anb").write_bytes(write_archive({**found, "tables": pack(tables)}))
    with pytest.raises(InputError, match=f"contract.{table}"):
        anb.Simulation.load(tmp_path / "start.anb")


def test_a_run_is_rebuilt_with_other_channels_but_not_with_another_size():
    sim = run(exchange(), direct, channels=1)
    assert sim.rebuilt(channels=4).run().why == "end"
    with pytest.raises(InputError, match="a contract has the sizes of its chunks"):
        sim.rebuilt(size=4096)


# Parameters -----------------------------------------------------------------------


@contract
def ring_halo(*, size=4096, far=1):
    return Contract(
        inputs=lambda r: [size, size],
        outputs=lambda r: [size, size],
        post=lambda r, k, n: {((r + far * (2 * k - 1)) % n, 1 - k)},
    )


def exchange_halo(p, *, far=1, slices=1):
    came = [me.semaphore() for me in p.everyone]
    for me in p.everyone:
        block = me.block()
        left, right = (p.rank((me.number + by) % p.ranks) for by in (-far, far))
        for _ in p.cut_into(slices):
            block.put(me.input[1], right.output[0])
            block.put(me.input[0], left.output[1])
            for you in (left, right):
                block.signal(came[you])
            block.wait(came[me], 2)


def test_a_contract_has_parameters_with_defaults():
    assert (ring_halo.name, ring_halo.size(4)) == ("ring_halo", 8192)
    assert [(one.name, one.default) for one in ring_halo.parameters] == [("size", 4096), ("far", 1)]
    other = ring_halo.with_params(size=256, far=2)
    assert ring_halo(size=256, far=2).name == other.name
    assert (other.name, other.size(5)) == ("ring_halo(size=256, far=2)", 512)
    assert other.with_params(far=1).size(4) == 8192


def test_values_go_to_the_contract_and_to_the_algorithm_that_has_them():
    wanted = Collective.of(ring_halo, algorithm=exchange_halo, params={"size": 512, "far": 2, "slices": 2})
    assert wanted.title == "ring_halo(size=512, far=2)/exchange_halo(far=2, slices=2)"
    assert wanted.on_ranks(5).size == 1024
    assert verify(wanted, "ring:gpus=5") == []
    apart = Collective.of(ring_halo.with_params(far=2), algorithm=exchange_halo)
    assert verify(apart.program(5), apart.name) != []
    one = functools.partial(exchange_halo, slices=2)
    assert Collective.of(ring_halo, algorithm=one, params={"far": 2}).params == {"far": 2, "slices": 2}


def test_a_contract_of_a_collective_has_parameters_too():
    @contract
    def rounded(*, size=65536, dtype="bf16"):
        return Contract.like("all_reduce", size, dtype=dtype, name="rounded")

    wanted = Collective.of(rounded, algorithm="ring", params={"dtype": "fp16"})
    assert wanted.title == "rounded(dtype=fp16)/ring"
    assert verify(wanted.program(4), wanted.name) == []


@pytest.mark.parametrize(
    "params, message",
    [
        (
            {"sise": 4},
            "neither the contract nor exchange_halo has a parameter 'sise'; did you mean 'size' or",
        ),
        ({"size": -4}, "chunk size must not be negative, got -4"),
        ({"size": [4]}, r"size is \[4\]; give a number"),
    ],
)
def test_values_that_a_contract_cannot_have_are_refused(params, message):
    with pytest.raises(InputError, match=message):
        Collective.of(ring_halo, algorithm=exchange_halo, params=params).on_ranks(4)


def test_a_function_that_makes_no_contract_is_refused():
    with pytest.raises(
        InputError, match=r"contract 'needy', test_contract.py line \d+: .* a default; write def"
    ):

        @contract
        def needy(size):
            return one(size)

    with pytest.raises(InputError, match=r"contract 'empty', .*the function returns None; return Contract\("):

        @contract
        def empty():
            """Return nothing."""

    with pytest.raises(InputError, match="it has no parameter 'size'; make it with a function: @contract"):
        one().with_params(size=4)
    with pytest.raises(
        InputError, match=r"contract 'ring_halo'.* has no parameter 'sise'; did you mean 'size'"
    ):
        ring_halo.with_params(sise=4)


FILE = """
from astranb.collectives import Contract, contract

@contract
def shift(*, size=4096):
    return Contract(
        inputs=lambda r: size, outputs=lambda r: size, post=lambda r, k, n: {((r - 1) % n, 0)}
    )

def direct(p):
    came = [me.semaphore() for me in p.everyone]
    for me in p.everyone:
        block = me.block()
        block.put_signal(me.input[0], me.right.output[0], came[me.right])
        block.wait(came[me])
"""


def test_the_command_line_gives_a_contract_its_parameters(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("shift.py").write_text(FILE)
    named = ["--algorithm", "shift.py:direct", "--param", "size=8192"]
    assert main(["collective", "verify", "shift.py:shift", *named]) == 0
    assert capsys.readouterr().out.startswith("shift(size=8192)/direct (8 ranks): correct")
    assert main(["run", "collective", "shift.py:shift", "--infra", "ring:gpus=2", *named]) == 0
    assert capsys.readouterr().out.startswith("shift(size=8192)/direct, 8 KiB, 2 GPUs")
    assert main(["collective", "verify", "shift.py:shift", *named[:2], "--param", "sice=1"]) == 2
    assert (
        "neither the contract nor direct has a parameter 'sice'; did you mean 'size'"
        in capsys.readouterr().err
    )


def test_a_sweep_and_a_text_take_the_parameters_of_a_contract():
    found = anb.explore.sweep(
        "ring:gpus=4", ring_halo, exchange_halo, params={"size": [256, 512], "slices": [1]}
    )
    frame = found.to_dataframe()
    assert (frame["params.size"].tolist(), bool(frame["proved"].all())) == ([256, 512], True)
    with pytest.raises(InputError, match="exchange_halo has no parameter 'sise'; did you mean 'size' or"):
        anb.explore.sweep("ring:gpus=4", ring_halo, exchange_halo, params={"sise": [1]})
    text = FILE[FILE.index("def direct") :]
    shift = contract(lambda *, size=4096: Contract(
        inputs=lambda r: size, outputs=lambda r: size, post=lambda r, k, n: {((r - 1) % n, 0)}, name="shift"
    ))  # fmt: skip
    assert check_text(text, collective=shift, ranks=3, params={"size": 256}) == []
    (problem,) = check_text(text, collective=shift, ranks=3, params={"sise": 256})
    assert problem.text == "neither the contract nor program has a parameter 'sise'"
