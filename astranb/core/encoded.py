"""Objects of known classes as JSON with arrays beside it, and back, checked against their annotations.

A class is a dataclass or a named tuple. Its fields are written by name, its annotations say what may be read
again: numbers, texts, lists, mappings, arrays, other known classes. Nothing else is ever made, so a document
from anywhere can hold no code. Fields called ``where`` say where something was read: they are not written.
"""

from __future__ import annotations

import dataclasses
import inspect
import math
import types
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any, Final, Literal, NamedTuple, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np

from .errors import AstranbError, InputError, near
from .given import Given
from .state import require_bytes

__all__ = ["TYPING", "Decoder", "Encoder", "Form", "Kinds", "require"]

_LONG: Final = 32
"""More whole numbers than these are an array."""
_MOST_DEPTH: Final = 60
_MOST_TEXT: Final = 1 << 24
_MOST_WHOLE: Final = 1 << 63
_MOST_LISTED: Final = 1 << 24
"""Elements of all lists of a document that arrays and numbers of distinct objects stand for."""
_LONG_LIST: Final = 1 << 16
_ELEMENT_BYTES: Final = 40
"""Bytes of a whole number in a list."""
_NUMBERS: Final = (bool, int, float)


class Form(NamedTuple):
    """A form of a class other than that of its fields.

    Attributes
    ----------
    encode : callable
        Takes the object and the :class:`Encoder`; returns a mapping for JSON.
    decode : callable
        Takes that mapping, the :class:`Decoder` and the place of the object; returns the object.
    """

    encode: Callable[[Any, Encoder], dict[str, Any]]
    decode: Callable[[Mapping[str, Any], Decoder, str], Any]


class Kinds(NamedTuple):
    """The classes that a document may hold.

    Attributes
    ----------
    classes : sequence of type
    forms : mapping of type to Form
        Of classes with another form than their fields; of subclasses too.
    left_out : collection of (str, str)
        Names of a class and a field that is not written: it follows from the others.
    shared : collection of str
        Names of classes whose objects are written once, however many refer to them.
    """

    classes: Sequence[type]
    forms: Mapping[type, Form]
    left_out: frozenset[tuple[str, str]] = frozenset()
    shared: frozenset[str] = frozenset()

    def form(self, cls: type) -> Form | None:
        """Return the form of a class, or None where it is that of its fields."""
        return next((self.forms[base] for base in cls.__mro__ if base in self.forms), None)

    def fields(self, cls: type) -> list[str]:
        """Name the fields of a class that are written."""
        if dataclasses.is_dataclass(cls):
            names = [field.name for field in dataclasses.fields(cls) if field.init]
        else:
            names = list(getattr(cls, "_fields", ()))
        return [name for name in names if name != "where" and (cls.__name__, name) not in self.left_out]


def require(fine: Any, what: str) -> None:
    """Check that something holds everywhere; raise InputError if not.

    Parameters
    ----------
    fine : bool or ndarray of bool
    what : str
        What is out of range; the first such row is named.

    Examples
    --------
    >>> require(np.array([True, True]), "peers")
    >>> require(np.array([True, False]), "peers")
    Traceback (most recent call last):
        ...
    astranb.core.errors.InputError: peers: out of range in row 1; save it again
    """
    found = np.asarray(fine)
    if not found.all():
        at = f" in row {int(np.argmin(found.reshape(-1)))}" if found.ndim else ""
        raise InputError(f"{what}: out of range{at}", hint="save it again")


