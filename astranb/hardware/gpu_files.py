"""GPUs by name or file: one file for each GPU, which every part of this package reads."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final, TypeVar

from astranb.core.errors import InputError, near
from astranb.core.plugins import Registry

from .gpu import Gpu, Preset
from .gpu_parts import PARTS, GpuLibrary, GpuMemory
from .reader import (
    DeviceFile,
    Provenance,
    device_file,
    device_names,
    inherited_numbers,
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
    """All that the file of a GPU says; it is read when it is asked for.

    Attributes
    ----------
    path : Path
    shipped : bool
        Whether the file is one of this package.
    """

    path: Path
    shipped: bool = False

    @cached_property
    def file(self) -> DeviceFile:
        """The document, with what it has of the GPU that it is like."""
        return read_device_file(self.path, "gpus", SECTIONS, _WORDS, _ADVICE)

    @property
    def name(self) -> str:
        """Name of the GPU."""
        return self.file.name

    @property
    def like(self) -> str:
        """Name of the shipped GPU that has the numbers which a person's own file leaves out, or its own."""
        return self.name if self.shipped else self.file.root.get("like", "").text()

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
        parts = {f"own_{name}": self.section(name) for name in PARTS if name in self.file.sections}
        found = self.file.make("kernels", Gpu, name=self.name, shipped=self.shipped, **parts)
        if self.shipped:
            return found
        machine = self.machine if "machine" in self.file.sections else None
        return replace(found, fitted=found.fitted or _like(self.like), own_machine=machine)

    @cached_property
    def preset(self) -> Preset:
        """Numbers for simulations by cache lines."""
        sections = self.file.sections
        return replace(
            self.machine,
            kernels=replace(self.kernels, own_machine=None) if "kernels" in sections else None,
            library=self.library if "library" in sections else None,
            sold_bytes=sections["memory"].values.get("sold_bytes"),
            other_sources={
                f"{section}.{number}": origin
                for section, given in sections.items()
                if section != "machine"
                for number, origin in given.origins.items()
            },
        )

    @cached_property
    def machine(self) -> Preset:
        """As :attr:`preset`, with the numbers of section ``machine`` only."""
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
            shipped=self.shipped,
            sources=known,
        )

    def section(self, name: str) -> Any:
        """Make the dataclass of a section, one of :data:`SECTIONS`.

        Raises
        ------
        InputError
            The section or one of its numbers is missing, or the numbers do not fit together.
        """
        return self.file.make(name, SECTIONS[name]) if name in PARTS else getattr(self, name)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Yield every number with its section, unit, kind and source.

        Raises
        ------
        InputError
            A section is not whole.
        """
        for section, schema in SECTIONS.items():
            if section not in self.file.sections:
                continue
            self.section(section)  # reports missing numbers
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


def _plugged(path: str | Path) -> GpuDevice:
    """Read the file of a plug-in whole, so that what is wrong is known when it is loaded."""
    found = GpuDevice(Path(path))
    list(found.rows())
    return found


GPU_FILES: Final[Registry[str, GpuDevice]] = Registry(
    "presets",
    GpuDevice,
    lambda device: device.name,
    {name: GpuDevice(device_file("gpus", name), shipped=True) for name in _names()},
    read=_plugged,
)
"""GPUs by name, those of plug-ins too."""


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
    if is_file_name(name):
        found = GpuDevice(Path(name))
        _ = found.file  # what is wrong with it is reported here
        return found
    if long not in GPU_FILES:
        hint = f"{near(str(name), GPU_FILES)} (or give a file, as my-gpu.yaml)"
        raise InputError(f"unknown GPU {str(name)[:40]!r}", hint=hint)
    return GPU_FILES[long]


_SHIPPED: Final = GPU_FILES.own()


class _Gpus(Mapping[str, _One]):
    """A view of the shipped GPUs by name; a file is read when its GPU is taken."""

    def __init__(self, section: str, attribute: str) -> None:
        self._section, self._attribute = section, attribute

    def __getitem__(self, name: str) -> _One:
        if name not in _SHIPPED or self._section not in _SHIPPED[name].file.sections:
            raise KeyError(name)
        found: _One = getattr(_SHIPPED[name], self._attribute)
        return found

    def __iter__(self) -> Iterator[str]:
        return (name for name, device in _SHIPPED.items() if self._section in device.file.sections)

    def __len__(self) -> int:
        return sum(1 for _ in self)


PRESETS: Final[Mapping[str, Preset]] = _Gpus("machine", "preset")
"""The shipped presets by name: GPUs whose machine is known."""

GPUS: Final[Mapping[str, Gpu]] = _Gpus("kernels", "kernels")
"""The shipped GPUs whose kernels models know, by name."""


SHORT_NAMES: Final[Mapping[str, str]] = {
    name.removesuffix("-sxm"): name for name in device_names("gpus") if name.endswith("-sxm")
}
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
        known = [*GPUS, *(one.name for one in GPU_FILES.plugins())]
        hint = f"{near(str(name), known)} (or give a file with a section 'kernels')"
        raise InputError(f"no GPU {str(name)[:40]!r} for a model", where="gpu", hint=hint)
    return read_gpu(name).kernels


def _like(name: str) -> str:
    """Return the fit of kernels whose own file says nothing of it."""
    return f"like those of {name}" if name else ""


def preset_document(preset: Preset) -> dict[str, Any]:
    """Return a preset as the document of a GPU's file.

    Sections other than ``machine`` have the numbers that are not those of the GPU that it is like.
    """

    def entry(value: Any, known: Provenance | None) -> Any:
        value = dict(value) if isinstance(value, Mapping) else value
        return value if known is None else {"value": value, "kind": known.kind, "source": known.source}

    own = [number for number, what in quantities(Preset).items() if not what.shared]
    machine = {number: entry(getattr(preset, number), preset.sources.get(number)) for number in own}
    usable = entry(preset.memory_bytes, preset.sources.get("memory_bytes"))
    memory = {} if preset.like else {"sold_bytes": usable}
    if preset.sold_bytes is not None:
        memories = GpuMemory(preset.sold_bytes, preset.memory_bytes)
        memory |= {number: entry(*one) for number, one in _changed(preset, "memory", memories)}
    found: dict[str, Any] = {"format": GPU_FORMAT, "version": 1, "name": preset.name}
    found |= {"like": preset.like} if preset.like else {}
    found |= {"sm_word": preset.sm_word, "memory": memory | {"usable_bytes": usable}, "machine": machine}
    kernels = preset.kernels
    parts = {name: getattr(kernels, f"own_{name}", None) for name in PARTS}
    for section, part in {"kernels": kernels, **parts, "library": preset.library}.items():
        if changed := {number: entry(*one) for number, one in _changed(preset, section, part)}:
            found[section] = changed
    return found


def _changed(preset: Preset, section: str, part: Any) -> Iterator[tuple[str, tuple[Any, Provenance | None]]]:
    """Yield the numbers of a section, with their origins, that are not those of the GPU that it is like."""
    base = _SHIPPED.get(preset.like)
    given = base.file.sections.get(section) if base and part is not None else None
    usual = base.section(section) if base and given else None
    inherited = inherited_numbers(base.file, section).origins if base and given else {}
    defaults = {one.name: one.default for one in fields(SECTIONS[section])}
    for number, what in quantities(SECTIONS[section]).items() if part is not None else ():
        value, origin = getattr(part, number), preset.other_sources.get(f"{section}.{number}")
        theirs = (None, inherited.get(number), given.origins.get(number) if given else None)
        same = value == (getattr(usual, number) if usual else defaults[number])
        if what.shared or (same and origin in theirs) or (what.text and value == _like(preset.like)):
            continue
        yield number, (value, origin if same or origin not in theirs else None)


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
    """Return the shipped GPU whose name a text has as a word, if any; of a variant all words of its name.

    Examples
    --------
    >>> suggested_gpu("8xh200"), suggested_gpu("gb200x"), suggested_gpu("mesh20")
    ('h200-sxm', 'gb200', None)
    >>> suggested_gpu("ndv4_a100_40"), suggested_gpu("ndmv4_a100"), suggested_gpu("a100_400g")
    ('a100-sxm-40', 'a100-sxm', 'a100-sxm')
    """
    # Longer names first: gb200 has b200 in it.
    longest = sorted(PRESETS, key=lambda name: -len("".join(_words(name))))
    return next((name for name in longest if _has_words(name, text)), None)


def _words(name: str) -> list[str]:
    return [word for word in name.split("-") if word != "sxm"]


def _has_words(name: str, text: str) -> bool:
    """Return whether a text has a GPU's name: ``8xh200`` has h200, not h20; ``mesh20`` has neither."""
    first, *more = (re.escape(word) for word in _words(name))
    found = re.search(rf"(?<![a-fh-wyz]){first}(?!\d)", text)
    return found is not None and all(re.search(rf"(?<![a-z0-9]){word}(?!\d)", text) for word in more)
