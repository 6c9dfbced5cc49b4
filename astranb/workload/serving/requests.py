"""Requests: made by a generator with a seed, or read from a file.

A generator is written ``ARRIVALS:key=value,…``, as ``poisson:rate=4,prompt=1024,output=256,seed=1``.

Arrivals are ``poisson`` (gaps of an exponential distribution, mean 1/rate), ``constant`` (equal gaps),
``offline`` (all at the beginning), or ``closed`` (``users`` of them, each of whom asks again as soon as
they have an answer). ``closed`` is the load of serving benchmarks at a fixed concurrency: unless ``count``
and ``range`` are given, there are ten requests for each user, and each length is drawn between 80 and 100 %
of the one given (``--max-concurrency``, ``--num-prompts`` and ``--random-range-ratio 0.8`` of vLLM's
benchmark_serving, as InferenceMAX runs it: github.com/jyothisambolu/InferenceMAX 01de548, README.md).
``warmup`` requests come first and count in no latency.

Lengths are ``N`` (always, or with ``range=R`` each whole number from R N to N equally often), ``LOW-HIGH``
(each whole number equally often),
``exponential(MEAN)`` (rounded up, so at least 1) or ``lognormal(MEDIAN:SIGMA)`` (rounded up; the logarithm
has standard deviation SIGMA). Each value is drawn by inversion from Python's Mersenne Twister, of which
``random()`` is the same in all versions.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import NormalDist
from typing import Final, NamedTuple

from astranb.core.errors import InputError, near
from astranb.core.number_files import real, text_of, text_rows, whole

__all__ = ["ARRIVALS", "Request", "RequestTrace", "read_requests", "requests_of"]

ARRIVALS: Final = ("poisson", "constant", "offline", "closed")
"""Distributions of arrivals."""

_MOST_BYTES: Final = 256 << 20
_MOST_COUNT: Final = 1_000_000
_MOST_TOKENS: Final = 1 << 24
_MOST_SECONDS: Final = 10**8
_COLUMNS: Final = {
    "arrival": ("arrival_s", "arrival", "timestamp"),
    "prompt": ("prompt", "prompt_tokens", "contexttokens"),
    "output": ("output", "output_tokens", "generatedtokens"),
}
"""Names of columns; the last ones are those of Azure's public traces of LLM inference."""


class Request(NamedTuple):
    """A request.

    Attributes
    ----------
    arrival_ns : int
    prompt, output : int
        Tokens.
    """

    arrival_ns: int
    prompt: int
    output: int


@dataclass(frozen=True)
class RequestTrace:
    """Requests in the order of their arrival.

    Parameters
    ----------
    requests : sequence of Request
    users : int
        If not 0, so many requests are under way at any time: the first ones arrive at the beginning, each
        other one when one has been answered. Arrivals are not used then.
    text : str
        What they are, in a line.
    warmup : int
        So many of the first requests do not count in latencies.
    assumed : str
        What was chosen for lengths and count where none was given, in a line.

    Raises
    ------
    InputError
        There is none, arrivals are not in order, or all are warm-up.

    Examples
    --------
    >>> RequestTrace([Request(0, 100, 10), Request(5_000_000, 200, 10)]).output_tokens
    20
    """

    requests: Sequence[Request]
    users: int = 0
    text: str = "requests"
    warmup: int = 0
    assumed: str = ""

    def __post_init__(self) -> None:
        """Check the requests."""
        if not self.requests:
            raise InputError("no requests are given", where=self.text, hint="take at least one")
        before = 0
        for number, one in enumerate(self.requests):
            if one.arrival_ns < before or min(one.prompt, one.output) < 1:
                what = f"request {number}: arrival {one.arrival_ns} ns, {one.prompt} and {one.output} tokens"
                hint = "order them by arrival, with at least one token each"
                raise InputError(what, where=self.text, hint=hint)
            before = one.arrival_ns
        if not 0 <= self.warmup < len(self.requests):
            what = f"{self.warmup} warm-up requests of {len(self.requests)}"
            raise InputError(what, where=self.text, hint="leave at least one that counts")

    @property
    def prompt_tokens(self) -> int:
        """Tokens of all prompts."""
        return sum(one.prompt for one in self.requests)

    @property
    def output_tokens(self) -> int:
        """Tokens of all outputs."""
        return sum(one.output for one in self.requests)


