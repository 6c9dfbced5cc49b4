"""The page knows the machine's numbers by the names that Python gives them."""

from __future__ import annotations

import json
import subprocess

from astranb.gpu import tables
from astranb.net import link, port
from tests.widgets.live.kernels import STATIC

_SCRIPT = """
import(process.argv[1]).then((found) => process.stdout.write(JSON.stringify(found)));
"""


def test_the_numbers_of_a_page_are_those_of_the_kernels():
    file = (STATIC / "live" / "gpu_numbers.js").as_uri()
    command = ["node", "--input-type=module", "-e", _SCRIPT, file]
    numbers = json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)
    assert len(numbers) > 40
    for name, value in numbers.items():
        owner = next(one for one in (tables, port, link) if hasattr(one, name))
        mine = getattr(owner, name)
        assert (value == list(mine)) if isinstance(mine, tuple) else (float(value) == float(mine)), name
