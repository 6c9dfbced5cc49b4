"""Source line of each operation.

Nothing here is simulated: it is kept beside the tables that the machine runs.
"""

from __future__ import annotations

import ast
import builtins
import linecache
import re
import sys
import sysconfig
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from traceback import walk_tb
from typing import Any, Final, NamedTuple

import numpy as np

from astranb.core.errors import InputError, near, suggestion

__all__ = [
    "ProgramError",
    "ProgramSource",
    "SourceLine",
    "SourceText",
    "failure",
    "line_of_caller",
    "line_of_error",
    "name_of_file",
    "nearest_name",
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

    @property
    def place(self) -> str:
        """Position at which it is: ``mine.py line 3``, ``In[3] line 7``."""
        return f"{name_of_file(self.file)} line {self.number}"

    @property
    def text(self) -> str:
        """The line without surrounding blanks; empty if it is not known."""
        linecache.checkcache(self.file)  # it may have been edited
        return linecache.getline(self.file, self.number).strip()

    def __str__(self) -> str:
        """Return where it is, and the line: ``mine.py line 3: block = me.block()``."""
        return f"{self.place}: {self.text}" if self.text else self.place


class ProgramError(InputError):
    """An operation that cannot be executed, and the line that wrote it: its place and its text."""

    def __init__(self, what: str, line: SourceLine | None, *, where: str = "", hint: str = "") -> None:
        self.line = line
        places = (where, line.place if line else "")
        super().__init__(what, where=", ".join(filter(None, places)), hint=hint)
        if line and line.text:
            self.args = (f"{self} | {line.text}",)

    def _render_traceback_(self) -> list[str]:
        """Return what IPython shows: the message has the user's line, and the frames are astranb's."""
        return [f"{type(self).__name__}: {self}"]


def failure(error: Exception, where: str = "") -> ProgramError:
    """Describe what a user's code has raised, at its line.

    Parameters
    ----------
    error : Exception
    where : str, optional
        What was run: ``algorithm all_reduce/mine``.
    """
    at = line_of_error(error)
    if isinstance(error, InputError):
        return ProgramError(error.what, at, where=error.where, hint=error.hint)
    return ProgramError(f"{type(error).__name__}: {error}", at, where=where, hint=nearest_name(error))


_SEND: Final = "write wires[me, you].{}, with wires = p.connections()"
_GUESSED: Final = {
    **dict.fromkeys(["Program.n", "Program.num_ranks", "Program.world_size"], "write p.ranks"),
    **dict.fromkeys(["Rank.id", "Rank.rank", "Rank.index"], "write me.number"),
    **dict.fromkeys(["Rank.next", "Rank.successor"], "write me.right"),
    **dict.fromkeys(["Rank.prev", "Rank.previous", "Rank.predecessor"], "write me.left"),
    **dict.fromkeys(["Block.receive", "Block.recv"], _SEND.format("receive(block)")),
    **dict.fromkeys(["Block.add", "Block.sum"], "write reduce([chunk, chunk], target)"),
    **dict.fromkeys(["Buffer.chunks", "Buffer.size", "Buffer.length"], "write len(me.input)"),
    "Block.send": _SEND.format("send(block, chunk)"),
}
"""Hints in place of names that people guess."""
_MISTYPED: Final = (
    (re.compile("'method' object is not subscriptable"), "call it first, with ()"),
    (re.compile("'(list|tuple|int|str|Rank|Ranks|Buffer)' object is not callable"), "leave its () out"),
    (re.compile("'Rank' object is not iterable"), "a connection has two ends: wires[me, you]"),
)


def nearest_name(error: BaseException) -> str:
    """Suggest a name for the one that an object or a function does not have; empty where none is missing."""
    if "did you mean" in str(error):
        return ""
    if isinstance(error, TypeError):
        return next((hint for form, hint in _MISTYPED if form.search(str(error))), "")
    if isinstance(error, AttributeError) and error.name:
        if hint := _GUESSED.get(f"{type(error.obj).__name__}.{error.name}"):
            return hint
        names = [one for one in dir(error.obj) if not one.startswith("_")]
        ours = type(error.obj).__module__.startswith("astranb.")
        return near(error.name, names) if ours else suggestion(error.name, names)
    if isinstance(error, NameError) and error.name:
        frames = [frame for frame, _ in walk_tb(error.__traceback__)]
        last = {**frames[-1].f_globals, **frames[-1].f_locals} if frames else {}
        return suggestion(error.name, [*last, *dir(builtins)])
    return ""


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
_PACKAGES = tuple(sysconfig.get_path(name) for name in ("purelib", "platlib"))
_STANDARD = (*(sysconfig.get_path(name) for name in ("stdlib", "platstdlib")), "<frozen")


def line_of_error(error: BaseException) -> SourceLine | None:
    """Return the user's innermost line in a traceback; that of an installed package if there is no other."""
    lines = [
        SourceLine(frame.f_code.co_filename, number)
        for frame, number in walk_tb(error.__traceback__)
        if (_KINDS.get(frame.f_code.co_filename) or _kind_of(frame.f_code.co_filename)) == "user"
    ]
    installed = [line for line in lines if line.file.startswith(_PACKAGES)]
    own = [line for line in lines if not line.file.startswith((*_PACKAGES, *_STANDARD))]
    return own[-1] if own else installed[0] if installed else None


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
