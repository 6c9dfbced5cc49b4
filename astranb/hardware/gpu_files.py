"""GPUs by name or file: one file for each GPU, which every part of this package reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from astranb.core.errors import InputError, near
from astranb.core.plugins import Registry

from .gpu import Gpu, Preset
from .parts import PARTS, GpuLibrary, GpuMemory
from .reader import (
    DeviceFile,
    Provenance,
    device_file,
    device_names,
    is_file_name,
    quantities,
    read_device_file,
    unit_of,
    write_device_file,
)

__all__ = [
    "DEFAULT_GPU",
    "GPUS",
    "GPU_FILES",
    "GPU_FORMAT",
    "PRESETS",
    "SECTIONS",
    "SHORT_NAMES",
    "GpuDevice",
    "gpu_named",
    "preset",
    "preset_document",
    "read_gpu",
    "suggested_gpu",
    "write_preset",
]

DEFAULT_GPU: Final = "h100-sxm"
"""The GPU where none is named and nothing suggests one."""

GPU_FORMAT: Final = "astranb-gpu"

SECTIONS: Final[dict[str, type]] = {
    "memory": GpuMemory,
    "machine": Preset,
    "kernels": Gpu,
    **PARTS,
    "library": GpuLibrary,
}
"""The sections of a GPU's file, and the dataclass that declares the numbers of each."""

_WORDS: Final = {"sm_word": ("SM", "CU")}
_ADVICE: Final = "`astranb gpu from` makes a GPU's file from a measurement"
_DEFAULT: Final = Provenance("assumed", "not given: the default")
_One = TypeVar("_One")


