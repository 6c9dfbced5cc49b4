"""Times of algorithms that were written to a file and read back, against the program.

    python -m tests.collectives.formats.round_trips [--ranks 4 8] [--size 64KiB]

prints, for each format, how many programs take the same time within 1 %, how many differ and say why, the
largest difference, and what cannot be written. It fails where one differs and says nothing.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from astranb.collectives import Collective, algorithms
from astranb.core.errors import InputError
from astranb.explore import export_algorithm

ENDINGS = {"json": "MSCCL++", "xml": "MSCCL"}
SAME = 0.01


def round_trips(ending, ranks, size):
    """Yield each library algorithm's name with what exporting it found, or with the error that refuses it."""
    with tempfile.TemporaryDirectory() as folder:
        for one in algorithms():
            if one.collective in ("barrier", "dispatch", "combine"):
                continue
            for protocol in one.protocols:
                collective = Collective.of(one.collective, size, one.name, channels=1, protocol=protocol)
                try:
                    collective.program(ranks)
                except InputError:
                    continue  # not for this number of ranks
                file = Path(folder, f"algorithm.{ending}")
                try:
                    yield collective.title, export_algorithm(f"switch:gpus={ranks}", collective, file)
                except InputError as error:
                    yield collective.title, error


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ranks", type=int, nargs="+", default=[4, 8])
    parser.add_argument("--size", default="64KiB")
    options = parser.parse_args()
    silent = []
    print("| format | ranks | same within 1 % | differ, and say why | longest | shortest | refused |")
    print("| --- | ---: | ---: | ---: | --- | --- | ---: |")
    for ending, name in ENDINGS.items():
        for ranks in options.ranks:
            found = dict(round_trips(ending, ranks, options.size))
            ran = {title: one for title, one in found.items() if not isinstance(one, InputError)}
            differ = {title: one for title, one in ran.items() if abs(one.slower - 1) > SAME}
            silent += [f"{name}: {title}" for title, one in differ.items() if not one.notes]
            ends = [f(ran, key=lambda title: ran[title].slower) for f in (max, min)]
            shown = [f"{100 * (ran[title].slower - 1):+.0f} % ({title})" for title in ends]
            cells = [name, ranks, len(ran) - len(differ), len(differ), *shown, len(found) - len(ran)]
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    for title in silent:
        print(f"differs, and says nothing: {title}")
    return 1 if silent else 0


if __name__ == "__main__":
    sys.exit(main())
