"""Snapshots: the tables of a long run, kept in the user's own cache so that its recipe opens at once.

A snapshot is used only where this user wrote it, with these very kernels, and where its state has the hash
that the recipe says; otherwise the run is simulated. Nobody needs one: deleting them costs time alone.
"""

from __future__ import annotations

import dataclasses
import hashlib
import hmac
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from astranb.core.code import cache_folder
from astranb.core.errors import InputError
from astranb.core.files import whole_file
from astranb.core.host import THREADS
from astranb.core.number_files import arrays_of, bytes_of
from astranb.core.version import __version__
from astranb.engine import Edit, is_rerouted

if TYPE_CHECKING:
    from astranb.engine import Engine

    from .driver import Driver
    from .position import Position

__all__ = ["LEAST_EVENTS", "enter", "keep"]

LEAST_EVENTS: Final = 5_000_000
"""Events of a run that takes long to simulate, of which a snapshot is kept."""
_MOST_EACH: Final = 1 << 28
_MOST_ALL: Final = 1 << 30
"""Bytes of one snapshot, and of all: the oldest ones go."""
_KEY_BYTES: Final = 32
_KEY, _ENDING, _EDITS, _LAYOUT = "key", ".snapshot", "edits", "layout"


def keep(recipe: bytes, driver: Driver) -> None:
    """Keep the state that a recipe leads to, if simulating it takes long; where it cannot be, do nothing."""
    engine = driver.engine
    if driver.events < LEAST_EVENTS or engine.state_bytes > _MOST_EACH or is_rerouted(driver.edits):
        return
    with suppress(OSError, InputError, MemoryError):
        folder, name = _folder(), _name(recipe)
        if folder is None or (folder / name).exists():
            return
        edits = json.dumps([dataclasses.asdict(edit) for edit in driver.edits])
        texts = {_EDITS: edits, _LAYOUT: _layout(engine)}
        more = {name: np.frombuffer(text.encode(), np.uint8) for name, text in texts.items()}
        content = bytes_of({**engine.kept(whole=True), **more})
        if len(content) > _MOST_EACH:
            return
        with whole_file(folder / name) as file:
            file.write(_seal(_key(folder), name, content))
            file.write(content)
        _remove_oldest(folder)


def enter(recipe: bytes, driver: Driver, position: Position) -> bool:
    """Take a run at its start to the state of a snapshot, if there is one that can be believed.

    Returns
    -------
    bool
        Whether the run is at the position; otherwise it is at its start.
    """
    if position.events < LEAST_EVENTS:
        return False
    try:
        folder, name = _folder(), _name(recipe)
        content = None if folder is None else _read(folder, name)
        if content is None:
            return False
        tables = arrays_of(content, name)
        edits = [
            Edit(**{**edit, "rows": tuple(edit["rows"]), "numbers": tuple(edit["numbers"])})
            for edit in json.loads(tables.pop(_EDITS).tobytes())
        ]
        entered = _enter_tables(driver.engine, tables)
        driver.edits[:] = edits
    except (OSError, InputError, ValueError, TypeError, KeyError):  # of an older form, for example
        entered = False
    if entered and driver.events == position.events and driver.engine.digest() == position.hash:
        return True
    driver.restart()
    return False


def _enter_tables(engine: Engine, tables: dict[str, np.ndarray]) -> bool:
    """Continue from tables; return whether they are of this run's layout: its fields, types and lengths."""
    if tables.pop(_LAYOUT).tobytes().decode() != _layout(engine):
        return False
    sizes = {name: table.nbytes for name, table in tables.items()}
    kept = engine.kept(sizes, whole=True)
    if {name: len(data) for name, data in kept.items()} != sizes:
        return False
    for name, data in kept.items():
        data[:] = tables[name].data
    return True


def _layout(engine: Engine) -> str:
    """Write the names and types of the fields of all tables."""
    return json.dumps({name: dtype.descr for name, dtype in engine.layout.items()}, sort_keys=True)


def _folder() -> Path | None:
    """Name (and make) the folder of snapshots beside that of machine code, which is this user's own."""
    if not THREADS:  # a page has no files that stay
        return None
    folder = cache_folder().parent / "snapshots"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder if _is_own(folder) else None


def _is_own(path: Path) -> bool:
    """Return whether a file or folder is this user's, and nobody else can read or write it."""
    if not hasattr(os, "geteuid"):  # Windows
        return True
    found = path.lstat()
    return found.st_uid == os.geteuid() and not found.st_mode & 0o077


def _name(recipe: bytes) -> str:
    """Name the snapshot of a recipe, as this version and its kernels lay out the tables."""
    by = f"{__version__} {cache_folder().name} "
    return f"{hashlib.sha256(by.encode() + recipe).hexdigest()[:_KEY_BYTES]}{_ENDING}"


def _key(folder: Path) -> bytes:
    """Read the key of this user; make it where there is none, or only a part of one."""
    path = folder / _KEY
    if not path.exists() or (_is_own(path) and path.stat().st_size != _KEY_BYTES):
        opened, made = tempfile.mkstemp(dir=folder)  # which only this user can read
        with os.fdopen(opened, "wb") as file:
            file.write(os.urandom(_KEY_BYTES))
        Path(made).replace(path)
    key = path.read_bytes() if _is_own(path) else b""
    if len(key) != _KEY_BYTES:
        raise OSError(f"{path} is not a key of this user")
    return key


def _seal(key: bytes, name: str, content: bytes) -> bytes:
    return hmac.new(key, name.encode() + content, hashlib.sha256).digest()


def _read(folder: Path, name: str) -> bytes | None:
    """Return the contents of a snapshot that this user wrote; None where there is none."""
    path = folder / name
    if not path.is_file() or path.stat().st_size > _MOST_EACH + _KEY_BYTES:
        return None
    data = path.read_bytes()
    seal, content = data[:_KEY_BYTES], data[_KEY_BYTES:]
    if not hmac.compare_digest(seal, _seal(_key(folder), name, content)):
        return None
    os.utime(path)  # the oldest are those that nobody opens
    return content


def _remove_oldest(folder: Path) -> None:
    """Remove the snapshots that were not used for longest, until all fit."""
    found: list[tuple[float, int, Path]] = []
    for path in folder.glob(f"*{_ENDING}"):
        with suppress(OSError):
            state = path.stat()
            found.append((state.st_mtime, state.st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= _MOST_ALL:
            return
        with suppress(OSError):
            path.unlink()
        total -= size
