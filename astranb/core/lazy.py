"""Parts of a package that are loaded when they are first used."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any

__all__ = ["lazy"]


def lazy(package: str, modules: Mapping[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Make ``__getattr__`` and ``__dir__`` of a package whose names are loaded on first use (PEP 562).

    Parameters
    ----------
    package : str
        The package's ``__name__``.
    modules : mapping
        The module below the package that has each name; the name itself where it is a module.

    Examples
    --------
    >>> get, listed = lazy("astranb", {"sim": "sim", "Simulation": "sim"})
    >>> get("Simulation").__name__, get("sim").__name__, listed()
    ('Simulation', 'astranb.sim', ['Simulation', 'sim'])
    """

    def get(name: str) -> Any:
        if name not in modules:
            message = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(message)
        module = import_module(f"{package}.{modules[name]}")
        return module if modules[name] == name else getattr(module, name)

    return get, lambda: sorted(modules)
