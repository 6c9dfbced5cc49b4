"""Every page of docs/how-to and docs/contributing does what it says."""

from __future__ import annotations

import importlib.util
import json
import re

import pytest

from tests.documents import DOCS, Block, apart, blocks, commands, fits, run_page

ROOT = DOCS.parent
README = ROOT / "README.md"
GUIDES = [
    *sorted((DOCS / "how-to").glob("*.md")),
    DOCS / "explanation" / "kernels.md",
    DOCS / "traffic.md",
    DOCS / "traffic_profile.md",
    DOCS / "troubleshooting.md",
    README,
]
RECIPES = sorted((DOCS / "contributing").glob("*.md"))


@pytest.mark.parametrize("page", GUIDES, ids=lambda page: page.stem)
def test_a_guide_does_what_it_says(page, tmp_path):
    if page == README:  # its commands are for the root of a checkout
        (tmp_path / "examples").symlink_to(ROOT / "examples")
    assert run_page(page, tmp_path) >= 1


@pytest.mark.parametrize("page", RECIPES, ids=lambda page: page.stem)
def test_a_recipe_works_as_it_is_written(page, tmp_path):
    wrong = apart(page, tmp_path)
    assert not wrong, wrong


WRAPPED = [
    README.parent / "CHANGELOG.md",
    README.parent / "CONTRIBUTING.md",
    README.parent / "changes" / "README.md",
    DOCS / "architecture.md",
    DOCS / "contributing" / "traffic_target.md",
    DOCS / "generated.md",
]
"""Pages whose lines are short, so that two branches can change one paragraph."""


@pytest.mark.parametrize("page", WRAPPED, ids=lambda page: page.stem)
def test_lines_are_short(page):
    lines = page.read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > 120 and not line.startswith("|")] == []


def test_every_page_is_reached_from_the_first():
    listed = set()
    for index in DOCS.rglob("index.md"):
        folder = index.parent.relative_to(DOCS).as_posix().removeprefix(".")
        names = re.findall(r"^(?:\.\./)?[\w/-]+$", index.read_text(encoding="utf-8"), re.MULTILINE)
        listed |= {f"{folder}/{name}".removeprefix("/") for name in names}
    pages = [
        page for page in DOCS.rglob("*.md") if page.parent.name != "reference" and page.name != "index.md"
    ]
    for page in [*pages, README]:
        name = page.relative_to(DOCS if page != README else ROOT).with_suffix("").as_posix()
        assert name in listed or f"../{name}" in listed, name


def test_a_page_that_is_wrong_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("```console\n$ astranb infra check ring:gpus=4\nill formed\n```\n")
    with pytest.raises(AssertionError, match="well formed"):
        run_page(page, tmp_path)
    page.write_text("```console\n$ astranb infra check ring:gpus=4  # exit 2\n…\n```\n")
    with pytest.raises(AssertionError, match="exit 0"):
        run_page(page, tmp_path)
    page.write_text("```python\nprint(1)\n```\n\n```text\n2\n```\n")
    with pytest.raises(AssertionError, match="printed"):
        run_page(page, tmp_path)


RECIPE = """In `astranb/net/link.py`, in front of `__all__ = [`:

```python
MOST = {most}
```

In `docs/glossary.md`, in front of `# Glossary`:

```text
A line.
```

`tests/net/test_most.py`:

```python
from pathlib import Path
from astranb.core import jit
from astranb.net import link

def test_most():
    assert (link.MOST, jit.JIT) == (3, False)
    assert Path(link.__file__).parents[2] == Path(__file__).parents[2] == Path.cwd()
    assert Path("docs/glossary.md").read_text().startswith("A line.")
```

```console
$ pytest tests/net/test_most.py
…
```
"""


def test_a_recipe_runs_tests_in_its_own_copy(tmp_path):
    page = tmp_path / "page.md"
    for most, wrong in ((3, ""), (4, "1 failed")):
        folder = tmp_path / str(most)
        folder.mkdir()
        page.write_text(RECIPE.replace("{most}", str(most)))
        said = apart(page, folder)
        assert wrong in said
        assert bool(said) == bool(wrong)


def test_what_stands_for_any_lines():
    assert fits("a\nb\nc\n", ["a", "…"])
    assert fits("a\nb\nc\n", ["…", "b", "…"])
    assert fits("a\n", ["a"])
    assert not fits("a\nb\n", ["a"])
    assert not fits("a\nb\n", ["…", "c", "…"])


def test_blocks_of_a_page():
    (file, console) = blocks("Say `a/b.yml`:\n\n```yaml\nx: 1\n```\n\n```console\n$ astranb x\ny\n```\n")
    assert (file.language, file.file, file.how, file.text) == ("yaml", "a/b.yml", "", "x: 1\n")
    assert (console.language, console.file) == ("console", "")
    assert list(commands(console.text)) == [("astranb x", ["y"])]


@pytest.mark.parametrize(
    "how,expected",
    [("behind", "a\nb\nnew\nc\n"), ("in front of", "a\nnew\nb\nc\n"), ("in the place of", "a\nnew\nc\n")],
)
def test_a_file_is_changed_where_the_page_says(how, expected, tmp_path):
    (tmp_path / "x.txt").write_text("a\nb\nc\n")
    (block,) = blocks(f"In `x.txt`, {how} `b`:\n\n```text\nnew\n```\n")
    assert (block.file, block.how, block.line) == ("x.txt", how, "b")
    block.write(tmp_path)
    assert (tmp_path / "x.txt").read_text() == expected
    with pytest.raises(ValueError, match="unpack"):  # there is no such line
        Block("text", "new\n", "x.txt", how, "z", 0).write(tmp_path)


def test_pictures_of_lessons_stand_behind_the_cells_that_show_them():
    spec = importlib.util.spec_from_file_location("lessons", DOCS / "_ext" / "lessons.py")
    assert spec
    assert spec.loader
    lessons = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(lessons)
    paths = [*(ROOT / "notebooks").rglob("*.ipynb"), *(ROOT / "tutorials").rglob("*.ipynb")]
    notebooks = {path.stem: path for path in paths}
    folders = {path.parent for path in (DOCS / "lessons").glob("*/*.png")}
    assert folders
    for folder in folders:
        notebook = json.loads(notebooks[folder.name].read_text(encoding="utf-8"))
        shown = lessons.with_pictures(notebook, folder, "/docs/lessons")["cells"]
        pictures = [cell["source"] for cell in shown if cell["id"].endswith("-p")]
        assert len(pictures) == len(set(folder.glob("*.png")) - set(folder.glob("*.dark.png"))), (
            "a picture of a cell that is gone"
        )
        assert len(shown) == len(notebook["cells"]) + len(pictures)