@dataclass(frozen=True)
class GpuDevice:
    """All that the file of a GPU says.

    Attributes
    ----------
    file : DeviceFile
    like : str
        Name of the shipped GPU that has the numbers which a person's own file leaves out, or its own name if
        it is shipped.
    """

    file: DeviceFile
    like: str

    @property
    def name(self) -> str:
        """Name of the GPU."""
        return self.file.name

    @cached_property
    def memory(self) -> GpuMemory:
        """The memory as sold and as usable."""
        return self.file.make("memory", GpuMemory)

    @cached_property
    def library(self) -> GpuLibrary:
        """Properties by which collective libraries choose."""
        return self.file.make("library", GpuLibrary)

    @cached_property
    def kernels(self) -> Gpu:
        """Numbers for models: peaks, parts of them that kernels achieve, host, links, costs."""
        parts: dict[str, Any] = {
            f"own_{name}": self.file.make(name, made)
            for name, made in PARTS.items()
            if name in self.file.sections
        }
        found = self.file.make("kernels", Gpu, name=self.name, **parts)
        if self.like == self.name:  # shipped
            return found
        fitted = found.fitted or (f"like those of {self.like}" if self.like else "")
        machine = self._machine if "machine" in self.file.sections else None
        return replace(found, fitted=fitted, own_machine=machine)

    @cached_property
    def preset(self) -> Preset:
        """Numbers for simulations by cache lines."""
        kernels = replace(self.kernels, own_machine=None) if "kernels" in self.file.sections else None
        return replace(self._machine, kernels=kernels)

    @cached_property
    def _machine(self) -> Preset:
        known = dict.fromkeys(quantities(Preset), _DEFAULT)
        if "machine" in self.file.sections:
            known |= self.file.sections["machine"].origins
        if "memory" in self.file.sections:
            known["memory_bytes"] = self.file.sections["memory"].origins.get("usable_bytes", _DEFAULT)
        return self.file.make(
            "machine",
            Preset,
            name=self.name,
            sm_word=self.file.texts["sm_word"],
            like=self.like,
            sources=known,
        )

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield every number with its section, unit, kind and source."""
        for section, schema in SECTIONS.items():
            if section not in self.file.sections:
                continue
            values, origins = self.file.sections[section]
            defaults = {one.name: one.default for one in fields(schema)}
            for number, what in quantities(schema).items():
                value = values.get(number, defaults[number])
                if what.shared or value in ("", ()):
                    continue
                known = Provenance("", "") if what.text else origins.get(number, _DEFAULT)
                about = {"unit": unit_of(number), "kind": known.kind, "source": known.source}
                parts = (
                    {f"{number}.{key}": one for key, one in value.items()} if what.keys else {number: value}
                )
                for name, one in parts.items():
                    yield {"section": section, "number": name, "value": one, **about}


def _names() -> list[str]:
    """Return the names of all files: the default first, then in alphabetical order."""
    return sorted(device_names("gpus"), key=lambda name: (name != DEFAULT_GPU, name))


GPU_FILES: Final[Registry[str, Path]] = Registry(
    "presets",
    Path,
    lambda path: path.stem,
    {name: device_file("gpus", name) for name in _names()},
    read=Path,
)
"""The files of GPUs by name, those of plug-ins too."""


def read_gpu(name: str | Path) -> GpuDevice:
    """Read a GPU by its name, short or long, or from a file of JSON or YAML.

    Parameters
    ----------
    name : str or Path
        ``h100`` is ``h100-sxm``.

    Raises
    ------
    InputError
        The name is unknown (similar names are listed), or the file is not a GPU's.

    Examples
    --------
    >>> read_gpu("h100").memory
    GpuMemory(sold_bytes=80000000000, usable_bytes=85520809984)
    """
    long = SHORT_NAMES.get(str(name), str(name))
    if not is_file_name(name) and GPU_FILES.plugin(long) is not None:
        name = GPU_FILES[long]
    if is_file_name(name):
        file = read_device_file(name, "gpus", SECTIONS, _WORDS, _ADVICE)
        like = file.root.get("like", "").text()
        return GpuDevice(file, like)
    return _shipped(long)


@cache
def _shipped(name: str) -> GpuDevice:
    path = device_file("gpus", name)
    return GpuDevice(read_device_file(path, "gpus", SECTIONS, _WORDS), name)


class _Gpus(Mapping[str, _One]):
    """A view of the shipped GPUs by name; a file is read when its GPU is taken."""

    def __init__(self, section: str, attribute: str) -> None:
        self._section, self._attribute = section, attribute

    def __getitem__(self, name: str) -> _One:
        if name not in device_names("gpus") or self._section not in _shipped(name).file.sections:
            raise KeyError(name)
        found: _One = getattr(_shipped(name), self._attribute)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name in _names() if self._section in _shipped(name).file.sections)

    def __len__(self) -> int:
        return sum(1 for _ in self)


PRESETS: Final[Mapping[str, Preset]] = _Gpus("machine", "preset")
"""The shipped presets by name: GPUs whose machine is known."""

GPUS: Final[Mapping[str, Gpu]] = _Gpus("kernels", "kernels")
"""The shipped GPUs whose kernels models know, by name."""


class _ShortNames(Mapping[str, str]):
    def __getitem__(self, short: str) -> str:
        return self._known[short]

    def __iter__(self) -> Iterator[str]:
        return iter(self._known)

    def __len__(self) -> int:
        return len(self._known)

    @cached_property
    def _known(self) -> dict[str, str]:
        return {name.removesuffix("-sxm"): name for name in device_names("gpus") if name.endswith("-sxm")}


SHORT_NAMES: Final[Mapping[str, str]] = _ShortNames()
"""Names without their socket, which every command takes too: ``h100`` is ``h100-sxm``."""


def preset(name: str | Path) -> Preset:
    """Return a preset by its name, or read it from a file.

    Parameters
    ----------
    name : str or Path
        The name of a shipped GPU, or a GPU's file: JSON or YAML.

    Raises
    ------
    InputError
        The name is unknown (similar names are listed), or the file is not a GPU's.

    Examples
    --------
    >>> preset("h100-sxm").sms
    132
    """
    return read_gpu(name).preset


def gpu_named(name: str | Path) -> Gpu:
    """Return the numbers of a GPU for models, by its name or file.

    Raises
    ------
    InputError
        There is no such GPU, or its file has no section ``kernels``.

    Examples
    --------
    >>> gpu_named("b200").name
    'b200-sxm'
    """
    long = SHORT_NAMES.get(str(name), str(name))
    if not is_file_name(name) and long not in GPUS and GPU_FILES.plugin(long) is None:
        hint = f"{near(str(name), GPUS)}; or give a file with a section 'kernels'"
        raise InputError(f"no GPU {str(name)[:40]!r} for a model", where="gpu", hint=hint)
    return read_gpu(name).kernels


def preset_document(preset: Preset) -> dict[str, Any]:
    """Return a preset as the document of a GPU's file; numbers of models are those of the GPU it is like."""

    def entry(value: Any, number: str) -> Any:
        known = preset.sources.get(number)
        return value if known is None else {"value": value, "kind": known.kind, "source": known.source}

    machine = {n: entry(getattr(preset, n), n) for n, what in quantities(Preset).items() if not what.shared}
    usable = entry(preset.memory_bytes, "memory_bytes")
    memory = {"usable_bytes": usable} if preset.like else {"sold_bytes": usable, "usable_bytes": usable}
    found: dict[str, Any] = {"format": GPU_FORMAT, "version": 1, "name": preset.name}
    found |= {"like": preset.like} if preset.like else {}
    found |= {"sm_word": preset.sm_word, "memory": memory, "machine": machine}
    if preset.kernels is not None:
        base = GPUS.get(preset.like)
        for name in ("kernels", *PARTS):
            own, usual = (
                one if name == "kernels" else getattr(one, f"own_{name}", None)
                for one in (preset.kernels, base)
            )
            if changed := _changed(own, usual, name):
                found[name] = changed
    return found


