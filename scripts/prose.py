"""Check the words of docstrings, error messages and pages.

    python -m scripts.prose [FILE OR FOLDER …]

Prints a line for each phrase that a reader of this field trips over: where it is, and what to write instead.
The exit code is 1 if there is any. `make check` runs it without names, on the whole checkout.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path(__file__).resolve().parents[1]

CODE: Final = ("astranb", "benchmarks", "docs", "examples", "scripts", "tests")
"""Folders whose Python files are checked."""

PAGES: Final = ("changes", "docs", "examples", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
"""Folders and files whose Markdown is checked."""

FIRST_WORDS: Final = {
    "What": "name the thing: 'Energy and cost of a step', or an imperative: 'Return …'",
    "How": "name the thing: 'Number of …', 'Time from … to …', or an imperative: 'Count …'",
    "Give": "Return, Yield, Assign or Set",
    "Gives": "Return, Yield, Assign or Set",
    "Say": "Describe, Explain, Report or Format",
    "Says": "Describe, Explain, Report or Format",
    "Tell": "Report, Notify or Decide",
    "Tells": "Report, Notify or Decide",
    "Refuse": "Check that …; raise InputError if …",
    "Refuses": "Check that …; raise InputError if …",
    "Let": "Allow, Make, Start, or the verb of what happens",
    "Lets": "Allow, Make, Start, or the verb of what happens",
    "Where": "name the thing: 'Position of …', 'Breakdown of …', or an imperative: 'Return …'",
    "Which": "name the thing: 'Choice of …', 'Names of …', or an imperative: 'Return …'",
    "When": "name the thing: 'Completion time of …', 'Start and end of …', or an imperative: 'Return …'",
    "Why": "name the thing: 'Reasons for …', 'Causes of …', or an imperative: 'Explain …'",
    "Who": "name the thing: 'Chain of waits …', 'Traffic matrix', or an imperative: 'Return who …'",
    "Whose": "name the thing: 'Owners of …', or an imperative: 'Return …'",
}
"""Words that begin no docstring, and what begins one instead."""


class Phrase(NamedTuple):
    """A phrase to avoid, as a regular expression, and what to write."""

    pattern: re.Pattern[str]
    instead: str


def _phrases(table: dict[str, str]) -> tuple[Phrase, ...]:
    return tuple(Phrase(re.compile(pattern), instead) for pattern, instead in table.items())


EVERYWHERE: Final = _phrases(
    {
        r"\bagenda\b": "event queue",
        r"\bappointments?\b": "scheduled callback, timer",
        r"\bjammed\b": "buffer deadlock",
        r"\bhurry\b": "fast-forward",
        r"\bstands? twice\b": "duplicate key 'x'",
        r"\bat the next time\b": "at the next timestep",
        r"\bis known by '": "unknown file extension '.foo'",
        r"\bof no (?:bytes|bandwidth)\b": "empty, of zero bytes; 'collective size is zero'",
        r"\bnot in common\b": "differences",
        r"\bwaits? for ever\b": "is deadlocked, never ends",
        r"\btime (?:is|are) given away\b": "is attributed to",
        r"\blooks? random\b": "pseudo-random, counter-based random numbers",
        r"\bat a price\b": "faster, at lower cost",
        r"\blies? behind (?:one another|each other)\b": "ragged, concatenated",
        r"\bof a simulated step takes? of\b": "energy and cost of a step",
    }
)
"""Phrases to avoid in docstrings, messages and pages."""

IN_MESSAGES: Final = _phrases(
    {
        r"^there is no\b": "unknown link 'x'; no GPU in …; file not found",
        r"\b(?<!^there )(?:is|are) no\b(?! longer\b)": "'x' is not a number; unknown link 'x'",
        r"\bit has products\b": "the program contains matrix products, pass `tiled=`",
        r"\btwice\b(?= in\b|$)": "duplicate …",
    }
)
"""Phrases to avoid in error messages besides: a message states the problem."""


class Finding(NamedTuple):
    """A phrase to avoid in a file."""

    path: Path
    line: int
    text: str
    """The phrase as it is written."""

    instead: str

    def __str__(self) -> str:
        """Return the line that is printed."""
        path = self.path.relative_to(ROOT) if self.path.is_relative_to(ROOT) else self.path
        return f"{path}:{self.line}: {self.text!r}: write {self.instead}"


def _search(path: Path, line: int, text: str, phrases: Sequence[Phrase]) -> Iterator[Finding]:
    """Find phrases in a text that begins in a line of a file."""
    for phrase in phrases:
        for match in phrase.pattern.finditer(text):
            yield Finding(path, line + text.count("\n", 0, match.start()), match[0], phrase.instead)


def _is_property(node: ast.AST) -> bool:
    """Return whether a function is read as an attribute."""
    names = [ast.unparse(one).split(".")[-1] for one in getattr(node, "decorator_list", ())]
    return any("property" in name for name in names)


def _docstring(path: Path, owner: ast.AST, text: ast.Constant) -> Iterator[Finding]:
    """Check the first word and the phrases of a docstring, or of the string below an attribute."""
    words = str(text.value).split(None, 1)
    first = words[0].rstrip(",.:;") if words else ""
    if first in FIRST_WORDS:
        yield Finding(path, text.lineno, first, FIRST_WORDS[first])
    is_function = isinstance(owner, ast.FunctionDef | ast.AsyncFunctionDef)
    if first == "Whether" and is_function and not _is_property(owner):
        yield Finding(path, text.lineno, first, "Return whether")
    yield from _search(path, text.lineno, str(text.value), EVERYWHERE)


def _texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield the texts in an expression, with their lines; a value in an f-string is ``{}``."""
    if isinstance(node, ast.JoinedStr):
        parts = [part.value if isinstance(part, ast.Constant) else "{}" for part in node.values]
        yield node.lineno, "".join(map(str, parts))
    elif isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    else:
        for child in ast.iter_child_nodes(node):
            yield from _texts(child)


