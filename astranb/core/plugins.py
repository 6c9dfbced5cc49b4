"""Plug-ins: objects that other distributions offer by entry points, and the registries of all such objects.

A distribution names an object in one of the groups ``astranb.algorithms``, ``astranb.formats``, …
(:data:`KINDS`). Entry points are read from the files of installed distributions when a registry is asked
for a name. The code of a plug-in runs only when its own name is asked for.
"""

from __future__ import annotations

import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from functools import cache
from importlib import import_module  # noqa: TID251 - an entry point of another distribution
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from astranb.core.version import __version__

from .errors import AstranbError, InputError

__all__ = ["KINDS", "Plugin", "Registry", "installed", "of", "recorded"]

K = TypeVar("K")
T = TypeVar("T")

KINDS: Final = {
    "algorithms": "algorithms of collectives",
    "formats": "formats of files that are read",
    "presets": "GPUs",
    "targets": "simulators that traffic is written for",
    "costs": "cost models: times of kernels",
    "views": "views of the workbench",
}
"""The kinds of plug-ins: the group of entry points is ``astranb.KIND``."""

_GROUP: Final = "astranb."
_ENTRY_POINTS: Final = "entry_points.txt"
_REQUIRES: Final = re.compile(r"\s*astranb\s*(?:\[[^\]]*\])?\s*(?:\(([^()]*)\)|([^()]*))\s*", re.IGNORECASE)
_EXTRA: Final = re.compile(r"\bextra\b")
_VERSION: Final = r"(\d+(?:\.\d+)*)(?:[-_.]?(dev|a|b|rc|post)[-_.]?(\d*))?"
_CLAUSE: Final = re.compile(rf"\s*(>=|<=|==|!=|~=|>|<)\s*({_VERSION})(\.\*)?\s*", re.IGNORECASE)
_STAGES: Final = ("dev", "a", "b", "rc", "", "post")
"""Parts of a version behind its numbers, in the order of time."""


class Plugin(NamedTuple):
    """An object that an installed distribution offers.

    Attributes
    ----------
    kind : str
        One of :data:`KINDS`.
    name : str
        The name of the entry point.
    distribution, version : str
    value : str
        Where the object is: ``module:attribute``.
    requires : tuple of str
        What its distribution requires of astranb, as ``>=0.2``.
    """

    kind: str
    name: str
    distribution: str
    version: str
    value: str
    requires: tuple[str, ...] = ()

    @property
    def source(self) -> str:
        """The distribution and its version."""
        return f"{self.distribution} {self.version}"

    def __str__(self) -> str:
        """The distribution, its version, the kind and the name."""
        return f"{self.source}, {_GROUP}{self.kind} {self.name!r}"

    def check(self) -> None:
        """Check that this version of astranb is one that its distribution is for; raise InputError if not."""
        unmet = ", ".join(text for text in self.requires if not _met(text))
        if unmet:
            hint = f"update astranb, or run pip uninstall {self.distribution}"
            raise self.error(f"it is for astranb {unmet}, and this is {__version__}", hint)

    def error(self, what: str, hint: str = "") -> InputError:
        """Return the error of this plug-in; without a hint, to update or uninstall it."""
        remedy = hint or f"update it, or run pip uninstall {self.distribution}"
        return InputError(what, where=f"plug-in {self}", hint=remedy)


