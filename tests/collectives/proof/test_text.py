"""A program as text: every fault stands at its line, and nothing that is typed does harm."""

import textwrap
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import astranb as anb
from astranb.collectives import Collective, Contract, Problem, check_text, text_algorithm, verify
from astranb.core.errors import InputError
from astranb.widgets.editor import EXAMPLE as TWO_SHOT

SIZES = """\
        block.copy(me.input[0], me.scratch[9999])
        block.copy(me.input[3], me.scratch[9999])
"""

BODY = textwrap.dedent(TWO_SHOT.partition("\n")[2])


def changed(old, new):
    assert old in TWO_SHOT
    return TWO_SHOT.replace(old, new, 1)


def one(text, **more):
    """The only problem of a text."""
    problems = check_text(text, **{"ranks": 4, **more})
    assert len(problems) == 1, problems
    return problems[0]


@pytest.mark.parametrize("text", [TWO_SHOT, BODY, "import math\n" + TWO_SHOT + "\ntwo = 2\n"])
@pytest.mark.parametrize("protocol", ["Simple", "LL"])
def test_a_right_program_has_no_problem(text, protocol):
    assert check_text(text, ranks=4, protocol=protocol) == []


@pytest.mark.parametrize(
    "text,line,says",
    [
        ("def f(p)\n    pass", 1, "expected ':'"),
        ("def f(p):\n    p.block(0).put(", 2, "was never closed"),
        ("def f(p):\n\tx = 1\n        y = 2", 3, "inconsistent use of tabs"),
        ("x = '\0'", 1, "null bytes"),
        ("(" * 500, 1, ""),
        ("", 1, "adds no thread block"),
        ("x = 1", 1, "adds no thread block"),
        (changed("me.block()", "me.blok()"), 4, "has no attribute 'blok'"),
        (changed("me.input[you]", "me.input[99]"), 6, r"input[99] of rank 0 does not exist"),
        (changed("me.output[you])", "me.output[me])"), 12, "wrong result on rank 0"),
        (changed("*parts]", "*parts, *parts]"), 8, "is there 2 times"),
        (changed("*parts], me.output", "*parts], me.scratch"), 10, "which has not been written"),
        ("def f(p):\n  g(p)\ndef g(p):\n  raise KeyError('<img src=x onerror=alert(1)>')", 4, "<img src=x"),
        ("def f(p):\n    block = p.block(0)\n    block.wait(p.semaphore(0))\n", 3, "waits for 1"),
        (
            "def f(p):\n    b = p.block(0)\n\n    b.wait(p.semaphore(1))\n",
            4,
            "cannot wait for a semaphore of rank 1",
        ),
        ("p.block(p.ranks)", 1, "rank 4 does not exist"),
        ("def f(p):\n  f(p)", 2, "RecursionError"),
        ("raise SystemExit", 1, "SystemExit"),
        ("f = open('/tmp/x', 'w')", 1, "name 'open' is not defined"),
        ("x = input()", 1, "name 'input' is not defined"),
        ("import math\nimport shutil\nshutil.rmtree('x')", 2, "cannot import 'shutil'"),
        ("from os.path import join", 1, "cannot import 'os.path'"),
        (TWO_SHOT + SIZES, 14, "different sizes"),
    ],
)
def test_what_is_wrong_stands_at_its_line(text, line, says):
    problems = check_text(text, ranks=4, size=1000)
    assert problems[0].severity == "error"
    assert says in problems[0].text
    assert problems[0].line == line, problems
    assert problems[0].column >= 1


def test_a_deadlock_names_the_lines_of_its_circle():
    problem = one(
        """
def crossed(p):
    a, b = p.semaphore(0), p.semaphore(1)
    one, two = p.block(0), p.block(1)
    one.wait(a)
    one.signal(b)
    two.wait(b)
    two.signal(a)
""",
        collective="barrier",
    )
    assert (problem.line, problem.also) == (5, (7,))
    assert problem.text.startswith("deadlock: rank 0 block 0 operation 0")
    assert problem.text.count("<-") == 2


def test_a_race_names_both_lines():
    problem = one(
        """
b, c = p.block(0), p.block(1)
b.put(p.input(0)[0], p.scratch(1)[0])
c.copy(p.scratch(1)[0], p.scratch(1)[1])
""",
        collective="barrier",
    )
    assert {problem.line, *problem.also} == {3, 4}
    assert problem.text.startswith("race: ")


def test_a_missing_fence_is_found_at_the_lines_it_concerns():
    relaxed = """
gate = p.semaphore(1)
b, c = p.block(0), p.block(1)
b.put(p.input(0)[0], p.scratch(1)[0])
b.signal(gate, relaxed=True)
c.wait(gate)
c.copy(p.scratch(1)[0], p.scratch(1)[1])
"""
    problem, reading = check_text(relaxed, collective="barrier", ranks=4)
    assert {problem.line, *problem.also} == {reading.line, *reading.also} == {4, 5, 7}
    assert "missing fence" in problem.text
    assert (reading.severity, "every relaxed signal waits for the stores" in reading.text) == (
        "warning",
        True,
    )
    assert check_text(relaxed.replace(", relaxed=True", ""), collective="barrier", ranks=2) == []


