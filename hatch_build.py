"""How a wheel is built: hatchling, and machine code of all kernels for the usual processors.

Compiling takes minutes, so an editable installation does without: it compiles when it runs.
"""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

from hatchling.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
)
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]


def get_requires_for_build_wheel(_config_settings: dict[str, Any] | None = None) -> list[str]:
    """Return what the compiler needs: the package's own dependencies, as it imports itself.

    An editable installation needs none of it, which hatchling's own setting cannot say.
    """
    with Path("pyproject.toml").open("rb") as file:
        dependencies: list[str] = tomllib.load(file)["project"]["dependencies"]
    return dependencies


class Objects(BuildHookInterface[Any]):
    """Put object files into a wheel; those of unchanged kernels are kept in ``build/objects``."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, unless the installation is an editable one."""
        if version == "editable":
            return
        command = [sys.executable, "-m", "astranb.core.ahead", "--into", "build/objects"]
        done = subprocess.run(command, cwd=self.root, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
        folder = Path(self.root, done.stdout.strip())
        build_data["force_include"][str(folder)] = f"astranb/_objects/{folder.name}"
