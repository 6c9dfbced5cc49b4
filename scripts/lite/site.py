"""The site: JupyterLite over our Pyodide folder, with the notebooks that need no cluster."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from astranb.browser import LICENCES, LIMIT, bring

from . import wheels

__all__ = ["NOTEBOOKS", "build"]

NOTEBOOKS = (
    "tutorials/00_tour.ipynb",
    "tutorials/01_getting_started.ipynb",
    "tutorials/02_comparing_collectives.ipynb",
    "tutorials/03_comparing_systems.ipynb",
    "tutorials/04_a_new_training_loop.ipynb",
    "tutorials/05_three_fidelities.ipynb",
    "tutorials/06_your_own_collective.ipynb",
    "tutorials/07_your_own_cluster.ipynb",
    "tutorials/08_protocols_and_blocks.ipynb",
    "tutorials/09_a_slow_run.ipynb",
    "notebooks/tour.ipynb",
    "notebooks/write_a_collective.ipynb",
    "notebooks/debugging_a_collective.ipynb",
    "notebooks/three_fidelities.ipynb",
    "notebooks/twelve_algorithms.ipynb",
    "notebooks/compute_and_communication.ipynb",
)
"""Notebooks that run in a browser, in the order in which one would read them."""

_BESIDE = ("tutorials/data", "examples/collectives")
_CORE = (
    "pyodide.js",
    "pyodide.mjs",
    "pyodide.asm.js",
    "pyodide.asm.wasm",
    "python_stdlib.zip",
    "package.json",
)
_OFFICIAL = ("numpy", "pandas")
"""Compiled packages: Pyodide's own wheels, by the checksums of its lock file."""
_ABSENT = frozenset(
    {
        *("llvmlite", "numba"),  # kernels come as WebAssembly
        *("contourpy", "pillow", "tornado"),  # bokeh draws without them
        *("pyvis",),  # one export, which no notebook here uses
        *("jedi", "parso"),  # see _EMPTY
        *("jupyterlab", "jupyterlab-widgets", "widgetsnbextension"),  # are part of the site
    }
)
_EXTRAS = {"astranb": ("lab", "figures")}
_MORE = {"pictures": ("bokeh", "pandas")}
"""Packages to load with another: JupyterLite sees only the imports in a cell."""
_EMPTY = ("jedi", "sqlite3", "ssl")
"""Modules that JupyterLite's kernel asks for and does without: completion asks the objects."""
_KERNEL = ("micropip", "piplite", "ipykernel", "comm", "pyodide-kernel", "ipython", *_EMPTY)
_EXTENSIONS = ("@jupyter-widgets/jupyterlab-manager", "anywidget")
"""Of the JupyterLab that is installed here."""
_PYTHON_KERNEL = (
    "jupyterlite-pyodide-kernel==0.7.2 "
    "--hash=sha256:b03de062804b2b70cfaccd2918b78a20a4a874e9adde2fe02ee8cb7db79ccbf7"
)
"""Not installed: JupyterLab would load its extension, too, and fail to."""


