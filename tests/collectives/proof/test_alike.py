"""A channel that does what another one does is left out of the proof, and no fault with it."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest

from astranb.collectives import ALGORITHMS, Collective, Flaw, Program, verify
from astranb.collectives.proof import verify as verifying
from astranb.collectives.proof.alike import one_of_each
from astranb.collectives.proof.order import Slots
from tests.collectives.judge.programs import mutant
from tests.collectives.judge.sketch import Sketch


def channels_proved(program: Program, slots: Slots | None = None) -> set[int]:
    return {block.channel for block in one_of_each(program, None, slots)[0].blocks}


def of_all_channels(sketch: Sketch, patch: pytest.MonkeyPatch) -> list[Flaw]:
    with patch.context() as whole:
        whole.setattr(verifying, "one_of_each", lambda program, *_: (program, set()))
        return verify(sketch.program(), sketch.kind, root=sketch.root, slots=sketch.slots)


def texts(flaws: list[Flaw]) -> list[tuple[str, str, str]]:
    return [(flaw.kind, flaw.severity, flaw.message) for flaw in flaws]


@pytest.mark.parametrize("size", ["64 KiB", "1 KiB"])  # of the smaller one, some channels have nothing
@pytest.mark.parametrize("key", list(ALGORITHMS), ids="/".join)
def test_a_fault_of_one_channel_is_found(
    key: tuple[str, str], size: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = ALGORITHMS[key]
    if one.collective == "barrier":
        pytest.skip("it has one channel")
    rng = random.Random(f"{key} {size}")
    count: Counter[str] = Counter()
    for protocol in one.protocols:
        sketch = Sketch.of(Collective.of(one.collective, size, one.name, channels=3, protocol=protocol), 4)
        for _ in range(6):
            damaged = mutant(sketch, rng)
            program = damaged.program()
            found = verify(program, damaged.kind, root=damaged.root)
            assert texts(found) == texts(of_all_channels(damaged, monkeypatch)), str(damaged)
            count["wrong"] += any(flaw.severity == "error" for flaw in found)
            count["fewer"] += len(channels_proved(program)) < 3
    assert count["wrong"] > 0 or size == "1 KiB"


@pytest.mark.parametrize(
    "name,proved",
    [
        ("ring", 1),
        ("allpairs_oneshot", 1),
        ("recursive_doubling", 1),
        ("tree", 2),  # one of two trees
        ("double_tree", 1),
        ("allpairs", 4),  # each channel begins with another rank
    ],
)
def test_how_many_channels_of_an_algorithm_are_proved(name: str, proved: int) -> None:
    program = Collective.of("all_reduce", "1 MiB", name, channels=4).program(8)
    assert len(channels_proved(program)) == proved


def shift(p: Program, *, wrong: int = -1) -> None:
    """Each rank puts its chunk to all; one channel reads too early."""
    arrived = [p.semaphore(rank) for rank in range(p.ranks)]
    for me in p.everyone:
        block = me.block()
        for you in range(p.ranks):
            block.put(me.input[0], p.output(you)[me.number])
        for you in sorted(p.others(me.number)):
            block.signal(arrived[you], relaxed=p.channel == wrong)
        block.wait(arrived[me.number], p.ranks - 1)


@pytest.mark.parametrize("wrong", range(4))
def test_whichever_channel_is_wrong(wrong: int) -> None:
    def write(p: Program) -> None:
        shift(p, wrong=wrong)

    program = Collective.of("all_gather", "64 KiB", write, channels=4).program(3)
    assert channels_proved(program) == {wrong, min({0, 1} - {wrong})}
    flaws = verify(program, "all_gather")
    assert flaws
    assert {flaw.kind for flaw in flaws} == {"fence"}


def test_channels_that_share_something_are_all_proved() -> None:
    def common(p: Program) -> None:
        """All channels wait for the same semaphore."""
        if not p.channel:
            shared.append(p.semaphore(0))
        shift(p)
        p.blocks[-1].signal(shared[-1])

    shared: list = []  # type: ignore[type-arg]
    program = Collective.of("all_gather", "64 KiB", common, channels=4).program(3)
    assert channels_proved(program) == {0, 1, 2, 3}

    def neighbours(p: Program) -> None:
        """One channel writes what is another one's."""
        shift(p)
        if p.channel == 2:
            op = p.blocks[0].operations[1]
            stray = replace(op, sources=(op.sources[0]._replace(rank=2),))
            p.blocks[-1].operations.insert(0, stray)

    program = Collective.of("all_gather", "64 KiB", neighbours, channels=4).program(3)
    assert channels_proved(program) == {0, 1, 2}
    assert verify(program, "all_gather")


def test_channels_that_a_gpu_does_not_hold_at_once_are_all_proved() -> None:
    program = Collective.of("all_gather", "64 KiB", shift, channels=4).program(3)
    assert channels_proved(program, Slots(4, 4)) == {0}
    assert channels_proved(program, Slots(3, 4)) == {0, 1, 2, 3}