def requests_of(text: str) -> RequestTrace:
    """Make the requests that a text describes: a generator, or the name of a CSV file.

    Raises
    ------
    InputError
        It is neither, or a value cannot be used.

    Examples
    --------
    >>> found = requests_of("poisson:rate=4,prompt=64-128,output=16,count=100,seed=1")
    >>> len(found.requests), found.requests[-1].arrival_ns
    (100, 25632789782)
    """
    name, _, rest = text.partition(":")
    if name not in ARRIVALS:
        if text.lower().endswith(".csv") or Path(text).is_file():
            return read_requests(text)
        hint = f"{near(name, ARRIVALS)} (as poisson:rate=4, or a file REQUESTS.csv)"
        raise InputError(f"unknown requests {text[:60]!r}", where="requests", hint=hint)
    return _generated(name, _values(name, rest), text)


_KEYS: Final = {"poisson": ("rate",), "constant": ("rate",), "offline": (), "closed": ("users",)}
_DEFAULTS: Final = {
    "rate": "1", "users": "1", "prompt": "1024", "output": "256", "count": "100", "seed": "0", "range": "1",
    "warmup": "0",
}  # fmt: skip
_ROUNDS: Final = 10
"""Requests of each user of a closed loop, as serving benchmarks choose them."""
_SPREAD: Final = "0.8"
"""The shortest length of a closed loop's requests, as a part of the one given."""


def _values(name: str, rest: str) -> dict[str, str]:
    """Read ``key=value,…``."""
    known = (*_KEYS[name], "prompt", "output", "count", "range", "warmup", "seed")
    found: dict[str, str] = {}
    for part in rest.split(",") if rest else ():
        key, equals, value = part.partition("=")
        if not equals or key not in known:
            hint = f"{near(key, known)} (as {known[0]}={_DEFAULTS[known[0]]})"
            raise InputError(f"{name} has no {part[:40]!r}", where="requests", hint=hint)
        if key in found:
            raise InputError(f"duplicate key {key!r}", where="requests", hint="give it once")
        found[key] = value
    defaults = {key: _DEFAULTS[key] for key in known}
    if name == "closed":
        users = found.get("users", _DEFAULTS["users"])
        if users.isdecimal():
            defaults["count"] = str(min(_MOST_COUNT, max(1, _ROUNDS * int(users[:12]))))
        single = (found.get(key, _DEFAULTS[key]).isdecimal() for key in ("prompt", "output"))
        defaults["range"] = _SPREAD if all(single) else "1"
    return defaults | found


def _number(values: Mapping[str, str], key: str, low: float, high: float, *, whole: bool = True) -> float:
    try:
        value = int(values[key]) if whole else float(values[key])
    except ValueError:
        value = -1
    if not low <= value <= high:
        kind = "whole number" if whole else "number"
        what = f"{key}={values[key][:40]}"
        raise InputError(what, where="requests", hint=f"take a {kind}, {low:g} to {high:g}")
    return value


def _generated(name: str, values: Mapping[str, str], text: str) -> RequestTrace:
    count = int(_number(values, "count", 1, _MOST_COUNT))
    drawn = random.Random(int(_number(values, "seed", 0, 2**63)))  # noqa: S311 - a simulation, no secret
    least = _number(values, "range", 0.01, 1, whole=False)
    prompt, output = (_length(values[key], key, least) for key in ("prompt", "output"))
    warmup = int(_number(values, "warmup", 0, _MOST_COUNT))
    rate = _number(values, "rate", 1e-6, 1e9, whole=False) if "rate" in values else 0.0
    users = int(_number(values, "users", 1, _MOST_COUNT)) if name == "closed" else 0
    found, now = [], 0.0
    for number in range(count):
        if name == "poisson":
            now -= math.log1p(-drawn.random()) / rate
        elif name == "constant":
            now = number / rate
        found.append(Request(round(now * 1e9), prompt(drawn.random()), output(drawn.random())))
    return RequestTrace(found, users, text, warmup, _assumed(name, values, text))


def _assumed(name: str, values: Mapping[str, str], text: str) -> str:
    """Describe what a closed loop takes where its text says nothing."""
    own = {part.partition("=")[0] for part in text.partition(":")[2].split(",")}
    said = []
    if name == "closed" and "count" not in own:
        said.append(f"{values['count']} requests")
    if name == "closed" and "range" not in own and values["range"] != "1":
        said.append(
            f"lengths of {float(values['range']):.0%} to 100% of those given (range={values['range']})"
        )
    return f"{' and '.join(said)}, as serving benchmarks choose them" if said else ""


