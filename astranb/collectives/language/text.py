"""Algorithms as text: compiled with a restricted set of names, within the user's own kernel.

Only what users write in their own notebook is executed; nothing that is read from a file is. What a
text sees of the notebook's variables is a copy (:func:`visible`).
"""

from __future__ import annotations

import ast
import builtins
import functools
import linecache
import types
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from itertools import count
from typing import Any

import numpy as np

from astranb.core.errors import AstranbError, InputError, near

from .parameters import AlgorithmParameter
from .program import Program
from .source import ProgramError, SourceLine, text_name

__all__ = ["FORBIDDEN", "compiled", "line_of", "text_algorithm", "text_parameters", "visible"]

_NUMBERS = count(1)  # of texts that became algorithms: each keeps its lines for tracebacks and views

_MODULES = (
    "__future__", "astranb", "collections", "dataclasses", "functools", "itertools", "math", "numpy",
    "operator", "typing",
)  # fmt: skip
"""Modules that a program may import: those to compute with. A program is run while it is being typed, and
half a line must not delete a file."""
FORBIDDEN = ("__import__", "breakpoint", "compile", "eval", "exec", "exit", "help", "input", "open", "quit")
"""Built-in names that a program cannot use."""


def text_algorithm(
    text: str, name: str = "program", names: Mapping[str, Any] | None = None
) -> Callable[..., None]:
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
    names : mapping of str to object, optional
        Variables that it may use, as ``globals()``: see :func:`visible`.

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
        write, _ = compiled(text, file, name, names)
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


def compiled(
    text: str, file: str, name: str, names: Mapping[str, Any] | None = None
) -> tuple[Callable[..., None], int]:
    """Compile a text to a function; return it and the line at which it begins.

    The body of a function takes any parameter that it uses, as a variable.
    """
    tree = ast.parse(text, file)
    chosen = _chosen(tree, name)
    code = compile(tree, file, "exec")
    scope = {**visible(tree, names or {}), **_names()}
    if chosen is None:

        def body(p: Program, **values: Any) -> None:
            unused = [one for one in values if one not in _used(tree)]
            if unused:
                raise InputError(f"the text does not use {unused[0]!r}", hint=near(unused[0], _used(tree)))
            exec(code, {**scope, **values, "p": p})  # noqa: S102 - the user's own text: see the module

        body.__name__ = name
        first = tree.body[0].lineno if tree.body else 1
        return body, first
    exec(code, scope)  # noqa: S102 - as above
    write = scope[chosen.name]
    if not callable(write):
        raise InputError(f"{chosen.name} is no longer a function")

    @functools.wraps(write)
    def algorithm(p: Program, **values: Any) -> Any:
        return write(p, **values)

    algorithm.__name__ = name
    return algorithm, chosen.lineno


def _chosen(tree: ast.Module, name: str) -> ast.FunctionDef | None:
    """Return the function that is the algorithm: the one of this name, else the last one."""
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    return next((f for f in functions if f.name == name), functions[-1] if functions else None)


def text_parameters(text: str, name: str = "program") -> tuple[AlgorithmParameter, ...] | None:
    """Return the parameters of a text's function whose defaults are plain values, without executing it.

    None where there is no function: the text is a body, or half a program.

    Examples
    --------
    >>> text_parameters("def f(p, *, slices=8): ...")
    (AlgorithmParameter(name='slices', default=8, choices=()),)
    """
    try:
        chosen = _chosen(ast.parse(text), name)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    if chosen is None:
        return None
    of = chosen.args
    positional = [*of.posonlyargs, *of.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(of.defaults)) + list(of.defaults)
    pairs = [*zip(positional, defaults, strict=True), *zip(of.kwonlyargs, of.kw_defaults, strict=True)]
    found = []
    for argument, default in pairs:
        try:
            value = ast.literal_eval(default) if default is not None else None
            choices = _literal(argument.annotation)
        except (ValueError, TypeError):
            continue
        if default is not None and isinstance(value, bool | int | float | str):
            found.append(AlgorithmParameter(argument.arg, value, choices))
    return tuple(found)


def _literal(annotation: ast.expr | None) -> tuple[Any, ...]:
    """Return the values of an annotation like ``Literal["near", "far"]``."""
    if not isinstance(annotation, ast.Subscript):
        return ()
    kind = annotation.value
    if (kind.attr if isinstance(kind, ast.Attribute) else getattr(kind, "id", "")) != "Literal":
        return ()
    values = ast.literal_eval(annotation.slice)
    return values if isinstance(values, tuple) else (values,)


def visible(tree: ast.AST, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of a notebook that a text uses and may see.

    These are plain values, lists, dicts, sets and arrays of them (as copies), the notebook's own functions
    and classes, and modules to compute with and what is imported from them. A text cannot change them.
    """
    found = {}
    for name in _used(tree):
        if name in names and not name.startswith("_") and name not in FORBIDDEN:
            value = names[name]
            if _shareable(value):
                found[name] = value
            elif _plain(value):
                found[name] = deepcopy(value)
    return found


def _used(tree: ast.AST) -> list[str]:
    return [*dict.fromkeys(node.id for node in ast.walk(tree) if isinstance(node, ast.Name))]


def _shareable(value: Any) -> bool:
    """Return whether a text may use the notebook's own object: a module to compute with, function, class."""
    if isinstance(value, types.ModuleType):
        return value.__name__.partition(".")[0] in _MODULES
    own = getattr(value, "__module__", None)
    if not isinstance(value, types.FunctionType | types.BuiltinFunctionType | type) or not own:
        return False
    return own == "__main__" or str(own).partition(".")[0] in _MODULES


def _plain(value: Any) -> bool:
    if isinstance(value, list | tuple | set | frozenset):
        return all(map(_plain, value))
    if isinstance(value, dict):
        return all(map(_plain, value)) and all(map(_plain, value.values()))
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    return value is None or isinstance(value, bool | int | float | complex | str | bytes | range | np.generic)


def _names() -> dict[str, Any]:
    """Return the names that every text can use."""
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
    return builtins.__import__(module, names, scope, wanted or (), level)  # noqa: TID251 - as the program asks


def line_of(error: BaseException, file: str) -> int | None:
    """Return the innermost line of a text in the traceback of an error."""
    line: int | None = None
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return line
