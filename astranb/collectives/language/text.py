"""Algorithms as text: compiled with a restricted set of names, within the user's own kernel.

Only what users write in their own notebook is executed; nothing that is read from a file is.
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import types
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

from astranb.core.errors import AstranbError, InputError, near

from .program import Program
from .source import ProgramError, SourceLine, text_name

__all__ = ["FORBIDDEN", "compiled", "line_of", "text_algorithm"]

_NUMBERS = count(1)  # of texts that became algorithms: each keeps its lines for tracebacks and views

_MODULES = (
    "__future__", "astranb", "collections", "dataclasses", "functools", "itertools", "math", "numpy",
    "operator", "typing",
)  # fmt: skip
"""What a program may import: modules to compute with. A program is run while it is being typed, and
half a line must not delete a file."""
FORBIDDEN = ("__import__", "breakpoint", "compile", "eval", "exec", "exit", "help", "input", "open", "quit")
"""Built-in names that a program cannot use."""


def text_algorithm(text: str, name: str = "program") -> Callable[[Program], None]:
    """Compile a text to an algorithm, a value of ``algorithm=``.

    The text defines a function over a :class:`Program` (the one called ``name``, else the last
    one), or is the body of such a function, with the program as ``p``. It has a scope of its
    own, sees the built-in functions except those for files and input, and may import a few
    modules to compute with. This limits the harm of a typing error; it is no protection against
    malicious code. Pass only text that you would run yourself: it is executed.

    Parameters
    ----------
    text : str
    name : str
        The algorithm's name, for titles.

    Raises
    ------
    InputError
        The text is not valid Python, or fails before it defines a function.

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
        write, _ = compiled(text, file, name)
    except AstranbError:
        raise
    except SyntaxError as error:
        line = SourceLine(file, error.lineno or 1)
        raise ProgramError(error.msg, line, where=f"algorithm {name!r}") from error
    except Exception as error:  # whatever the text raises
        line = SourceLine(file, line_of(error, file) or 1)
        raise ProgramError(f"{type(error).__name__}: {error}", line, where=f"algorithm {name!r}") from error
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    return write


def compiled(text: str, file: str, name: str) -> tuple[Callable[[Program], None], int]:
    """Compile a text to a function; return it and the line at which it begins."""
    tree = ast.parse(text, file)
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    code = compile(tree, file, "exec")
    if not functions:

        def body(p: Program) -> None:
            exec(code, {**_names(), "p": p})  # noqa: S102 - the user's own text: see the module

        body.__name__ = name
        first = tree.body[0].lineno if tree.body else 1
        return body, first
    chosen = next((f for f in functions if f.name == name), functions[-1])
    scope = _names()
    exec(code, scope)  # noqa: S102 - as above
    write = scope[chosen.name]
    if not callable(write):
        raise InputError(f"{chosen.name} is no longer a function")

    @functools.wraps(write)
    def algorithm(p: Program) -> None:
        write(p)

    algorithm.__name__ = name
    return algorithm, chosen.lineno


def _names() -> dict[str, Any]:
    """Return the names that a text can use."""
    allowed = {key: value for key, value in vars(builtins).items() if key not in FORBIDDEN}
    return {"__builtins__": {**allowed, "__import__": _import, "print": _print}, "__name__": "program"}


def _print(*_: object, **__: object) -> None:
    """Ignore ``print``: a text is run again after every change."""


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


def line_of(error: BaseException, file: str) -> int | None:
    """Return the innermost line of a text in the traceback of an error."""
    line: int | None = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
