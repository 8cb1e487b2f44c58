#!/usr/bin/env bash
# Ask the advisory databases about every version that the lock files name; exit 1 if one is known to be unsafe.
# Needs the network: pip-audit comes from the package index, advisories from PyPI's and OSV's services. Nothing
# that is audited is installed; pip-audit lives in a virtual environment that goes with this script.
# `requirements/audit.sh requirements/cpu.txt` asks about one file.
set -euo pipefail
cd "$(dirname "$0")/.."

tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
"${PYTHON:-python3}" -m venv "$tools/venv"
"$tools/venv/bin/pip" install --quiet pip-audit==2.10.1

locks=("$@")
[ ${#locks[@]} -gt 0 ] || locks=(requirements/{cpu,cuda,envs,browser}.txt)
status=0
for lock in "${locks[@]}"; do
    echo "== $lock"
    "$tools/venv/bin/pip-audit" --requirement "$lock" --no-deps --disable-pip --strict --progress-spinner off \
        || status=1
done
exit $status
