"""Runner of documents: a page's blocks are run, in their order, in a folder of its own.

- A block behind a paragraph that ends with "``NAME``:" (a file's name) is written to that file; behind one
  that ends with "in ``NAME``, behind ``LINE``:" it is put behind that line (or "in front of" it, or "in
  the place of" it).
- ``console``: each ``$ astranb ...`` and ``$ pytest ...`` is run (``$ make ...`` is not); the lines behind it
  are what it prints, to standard error too. A line "…" stands for any lines, ``# exit 2`` behind a command
  for its exit code.
- ``python``: run; all blocks of a page share their names. A ``text`` block behind it is what it prints.
- Anything else is only shown.

A recipe (``docs/contributing``) is followed in a copy of the package (:func:`apart`), with a copy of the
tests where it changes or runs these, and of each other file that it changes. One that changes a source of
kernels runs as plain Python (``ASTRANB_JIT=0``): compiling all kernels again would take minutes.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astranb.core.code import kernel_sources

REPOSITORY = Path(__file__).resolve().parents[1]
DOCS = REPOSITORY / "docs"

_BLOCK = re.compile(r"^```(?P<language>[\w-]*)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"`(?P<name>[\w./-]+\.\w+)`:\s*\Z")
_EDIT = re.compile(
    r"[Ii]n\s+`(?P<name>[\w./-]+\.\w+)`,\s+(?P<how>behind|in\s+front\s+of|in\s+the\s+place\s+of)\s+"
    r"`(?P<line>[^`\n]+)`:\s*\Z"
)
_SOME = "…"


@dataclass(frozen=True)
class Block:
    """A block of code.

    Attributes
    ----------
    language, text : str
    file : str
        The file that it is, or that is changed; "" if none.
    how, line : str
        Where in that file: "behind", "in front of" or "in the place of" a line; "" if it is all of it.
    end : int
        Where it ends on the page.
    """

    language: str
    text: str
    file: str
    how: str
    line: str
    end: int

    def write(self, folder: Path) -> None:
        """Write the file, or change it."""
        path = folder / self.file
        if not self.how:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(self.text, encoding="utf-8")
            return
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        (at,) = (k for k, line in enumerate(lines) if line.strip() == self.line.strip())
        keep = {"behind": (at + 1, at + 1), "in front of": (at, at), "in the place of": (at, at + 1)}
        first, last = keep[self.how]
        path.write_text("".join([*lines[:first], self.text, *lines[last:]]), encoding="utf-8")


def blocks(text: str) -> list[Block]:
    """Find the blocks of a page."""
    found = []
    for match in _BLOCK.finditer(text):
        before = text[: match.start()]
        edit, file = _EDIT.search(before), _FILE.search(before)
        name, how, line = file["name"] if file else "", "", ""
        if edit:
            name, how, line = edit["name"], " ".join(edit["how"].split()), edit["line"]
        found.append(Block(match["language"], match["text"], name, how, line, match.end()))
    return found


def commands(console: str) -> Iterator[tuple[str, list[str]]]:
    """Yield each command of a console block and the lines behind it."""
    for part in re.split(r"^\$ ", console, flags=re.MULTILINE)[1:]:
        command, *lines = part.replace("\\\n", " ").splitlines()
        yield command, lines


def fits(printed: str, expected: list[str]) -> bool:
    """Return whether a program printed these lines, "…" standing for any."""
    parts = [re.escape(line.rstrip()) if line != _SOME else r"(?:.*\n)*?.*" for line in expected]
    lines = "\n".join(line.rstrip() for line in printed.rstrip("\n").splitlines())
    return re.fullmatch("\n".join(parts), lines) is not None


def exit_code(command: str) -> int:
    """Return the expected exit code of a command: 0, or that of a comment behind it (``# exit 2``)."""
    said = re.search(r"# exit (\d+)$", command)
    return int(said[1]) if said else 0


def run_command(command: str) -> tuple[int, str]:
    """Run ``astranb ...`` or ``pytest ...``; return its exit code and what it printed."""
    name, *words = shlex.split(command, comments=True)
    if name == "pytest":
        program = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words]
        run = subprocess.run(program, capture_output=True, text=True, check=False)
        return run.returncode, run.stdout + run.stderr
    assert name == "astranb", f"{command!r} is not ours: show it in another kind of block"
    from astranb.cli import main  # a page may have changed it

    out = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(words)
    return code, out.getvalue()


def run_python(text: str, scope: dict[str, Any], name: str) -> str:
    """Run a block of Python; give what it printed."""
    out = io.StringIO()
    try:
        with contextlib.redirect_stdout(out):
            exec(compile(text, name, "exec"), scope)
    except BaseException:
        print(out.getvalue())
        raise
    return out.getvalue()


