"""Python in a page: Pyodide, its standard library, NumPy and astranb, as byte code and packed.

Three packs: the scripts that start Pyodide, Pyodide's other files with NumPy, and astranb with its kernels.
They are made once for each version of the sources and kept in the user's cache.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import subprocess
import zipfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from astranb.core.ahead import modules
from astranb.core.code import cache_folder, sealed, source_hash
from astranb.core.errors import InputError
from astranb.core.files import locked, whole_file
from astranb.core.host import KERNEL_FOLDER
from astranb.core.progress import announce

from .sources import PYODIDE, found, node

__all__ = ["LICENCES", "LIMIT", "Archive", "Pack", "byte_code", "pack_of", "packed", "runtime"]

_PACKAGE: Final = Path(__file__).resolve().parents[1]
_STATIC: Final = "widgets/static/messages.js"
"""File of the browser's side that Python reads: the columns of messages."""
_LEFT_OUT: Final = frozenset(
    {
        "__pycache__",
        "_examples",
        "_notebooks",
        "_objects",
        "_tutorials",
        "browser",
        "cli",
        "static",
        "traffic",
    }
)
"""Folders of the package that a page has no use for."""
_READ: Final = "astranb/collectives/library/"
"""Algorithms, whose text is shown."""

_STDLIB_LEFT_OUT: Final = (
    "_pydecimal", "_pyrepl/", "antigravity", "cProfile", "curses/", "dbm/", "doctest", "ensurepip", "ftplib",
    "http/server", "idlelib", "imaplib", "lib2to3", "mailbox", "modulefinder", "multiprocessing/", "nntplib",
    "optparse", "pdb.py", "pickletools", "plistlib", "poplib", "profile.py", "pstats", "pyclbr", "pydoc",
    "smtplib", "socketserver", "sqlite3/", "tabnanny", "telnetlib", "test/", "this.py", "tkinter", "trace.py",
    "turtle", "unittest/", "venv/", "webbrowser", "wsgiref/", "xmlrpc/", "zipapp",
)  # fmt: skip
_NUMPY_LEFT_OUT: Final = (
    ".a", ".pyi", "/_core/lib/", "/_pyinstaller/", "/distutils/", "/doc/", "/f2py/", "/include/",
    "/lib/npymath", "/ma/tests", "/polynomial/", "/random/_examples/", "/random/lib/", "/testing/", "/tests/",
    "/typing/mypy", "_simd.cpython", "_tests.cpython", "lapack_lite.cpython", "numpy/_core/tests",
    "numpy/conftest",
)  # fmt: skip
"""Parts of file names that nothing in a page imports."""

_SITE: Final = "/lib/python3.13/site-packages"
_STDLIB: Final = "/lib/python313.zip"
_SCRIPTS: Final = ("pyodide.js", "pyodide.asm.js")
LIMIT: Final = Path(__file__).with_name("limit_memory.js")
"""The script that stands before Pyodide wherever it runs."""

LICENCES: Final = (
    "Pyodide (Mozilla Public License 2.0), CPython (Python Software Foundation License), "
    "NumPy (BSD 3-Clause), PyYAML (MIT), astranb (MIT)"
)
"""Licences of the parts of a page that simulates, for its notices."""


class Pack(NamedTuple):
    """Files for a page, packed."""

    name: str
    data: bytes
    """Compressed: see :func:`packed`."""


class Archive(NamedTuple):
    """Python files to compile."""

    name: str
    members: Sequence[tuple[str, bytes]]
    """Names and contents."""
    lib: str = _SITE
    """The folder that the files will lie in, for tracebacks."""
    beside: str = ""
    """Part of the names of files whose text is kept: people read them."""
    documented: bool = False
    """Whether documentation is kept in all files."""


