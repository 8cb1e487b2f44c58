#!/usr/bin/env bash
# install.sh ACCEL STAMP: make .venv hold exactly what requirements/ACCEL.txt names, and this project.
# STAMP is written last, so an interrupted installation is done again. Called by `make setup`.
set -euo pipefail
cd "$(dirname "$0")/.."
accel=$1 stamp=$2

"$PYTHON" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 13))' || {
    echo "error: Python 3.11 or 3.12 is needed, found $("$PYTHON" --version) ($PYTHON); set PYTHON=..." >&2
    exit 1
}
# The two builds of vLLM are two packages of one module: never both in one environment.
for old in .venv/.ready-*; do
    case $old in
    */.ready-"$accel"-* | */.ready-\*) ;;
    *) echo "removing .venv: it was made for another ACCEL"; rm -rf .venv ;;
    esac
done
[ -x .venv/bin/python ] || "$PYTHON" -m venv .venv
rm -f .venv/.ready-*

echo "installing requirements/$accel.txt (the first time takes some minutes)"
.venv/bin/python -m pip install --quiet --no-deps -r "requirements/$accel.txt"
.venv/bin/python -m pip install --quiet --no-deps --no-build-isolation --editable .

.venv/bin/python -c 'import torch' || {
    echo "error: torch doesn't load. With ACCEL=cpu pip must find a CPU build of the locked version" \
        "(see CONTRIBUTING.md); with a GPU use ACCEL=cuda" >&2
    exit 1
}
touch "$stamp"