def _apply(block: Block, folder: Path) -> None:
    """Write a page's file; what has been imported of a changed package is imported anew."""
    block.write(folder)
    if block.file.startswith("astranb/"):
        for name in [name for name in sys.modules if name.partition(".")[0] == "astranb"]:
            del sys.modules[name]


@contextlib.contextmanager
def _within(folder: Path) -> Iterator[None]:
    """Be in a folder, whose modules can be imported."""
    before = set(sys.modules)
    with contextlib.chdir(folder):
        sys.path.insert(0, str(folder))
        try:
            yield
        finally:
            sys.path.remove(str(folder))
            for name in set(sys.modules) - before:
                if str(getattr(sys.modules[name], "__file__", "")).startswith(str(folder)):
                    del sys.modules[name]


def run_page(page: Path, folder: Path) -> int:
    """Run all blocks of a page in a folder; give how many commands and pieces of Python there were."""
    text = page.read_text(encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "__page__"}
    done, printed = 0, ""
    with _within(folder):
        for block in blocks(text):
            if block.file:
                _apply(block, folder)
            elif block.language == "console":
                for command, expected in commands(block.text):
                    if command.startswith("make "):
                        continue
                    code, got = run_command(command)
                    assert code == exit_code(command), f"{page.name}: {command}: exit {code}\n{got}"
                    assert fits(got, expected), f"{page.name}: {command} printed\n{got}"
                    done += 1
            elif block.language == "python":
                printed = run_python(block.text, scope, page.name)
                done += 1
            elif block.language == "text" and printed:
                assert fits(printed, block.text.splitlines()), f"{page.name}: Python printed\n{printed}"
                printed = ""
    return done


def write_page(page: Path, folder: Path) -> None:
    """Write into a page what its commands print now; of lines that end with "…" as many as stand there.

    ``python -m tests.documents --write PAGE.md FOLDER`` does it; look at the difference before you commit it.
    """
    text = page.read_text(encoding="utf-8")
    scope: dict[str, Any] = {"__name__": "__page__"}
    made, at, printed = "", 0, ""
    with _within(folder):
        for block in blocks(text):
            start = block.end - len(block.text) - 3
            new = block.text
            if block.file:
                _apply(block, folder)
            elif block.language == "console":
                new = ""
                for command, old in commands(block.text):
                    if command.startswith("make "):
                        new += f"$ {command}\n"
                        continue
                    code, got = run_command(command)
                    assert code == exit_code(command), f"{page.name}: {command}: exit {code}\n{got}"
                    new += f"$ {command}\n{_shown(got, old)}"
            elif block.language == "python":
                printed = run_python(block.text, scope, page.name)
            elif block.language == "text" and printed:
                new, printed = _shown(printed, block.text.splitlines()), ""
            made += text[at:start] + new
            at = block.end - 3
    page.write_text(made + text[at:], encoding="utf-8")


def _shown(printed: str, old: list[str]) -> str:
    """Cut printed lines where they were cut before."""
    lines = [line.rstrip() for line in printed.rstrip("\n").splitlines()]
    if old and old[-1] == _SOME and len(lines) > len(old) - 1:
        lines = [*lines[: len(old) - 1], _SOME]
    return "".join(f"{line}\n" for line in lines)


def apart(page: Path, folder: Path, *, write: bool = False) -> str:
    """Run a page in a process of its own, on a copy of the package that it may change.

    Returns
    -------
    str
        What went wrong; "" if nothing did.
    """
    text = page.read_text(encoding="utf-8")
    found = blocks(text)
    unwanted = shutil.ignore_patterns("__pycache__")
    shutil.copytree(REPOSITORY / "astranb", folder / "astranb", ignore=unwanted)
    if any(block.file.startswith("tests/") for block in found) or "$ pytest " in text:
        shutil.copytree(REPOSITORY / "tests", folder / "tests", ignore=unwanted)
        shutil.copy(REPOSITORY / "pyproject.toml", folder)
    for block in found:
        if block.how and not (folder / block.file).exists():
            (folder / block.file).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(REPOSITORY / block.file, folder / block.file)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(folder), str(REPOSITORY)))}
    kernels = {file.relative_to(REPOSITORY).as_posix() for file in kernel_sources(REPOSITORY / "astranb")}
    if any(block.file in kernels for block in found):
        environment["ASTRANB_JIT"] = "0"
    command = [
        sys.executable,
        "-m",
        "tests.documents",
        *(["--write"] if write else []),
        str(page),
        str(folder),
    ]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    return "" if run.returncode == 0 else run.stdout + run.stderr


if __name__ == "__main__":
    *options, page, folder = sys.argv[1:]
    if options:
        write_page(Path(page).resolve(), Path(folder))
    elif not run_page(Path(page).resolve(), Path(folder)):
        sys.exit("there is nothing on the page that could be run")
