"""Faces: a folder's public names, each written once and loaded when it is first used."""

from __future__ import annotations

import dis
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from importlib import import_module  # noqa: TID251 - this is the lazy face
from types import CodeType
from typing import Any, Final

__all__ = ["lazy", "no_attribute"]


_NOTHING: Final[Mapping[str, str]] = {}


def lazy(
    face: str, write: Mapping[str, str] = _NOTHING
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a module whose names are loaded on first use (PEP 562).

    The names are those that the module imports relative to itself under ``if TYPE_CHECKING:``, so that type
    checkers, import-linter and Python read the same lines. Python does not run them: their byte code
    is read, which a page has as well. A name must differ from the modules beside it (but for a folder that is
    called), which Python binds to the face when it loads them.

    Parameters
    ----------
    face : str
        The module's ``__name__``.
    write : mapping of str to str
        What to write in place of names that people guess.

    Examples
    --------
    >>> import astranb.net
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
            hint = write.get(name) or _elsewhere(face, name, names())
            raise no_attribute(face, name, names(), hint)
        module, attribute = names()[name]
        package = sys.modules[face].__package__
        if not module:
            return import_module(f"{package}.{attribute}")
        origin = import_module(f"{package}.{module}")
        try:
            loaded = getattr(origin, attribute)
        except AttributeError:  # a module of that folder, as for `from folder import module`
            loaded = import_module(f"{package}.{module}.{attribute}")
        return vars(sys.modules[face]).get(name, loaded)  # a folder of that name, which Python has bound

    return get, lambda: sorted({*vars(sys.modules[face]), *names()})


def _elsewhere(face: str, name: str, known: Mapping[str, tuple[str, str]]) -> str:
    """Return what to write for a name that a folder of a face has; empty where none has it."""
    if name.startswith("_"):
        return ""
    for folder in sorted(attribute for module, attribute in known.values() if not module):
        with suppress(ImportError):
            if name in dir(import_module(f"{face}.{folder}")):
                return f"write {face}.{folder}.{name}"
    return ""


def no_attribute(module: str, name: str, known: Iterable[str], hint: str = "") -> AttributeError:
    """Return the error for a name that a module does not have, with a hint or the nearest of its names.

    Examples
    --------
    >>> str(no_attribute("astranb", "Simulaton", ["Simulation", "Workbench"]))
    "module 'astranb' has no attribute 'Simulaton'; did you mean 'Simulation'?"
    """
    if not hint and not name.startswith("_"):
        from .errors import suggestion  # an import of astranb loads nothing else

        hint = suggestion(name, known)
    message = f"module {module!r} has no attribute {name!r}"
    # With the module, but without the name, Python does not add a suggestion of its own.
    return AttributeError(f"{message}; {hint}" if hint else message, obj=sys.modules.get(module))


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
