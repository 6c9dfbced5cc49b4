"""The checker of words: it finds what it should, where it is, and leaves the rest alone."""

from pathlib import Path

import pytest

from scripts.prose import EVERYWHERE, FIRST_WORDS, IN_MESSAGES, check_page, check_python, files, main

HERE = Path("a.py")


def found(source):
    return [(finding.line, finding.text) for finding in check_python(HERE, source)]


@pytest.mark.parametrize("word", FIRST_WORDS)
def test_first_words_of_docstrings(word):
    source = (
        f'"""{word} a link."""\n\nX = 1\n"""{word}, a constant."""\n\n\nclass A:\n    """{word} a class."""\n'
    )
    assert found(source) == [(1, word), (4, word), (8, word)]


def test_first_words_of_functions_and_their_lines():
    source = 'async def f():\n    """\n    Let it run.\n    """\n\n\ndef g():\n    """Return what it is."""\n'
    assert found(source) == [(2, "Let")]


def test_question_words_inside_a_docstring_are_allowed():
    source = (
        '"""Position of a run: where it stops, and why."""\n\n\ndef f():\n    """Return when it ends."""\n'
    )
    assert found(source) == []
    assert found('"""Where, when and why it stops."""\n') == [(1, "Where")]


def test_whether_names_an_attribute_and_no_function():
    source = (
        'class A:\n    x: bool = True\n    """Whether it is set."""\n\n'
        '    @property\n    def y(self):\n        """Whether it is up."""\n\n'
        '    def z(self):\n        """Whether it is down."""\n'
    )
    assert found(source) == [(10, "Whether")]


def test_phrases_inside_docstrings():
    assert found('"""Keys.\n\nA key stands twice\nat the next time.\n"""\n') == [
        (3, "stands twice"),
        (4, "at the next time"),
    ]


def test_messages():
    source = (
        "def f(x):\n"
        '    if x:\n        raise InputError(f"there is no link {x!r}", hint="it is no GPU")\n'
        '    raise source.error(f"{x} is no link")\n'
    )
    assert found(source) == [(3, "is no"), (3, "there is no"), (4, "is no")]


def test_what_no_message_is_left_alone():
    """A log line or a comment can say that there is none; a message, that a thing is no longer there."""
    source = (
        'print("there is no link")  # it is no link\nraise InputError("the function is no longer there")\n'
    )
    assert found(source) == []


def test_pages():
    page = "# Links\n\nA collective\nof no bytes, and there is no link.\n"
    assert [(finding.line, finding.text) for finding in check_page(Path("a.md"), page)] == [
        (4, "of no bytes")
    ]


def test_each_phrase_says_what_to_write():
    assert all(phrase.instead for phrase in (*EVERYWHERE, *IN_MESSAGES))


def test_a_file_by_name(tmp_path, capsys):
    path = tmp_path / "one.py"
    path.write_text('"""How it waits."""\n', "utf-8")
    assert main([str(path)]) == 1
    printed = capsys.readouterr().out
    assert printed.startswith(f"{path}:1: 'How': write ")
    assert "Number of" in printed
    path.write_text('"""Time that it waits."""\n', "utf-8")
    assert main([str(path)]) == 0
    assert capsys.readouterr().out == ""


def test_the_checkout_has_none(capsys):
    assert len(list(files())) > 20
    assert main([]) == 0, capsys.readouterr().out
