"""``astranb lab``: JupyterLab on the tour, as ``make lab`` starts it.

JupyterLab runs in this process, configured so that it fetches nothing from the network: no
news, no check for updates, no catalogue of extensions. These are defaults of this start only:
the user's configuration files and options take precedence, and nothing is written to the
user's home. Jupyter is imported when the server starts.
"""

from __future__ import annotations

import logging
import os
import shutil
from itertools import dropwhile
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from astranb.core.errors import InputError, suggestion
from astranb.core.extras import needs_extra

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["add_commands", "command"]

_PACKAGE = Path(__file__).resolve().parents[1]
_ROOT_OPTIONS = ("--notebook-dir", "--ServerApp.root_dir", "--ServerApp.notebook_dir")

_USAGE = "astranb lab [NOTEBOOK.ipynb] [JupyterLab options]"
_TEXT = "Start JupyterLab on the tour, or on another notebook, until Ctrl-C."
_EXAMPLE = "example: astranb lab --no-browser --port=8890"
_HELP = ("-h", "--help", "--help-all")


def add_commands(commands: Any) -> None:
    """Add ``lab`` to the list of commands; :func:`command` reads its arguments."""
    commands.add_parser(
        "lab",
        help="start JupyterLab on the tour notebook",
        usage=_USAGE, description=_TEXT, epilog=_EXAMPLE, add_help=False,
    )  # fmt: skip


def command(args: Sequence[str]) -> int:
    """Start JupyterLab on the tour, and return when it is stopped (Ctrl-C).

    The address, with its token, is printed on one line on standard output.

    Parameters
    ----------
    args : sequence of str
        Options of JupyterLab (``--no-browser``, ``--port=8890``, ``--ip=…``), and at most
        one notebook (a path that ends in ``.ipynb``) to open instead of the tour.

    Returns
    -------
    int
        The exit code.

    Raises
    ------
    InputError
        The notebook does not exist, an option is not JupyterLab's, or JupyterLab is not installed.
    """
    if any(arg in _HELP for arg in args):
        return _print_help(full="--help-all" in args)
    _jupyter()  # before notebooks are copied to the working directory
    named = [arg for arg in args if arg.endswith(".ipynb") and not arg.startswith("-")]
    options = [arg for arg in args if arg not in named]
    if len(named) > 1:
        raise InputError(f"{len(named)} notebooks were named", where="lab", hint="name one")
    _check(options)
    if any(option.split("=")[0] in _ROOT_OPTIONS for option in options):
        root, url = None, _address(named[0]) if named else "/lab"
    else:
        notebook = Path(named[0]).resolve() if named else _tour()
        if not notebook.is_file():
            raise InputError("no such notebook", where=str(notebook), hint="leave it out to open the tour")
        root = _root(notebook)
        url = _address(notebook.relative_to(root).as_posix())
    from astranb.core.ahead import in_background

    with in_background():
        return _serve(options, root, url)


def _print_help(*, full: bool) -> int:
    """Print the usage and JupyterLab's options; its own --help fails where a server starts it."""
    lab_app, _ = _jupyter()
    print(f"usage: {_USAGE}", _TEXT, f"{_EXAMPLE}\n", sep="\n\n")
    lines = lab_app().emit_help(classes=full)
    print("\n".join(dropwhile(lambda line: line != "Options", lines)))
    return 0


def _jupyter() -> tuple[Any, Any]:
    """Import what starts JupyterLab."""
    with needs_extra("lab"):
        from jupyterlab.labapp import LabApp
        from traitlets.config import Config
    return LabApp, Config


def _check(options: Sequence[str]) -> None:
    """Check that JupyterLab has the options: it would print its usage, or start without them."""
    lab_app, _ = _jupyter()
    apps = (lab_app(), lab_app.serverapp_class())
    flags = {name for app in apps for name in app.flags}
    valued = {name for app in apps for name in app.aliases}
    words = iter(options)
    for word in words:
        name, equals, _ = word.lstrip("-").partition("=")
        if not word.startswith("-"):
            raise InputError(f"unexpected {word[:60]!r}", where="lab", hint="name a notebook, FILE.ipynb")
        if name in flags or (equals and "." in name):  # as --ServerApp.port=8890
            continue
        if name not in valued and "." not in name:
            close = suggestion(f"--{name}", (f"--{one}" for one in flags | valued))
            hint = f"{close} see astranb lab --help".strip()
            raise InputError(f"unknown option {word[:60]!r}", where="lab", hint=hint)
        if not equals and next(words, "-").startswith("-"):
            hint = f"write --{name}=VALUE"
            raise InputError(f"--{name}: its value is missing", where="lab", hint=hint)


def _serve(options: list[str], root: Path | None, url: str) -> int:
    """Run JupyterLab with our defaults under the user's configuration and options."""
    LabApp, Config = _jupyter()  # noqa: N806 - classes
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
    refused, logs = _Refused(), [logging.getLogger(app.__name__) for app in (LabApp, LabApp.serverapp_class)]
    for log in logs:
        log.addFilter(refused)
    try:
        server: Any = LabApp.initialize_server(argv=options, config=config)
        server.web_app.settings["page_config_hook"] = _without_news
        # Runs once the loop has started, when the address answers.
        server.io_loop.add_callback(print, f"JupyterLab: {server.public_url}", flush=True)
        server.start()
    except SystemExit as stop:  # as for a port that is taken: Jupyter has printed the reason
        if refused.text:
            raise InputError(refused.text, where="lab", hint="see astranb lab --help") from None
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    finally:
        for log in logs:
            log.removeFilter(refused)
        LabApp.serverapp_class.clear_instance()
    return 0


class _Refused(logging.Filter):
    """The reason for which Jupyter refuses a value of its configuration; it is not logged."""

    text = ""

    def filter(self, record: logging.LogRecord) -> bool:
        """Keep the reason, and drop its record."""
        refused = str(record.msg).startswith("Bad config")
        if refused:
            self.text = str(record.args[0] if isinstance(record.args, tuple) else record.args).rstrip(".")
        return not refused


def _tour() -> Path:
    """Find the tour: in the checkout, else in a copy of notebooks, lessons and examples for the user."""
    checkout = _PACKAGE.parent
    if (checkout / "pyproject.toml").is_file():
        return checkout / "notebooks" / "tour.ipynb"
    folder = Path.cwd() / "astranb-notebooks"
    for packaged, into in (
        (_PACKAGE / "_notebooks", folder),
        (_PACKAGE / "_tutorials", folder / "tutorials"),
        (_PACKAGE / "_examples", folder / "examples"),
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
    """Return the address of a notebook below the root, as JupyterLab writes it."""
    return f"/lab/tree/{quote(notebook)}"


def _without_news(_handler: object, page_config: dict[str, Any]) -> dict[str, Any]:
    """Leave out the extension that asks whether to fetch news, and fetches them."""
    page_config.setdefault("disabledExtensions", []).append("@jupyterlab/apputils-extension:announcements")
    return page_config


def _is_root() -> bool:
    """Return whether Jupyter would refuse this user (there is no such user on Windows)."""
    return hasattr(os, "geteuid") and os.geteuid() == 0
