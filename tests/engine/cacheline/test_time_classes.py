"""One vocabulary and one palette for time: every producer names the same classes."""

import re
from pathlib import Path

import astranb
from astranb.core.colours import TIME_COLOURS
from astranb.engine.cacheline import LOSSES, SPAN_STATES, TRACK_STATES
from astranb.engine.cacheline.time_classes import TIME_CLASSES, class_of


def test_all_producers_use_the_classes(done):
    from_blocks = done.result.breakdown()
    interval = done.aggregate().shares()
    compared = {row["cause"] for row in done.engine.compared()["causes"][1]()}
    for names in (SPAN_STATES, TRACK_STATES, LOSSES, from_blocks, interval, compared):
        assert {class_of(name) for name in names} <= set(TIME_CLASSES), names


def test_python_and_the_browser_have_the_same_colours():
    assert set(TIME_COLOURS) == set(TIME_CLASSES)
    text = (Path(astranb.__file__).parent / "widgets/static/theme.js").read_text(encoding="utf-8")
    listed = re.search(r"TIME_COLOURS = \{(.*?)\};", text, re.DOTALL)
    assert listed
    found = {
        plain or quoted: colour
        for quoted, plain, colour in re.findall(r'(?:"([\w ]+)"|(\w+)): "(#\w+)"', listed[1])
    }
    assert found == TIME_COLOURS
    numbered = re.search(r"TRACK_COLOURS = (\[.*?\])", text)
    assert numbered
    assert re.findall(r'"([^"]+)"', numbered[1]) == [class_of(name) for name in TRACK_STATES]