def test_what_is_wrong_on_every_rank_is_one_problem():
    problem = one("for me in p.everyone:\n    me.block().wait(me.semaphore())", collective="barrier")
    assert problem.line == 2
    assert problem.text.endswith("(and 3 more like it)")


def test_warnings_come_after_errors():
    warned = check_text("p.block(0).signal(p.semaphore(0))", collective="barrier", ranks=2)
    assert [problem.severity for problem in warned] == ["warning"]
    both = "p.block(0).signal(p.semaphore(0))\np.block(1).wait(p.semaphore(1))"
    assert [p.severity for p in check_text(both, collective="barrier", ranks=2)] == ["error", "warning"]


@pytest.mark.parametrize(
    "text",
    [
        "while True:\n    pass",
        "while True: p.block(0)",
        "def f(p):\n  while 1:\n    try:\n      1/0\n    except Exception:\n      continue",
        "while True: f = lambda: 0",
        "[x for x in iter(int, 1)]",
    ],
)
def test_a_loop_without_end_does_not_hang(text):
    start = time.monotonic()
    problem = one(text, seconds=0.3)
    assert time.monotonic() - start < 10
    assert "not done after 0.3 s" in problem.text


def test_a_program_that_grows_without_end_is_refused():
    problem = one("block = p.block(0)\nwhile True:\n    block.fence()", seconds=30)
    assert problem.line == 3
    assert "more than 200,000 operations" in problem.text


def test_what_is_not_the_texts_fault_is_raised():
    with pytest.raises(InputError, match="did you mean 'all_reduce'"):
        check_text(TWO_SHOT, collective="allreduce")
    with pytest.raises(InputError, match="size"):
        check_text(TWO_SHOT, size="many")
    assert "characters" in one("#" * 100_001).text


def test_printing_and_imports_to_compute_with_are_allowed(capsys):
    text = "import math, numpy as np\nfrom itertools import product\nprint('hello')\n" + TWO_SHOT
    assert check_text(text, ranks=2) == []
    assert capsys.readouterr().out == ""


@settings(max_examples=60, deadline=None)
@given(st.integers(0, len(TWO_SHOT)), st.integers(0, 30), st.text(max_size=6))
def test_whatever_is_typed_is_answered_within_the_text(start, length, typed):
    text = TWO_SHOT[:start] + typed + TWO_SHOT[start + length :]
    lines = max(1, len(text.splitlines()))
    for problem in check_text(text, ranks=2, seconds=1):
        assert isinstance(problem, Problem)
        assert 1 <= problem.line <= lines + 1
        assert "\n" not in str(problem)


def test_a_text_is_an_algorithm_that_runs_and_knows_its_lines():
    for text in (TWO_SHOT, BODY):
        algorithm = text_algorithm(text, "mine")
        collective = Collective.of("all_reduce", "4 KiB", algorithm, channels=1)
        assert verify(collective.program(4), "all_reduce") == []
        sim = anb.Simulation("switch:gpus=4", collective)
        sim.run()
        assert sim.engine.work.title == "all_reduce/mine"
        assert [(part.name, part.first, part.text) for part in sim.source.parts] == [
            ("mine", 1, text.rstrip("\n"))
        ] or [part.text for part in sim.source.parts] == [text]
        assert sim.source.text_of(0) == "wires[me, you].send(block, me.input[you])"


def test_the_named_function_is_the_algorithm_else_the_last():
    text = (
        "def one(p):\n    p.block(0).fence()\ndef two(p):\n    p.block(0).fence()\n    p.block(1).fence()\n"
    )
    for name, blocks in (("one", 1), ("two", 2), ("other", 2)):
        program = Collective.of("barrier", 1, text_algorithm(text, name), channels=1).program(2)
        assert len(program.blocks) == blocks


def test_a_text_that_is_none_is_refused_with_its_line():
    with pytest.raises(InputError, match=r"algorithm 'x', x line 2: .*never closed"):
        text_algorithm("def f(p):\n    p.block(", "x")
    with pytest.raises(InputError, match="x line 1: ZeroDivisionError"):
        text_algorithm("y = 1 / 0\ndef f(p):\n    pass", "x")


def test_an_error_while_it_runs_names_its_line_in_python_too():
    algorithm = text_algorithm("def f(p):\n    p.block(0).copy(p.scratch(0)[0], p.scratch(0)[1])\n", "gap")
    with pytest.raises(InputError, match="is read, but never written") as caught:
        anb.Simulation("switch:gpus=2", Collective.of("barrier", 1, algorithm, channels=1))
    assert "gap line 2" in str(caught.value)


SHIFTED = """
wires = p.connections()
for me in p.everyone:
    block = me.block()
    wires[me, me.right].send(block, me.input[0])
    block.copy(wires[me.left, me].receive(block), me.output[0])
"""


def test_a_text_is_checked_against_a_contract():
    def shift(by):
        return Contract(
            inputs=lambda r, n: 512 * (r + 1),
            outputs=lambda r, n: 512 * ((r - by) % n + 1),
            post=lambda r, k, n: {((r - by) % n, 0)},
        )

    assert check_text(SHIFTED, collective=shift(1), ranks=4) == []
    problems = check_text(SHIFTED, collective=shift(2), ranks=4)
    assert "rank 2 input[0] is missing; rank 3 input[0] should not be in it" in str(problems[0])
    assert problems[0].line == 6
