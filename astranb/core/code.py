"""Where machine code is kept, and under which name.

The folder is named by a hash over *all* kernel sources, the versions of Numba and Python and
the processor: an edit anywhere, in a called function too, is seen.
"""

from __future__ import annotations

import hashlib
import os
import platform
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

import numpy as np

__all__ = ["cache_folder", "kernel_sources", "source_hash"]

_PACKAGE = Path(__file__).resolve().parent.parent


def kernel_sources(package: Path = _PACKAGE) -> list[Path]:
    """List the files that decide what an entry's machine code is, in a fixed order.

    Parameters
    ----------
    package : Path
        The package's folder.

    Returns
    -------
    list of Path
        Those with kernels, those that define the records they run over, the compiler's own and this one.
    """
    return [package / place for place in _read_sources(package)]


def _read_sources(package: Path) -> dict[str, bytes]:
    """Read the kernel sources, by their sorted places within the package.

    Every process does it, so without a ``Path`` for each of some hundred files.
    """
    found = {}
    for folder, _, names in os.walk(package):
        for name in names:
            if not name.endswith(".py"):
                continue
            path = os.path.join(folder, name)  # noqa: PTH118
            with open(path, "rb", buffering=0) as file:  # noqa: PTH123
                data = file.read()
            if b"@kernel" in data or b"np.dtype(" in data or name in ("jit.py", "handle.py", "code.py"):
                found[os.path.relpath(path, package).replace(os.sep, "/")] = data
    return dict(sorted(found.items()))


def source_hash(package: Path = _PACKAGE) -> str:
    """Hash all kernel sources, the versions of the compiler and the processor (16 hex digits).

    Parameters
    ----------
    package : Path
        The package's folder.
    """
    digest = hashlib.blake2b(digest_size=8)
    for place, data in _read_sources(package).items():
        digest.update(place.encode())
        digest.update(data)
    for name in ("numba", "llvmlite"):
        digest.update(_version(name))
    for fact in (np.__version__, sys.version, platform.machine(), _cpu()):
        digest.update(fact.encode())
    return digest.hexdigest()


def _version(name: str) -> bytes:
    """Tell the version of a package that is not imported: ``importlib.metadata`` takes 30 ms to do so."""
    found = find_spec(name)
    written = Path(found.origin).with_name("_version.py") if found and found.origin else None
    if written and written.exists():
        return written.read_bytes()
    from importlib.metadata import version

    return version(name).encode()


def cache_folder() -> Path:
    """Name (and make) the folder of machine code for exactly these sources.

    ``ASTRANB_CACHE_DIR`` wins; else the user's cache folder; else, where that cannot be
    written, a temporary one.
    """
    from platformdirs import user_cache_path

    chosen = os.environ.get("ASTRANB_CACHE_DIR")
    folder = (Path(chosen) if chosen else user_cache_path("astranb")) / f"kernels-{_LOADED}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError:
        return Path(tempfile.mkdtemp(prefix="astranb-kernels-"))
    return folder if os.access(folder, os.W_OK) else Path(tempfile.mkdtemp(prefix="astranb-kernels-"))


def _cpu() -> str:
    """The processor's model and features: a cache on a shared disk serves only its own kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return platform.processor()
    wanted = ("model name", "flags", "CPU part", "Features")
    return "|".join(dict.fromkeys(line for line in lines if line.startswith(wanted)))


_LOADED = source_hash()
"""Of the sources as this process has loaded them: where a file is edited while it runs, its
machine code must not be kept under the name of the new text."""