def _makes_error(node: ast.AST) -> bool:
    """Return whether a call makes an error or a warning."""
    if not isinstance(node, ast.Call):
        return False
    name = ast.unparse(node.func).split(".")[-1]
    return name.endswith("Error") or name in {"error", "warn"}


def check_python(path: Path, source: str) -> list[Finding]:
    """Check the docstrings and messages of a Python file."""
    found: list[Finding] = []
    for node in ast.walk(ast.parse(source)):
        if _makes_error(node):
            for line, text in _texts(node):
                found += _search(path, line, text, (*EVERYWHERE, *IN_MESSAGES))
        body = getattr(node, "body", None)
        for statement in body if isinstance(body, list) else ():
            match statement:
                case ast.Expr(value=ast.Constant(value=str()) as docstring):
                    found += _docstring(path, node, docstring)
    return sorted(set(found))


def check_page(path: Path, source: str) -> list[Finding]:
    """Check the words of a Markdown page."""
    return list(_search(path, 1, source, EVERYWHERE))


def check(path: Path) -> list[Finding]:
    """Check a file by its kind."""
    text = path.read_text("utf-8")
    return check_page(path, text) if path.suffix == ".md" else check_python(path, text)


def _files(names: Sequence[str], suffix: str) -> Iterator[Path]:
    """Find the files of a kind in folders, and among files."""
    for name in names:
        path = ROOT / name
        yield from sorted(path.rglob(f"*{suffix}")) if path.is_dir() else [path] * (path.suffix == suffix)


def files() -> Iterator[Path]:
    """Find the files that a run without names checks."""
    yield from _files(CODE, ".py")
    yield from _files(PAGES, ".md")


def main(names: Sequence[str]) -> int:
    """Check the named files and folders, or the checkout; return the exit code."""
    paths = [*_files(names, ".py"), *_files(names, ".md")] if names else files()
    # This file and its tests hold the phrases themselves.
    found = [
        finding for path in paths if path.name not in {"prose.py", "test_prose.py"} for finding in check(path)
    ]
    for finding in found:
        print(finding)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