def _changed(part: Any, usual: Any, section: str) -> dict[str, Any]:
    """Return the numbers of a section that are not those of another GPU."""
    if part is None:
        return {}
    values = {n: getattr(part, n) for n, what in quantities(SECTIONS[section]).items() if not what.shared}
    return {
        name: dict(value) if isinstance(value, Mapping) else value
        for name, value in values.items()
        if usual is None or value != getattr(usual, name)
    }


def write_preset(preset: Preset, path: str | Path) -> None:
    """Write a preset to a file, whole or not at all.

    Parameters
    ----------
    preset : Preset
    path : str or Path
        The file to write; its name must end in ``.json``.

    Raises
    ------
    InputError
        The file cannot be written, or its name does not end in ``.json``.

    Examples
    --------
    >>> import tempfile
    >>> from astranb.gpu import preset
    >>> file = Path(tempfile.mkdtemp()) / "few.json"
    >>> write_preset(preset("h100-sxm").but(sms=66), file)
    >>> preset(file).sms
    66
    """
    write_device_file(preset_document(preset), path)


def suggested_gpu(text: str) -> str | None:
    """Return the shipped GPU whose name a text has as a word, if any.

    Examples
    --------
    >>> suggested_gpu("8xh200"), suggested_gpu("gb200x"), suggested_gpu("mesh20")
    ('h200-sxm', 'gb200', None)
    """
    # Longer names first: gb200 has b200 in it.
    longest = sorted(_names(), key=lambda name: -len(_word(name)))
    return next((name for name in longest if _is_word(name, text) and name in PRESETS), None)


def _word(name: str) -> str:
    return name.split("-", 1)[0]


def _is_word(name: str, text: str) -> bool:
    """Return whether a text has a GPU's name: ``8xh200`` has h200, not h20; ``mesh20`` has neither."""
    return re.search(rf"(?<![a-fh-wyz]){re.escape(_word(name))}(?!\d)", text) is not None
