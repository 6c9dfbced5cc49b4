"""Features of the running Python: the one place that knows about Python in a browser (Pyodide).

Elsewhere a module asks for what it needs (threads, compiled kernels, its own sources), never where it runs.
"""

from __future__ import annotations

import ctypes
import sys
import tempfile
from pathlib import Path
from typing import Final

__all__ = [
    "KERNEL_FOLDER", "LINKS_MACHINE_CODE", "SOURCES_KNOWN", "THREADS", "library", "prepare",
    "require_threads",
]  # fmt: skip

_IN_BROWSER: Final = sys.platform == "emscripten"

THREADS: Final = not _IN_BROWSER
"""Whether threads and processes can be started."""

LINKS_MACHINE_CODE: Final = not _IN_BROWSER
"""Whether kernels are machine code, compiled where there is none; else they are the wheel's WebAssembly."""

SOURCES_KNOWN: Final = not _IN_BROWSER
"""Whether the package's files are its sources: what a page holds is byte code, and cannot be edited."""

KERNEL_FOLDER: Final = "wasm32"
"""The folder of WebAssembly within a wheel's object files."""


def prepare() -> None:
    """Make NumPy's integers those of a 64-bit machine, before anything uses them."""
    if _IN_BROWSER:
        from .wide import install

        install()


def require_threads(what: str) -> None:
    """Check that there are threads and processes.

    Raises
    ------
    InputError
        There are none.
    """
    if not THREADS:
        from .errors import (
            InputError,
        )  # `import astranb` loads it with the commands, which an interrupt may end

        raise InputError("a page has no processes", where=what, hint="run it in JupyterLab")


def library(module: bytes, name: str) -> ctypes.CDLL:
    """Load WebAssembly as a shared library of this Python: over its memory, with its stack.

    Parameters
    ----------
    module : bytes
        Of :func:`.wasm.library_of`.
    name : str
        A library is loaded once by its name.

    Returns
    -------
    CDLL
        ``(symbol, library)`` is what a ``ctypes`` prototype makes a function of.
    """
    file = Path(tempfile.gettempdir(), f"{name}.so")
    file.write_bytes(module)
    return ctypes.CDLL(str(file))
