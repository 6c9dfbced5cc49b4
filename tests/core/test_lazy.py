"""Faces: a folder's public names, each written once and loaded when it is first used."""

from __future__ import annotations

import ast
import importlib
import sys
from pathlib import Path

import pytest

import astranb
from astranb.core.lazy import lazy

PACKAGE = Path(astranb.__file__).parent
FACES = [file for file in PACKAGE.rglob("*.py") if "lazy(__name__)" in file.read_text(encoding="utf-8")]

FACE = """\
from __future__ import annotations

from typing import TYPE_CHECKING

from astranb.core.lazy import lazy

if TYPE_CHECKING:
    from pathlib import Path as Path

    from . import whole as whole
    from .below.module import first as first
    from .below.module import second as other

__getattr__, __dir__ = lazy(__name__)
"""


@pytest.fixture
def face(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Write a package with a lazy face, and return its name."""
    folder = tmp_path / "lazy_face"
    (folder / "below").mkdir(parents=True)
    (folder / "__init__.py").write_text(FACE)
    (folder / "whole.py").write_text("")
    (folder / "below" / "__init__.py").write_text("")
    (folder / "below" / "module.py").write_text("first, second = 1, 2")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("lazy_face", "lazy_face.whole", "lazy_face.below", "lazy_face.below.module"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    return folder.name


def test_names_come_from_their_modules_when_they_are_first_used(face: str) -> None:
    package = importlib.import_module(face)
    assert "lazy_face.below.module" not in sys.modules
    assert (package.first, package.other, package.whole) == (1, 2, sys.modules["lazy_face.whole"])
    assert {"first", "other", "whole"} <= set(dir(package))


def test_only_relative_imports_are_names_of_a_face(face: str) -> None:
    package = importlib.import_module(face)
    with pytest.raises(AttributeError, match="module 'lazy_face' has no attribute 'Path'"):
        package.Path  # noqa: B018 - the look at the attribute is what is tested


def test_a_face_of_byte_code_alone_has_the_same_names(face: str, tmp_path: Path) -> None:
    """Pages hold no source text."""
    source = tmp_path / face / "__init__.py"
    importlib.import_module("py_compile").compile(str(source), cfile=str(source.with_suffix(".pyc")))
    source.unlink()
    assert importlib.import_module(face).first == 1


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'astranb' has no attribute 'Simulatoin'"):
        astranb.Simulatoin  # noqa: B018 - the look at the attribute is what is tested


def test_the_names_of_faces_are_those_of_type_checkers() -> None:
    assert len(FACES) > 5
    for file in FACES:
        parts = file.relative_to(PACKAGE.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        importlib.import_module(name)
        blocks = [
            node for node in ast.parse(file.read_text(encoding="utf-8")).body if isinstance(node, ast.If)
        ]
        written = {
            alias.asname for block in blocks for node in block.body
            if isinstance(node, ast.ImportFrom) and node.level == 1 for alias in node.names
        }  # fmt: skip
        _, listed = lazy(name)
        assert written, file
        assert written <= set(listed()), file


def test_no_name_of_a_face_is_that_of_a_module_beside_it() -> None:
    """Python binds a module to its folder when it is loaded, over what the face forwards."""
    for file in FACES:
        beside = {other.stem for other in file.parent.iterdir()}
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
                names = {alias.asname or alias.name for alias in node.names}
                assert not (beside - {node.module}) & names, file  # a folder that is called is itself


def test_an_unknown_name_of_a_face_names_the_nearest(face: str) -> None:
    package = importlib.import_module(face)
    with pytest.raises(AttributeError, match=r"no attribute 'frist'; did you mean 'first'\?$"):
        _ = package.frist
    with pytest.raises(AttributeError, match=r"no attribute '_frist'$"):
        _ = package._frist
    with pytest.raises(AttributeError, match=r"'Simulaton'; did you mean 'Simulation'\?$"):
        _ = astranb.Simulaton


@pytest.mark.parametrize(
    "name, hint",
    [
        ("allreduce", "did you mean 'all_reduce' or 'reduce'?"),
        ("broadcst", "did you mean 'broadcast' or 'library_cost'?"),
        ("hierarchical", "it is an algorithm: all_reduce(size, 'hierarchical')"),
        ("both_ways_round", ""),
    ],
)
def test_an_unknown_collective_names_the_nearest_or_its_algorithm(name: str, hint: str) -> None:
    with pytest.raises(AttributeError) as caught:
        getattr(astranb.collectives, name)
    message = f"module 'astranb.collectives' has no attribute {name!r}"
    assert str(caught.value) == (f"{message}; {hint}" if hint else message)
    assert not hasattr(astranb.collectives, name)