def _length(text: str, key: str, least: float) -> Callable[[float], int]:
    """Return the function from a number in [0, 1) to a length; a single one is spread from a part of it."""
    hint = "take N, LOW-HIGH, exponential(MEAN) or lognormal(MEDIAN:SIGMA)"

    def checked(value: float) -> int:
        if not 1 <= value <= _MOST_TOKENS:
            raise InputError(f"{key}={text[:40]}", where="requests", hint=f"{hint}; 1 to {_MOST_TOKENS:,}")
        return int(value)

    match = re.fullmatch(r"(\d{1,12})(?:-(\d{1,12}))?", text)
    if least < 1 and not (match and match[2] is None):
        what = f"range={least:g} spreads a single length, not {key}={text[:40]}"
        raise InputError(what, where="requests", hint="leave one of them out")
    if match:
        low = checked(int(match[1]))
        high = checked(int(match[2] or match[1]))
        low = max(1, int(low * least))
        if high < low:
            raise InputError(f"{key}={text[:40]}", where="requests", hint="take the smaller number first")
        return lambda at: low + int(at * (high - low + 1))
    if match := re.fullmatch(r"exponential\((\d+(?:\.\d+)?)\)", text):
        mean = float(match[1])
        checked(mean)
        return lambda at: min(_MOST_TOKENS, max(1, math.ceil(-math.log1p(-at) * mean)))
    if match := re.fullmatch(r"lognormal\((\d+(?:\.\d+)?):(\d+(?:\.\d+)?)\)", text):
        median, sigma = float(match[1]), float(match[2])
        checked(median)
        if not 0 < sigma <= 4:
            raise InputError(f"{key}={text[:40]}", where="requests", hint="take SIGMA above 0, at most 4")
        normal = NormalDist(math.log(median), sigma)
        return lambda at: min(_MOST_TOKENS, max(1, math.ceil(math.exp(normal.inv_cdf(max(at, 1e-12))))))
    raise InputError(f"{key}={text[:40]}", where="requests", hint=hint)


def read_requests(path: str | Path) -> RequestTrace:
    """Read requests from a CSV file with columns ``arrival_s``, ``prompt`` and ``output``.

    Columns ``TIMESTAMP``, ``ContextTokens`` and ``GeneratedTokens``, as Azure's public traces have them, are
    read too; arrivals count from the first one then. Other columns are ignored.

    Raises
    ------
    InputError
        The file or a line of it cannot be used; the line's number is named.

    Examples
    --------
    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp()) / "r.csv"
    >>> _ = file.write_text("arrival_s,prompt,output" + chr(10) + "0.5,100,20" + chr(10))
    >>> read_requests(file).requests
    [Request(arrival_ns=500000000, prompt=100, output=20)]
    """
    where = str(path)
    rows = text_rows(text_of(path, _MOST_BYTES), where)
    head = [name.strip().lower() for name in next(rows, ("", []))[1]]
    columns = [_column(head, names, where) for names in _COLUMNS.values()]
    dated = head[columns[0]] == "timestamp"
    found: list[Request] = []
    first: float | None = None
    for here, row in rows:
        if not any(cell.strip() for cell in row):
            continue
        if len(row) <= max(columns):
            raise InputError(f"{len(row)} columns of {len(head)}", where=here, hint="give all of them")
        if len(found) == _MOST_COUNT:
            raise InputError("too many requests", where=here, hint=f"take at most {_MOST_COUNT:,}")
        arrival, *tokens = (row[at].strip() for at in columns)
        seconds = _seconds(arrival, here, dated=dated)
        if dated:
            first = seconds if first is None else first
            seconds -= first
        prompt, output = (whole(one, 1, _MOST_TOKENS, what="tokens", where=here) for one in tokens)
        one = Request(round(seconds * 1e9), prompt, output)
        if one.arrival_ns < (found[-1].arrival_ns if found else 0):
            what = f"arrival {arrival[:40]} is before that of the line before"
            raise InputError(what, where=here, hint="order the lines by arrival")
        found.append(one)
    return RequestTrace(found, text=where)


def _column(head: list[str], names: tuple[str, ...], where: str) -> int:
    for name in names:
        if name in head:
            return head.index(name)
    hint = "begin with arrival_s,prompt,output"
    raise InputError(f"no column {names[0]}", where=f"{where}, line 1", hint=hint)


def _seconds(text: str, where: str, *, dated: bool) -> float:
    if not dated:
        return real(text, 0, _MOST_SECONDS, what="arrival", where=where)
    try:
        # Fractions of a second may have seven digits.
        when = datetime.fromisoformat(re.sub(r"(\.\d{6})\d+", r"\1", text))
        return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()
    except (ValueError, OverflowError, OSError):
        hint = "give a date and a time, as 2024-05-10 00:00:00"
        raise InputError(f"arrival is {text[:40]!r}", where=where, hint=hint) from None
