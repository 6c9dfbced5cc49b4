"""WebAssembly of an entry: the same kernel for a page in a browser, without Python.

LLVM writes a relocatable object. Nothing has to be linked: an entry's object refers only to itself,
and its addresses are those from 0 on, so that it runs as a module as soon as its entry is exported.
The module imports its memory, a stack pointer, and the helpers that Numba's wrapper would raise
Python exceptions with, which no kernel calls.

Source of the format: WebAssembly Core Specification 2.0, section 5 (binary format), and
``Linking.md`` of the WebAssembly tool conventions (symbol table of an object).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from .code import cache_folder, prebuilt_folder, read_object, sealed
from .entry import ENTRIES, Entry
from .errors import AstranbError, InputError
from .files import locked, whole_file
from .progress import announce

__all__ = ["FOLDER", "build_module", "exported", "module_of"]

FOLDER: Final = "wasm32"
"""The folder of modules within a wheel's object files."""

_TRIPLE: Final = "wasm32-unknown-unknown"
_FEATURES: Final = "+bulk-memory,+bulk-memory-opt,+mutable-globals,+nontrapping-fptoint,+sign-ext"
"""Extensions that Chromium 75, Firefox 78 and Safari 15 and later have."""

_CUSTOM, _EXPORT, _CODE = 0, 7, 10
_SYMBOLS = 8  # the subsection of "linking" with the symbol table
_UNDEFINED, _EXPLICIT_NAME = 0x10, 0x40
_SECONDS = 60.0


def module_of(entry: Entry) -> bytes:
    """Give the WebAssembly module of an entry: from the wheel or the user's cache, else compiled and kept.

    Parameters
    ----------
    entry : Entry

    Returns
    -------
    bytes
        A module that exports ``entry.symbol``: it takes the address of the arrays' lengths (int64) and the
        address of each array, and returns an int64.

    Raises
    ------
    AstranbError
        The installed Numba cannot make it.
    """
    folder = prebuilt_folder()
    if folder is not None and (code := read_object(folder / FOLDER / f"{entry.name}.wasm", own=False)):
        return code
    file = cache_folder() / f"{entry.name}.wasm"
    if code := read_object(file, own=True):
        return code
    with (
        announce(f"compiling {entry.name} for pages, once for each version of astranb", _SECONDS),
        locked(file.with_suffix(".wasm-lock")),
    ):
        if code := read_object(file, own=True):  # another process has made it in the meantime
            return code
        made = _built_apart(entry)
        with suppress(InputError, OSError):  # on a full disk it is compiled again the next time
            file.unlink(missing_ok=True)
            with whole_file(file) as out:
                out.write(sealed(made))
            file.chmod(0o644)
    return made


def _built_apart(entry: Entry) -> bytes:
    """Compile in a process of its own: code for no special processor must be all that it compiles."""
    import subprocess
    import sys
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        file = Path(folder, "module")
        module = entry.function.__module__
        command = [sys.executable, "-m", __name__, module, entry.name, str(file)]
        done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
        if done.returncode:
            reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise AstranbError(f"{entry.name} cannot be compiled for pages: {reason}")
        return file.read_bytes()


def build_module(text: str, symbol: str) -> bytes:
    """Make a module of LLVM code that :func:`.compiler.lower` made for no special processor.

    Parameters
    ----------
    text : str
    symbol : str
        The function to export.
    """
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    machine = llvm.Target.from_triple(_TRIPLE).create_target_machine(
        cpu="generic", features=_FEATURES, opt=3, reloc="static", codemodel="small"
    )
    module = llvm.parse_assembly(re.sub(r'"target-(?:cpu|features)"="[^"]*"', "", text))
    module.triple, module.data_layout = _TRIPLE, str(machine.target_data)
    return exported(machine.emit_object(module), symbol)


def exported(code: bytes, symbol: str) -> bytes:
    """Make a module of an object: without what only a linker reads, and with a function exported."""
    sections = list(_sections(code))
    number = _function_number(sections, symbol)
    name = symbol.encode()
    export = _leb(1) + _leb(len(name)) + name + b"\0" + _leb(number)
    kept = [(kind, data) for kind, data in sections if kind != _CUSTOM]
    # Sections stand in the order of their numbers, but for the count of data (12), which precedes code.
    place = next(at for at, (kind, _) in enumerate(kept) if kind > _EXPORT)
    kept.insert(place, (_EXPORT, export))
    return code[:8] + b"".join(bytes([kind]) + _leb(len(data)) + data for kind, data in kept)


def _sections(code: bytes) -> Iterator[tuple[int, bytes]]:
    at = 8
    while at < len(code):
        size, begin = _number(code, at + 1)
        yield code[at], code[begin : begin + size]
        at = begin + size


def _function_number(sections: list[tuple[int, bytes]], symbol: str) -> int:
    """The number of a function, from an object's symbol table."""
    for kind, data in sections:
        name, at = _text(data, 0) if kind == _CUSTOM else ("", 0)
        if name != "linking":
            continue
        _, at = _number(data, at)  # version
        while at < len(data):
            what = data[at]
            size, begin = _number(data, at + 1)
            at = begin + size
            if what == _SYMBOLS and symbol in (found := dict(_functions(data[begin:at]))):
                return found[symbol]
    raise AstranbError(f"an object without {symbol}")


def _functions(table: bytes) -> Iterator[tuple[str, int]]:
    """Names and numbers of the functions that a symbol table defines."""
    function, data, section = 0, 1, 3
    count, at = _number(table, 0)
    for _ in range(count):
        kind = table[at]
        flags, at = _number(table, at + 1)
        if kind == data:
            _, at = _text(table, at)
            for _ in range(0 if flags & _UNDEFINED else 3):
                _, at = _number(table, at)
            continue
        number, at = _number(table, at)
        if kind == section or (flags & _UNDEFINED and not flags & _EXPLICIT_NAME):
            continue
        name, at = _text(table, at)
        if kind == function and not flags & _UNDEFINED:
            yield name, number


def _text(data: bytes, at: int) -> tuple[str, int]:
    size, at = _number(data, at)
    return data[at : at + size].decode(), at + size


def _number(data: bytes, at: int) -> tuple[int, int]:
    """Read an unsigned LEB128 number; returns it and what is behind it."""
    found = shift = 0
    while True:
        byte = data[at]
        at += 1
        found |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return found, at


def _leb(number: int) -> bytes:
    out = bytearray()
    while True:
        byte, number = number & 0x7F, number >> 7
        out.append(byte | (0x80 if number else 0))
        if not number:
            return bytes(out)


def main(module: str, name: str, file: str) -> None:
    """Compile one entry into a file: what :func:`module_of` has a process of its own do."""
    from importlib import import_module

    from .compiler import lower

    import_module(module)
    entry = ENTRIES[name]
    text = lower(entry.function, entry.parts, entry.symbol, portable=True)
    Path(file).write_bytes(build_module(text, entry.symbol))


if __name__ == "__main__":
    import sys

    main(*sys.argv[1:])
