"""The verifier is judged: by an exhaustive search, and by runs under many timings."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from astranb.collectives import ALGORITHMS, Collective, Program

from .contracts import sample_contract
from .mutation import score, shipped
from .oracle import Finding, TooMany, find_fault
from .programs import ASYNC_MUTATIONS, MUTATIONS, async_program, mutant, random_program, wired_program
from .sketch import Sketch
from .timings import Judge
from .verdict import judge, sample

SHIPPED = [
    (a.collective, a.name, protocol, ranks)
    for a in ALGORITHMS.values()
    for protocol in a.protocols
    for ranks in (2, 3)
    if not (a.power_of_two and ranks & (ranks - 1))
]


def judged(seeds: range, timings: int, of: Callable[[int], Sketch] = sample) -> Counter[str]:
    """Judge random programs; all verdicts must agree."""
    count: Counter[str] = Counter()
    for seed in seeds:
        sketch = of(seed)
        operations = [op for lines in sketch.blocks for op in lines.operations]
        count["posted"] += any(op.behind for op in operations)
        count["roles"] += any(lines.role_of >= 0 for lines in sketch.blocks)
        count["slots"] += bool(sketch.buffers)
        verdict = judge(sketch, seed, timings=timings)
        assert verdict.agreed, f"program {seed}\n{verdict}"
        count["wrong" if verdict.flaws else "right"] += 1
        count["shown by " + verdict.shown.partition(":")[0]] += bool(verdict.shown)
        count[verdict.argued] += not verdict.shown
    # Both kinds are common, and what is only argued is rare.
    assert count["right"] > len(seeds) // 4 < count["wrong"]
    assert count["same data"] <= len(seeds) // 50
    assert count["packets twice"] <= len(seeds) // 50
    assert count["some of the signals"] <= len(seeds) // 100
    assert count["too many states"] <= len(seeds) // 100
    return count


def test_random_programs() -> None:
    judged(range(300), timings=3)


@pytest.mark.parametrize(
    "of,seeds",
    [
        ("posted", range(250)),
        ("wired", range(250)),
        pytest.param("posted", range(250, 2_000), marks=pytest.mark.slow),
        pytest.param("wired", range(250, 1_000), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_random_programs_that_do_not_wait_for_their_stores(of: str, seeds: range) -> None:
    count = judged(seeds, timings=3, of=partial(sample, kind=of))
    assert count["posted"] > len(seeds) // 2
    assert count["roles" if of == "posted" else "slots"] > len(seeds) // 2


@pytest.mark.slow
@pytest.mark.parametrize("first", range(300, 10_300, 1_000))
def test_ten_thousand_random_programs(first: int) -> None:
    judged(range(first, first + 1_000), timings=6)


def test_random_contracts() -> None:
    judged(range(200), timings=0, of=sample_contract)


@pytest.mark.slow
def test_three_thousand_random_contracts() -> None:
    judged(range(200, 3_000), timings=0, of=sample_contract)


@pytest.mark.parametrize("kind,name,protocol,ranks", SHIPPED)
def test_shipped_algorithms_have_no_fault_in_any_order(
    kind: str, name: str, protocol: str, ranks: int
) -> None:
    collective = Collective.of(kind, "8 KiB", name, protocol=protocol, channels=1, root=ranks - 1)
    assert find_fault(collective.program(ranks), kind, root=ranks - 1) is None


@pytest.mark.parametrize("ranks,mutants", [(3, 3), pytest.param(4, 100, marks=pytest.mark.slow)])
def test_no_fault_of_a_damaged_algorithm_survives(ranks: int, mutants: int) -> None:
    for sketch in shipped(ranks):
        one = score(sketch, seed=0, mutants=mutants)
        assert not one.survived, one.survived[0]
        assert one.undecided <= mutants // 10


@pytest.mark.parametrize(
    "seeds", [range(200), pytest.param(range(200, 4_000), marks=pytest.mark.slow)], ids=len
)
def test_the_reduction_leaves_out_nothing_that_matters(seeds: range) -> None:
    """Without it every order is tried, which only the smallest programs allow."""
    decided = faults = 0
    for seed in seeds:
        rng = random.Random(seed)
        sketch = (async_program if seed % 2 else random_program)(seed)
        while rng.random() < 0.6:
            sketch = mutant(sketch, rng, mutations=ASYNC_MUTATIONS if seed % 2 else MUTATIONS)
        if sum(len(lines.operations) for lines in sketch.blocks) > 7:
            continue
        program = sketch.program()
        for strict in (False, True):
            options: dict[str, Any] = {
                "root": sketch.root,
                "slots": sketch.slots,
                "strict": strict,
                "launches": 1,
            }
            found = find_fault(program, sketch.kind, **options)
            try:
                every = find_fault(program, sketch.kind, **options, reduced=False, most=2_000)
            except TooMany:
                continue
            assert (found is None) == (every is None), f"{seed}: {found} {every}\n{sketch}"
            decided += 1
            faults += found is not None
    assert decided > len(seeds) // 8
    assert faults > len(seeds) // 30


def exchange(*, wait: bool = True, relaxed: bool = False, twice: bool = False, behind: int = 0) -> Sketch:
    """Two ranks put their chunk to each other and wait for the other one's."""

    def write(p: Program) -> None:
        arrived = [p.semaphore(rank) for rank in range(2)]
        for me in p.everyone:
            block, you = me.block(), me.right
            if behind < 2:
                block.copy(me.input[0], me.output[me.number])
            block.put(me.input[0], you.output[me.number])
            if behind > 1:  # the last move is not the one that counts
                block.copy(me.input[0], me.output[me.number])
            for _ in range(1 + twice):
                block.signal(arrived[you.number], relaxed=relaxed, behind=behind and 1)
            if wait:
                block.wait(arrived[me.number])

    return Sketch.of(Collective.of("all_gather", 1024, write, channels=1), 2)


