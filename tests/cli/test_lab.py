"""``astranb lab``: its help, and what it opens where there is no checkout."""

import pytest

from astranb.cli import lab, main


def test_an_installed_package_gives_copies_that_are_the_users(tmp_path, monkeypatch):
    package = tmp_path / "site" / "astranb"
    for name in (
        "_notebooks/tour.ipynb",
        "_notebooks/more/one.ipynb",
        "_tutorials/01.ipynb",
        "_tutorials/data/a.csv",
        "_examples/b.py",
    ):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(name)
    monkeypatch.setattr(lab, "_PACKAGE", package)
    monkeypatch.chdir(tmp_path)
    tour = lab._tour()
    assert tour == tmp_path / "astranb-notebooks" / "tour.ipynb"
    tour.write_text("changed")
    assert lab._tour().read_text() == "changed"
    found = {f.relative_to(tour.parent).as_posix() for f in tour.parent.rglob("*") if f.is_file()}
    lessons = {"tutorials/01.ipynb", "tutorials/data/a.csv"}
    assert found == {"tour.ipynb", "more/one.ipynb", "examples/b.py", *lessons}


@pytest.mark.parametrize("option", ["--help", "-h"])
def test_help_lists_the_options_of_jupyterlab(option, capsys):
    assert main(["lab", "--no-browser", option]) == 0
    out, error = capsys.readouterr()
    assert out.startswith("usage: astranb lab [NOTEBOOK.ipynb] [JupyterLab options]\n")
    assert "--no-browser" in out
    assert "--port=<Int>" in out
    assert error == ""


def test_bad_input_is_one_line(tmp_path, capsys):
    for words, says in (
        (["a.ipynb", "b.ipynb"], "lab: 2 notebooks were named; name one"),
        ([str(tmp_path / "none.ipynb")], "no such notebook; leave it out to open the tour"),
        (["--foo"], "lab: unknown option '--foo'; see astranb lab --help"),
        (["--foo=1"], "lab: unknown option '--foo=1'; see astranb lab --help"),
        (["--no-brwser"], "unknown option '--no-brwser'; did you mean '--no-browser'"),
        (["--port"], "lab: --port: its value is missing; write --port=VALUE"),
        (["--port", "--no-browser"], "lab: --port: its value is missing; write --port=VALUE"),
        (["notebooks"], "lab: unexpected 'notebooks'; name a notebook, FILE.ipynb"),
    ):
        assert main(["lab", *words]) == 2
        error = capsys.readouterr().err
        assert error.startswith("astranb: ")
        assert error.count("\n") == 1
        assert says in error


def test_options_of_jupyterlab_are_passed_on(monkeypatch):
    passed = []

    def serve(options: list[str], _root: object, _url: object) -> int:
        passed.append(options)
        return 0

    monkeypatch.setattr(lab, "_serve", serve)
    options = ["--no-browser", "--port", "8890", "--ip=127.0.0.1", "-y", "--ServerApp.token=x", "--debug"]
    assert main(["lab", *options, "--ServerApp.root_dir=."]) == 0
    assert passed == [[*options, "--ServerApp.root_dir=."]]
