"""Display of results in a notebook."""

from __future__ import annotations

from IPython.lib.pretty import pretty

import astranb as anb
from astranb.core.display import Displayed


class Note(Displayed):
    """Some text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


def test_one_line_is_a_sentence_and_several_are_a_block() -> None:
    assert Note("a < b")._repr_html_() == "<span>a &lt; b</span>"
    assert Note("a\nb")._repr_html_() == "<pre>a\nb</pre>"
    assert pretty([Note("a"), Note("b")]) == "[a, b]"


def test_what_a_verb_returns_is_a_sentence() -> None:
    sim = anb.Simulation("ring:gpus=4", anb.collectives.all_gather("4 KiB", "ring"))
    stop = sim.step(10)
    assert pretty(stop) == str(stop) == stop.text
    assert pretty(stop).startswith("stepped at ")
    assert repr(stop).startswith("Stop(why='steps'")
    point = sim.break_at("1 us")
    assert pretty(sim.breakpoints) == "[breakpoint at 1 µs]"
    sim.clear(point)
    watch = sim.watch("gpu[1].blocks_left")
    assert pretty(watch) == "box.0.gpu.1.blocks_left: 1"
    assert repr(sim) == f"<Simulation {pretty(sim)}>"
    sim.run()
    path = sim.critical_path()
    assert pretty(path) == path.summary()
    first = path.segments[0]
    assert pretty(first).startswith("0 ps to ")
    assert first.cause in pretty(first)
    assert sim.result._repr_html_() == f"<pre>{sim.result.summary()}</pre>"


def test_faults_of_a_program_are_sentences() -> None:
    def silent(p: anb.collectives.Program) -> None:
        for me in p.everyone:
            me.block().copy(me.input[0], me.output[me.number])

    gather = anb.collectives.all_gather("4 KiB", silent, channels=1)
    faults = anb.collectives.verify(gather.program(2), "all_gather")
    assert pretty(faults[0]) == faults[0].message
