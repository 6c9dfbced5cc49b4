"""The words of a text file one by one, each with its line number for error messages."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final, NamedTuple, NoReturn

from astranb.core.document import contents
from astranb.core.errors import InputError

__all__ = ["Words"]

_MOST_BYTES: Final = 64 << 20
_MOST: Final = 1 << 60
_WORD: Final = re.compile(r"\S+")
_DECIMAL: Final = re.compile(r"[+-]?(\d{1,20}(\.\d{0,20})?|\.\d{1,20})([eE][+-]?\d{1,2})?")


class _Word(NamedTuple):
    text: str
    line: int


class Words:
    """Read the words of a file one by one."""

    def __init__(self, path: str | Path) -> None:
        self.file = str(path)
        try:
            text = contents(path, _MOST_BYTES).decode("utf-8-sig")
        except UnicodeDecodeError:
            raise InputError(
                "not a text file", where=self.file, hint="give a text file of ASTRA-sim 1.0"
            ) from None
        lines = text.splitlines()
        self._words = [
            _Word(found[0], number) for number, line in enumerate(lines, 1) for found in _WORD.finditer(line)
        ]
        self._at = 0
        self._end = max(len(lines), 1)

    @property
    def left(self) -> bool:
        """Whether there is another word."""
        return self._at < len(self._words)

    @property
    def line(self) -> int:
        """The line of the next word, or the last line of the file."""
        return self._words[self._at].line if self.left else self._end

    @property
    def peek(self) -> str:
        """The next word, without reading it."""
        return self._words[self._at].text if self.left else ""

    @property
    def numbers_ahead(self) -> int:
        """Count the numbers among the next words, up to six."""
        texts = [word.text for word in self._words[self._at : self._at + 6]]
        return next((at for at, text in enumerate(texts) if not _DECIMAL.fullmatch(text)), len(texts))

    def fail(self, what: str, hint: str, line: int | None = None) -> NoReturn:
        """Raise an error at a line, by default that of the last word read."""
        if line is None:
            line = self._words[self._at - 1].line if self._at else 1
        raise InputError(what, where=f"{self.file}: line {line}", hint=hint)

    def word(self, what: str) -> str:
        """Read the next word."""
        if not self.left:
            self.fail(f"{what} is missing: the file ends", "complete the file", self._end)
        self._at += 1
        return self._words[self._at - 1].text

    def number(self, what: str, low: int = 0, high: int = _MOST) -> int:
        """Read the next word as a whole number."""
        word = self.word(what)
        if not re.fullmatch(r"[+-]?\d{1,20}", word):
            self.fail(f"{what}: a whole number is expected, not {word[:40]!r}", "give a whole number")
        if not low <= int(word) <= high:
            self.fail(f"{what}: {word} is out of range", f"use {low} to {high}")
        return int(word)

    def decimal(self, what: str, high: float = 1e18) -> float:
        """Read the next word as a number from 0, whole or not."""
        word = self.word(what)
        if not _DECIMAL.fullmatch(word):
            self.fail(f"{what}: a number is expected, not {word[:40]!r}", "give a number")
        if not 0 <= float(word) <= high:
            self.fail(f"{what}: {word} is out of range", f"use 0 to {high:g}")
        return float(word)
