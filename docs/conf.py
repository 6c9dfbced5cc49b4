"""The documentation site: `make docs` builds it into build/docs.

The source folder is the checkout itself, so that a link between README.md, docs/, notebooks/ and
tutorials/ means the same here, on GitHub and in an editor; each of them is checked by the build.
Notebooks are shown as they are committed: nothing is run, nothing is fetched.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "docs" / "_ext")]

import astranb  # noqa: E402 - found by the line above

project = "astranb"
author = "the astranb authors"
copyright = "the astranb authors, MIT licence"  # noqa: A001 - Sphinx's name
version = release = astranb.__version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "command_line",
    "lessons",
    "names",
    "offline",
    "run_here",
]
root_doc = "docs/index"
include_patterns = [
    "*.md",
    "changes/README.md",
    "docs/**.md",
    "notebooks/**.ipynb",
    "tutorials/**.ipynb",
    "tutorials/**.md",
]
exclude_patterns = ["**/.ipynb_checkpoints", ".venv", "build", "docs/_ext", "node_modules"]
suppress_warnings = ["mystnb.unknown_mime_type"]  # a live view's state; its cell's text stands for it

myst_heading_anchors = 3
nb_execution_mode = "off"
nb_mime_priority_overrides = [("html", "text/html", 0)]

default_role = "code"  # a name in a docstring is one, not always a link
add_module_names = False
autodoc_member_order = "groupwise"
autodoc_typehints = "signature"
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
napoleon_use_rtype = False
napoleon_use_ivar = True

html_theme = "furo"
html_title = "astranb"
html_static_path = ["_static"]
html_css_files = ["astranb.css"]
html_show_sphinx = False
html_copy_source = False
html_theme_options = {"source_repository": "", "top_of_page_buttons": []}
pygments_style = "friendly"
pygments_dark_style = "monokai"
