"""Cache of machine code: its place, and the names of its files.

Folders are named by a hash over *all* kernel sources: an edit anywhere, in a called function
too, is seen. Object files in the user's cache are this machine's own, so that their folder's
name also depends on the processor and on the versions of Numba and Python. Those of a wheel
depend on the kernel sources alone: they call nothing of Numba or Python.

Machine code is run as it is read. So an object file begins with its checksum, and the cache is
used only where nobody else can write to it.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import stat
import sys
import tempfile
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from .host import SOURCES_KNOWN
from .jit import BOUNDS
from .progress import notice

__all__ = [
    "cache_folder",
    "entry_modules",
    "kernel_sources",
    "prebuilt",
    "prebuilt_folder",
    "read_object",
    "sealed",
    "source_hash",
]

_PACKAGE = Path(__file__).resolve().parent.parent
_COMPILER = (
    "core/code.py",
    "core/compiler.py",
    "core/entry.py",
    "core/handle.py",
    "core/jit.py",
    "core/targets.py",
)


def kernel_sources(package: Path = _PACKAGE) -> list[Path]:
    """List the files that decide what an entry's machine code is, in a fixed order.

    Parameters
    ----------
    package : Path
        The package's folder.

    Returns
    -------
    list of Path
        Those with kernels, those that define the records they run over, and the compiler's own.
    """
    return [package / place for place in _read_sources(package)]


def entry_modules() -> list[str]:
    """Name the modules that define an ``Entry``, as ``net.nearest``, in a fixed order."""
    found = re.compile(rb"^\w[^=\n]*= Entry\(", re.MULTILINE)
    return [
        place.removesuffix(".py").replace("/", ".")
        for place, data in _read_sources(_PACKAGE).items()
        if found.search(data)
    ]


def _read_sources(package: Path) -> dict[str, bytes]:
    """Read the kernel sources, by their sorted places within the package.

    Every process does it, so without a ``Path`` for each of some hundred files. Folders whose
    names begin with ``_`` hold no modules: a wheel has the notebooks there.
    """
    found = {}
    for folder, folders, names in os.walk(package):
        folders[:] = [name for name in folders if not name.startswith("_")]
        for name in names:
            if not name.endswith(".py"):
                continue
            path = os.path.join(folder, name)  # noqa: PTH118
            place = os.path.relpath(path, package).replace(os.sep, "/")
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123
                data = file.read()
            if b"@kernel" in data or b"np.dtype(" in data or place in _COMPILER or name == "kinds.py":
                found[place] = data
    return dict(sorted(found.items()))


def source_hash(package: Path = _PACKAGE) -> str:
    """Hash all kernel sources (16 hex digits).

    Parameters
    ----------
    package : Path
        The package's folder.
    """
    digest = hashlib.blake2b(digest_size=8)
    for place, data in _read_sources(package).items():
        digest.update(place.encode())
        digest.update(data)
    return digest.hexdigest()


def prebuilt_folder() -> Path | None:
    """Find the folder of what a wheel compiled of these very sources; None where there is none."""
    folder = _PACKAGE / "_objects" / _LOADED
    return folder if folder.is_dir() else None


def prebuilt(entry: str) -> Path | None:
    """Find the object file of an entry that came with a wheel, and that this machine can run.

    Parameters
    ----------
    entry : str
        The entry's name.

    Returns
    -------
    Path or None
        None in a checkout, where a kernel was edited, and on systems that the wheel has no code for.
    """
    folder = prebuilt_folder()
    if folder is None:
        return None
    from .targets import portable_names

    files = (folder / name / f"{entry}.o" for name in portable_names())
    return next((file for file in files if file.is_file()), None)


def _version(name: str) -> bytes:
    """Return the version of a package that is not imported: ``importlib.metadata`` takes 30 ms to do so."""
    found = find_spec(name)
    written = Path(found.origin).with_name("_version.py") if found and found.origin else None
    if written and written.exists():
        return written.read_bytes()
    from importlib.metadata import version

    return version(name).encode()


@cache
def _machine_hash() -> str:
    """Hash the kernel sources, the versions of the compiler and the processor (16 hex digits)."""
    digest = hashlib.blake2b(_LOADED.encode(), digest_size=8)
    for name in ("numba", "llvmlite"):
        digest.update(_version(name))
    for fact in (np.__version__, sys.version, platform.machine(), _cpu(), f"bounds {BOUNDS}"):
        digest.update(fact.encode())
    return digest.hexdigest()


def sealed(code: bytes) -> bytes:
    """Put a checksum in front of machine code."""
    return hashlib.blake2b(code, digest_size=16).hexdigest().encode() + b"\n" + code


def read_object(file: Path, *, own: bool) -> bytes | None:
    """Read the machine code of an object file; None where there is none, or it must not be run.

    Parameters
    ----------
    file : Path
        Its contents are from :func:`sealed`.
    own : bool
        Whether it must be this user's, and nobody else's to write.
    """
    try:
        with file.open("rb") as opened:
            if own and not _is_private(os.fstat(opened.fileno())):
                return None
            code = opened.read().partition(b"\n")[2]
            opened.seek(0)
            return code if sealed(code) == opened.read() else None
    except OSError:
        return None


def cache_folder() -> Path:
    """Name (and make) the folder of machine code for exactly these sources and this machine.

    ``ASTRANB_CACHE_DIR`` wins; else the user's cache folder; else, where that cannot be written or
    others can write to it, a temporary one, which the user's next process finds again.
    """
    return _cache_folder(os.environ.get("ASTRANB_CACHE_DIR"))


@cache
def _cache_folder(chosen: str | None) -> Path:
    from platformdirs import user_cache_path

    name = f"kernels-{_machine_hash()}"
    root = Path(chosen) if chosen else user_cache_path("astranb")
    with suppress(OSError):
        root.parent.mkdir(parents=True, exist_ok=True)
        for folder in (root, root / name):
            folder.mkdir(mode=0o700, exist_ok=True)
            if not _is_private(folder.stat()):
                notice(f"{folder} is not used for machine code: others can write to it (chmod go-w it)")
                break
        else:
            if os.access(root / name, os.W_OK):
                return root / name
    folder = _temporary() / name
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder


def _is_private(found: os.stat_result) -> bool:
    """Return whether a file or folder is this user's, and nobody else may write to it."""
    if not hasattr(os, "geteuid"):  # Windows
        return True
    return found.st_uid == os.geteuid() and not found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)


def _temporary() -> Path:
    """Make a temporary folder that only this user can write to, if possible one for all processes."""
    user = os.geteuid() if hasattr(os, "geteuid") else "user"
    folder = Path(tempfile.gettempdir(), f"astranb-{user}")
    with suppress(OSError):
        folder.mkdir(mode=0o700, exist_ok=True)
        found = folder.lstat()
        if stat.S_ISDIR(found.st_mode) and _is_private(found):
            return folder
    # Somebody else has taken the name.
    import atexit
    import shutil

    folder = Path(tempfile.mkdtemp(prefix="astranb-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _cpu() -> str:
    """The processor's model and features: a cache on a shared disk serves only its own kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "CPU part", "Features")
    return "|".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))


_LOADED = source_hash() if SOURCES_KNOWN else next((_PACKAGE / "_objects").iterdir()).name
"""Of the sources as this process has loaded them: where a file is edited while it runs, its
machine code must not be kept under the name of the new text."""
