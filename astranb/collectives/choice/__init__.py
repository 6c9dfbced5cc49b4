"""The choice of the communication libraries: which algorithm, protocol and channels they run.

Models of the public rules of NCCL, RCCL, MSCCL++ and servers; nothing is simulated here.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

from astranb.collectives.language import collective_kind
from astranb.core.errors import InputError, near
from astranb.core.units import size_bytes
from astranb.gpu import Preset
from astranb.infragraph import Infra, resolve

from .candidate import LibraryCandidate, LibraryChoice, LibraryCost
from .copy_engines import choose_nccl_engines, choose_rccl_engines
from .mscclpp import choose_mscclpp
from .nccl import choose_nccl, nccl_cost
from .nccl_releases import nccl_release
from .nccl_symmetric import choose_nccl_symmetric
from .rccl import choose_rccl, rccl_cost
from .rccl_direct import choose_rccl_direct
from .serving import choose_sglang, choose_vllm
from .topology import LibraryView, library_view
from .trtllm import choose_trtllm

__all__ = [
    "LIBRARIES",
    "LibraryCandidate",
    "LibraryChoice",
    "LibraryCost",
    "LibraryView",
    "library_choice",
    "library_cost",
    "library_view",
]

_CHOOSERS: Final[dict[str, Callable[[LibraryView, str, int], LibraryChoice]]] = {
    "nccl": choose_nccl,
    "nccl-symmetric": choose_nccl_symmetric,
    "nccl-ce": choose_nccl_engines,
    "rccl": choose_rccl,
    "rccl-dda": choose_rccl_direct,
    "rccl-ce": choose_rccl_engines,
    "mscclpp": choose_mscclpp,
    "vllm": choose_vllm,
    "sglang": choose_sglang,
    "trtllm": choose_trtllm,
}
_BY_VENDOR: Final = ("nccl", "rccl")  # and what begins so; others say themselves where they run
LIBRARIES: Final = tuple(_CHOOSERS)
"""The libraries whose choice is modelled."""


def library_choice(
    infra: Infra | str | Path,
    collective: str,
    size: int | str,
    *,
    gpu: str | Path | Preset | None = None,
    library: str | None = None,
) -> LibraryChoice:
    """Return what a communication library runs for a collective on an infrastructure.

    Parameters
    ----------
    infra : Infra or str or Path
    collective : str
    size : int or str
        Bytes of the larger buffer of a rank.
    gpu : str or Path or Preset, optional
        As for :class:`astranb.Simulation`.
    library : str, optional
        One of :data:`LIBRARIES`, with a release behind ``@`` if it is not the one that is modelled, as
        ``"nccl@2.27.3"``; by default that of the GPUs' vendor. Rules of NCCL are known from 2.27.3 on; where
        those of a release or GPU are not, those of the nearest are taken, and ``nearest`` names it.

    Raises
    ------
    InputError
        The library is unknown, or there is no model of its choice for this machine or collective.

    Examples
    --------
    >>> choice = library_choice("dgx-h100", "all_reduce", "64 KiB")
    >>> choice.library, choice.algorithm, choice.protocol, choice.blocks
    ('nccl', 'Ring', 'LL', 2)
    >>> choice.to_run().title
    'all_reduce/ring/LL'
    >>> library_choice("mi355x", "all_reduce", "64 KiB", library="rccl@2.28.3").nearest[:35]
    "RCCL's rules for mi355x are not kno"
    """
    library, version = _named(library)
    if library is not None and library not in _CHOOSERS:
        raise InputError(f"unknown library {library[:40]!r}", where="library", hint=near(library, LIBRARIES))
    collective_kind(collective)
    count = size_bytes(size)
    if count < 1:
        raise InputError("size must be at least 1 B", where="size")
    where = resolve(infra)
    if gpu is not None and where.missing:  # what NCCL asks the driver for
        where = where.completed((gpu.like or gpu.name) if isinstance(gpu, Preset) else str(gpu))
    view = dataclasses.replace(library_view(where, gpu), version=version)
    if view.ranks < 2:
        raise InputError("a library chooses for two GPUs or more", where="library", hint="give an algorithm")
    vendor = (library or "").partition("-")[0]
    if vendor in _BY_VENDOR and view.amd != (vendor == "rccl"):
        other = "rccl" if view.amd else "nccl"
        raise InputError(f"{library} does not run on {view.gpu[:40]}", where="library", hint=f"use {other}")
    choice = _CHOOSERS[library or ("rccl" if view.amd else "nccl")](view, collective, count)
    return _of_version(choice, version) if version else choice


def _named(library: str | None) -> tuple[str | None, tuple[int, ...]]:
    """Return a library's name, and its release if one is given."""
    name, at, version = (library or "").partition("@")
    if not at:
        return library, ()
    if not re.fullmatch(r"\d{1,4}(\.\d{1,4}){0,3}", version):
        what = f"{version[:40]!r} is no release of {name[:40] or 'a library'}"
        raise InputError(what, where="library", hint="numbers with dots, as nccl@2.27.3")
    return name, tuple(map(int, version.split(".")))


def _of_version(choice: LibraryChoice, version: tuple[int, ...]) -> LibraryChoice:
    """Return the choice with its release, and with the one whose rules were taken for want of its own."""
    repository, at, files = choice.source.partition(",")
    named, taken, known = ".".join(map(str, version)), repository, False
    if choice.library == "nccl":
        release, known = nccl_release(version)
        taken = f"{repository.partition(' ')[0]} v{release.version}-1"
    says = "" if known else f"rules of {choice.library} {named} are not known: those of {taken} are taken"
    nearest = "; ".join(filter(None, (choice.nearest, says)))
    return dataclasses.replace(choice, version=named, nearest=nearest, source=f"{taken}{at}{files}")


def library_cost(view: LibraryView, collective: str, size_bytes: int) -> LibraryCost:
    """Return the cost of a collective of the GPUs' library, without the launch of its kernel.

    Parameters
    ----------
    view : LibraryView
        The ranks of the collective: all of a machine, or a group of them.
    collective : str
    size_bytes : int
        Bytes of the larger buffer of a rank.

    Raises
    ------
    InputError
        There is no model of the library's choice for these ranks or this collective.
    """
    return (rccl_cost if view.amd else nccl_cost)(view, collective, size_bytes)
