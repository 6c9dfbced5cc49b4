"""Which line of whose text made an operation.

Nothing of this is simulated: it stands beside the tables that the machine runs.
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

__all__ = ["Line", "Part", "ProgramError", "Source", "line_of_caller", "source_of", "text_name"]

_HERE = Path(__file__).parent
_PACKAGE = str(_HERE.parent / "_")[:-1]
_LANGUAGE = {str(_HERE / f"{name}.py") for name in ("_program", "_rank", "_source", "_plan")}
"""Files whose frames are the language itself: what they do is said by the line that calls them."""
_START = str(_HERE / "_registry.py")
"""Below it, an algorithm is being written; above it, somebody wants a simulation."""
_TEXT = "<collective "


class Line(NamedTuple):
    """A line of a text: a file's name, or that of a notebook's cell, and the line, from 1."""

    file: str
    number: int


class ProgramError(InputError):
    """An operation that cannot be carried out, and the line that asked for it.

    Parameters
    ----------
    what : str
    line : Line or None
    where, hint : str
        As of an :class:`InputError`.
    """

    def __init__(self, what: str, line: Line | None, *, where: str = "", hint: str = "") -> None:
        self.line = line
        said = f", {_name_of(line.file)} line {line.number}" if line else ""
        super().__init__(what, where=where + said, hint=hint)


def line_of_caller() -> Line | None:
    """Find the line that asks the language for an operation: a person's, else the library's own."""
    frame = sys._getframe(2)  # noqa: SLF001 - what inspect.currentframe gives, at a tenth of the time
    shipped = None
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(_PACKAGE):
            return Line(file, frame.f_lineno)
        if file == _START:
            break
        if shipped is None and file not in _LANGUAGE:
            shipped = Line(file, frame.f_lineno)
        frame = frame.f_back  # type: ignore[assignment]
    return shipped


@dataclass(frozen=True)
class Part:
    """A piece of text in which operations are written: mostly one function.

    Attributes
    ----------
    name : str
        Where it is from: a file's name without its folder, or a cell, as ``In[3]``.
    first : int
        The number of its first line.
    text : str
        Empty where it cannot be had any more.
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
        """One of its lines, without the blanks around it; empty where it has no such line."""
        lines = self.text.splitlines()
        return lines[number - self.first].strip() if 0 <= number - self.first < len(lines) else ""


def _no_rows() -> np.ndarray:
    return np.zeros(0, np.int32)


@dataclass(frozen=True)
class Source:
    """The text of a program, and the line of every operation.

    Attributes
    ----------
    parts : tuple of Part
    part : ndarray of int32, shape (operations,)
        In which part the line stands that made the operation; -1: in none.
    line : ndarray of int32, shape (operations,)
        The number of that line in its file or cell; 0 where it is not known.
    """

    parts: tuple[Part, ...] = ()
    part: np.ndarray = field(default_factory=_no_rows)
    line: np.ndarray = field(default_factory=_no_rows)

    @property
    def known(self) -> bool:
        """Whether there is any text to show."""
        return any(part.text for part in self.parts)

    def text_of(self, op: int) -> str:
        """The text of an operation's line, without the blanks around it; empty if not known."""
        if not len(self.part) or self.part[op] < 0:
            return ""
        return self.parts[int(self.part[op])].line(int(self.line[op]))

    def name_of(self, op: int) -> str:
        """Where an operation was written, as ``In[3] line 7``; empty if not known."""
        if not len(self.part) or self.part[op] < 0:
            return ""
        return f"{self.parts[int(self.part[op])].name} line {int(self.line[op])}"


def source_of(lines: Sequence[Line | None]) -> Source:
    """Look up the text around the lines of all operations.

    Parameters
    ----------
    lines : sequence of Line or None
        One for each operation.

    Returns
    -------
    Source
    """
    used: dict[str, set[int]] = {}
    for line in lines:
        if line is not None:
            used.setdefault(line.file, set()).add(line.number)
    parts: list[Part] = []
    place: dict[Line, int] = {}
    for file, numbers in used.items():
        for part, inside in _parts(file, numbers):
            place |= {Line(file, number): len(parts) for number in inside}
            parts.append(part)
    return Source(
        tuple(parts),
        np.array([-1 if line is None else place[line] for line in lines], np.int32),
        np.array([0 if line is None else line.number for line in lines], np.int32),
    )


def _parts(file: str, numbers: Iterable[int]) -> list[tuple[Part, list[int]]]:
    """Cut out of a file the functions (or other statements at its outermost level) with these lines."""
    text = "".join(linecache.getlines(file))
    if file.startswith(_TEXT):  # it has been given as a program, and nothing else
        return [(Part(_name_of(file), 1, text), sorted(numbers))]
    shipped = file.startswith(_PACKAGE)
    name, rest = _name_of(file), sorted(numbers)
    found = []
    for first, last in _statements(text):
        inside = [n for n in rest if first <= n <= last]
        if inside:
            piece = "\n".join(text.splitlines()[first - 1 : last])
            found.append((Part(name, first, piece, shipped), inside))
            rest = [n for n in rest if not first <= n <= last]
    if rest:
        found.append((Part(name, 1, text, shipped), rest))
    return found


def _statements(text: str) -> list[tuple[int, int]]:
    """First and last line of every statement at the outermost level, decorators included."""
    try:
        body: list[Any] = ast.parse(text).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # not (any more) what was run
        return []
    return [
        (min([node.lineno, *(d.lineno for d in getattr(node, "decorator_list", ()))]), node.end_lineno)
        for node in body
    ]


def text_name(name: str, number: int) -> str:
    """What stands for a file's name where a program is only a text."""
    return f"{_TEXT}{name} #{number}>"


def _name_of(file: str) -> str:
    """Name a file without its folder, a text by its name, and a cell as the notebook does."""
    if file.startswith(_TEXT):
        return file[len(_TEXT) :].rpartition(" #")[0]
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    if running is not None and hasattr(running.compile, "format_code_name"):
        found = running.compile.format_code_name(file)
        if found:
            return str(found[1])
    return Path(file).name
