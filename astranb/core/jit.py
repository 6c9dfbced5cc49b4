"""The decorators of compiled kernels.

A *kernel* is a small function over numbers and record arrays. Kernels call each other; only a
few *entries* (``entry.py``) are called from Python, and those are compiled with Numba
(``compiler.py``).

``ASTRANB_JIT=0`` runs the same functions as plain Python, for a debugger.
``ASTRANB_BOUNDS=1`` compiles them with a check of every index: one that is out of bounds is an
``IndexError`` instead of a wrong read or write. It is meant for tests, and slower.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeAlias, TypeVar, overload

if TYPE_CHECKING:
    import numpy as np

__all__ = [
    "BOUNDS",
    "JIT",
    "Kernel",
    "Prefetch",
    "Records",
    "kernel",
    "prefetch",
]

JIT = os.environ.get("ASTRANB_JIT", "1") != "0"
"""Whether entries are compiled (``ASTRANB_JIT=0`` turns it off)."""

BOUNDS = JIT and os.environ.get("ASTRANB_BOUNDS", "0") == "1"
"""Whether compiled kernels check their indices (``ASTRANB_BOUNDS=1`` turns it on)."""

Records: TypeAlias = "np.recarray[Any, Any]"
"""A structured array with fields as attributes: ``links[i].free_at_ps``."""

_P = ParamSpec("_P")
_R = TypeVar("_R")


class Kernel(Generic[_P, _R]):
    """A function that entries may call: plain Python here, inlined machine code there.

    Parameters
    ----------
    function : callable
        Takes and returns numbers and record arrays only.
    inline : bool
        Whether its code is inlined at every call.
    """

    def __init__(self, function: Callable[_P, _R], *, inline: bool) -> None:
        self.function = function
        self.inline = inline
        self.__doc__ = function.__doc__
        self.__name__ = function.__name__
        self.__module__ = function.__module__
        self.__wrapped__ = function
        self.dispatchers: dict[bool, Any] = {}  # what core/compiler.py makes of it

    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Run it as plain Python (tests and debuggers do; the simulator calls an entry)."""
        return self.function(*args, **kwargs)


@overload
def kernel(function: Callable[_P, _R]) -> Callable[_P, _R]: ...


@overload
def kernel(*, inline: bool) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]: ...


def kernel(function: Any = None, *, inline: bool = True) -> Any:
    """Mark a function as a kernel.

    Parameters
    ----------
    function : callable
        A function over numbers, tables and named tuples of tables only.
    inline : bool
        Whether its code is inlined at every call. A kernel that is large, rare or called from
        many places is not: the loop then compiles faster and fits better into the caches.

    Returns
    -------
    callable
        The same function to a Python caller, and to Numba a compiled callee.
    """
    if function is None:
        return partial(kernel, inline=inline)
    return Kernel(function, inline=inline) if JIT else function


class Prefetch:
    """Prefetch a row of a table into the processor's cache; as plain Python, do nothing.

    A row that is not there is no fault: nothing is read.
    """

    def __call__(self, table: Records, row: int) -> None:
        """Do nothing."""


prefetch = Prefetch()
