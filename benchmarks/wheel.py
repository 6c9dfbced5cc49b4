"""The first step of somebody who has just installed a wheel."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

_REPOSITORY = Path(__file__).resolve().parents[1]

FIRST_STEP = """
from time import perf_counter
began = perf_counter()
import astranb as anb
sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("1 MiB", "ring"))
sim.step()
took = perf_counter() - began
sim.run()
import sys
assert "numba" not in sys.modules
print(took, anb.__file__, sim.state_hash())
"""


def install_wheel(folder: Path) -> Path:
    """Build the wheel and install it in a folder of its own, without the network.

    Machine code of unchanged kernels is kept in ``build/objects``; without, this takes minutes.

    Parameters
    ----------
    folder : Path
        An empty folder.

    Returns
    -------
    Path
        What goes on Python's path.
    """
    pip = [sys.executable, "-m", "pip", "-q", "--disable-pip-version-check"]
    wheels, site = folder / "wheels", folder / "site"
    build = ["wheel", "--no-deps", "--no-build-isolation", "-w", str(wheels), str(_REPOSITORY)]
    subprocess.run([*pip, *build], check=True)
    (wheel,) = wheels.iterdir()
    install = ["install", "--no-deps", "--no-index", "--target", str(site), str(wheel)]
    subprocess.run([*pip, *install], check=True)
    return site


def first_step(site: Path, cache: Path) -> tuple[float, str, str]:
    """Run the first step in a new process with an empty cache.

    Parameters
    ----------
    site : Path
        Where the wheel is installed.
    cache : Path
        An empty folder.

    Returns
    -------
    tuple
        Seconds from the import to the end of the first step, where the package was imported
        from, and the hash of the state at the end of the run.
    """
    done = subprocess.run(
        [sys.executable, "-c", FIRST_STEP],
        cwd=cache,
        env={**os.environ, "PYTHONPATH": str(site), "ASTRANB_CACHE_DIR": str(cache)},
        check=True,
        capture_output=True,
        text=True,
    )
    seconds, package, state = done.stdout.split()
    return float(seconds), package, state
