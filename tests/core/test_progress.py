from time import sleep

import pytest

from astranb.core.progress import Interrupted, announce, bar, building, notice, reported_to, share, stage


def test_nothing_is_printed_where_nobody_sees_it(capsys):
    with announce("compiling"):
        pass
    with bar(10, what="working", unit="things") as progress:
        progress.update(10)
    assert capsys.readouterr() == ("", "")


def test_a_terminal_sees_what_is_done(capsys, monkeypatch):
    monkeypatch.setattr("astranb.core.progress.visible", lambda: True)
    with announce("compiling"):
        pass
    said = capsys.readouterr().err
    assert said.startswith("astranb: compiling … done in ")


def test_a_wait_of_known_length_is_counted(capsys, monkeypatch):
    monkeypatch.setattr("astranb.core.progress.visible", lambda: True)
    with announce("compiling", 100):
        sleep(1.2)
    lines = capsys.readouterr().err.split("\r")
    assert lines[0] == "astranb: compiling … (0 s of about 100 s) "
    assert lines[1] == "astranb: compiling … (1 s of about 100 s) "
    assert lines[-1].startswith("astranb: compiling … done in 1.")
    assert len(lines[-1].rstrip("\n")) >= len(lines[1])


def test_a_notice_is_one_line_on_standard_error(capsys):
    notice("it is slower")
    assert capsys.readouterr() == ("", "astranb: it is slower\n")


def build(seconds):
    with building("a run"):
        stage("walls", 0.5)
        sleep(seconds)
        share(1, 2)
        with building("another run within"):
            stage("roof", 1.0)
            share(1, 2)


def test_building_is_silent_for_a_second_and_then_one_line(capsys, monkeypatch):
    monkeypatch.setattr("astranb.core.progress.visible", lambda: True)
    build(0)
    assert capsys.readouterr().err == ""
    monkeypatch.setattr("astranb.core.progress._SHOWN_AFTER_S", 0.01)
    monkeypatch.setattr("astranb.core.progress._OFTEN_S", 0.0)
    build(0.02)
    shown = capsys.readouterr().err
    assert "a run: walls:  25%" in shown
    assert "a run: roof:  75%" in shown
    assert "another" not in shown
    assert "\n" not in shown.strip()


def test_an_interrupt_of_building_is_one_line(capsys):
    with pytest.raises(Interrupted) as caught, building("a run"):
        raise KeyboardInterrupt
    assert isinstance(caught.value, KeyboardInterrupt)
    line = "astranb: interrupted while building a run; nothing was kept"
    assert caught.value._render_traceback_() == [line]
    stage("nothing is built", 1.0)
    share(1, 1)
    assert capsys.readouterr().err == ""


def test_what_is_told_is_not_printed_and_can_be_ended(capsys, monkeypatch):
    monkeypatch.setenv("TQDM_DISABLE", "")
    heard = []
    with reported_to(lambda *what: heard.append(what)):
        with announce("compiling", 3), bar(2, what="trying", unit="runs") as shown:
            shown.update()
        monkeypatch.setattr("astranb.core.progress._SHOWN_AFTER_S", 0.0)
        monkeypatch.setattr("astranb.core.progress._OFTEN_S", 0.0)
        build(0.01)
    assert heard[:3] == [("compiling", 0, None), ("trying", 0, 2), ("trying", 1, 2)]
    assert ("a run: walls", 25, 100) in heard
    assert capsys.readouterr().err == ""

    def enough(*what):
        raise StopIteration(what[0])

    with (
        pytest.raises(StopIteration, match="trying"),
        reported_to(enough),
        bar(2, what="trying", unit="runs"),
    ):
        pass
    with bar(2, what="trying", unit="runs") as shown:
        shown.update()  # nobody ends this
