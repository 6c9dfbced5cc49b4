"""Python in a browser: what Pyodide is brought from, and what a page holds of it."""

from .packing import Pack, pack_of, runtime
from .sources import PYODIDE, Source, bring, found, node

__all__ = ["PYODIDE", "Pack", "Source", "bring", "found", "node", "pack_of", "runtime"]
