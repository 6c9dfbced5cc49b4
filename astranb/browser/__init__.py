"""Python in a browser: what Pyodide is brought from, and what a page holds of it."""

from .packing import LICENCES, LIMIT, Archive, Pack, byte_code, pack_of, packed, runtime
from .sources import PYODIDE, Source, bring, found, node

__all__ = [
    "LICENCES",
    "LIMIT",
    "PYODIDE",
    "Archive",
    "Pack",
    "Source",
    "bring",
    "byte_code",
    "found",
    "node",
    "pack_of",
    "packed",
    "runtime",
]
