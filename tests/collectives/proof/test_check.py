"""A wrong algorithm is an error that names the rank and the chunk."""

import pytest

import astranb as anb
from astranb.core.errors import Deadlock, InputError, WrongResult


def run(algorithm, kind="all_reduce", gpus=4, size="2 KiB"):
    sim = anb.Simulation(
        f"switch:gpus={gpus}", anb.collectives.Collective.of(kind, size, algorithm, channels=1)
    )
    sim.run()
    return sim


def two_shots(p, *, too_early=False, twice=False, wrong_chunk=False, forget=False, wrong_target=False):
    """Two-shot all-pairs with one bug at a time, on rank 2."""
    n = p.ranks
    arrived = [p.semaphore(r) for r in range(n)]
    for r in range(n):
        block, bad = p.block(r), r == 2
        others = [(r + k) % n for k in range(1, n)]
        sources = [p.input(r)[r], *(p.scratch(r)[peer] for peer in others)]
        if twice and bad:
            sources.append(p.scratch(r)[others[0]])
        targets = [p.output(peer)[r] for peer in others if not (forget and bad and peer == 1)]
        mine = p.output(r)[(r + 1) % n if wrong_target and bad else r]
        if too_early and bad:
            block.reduce(sources, mine, *targets)
        for peer in others:
            chunk = (peer + 1) % n if wrong_chunk and bad and peer == 0 else peer
            block.put(p.input(r)[chunk], p.scratch(peer)[r])
        for peer in others:
            block.signal(arrived[peer])
        block.wait(arrived[r], n - 1)
        if not (too_early and bad):
            block.reduce(sources, mine, *targets)
        for peer in others:
            block.signal(arrived[peer])
        block.wait(arrived[r], n - 1)


def test_the_correct_one_passes():
    assert run(two_shots).finished


@pytest.mark.parametrize(
    "bug,says",
    [
        ({"twice": True}, r"output chunk 2: rank 3's contribution is there 2 times"),
        ({"forget": True}, r"rank 1, output chunk 2: it was never written"),
        ({"wrong_chunk": True}, r"output chunk 0: .*different chunks were added"),
        ({"too_early": True}, r"output chunk 2: .*is missing"),
        ({"wrong_target": True}, r"rank 2, output chunk [23]"),
    ],
)
def test_every_bug_is_found_and_placed(bug, says):
    with pytest.raises(WrongResult, match=says) as caught:
        run(lambda p: two_shots(p, **bug))
    assert caught.value.exit_code == 4


def test_two_writers_at_once_are_found():
    def racing(p):
        for r in range(p.ranks):
            p.block(r).copy(p.input(r)[0], *(p.output(q)[0] for q in range(p.ranks)))

    with pytest.raises(WrongResult, match="while another write was under way"):
        run(racing, kind="broadcast", size="64 KiB")


def test_a_deadlock_names_the_cycle_of_waits():
    def cyclic(p):
        gates = [p.semaphore(r) for r in range(p.ranks)]
        for r in range(p.ranks):
            block = p.block(r)
            block.wait(gates[r])
            block.signal(gates[(r + 1) % p.ranks])

    with pytest.raises(Deadlock) as caught:
        run(cyclic)
    text = str(caught.value)
    assert all(f"rank {r} " in text for r in range(4))
    assert text.count("<-") == 4
    assert caught.value.exit_code == 3


def test_a_wait_that_nobody_answers_is_named():
    def lonely(p):
        gate = p.semaphore(1)
        for r in range(p.ranks):
            block = p.block(r)
            block.phase("greeting")
            if r == 1:
                block.wait(gate)

    with pytest.raises(Deadlock, match=r"rank 1 .* \(greeting\) .* no remaining operation signals it"):
        run(lonely)


def test_a_deadlocked_simulation_can_still_be_looked_at_and_taken_back():
    def half(p):
        gate = p.semaphore(0)
        block = p.block(0)
        block.put(p.input(0)[0], p.output(1)[0])
        block.wait(gate)

    collective = anb.collectives.Collective.of("broadcast", "1 KiB", half)
    sim = anb.Simulation("switch:gpus=2", collective)
    with pytest.raises(Deadlock):
        sim.run()
    assert "waiting for semaphore" in str(sim.inspect("gpu[0]"))
    there = sim.events
    assert sim.back(10).events == there - 10


def _reads_nothing(p):
    p.block(0).copy(p.scratch(0)[0], p.scratch(1)[0])


def _other_sizes(p):
    p.block(0).copy(p.input(0)[0], p.output(0)[p.ranks - 1])


def _no_such_rank(p):
    p.block(p.ranks)


def _no_such_chunk(p):
    p.block(0).copy(p.input(0)[99], p.output(0)[0])


def _waits_elsewhere(p):
    p.block(0).wait(p.semaphore(1))


def _no_block(_):
    pass


@pytest.mark.parametrize(
    "write,says",
    [
        (_reads_nothing, "is read, but never written"),
        (_other_sizes, "different sizes"),
        (_no_such_rank, "rank 4 does not exist; ranks are 0 to 3"),
        (_no_such_chunk, r"input\[99\] of rank 0 does not exist"),
        (_waits_elsewhere, "cannot wait for a semaphore of rank 1"),
        (_no_block, "no thread block"),
    ],
)
def test_a_program_that_makes_no_sense_is_refused(write, says):
    with pytest.raises(InputError, match=says):
        run(write, size=1000)


@pytest.mark.parametrize("size", [5121, 65536])
def test_packets_are_followed_while_the_same_operation_still_sends_elsewhere(size: int) -> None:
    sim = anb.Simulation("dgx-h100", anb.collectives.broadcast(size, "allpairs", protocol="LL"))
    assert sim.run().why == "end"  # was called wrong: its readers were done before it had sent all
