from astranb.core.progress import announce, bar


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
