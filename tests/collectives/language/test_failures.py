"""Failures and faults of programs name the file, the line and its text."""

from __future__ import annotations

from pathlib import Path

import pytest
from IPython.core.interactiveshell import InteractiveShell

import astranb as anb
from astranb.cli import main
from astranb.collectives import Collective, check_text, contract, text_algorithm, verify
from astranb.collectives.language.source import ProgramError
from astranb.core.errors import Deadlock, InputError, WrongResult


def here(mark: str) -> int:
    """Return the number of the line of this file that ends with a mark."""
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    return next(n for n, line in enumerate(lines, 1) if line.endswith(f"# {mark}"))


def _put(block, me):
    block.putt(me.input[0], me.right.output[0])  # PUTT


def unknown_method(p):
    for me in p.everyone:
        _put(me.block(), me)


def unknown_name(p):
    distance = p.ranks
    return distance - distence  # type: ignore[name-defined]  # noqa: F821  # NAME


def in_a_library(p):
    return p.name.encode("no such codec")  # CODEC


def refused(p):
    p.block(0).move([], [])  # MOVE


@pytest.mark.parametrize(
    "write, mark, message",
    [
        (unknown_method, "PUTT", r"'Block' object has no attribute 'putt'; did you mean 'put'\?"),
        (unknown_name, "NAME", r"name 'distence' is not defined; did you mean 'distance' or 'isinstance'\?"),
        (in_a_library, "CODEC", "unknown encoding: no such codec"),
        (refused, "MOVE", "a move needs at least one source and one target"),
    ],
)
def test_what_a_program_raises_is_one_line_with_its_place_and_text(write, mark, message):
    with pytest.raises(ProgramError, match=rf", test_failures.py line {here(mark)}: .*{message}") as caught:
        Collective.of("send_recv", "1 KiB", write).program(2)
    text = Path(__file__).read_text(encoding="utf-8").splitlines()[here(mark) - 1].strip()
    assert str(caught.value).endswith(f" | {text}")
    assert caught.value._render_traceback_() == [f"ProgramError: {caught.value}"]


def test_a_notebook_shows_the_line_of_the_cell_and_no_frame_of_ours():
    InteractiveShell.clear_instance()
    shell = InteractiveShell.instance()
    try:
        shell.run_cell("def slip(p):\n    p.blok(0)")
        result = shell.run_cell(
            "import astranb as anb\nanb.collectives.send_recv('1 KiB', slip).program(2)", silent=True
        )
        error = result.error_in_exec
        assert isinstance(error, ProgramError)
        assert "'Program' object has no attribute 'blok'; did you mean 'block'? | p.blok(0)" in str(error)
        assert error.line is not None
        assert error.line.number == 2
        assert error._render_traceback_() == [f"ProgramError: {error}"]
    finally:
        InteractiveShell.clear_instance()


def test_a_text_is_refused_with_its_line_and_the_nearest_name():
    (problem,) = check_text("block = p.block(0)\nblock.putt(1)", collective="barrier", ranks=2)
    assert (problem.line, problem.hint) == (2, "did you mean 'put'?")
    write = text_algorithm("p.blok(0)", "x")
    with pytest.raises(InputError, match=r"x line 1: .*did you mean 'block'\? \| p.blok\(0\)"):
        Collective.of("barrier", 1, write).program(2)


def polite(p):
    arrived = [me.semaphore() for me in p.everyone]
    for me in p.everyone:
        block = me.block()
        block.wait(arrived[me])  # WAIT
        block.put(me.input[0], me.right.output[0])
        block.signal(arrived[me.right])


def hasty(p):
    for me in p.everyone:
        me.block().put(me.input[0], me.right.output[0])  # HASTY


def test_a_fault_shows_the_lines_of_its_operations():
    (fault,) = verify(Collective.of("send_recv", "1 KiB", polite).program(2), "send_recv")
    assert [line.number for line in fault.lines] == [here("WAIT")]
    assert str(fault).splitlines() == [
        fault.message,
        f"    test_failures.py line {here('WAIT')}: block.wait(arrived[me])  # WAIT",
    ]
    first, *_ = verify(Collective.of("send_recv", "1 KiB", hasty).program(2), "send_recv")
    assert str(first).endswith("# HASTY")


def test_a_run_that_fails_names_the_line():
    stuck = anb.Simulation("ring:gpus=2", Collective.of("send_recv", "1 KiB", polite))
    with pytest.raises(Deadlock, match=rf" \| test_failures.py line {here('WAIT')}: block.wait.*# WAIT$"):
        stuck.run()

    def unordered(p):
        for me in p.everyone:
            block = me.block()
            block.put(me.input[0], me.right.scratch[0])
            block.copy(me.scratch[0], me.output[0])  # UNORDERED

    wrong = anb.Simulation("ring:gpus=2", Collective.of("send_recv", "64 KiB", unordered, channels=1))
    with pytest.raises(WrongResult, match=rf"race: .* \| test_failures.py line {here('UNORDERED')}: "):
        wrong.run()


@pytest.mark.parametrize(
    "text, message",
    [
        ("def f(p:\n", "mine.py line 1: '(' was never closed | def f(p:"),
        ("import numpyy\n", "mine.py line 1: ModuleNotFoundError: No module named 'numpyy' | import numpyy"),
        (
            "def f(p):\n    p.everyon\n",
            (
                "algorithm all_gather/f, mine.py line 2: AttributeError: 'Program' object has no attribute "
                "'everyon'; did you mean 'everyone'? | p.everyon"
            ),
        ),
    ],
)
def test_the_command_line_names_the_line_of_a_file(text, message, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(text)
    assert main(["collective", "verify", "all_gather", "--algorithm", "mine.py:f"]) == 2
    assert capsys.readouterr().err == f"astranb: {message}\n"


def test_faults_on_the_command_line_have_their_lines(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    Path("hasty.py").write_text("def hasty(p):\n    p.block(0).put(p.input(0)[0], p.output(1)[0])\n")
    assert main(["collective", "verify", "send_recv", "--algorithm", "hasty.py:hasty", "--ranks", "2"]) == 4
    assert "\n    hasty.py line 2: p.block(0).put(p.input(0)[0], p.output(1)[0])\n" in capsys.readouterr().out


def test_what_a_function_of_a_contract_raises_has_its_line():
    def sizes(rank):
        return [1, 2][rank]  # SIZES

    @contract
    def uneven():
        return anb.collectives.Contract(inputs=sizes, outputs=sizes, post=lambda r, k: {(r, k)})

    with pytest.raises(InputError, match=rf"line {here('SIZES')}: inputs\(2\): IndexError"):
        uneven.on(3)
