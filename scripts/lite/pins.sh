#!/bin/sh
# Write scripts/lite/requirements.txt anew: the versions of constraints.txt, except those that Pyodide decides.
set -eu
cd "$(dirname "$0")/../.."
grep -vE '^(ipython|numpy|pandas|python-dateutil|pytz|six|tzdata)==' constraints.txt | "${PYTHON:-.venv/bin/python}" -m uv pip compile -q scripts/lite/requirements.in -c /dev/stdin \
    --python-platform wasm32-pyodide2025 --python-version 3.13 --generate-hashes --no-annotate --custom-compile-command 'sh scripts/lite/pins.sh' \
    --no-emit-package numpy --no-emit-package pandas --no-emit-package pillow --no-emit-package jedi --no-emit-package parso \
    --no-emit-package widgetsnbextension --no-emit-package jupyterlab-widgets -o scripts/lite/requirements.txt
