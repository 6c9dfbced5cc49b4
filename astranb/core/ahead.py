"""Machine code of all entries before anybody needs it.

``python -m astranb.core.ahead`` compiles into the user's cache, at a low priority: `make lab`
starts it in the background. With ``--into FOLDER`` it makes the object files of a wheel, for
all processors and systems in ``targets.py``, and prints their folder.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

from .code import cache_folder, entry_modules, sealed, source_hash
from .entry import ENTRIES
from .files import whole_file
from .jit import JIT
from .wasm import FOLDER as WASM
from .wasm import build_module

__all__ = ["build", "compile_all", "in_background", "load_entries", "main"]


def load_entries() -> list[str]:
    """Import every module that defines an entry, and return the names of all entries, largest first."""
    from .compiler import work

    package = __package__.partition(".")[0]
    for module in entry_modules():
        import_module(f"{package}.{module}")
    # Tests and users may have entries of their own.
    ours = (name for name, entry in ENTRIES.items() if entry.function.__module__.startswith(f"{package}."))
    return sorted(ours, key=lambda name: -work(ENTRIES[name].function))


def compile_all() -> None:
    """Compile all entries that neither the wheel nor the user's cache has, the quickest first."""
    ready = [ENTRIES[name].is_ready() for name in reversed(load_entries())]
    if all(ready):
        _done().touch()


def _done() -> Path:
    """Return the mark of a cache that lacks nothing."""
    return cache_folder() / "complete"


@contextmanager
def in_background() -> Iterator[None]:
    """Compile what is missing in a process of its own while the block runs."""
    if not JIT or _done().exists():
        yield
        return
    command = [sys.executable, "-m", __spec__.name]
    silent = subprocess.DEVNULL
    with subprocess.Popen(command, stdin=silent, stdout=silent, stderr=silent) as process:  # noqa: S603
        try:
            yield
        finally:
            process.terminate()


def build(into: Path) -> Path:
    """Make the object files of all entries for all portable targets.

    Parameters
    ----------
    into : Path
        A folder that may hold those of other sources and versions; what is there is kept.

    Returns
    -------
    Path
        The folder of these sources within it.
    """
    import numba

    folder = into / f"numba-{numba.__version__}" / source_hash()
    folder.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        list(pool.map(_build_one, load_entries(), repeat(folder)))
    return folder


def _build_one(name: str, folder: Path) -> None:
    from .compiler import emit, lower
    from .targets import PORTABLE

    load_entries()
    entry = ENTRIES[name]
    files = {target: folder / target.name / f"{name}.o" for target in PORTABLE}
    wasm = folder / WASM / f"{name}.wasm" if entry.page else None
    if all(file.exists() for file in (*files.values(), *([wasm] if wasm else []))):
        return
    text = lower(entry.function, entry.parts, entry.symbol, portable=True)
    for target, file in files.items():
        file.parent.mkdir(exist_ok=True)
        with whole_file(file) as out:
            out.write(emit(text, target))
    if wasm is not None:
        wasm.parent.mkdir(exist_ok=True)
        with whole_file(wasm) as out:
            out.write(sealed(build_module(text, entry.symbol)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the module's text describes."""
    parser = argparse.ArgumentParser(prog="python -m astranb.core.ahead", description=__doc__)
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="make a wheel's object files there")
    options = parser.parse_args(argv)
    if options.into:
        print(build(options.into))
        return 0
    with suppress(AttributeError, OSError):  # no priorities on Windows
        os.nice(10)
    compile_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
