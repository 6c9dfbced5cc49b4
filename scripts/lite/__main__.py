"""Build the site of lessons that run in a browser: ``python -m scripts.lite [FOLDER]`` (``make lite``)."""

from __future__ import annotations

import sys
from pathlib import Path

from .site import build

ROOT = Path(__file__).resolve().parents[2]


def main(into: str = "build/lite") -> None:
    """Build it, and say how to look at it."""
    build(ROOT, ROOT / "build" / "wheels", ROOT / into)
    size = sum(file.stat().st_size for file in (ROOT / into).rglob("*") if file.is_file())
    print(f"{into}: {size / 1e6:.0f} MB")


if __name__ == "__main__":
    main(*sys.argv[1:])
