"""Random contracts, and an algorithm that meets any of them: everyone sends what others need."""

from __future__ import annotations

import random

from astranb.collectives import Collective, Contract, Program

from .programs import mutant
from .sketch import Sketch

__all__ = ["direct", "random_contract", "sample_contract"]

_SIZES = (1, 128, 130, 384, 1000, 4096)


def random_contract(rng: random.Random, *, most_chunks: int = 3, ranks: int | None = None) -> Contract:
    """Return a contract of two to four ranks: uneven chunks, some empty, sums or not, sometimes in place."""
    n = ranks or rng.choice((2, 2, 3, 3, 4))
    few = rng.sample(_SIZES, 2)  # so that several chunks have the same size
    sizes = [[rng.choice((*few, *few, 0)) for _ in range(rng.randint(1, most_chunks))] for _ in range(n)]
    known: dict[int, list[tuple[int, int]]] = {}
    for rank, listed in enumerate(sizes):
        for chunk, size in enumerate(listed):
            known.setdefault(size, []).append((rank, chunk))
    outputs: list[list[tuple[int, set[tuple[int, int]]]]] = [[] for _ in range(n)]
    for mine in outputs:
        for _ in range(rng.randint(0, most_chunks)):
            size = rng.choice(list(known))
            held = rng.sample(known[size], rng.randint(1, min(3, len(known[size]))))
            mine.append((size, set(held)))
    if not any(outputs):
        outputs[0].append((sizes[0][0], {(0, 0)}))
    place: dict[tuple[int, int], int] = {}
    for rank, promised in enumerate(outputs) if rng.random() < 0.3 else ():
        free = list(enumerate(sizes[rank]))
        for k, (size, _) in enumerate(promised):
            fitting = [chunk for chunk, of in free if of == size > 0]
            if fitting and rng.random() < 0.7:
                place[rank, k] = rng.choice(fitting)
                free = [(chunk, of) for chunk, of in free if chunk != place[rank, k]]
    return Contract(
        name="random",
        ranks=n,
        inputs=lambda r: sizes[r],
        outputs=lambda r: [size for size, _ in outputs[r]],
        post=lambda r, k: outputs[r][k][1],
        in_place=(lambda r, k: place.get((r, k))) if place else False,
        reduce=rng.choice(("sum", "sum", "max", "prod")),
    )


def direct(p: Program) -> None:
    """Send every contribution to whoever must hold it; each rank then reduces what has come, in order."""
    assert p.layout is not None
    wires, layout = p.connections(), p.layout
    needed: list[list[tuple[int, int]]] = []  # contributions of each output: rank and chunk
    for first, last in zip(layout.first[:-1].tolist(), layout.first[1:].tolist(), strict=True):
        needed.append(sorted(zip(*layout.inputs[:2, layout.held[first:last]].tolist(), strict=True)))
    outputs = layout.outputs[:2].T.tolist()
    for me in p.everyone:
        block = me.block()
        for (rank, _), held in zip(outputs, needed, strict=True):
            for source, chunk in held:
                if source == me.number and rank != source:
                    wires[source, rank].send(block, me.input[chunk])
        mine = [(k, held) for (rank, k), held in zip(outputs, needed, strict=True) if rank == me.number]
        kept = {}  # an output may take the memory of an input that a later output needs
        for _, held in mine if (layout.places >= 0).any() else ():
            for source, chunk in held:
                if source == me.number:
                    kept[chunk] = me.scratch[10_000 + chunk]
        for chunk, copied in kept.items():
            block.copy(me.input[chunk], copied)
        for k, held in mine:
            parts = [
                kept.get(chunk, me.input[chunk]) if source == me.number else wires[source, me].receive(block)
                for source, chunk in held
            ]
            if parts:
                block.reduce(parts, me.output[k])


def sample_contract(seed: int) -> Sketch:
    """Return the program of a random contract of few chunks, damaged up to twice."""
    rng = random.Random(seed)
    contract = random_contract(rng, most_chunks=2, ranks=rng.choice((2, 2, 3)))
    protocol = rng.choice(("Simple", "Simple", "LL"))
    collective = Collective.of(contract, algorithm=direct, channels=1, protocol=protocol)
    sketch = Sketch.of(collective, contract.ranks or 2).but(label=f"contract {seed}")
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        sketch = mutant(sketch, rng)
    return sketch
