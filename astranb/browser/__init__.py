"""Python in a browser: the sources of Pyodide, and the contents of a page."""

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
