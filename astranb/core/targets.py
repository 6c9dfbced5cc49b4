"""The processors and systems that machine code is made for."""

from __future__ import annotations

import platform
import sys
from dataclasses import dataclass
from typing import Any

__all__ = ["PORTABLE", "Target", "host", "portable_names"]

_V3 = {"avx", "avx2", "bmi", "bmi2", "f16c", "fma", "lzcnt", "movbe", "xsave"}
"""Features of the x86-64-v3 level beyond v2, by LLVM's names."""


@dataclass(frozen=True)
class Target:
    """One processor under one system.

    Parameters
    ----------
    name : str
        Names its folder of object files.
    triple : str
        LLVM's name of processor, vendor and system; decides the format of the object file.
    cpu : str
        LLVM's name of the processor model or level.
    features : str
        Instruction sets beyond those of `cpu`, as LLVM writes them.
    """

    name: str
    triple: str
    cpu: str
    features: str = ""

    def machine(self) -> Any:
        """Return llvmlite's target machine, with the options that Numba uses for loaded code."""
        import llvmlite.binding as llvm

        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
        return llvm.Target.from_triple(self.triple).create_target_machine(
            cpu=self.cpu,
            features=self.features,
            opt=3,
            reloc="static" if self.triple.startswith("x86") else "default",
            codemodel="jitdefault",
            jit=True,
        )


PORTABLE = (
    Target("linux-x86_64_v3", "x86_64-unknown-linux-gnu", "x86-64-v3"),
    Target("linux-x86_64", "x86_64-unknown-linux-gnu", "x86-64"),
    Target("linux-aarch64", "aarch64-unknown-linux-gnu", "generic"),
    Target("macos-x86_64_v3", "x86_64-apple-macosx11.0", "x86-64-v3"),
    Target("macos-x86_64", "x86_64-apple-macosx11.0", "x86-64"),
    Target("macos-aarch64", "arm64-apple-macosx11.0", "apple-m1"),
)
"""Targets whose object files a wheel contains."""


def host() -> Target:
    """Describe this machine's own processor: for code that stays on this machine."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    return Target("host", llvm.get_process_triple(), llvm.get_host_cpu_name(), features)


def portable_names() -> list[str]:
    """Name the portable targets whose code runs on this machine, the fastest first."""
    import llvmlite.binding as llvm

    system = {"linux": "linux", "darwin": "macos"}.get(sys.platform)
    kind = {"x86_64": "x86_64", "amd64": "x86_64", "aarch64": "aarch64", "arm64": "aarch64"}.get(
        platform.machine().lower()
    )
    levels = ["", "_v3"] if kind == "x86_64" and _has_v3(llvm.get_host_cpu_features()) else [""]
    return [f"{system}-{kind}{level}" for level in reversed(levels)]


def _has_v3(features: dict[str, bool]) -> bool:
    return all(features.get(name) for name in _V3)
