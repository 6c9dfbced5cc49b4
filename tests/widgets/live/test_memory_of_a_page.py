"""A machine that does not fit into a page is refused before memory is taken."""

from __future__ import annotations

from tests.widgets.live.test_units import called


def _table(rows: int) -> dict[str, object]:
    return {"name": "links", "size": 64, "rows": rows, "fields": [], "parts": [], "data": 0}


def test_a_machine_beyond_2_gib_is_refused() -> None:
    small, large = called("tables", [["allocate", [_table(1000)]], ["allocate", [_table(10), _table(2**26)]]])
    assert small["value"]["end"] == 16 * 65536 + 64_000
    assert large["error"].endswith(
        "this machine takes 4.0 GiB of memory, and a page has 2 GiB at most: open it in JupyterLab"
    )
