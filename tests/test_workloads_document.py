"""The examples of ``docs/workloads.md`` print what stands there."""

from __future__ import annotations

import re
from pathlib import Path

from astranb.cli import main

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "workloads.md"


def _blocks(language: str) -> list[str]:
    text = DOCUMENT.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def test_commands_print_what_the_document_says(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    commands = 0
    for block in _blocks("console"):
        for part in re.split(r"^\$ astranb ", block, flags=re.MULTILINE)[1:]:
            command, _, expected = part.partition("\n")
            assert main(command.split()) == 0, command
            printed, lines = capsys.readouterr().out, expected.splitlines()
            if lines[-1] == "…":  # what follows is left out
                lines = lines[:-1]
                assert printed.splitlines()[: len(lines)] == lines, command
            else:
                assert printed.splitlines() == lines, command
            commands += 1
    assert commands >= 9


def test_the_example_of_the_readme_is_that_of_the_document():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^\$ astranb run model .*?(?=^…$)", readme, re.MULTILINE | re.DOTALL)
    assert example in DOCUMENT.read_text(encoding="utf-8")


def test_the_python_of_the_document_runs():
    for block in _blocks("python"):
        exec(compile(block, str(DOCUMENT), "exec"), {})
