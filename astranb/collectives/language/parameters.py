"""The parameters of an algorithm: what its function takes besides the program."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar, get_args, get_origin, get_type_hints

from astranb.core.errors import InputError, near

from .source import name_of_file

__all__ = [
    "NEEDED",
    "AlgorithmParameter",
    "ParameterValue",
    "algorithm_name",
    "bind_parameters",
    "check_values",
    "parameters_given",
    "parameters_of",
    "title_of",
    "unwrapped",
]

_T = TypeVar("_T")
ParameterValue: TypeAlias = bool | int | float | str | None
"""Type of a parameter: a value that a file and a title can hold."""

NEEDED: Final = inspect.Parameter.empty
"""The default of a parameter that has none."""

_NAMED: Final = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
_LONGEST: Final = 200  # characters of a text


@dataclass(frozen=True, slots=True)
class AlgorithmParameter:
    """A parameter of an algorithm's function.

    Attributes
    ----------
    name : str
    default : object
        :data:`NEEDED` where it has none.
    choices : tuple
        The values that its annotation allows, of a ``Literal``; empty where it allows any.
    """

    name: str
    default: Any = NEEDED
    choices: tuple[Any, ...] = ()


def parameters_of(
    write: Callable[..., Any], *, of_program: bool = True
) -> tuple[AlgorithmParameter, ...] | None:
    """Return the parameters of a function besides the program, if it is of one; None: it takes any names.

    Raises
    ------
    InputError
        The function has a parameter that cannot be given by name.

    Examples
    --------
    >>> def pipeline(p, *, slices=8): ...
    >>> parameters_of(pipeline)
    (AlgorithmParameter(name='slices', default=8, choices=()),)
    """
    try:
        of_function = list(inspect.signature(write).parameters.values())
    except (TypeError, ValueError):  # written in C: it says nothing
        return ()
    found = []
    for place, one in enumerate(of_function):
        if one.kind is inspect.Parameter.VAR_KEYWORD:
            return None
        if (place == 0 and of_program) or one.kind is inspect.Parameter.VAR_POSITIONAL:
            continue
        if one.kind not in _NAMED:
            if one.default is NEEDED:
                raise InputError(
                    f"{one.name!r} cannot be given by name",
                    where=_where(write, of_program),
                    hint=f"write def {algorithm_name(write)}({'p, ' * of_program}*, {one.name})",
                )
            continue
        found.append(AlgorithmParameter(one.name, one.default, _choices(write, one.name)))
    return tuple(found)


def _choices(write: Callable[..., Any], name: str) -> tuple[Any, ...]:
    """Return the values of a parameter that is annotated as a ``Literal``."""
    try:
        hint = get_type_hints(inspect.unwrap(write)).get(name)
    except Exception:  # noqa: BLE001 - an annotation may be anything
        return ()
    return get_args(hint) if get_origin(hint) is Literal else ()


def bind_parameters(
    write: Callable[..., _T], values: Mapping[str, ParameterValue], *, of_program: bool = True
) -> Callable[..., _T]:
    """Return the function with its parameters' values, to be called with the program if it is of one.

    Raises
    ------
    InputError
        It has no parameter of this name, or one without a value.
    """
    known, where = parameters_of(write, of_program=of_program), _where(write, of_program)
    if known is not None:
        names = [one.name for one in known]
        for name, value in values.items():
            if name not in names:
                what = f"{algorithm_name(write)} has no parameter {name!r}"
                hint = near(name, names) if names else _ADD.format("p, " * of_program)
                raise InputError(what, where=where, hint=hint)
            choices = known[names.index(name)].choices
            if choices and value not in choices:
                allowed = " or ".join(map(repr, choices))
                raise InputError(f"{name} is {value!r}", where=where, hint=f"use {allowed}")
        for one in known:
            if one.default is NEEDED and one.name not in values:
                what = f"{algorithm_name(write)} needs a value for {one.name!r}"
                raise InputError(what, where=where, hint=f"give it, as {one.name}=16")
    return functools.partial(write, **values) if values else write


_ADD: Final = "it has none; add a keyword parameter: def f({}*, slices=8)"


def check_values(values: Any) -> None:
    """Check that a file and a title can hold the values of parameters."""
    if not isinstance(values, dict) or not all(isinstance(name, str) for name in values):
        raise InputError(f"not values by name: {values!r:.80}", where="params", hint='give {"slices": 16}')
    for name, value in values.items():
        if not isinstance(value, ParameterValue) or len(str(value)) > _LONGEST:
            raise InputError(
                f"{name} is {value!r:.80}",
                where="params",
                hint="give a number, True, False or a short text",
            )


def parameters_given(texts: Iterable[str], where: str) -> dict[str, ParameterValue]:
    """Read parameters as they are typed: ``slices=16``.

    Whole numbers, other numbers, ``True`` and ``False`` are those values; anything else is a text.

    Examples
    --------
    >>> parameters_given(["slices=16", "share=0.5", "order=near"], "--param")
    {'slices': 16, 'share': 0.5, 'order': 'near'}
    """
    found: dict[str, ParameterValue] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name.isidentifier():
            raise InputError(
                f"{text[:40]!r} is not a parameter with its value", where=where, hint="write slices=16"
            )
        if name in found:
            raise InputError(f"duplicate parameter {name}", where=where, hint="leave one of them out")
        found[name] = _value(value)
    return found


def _value(text: str) -> ParameterValue:
    constants: dict[str, ParameterValue] = {"true": True, "false": False, "none": None}
    if text.lower() in constants:
        return constants[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def unwrapped(write: Any, values: Mapping[str, Any] | None) -> tuple[Any, dict[str, Any]]:
    """Return the function inside ``functools.partial``, and its values with those that were given.

    Examples
    --------
    >>> def pipeline(p, *, slices=8): ...
    >>> unwrapped(functools.partial(pipeline, slices=4), {})[1]
    {'slices': 4}
    """
    given = dict(values or {})
    while isinstance(write, functools.partial) and not write.args:
        if not all(isinstance(value, ParameterValue) for value in write.keywords.values()):
            break
        given = {**write.keywords, **given}
        write = write.func
    return write, given


def algorithm_name(write: Any) -> str:
    """Return the name of an algorithm, or of its function."""
    while isinstance(write, functools.partial):
        write = write.func
    return write if isinstance(write, str) else getattr(write, "__name__", type(write).__name__)


def title_of(values: Mapping[str, ParameterValue]) -> str:
    """Return values as a title has them, behind the name of an algorithm.

    Examples
    --------
    >>> title_of({"slices": 16, "order": "near"}), title_of({})
    ('(slices=16, order=near)', '')
    """
    listed = ", ".join(f"{name}={value}" for name, value in values.items())
    return f"({listed})" if listed else ""


def _where(write: Callable[..., Any], of_program: bool) -> str:
    """Name a function with its file and line."""
    code = getattr(inspect.unwrap(write), "__code__", None)
    name = f"{'algorithm' if of_program else 'contract'} {algorithm_name(write)!r}"
    if code is None:
        return name
    return f"{name}, {name_of_file(code.co_filename)} line {code.co_firstlineno}"
