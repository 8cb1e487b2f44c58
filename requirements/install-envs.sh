#!/usr/bin/env bash
# install-envs.sh STAMP: everything that the real environments need, beyond `make setup`:
#   requirements/envs.txt into .venv, requirements/browser.txt into .venv-browser, Debian's packages.
# STAMP is written last, so an interrupted installation is done again. Called by `make setup-envs`.
set -euo pipefail
cd "$(dirname "$0")/.."
stamp=$1

# A browser for BrowserGym, a JVM for ScienceWorld, a database server and a root directory's maker for
# LifelongAgentBench; Prometheus and its promtool, with which dashboards and alert rules are tested.
system=(chromium openjdk-17-jre-headless mariadb-server debootstrap prometheus)
missing=()
for package in "${system[@]}"; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing+=("$package")
done
if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        echo "installing ${missing[*]}"
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
    else
        echo "warning: not installed, and only root may: apt-get install ${missing[*]}" >&2
        echo "warning: environments that need them say so (agentmem envs list)" >&2
    fi
fi

echo "installing requirements/envs.txt"
rm -f .venv/.envs-*
.venv/bin/python -m pip install --quiet --no-deps -r requirements/envs.txt

echo "installing requirements/browser.txt into .venv-browser"
[ -x .venv-browser/bin/python ] || .venv/bin/python -c \
    'import subprocess, sys; subprocess.check_call([sys._base_executable, "-m", "venv", ".venv-browser"])'
.venv-browser/bin/python -m pip install --quiet --no-deps -r requirements/browser.txt
.venv-browser/bin/python -m pip install --quiet --no-deps --editable .
touch "$stamp"
