#!/usr/bin/env bash
# Writes requirements/cpu.txt and requirements/cuda.txt from pyproject.toml's extras and the overrides here.
# Only metadata is resolved; nothing of it is installed. Versions stay as they are unless pyproject.toml asks
# for others; `requirements/lock.sh --upgrade` (or `--upgrade-package NAME`) renews them.
# Both files are complete, so they are installed with `pip install --no-deps`.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet uv==0.13.9

compile() { # accel, output, further arguments
    local accel=$1 out=$2
    shift 2
    "$tools/venv/bin/uv" pip compile pyproject.toml --extra "$accel" --extra dev \
        --override requirements/overrides.txt \
        --python-version 3.11.4 --python-platform x86_64-manylinux_2_28 \
        --no-annotate --custom-compile-command "make lock" --quiet --output-file "$out" "$@"
}

# CPU. The torch that an index describes may be its CUDA build; those libraries have no place here.
cpu=$tools/cpu.txt
[ -f requirements/cpu.txt ] && cp requirements/cpu.txt "$cpu"
compile cpu "$cpu" --override requirements/overrides-cpu.txt "$@"
grep -v -E '^(nvidia-|cuda-)' "$cpu" > "$tools/cpu.locked"

# CUDA. What both have keeps the CPU lock's version where that is possible.
cuda=$tools/cuda.txt
cp "$tools/cpu.locked" "$cuda"
if [ -f requirements/cuda.txt ]; then
    awk -F== 'NR == FNR { seen[$1]; next } !($1 in seen)' "$tools/cpu.locked" requirements/cuda.txt >> "$cuda"
fi
compile cuda "$cuda" "$@"

cp "$tools/cpu.locked" requirements/cpu.txt
cp "$cuda" requirements/cuda.txt
wc -l requirements/cpu.txt requirements/cuda.txt
