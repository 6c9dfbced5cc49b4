"""Entries: the kernels that Python calls, and the machine code that a warm start loads.

An entry is compiled once, its machine code is kept as an object file, and the next process loads
that file with llvmlite alone. Importing Numba and reading its own cache takes over a second,
loading the object file a tenth of that; see ``docs/architecture.md``.

A wheel comes with object files for the usual processors; where there is none, the entry is
compiled into the user's cache. ``code.py`` knows where object files are kept, and when they are
outdated; ``compiler.py`` makes them.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from time import perf_counter
from typing import Any, cast

import numpy as np

from .code import cache_folder, prebuilt, prebuilt_folder, read_object
from .errors import InputError
from .files import locked, whole_file
from .host import KERNEL_FOLDER, LINKS_MACHINE_CODE, library
from .jit import BOUNDS, JIT
from .progress import announce, notice
from .wasm import library_of

__all__ = ["ENTRIES", "Entry", "flat"]

ENTRIES: dict[str, Entry] = {}
"""The entries of all modules that have been imported, by name."""


def flat(parts: Sequence[Any]) -> list[Any]:
    """List the leaves of nested tuples in their order."""
    return [leaf for part in parts for leaf in (flat(part) if isinstance(part, tuple) else [part])]


def _like(parts: Sequence[Any], leaves: Iterator[Any]) -> list[Any]:
    """Put leaves into tuples that are nested as ``parts`` are."""
    found: list[Any] = []
    for part in parts:
        if isinstance(part, tuple):
            inner = _like(part, leaves)
            found.append(part._make(inner) if hasattr(part, "_make") else tuple(inner))
        else:
            found.append(next(leaves))
    return found


class Entry:
    """A kernel that Python calls with arrays, compiled ahead and kept on disk.

    Parameters
    ----------
    function : callable
        A kernel whose arguments are one-dimensional arrays, and tuples and named tuples of them,
        and that returns an int.
    dtypes : sequence of dtype or tuple
        The dtype of each array; nested as the arguments are.

    Raises
    ------
    TypeError
        An argument of a call is not a contiguous array of the declared dtype.
    """

    def __init__(self, function: Callable[..., int], dtypes: Sequence[Any]) -> None:
        self.function = function
        self.name = function.__name__
        self.parts = tuple(dtypes)
        self.dtypes = tuple(np.dtype(d) for d in flat(self.parts))
        self.symbol = f"astranb_{self.name}"
        self._code: Any = None
        self._keep: Any = None
        self._dispatcher: Any = None
        ENTRIES[self.name] = self

    def __call__(self, *arrays: Any) -> int:
        """Run the kernel over the arrays, without the interpreter lock when compiled."""
        return self.bind(*arrays)()

    def bind(self, *arrays: Any) -> Callable[[], int]:
        """Check the arrays once and return a call that is as cheap as a C call.

        The arrays must stay where they are (they are kept alive by the call itself).
        """
        arrays = tuple(flat(arrays))
        if len(arrays) != len(self.dtypes):
            message = f"{self.name} takes {len(self.dtypes)} arrays, got {len(arrays)}"
            raise TypeError(message)
        for position, (array, dtype) in enumerate(zip(arrays, self.dtypes, strict=True)):
            if array.dtype != dtype or array.ndim != 1 or not array.flags.c_contiguous:
                message = f"{self.name}: argument {position} must be a contiguous 1-D array of {dtype}"
                raise TypeError(message)
        nested = _like(self.parts, iter(arrays))
        if not JIT:
            return lambda: int(self.function(*nested))
        self.load()
        if self._dispatcher is not None:
            return lambda: int(self._dispatcher(*nested))
        code = self._code
        lengths = np.array([len(a) for a in arrays], np.int64)
        addresses = (lengths.ctypes.data, *(a.ctypes.data for a in arrays))

        def call(_keep: Any = (lengths, arrays)) -> int:
            return cast("int", code(*addresses))

        return _checked(call) if BOUNDS else call

    def load(self) -> None:
        """Make the machine code ready: from the wheel or the cache where it is, else compiled and kept."""
        if self._code is not None or self._dispatcher is not None or not JIT:
            return
        types = [ctypes.c_void_p] * (len(self.dtypes) + 1)
        if not LINKS_MACHINE_CODE:
            self._code = ctypes.CFUNCTYPE(ctypes.c_int64, *types)((self.symbol, self._library()))
            return
        code = self._machine_code()
        if code is None:
            from .compiler import fallback

            self._dispatcher = fallback(self.function, cache_folder())
            return
        self._code = ctypes.CFUNCTYPE(ctypes.c_int64, *types)(self._link(code))

    def _library(self) -> ctypes.CDLL:
        """Load the WebAssembly that came with the package."""
        folder = prebuilt_folder()
        module = folder and read_object(folder / KERNEL_FOLDER / f"{self.name}.wasm", own=False)
        if not module:
            hint = "build the page or the site again"
            raise InputError("its WebAssembly is missing or damaged", where=self.name, hint=hint)
        return library(library_of(module), self.symbol)

    def is_ready(self) -> bool:
        """Compile the entry unless the wheel or the user's cache has it; returns whether one has it now."""
        return self._machine_code() is not None

    def _machine_code(self) -> bytes | None:
        """Return the machine code, compiled where there is none or it is damaged.

        None where this version of Numba cannot make any.
        """
        found = None if BOUNDS else prebuilt(self.name)
        if found and (code := read_object(found, own=False)):
            return code
        folder = cache_folder()
        file = folder / f"{self.name}.o"
        unsupported = folder / f"{self.name}.unsupported"
        if code := read_object(file, own=True):
            return code
        if unsupported.exists():
            return None
        from .compiler import Unsupported, emit, lower, work
        from .targets import host

        # How long it took here the last time, whatever the sources were then.
        measured = folder.parent / f"{self.name}.seconds"
        seconds = _seconds(measured) or work(self.function)
        what = f"compiling {self.name}, once for each version of astranb"
        # Two processes that need it (`make lab` compiles in the background) compile it once.
        with announce(what, seconds), locked(folder / f"{self.name}.lock"):
            if code := read_object(file, own=True):
                return code
            began = perf_counter()
            try:
                made = emit(lower(self.function, self.parts, self.symbol), host())
            except Unsupported as reason:
                notice(f"{self.name} is compiled and cached by numba.njit, which is slower ({reason})")
                unsupported.touch()
                return None
            with suppress(InputError, OSError):  # on a full disk it is compiled again the next time
                file.unlink(missing_ok=True)
                with whole_file(file) as out:
                    out.write(made)
                file.chmod(0o644)
                with whole_file(measured) as out:
                    out.write(f"{perf_counter() - began:.1f}".encode())
        return made.partition(b"\n")[2]

    def _link(self, contents: bytes) -> int:
        """Load an object file with llvmlite and return the address of the entry."""
        import llvmlite.binding as llvm

        llvm.initialize_native_target()
        llvm.initialize_native_asmprinter()
        header, _, code = contents.partition(b"\n")
        # Numba's wrapper refers to helpers that raise Python exceptions. A kernel raises none unless
        # it checks bounds, so that they are never called; the linker only wants an address for each.
        trap = ctypes.cast(ctypes.pythonapi.Py_FatalError, ctypes.c_void_p).value
        if BOUNDS:
            from numba.core.registry import cpu_target

            _ = cpu_target.target_context  # knows the helpers
        for name in header.decode().split():
            if llvm.address_of_symbol(name) is None:
                llvm.add_symbol(name, trap)
        machine = llvm.Target.from_default_triple().create_target_machine(jit=True)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)
        engine.add_object_file(llvm.object_file.ObjectFileRef.from_data(code))
        engine.finalize_object()
        self._keep = engine
        return cast("int", engine.get_function_address(self.symbol))


def _seconds(measured: Path) -> float:
    """Read how long a compilation took; 0 where nothing is known."""
    try:
        return max(0.0, float(measured.read_text()))
    except (OSError, ValueError):
        return 0.0


def _checked(call: Callable[[], int]) -> Callable[[], int]:
    """Raise the exception that a call has reported: a C function can return none."""

    def checked() -> int:
        found: list[Any] = []
        before, sys.unraisablehook = sys.unraisablehook, found.append
        try:
            result = call()
        finally:
            sys.unraisablehook = before
        if found:
            raise found[0].exc_value
        return result

    return checked
