"""Damage to files, and a limit of time for whatever reads them."""

from __future__ import annotations

import contextlib
import json
import random
import re
import signal
from collections.abc import Iterator
from typing import Any

import pytest

from astranb.core.errors import AstranbError

WORDS = [
    "0", "1", "-1", "2", "3", "255", "65535", "65536", "2147483647", "2147483648", "4294967296",
    "9223372036854775807", "-9223372036854775808", "9223372036854775808", "18446744073709551616", "1e308",
    "-1e308", "1e309", "1e-300", "NaN", "Infinity", "-0.0", "0.5", "true", "null", "[]", "{}", '""', "x",
    "\\ud800",
    "\u00e9", "\u0661", "\x00", "99999999999999999999999999999", "1/0", "--", ":", ",", "<", ">", "&",
    "&amp;",
    "\n", " ", "\t", "- ", "&a", "*a", "!!python/object", "%", "{", "}", "[", "]", "'", '"', "10 GB/s",
    "1 us",
    "-5 GB/s", "0 B", "1e400 B", "../../etc/passwd", "/dev/zero", "ring", "Ring", "ALLREDUCE", "NONE",
]  # fmt: skip
"""Texts that replace, precede or follow a word."""

VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 7, 1 << 16, (1 << 31) - 1, 1 << 31, 1 << 63, 1 << 64, 1 << 200, 0.5,
    -0.5, 1e308,
    float("nan"), float("inf"), "", "x", "0", "-1", "1e400", "10 GB/s", "0 B", "\ud800", "x" * 300, [], {},
    [[]],
    [0], [1, 2], {"x": 1}, ["x"], [None], {"": None}, "ring", "Ring", "NONE",
]  # fmt: skip


def damaged_text(data: bytes, chance: random.Random) -> bytes:
    """Change a few words or lines of a text."""
    text = data.decode("utf-8", "replace")
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        parts = [part for part in re.split(r"([\w.+-]+|\s)", text) if part]
        if not parts:
            return b""
        at = chance.randrange(len(parts))
        how = chance.randrange(8)
        if how < 3:
            parts[at] = chance.choice(WORDS)
        elif how == 3:
            parts[at] = ""
        elif how == 4:
            parts.insert(at, chance.choice(WORDS))
        elif how == 5:
            parts[at] = parts[chance.randrange(len(parts))]
        elif how == 6:
            end = min(len(parts), at + chance.choice((1, 3, 10, 40)))
            parts[at:at] = parts[at:end] * chance.choice((1, 1, 20))
        else:
            del parts[at : at + chance.choice((1, 5, 50))]
        text = "".join(parts)
    return text.encode("utf-8", "surrogatepass")


def damaged_bytes(data: bytes, chance: random.Random) -> bytes:
    """Change, remove or repeat a few bytes."""
    found = bytearray(data)
    for _ in range(chance.choice((1, 1, 2, 4, 16))):
        at = chance.randrange(len(found) + 1)
        how = chance.randrange(6)
        if how < 3 and found:
            found[min(at, len(found) - 1)] = chance.choice((0, 1, 127, 128, 255, chance.randrange(256)))
        elif how == 3:
            del found[at : at + chance.choice((1, 2, 8, 100))]
        elif how == 4:
            found[at:at] = bytes(chance.randrange(256) for _ in range(chance.choice((1, 4, 9))))
        else:
            found[at:at] = found[at : at + chance.choice((1, 8, 64))]
    return bytes(found)


def damaged_json(data: bytes, chance: random.Random) -> bytes:
    """Change a few values of a document."""
    value = json.loads(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        value = _changed(value, chance)
    return json.dumps(value).encode()


def _changed(value: Any, chance: random.Random) -> Any:
    if not isinstance(value, list | dict) or not value or chance.randrange(8) == 0:
        return chance.choice(VALUES)
    copy: Any = value.copy()
    key = chance.choice(list(copy) if isinstance(copy, dict) else range(len(copy)))
    how = chance.randrange(12)
    if how == 0:
        del copy[key]
    elif how == 1 and isinstance(copy, list):
        copy.insert(key, copy[key])
    elif how == 1:
        copy[chance.choice(["x", "", "name", "id", "count"])] = copy.pop(key)
    else:
        copy[key] = _changed(copy[key], chance)
    return copy


@contextlib.contextmanager
def refused_or_read(seconds: float = 20.0) -> Iterator[None]:
    """Allow the project's own error, in one line; nothing else, and no hang."""

    def hang(_number: int, _frame: Any) -> None:
        pytest.fail(f"nothing after {seconds} s")

    before = signal.signal(signal.SIGALRM, hang)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    except AstranbError as error:
        assert "\n" not in str(error)  # noqa: PT017
        str(error).encode(errors="strict" if str(error).isprintable() else "replace")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
