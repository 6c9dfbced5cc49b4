"""Faces: a folder's public names, each written once and loaded when it is first used."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterator
from importlib import import_module  # noqa: TID251 - this is the lazy face
from types import CodeType
from typing import Any

__all__ = ["lazy"]


def lazy(face: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a module whose names are loaded on first use (PEP 562).

    The names are those that the module imports relative to itself under ``if TYPE_CHECKING:``, so that type
    checkers, import-linter and Python read the same lines. Python does not run them: their byte code
    is read, which a page has as well. A name must differ from the modules beside it, which Python
    binds to the face when it loads them.

    Parameters
    ----------
    face : str
        The module's ``__name__``.

    Examples
    --------
    >>> get, listed = lazy("astranb.net")
    >>> get("Network").__module__, "Network" in listed()
    ('astranb.net.options', True)
    """
    origins: dict[str, tuple[str, str]] = {}

    def names() -> dict[str, tuple[str, str]]:
        if not origins:
            origins.update(_relative_imports(_code(face)))
        return origins

    def get(name: str) -> Any:
        if name.startswith("__") or name not in names():
            message = f"module {face!r} has no attribute {name!r}"
            raise AttributeError(message)
        module, attribute = names()[name]
        package = sys.modules[face].__package__
        if not module:
            return import_module(f"{package}.{attribute}")
        return getattr(import_module(f"{package}.{module}"), attribute)

    return get, lambda: sorted({*vars(sys.modules[face]), *names()})


def _code(module: str) -> CodeType:
    """Return the byte code of a loaded module's body."""
    spec = sys.modules[module].__spec__
    code: CodeType = spec.loader.get_code(module)  # type: ignore[union-attr] # each loader of ours has it
    return code


def _relative_imports(code: CodeType) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield what a module's body imports from its own folder: the name, and its module and name there."""
    level, loaded, module, attribute = 0, 0, "", ""
    for step in dis.get_instructions(code):
        if step.opname.startswith("LOAD_"):  # the level, then the names
            level, loaded = loaded, step.argval
        elif step.opname == "IMPORT_NAME":
            module, attribute = (step.argval, "") if level == 1 else ("?", "")
        elif step.opname == "IMPORT_FROM":
            attribute = step.argval
        elif step.opname == "STORE_NAME" and attribute:
            if module != "?":
                yield step.argval, (module, attribute)
            attribute = ""
