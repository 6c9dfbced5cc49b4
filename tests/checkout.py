"""Names of files and folders in the root of the checkout."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path


def in_root(root: Path) -> set[str]:
    """Return the names in the root of a checkout, without what git ignores."""
    ignore = root / ".gitignore"
    ignored = [".git", *(ignore.read_text(encoding="utf-8").split() if ignore.exists() else ())]
    names = {path.name for path in root.iterdir()}
    return {name for name in names if not any(fnmatch(name, one.rstrip("/")) for one in ignored)}
