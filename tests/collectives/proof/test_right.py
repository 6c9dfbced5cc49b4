"""Meaning of "right": whatever the timing, for this size, for every rank that ends, and once more."""

from __future__ import annotations

import json

import pytest

import astranb as anb
from astranb.cli import main
from astranb.collectives import Collective, read_algorithm, verify
from astranb.core.errors import WrongResult
from astranb.gpu import tables
from tests.collectives.formats.test_mscclpp import gpu, local, op, plan, remote, signal, wait


def kinds(write, kind, ranks, size=4096, slots=None, **more):
    program = Collective.of(kind, size, write, channels=1, **more).program(ranks)
    return {flaw.kind for flaw in verify(program, kind, slots=slots) if flaw.severity == "error"}


# An input that somebody writes ---------------------------------------------------------------


def gathered(p):
    arrived = [p.semaphore(r) for r in range(p.ranks)]
    for r in range(p.ranks):
        block, others = p.block(r), p.others(r)
        block.copy(p.input(r)[0], p.output(r)[r], *(p.output(peer)[r] for peer in others))
        for peer in others:
            block.signal(arrived[peer])
        block.wait(arrived[r], p.ranks - 1)


def test_a_stray_block_that_writes_an_input_is_a_race():
    def stray(p):
        gathered(p)
        p.block(0).copy(p.input(1)[0], p.input(0)[0])

    assert kinds(gathered, "all_gather", 4) == set()
    assert kinds(stray, "all_gather", 4) == {"race"}


# What a rank finds when it has ended ----------------------------------------------------------


def put_right(p, *, signals=1, waits=1, relaxed=False):
    arrived = [p.semaphore(r) for r in range(p.ranks)]
    for me in p.everyone:
        block = me.block()
        block.put(me.input[0], me.right.output[0])
        for _ in range(signals):
            block.signal(arrived[me.right.number], relaxed=relaxed)
        if waits:
            block.wait(arrived[me.number], waits)


@pytest.mark.parametrize(
    "more,found",
    [
        ({}, set()),
        ({"signals": 2, "waits": 2}, set()),
        ({"signals": 0, "waits": 0}, {"completion"}),
        ({"waits": 0}, {"completion"}),
        ({"relaxed": True}, {"fence"}),
        ({"signals": 2}, {"semaphore"}),  # the second one satisfies the wait of the next launch
    ],
)
def test_data_are_there_when_the_receiver_ends(more, found):
    assert kinds(lambda p: put_right(p, **more), "send_recv", 4) == found


def test_a_block_of_the_rank_that_does_not_wait_is_no_fault_if_another_does():
    def two_blocks(p):
        put_right(p)
        for me in p.everyone:
            me.block().compute(3)

    assert kinds(two_blocks, "send_recv", 3) == set()


def test_signals_left_over_are_no_fault_where_the_wait_orders_nothing():
    def twice(p):
        gate = p.semaphore(0)
        block = p.block(0)
        block.signal(gate, 2)
        p.block(0).wait(gate)

    assert kinds(twice, "barrier", 2) == set()


# Counting ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 3, 4])
@pytest.mark.parametrize("rounds", [2, 3])
@pytest.mark.parametrize("own", [True, False])
def test_a_counting_barrier_can_be_used_again(ranks, rounds, own):
    def counting(p):
        blocks = [p.block(r) for r in range(p.ranks)]
        gates = [p.semaphore(r) for r in range(p.ranks)]

        def barrier():
            for block in blocks:
                for gate in gates:
                    if own or gate.rank != block.rank:
                        block.signal(gate)
                block.wait(gates[block.rank], p.ranks - (not own))

        for r, block in enumerate(blocks):
            block.copy(p.input(r)[0], p.scratch(r)[0])
        for _ in range(rounds - 1):
            barrier()
        for r, block in enumerate(blocks):
            for peer in range(p.ranks):
                block.copy(p.scratch(peer)[0], p.output(r)[peer])
        barrier()

    assert kinds(counting, "all_gather", ranks) == set()


def test_a_counter_that_one_block_can_satisfy_alone_is_no_barrier():
    def alone(p):
        gate = p.semaphore(0)
        for r in (1, 2):
            block = p.block(r)
            block.put(p.input(r)[0], p.output(0)[r])
            block.signal(gate)
            block.signal(gate)
        reader = p.block(0)
        reader.copy(p.input(0)[0], p.output(0)[0])
        reader.wait(gate, 2)
        reader.copy(p.output(0)[1], p.scratch(0)[0])

    found = kinds(alone, "gather", 3)
    assert "race" in found or "completion" in found