class Encoder:
    """Writes objects; arrays and files are collected beside the document.

    Attributes
    ----------
    arrays : dict of str to ndarray
    files : dict of str to bytes
    shared : list
        The documents of objects that are referred to by number.

    Examples
    --------
    >>> class Link(NamedTuple):
    ...     ends: tuple[str, ...]
    ...     delays: np.ndarray
    >>> kinds = Kinds([Link], {})
    >>> encoder = Encoder(kinds)
    >>> document = encoder.encode(Link(("a", "b"), np.arange(3)))
    >>> document
    {'is': 'Link', 'ends': ['a', 'b'], 'delays': {'array': '0'}}
    >>> Decoder(kinds, encoder.arrays).decode(document, Link, "link").ends
    ('a', 'b')
    """

    def __init__(self, kinds: Kinds) -> None:
        self.kinds = kinds
        self.arrays: dict[str, np.ndarray] = {}
        self.files: dict[str, bytes] = {}
        self.shared: list[Any] = []
        self._names: dict[int, str] = {}
        self._numbers: dict[int, int] = {}
        self._kept: list[Any] = []  # else another object may get the identity of one that is gone

    def encode(self, value: Any) -> Any:
        """Return an object for JSON.

        Raises
        ------
        InputError
            It is, or holds, something of another class: a function, for example.
        """
        if value is None or isinstance(value, str):
            return value
        if isinstance(value, bool | np.bool_):
            return bool(value)
        if isinstance(value, int | np.integer):
            return self._whole(int(value))
        if isinstance(value, Fraction):
            return str(value)
        if isinstance(value, float | np.floating):
            return self._real(float(value))
        if isinstance(value, np.ndarray):
            return self.array(value)
        if type(value) in self.kinds.classes or self.kinds.form(type(value)):
            return self._object(value)
        if isinstance(value, Mapping):
            return {self._key(key): self.encode(one) for key, one in value.items()}
        if isinstance(value, frozenset | set):
            return self._sequence(sorted(value, key=repr))  # their own order differs among processes
        if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray | memoryview):
            return self._sequence(list(value))
        what = "a function" if callable(value) else f"a {type(value).__name__}"
        raise InputError(f"{what} cannot be written to a file", hint="use a name or numbers instead")

    def array(self, values: np.ndarray) -> dict[str, str]:
        """Keep an array, once, and return the reference to it."""
        if id(values) not in self._names:
            self._names[id(values)] = str(len(self.arrays))
            self.arrays[self._names[id(values)]] = np.asarray(values)
            self._kept.append(values)
        return {"array": self._names[id(values)]}

    def fields(self, value: Any) -> dict[str, Any]:
        """Return the fields of an object by name."""
        return {name: self.encode(getattr(value, name)) for name in self.kinds.fields(type(value))}

    @staticmethod
    def fields_of(value: Any, encoder: Encoder) -> dict[str, Any]:
        """Return the fields of an object by name: the form of a class that is only read in its own way."""
        return encoder.fields(value)

    def _object(self, value: Any) -> dict[str, Any]:
        if type(value).__name__ not in self.kinds.shared:
            return self._written(value)
        if id(value) not in self._numbers:
            written = self._written(value)  # what it refers to has smaller numbers
            self._numbers[id(value)] = len(self.shared)
            self.shared.append(written)
            self._kept.append(value)
        return {"ref": self._numbers[id(value)]}

    def _written(self, value: Any) -> dict[str, Any]:
        form = self.kinds.form(type(value))
        fields = self.fields(value) if form is None else form.encode(value, self)
        return {"is": type(value).__name__, **fields}

    def _sequence(self, values: list[Any]) -> Any:
        if len(values) > _LONG and all(type(one) is int for one in values):
            return self.array(np.array([self._whole(one) for one in values], np.int64))
        if len(values) > 1 and type(values[0]) in self.kinds.classes:
            first: dict[int, int] = {}
            index = [first.setdefault(id(one), len(first)) for one in values]
            if len(first) < len(values):
                distinct = [values[index.index(number)] for number in range(len(first))]
                return {"distinct": [self.encode(one) for one in distinct], "each": self._sequence(index)}
        return [self.encode(one) for one in values]

    @staticmethod
    def _key(key: Any) -> str:
        if isinstance(key, str | int | np.integer) and not isinstance(key, bool):
            return str(key)
        raise InputError(f"{key!r:.40} cannot be a key in a file", hint="use texts or whole numbers")

    @staticmethod
    def _whole(value: int) -> int:
        if abs(value) < _MOST_WHOLE:
            return value
        what = f"a whole number of {value.bit_length()} bits is too large to be written to a file"
        raise InputError(what, hint="use numbers below 2^63")

    @staticmethod
    def _real(value: float) -> Any:
        if math.isfinite(value):
            return value
        raise InputError(f"{value} cannot be written to a file", hint="use finite numbers")


