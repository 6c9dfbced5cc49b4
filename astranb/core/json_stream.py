"""JSON that does not fit in memory: the elements of a list, one after the other.

The text is read in blocks, and each element is parsed by itself, so that memory holds a block and an
element. Outside the list, the members of the object around it are read whole.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final

from .errors import InputError, TruncatedFile

__all__ = ["MOST_VALUE", "JsonStream", "clean_text"]

MOST_VALUE: Final = 64 << 20
"""Largest value that is read whole, in characters: an element of the list, or another member."""

_BLANK: Final = re.compile(r"[\s,]*")
_NUMBER: Final = re.compile(r"[\d.eE+-]*")
_SURROGATE: Final = re.compile("[\ud800-\udfff]")


class JsonStream:
    r"""The elements of a list in a JSON text, and what is around it.

    Parameters
    ----------
    blocks : iterable of bytes
        The text in UTF-8.
    where : str
        What errors call it.
    member : str
        The name of the list in the object; the text may also be the list alone.

    Attributes
    ----------
    members : dict
        The other members of the object that have been read.
    count : int
        Elements that have been read.
    found : bool
        Whether the list has been found.

    Examples
    --------
    >>> stream = JsonStream([b'{"a": 1, "events": [{"x"', b': 2}, {"x": 3}]}'], "a file", "events")
    >>> list(stream), stream.members
    ([{'x': 2}, {'x': 3}], {'a': 1})
    """

    def __init__(self, blocks: Iterable[bytes], where: str, member: str) -> None:
        self._blocks, self.where, self._member = iter(blocks), where, member
        self._decoder = codecs.getincrementaldecoder("utf-8-sig")()
        self._scan = json.JSONDecoder().raw_decode
        self._text, self._at, self._before, self._ended = "", 0, 0, False
        self.members: dict[str, Any] = {}
        self.count, self.found = 0, False

    def __iter__(self) -> Iterator[Any]:
        """Read the elements."""
        first = self._mark()
        if first == "[":
            yield from self._elements()
        elif first == "{":
            while (mark := self._mark()) == '"':
                self._at -= 1
                name = self._value("a name")
                if self._mark() != ":":
                    raise self._error("no ':' follows a name")
                if name == self._member and self._peek() == "[":
                    self._at += 1
                    yield from self._elements()
                else:
                    self._peek()
                    self.members[clean_text(name)] = self._value(f"{clean_text(name)[:40]!r}")
            if mark != "}":
                raise self._error("a name or '}' is expected")
        else:
            raise self._error("neither an object nor a list" if first else "empty")
        if self._peek():
            raise self._error("more text follows the value")

    def _elements(self) -> Iterator[Any]:
        self.found = True
        while (mark := self._peek()) != "]":
            if not mark:
                raise self._cut(f"the list ends after {self.count:,} elements")
            value = self._value(f"element {self.count}")
            self.count += 1
            yield value
        self._at += 1

    def _mark(self) -> str:
        mark = self._peek()
        self._at += len(mark)
        return mark

    def _peek(self) -> str:
        """Skip blanks and commas; return the next character, or nothing at the end."""
        while True:
            match = _BLANK.match(self._text, self._at)
            self._at = match.end() if match else self._at
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more(1):
                return ""

    def _value(self, what: str) -> Any:
        wanted = 0
        while True:
            try:
                value, end = self._scan(self._text, self._at)
                # A number could go on in the next block, also where something follows it ("1.")
                goes_on = end == len(self._text) or (
                    isinstance(value, int | float) and _NUMBER.fullmatch(self._text, end)
                )
                if not goes_on or not self._more(1):
                    self._at = end
                    return value
            except json.JSONDecodeError as error:
                wanted = max(2 * wanted, 1 << 16)
                if len(self._text) - self._at > MOST_VALUE:
                    raise self._error(f"{what} is larger than {MOST_VALUE >> 20} MiB, or not JSON") from None
                if not self._more(wanted):
                    cut = self._text[self._at :].rstrip()
                    ended = error.msg.startswith("Unterminated") or error.pos - self._at >= len(cut)
                    self._at = min(error.pos, len(self._text))
                    failed = self._cut if ended else self._error
                    raise failed(f"{what} is not JSON ({error.msg})") from None
            except RecursionError:
                raise self._error(f"{what} is nested too deep", "is it the right file?") from None
            except ValueError as error:  # a number of thousands of digits
                raise self._error(f"{what}: {error}"[:200]) from None

    def _more(self, wanted: int) -> bool:
        """Append at least some more text to what has not been used; return False at the end."""
        added: list[str] = []
        size = 0
        while size < wanted and not self._ended:
            block = next(self._blocks, None)
            try:
                text = self._decoder.decode(block or b"", block is None)
            except UnicodeDecodeError as error:
                raise self._error(f"not JSON: {error.reason}", "save the file as UTF-8 text") from None
            self._ended = block is None
            added.append(text)
            size += len(text)
        if size:
            self._before += len(self._text[: self._at].encode("utf-8", "replace"))
            self._text = "".join([self._text[self._at :], *added])
            self._at = 0
        return size > 0

    @property
    def _place(self) -> int:
        return self._before + len(self._text[: self._at].encode("utf-8", "replace"))

    def _error(self, what: str, hint: str = "is it the right file?") -> InputError:
        return InputError(what, where=f"{self.where}: byte {self._place}", hint=hint)

    def _cut(self, what: str) -> TruncatedFile:
        return TruncatedFile(what, where=f"{self.where}: byte {self._place}", at=self._place)


def clean_text(text: str) -> str:
    """Replace halves of surrogate pairs, which no file or page can hold."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