# Packets ---------------------------------------------------------------------------------------


def test_a_packet_does_not_show_that_an_earlier_move_of_its_loop_has_read():
    def handed(p, *, signals):
        done = p.semaphore(1)
        one, two = p.block(0), p.block(1)
        two.copy(p.input(1)[0], p.scratch(1)[0])
        two.signal(ready := p.semaphore(0))
        one.wait(ready)
        one.copy(p.scratch(1)[0], p.scratch(0)[0])
        if signals:
            one.signal(done)
            two.wait(done)
        one.copy(p.input(0)[0], p.packets(1)[0])
        two.copy(p.packets(1)[0], p.scratch(1)[1])
        two.compute()
        two.copy(p.scratch(1)[1], p.scratch(1)[0])

    assert kinds(lambda p: handed(p, signals=False), "barrier", 2) == {"race"}
    assert kinds(lambda p: handed(p, signals=True), "barrier", 2) == set()


def test_packets_given_back_follow_the_read_of_their_own_line():
    def back(p):
        p.block(0).copy(p.input(0)[0], p.packets(1)[0])
        p.block(1).copy(p.packets(1)[0], p.packets(0)[0])
        p.block(0).copy(p.packets(0)[0], p.input(0)[0])

    assert kinds(back, "barrier", 2, protocol="LL") == set()


def test_the_same_data_may_be_written_twice():
    def through_a_switch(p, *, same):
        blocks = [p.block(r) for r in range(p.ranks)]
        p.barrier(blocks)
        for r, block in enumerate(blocks):
            for chunk in range(p.ranks):
                ranks = range(p.ranks) if same or r == chunk else [r]
                block.switch_reduce_store(
                    [p.input(k)[chunk] for k in ranks], *(p.output(k)[chunk] for k in range(p.ranks))
                )
        p.barrier(blocks)

    assert kinds(lambda p: through_a_switch(p, same=True), "all_reduce", 3) == set()
    assert "race" in kinds(lambda p: through_a_switch(p, same=False), "all_reduce", 3)


# Sizes and slots --------------------------------------------------------------------------------


def over_packets(p):
    """Rank 1 learns from a packet of the last chunk that rank 0 has read its scratch."""
    one, two = p.block(0), p.block(1)
    two.copy(p.input(1)[0], p.scratch(1)[0])
    two.signal(ready := p.semaphore(0))
    one.wait(ready)
    one.copy(p.scratch(1)[0], p.scratch(0)[0])
    one.compute()
    one.copy(p.input(0)[3], p.packets(1)[0])
    two.copy(p.packets(1)[0], p.output(1)[3])
    two.compute()
    two.copy(p.input(1)[1], p.scratch(1)[0])


def test_nobody_waits_for_the_packet_of_an_empty_chunk():
    full, empty = (
        [f for f in verify(program, "all_reduce") if f.kind == "race"]
        for size in (512, 384)
        for program in [Collective.of("all_reduce", size, over_packets, channels=1).program(4)]
    )
    assert full == []
    assert len(empty) == 1


def test_chunks_of_different_sizes_are_a_fault_for_this_size():
    def rotated(p):
        put = p.block(0)
        put.copy(p.input(0)[0], p.scratch(0)[0])
        put.copy(p.input(0)[3], p.scratch(0)[0])

    def of(size):
        program = Collective.of("reduce", size, rotated, root=1, channels=1).program(2)
        program.output_chunks, program.input_chunks = 4, 4
        return {flaw.kind for flaw in verify(program, "barrier")}

    assert of(4096) == set()
    assert of(384) == of(500) == {"size"}


def test_blocks_that_wait_for_one_another_must_fit_on_the_gpu():
    def many(p):
        p.barrier([block for _ in range(9) for block in (p.block(0), p.block(1))])

    assert kinds(many, "barrier", 2) == set()
    assert kinds(many, "barrier", 2, slots=(9, 4)) == set()
    assert kinds(many, "barrier", 2, slots=(8, 4)) == {"deadlock"}

    def one_after_another(p):
        for _ in range(9):
            p.block(0).compute()

    assert kinds(one_after_another, "barrier", 2, slots=(8, 4)) == set()


# Plans from files --------------------------------------------------------------------------------


@pytest.fixture
def written(tmp_path):
    def write(document):
        file = tmp_path / "plan.json"
        file.write_text(json.dumps(document))
        return str(file)

    return write


