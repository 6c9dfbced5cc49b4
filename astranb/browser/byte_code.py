"""Byte code of an archive's Python files; run by Pyodide's own Python, when a page's runtime is packed.

It starts in half the time with it. Nobody reads texts of documentation in a page: they are left out there.
"""

from __future__ import annotations

import importlib.util
import zipfile
from importlib import _bootstrap_external

__all__ = ["compiled"]


def compiled(source: str, target: str, lib: str, beside: str, *, documented: bool) -> None:
    """Write an archive again, with byte code in the place of Python files.

    Parameters
    ----------
    source, target : str
        Archives.
    lib : str
        The folder that its files will lie in, for tracebacks.
    beside : str
        What is in the names of files whose text and documentation are kept: people read them.
    documented : bool
        Whether the documentation of all is kept.
    """
    # The one way to have it without a file and a cache of its own (PEP 552: known by the hash of its source).
    compiled_file = _bootstrap_external._code_to_hash_pyc  # type: ignore[attr-defined]  # noqa: SLF001
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as new:
        for name in sorted(old.namelist()):
            data = old.read(name)
            if not name.endswith(".py"):
                new.writestr(zipfile.ZipInfo(name), data)
                continue
            kept = bool(beside) and beside in name
            whole = (
                kept or documented or name.startswith("numpy/")
            )  # which fills in its documentation when it is imported
            try:
                code = compile(data, f"{lib}/{name}", "exec", dont_inherit=True, optimize=0 if whole else 2)
            except SyntaxError:  # a template
                new.writestr(zipfile.ZipInfo(name), data)
                continue
            made = compiled_file(code, importlib.util.source_hash(data), checked=False)
            if kept:
                folder, _, base = name.rpartition("/")
                new.writestr(zipfile.ZipInfo(name), data)
                new.writestr(
                    zipfile.ZipInfo(f"{folder}/__pycache__/{base[:-3]}.cpython-313.pyc"), bytes(made)
                )
            else:
                new.writestr(zipfile.ZipInfo(f"{name}c"), bytes(made))
