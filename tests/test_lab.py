"""What `astranb lab` opens where there is no checkout."""

from astranb import _lab


def test_an_installed_package_gives_copies_that_are_the_users(tmp_path, monkeypatch):
    package = tmp_path / "site" / "astranb"
    for name in (
        "_notebooks/tour.ipynb",
        "_notebooks/more/one.ipynb",
        "_tutorials/01.ipynb",
        "_tutorials/data/a.csv",
    ):
        (package / name).parent.mkdir(parents=True, exist_ok=True)
        (package / name).write_text(name)
    monkeypatch.setattr(_lab, "_PACKAGE", package)
    monkeypatch.chdir(tmp_path)
    tour = _lab._tour()
    assert tour == tmp_path / "astranb-notebooks" / "tour.ipynb"
    tour.write_text("changed")
    assert _lab._tour().read_text() == "changed"
    found = {f.relative_to(tour.parent).as_posix() for f in tour.parent.rglob("*") if f.is_file()}
    assert found == {"tour.ipynb", "more/one.ipynb", "tutorials/01.ipynb", "tutorials/data/a.csv"}