def handed_over(*, early):
    """Rank 1 gets a chunk of rank 0, which then overwrites it, in place."""
    got = op("get", [remote(1, 0, "i", 0)], [local("s", 0)])
    one = [
        wait([0]),
        op("put", [local("i", 1)], [remote(0, 1, "i", 1)]),
        op("copy", [local("i", 1)], [local("i", 0)]),
    ]
    two = [signal([0]), got] if early else [got, signal([0])]
    return plan([gpu(0, 2, [one], (2, 2), 1), gpu(1, 2, [two], (2, 2), 1)], inplace=True)


@pytest.mark.parametrize("early", [True, False])
def test_one_buffer_in_place_is_one_buffer(written, early):
    algorithm = read_algorithm(written(handed_over(early=early)))
    found = verify(Collective.of("all_reduce", 4096, algorithm).program(2), "all_reduce")
    races = [flaw for flaw in found if flaw.kind == "race"]
    assert bool(races) is early
    if early:
        (race,) = races
        assert race.places == ((1, 0, 1), (0, 0, 2)) or race.places == ((0, 0, 2), (1, 0, 1))
        assert "rank 1 block 0 operation 1 [get]" in race.message
        assert "rank 0 block 0 operation 2 [copy]" in race.message


def test_faults_are_counted_and_twenty_are_listed(written, capsys):
    chunks = 40
    blocks = [[op("copy", [local("i", 0, chunks)], [local("o", 0, chunks)])] for _ in range(2)]
    blocks[1][0] = op("copy", [local("s", 0, chunks)], [local("o", 0, chunks)])
    file = written(plan([gpu(r, 2, blocks, (chunks, chunks), chunks) for r in range(2)]))
    assert main(["collective", "verify", "all_reduce", "--algorithm", file]) == 4
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("(2 ranks): 161 faults")  # 80 races, 80 reads of nothing, the result
    assert ["[copy]" in line for line in lines] == [False, True, False, True, False, False]
    assert lines[2] == lines[4] == "    and 9 more like it"  # twenty are described
    assert "and 141 more faults" in lines[-1]
    assert main(["collective", "verify", "all_reduce", "--algorithm", file, "--json"]) == 4
    (row,) = json.loads(capsys.readouterr().out)
    assert (row["ranks"], row["count"]) == (2, 161)


def test_the_command_takes_the_ranks_of_the_plan_and_the_slots_of_the_gpu(tmp_path, capsys):
    (tmp_path / "many.py").write_text(
        "def many(p):\n    p.barrier([block for _ in range(300) for block in (p.block(0), p.block(1))])\n"
    )
    verb = ["collective", "verify", "barrier", "--ranks", "2", "--channels", "1"]
    verb += ["--algorithm", f"{tmp_path}/many.py:many"]
    assert main(verb) == 3
    assert "begins when another block of its rank has ended" in capsys.readouterr().out
    assert main([*verb, "--gpu", "mi300x"]) == 0


@pytest.mark.parametrize("size", [4096, 100_000])
def test_a_run_agrees_that_packets_may_be_given_back_in_place(size):
    def back(p):
        p.block(0).copy(p.input(0)[0], p.packets(1)[0])
        p.block(1).copy(p.packets(1)[0], p.packets(0)[0])
        p.block(0).copy(p.packets(0)[0], p.input(0)[0])

    collective = Collective.of("barrier", size, back, channels=1, protocol="LL")
    sim = anb.Simulation("switch:gpus=2", collective)
    assert verify(collective.program(2), "barrier") == []
    sim.run()
    operands = sim.engine.machine.operands
    assert (operands["seen"] != tables.TORN).all()


@pytest.mark.parametrize("size", ["2KiB", "64KiB"])
def test_a_run_agrees_that_the_same_data_may_be_written_twice(size):
    def everywhere(p, *, ranks):
        blocks = [p.block(r) for r in range(p.ranks)]
        p.barrier(blocks)
        for block in blocks:
            for chunk in range(p.ranks):
                sources = [p.input(k)[chunk] for k in range(p.ranks if block.rank == 0 else ranks)]
                block.reduce(sources, *(p.output(k)[chunk] for k in range(p.ranks)))
        p.barrier(blocks)

    def run(ranks):
        collective = Collective.of("all_reduce", size, lambda p: everywhere(p, ranks=ranks), channels=1)
        anb.Simulation("switch:gpus=4", collective, record=False).run()

    run(4)
    with pytest.raises(WrongResult):
        run(3)
