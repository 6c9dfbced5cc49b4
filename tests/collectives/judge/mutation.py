"""The mutation score of the verifier: of the damage that matters, how much it finds.

``python -m tests.collectives.judge.mutation [FILE ...]`` prints a table of the algorithms that come with
astranb, and of plans of MSCCL++ and MSCCL in files.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from astranb.collectives import ALGORITHMS, Collective, read_algorithm, verify
from astranb.core.errors import AstranbError, InputError

from .oracle import TooMany, find_fault
from .programs import mutant
from .sketch import Sketch
from .timings import empty_chunks

__all__ = ["Score", "score", "shipped"]


@dataclass
class Score:
    """Fate of the mutants of one algorithm."""

    name: str
    mutants: int = 0
    killed: int = 0  # refused by verify
    equivalent: int = 0  # without a fault in any order
    undecided: int = 0  # too many orders
    survived: list[str] = field(default_factory=list)  # accepted, with a fault

    def add(self, other: Score) -> None:
        """Add another one's counts."""
        for name in ("mutants", "killed", "equivalent", "undecided", "survived"):
            setattr(self, name, getattr(self, name) + getattr(other, name))

    def __str__(self) -> str:
        """One row of the table."""
        row = (self.mutants, self.killed, self.equivalent, self.undecided, len(self.survived))
        return f"{self.name:<42}" + "".join(f"{number:>11}" for number in row)


def score(sketch: Sketch, seed: int, mutants: int, *, most: int = 5_000) -> Score:
    """Damage a program again and again, and see what verify says of it."""
    rng = random.Random(f"{sketch.label} {seed}")
    found = Score(sketch.label)
    for _ in range(mutants):
        one = mutant(sketch, rng)
        while rng.random() < 0.2:
            one = mutant(one, rng)
        program = one.program()
        found.mutants += 1
        if any(flaw.severity == "error" for flaw in verify(program, one.kind, root=one.root)):
            found.killed += 1
            continue
        try:
            fault = find_fault(program, one.kind, root=one.root, empty=empty_chunks(one), most=most)
        except TooMany:
            found.undecided += 1
            continue
        except InputError as error:  # it cannot run at this size
            found.survived.append(f"{one}\n{error}")
            continue
        if fault:
            found.survived.append(f"{one}\n{fault}")
        else:
            found.equivalent += 1
    return found


def shipped(ranks: int) -> Iterator[Sketch]:
    """Yield the algorithms that come with astranb, with each protocol."""
    for one in ALGORITHMS.values():
        if one.power_of_two and ranks & (ranks - 1):
            continue
        for protocol in one.protocols:
            collective = Collective.of(one.collective, "8 KiB", one.name, protocol=protocol, channels=1)
            yield Sketch.of(collective, ranks)


def _of_files(paths: list[Path]) -> Iterator[Sketch]:
    """Yield the plans of files that are right as they are; print why others are left out."""
    for path in paths:
        try:
            plan = read_algorithm(str(path))
            summary = plan.summary()
            collective = Collective.of(str(summary["collective"]), "1 MiB", plan)
            sketch = Sketch.of(collective, int(str(summary["ranks"]))).but(label=path.name)
        except AstranbError as error:
            print(f"{path.name}: {error}")
            continue
        flaws = [f for f in verify(sketch.program(), sketch.kind, root=sketch.root) if f.severity == "error"]
        if flaws:
            print(f"{path.name}: wrong as it is: {flaws[0].message}")
        else:
            yield sketch


def main() -> int:
    """Print the table; the exit code is 1 if a fault survived."""
    parser = argparse.ArgumentParser(prog="python -m tests.collectives.judge.mutation", description=__doc__)
    parser.add_argument("files", nargs="*", type=Path, metavar="FILE", help="plans instead of algorithms")
    parser.add_argument("--mutants", type=int, default=40, metavar="N", help="of each program (default: 40)")
    parser.add_argument("--ranks", type=int, default=4, metavar="N", help="number of ranks (default: 4)")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    head = "".join(f"{name:>11}" for name in ("mutants", "killed", "equivalent", "undecided", "survived"))
    print(f"{'program':<42}{head}")
    total = Score("total")
    for sketch in _of_files(options.files) if options.files else shipped(options.ranks):
        one = score(sketch, options.seed, options.mutants)
        print(one, flush=True)
        total.add(one)
    print(total)
    for text in total.survived:
        print(f"\n{text}")
    return 1 if total.survived else 0


if __name__ == "__main__":
    sys.exit(main())
