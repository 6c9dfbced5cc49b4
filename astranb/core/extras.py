"""Optional dependencies: one clear line where a package of an extra is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from .errors import InputError

__all__ = ["needs_extra"]

_EXTRAS: Final = {
    "IPython": "lab",
    "anywidget": "lab",
    "ipywidgets": "lab",
    "jupyterlab": "lab",
    "traitlets": "lab",
    "PIL": "figures",
    "bokeh": "figures",
    "networkx": "figures",
    "pyvis": "figures",
    "infragraph": "infragraph",
    "pyarrow": "traffic",
    "SALib": "explore",
    "dask": "explore",
    "distributed": "explore",
    "optuna": "explore",
    "scipy": "explore",
    "torch": "torch",
    "mcp": "mcp",
}
"""By the name that is imported: the extra in ``pyproject.toml`` that installs it."""

_INSTALLED_AS: Final = {"PIL": "pillow", "dask": "distributed"}


@contextmanager
def needs_extra(feature: str) -> Iterator[None]:
    """Report a missing optional package together with the command that installs it.

    Parameters
    ----------
    feature : str
        What the user asked for: the place that the error names.

    Raises
    ------
    InputError
        An import inside the block failed because a package of an extra is not installed.

    Examples
    --------
    >>> with needs_extra("anb.Workbench"):
    ...     raise ModuleNotFoundError(name="anywidget")
    Traceback (most recent call last):
        ...
    astranb.core.errors.InputError: anb.Workbench: anywidget is not installed; run pip install 'astranb[lab]'
    """
    try:
        yield
    except ModuleNotFoundError as error:
        name = (error.name or "").partition(".")[0]
        if name not in _EXTRAS:
            raise
        package = _INSTALLED_AS.get(name, name)
        raise InputError(
            f"{package} is not installed", where=feature, hint=f"run pip install 'astranb[{_EXTRAS[name]}]'"
        ) from None
