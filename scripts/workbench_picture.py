"""Make the README's animated picture from the real workbench: docs/workbench.gif and workbench.dark.gif.

    python -m scripts.workbench_picture [FILE.gif]

Starts JupyterLab and Chromium as the browser tests do, opens a notebook with a workbench, moves the
simulation forward and back with its public methods, and records the page.
"""

from __future__ import annotations

import io
import sys
import tempfile
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page, expect

from astranb.core.colours import KIND_COLOURS, OKABE_ITO
from tests.ui.harness import (
    REPOSITORY,
    TIMEOUT_S,
    Theme,
    chromium,
    evaluate,
    open_notebook,
    run_cell,
    serve,
    set_theme,
)

FILE = REPOSITORY / "docs" / "workbench.gif"
MOST_BYTES = 1_500_000

CELLS = (
    (
        "import astranb as anb\n\n"
        'sim = anb.Simulation("dgx-h100", anb.collectives.all_reduce("256 KiB", "ring"))'
    ),
    "workbench = anb.Workbench(sim)\nworkbench",
)
THEMES: tuple[tuple[Theme, str], ...] = (("light", ""), ("dark", ".dark"))
ON, BACK = 34, 10
"""Frames forward and back."""
STEP_NS, BACK_NS = 180, 600
COLOURS, WIDTH, SWATCH, FRAME_MS, LAST_MS = 96, 800, 120, 110, 1200


def settled(page: Page, bench: Locator, events: int) -> None:
    """Wait until the page shows the state after some events, timelines and all."""
    expect(bench).to_have_attribute("data-events", str(events), timeout=TIMEOUT_S * 1000)
    page.wait_for_timeout(350)


def frames(page: Page, bench: Locator) -> list[Image.Image]:
    """Step forward and back, with one picture per step."""
    taken = []
    evaluate(page, "workbench.select('gpu[3]')")
    times = [(k + 1) * STEP_NS for k in range(ON)]
    times += [times[-1] - (k + 1) * BACK_NS for k in range(BACK)]
    for before, now in zip([0, *times], times, strict=False):
        if now > before:
            evaluate(page, f"str(sim.run('{now} ns'))")
        else:
            evaluate(page, f"(sim.goto('{max(now, STEP_NS)} ns') and None)")
        settled(page, bench, evaluate(page, "sim.events"))
        taken.append(Image.open(io.BytesIO(bench.screenshot())).convert("RGB"))
    # Down to the end of the timelines: the rest would only make the file larger.
    top, timelines = bench.bounding_box(), bench.locator(".anb-timeline").first.bounding_box()
    assert top
    assert timelines
    height = int(timelines["y"] + timelines["height"] - top["y"]) + 4
    return [picture.crop((0, 0, picture.width, height)) for picture in taken]


def small(pictures: list[Image.Image]) -> list[Image.Image]:
    """The same pictures, smaller, all of one palette, so that what stays the same costs nothing."""
    width, height = pictures[0].size
    size = WIDTH, height * WIDTH // width
    scaled = [picture.resize(size, Image.Resampling.LANCZOS) for picture in pictures]
    # Colours are chosen by area; those of a few dots get an area of their own.
    swatches = Image.new("RGB", (WIDTH, size[1] + SWATCH))
    swatches.paste(scaled[len(scaled) // 2], (0, 0))
    colours = sorted({*OKABE_ITO, *KIND_COLOURS})
    for place, colour in enumerate(colours):
        swatches.paste(colour, (place * WIDTH // len(colours), size[1], WIDTH, size[1] + SWATCH))
    palette = swatches.quantize(COLOURS, dither=Image.Dither.NONE)
    return [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in scaled]


def write(file: Path, pictures: list[Image.Image]) -> None:
    """Write the animated picture."""
    first, *more = pictures
    durations = [FRAME_MS] * len(pictures)
    durations[ON - 1] = durations[-1] = LAST_MS
    first.save(file, save_all=True, append_images=more, duration=durations, loop=0, optimize=True)
    size = file.stat().st_size
    print(f"{file}: {len(pictures)} frames, {size:,} bytes")
    if size > MOST_BYTES:
        sys.exit(f"that is more than {MOST_BYTES:,} bytes: fewer frames, colours or pixels")


def main(file: Path) -> None:
    """Make the picture, light and dark."""
    with (
        tempfile.TemporaryDirectory() as home,
        tempfile.TemporaryDirectory() as root,
        serve(Path(home), Path(root)) as lab,
        chromium() as browser,
    ):
        page = browser.new_page(viewport={"width": 1400, "height": 1600}, locale="en-US")
        page.set_default_timeout(TIMEOUT_S * 1000)
        open_notebook(page, lab, CELLS)
        for theme, suffix in THEMES:
            set_theme(page, theme)
            run_cell(page, 0)
            run_cell(page, 1)
            write(
                file.with_suffix(suffix + file.suffix),
                small(frames(page, page.locator(".anb-workbench").first)),
            )


if __name__ == "__main__":
    main(Path(sys.argv[1]) if sys.argv[1:] else FILE)
