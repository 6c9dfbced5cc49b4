"""Numbers, units and errors in a page have the texts of Python's."""

from __future__ import annotations

import json
import random
import string
import subprocess
from pathlib import Path
from typing import Any

from astranb.core.errors import AstranbError, InputError, near
from astranb.core.units import (
    bandwidth_Bps,
    format_bandwidth,
    format_bytes,
    format_time,
    size_bytes,
    time_ps,
)
from tests.widgets.live.kernels import HERE, STATIC

NUMBERS = [
    *["0", "1", "-1", "+3", "1.5", ".5", "7.", "1e3", "2.5e-4", "0e9", "-0"],
    *["1e9999999", "1e99999999999999999999", "1e-9999999"],
    *["9223372036854775807", "9223372036854775808", "9007199254740993", "x", "1,000", "--1", "1e", "é"],
    *["1" + "0" * 40, "1" * 29 + ".5", "0.0000000000000000000000000000000000001", "", "1 2"],
]
UNITS = [
    *["", " ", "ps", "ns", "us", "µs", "μs", "ms", "s", "S", "M", "k", "t", "parsec", "constructor"],
    *["B", "Mb", "MB", "MB ", "kB", "KB", "mib", "GiB", "TB", "PiB", "G B"],
    *["GB/s", "Gbps", "Gb/s", "Gbit/s", "TBps", "GIB/S", "gbps"],
]
HOSTILE = "'\"\n\x07\xa0\u2028\U0001f600"
WRONG: list[Any] = [None, True, 1.5, [], {}, {"a": [1.25, None, "x"]}, 7, 0, -3, ["it's"], HOSTILE]


def called(module: str, calls: list[list[Any]]) -> list[dict[str, Any]]:
    """What functions of a module of a page return, or the texts of their errors."""
    command = ["node", str(Path(HERE, "functions.mjs")), str(STATIC), module]
    found = subprocess.run(command, input=json.dumps(calls), stdout=subprocess.PIPE, check=True, text=True)
    results: list[dict[str, Any]] = json.loads(found.stdout)
    return results


def _python(function: Any, *given: Any) -> dict[str, Any]:
    try:
        return {"value": function(*given)}
    except AstranbError as error:
        return {"error": str(error)}


def _both(module: str, functions: dict[str, Any], given: list[list[Any]]) -> None:
    calls = [[name, *one] for name in functions for one in given]
    for call, found in zip(calls, called(module, calls), strict=True):
        expected = _python(functions[call[0]], *call[1:])
        if isinstance(expected.get("value"), int):
            assert float(found["value"]) == float(expected["value"]), call  # exact up to 2**53
            continue
        assert found == expected, call


def _reading(read: Any) -> Any:
    return lambda value, where: read(value, where=where)


def test_quantities_are_read_alike():
    given = [[number + unit, "there"] for number in NUMBERS for unit in UNITS]
    given += [[value, ""] for value in [*WRONG, 2**65]]
    readers: dict[str, Any] = {"sizeBytes": size_bytes, "timePs": time_ps, "bandwidthBps": bandwidth_Bps}
    _both("units", {name: _reading(read) for name, read in readers.items()}, given)


def test_quantities_are_written_alike():
    draw = random.Random(1)
    whole = [draw.randrange(10 ** draw.randrange(1, 15)) for _ in range(2000)]
    halves = [1000 * k + 500 for k in range(300)] + [k * 125 for k in range(500)] + [2**k for k in range(50)]
    exact = [0, 1, 999, 1000, 999_949, 999_950, 999_999, 10**6, 10**12, 12345 * 10**12, 10**15]
    exact += [-5, -1500, -12345678]
    numbers = [[n] for n in whole + halves + exact]
    writers = {"formatTime": format_time, "formatBytes": format_bytes, "formatBandwidth": format_bandwidth}
    _both("units", writers, numbers)


def test_numbers_are_written_alike():
    draw = random.Random(2)
    some = [draw.uniform(0, 2) * 10 ** draw.randrange(-8, 12) for _ in range(2000)]
    halves = [k / 2**n for k in range(1, 200) for n in (1, 2, 3, 4, 5)] + [-2.5, -0.125, 0.5, 1.5]
    given = [[x] for x in some + halves] + [[0.0]]
    for digits in (0, 1, 2, 4):
        formats = {
            "fixed": lambda x, d: f"{x:.{d}f}",
            "fixedCommas": lambda x, d: f"{x:,.{d}f}",
            "percent": lambda x, d: f"{x:.{d}%}",
        }
        if digits:
            formats |= {"general": lambda x, d: f"{x:.{d}g}", "generalCommas": lambda x, d: f"{x:,.{d}g}"}
        _both("text", formats, [[*x, digits] for x in given])
    _both("text", {"commas": lambda n: f"{n:,}"}, [[n] for n in (0, 12, 999, 1000, -1234567, 10**15)])
    texts = [*WRONG, "", "it's", 'say "it\'s"', "a\\b\tc", "\x7f\u0300é\ue000"]
    fractions = [[x] for x in some if not x.is_integer()]
    _both("text", {"repr": repr, "str": str}, [*([text] for text in texts), *fractions])


def test_names_near_a_wrong_one_are_the_same():
    draw = random.Random(3)
    names = ["".join(draw.choices("abcde.01", k=draw.randrange(1, 12))) for _ in range(200)]
    given: list[list[Any]] = []
    for _ in range(300):
        known = draw.sample(names, draw.randrange(0, 30))
        name = draw.choice(names)
        at = draw.randrange(len(name))
        given.append([name[:at] + draw.choice(string.ascii_lowercase) + name[at + 1 :], known])
    long = "ab" * 100
    given += [
        [long, [long[:-1], "ab" * 80, "b" * 200]],
        ["ab" * 101, ["ab"]],
        ["", ["", "a"]],
        ["x", []],
        ["dgx", ["'dgx"]],
    ]
    _both("errors", {"near": near}, given)


def test_long_and_hostile_texts_of_errors(tmp_path):
    script = tmp_path / "error.mjs"
    script.write_text(
        f"import {{ InputError }} from {json.dumps(Path(STATIC, 'live', 'errors.js').as_uri())};\n"
        "const given = JSON.parse(process.argv[2]);\n"
        "const texts = given.map(([what, more]) => String(new InputError(what, more)));\n"
        "process.stdout.write(JSON.stringify(texts));\n"
    )
    cases: list[tuple[str, dict[str, str]]] = [
        ("a  b\n c", {"where": "x", "hint": "y"}),
        ("é😀" * 5000, {}),
        ("a", {"where": " \x1c "}),
        ("w", {"hint": "h"}),
    ]
    command = ["node", str(script), json.dumps(cases)]
    found = subprocess.run(command, capture_output=True, check=True, text=True)
    assert json.loads(found.stdout) == [str(InputError(what, **more)) for what, more in cases]
