#!/usr/bin/env bash
# Writes the lock files from pyproject.toml's extras and the overrides here:
#   cpu.txt, cuda.txt    what training needs, one for each kind of machine (.venv)
#   envs.txt             what the text environments add to either
#   browser.txt          a virtual environment of its own for browser environments (.venv-browser)
# Only metadata is resolved; nothing of it is installed. Versions stay as they are unless pyproject.toml asks
# for others; `requirements/lock.sh --upgrade` (or `--upgrade-package NAME`) renews them.
# All files are complete, so they are installed with `pip install --no-deps`.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet uv==0.13.9

compile() { # output, further arguments
    local out=$1
    shift
    "$tools/venv/bin/uv" pip compile pyproject.toml --override requirements/overrides.txt \
        --python-version 3.11.4 --python-platform x86_64-manylinux_2_28 \
        --no-annotate --custom-compile-command "make lock" --quiet --output-file "$out" "$@"
}
start() { # output, lock files to keep versions of: the first that names a package counts
    local out=$1
    shift
    awk -F== '!/^ *#/ && !($1 in seen) { seen[$1]; print }' "$@" 2>/dev/null > "$out" || true
}

# CPU, and the text environments. The torch that an index describes may be its CUDA build; those libraries have
# no place here.
cpu=$tools/cpu.txt all=$tools/all.txt
start "$cpu" requirements/cpu.txt
compile "$cpu" --extra cpu --extra dev --override requirements/overrides-cpu.txt "$@"
grep -v -E '^(nvidia-|cuda-)' "$cpu" > "$tools/cpu.locked"
start "$all" "$tools/cpu.locked" requirements/envs.txt
compile "$all" --extra cpu --extra dev --extra envs --constraint "$tools/cpu.locked" \
    --override requirements/overrides-cpu.txt "$@"

# CUDA. What both have keeps the CPU lock's version where that is possible.
cuda=$tools/cuda.txt
start "$cuda" "$tools/cpu.locked" requirements/cuda.txt
compile "$cuda" --extra cuda --extra dev "$@"

# Browsers. The two sides of a pipe need the same msgspec.
browser=$tools/browser.txt
start "$browser" requirements/browser.txt "$tools/cpu.locked"
compile "$browser" --extra browser --constraint <(grep '^msgspec==' "$tools/cpu.locked") "$@"

head="# This file is made by \`make lock\`: what the text environments add to cpu.txt or cuda.txt."
{ echo "$head"; awk 'NR == FNR { seen[$1]; next } !/^ *#/ && !($1 in seen) && !/^(nvidia-|cuda-)/' \
    "$tools/cpu.locked" "$all"; } > requirements/envs.txt
cp "$tools/cpu.locked" requirements/cpu.txt
cp "$cuda" requirements/cuda.txt
cp "$browser" requirements/browser.txt
wc -l requirements/{cpu,cuda,envs,browser}.txt