@pytest.mark.parametrize(
    "sketch,kind,launch",
    [
        (exchange(wait=False), "result", 1),
        (exchange(relaxed=True), "result", 1),
        (exchange(twice=True), "result", 2),
        (exchange(twice=True, behind=1), "result", 2),
        (exchange(behind=2), "result", 1),
    ],
)
def test_the_oracle_finds_what_only_some_orders_show(sketch: Sketch, kind: str, launch: int) -> None:
    found = find_fault(sketch.program(), sketch.kind, strict=False)
    assert isinstance(found, Finding)
    assert (found.kind, found.launch) == (kind, launch)
    assert find_fault(exchange().program(), "all_gather") is None
    assert find_fault(exchange(behind=1).program(), "all_gather") is None


def test_some_timing_shows_most_faults() -> None:
    """The engine is a judge of its own: of what the oracle calls wrong, runs show most."""
    shown = wrong = 0
    for seed in range(90):
        sketch = sample(seed)
        if (
            sketch.size % 128
            or sketch.same_memory
            or sketch.slots
            or not find_fault(sketch.program(), sketch.kind, root=sketch.root, strict=False)
        ):
            continue
        wrong += 1
        shown += next(Judge(sketch, seed).faults(8), "") != ""
    assert shown > 0.7 * wrong > 10


@pytest.mark.parametrize("name", ASYNC_MUTATIONS)
def test_each_kind_of_damage_is_found_somewhere(name: str) -> None:
    """A mutation that never breaks a program would judge nothing."""
    rng = random.Random(name)
    for seed in range(60):
        make = random_program if name in MUTATIONS else rng.choice((async_program, wired_program))
        sketch = mutant(make(seed), rng, name, ASYNC_MUTATIONS)
        if name in sketch.label and find_fault(sketch.program(), sketch.kind, root=sketch.root):
            return
    pytest.fail(f"{name} breaks nothing")