def _met(specifier: str, version: str = __version__) -> bool:
    """Return whether a version fits a specifier; clauses in other forms are left to pip.

    Examples
    --------
    >>> [_met(text, "1.4.2") for text in (">=1.4", ">=1.4,<1.5", "~=1.4", "==1.4.*", ">1.4.2", ">=1.5")]
    [True, True, True, True, False, False]
    >>> [_met(text, "1.4") for text in (">=1.4rc1", ">1.4rc1", "<1.4rc1", "==1.4rc1", ">=1.5rc1")]
    [True, True, False, False, False]
    """
    own, own_stage = _parsed(version)
    for text in specifier.split(","):
        clause = _CLAUSE.fullmatch(text)
        if clause is None:
            continue
        sign, (wanted, stage) = clause[1], _parsed(clause[2])
        begins = own[: len(wanted)] == wanted
        width = max(len(own), len(wanted))
        numbers, others = ((*some, *[0] * (width - len(some))) for some in (own, wanted))
        a, b = (numbers, own_stage), (others, stage)
        apart = numbers != others or stage != _parsed("")[1]  # 1.4rc1 is not <1.4, nor 1.4.post1 >1.4
        met = {
            ">=": a >= b, "<=": a <= b, ">": a > b and apart, "<": a < b and apart,
            "==": begins if clause[6] else a == b,
            "!=": not begins if clause[6] else a != b,
            "~=": a >= b and own[: len(wanted) - 1] == wanted[:-1],
        }[sign]  # fmt: skip
        if not met:
            return False
    return True


def _parsed(version: str) -> tuple[tuple[int, ...], tuple[int, int]]:
    """Return the numbers of a version, and its stage with a number."""
    found = re.match(_VERSION, version, re.IGNORECASE)
    numbers = tuple(map(int, found[1].split("."))) if found else ()
    stage = (found[2] or "").lower() if found else ""
    return numbers, (_STAGES.index(stage), int((found and found[3]) or 0))


def installed(kind: str | None = None) -> list[Plugin]:
    """List the plug-ins of a kind, or all, without loading any.

    Parameters
    ----------
    kind : str, optional
        One of :data:`KINDS`.
    """
    return [plugin for plugin in _scanned(tuple(sys.path)) if kind in (None, plugin.kind)]


@cache
def _scanned(folders: tuple[str, ...]) -> tuple[Plugin, ...]:
    """Read the entry points of the distributions in some folders: of one distribution, those of the first."""
    found: dict[str, list[Plugin]] = {}
    for folder in dict.fromkeys(folders):
        for metadata in _metadata(folder or "."):
            name, plugins = _offered(metadata)
            found.setdefault(re.sub(r"[-_.]+", "-", name).lower(), plugins)
    return tuple(sorted(plugin for plugins in found.values() for plugin in plugins))


def _metadata(folder: str) -> Iterator[Path]:
    """Yield the folders of metadata with entry points of ours: a fifth of the time that importlib takes."""
    try:
        names = sorted(os.listdir(folder))  # noqa: PTH208 - hundreds of names, of which few become paths
    except OSError:
        return
    for name in names:
        if name.endswith((".dist-info", ".egg-info")):
            file = Path(folder, name, _ENTRY_POINTS)
            try:
                ours = f"[{_GROUP}".encode() in file.read_bytes()
            except OSError:
                continue
            if ours:
                yield file.parent


def _offered(metadata: Path) -> tuple[str, list[Plugin]]:
    from importlib.metadata import Distribution  # only where there is a plug-in: it takes 40 ms

    one = Distribution.at(metadata)
    name = one.metadata["Name"] or metadata.stem.partition("-")[0]
    required = [text.partition(";") for text in one.requires or ()]
    matches = [_REQUIRES.fullmatch(text) for text, _, marker in required if not _EXTRA.search(marker)]
    specifiers = [(match[1] or match[2] or "").strip() for match in matches if match]
    requires = tuple(filter(None, specifiers))
    return name, [
        Plugin(entry.group.removeprefix(_GROUP), entry.name, name, one.version, entry.value, requires)
        for entry in one.entry_points
        if entry.group.startswith(_GROUP)
    ]


def of(kind: str, name: str) -> Plugin | None:
    """Find the plug-in with a name, without loading it; None: the name is built in or unknown.

    Examples
    --------
    >>> of("presets", "h100-sxm") is None
    True
    """
    return next((plugin for plugin in installed(kind) if plugin.name == name), None)


