"""Conditions and figures as text: arithmetic and comparisons, parsed and never executed as Python."""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from astranb.core.errors import InputError, near
from astranb.core.units import bandwidth_Bps, size_bytes, time_ps

__all__ = ["Expression", "number_of"]

_LONGEST: Final = 500
_READERS: Final = (size_bytes, time_ps, bandwidth_Bps)
_QUANTITY: Final = re.compile(
    r"(?<![\w.\"'])(\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)\s?"
    r"((?:[kKMGTP]i?B|B)(?:/s)?|[kMGT]?(?:bps|Bps)|[kMGT]?b(?:it)?/s|ps|ns|us|µs|ms|s)(?![\w\"'])"
)
_ARITHMETIC: Final[Mapping[type[ast.operator], Callable[[Any, Any], Any]]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_RELATIONS: Final[Mapping[type[ast.cmpop], Callable[[Any, Any], bool]]] = {
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.GtE: operator.ge,
    ast.Gt: operator.gt,
}
_SIGNS: Final[Mapping[type[ast.unaryop], Callable[[Any], Any]]] = {
    ast.UAdd: operator.pos,
    ast.USub: operator.neg,
    ast.Not: operator.not_,
}
_FUNCTIONS: Final[Mapping[str, Callable[..., Any]]] = {"min": min, "max": max, "abs": abs}


def number_of(value: Any) -> Any:
    """Return a quantity as a number: bytes, picoseconds or bytes a second; anything else as it is.

    Examples
    --------
    >>> number_of("250 GB/s"), number_of("8"), number_of("1 MiB"), number_of("ring"), number_of(2.5)
    (250000000000, 8, 1048576, 'ring', 2.5)
    """
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    for read in _READERS:
        try:
            return read(value)
        except InputError:
            continue
    return value


@dataclass(frozen=True)
class Expression:
    """A condition or a figure: names, numbers with or without unit, ``+ - * / // %``, comparisons, ``and``...

    Parameters
    ----------
    text : str
        As ``tp * dp == 1024`` or ``memory_bytes <= 80 GB``: units make bytes, picoseconds, bytes a second.

    Raises
    ------
    InputError
        It is not such an expression.

    Examples
    --------
    >>> fits = Expression("tp * dp == 1024 and memory <= 80 GB")
    >>> fits.value({"tp": 8, "dp": 128, "memory": "64 GiB"}), sorted(fits.names)
    (True, ['dp', 'memory', 'tp'])
    """

    text: str

    def __post_init__(self) -> None:
        """Parse it."""
        if len(self.text) > _LONGEST:
            raise InputError("a longer expression than any of use", where=self._where, hint="split it")
        written = _QUANTITY.sub(lambda found: repr(number_of(found[0])), self.text)
        try:
            tree = ast.parse(written.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            hint = "write for example 'tp * dp == 1024'"
            raise InputError("this is not an expression", where=self._where, hint=hint) from None
        names: set[str] = set()
        self._check(tree, names)
        object.__setattr__(self, "_tree", tree)
        object.__setattr__(self, "names", frozenset(names))

    names: frozenset[str] = frozenset()

    @property
    def _where(self) -> str:
        return self.text if len(self.text) <= 60 else f"{self.text[:57]}..."

    def _check(self, node: ast.AST, names: set[str]) -> None:
        """Raise InputError for what is not in the language; collect names."""
        inside: list[Any] = []
        if isinstance(node, ast.Name | ast.Attribute | ast.Subscript):
            names.add(ast.unparse(node))
        elif isinstance(node, ast.Constant) and isinstance(node.value, int | float | str):
            pass
        elif isinstance(node, ast.BoolOp):
            inside = node.values
        elif isinstance(node, ast.UnaryOp) and type(node.op) in _SIGNS:
            inside = [node.operand]
        elif isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
            inside = [node.left, node.right]
        elif isinstance(node, ast.Compare) and all(type(one) in _RELATIONS for one in node.ops):
            inside = [node.left, *node.comparators]
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _FUNCTIONS:
            inside = [*node.args, *node.keywords]
        else:
            hint = f"use names, numbers, + - * / // %, comparisons, and, or, not, {', '.join(_FUNCTIONS)}"
            shown = ast.unparse(node)[:40] if isinstance(node, ast.expr) else "this"
            raise InputError(f"{shown!r} is not known in an expression", where=self._where, hint=hint)
        for one in inside:
            self._check(one, names)

    def value(self, values: Mapping[str, Any]) -> Any:
        """Return its value.

        Parameters
        ----------
        values : mapping
            By name; text with a unit counts as its number.

        Raises
        ------
        InputError
            A name is unknown, or a comparison or division makes no sense.
        """
        tree: ast.AST = self._tree  # type: ignore[attr-defined]  # set when it was parsed
        try:
            return self._of(tree, values)
        except (TypeError, ZeroDivisionError, OverflowError, ValueError) as error:
            raise InputError(str(error), where=self._where, hint="compare numbers with numbers") from None

    def _of(self, node: ast.AST, values: Mapping[str, Any]) -> Any:
        if isinstance(node, ast.Constant):
            return number_of(node.value)
        if isinstance(node, ast.BoolOp):
            is_and = isinstance(node.op, ast.And)
            # Like Python's, it stops where the answer is known.
            for one in node.values:
                if bool(self._of(one, values)) != is_and:
                    return not is_and
            return is_and
        if isinstance(node, ast.UnaryOp):
            return _SIGNS[type(node.op)](self._of(node.operand, values))
        if isinstance(node, ast.BinOp):
            return _ARITHMETIC[type(node.op)](self._of(node.left, values), self._of(node.right, values))
        if isinstance(node, ast.Compare):
            left = self._of(node.left, values)
            for relation, other in zip(node.ops, node.comparators, strict=True):
                right = self._of(other, values)
                if not _RELATIONS[type(relation)](left, right):
                    return False
                left = right
            return True
        if isinstance(node, ast.Call):
            assert isinstance(node.func, ast.Name)  # noqa: S101 - checked when it was parsed
            return _FUNCTIONS[node.func.id](*(self._of(one, values) for one in node.args))
        name = ast.unparse(node)
        if name not in values:
            raise InputError(f"nothing is called {name!r}", where=self._where, hint=near(name, values))
        return number_of(values[name])
