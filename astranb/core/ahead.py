"""Ahead-of-time compilation of all entry points.

``python -m astranb.core.ahead`` compiles into the user's cache, at a low priority: `make lab`
starts it in the background. With ``--into FOLDER`` it makes the object files of a wheel, for
all processors and systems in ``targets.py``, and prints their folder. :func:`modules` gives the
WebAssembly of all entries, which Python in a browser runs.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager, suppress
from importlib import import_module  # noqa: TID251 - finds what has an entry, names nothing
from itertools import repeat
from multiprocessing import get_context
from pathlib import Path

from .code import cache_folder, entry_modules, prebuilt_folder, read_object, sealed, source_hash
from .entry import ENTRIES
from .errors import AstranbError
from .files import locked, whole_file
from .host import KERNEL_FOLDER, require_threads
from .jit import JIT
from .progress import announce
from .wasm import build_module

__all__ = ["build", "compile_all", "in_background", "load_entries", "main", "modules"]

_MODULES_S = 90.0
"""About how long all WebAssembly takes."""


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
    require_threads("compiling kernels")
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
    _on_all(_build_one, folder)
    return folder


def modules() -> dict[str, bytes]:
    """Return the WebAssembly of all entries by name: of the wheel or the user's cache, else newly compiled.

    Raises
    ------
    AstranbError
        The installed Numba cannot make it.
    """
    kept = cache_folder() / KERNEL_FOLDER
    if (found := _modules(kept)) is not None:
        return found
    require_threads("compiling kernels for browsers")
    kept.mkdir(mode=0o700, exist_ok=True)
    what = "compiling kernels for browsers, once for each version of astranb"
    # Code for no special processor must be all that a process compiles.
    command = [sys.executable, "-m", __spec__.name, "--wasm", str(kept)]
    with announce(what, _MODULES_S), locked(kept / "lock"):
        done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise AstranbError(f"kernels cannot be compiled for browsers: {reason}")
    return _modules(kept) or {}


def _modules(kept: Path) -> dict[str, bytes] | None:
    """Read the WebAssembly of all entries; None where some of it is missing."""
    folder, found = prebuilt_folder(), {}
    for name in load_entries():
        shipped = folder and read_object(folder / KERNEL_FOLDER / f"{name}.wasm", own=False)
        code = shipped or read_object(kept / f"{name}.wasm", own=True)
        if not code:
            return None
        found[name] = code
    return found


def _build_module(name: str, folder: Path) -> None:
    from .compiler import lower

    load_entries()
    file, entry = folder / f"{name}.wasm", ENTRIES[name]
    if read_object(file, own=True):
        return
    text = lower(entry.function, entry.parts, entry.symbol, portable=True)
    file.unlink(missing_ok=True)
    with whole_file(file) as out:
        out.write(sealed(build_module(text, entry.symbol)))
    file.chmod(0o644)


def _on_all(build_one: Callable[[str, Path], None], folder: Path) -> None:
    """Build something of every entry in a folder, in as many processes as there are processors."""
    require_threads("compiling kernels")
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        list(pool.map(build_one, load_entries(), repeat(folder)))


def _build_one(name: str, folder: Path) -> None:
    from .compiler import emit, lower
    from .targets import PORTABLE

    load_entries()
    entry = ENTRIES[name]
    files = {target: folder / target.name / f"{name}.o" for target in PORTABLE}
    wasm = folder / KERNEL_FOLDER / f"{name}.wasm"
    if all(file.exists() for file in (*files.values(), wasm)):
        return
    text = lower(entry.function, entry.parts, entry.symbol, portable=True)
    for target, file in files.items():
        file.parent.mkdir(exist_ok=True)
        with whole_file(file) as out:
            out.write(emit(text, target))
    wasm.parent.mkdir(exist_ok=True)
    with whole_file(wasm) as out:
        out.write(sealed(build_module(text, entry.symbol)))


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that the module's text describes."""
    parser = argparse.ArgumentParser(prog="python -m astranb.core.ahead", description=__doc__)
    parser.add_argument("--into", type=Path, metavar="FOLDER", help="make a wheel's object files there")
    parser.add_argument("--wasm", type=Path, metavar="FOLDER", help="make WebAssembly of all entries there")
    options = parser.parse_args(argv)
    if options.wasm:
        _on_all(_build_module, options.wasm)
        return 0
    if options.into:
        print(build(options.into))
        return 0
    with suppress(AttributeError, OSError):  # no priorities on Windows
        os.nice(10)
    compile_all()
    return 0


if __name__ == "__main__":
    sys.exit(main())