_loaded: dict[Plugin, Any] = {}
"""The objects of plug-ins, of all registries."""
_loading: list[Plugin] = []
"""Plug-ins whose code is being imported: the last one runs."""
_recorders: list[dict[Plugin, None]] = []


@contextmanager
def recorded() -> Iterator[dict[Plugin, None]]:
    """Collect the plug-ins that are used inside the block, in their order.

    Examples
    --------
    >>> with recorded() as used:
    ...     pass
    >>> list(used)
    []
    """
    used: dict[Plugin, None] = {}
    _recorders.append(used)
    try:
        yield used
    finally:
        del _recorders[next(at for at, one in enumerate(_recorders) if one is used)]


class Registry(MutableMapping[K, T], Generic[K, T]):
    """Objects by name: built-in ones, those that this process registers, and those of plug-ins.

    Names can be listed without loading a plug-in. To look up a plug-in's object loads it, once.

    Parameters
    ----------
    kind : str
        One of :data:`KINDS`.
    item : type
        What the objects are.
    name_of : callable
        Returns the key of an object: that of a plug-in must be the name of its entry point.
    items : mapping, optional
        The built-in ones; where not given, those that are registered until :meth:`seal` is called.
    key_of : callable, optional
        Returns the key for the name of an entry point; by default the name itself.
    read : callable, optional
        Makes an object of what an entry point names, as of a file.
    module_of : callable, optional
        Returns the module that an object is of, where modules register their objects.

    Examples
    --------
    >>> sizes = Registry("presets", int, str, {"1": 1, "2": 2})
    >>> sizes["2"], "3" in sizes, list(sizes)
    (2, False, ['1', '2'])
    """

    def __init__(
        self,
        kind: str,
        item: type[T],
        name_of: Callable[[T], K],
        items: Mapping[K, T] | None = None,
        *,
        key_of: Callable[[str], Any] = str,
        read: Callable[[Any], Any] = lambda found: found,
        module_of: Callable[[T], str] = lambda _: "",
    ) -> None:
        self.kind, self._item = kind, item
        self._name_of: Callable[[T], K] = name_of
        self.key_of, self._read = key_of, read
        self._module_of: Callable[[T], str] = module_of
        self._items: dict[K, T] = dict(items or {})
        self._sealed = items is not None

    def seal(self) -> None:
        """End the registration of built-in objects."""
        self._sealed = True

    def _plugins(self, key: K | None = None) -> dict[str, Plugin]:
        """Return plug-ins by their names: all, or that with a key. Names that are taken are errors."""
        name = None if key is None else _text(key)
        listed = [one for one in installed(self.kind) if name in (None, one.name)]
        if not listed:
            return {}
        counts, taken = Counter(one.name for one in listed), set(map(_text, self._items))
        for one in listed:
            if one.name in taken:
                raise one.error("the name is taken: a plug-in cannot replace what is built in")
            if counts[one.name] > 1:
                others = [str(other) for other in listed if other.name == one.name and other is not one]
                raise one.error(f"another distribution has the same name: {'; '.join(others)}")
        return {one.name: one for one in listed}

    def __getitem__(self, key: K) -> T:
        """Return an object, of a plug-in after loading it."""
        plugin = self.plugin(key)
        return self._items[key] if plugin is None else self._object(plugin)

    def __setitem__(self, key: K, item: T) -> None:
        """Register an object; one that the module of a plug-in registers is the plug-in's."""
        own = self.plugin(key) if self._sealed else None
        by = _loading[-1] if self._sealed and _loading else None
        module = self._module_of(item)
        if own and (_package(module) == _package(own.value) or (by and by.distribution == own.distribution)):
            own.check()
            _loaded[own] = item
        elif by:
            why = "is built in" if key in self._items else "is none of its entry points"
            raise by.error(f"its module registers {_text(key)!r}, which {why}")
        elif own:
            hint = f"register it by another name, or run pip uninstall {own.distribution}"
            raise InputError(f"{_text(key)!r} is the name of plug-in {own}", where=module, hint=hint)
        else:
            self._items[key] = item

    def __delitem__(self, key: K) -> None:
        """Remove an object that this process has registered."""
        del self._items[key]

    def __contains__(self, key: object) -> bool:
        """Return whether the name is known; no plug-in is loaded."""
        return key in self._items or _text(key) in self._plugins()

    def __iter__(self) -> Iterator[K]:
        """Yield all names, those of plug-ins last; none is loaded."""
        yield from self._items
        yield from map(self.key_of, self._plugins())

    def __len__(self) -> int:
        """Count the names."""
        return len(self._items) + len(self._plugins())

    def plugins(self) -> list[Plugin]:
        """List the plug-ins, without loading any."""
        return list(self._plugins().values())

    def own(self) -> dict[K, T]:
        """Return what is built in or registered by this process, without plug-ins."""
        return dict(self._items)

    def plugin(self, key: K) -> Plugin | None:
        """Return the plug-in that has a name; None: it is built in, or there is none.

        Raises
        ------
        InputError
            A plug-in has the name of a built-in object, or of another plug-in.
        """
        return self._plugins(key).get(_text(key))

    def _object(self, plugin: Plugin) -> T:
        # An import that failed may have registered it.
        whole = plugin in _loaded and _module(plugin) in sys.modules
        found: T = _loaded[plugin] if whole else self._load(plugin)
        for used in _recorders:
            used[plugin] = None
        return found

    def _load(self, plugin: Plugin) -> T:
        """Load a plug-in: whole, or not at all."""
        plugin.check()
        objects, modules = dict(_loaded), set(sys.modules)
        module, attribute = _module(plugin), plugin.value.partition("[")[0].strip().partition(":")[2]
        _loading.append(plugin)
        try:
            found: Any = import_module(module)
            for part in filter(None, attribute.split(".")):
                found = getattr(found, part)
            found = _loaded[plugin] if plugin in _loaded else self._read(found)
            self._check(plugin, found)
        except (Exception, SystemExit) as error:  # whatever its code raises
            _loaded.clear()
            _loaded.update(objects)
            for name in set(sys.modules) - modules:
                if _package(name) == _package(module):
                    del sys.modules[name]
            if isinstance(error, InputError) and error.where == f"plug-in {plugin}":
                raise
            raise plugin.error(_described(error)) from error
        finally:
            _loading.pop()
        item: T = found
        _loaded[plugin] = item
        return item

    def _check(self, plugin: Plugin, found: Any) -> None:
        if not isinstance(found, self._item):
            raise plugin.error(f"{plugin.value} is of {type(found).__name__}, not of {self._item.__name__}")
        if (name := _text(self._name_of(found))) != plugin.name:
            raise plugin.error(f"{plugin.value} is called {name!r}: give the entry point the same name")

    @contextmanager
    def running(self, key: K) -> Iterator[None]:
        """Report what the code of a plug-in raises inside the block as an error of the plug-in.

        Parameters
        ----------
        key : str or tuple of str
            Whose code runs; of a built-in object errors stay as they are.
        """
        try:
            yield
        except AstranbError:
            raise
        except Exception as error:
            plugin = self.plugin(key)
            if plugin is None:
                raise
            raise plugin.error(_described(error)) from error


def _module(plugin: Plugin) -> str:
    return plugin.value.partition("[")[0].partition(":")[0].strip()


def _package(module: str) -> str:
    """Return the outermost package of a module, or of what an entry point names."""
    return re.split(r"[.:\[]", module.strip())[0].strip()


def _text(key: object) -> str:
    """Return the name of an entry point for a key: ``all_reduce.mine`` for a pair."""
    return ".".join(key) if isinstance(key, tuple) else str(key)


def _described(error: BaseException) -> str:
    return str(error) if isinstance(error, InputError) else f"{type(error).__name__}: {error}"
