"""JSON and YAML files of other people, read with care: what is wrong is said with its place."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from .errors import InputError

__all__ = ["MOST_BYTES", "Node", "contents", "json_document", "yaml_document", "yaml_loader"]

MOST_BYTES = 64 << 20
"""No larger file is read unless told otherwise: the largest public plans of collectives have a few MiB."""

_DEEPEST = 100


def contents(path: str | Path, most: int | None = None) -> bytes:
    """Read a whole file; one that is missing or has more bytes than most (``MOST_BYTES``) is an error."""
    file = Path(path)
    most = MOST_BYTES if most is None else most
    try:
        if file.stat().st_size > most:
            size = f"larger than {most >> 20} MiB"
            raise InputError(size, where=str(path), hint="is it the right file?")
        return file.read_bytes()
    except (OSError, ValueError) as error:
        if isinstance(error, InputError):
            raise
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(reason, where=str(path), hint="give a file that can be read") from error


class Node:
    """A value of a document, with the place where it stands."""

    __slots__ = ("file", "path", "value")

    def __init__(self, value: Any, file: str, path: str = "") -> None:
        self.value, self.file, self.path = value, file, path

    def error(self, what: str, hint: str = "") -> InputError:
        """An error about this value."""
        return InputError(what, where=f"{self.file}: {self.path}" if self.path else self.file, hint=hint)

    @property
    def brief(self) -> str:
        """The value as an error gives it: short."""
        return _brief(self.value)

    def has(self, key: str) -> bool:
        """Whether an object has a key."""
        return isinstance(self.value, dict) and key in self.value

    def get(self, key: str, default: Any = ...) -> Node:
        """A member of an object; without a default it must be there."""
        if not isinstance(self.value, dict):
            raise self.error(f"an object is expected, not {_brief(self.value)}")
        if key not in self.value and default is ...:
            raise self.error(f"{key!r} is missing", "give it")
        return Node(self.value.get(key, default), self.file, f"{self.path}.{key}" if self.path else key)

    def items(self) -> list[Node]:
        """The elements of a list."""
        if not isinstance(self.value, list):
            raise self.error(f"a list is expected, not {_brief(self.value)}")
        return [Node(value, self.file, f"{self.path}[{n}]") for n, value in enumerate(self.value)]

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            raise self.error(f"a string is expected, not {_brief(self.value)}")
        return self.value.encode("utf-8", "replace").decode()

    def truth(self) -> bool:
        """True or false."""
        if not isinstance(self.value, bool):
            raise self.error(f"true or false is expected, not {_brief(self.value)}")
        return self.value

    def number(self, low: int, high: int) -> int:
        """A whole number between two bounds."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            raise self.error(f"a whole number is expected, not {_brief(self.value)}")
        if not low <= self.value <= high:
            raise self.error(f"{_brief(self.value)} is out of range", f"take {low} to {high}")
        return self.value

    def real(self, low: float, high: float) -> float:
        """A number between two bounds."""
        if isinstance(self.value, bool) or not isinstance(self.value, int | float):
            raise self.error(f"a number is expected, not {_brief(self.value)}")
        if not low <= self.value <= high:  # NaN is not, either
            raise self.error(f"{_brief(self.value)} is out of range", f"take {low:g} to {high:g}")
        return float(self.value)

    def choice(self, among: tuple[str, ...]) -> str:
        """One of some words."""
        word = self.text()
        if word not in among:
            raise self.error(f"unknown {word[:40]!r}", f"take {', '.join(among)}")
        return word


def json_document(path: str | Path, data: bytes) -> Node:
    """Parse JSON."""
    file = str(path)
    try:
        return Node(json.loads(data.decode("utf-8-sig")), file)
    except json.JSONDecodeError as error:
        where = f"{file}: line {error.lineno}"
        raise InputError(f"no JSON: {error.msg}", where=where, hint="correct the file") from error
    except (ValueError, RecursionError) as error:  # bytes that are no UTF-8, a huge number, deep nesting
        raise InputError(f"no JSON: {error}"[:200], where=file, hint="correct the file") from error


@cache
def yaml_loader() -> Any:
    """Make the loader of plain data: ``1e9`` is a number, as in YAML 1.2; to PyYAML (1.1) it is a word."""
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
        pass

    power = re.compile(r"[-+]?(\d+(\.\d*)?|\.\d+)[eE][-+]?\d+$", re.ASCII)
    Loader.add_implicit_resolver("tag:yaml.org,2002:float", power, list("-+.0123456789"))
    return Loader


def yaml_document(path: str | Path, data: bytes) -> Node:
    """Parse YAML."""
    import yaml

    try:
        depth = 0
        for event in yaml.parse(data, yaml_loader()):  # libyaml's composer recurses in C and would crash
            opens = isinstance(event, yaml.CollectionStartEvent)
            depth += opens - isinstance(event, yaml.CollectionEndEvent)
            if depth > _DEEPEST:
                raise InputError(f"nested deeper than {_DEEPEST}", where=str(path), hint="correct the file")
        return Node(yaml.load(data, yaml_loader()), str(path))  # noqa: S506 - a safe one
    except yaml.MarkedYAMLError as error:
        line = f": line {error.problem_mark.line + 1}" if error.problem_mark else ""
        raise InputError(
            f"no YAML: {error.problem}", where=f"{path}{line}", hint="correct the file"
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, InputError):
            raise
        what = " ".join(str(error).split())[:200]
        raise InputError(f"no YAML: {what}", where=str(path), hint="correct the file") from None


def _brief(value: Any) -> str:
    """A value for an error, short."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, int) and abs(value) > 10**18:
        return "a huge number"
    return repr(value)[:40]
