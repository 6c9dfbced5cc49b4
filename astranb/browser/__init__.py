"""Python in a browser: what Pyodide is brought from, and what a page holds of it."""

from .packing import LICENCES, Pack, pack_of, packed, runtime
from .sources import PYODIDE, Source, bring, found, node

__all__ = [
    "LICENCES",
    "PYODIDE",
    "Pack",
    "Source",
    "bring",
    "found",
    "node",
    "pack_of",
    "packed",
    "runtime",
]
