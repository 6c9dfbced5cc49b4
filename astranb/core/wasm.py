"""WebAssembly of an entry: the same kernel for Python in a browser.

LLVM writes a relocatable object. Nothing has to be linked: an entry's object refers only to itself,
and its addresses are those from 0 on, so that it runs as a module as soon as its entry is exported.
The module imports its memory, a stack pointer, and the helpers that Numba's wrapper would raise
Python exceptions with, which no kernel calls. As a library it works over the memory of the Python that
loads it (``host.py``), with its stack.

Source of the format: WebAssembly Core Specification 2.0, section 5 (binary format), ``Linking.md``
(symbol table of an object) and ``DynamicLinking.md`` (section ``dylink.0``) of the WebAssembly tool
conventions.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from .errors import AstranbError

__all__ = ["build_module", "exported", "library_of"]

_TRIPLE: Final = "wasm32-unknown-unknown"
_FEATURES: Final = "+bulk-memory,+bulk-memory-opt,+mutable-globals,+nontrapping-fptoint,+sign-ext"
"""Extensions that Chromium 75, Firefox 78 and Safari 15 and later have."""

_CUSTOM, _IMPORT, _EXPORT, _DATA, _DATA_COUNT = 0, 2, 7, 11, 12
_FUNCTION, _TABLE, _MEMORY, _GLOBAL = 0, 1, 2, 3  # what is imported
_DYLINK = b"\x08dylink.0" + b"\x01\x04\0\0\0\0"  # memory and table: size 0, alignment 1
_SYMBOLS = 8  # the subsection of "linking" with the symbol table
_UNDEFINED, _EXPLICIT_NAME = 0x10, 0x40


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
    return _joined(code, kept)


def library_of(module: bytes) -> bytes:
    """Make a shared library of a module that :func:`build_module` made.

    Its data are dropped: they are texts of Python exceptions, which no kernel raises, and several libraries
    would have them at the same addresses.

    Parameters
    ----------
    module : bytes
    """
    sections = [(_CUSTOM, _DYLINK)]
    for kind, data in _sections(module):
        if kind not in {_DATA, _DATA_COUNT}:
            sections.append((kind, _imports_of_a_library(data) if kind == _IMPORT else data))
    return _joined(module, sections)


def _joined(code: bytes, sections: list[tuple[int, bytes]]) -> bytes:
    return code[:8] + b"".join(bytes([kind]) + _leb(len(data)) + data for kind, data in sections)


def _imports_of_a_library(data: bytes) -> bytes:
    """Call the memory as Emscripten does, and the helpers, which are never called, as nothing in Python is.

    Python's own functions of their names take 32-bit sizes, and a library whose types differ is refused.
    """
    count, at = _number(data, 0)
    out = _leb(count)
    for _ in range(count):
        module, at = _text(data, at)
        name, at = _text(data, at)
        begin, kind = at, data[at]
        at += 1
        if kind == _FUNCTION:
            _, at = _number(data, at)
            name = f"astranb_no_{name}"
        elif kind == _GLOBAL:
            at += 2
        else:  # limits, behind the type of a table's elements
            at += kind == _TABLE
            bounded, at = data[at] & 1, at + 1
            for _ in range(1 + bounded):
                _, at = _number(data, at)
            name = "memory" if kind == _MEMORY else name
        out += b"".join(_leb(len(one)) + one for one in (module.encode(), name.encode())) + data[begin:at]
    return out


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
