"""Source line of each operation.

Nothing here is simulated: it is kept beside the tables that the machine runs.
"""

from __future__ import annotations

import ast
import linecache
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from astranb.core.errors import InputError

__all__ = [
    "ProgramError",
    "ProgramSource",
    "SourceLine",
    "SourceText",
    "line_of_caller",
    "name_of_file",
    "source_of",
    "text_name",
]

_HERE = Path(__file__).parent
_PACKAGE = str(_HERE.parents[1] / "_")[:-1]
_LANGUAGE = {
    __file__,
    *(
        str(_HERE / f"{name}.py")
        for name in ("block", "buffer", "compose", "connection", "inline", "program", "rank", "work_queue")
    ),
    str(_HERE.parent / "formats" / "plan.py"),
}
"""Files of the language itself: an operation is attributed to the line that calls them."""
_START = str(_HERE.parent / "library" / "registry.py")
"""The file that calls algorithms: frames above it belong to whoever asked for the program."""
_TEXT = "<collective "


class SourceLine(NamedTuple):
    """A source line: the name of a file or notebook cell, and the line number from 1."""

    file: str
    number: int


class ProgramError(InputError):
    """An operation that cannot be executed, and the line that wrote it."""

    def __init__(self, what: str, line: SourceLine | None, *, where: str = "", hint: str = "") -> None:
        self.line = line
        at = f", {name_of_file(line.file)} line {line.number}" if line else ""
        super().__init__(what, where=where + at, hint=hint)


def line_of_caller() -> SourceLine | None:
    """Return the line that writes an operation: the user's, else the library's own."""
    frame = sys._getframe(2)  # noqa: SLF001 - ten times faster than inspect.currentframe
    shipped, kinds = None, _KINDS
    while frame is not None:
        file = frame.f_code.co_filename
        kind = kinds.get(file) or _kind_of(file)
        if kind == "language":  # most are
            frame = frame.f_back  # type: ignore[assignment]
            continue
        if kind == "user":
            return SourceLine(file, frame.f_lineno)
        if kind == "start":
            break
        if kind == "shipped" and shipped is None:
            shipped = SourceLine(file, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return shipped


_KINDS: dict[str, str] = {}


def _kind_of(file: str) -> str:
    """Return the owner of a file that calls the language, and remember it."""
    kind = "language" if file in _LANGUAGE else "shipped"
    if file == _START:
        kind = "start"
    elif not file.startswith(_PACKAGE):
        kind = "user"
    _KINDS[file] = kind
    return kind


@dataclass(frozen=True)
class SourceText:
    """A section of source text that writes operations: mostly one function.

    Attributes
    ----------
    name : str
        The name of the file without its folder, or of the cell: ``In[3]``.
    first : int
        The number of its first line.
    text : str
        Empty if it is no longer available.
    shipped : bool
        Whether it comes with astranb.
    """

    name: str
    first: int
    text: str
    shipped: bool = False

    @property
    def last(self) -> int:
        """The number of its last line."""
        return self.first + max(0, len(self.text.splitlines()) - 1)

    def line(self, number: int) -> str:
        """Return one of its lines without surrounding blanks; empty if there is no such line."""
        lines = self.text.splitlines()
        return lines[number - self.first].strip() if 0 <= number - self.first < len(lines) else ""


def _no_rows() -> np.ndarray:
    return np.zeros(0, np.int32)


@dataclass(frozen=True)
class ProgramSource:
    """The text of a program, and the line of every operation.

    Attributes
    ----------
    parts : tuple of SourceText
    part : ndarray of int32, shape (operations,)
        The part that holds the operation's line; -1 for none.
    line : ndarray of int32, shape (operations,)
        The number of that line in its file or cell; 0 if it is not known.
    """

    parts: tuple[SourceText, ...] = ()
    part: np.ndarray = field(default_factory=_no_rows)
    line: np.ndarray = field(default_factory=_no_rows)

    @property
    def known(self) -> bool:
        """Whether there is any text to show."""
        return any(part.text for part in self.parts)

    def text_of(self, op: int) -> str:
        """Return the text of an operation's line without surrounding blanks; empty if not known."""
        if not len(self.part) or self.part[op] < 0:
            return ""
        return self.parts[int(self.part[op])].line(int(self.line[op]))

    def name_of(self, op: int) -> str:
        """Return where an operation was written: ``In[3] line 7``; empty if not known."""
        if not len(self.part) or self.part[op] < 0:
            return ""
        return f"{self.parts[int(self.part[op])].name} line {int(self.line[op])}"


def source_of(lines: Sequence[SourceLine | None], number: np.ndarray) -> ProgramSource:
    """Look up the text that contains the lines of all operations.

    Parameters
    ----------
    lines : sequence of SourceLine or None
    number : ndarray of int
        For each operation, which of these lines has written it.
    """
    written = np.unique(number).tolist()
    first = dict.fromkeys(lines[k] for k in sorted(written, key=lambda k: int(np.argmax(number == k))))
    used: dict[str, set[int]] = {}
    for line in first:
        if line is not None:
            used.setdefault(line.file, set()).add(line.number)
    parts: list[SourceText] = []
    place: dict[SourceLine, int] = {}
    for file, numbers in used.items():
        for part, inside in _parts(file, numbers):
            place |= {SourceLine(file, number): len(parts) for number in inside}
            parts.append(part)
    part_of = np.array([place.get(line, -1) if line else -1 for line in lines] or [-1], np.int32)
    line_of = np.array([line.number if line else 0 for line in lines] or [0], np.int32)
    return ProgramSource(tuple(parts), part_of[number], line_of[number])


def _parts(file: str, numbers: Iterable[int]) -> list[tuple[SourceText, list[int]]]:
    """Extract the functions (or other top-level statements) of a file that contain these lines."""
    text = "".join(linecache.getlines(file))
    if file.startswith(_TEXT):  # a program given as text
        return [(SourceText(name_of_file(file), 1, text), sorted(numbers))]
    shipped = file.startswith(_PACKAGE)
    name, rest = name_of_file(file), sorted(numbers)
    found = []
    for first, last in _statements(text):
        inside = [n for n in rest if first <= n <= last]
        if inside:
            section = "\n".join(text.splitlines()[first - 1 : last])
            found.append((SourceText(name, first, section, shipped), inside))
            rest = [n for n in rest if not first <= n <= last]
    if rest:
        found.append((SourceText(name, 1, text, shipped), rest))
    return found


def _statements(text: str) -> list[tuple[int, int]]:
    """Return the first and last line of every top-level statement, decorators included."""
    try:
        body: list[Any] = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # no longer the text that was run
        return []
    return [
        (min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]), node.end_lineno)
        for node in body
    ]


def text_name(name: str, number: int) -> str:
    """Return what replaces a file name for a program that is only text."""
    return f"{_TEXT}{name} #{number}>"


def name_of_file(file: str) -> str:
    """Return a file's name without its folder, a text's name, or a cell's as the notebook shows it."""
    if file.startswith(_TEXT):
        return file[len(_TEXT) :].rpartition(" #")[0]
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    if running is not None and hasattr(running.compile, "format_code_name"):
        found = running.compile.format_code_name(file)
        if found:
            return str(found[1])
    return Path(file).name