def packed(header: Mapping[str, object], buffers: Sequence[bytes]) -> bytes:
    """Compress a header and buffers as ``static/packed.js`` reads them.

    Length of the header, the header (JSON, with the ``places`` of the buffers), and the buffers, each from a
    multiple of 8 on.
    """
    places, start = [], 0
    for buffer in buffers:
        places.append((start, len(buffer)))
        start += -(-len(buffer) // 8) * 8
    text = json.dumps({**header, "places": places}, separators=(",", ":"), allow_nan=False).encode()
    parts = [len(text).to_bytes(8, "little"), text, bytes(-len(text) % 8)]
    for buffer in buffers:
        parts += [buffer, bytes(-len(buffer) % 8)]
    return gzip.compress(b"".join(parts), 9, mtime=0)


def pack_of(name: str, files: Mapping[str, bytes]) -> Pack:
    """Pack files by their names."""
    return Pack(name, packed({"files": list(files)}, list(files.values())))


def runtime() -> tuple[Pack, Pack, Pack]:
    """Return the packs of a page: scripts, Pyodide with NumPy, astranb; made where they are not kept.

    Raises
    ------
    InputError
        Pyodide is not here, or there is no Node to make byte code with.
    """
    files = found()
    kept = cache_folder().parent / f"pyodide-{PYODIDE}" / "packs"
    kept.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(kept / "lock"):
        scripts = _kept(
            kept,
            "scripts",
            _hash([]),
            lambda _: {LIMIT.name: LIMIT.read_bytes()} | {n: files[n].read_bytes() for n in _SCRIPTS},
        )
        python = _kept(kept, "python", _hash([]), lambda place: _python(files, place))
        package = _kept(kept, "astranb", _hash(_sources()), lambda place: _astranb(files, place))
    return scripts, python, package


def _kept(folder: Path, name: str, version: str, made: Callable[[Path], dict[str, bytes]]) -> Pack:
    file = folder / f"{name}-{version}.gz"
    if not file.exists():
        with (
            announce(f"packing {name} for pages, once for each version of astranb", 10),
            TemporaryDirectory() as place,
        ):
            data = pack_of(name, made(Path(place))).data
        for old in folder.glob(f"{name}-*.gz"):
            with suppress(OSError):
                old.unlink()
        with whole_file(file) as out:
            out.write(data)
    return Pack(f"{name}-{version}", file.read_bytes())


def _hash(files: Sequence[tuple[str, bytes]]) -> str:
    """Name what depends on files, and on how they are packed."""
    digest = hashlib.blake2b(PYODIDE.encode(), digest_size=8)
    for place in ("packing.py", "byte_code.py", "byte_code.mjs", LIMIT.name):
        digest.update(Path(__file__).with_name(place).read_bytes())
    for name, data in files:
        digest.update(name.encode() + b"\0" + data)
    return digest.hexdigest()


def _sources() -> list[tuple[str, bytes]]:
    """List what a page holds of this package (Python and devices), and of PyYAML, by place."""
    import yaml

    found = []
    for file in sorted([*_PACKAGE.rglob("*.py"), *(_PACKAGE / "hardware").rglob("*.json")]):
        place = file.relative_to(_PACKAGE)
        if _LEFT_OUT.isdisjoint(place.parts):
            found.append((f"astranb/{place.as_posix()}", file.read_bytes()))
    found.append((f"astranb/{_STATIC}", (_PACKAGE / _STATIC).read_bytes()))
    found += [
        (f"yaml/{file.name}", file.read_bytes()) for file in sorted(Path(yaml.__file__).parent.glob("*.py"))
    ]
    return found


def _python(files: Mapping[str, Path], place: Path) -> dict[str, bytes]:
    lock = json.loads(files["pyodide-lock.json"].read_text("utf-8"))
    stdlib = _members(files["python_stdlib.zip"], _STDLIB_LEFT_OUT)
    numpy = _members(files["numpy"], _NUMPY_LEFT_OUT)
    archives = [Archive("python_stdlib.zip", stdlib, _STDLIB), Archive("numpy.zip", numpy)]
    made = byte_code(files, archives, place)
    return {
        "pyodide.asm.wasm": files["pyodide.asm.wasm"].read_bytes(),
        "pyodide-lock.json": json.dumps({"info": lock["info"], "packages": {}}).encode(),
        "python_stdlib.zip": made["python_stdlib.zip"],
        **_unpacked(made["numpy.zip"]),
    }


def _astranb(files: Mapping[str, Path], place: Path) -> dict[str, bytes]:
    kernels = f"astranb/_objects/{source_hash()}/{KERNEL_FOLDER}"
    members = _sources() + [(f"{kernels}/{name}.wasm", sealed(code)) for name, code in modules().items()]
    return _unpacked(byte_code(files, [Archive("astranb.zip", members, beside=_READ)], place)["astranb.zip"])


def _unpacked(archive: bytes) -> dict[str, bytes]:
    """List an archive's files by their places in a page's Python; ``site/`` is its ``site-packages``."""
    return {f"site/{name}": data for name, data in _members(io.BytesIO(archive), ())}


def _members(archive: Path | io.BytesIO, left_out: Sequence[str]) -> list[tuple[str, bytes]]:
    with zipfile.ZipFile(archive) as file:
        return [
            (name, file.read(name))
            for name in file.namelist()
            if not name.endswith("/") and not any(part in f"/{name}" for part in left_out)
        ]


def byte_code(files: Mapping[str, Path], archives: Sequence[Archive], place: Path) -> dict[str, bytes]:
    """Compile the Python files of archives, by the Python that will run them.

    Parameters
    ----------
    files : mapping of str to Path
        Pyodide's own (:func:`.sources.found`).
    archives : sequence of Archive
    place : Path
        An empty folder.

    Returns
    -------
    dict of str to bytes
        The new archives by their names; not compressed.
    """
    described = []
    for name, members, lib, beside, documented in archives:
        given, to = place / f"from-{name}", place / name
        with zipfile.ZipFile(given, "w", zipfile.ZIP_STORED) as out:
            for member, data in members:
                out.writestr(zipfile.ZipInfo(member), data)
        job = {"from": str(given), "to": str(to), "lib": lib, "beside": beside, "documented": documented}
        described.append(job)
    (place / "jobs.json").write_text(json.dumps(described), encoding="utf-8")
    script = Path(__file__).with_name("byte_code.mjs")
    command = [*node(), str(script), str(files["pyodide.mjs"].parent), str(place / "jobs.json")]
    done = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603
    if done.returncode:
        reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise InputError(f"byte code cannot be made: {reason}", where="live page")
    return {archive.name: (place / archive.name).read_bytes() for archive in archives}
