"""The contract of faces sees every import past one."""

from __future__ import annotations

from pathlib import Path

import grimp
import pytest

from scripts.faces_contract import FacesContract

SOURCES = {
    "__init__.py": "from .sim import Run",
    "core/__init__.py": "",
    "core/units.py": "",
    "net/__init__.py": "from .link import Link\nfrom .routes.search import search",
    "net/link.py": "",
    "net/tables.py": "",
    "net/routes/__init__.py": "",
    "net/routes/search.py": "",
    "sim/__init__.py": "from .run import Run",
    "sim/run.py": "",
}


@pytest.mark.parametrize(
    "file, source, past",
    [
        ("sim/run.py", "from ..net import Link", []),
        ("sim/run.py", "from house.net.link import Link", ["house.net.link"]),
        ("sim/run.py", "def f():\n    from ..net import link", ["house.net.link"]),
        ("sim/run.py", "if TYPE_CHECKING:\n    from ..net.link import Link", ["house.net.link"]),
        ("sim/run.py", "import house.net.routes.search", ["house.net.routes.search"]),
        ("sim/run.py", "from ..net.routes import Search", []),  # a face of its own
        ("sim/run.py", "from house.core.units import ps", []),  # a toolbox
        ("sim/run.py", "from house.net import tables", []),  # an open module
        ("sim/run.py", "from house.sim import Run", ["house.sim"]),  # its own face: a circle
        ("sim/run.py", "import house", ["house"]),
        ("net/link.py", "from .routes.search import search", ["house.net.routes.search"]),
        ("net/routes/search.py", "from ..link import Link", []),  # around it
    ],
)
def test_imports_past_a_face_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, file: str, source: str, past: list[str]
) -> None:
    for name, text in {**SOURCES, file: source}.items():
        path = tmp_path / "house" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    graph = grimp.build_graph("house", cache_dir=None)
    options = {"toolboxes": ["house.core"], "open_modules": ["house.net.tables"]}
    check = FacesContract("faces", {}, options).check(graph, verbose=False)
    assert [imported for _, imported, _ in check.metadata["past"]] == past
    assert check.kept == (not past)
