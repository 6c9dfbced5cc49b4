"""Name the test files whose random examples a seed draws.

    python -m scripts.random_tests SEED

All property tests take several minutes: of the files that have some, a day tries a part. A seed names the
same ones for as long as the checkout has the same files.
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
AT_ONCE = 24


def files(seed: str) -> list[str]:
    """Return some of the test files that use Hypothesis."""
    tests = (ROOT / "tests").rglob("test_*.py")
    every = sorted(path for path in tests if "hypothesis" in path.read_text("utf-8"))
    drawn = random.Random(seed).sample(every, min(AT_ONCE, len(every)))
    return [str(path.relative_to(ROOT)) for path in sorted(drawn)]


if __name__ == "__main__":
    print(*files(sys.argv[1]))
