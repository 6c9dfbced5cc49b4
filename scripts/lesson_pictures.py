"""Take the pictures of the lessons for the rendered pages: docs/lessons/NOTEBOOK/CELL.png and CELL.dark.png.

    python -m scripts.lesson_pictures [NOTEBOOK.ipynb]...

Notebooks are committed without pictures. This runs them in a real JupyterLab, as the browser tests
do, and takes a picture of every cell that shows a view or a figure; the site puts it behind the cell
(docs/_ext/lessons.py). Without arguments, all of tutorials/ and the tour.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from playwright.sync_api import TimeoutError as PlaywrightTimeout

from tests.ui.harness import REPOSITORY, Theme, chromium, open_notebook, run_cell, serve, set_theme, wait_idle

if TYPE_CHECKING:
    from playwright.sync_api import Page

FOLDER = REPOSITORY / "docs" / "lessons"
WIDTH, COLOURS, MOST_HEIGHT, TIMEOUT_S = 820, 256, 760, 120
THEMES: tuple[tuple[Theme, str], ...] = (("light", ".png"), ("dark", ".dark.png"))
SHOWS = ".anb-workbench, .anb-editor, .jp-RenderedSVG, canvas"
"""Elements of a cell's output that are shown as a picture."""
NOT_TEXT = ".jp-OutputArea-child:not(:has(.jp-RenderedText))"


def picture(shot: bytes) -> Image.Image:
    """Return a small picture of few colours."""
    image = Image.open(io.BytesIO(shot)).convert("RGB")
    size = WIDTH, image.height * WIDTH // image.width
    small = image.resize(size, Image.Resampling.LANCZOS)
    # The median cut would merge the few pixels of thin coloured lines.
    return small.quantize(COLOURS, Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)


def take(page: Page, cells: list[dict[str, str]], folder: Path) -> int:
    """Run the cells of an open notebook; return the number of pictures."""
    taken = 0
    for index, cell in enumerate(cells):
        if cell["cell_type"] != "code":
            continue
        run_cell(page, index, wait=False)
        wait_idle(page, timeout_s=TIMEOUT_S)
        output = page.locator(".jp-Cell.jp-mod-active .jp-Cell-outputArea").first
        if not output.locator(NOT_TEXT).count():
            continue
        try:  # a view appears shortly after its cell has run
            output.locator(SHOWS).first.wait_for(timeout=5000)
        except PlaywrightTimeout:
            continue
        folder.mkdir(parents=True, exist_ok=True)
        for theme, ending in THEMES:
            set_theme(page, theme)
            output.scroll_into_view_if_needed()
            page.wait_for_timeout(1500)  # views request their data
            box = output.bounding_box()
            assert box, "an output that shows something has a place"
            box["height"] = min(box["height"], MOST_HEIGHT)
            picture(page.screenshot(clip=box)).save(folder / f"{cell['id']}{ending}", optimize=True)
        set_theme(page, "light")
        taken += 1
    return taken


def main(notebooks: list[Path]) -> None:
    """Take the pictures of some notebooks."""
    if missing := [str(notebook) for notebook in notebooks if not notebook.is_file()]:
        raise SystemExit(f"no such notebook: {', '.join(missing)}")
    with (
        tempfile.TemporaryDirectory() as home,
        tempfile.TemporaryDirectory() as root,
        serve(Path(home), Path(root)) as lab,
        chromium() as browser,
    ):
        for name_of_folder in ("tutorials", "examples"):
            shutil.copytree(REPOSITORY / name_of_folder, lab.root / name_of_folder, dirs_exist_ok=True)
        for notebook in notebooks:
            name = notebook.resolve().relative_to(REPOSITORY)
            folder = FOLDER / notebook.stem
            shutil.rmtree(folder, ignore_errors=True)
            page = browser.new_page(viewport={"width": 1250, "height": 1500}, locale="en-US")
            page.set_default_timeout(TIMEOUT_S * 1000)
            open_notebook(page, lab, name)
            taken = take(page, json.loads(notebook.read_text(encoding="utf-8"))["cells"], folder)
            print(f"{name}: {taken} pictures", flush=True)
            page.close()


if __name__ == "__main__":
    lessons = sorted((REPOSITORY / "tutorials").glob("*.ipynb"))
    main([Path(name) for name in sys.argv[1:]] or [REPOSITORY / "notebooks" / "tour.ipynb", *lessons])