def build(root: Path, kept: Path, into: Path) -> None:
    """Build the site.

    Parameters
    ----------
    root : Path
        The checkout.
    kept : Path
        Where downloads are kept.
    into : Path
        The folder of the site, which is made anew.
    """
    kept.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=kept) as temporary:
        lite, site = Path(temporary, "lite"), Path(temporary, "site")
        (kernel,) = wheels.fetched([_PYTHON_KERNEL], kept)
        _fill_contents(root, lite / "files")
        (lite / "jupyter-lite.json").write_text(json.dumps(_settings()))
        (lite / "overrides.json").write_text(json.dumps(_OVERRIDES))
        options = {
            "LiteBuildConfig": {
                "apps": ["lab"],
                "contents": [str(lite / "files")],
                "federated_extensions": [*(str(_extension(name)) for name in _EXTENSIONS), str(kernel)],
                "ignore_sys_prefix": ["federated_extensions"],
                "no_sourcemaps": True,
                "no_unused_shared_packages": True,
                "output_dir": str(site),
            }
        }
        (lite / "jupyter_lite_config.json").write_text(json.dumps(options))
        done = subprocess.run(
            [sys.executable, "-m", "jupyterlite_core", "build", "--lite-dir", str(lite)],
            cwd=lite,
            check=False,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        if done.returncode:
            raise SystemExit(done.stdout[-3000:])
        _go_on_after_wrong_cells(site)
        pyodide = site / "static" / "pyodide"
        pyodide.mkdir(parents=True)
        _fill(pyodide, root, kept, site / "extensions" / "@jupyterlite" / "pyodide-kernel-extension")
        shutil.rmtree(into, ignore_errors=True)
        into.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(site, into)


_NOTICES = f"""{LICENCES}: Python and what its standard library is made of.
The sources of Pyodide are at https://github.com/pyodide/pyodide.
JupyterLite (BSD 3-Clause) and what it is made of: ../../build/third-party-licenses.json.
The Python packages of this site, with the texts of their licences, are below."""


_OVERRIDES: dict[str, Any] = {
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
}


def _fill(folder: Path, root: Path, kept: Path, kernel: Path) -> None:
    """Fill Pyodide's folder: itself, all wheels, and the lock file that names them."""
    pyodide = bring(_OFFICIAL)
    for name in _CORE:
        before = LIMIT.read_bytes() if name in ("pyodide.js", "pyodide.mjs") else b""
        (folder / name).write_bytes(before + pyodide[name].read_bytes())
    lock = json.loads(pyodide["pyodide-lock.json"].read_text("utf-8"))
    packages = {name: dict(lock["packages"][name]) for name in _OFFICIAL}
    found = [pyodide[name] for name in _OFFICIAL]
    with TemporaryDirectory(dir=kept) as temporary:
        pictures = {"pictures.py": (root / "tutorials" / "pictures.py").read_bytes()}
        found += [
            *wheels.downloaded(kept),
            *(
                next(kernel.glob(f"static/pypi/{name}-*.whl"))
                for name in ("ipykernel", "piplite", "pyodide_kernel")
            ),
            *(wheels.made(name, "Left out of this site.", Path(temporary)) for name in _EMPTY),
            wheels.made("pictures", "What the lessons share.", Path(temporary), pictures),
            wheels.own_wheel(root, Path(temporary)),
        ]
        found = wheels.compiled(found, kept / "bytecode", pyodide)
    named = {wheels.package(wheel): wheel for wheel in found}
    for name, wheel in named.items():
        shutil.copyfile(wheel, folder / wheel.name)
        described = wheels.entry(wheel, frozenset(named), _ABSENT, _EXTRAS.get(name, ()))
        described["depends"] += _MORE.get(name, ())
        packages[name] = described
    (folder / "pyodide-lock.json").write_text(json.dumps({**lock, "packages": packages}))
    of_others = [wheel for name, wheel in sorted(named.items()) if name not in (*_EMPTY, "pictures")]
    notices = "\n\n\n".join([_NOTICES, *map(wheels.notice, of_others)])
    (folder / "licences.txt").write_text(notices, "utf-8")


def _extension(name: str) -> Path:
    return Path(sysconfig.get_path("data"), "share", "jupyter", "labextensions", name)


def _settings() -> dict[str, Any]:
    kernel = {
        "pyodideUrl": "./static/pyodide/pyodide.js",
        "disablePyPIFallback": True,
        "loadPyodideOptions": {
            "packages": [*_KERNEL, "astranb"],
            "convertNullToNone": True,  # else a view's null is no None, for widgets of whatever package
        },
    }
    return {
        "jupyter-lite-schema-version": 0,
        "jupyter-config-data": {
            "appName": "astranb",
            "exposeAppInBrowser": True,
            "litePluginSettings": {"@jupyterlite/pyodide-kernel-extension:kernel": kernel},
        },
    }


def _fill_contents(root: Path, into: Path) -> None:
    """Copy the notebooks and what stands beside them."""
    for place in (*NOTEBOOKS, *_BESIDE):
        source, target = root / place, into / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(
                source, target, ignore=shutil.ignore_patterns("__pycache__", ".ipynb_checkpoints")
            )
        else:
            shutil.copyfile(source, target)


_STOPS = '"interrupt"!==t.metadata.cause'
_REPLY = 'msgType:"execute_reply",channel:"shell",parentHeader:t.header,session:e.header.session,content:n})'
_GOES_ON = _REPLY[:-2] + ',metadata:!1===s.stop_on_error?{cause:"interrupt"}:{}})'


def _go_on_after_wrong_cells(site: Path) -> None:
    """Run the cells after one with the tag ``raises-exception``, as JupyterLab does.

    JupyterLab says so in each request (``stop_on_error``); JupyterLite 0.7 does not read it, and forgets the
    cells that wait. It does so for every error but those of an interruption, and as such the errors are
    marked that are not to stop anything.
    """
    holding = [
        file
        for file in site.glob("build/*.js")
        if _STOPS in (text := file.read_text("utf-8")) and _REPLY in text
    ]
    if len(holding) != 1:
        raise SystemExit(
            "this JupyterLite handles errors in another way: look at scripts/lite/site.py, _REPLY"
        )
    text = holding[0].read_text("utf-8")
    holding[0].write_text(text.replace(_REPLY, _GOES_ON), "utf-8")