class Decoder:
    """Reads objects of known classes.

    Parameters
    ----------
    kinds : Kinds
    arrays : mapping of str to ndarray
    files : mapping of str to bytes
    shared : sequence
        Documents of objects that are referred to.
    """

    def __init__(
        self,
        kinds: Kinds,
        arrays: Mapping[str, np.ndarray],
        files: Mapping[str, bytes] | None = None,
        shared: Sequence[Any] = (),
    ) -> None:
        self.kinds, self.arrays, self.files = kinds, arrays, files or {}
        self._shared, self._depth, self._listed = shared, 0, 0
        self._made: dict[int, Any] = {}
        self._classes = {one.__name__: one for one in (*kinds.classes, *kinds.forms)}
        self._hints: dict[type, dict[str, Any]] = {}

    def decode(self, document: Any, hint: Any, where: str) -> Any:
        """Return the object that a document stands for.

        Parameters
        ----------
        document : object
            As the parser of JSON returns it.
        hint : type
            What it must be.
        where : str
            Its place in the document, for errors.

        Raises
        ------
        InputError
            It is something else; the text names the place.
        """
        self._depth += 1
        if self._depth > _MOST_DEPTH:
            raise InputError("nested too deeply", where=where, hint="save it again")
        try:
            return self._decoded(document, hint, where)
        finally:
            self._depth -= 1

    def _decoded(self, document: Any, hint: Any, where: str) -> Any:
        origin, args = get_origin(hint), get_args(hint)
        if origin is Given:  # in the form that it has once it is read
            return self._decoded(document, args[1], where)
        if origin in (Union, types.UnionType):
            return self._union(document, args, where)
        if hint is None or hint is type(None):
            if document is None:
                return None
        elif origin is Literal:
            if document in args and type(document) in (str, int, bool):
                return document
        elif hint is Any or isinstance(hint, TypeVar):
            if document is None or isinstance(document, str | bool | int | float):
                return self._scalar(document, where)
        elif hint is Fraction:
            return self._fraction(document, where)
        elif hint in (str, *_NUMBERS):
            return self._plain(document, hint, where)
        elif inspect.isclass(origin or hint):
            return self._of_class(document, origin or hint, args, where)
        raise self._wrong(document, where)

    def _union(self, document: Any, args: Sequence[Any], where: str) -> Any:
        for one in args:
            if self._may_be(document, one):
                return self.decode(document, one, where)
        raise self._wrong(document, where)

    def _may_be(self, document: Any, hint: Any) -> bool:
        """Return whether a document looks like one of a member of a union."""
        origin = get_origin(hint) or hint
        if hint is None or hint is type(None):
            return document is None
        if hint is Any or isinstance(hint, TypeVar):
            return not isinstance(document, list | dict)
        if hint in (str, Fraction):
            return isinstance(document, str)
        if hint in _NUMBERS:
            return type(document) is bool if hint is bool else type(document) in (int, float)
        if not inspect.isclass(origin):
            return False
        if isinstance(document, dict) and ("is" in document or "ref" in document):
            named = self._classes.get(str(document.get("is")))
            return "ref" in document or (named is not None and issubclass(named, origin))
        if issubclass(origin, np.ndarray):
            return isinstance(document, dict) and "array" in document
        if issubclass(origin, Mapping):
            return isinstance(document, dict)
        return issubclass(origin, Iterable) and isinstance(document, list | dict)

    def _of_class(self, document: Any, cls: type, args: Sequence[Any], where: str) -> Any:
        if isinstance(document, dict) and "ref" in document:
            found = self._referred(document["ref"], where)
            if isinstance(found, cls):
                return found
            raise self._wrong(document, where)
        if isinstance(document, dict) and "is" in document and not issubclass(cls, Mapping):
            named = self._classes.get(str(document["is"]))
            if named is None or not issubclass(named, cls):
                raise InputError(f"unexpected {document['is']!r:.60}", where=where, hint="save it again")
            return self._object(document, named, where)
        if issubclass(cls, np.ndarray):
            found = self.array(document, where)
            return found.view(np.recarray) if cls is np.recarray else found
        if issubclass(cls, Mapping):
            return self._mapping(document, args, where)
        if cls is tuple and args and args[-1] is not Ellipsis:
            if isinstance(document, list) and len(document) == len(args):
                return tuple(
                    self.decode(one, hint, f"{where}[{at}]")
                    for at, (one, hint) in enumerate(zip(document, args, strict=True))
                )
            raise self._wrong(document, where)
        if issubclass(cls, Iterable) and cls is not str:
            found = self._sequence(document, args[0] if args else Any, where)
            return cls(found) if cls in (tuple, frozenset, set) else found
        raise self._wrong(document, where)

    def _sequence(self, document: Any, hint: Any, where: str) -> list[Any]:
        if isinstance(document, dict) and "array" in document:
            values = self.array(document, where)
            one_of = get_args(hint) if get_origin(hint) in (Union, types.UnionType) else (hint,)
            fine = (
                values.ndim == 1 and values.dtype.kind in "iu" and any(self._may_be(0, one) for one in one_of)
            )
            if not fine:
                raise self._wrong(document, where)
            if len(values) and not -_MOST_WHOLE < int(values.min()) <= int(values.max()) < _MOST_WHOLE:
                raise InputError("a number is out of range", where=where, hint="save it again")
            self._count(len(values), where)
            return list(values.tolist())
        if isinstance(document, dict) and set(document) == {"distinct", "each"}:
            distinct = self._sequence(document["distinct"], hint, f"{where}.distinct")
            each = self._sequence(document["each"], int, f"{where}.each")
            if not all(0 <= at < len(distinct) for at in each):
                raise InputError("a number beyond the list", where=f"{where}.each", hint="save it again")
            return [distinct[at] for at in each]
        if not isinstance(document, list):
            raise self._wrong(document, where)
        return [self.decode(one, hint, f"{where}[{at}]") for at, one in enumerate(document)]

    def _count(self, elements: int, where: str) -> None:
        """Bound what a small document, which refers to one large array again and again, may take."""
        self._listed += elements
        if self._listed > _MOST_LISTED:
            what = f"its lists have more than {_MOST_LISTED:,} numbers"
            raise InputError(what, where=where, hint="save a smaller run")
        if elements > _LONG_LIST:  # else asking takes longer than the list
            require_bytes(_ELEMENT_BYTES * elements, where=where, hint="save a smaller run")

    def _mapping(self, document: Any, args: Sequence[Any], where: str) -> dict[Any, Any]:
        if not isinstance(document, dict):
            raise self._wrong(document, where)
        key_hint, hint = args or (str, Any)
        found = {}
        for key, one in document.items():
            try:
                name = int(key) if key_hint is int else key
                if str(name) != key:  # as " 1" or "01", which could be there besides "1"
                    raise ValueError(key)  # noqa: TRY301 - one report for all
            except ValueError:
                raise InputError(f"{key!r:.40} is not a whole number", where=where) from None
            found[name] = self.decode(one, hint, f"{where}.{key:.40}")
        return found

    def array(self, document: Any, where: str) -> np.ndarray:
        """Return the array that a document refers to.

        Raises
        ------
        InputError
            There is no such array.
        """
        name = document.get("array") if isinstance(document, dict) else None
        if not isinstance(name, str) or name not in self.arrays:
            raise self._wrong(document, where)
        return self.arrays[name]

    def fields(self, document: Mapping[str, Any], cls: type, where: str) -> dict[str, Any]:
        """Return the values of the fields of a class, by name.

        Raises
        ------
        InputError
            A field is unknown, missing or of another type.
        """
        if cls not in self._hints:
            names = {**self._classes, **TYPING}
            self._hints[cls] = get_type_hints(cls, localns=names)
        hints, known = self._hints[cls], self.kinds.fields(cls)
        for name in document:
            if name != "is" and name not in known:
                raise InputError(f"unknown field {name!r:.60}", where=where, hint=near(name, known))
        return {
            name: self.decode(document[name], hints[name], f"{where}.{name}")
            for name in known
            if name in document
        }

    def _object(self, document: Mapping[str, Any], cls: type, where: str) -> Any:
        form = self.kinds.form(cls)
        try:
            return form.decode(document, self, where) if form else cls(**self.fields(document, cls, where))
        except InputError as error:
            inner = error.where
            place = inner if inner.startswith((where, "shared")) else f"{where}, {inner}" if inner else where
            raise InputError(error.what, where=place, hint=error.hint) from error
        except AstranbError:
            raise
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, ArithmeticError) as error:
            what = f"{cls.__name__} is not valid: {' '.join(str(error).split())}"[:200]
            raise InputError(what, where=where, hint="save it again") from error

    def _referred(self, number: Any, where: str) -> Any:
        if type(number) is not int or not 0 <= number < len(self._shared):
            raise InputError(f"reference {number!r:.40} does not exist", where=where, hint="save it again")
        if number not in self._made:
            document = self._shared[number]
            if not isinstance(document, dict) or str(document.get("is")) not in self._classes:
                raise self._wrong(document, where)
            self._made[number] = self.decode(document, self._classes[document["is"]], f"shared[{number}]")
        return self._made[number]

    def _fraction(self, document: Any, where: str) -> Fraction:
        try:
            if isinstance(document, str) and len(document) < _MOST_DEPTH and "e" not in document.lower():
                return Fraction(document)
        except (ValueError, ZeroDivisionError):
            pass
        raise self._wrong(document, where)

    def _plain(self, document: Any, hint: type, where: str) -> Any:
        """Read a text, a truth or a number; a number keeps its type."""
        if hint is str or hint is bool:
            fine = type(document) is hint
        elif hint is int:
            fine = type(document) in (int, bool) or (type(document) is float and document.is_integer())
        else:
            fine = type(document) in (int, float)
        if not fine:
            raise self._wrong(document, where)
        return self._scalar(document, where)

    def _scalar(self, document: Any, where: str) -> Any:
        if isinstance(document, str) and len(document) > _MOST_TEXT:
            raise InputError("a text that is too long", where=where, hint="save it again")
        large = type(document) is int and abs(document) >= _MOST_WHOLE
        if large or (type(document) is float and not math.isfinite(document)):
            raise InputError(f"{document!r:.40} is out of range", where=where, hint="save it again")
        return document

    @staticmethod
    def _wrong(document: Any, where: str) -> InputError:
        text = " ".join(repr(document).split())
        return InputError(f"unexpected value {text:.60}", where=where, hint="save it again")


TYPING: Final = {
    "Any": Any, "Callable": Callable, "Fraction": Fraction, "Iterable": Iterable, "Mapping": Mapping,
    "Sequence": Sequence, "np": np,
}  # fmt: skip
"""Names in annotations that a module may import for type checkers only."""
