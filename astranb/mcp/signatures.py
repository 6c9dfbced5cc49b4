"""Arguments of tools: their JSON Schema from the signature, and the check of what was sent."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from functools import cache
from types import UnionType
from typing import Any, Final, NamedTuple, get_args, get_type_hints

from astranb.core.errors import InputError, near

__all__ = ["checked", "schema_of"]

_NAMES: Final = {
    bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", type(None): "null"
}  # fmt: skip


class _Argument(NamedTuple):
    types: tuple[type, ...]
    meaning: str
    default: Any


@cache
def _arguments(tool: Callable[..., Any]) -> dict[str, _Argument]:
    """Return the arguments of a tool, annotated as ``Annotated[type, "what it means"]``."""
    hints = get_type_hints(tool, include_extras=True)
    found = {}
    for name, parameter in inspect.signature(tool).parameters.items():
        if name == "self":
            continue
        kind, meaning = get_args(hints[name])
        types = get_args(kind) if isinstance(kind, UnionType) else (kind,)
        found[name] = _Argument(types, meaning, parameter.default)
    return found


def schema_of(tool: Callable[..., Any]) -> dict[str, Any]:
    """Return the JSON Schema of a tool's arguments.

    Examples
    --------
    >>> from typing import Annotated
    >>> def step(n: Annotated[int, "how many"] = 1): ...
    >>> schema_of(step)["properties"]
    {'n': {'type': 'integer', 'description': 'how many', 'default': 1}}
    """
    properties = {}
    for name, one in _arguments(tool).items():
        kinds = [_NAMES[kind] for kind in one.types if kind is not type(None)]
        properties[name] = {"type": kinds[0] if len(kinds) == 1 else kinds, "description": one.meaning}
        if one.default not in (inspect.Parameter.empty, None):
            properties[name]["default"] = one.default
    required = [name for name, one in _arguments(tool).items() if one.default is inspect.Parameter.empty]
    return {
        "type": "object", "properties": properties, "required": required, "additionalProperties": False
    }  # fmt: skip


def checked(name: str, tool: Callable[..., Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that were sent, if the tool takes them.

    Raises
    ------
    InputError
        One is unknown, missing or of another type.
    """
    known = _arguments(tool)
    for argument, value in sent.items():
        if argument not in known:
            hint = near(argument, known) if known else "it takes none"
            raise InputError(f"unknown argument {argument[:40]!r}", where=name, hint=hint)
        kinds = known[argument].types
        whole = isinstance(value, int) and not isinstance(value, bool)
        if not (isinstance(value, kinds) if not isinstance(value, bool) else bool in kinds) and not (
            whole and float in kinds
        ):
            words = " or ".join(_NAMES[kind] for kind in kinds if kind is not type(None))
            raise InputError(f"{argument} is {str(value)[:40]!r}", where=name, hint=f"give a JSON {words}")
    for argument, one in known.items():
        if one.default is inspect.Parameter.empty and argument not in sent:
            raise InputError(f"{argument} is missing", where=name, hint=one.meaning)
    return dict(sent)
