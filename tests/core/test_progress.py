from time import sleep

from astranb.core.progress import announce, bar, notice


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
