"""JupyterLab on the tour, as ``astranb lab`` and ``make lab`` start it.

JupyterLab runs in this process, configured so that it reads nothing from the network: no
news, no look for updates, no catalogue of extensions. These are defaults of this one
start: the user's own configuration files and options win, and nothing is written to the
user's home. Jupyter is imported when the server starts, not with the package.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from .core.errors import InputError
from .core.extras import needs_extra

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["open_lab"]

_PACKAGE = Path(__file__).resolve().parent
_ROOT_OPTIONS = ("--notebook-dir", "--ServerApp.root_dir", "--ServerApp.notebook_dir")


def open_lab(args: Sequence[str]) -> int:
    """Start JupyterLab on the tour and stay until it is stopped (Ctrl-C).

    The address, with its token, is printed on one line on standard output.

    Parameters
    ----------
    args : sequence of str
        Options of JupyterLab (``--no-browser``, ``--port=8890``, ``--ip=…``), and at most
        one notebook (a path that ends in ``.ipynb``) to open instead of the tour.

    Returns
    -------
    int
        What the process should exit with: 0 after a clean end.

    Raises
    ------
    InputError
        The notebook does not exist, or JupyterLab is not installed.
    """
    with needs_extra("astranb lab"):
        import jupyterlab  # noqa: F401 - before notebooks are copied to the working directory
    named = [arg for arg in args if arg.endswith(".ipynb") and not arg.startswith("-")]
    options = [arg for arg in args if arg not in named]
    if len(named) > 1:
        raise InputError(f"{len(named)} notebooks were named", where="astranb lab", mend="name one")
    if any(option.split("=")[0] in _ROOT_OPTIONS for option in options):
        root, url = None, _address(named[0]) if named else "/lab"
    else:
        notebook = Path(named[0]).resolve() if named else _tour()
        if not notebook.is_file():
            raise InputError("no such notebook", where=str(notebook), mend="leave it out to open the tour")
        root = _root(notebook)
        url = _address(notebook.relative_to(root).as_posix())
    return _serve(options, root, url)


def _serve(options: list[str], root: Path | None, url: str) -> int:
    """Run JupyterLab with our defaults under the user's configuration and options."""
    from jupyterlab.labapp import LabApp
    from traitlets.config import Config

    config: Any = Config()
    config.LabApp.check_for_updates_class = "jupyterlab.NeverCheckForUpdate"
    config.LabApp.news_url = None
    config.LabApp.extension_manager = "readonly"
    config.LabApp.default_url = url
    config.ServerApp.ip = "127.0.0.1"
    config.ServerApp.allow_root = _is_root()
    config.ServerApp.answer_yes = True  # one Ctrl-C ends it
    config.Application.log_level = "WARN"
    if root is not None:
        config.ServerApp.root_dir = str(root)
    try:
        server: Any = LabApp.initialize_server(argv=options, config=config)
        server.web_app.settings["page_config_hook"] = _without_news
        # The loop's first turn: from then on the address answers.
        server.io_loop.add_callback(print, f"JupyterLab: {server.public_url}", flush=True)
        server.start()
    except SystemExit as stop:  # --help, or a port that is taken: Jupyter has said why
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        LabApp.serverapp_class.clear_instance()
    return 0


def _tour() -> Path:
    """Find the tour: in the checkout, else in a copy of all notebooks and lessons that the user may edit."""
    checkout = _PACKAGE.parent
    if (checkout / "pyproject.toml").is_file():
        return checkout / "notebooks" / "tour.ipynb"
    folder = Path.cwd() / "astranb-notebooks"
    for packaged, into in (
        (_PACKAGE / "_notebooks", folder),
        (_PACKAGE / "_tutorials", folder / "tutorials"),
    ):
        for file in sorted(packaged.rglob("*")):
            target = into / file.relative_to(packaged)
            if file.is_file() and "__pycache__" not in file.parts and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(file, target)
    return folder / "tour.ipynb"


def _root(notebook: Path) -> Path:
    """Choose the folder that JupyterLab shows: the working directory where the notebook is in it."""
    here = Path.cwd().resolve()
    return here if notebook.is_relative_to(here) else notebook.parent.parent


def _address(notebook: str) -> str:
    """Give the address of a notebook below the root, as JupyterLab writes it."""
    return f"/lab/tree/{quote(notebook)}"


def _without_news(_handler: object, page_config: dict[str, Any]) -> dict[str, Any]:
    """Leave out the extension that asks whether to fetch news, and fetches them."""
    page_config.setdefault("disabledExtensions", []).append("@jupyterlab/apputils-extension:announcements")
    return page_config


def _is_root() -> bool:
    """Whether Jupyter would refuse this user (there is no such user on Windows)."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
