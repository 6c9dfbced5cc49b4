"""Programs as text: compiled, run within limits, and checked, with every fault at its line.

Only what a person writes in their own notebook comes here, and is run in their own kernel.
Nothing that was read from a file is ever executed.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from astranb.core.deadline import OutOfTime, within
from astranb.core.errors import AstranbError, InputError, near

from ._lower import lower
from ._program import Program
from ._registry import COLLECTIVES, Collective
from ._source import Line, ProgramError, text_name
from ._verify import verify

__all__ = ["Problem", "check_text", "text_algorithm"]

_SECONDS = 2.0
_MOST_CHARACTERS = 100_000
_MOST_OPERATIONS = 200_000  # some 100 MB
_MOST_PROBLEMS = 100
_NUMBERS = count(1)  # of texts that became algorithms: each keeps its lines for tracebacks and views

_MODULES = (
    "__future__", "astranb", "collections", "dataclasses", "functools", "itertools", "math", "numpy",
    "operator", "typing",
)  # fmt: skip
"""What a program may import: enough to compute with. It is run while it is being written, and half a
line must not delete a file."""
_NOT_THERE = ("__import__", "breakpoint", "compile", "eval", "exec", "exit", "help", "input", "open", "quit")


@dataclass(frozen=True)
class Problem:
    """Something wrong in the text of a program.

    Attributes
    ----------
    line, column : int
        Where, both from 1.
    severity : str
        ``"error"`` or ``"warning"``.
    text : str
        One line.
    hint : str
        What to do about it; may be empty.
    also : tuple of int
        Other lines that have to do with it, as those of the others in a deadlock.
    """

    line: int
    column: int
    severity: str
    text: str
    hint: str = ""
    also: tuple[int, ...] = ()

    def __str__(self) -> str:
        """As ``line 3: error: …``."""
        others = f" (see also line {', '.join(map(str, self.also))})" if self.also else ""
        return (
            f"line {self.line}: {self.severity}: {self.text}{f'; {self.hint}' if self.hint else ''}{others}"
        )


def text_algorithm(text: str, name: str = "program") -> Callable[[Program], None]:
    """Make an algorithm of a text: what ``algorithm=`` takes.

    The text defines a function over a :class:`Program` (the one called ``name``, else the last
    one), or is itself what such a function would do, with the program as ``p``. It has names of
    its own, sees the usual built-in functions but for files and input, and may import a few
    modules to compute with: this keeps a slip of the pen from doing harm, it is no wall against
    ill will. The text must be one's own: it is executed.

    Parameters
    ----------
    text : str
    name : str
        Of the algorithm, for titles.

    Raises
    ------
    InputError
        It is no Python, or fails before there is a function.

    Examples
    --------
    >>> shift = text_algorithm('''
    ... for me in p.everyone:
    ...     me.block().put(me.input[0], me.right.output[0])
    ... ''', "shift")
    >>> from astranb.collectives import send_recv
    >>> [len(block.operations) for block in send_recv("1 KiB", shift).program(2).blocks]
    [1, 1]
    """
    file = text_name(name, next(_NUMBERS))
    try:
        write, _ = _compiled(text, file, name)
    except AstranbError:
        raise
    except SyntaxError as error:
        line = Line(file, error.lineno or 1)
        raise ProgramError(error.msg, line, where=f"algorithm {name!r}") from error
    except Exception as error:  # whatever the text raises
        line = Line(file, _line_of(error, file) or 1)
        raise ProgramError(f"{type(error).__name__}: {error}", line, where=f"algorithm {name!r}") from error
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return write


def check_text(
    text: str,
    *,
    collective: str = "all_reduce",
    ranks: int = 8,
    size: int | str = "64 KiB",
    lanes: int | None = None,
    root: int = 0,
    protocol: str = "Simple",
    per_node: int | None = None,
    name: str = "program",
    seconds: float = _SECONDS,
) -> list[Problem]:
    """Say everything that is wrong with the text of a program, each at its line.

    It is compiled and run as :func:`text_algorithm` says (that is: **executed**, so give it only
    what you would run yourself), and what it wrote is verified: semaphores, deadlocks, races,
    missing fences, bounds, sizes and the result. A loop without end is ended from another
    thread when the time is over, and so is a program that writes too many operations; only
    one single call into compiled code that never returns cannot be ended.

    Parameters
    ----------
    text : str
    collective, size, lanes, root, protocol
        As for :func:`all_reduce`.
    ranks : int
        For how many it is checked.
    per_node : int, optional
        Consecutive ranks that share a node.
    name : str
        Of the algorithm.
    seconds : float
        For all of it.

    Returns
    -------
    list of Problem
        By line, errors first; empty where it is right.

    Raises
    ------
    InputError
        An unknown collective or protocol, or a size that cannot be read: not the text's fault.

    Examples
    --------
    >>> check_text('''
    ... for me in p.everyone:
    ...     block = me.block()
    ...     block.put(me.input[0], me.right.output[0])
    ... ''', collective="send_recv", ranks=4)
    []
    >>> print(check_text("p.block(0).wait(p.semaphore(0))", collective="barrier", ranks=2)[0])
    line 1: error: rank 0 block 0 operation 0 [wait semaphore 0 (1)] waits for 1, all signals together add 0
    """
    file = text_name(name, 0)
    if collective in COLLECTIVES and COLLECTIVES[collective].silent:
        lanes = 1  # as ``barrier`` does
    wanted = Collective.of(collective, size, _nothing, lanes=lanes, root=root, protocol=protocol)
    if len(text) > _MOST_CHARACTERS:
        return [
            Problem(1, 1, "error", f"a text of {len(text):,} characters", f"at most {_MOST_CHARACTERS:,}")
        ]
    first = 1

    def look() -> list[Problem]:
        nonlocal first
        write, first = _compiled(text, file, name)
        program = _written(wanted, write, ranks, per_node)
        faults = verify(program, collective, root=root)
        if not any(fault.severity == "error" for fault in faults):
            lower(program, kind=collective, size=wanted.size)
        prefix = f"{program.name}: "
        return [
            Problem(lines[0], 1, fault.severity, fault.message.removeprefix(prefix), also=tuple(lines[1:]))
            for fault in faults
            for lines in [[line.number for line in fault.lines if line.file == file] or [first]]
        ]

    try:
        found = within(seconds, look)
    except OutOfTime:
        found = [
            Problem(
                first, 1, "error", f"not done after {seconds:g} s", "does a loop end? or take fewer ranks"
            )
        ]
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - whatever a person's text raises is about the text
        found = [_problem(error, file, first)]
    return _merged(found)


def _nothing(_: Program) -> None:
    """Stand in for the algorithm while its collective is looked up."""


def _written(
    wanted: Collective, write: Callable[[Program], None], ranks: int, per_node: int | None
) -> Program:
    """The program that a text writes, refused when it grows too large."""

    def bounded(program: Program) -> None:
        program.most_operations = _MOST_OPERATIONS
        write(program)

    bounded.__name__ = write.__name__
    collective = Collective(wanted.name, wanted.size, bounded, wanted.lanes, wanted.root, wanted.protocol)
    program = collective.program(ranks, per_node)
    if not program.blocks:
        raise InputError("the program adds no thread block", hint="block = p.block(0), or me.block()")
    return program


def _compiled(text: str, file: str, name: str) -> tuple[Callable[[Program], None], int]:
    """A text as a function, and the line at which that begins."""
    tree = ast.parse(text, file)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    code = compile(tree, file, "exec")
    if not functions:

        def body(p: Program) -> None:
            exec(code, {**_names(), "p": p})  # noqa: S102 - the person's own text: see the module

        body.__name__ = name
        first = tree.body[0].lineno if tree.body else 1
        return body, first
    chosen = next((f for f in functions if f.name == name), functions[-1])
    scope = _names()
    exec(code, scope)  # noqa: S102 - likewise
    write = scope[chosen.name]
    if not callable(write):
        raise InputError(f"{chosen.name} is no function any more")

    @functools.wraps(write)
    def algorithm(p: Program) -> None:
        write(p)

    algorithm.__name__ = name
    return algorithm, chosen.lineno


def _names() -> dict[str, Any]:
    """What a text sees."""
    allowed = {key: value for key, value in vars(builtins).items() if key not in _NOT_THERE}
    return {"__builtins__": {**allowed, "__import__": _import, "print": _say_nothing}, "__name__": "program"}


def _say_nothing(*_: object, **__: object) -> None:
    """What ``print`` does: a text is run again with every change."""


def _import(
    module: str,
    names: Mapping[str, object] | None = None,
    scope: Mapping[str, object] | None = None,
    wanted: Sequence[str] | None = (),
    level: int = 0,
) -> types.ModuleType:
    if module.partition(".")[0] not in _MODULES:
        raise InputError(f"a program cannot import {module!r}", hint=near(module, _MODULES))
    return builtins.__import__(module, names, scope, wanted or (), level)


def _problem(error: BaseException, file: str, first: int) -> Problem:
    """What a text raised, at its line."""
    if isinstance(error, SyntaxError) and error.filename == file:
        return Problem(error.lineno or 1, max(1, error.offset or 1), "error", error.msg)
    if isinstance(error, (MemoryError, RecursionError)):
        return Problem(
            _line_of(error, file) or first, 1, "error", f"{type(error).__name__}: too deep or too large"
        )
    cause = error.__cause__ if isinstance(error, InputError) and error.__cause__ else error
    line = _line_of(cause, file)
    if isinstance(cause, InputError):
        if isinstance(cause, ProgramError) and cause.line is not None and cause.line.file == file:
            line = cause.line.number
        return Problem(line or first, 1, "error", " ".join(cause.what.split()), cause.hint)
    words = " ".join(f"{type(cause).__name__}: {cause}".split())
    hint = ""
    if isinstance(cause, NameError) and cause.name in _NOT_THERE:
        hint = "a program is run while it is written: it has neither files nor input"
    return Problem(line or first, 1, "error", words, hint)


def _line_of(error: BaseException, file: str) -> int | None:
    """The innermost line of a text at which something was raised."""
    line: int | None = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line


def _merged(found: list[Problem]) -> list[Problem]:
    """What is wrong on many ranks alike is one problem."""
    alike: dict[tuple[object, ...], list[Problem]] = {}
    for problem in found:
        kind = problem.text.partition(": ")[0] if ": " in problem.text else ""
        alike.setdefault((problem.line, problem.severity, kind, problem.also), []).append(problem)
    merged = [replace(group[0], text=group[0].text + _more(len(group) - 1)) for group in alike.values()]
    return sorted(merged, key=lambda p: (p.severity, p.line))[:_MOST_PROBLEMS]


def _more(count: int) -> str:
    return f" (and {count} more like it)" if count else ""
