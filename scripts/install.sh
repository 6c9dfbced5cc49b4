#!/bin/sh
# Install astranb from this checkout into a virtual environment, made where there is none.
#
#   scripts/install.sh VENV [--group NAME]...
#
# It installs all extras (lab, figures, infragraph); notebooks and tests use them. Versions come from
# constraints.txt. uv takes seconds; where uv cannot be installed or cannot reach the index that pip is
# configured for, pip does the same more slowly.
set -eu

venv=$1
shift
python=${PYTHON:-python3}

fail() {
    echo "astranb: $1" >&2
    exit 2
}

if [ ! -x "$venv/bin/python" ]; then
    "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null ||
        fail "'$python' is not Python 3.11 or later; say which one is, as in 'make PYTHON=python3.12'"
    "$python" -c 'import ensurepip, venv' 2>/dev/null ||
        fail "'$python' cannot make virtual environments; install its venv package (Debian: 'apt-get install python3-venv')"
    echo "astranb: making $venv (once)" >&2
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

echo "astranb: installing into $venv${*:+ ($*)}" >&2
"$venv/bin/python" -c 'import uv' 2>/dev/null ||
    "$venv/bin/python" -m pip install -q --disable-pip-version-check uv 2>/dev/null || true
if "$venv/bin/python" -m uv pip install -q --python "$venv/bin/python" -c constraints.txt "$@" -e '.[all]' 2>"$venv/uv.log"; then
    exit 0
fi
# Dependency groups need pip 25.1, later than the one that comes with Python 3.11.
"$venv/bin/python" -m pip install -q --disable-pip-version-check 'pip>=25.1' &&
    "$venv/bin/python" -m pip install -q --disable-pip-version-check -c constraints.txt "$@" -e '.[all]' ||
    fail "the installation failed (what pip says stands above, what uv said in $venv/uv.log); see that the package index can be reached"
