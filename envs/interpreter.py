"""Which Python runs an environment.

Most run in the Python of the process that uses them. An environment whose packages clash with those of the
engine has a virtual environment of its own (`EnvSpec.venv`): its env workers' host processes run there, and
everything else (prompts, lists of instances) anywhere. The virtual environment `NAME` is the directory that
`AGENTMEM_VENV_NAME` names, or `.venv-NAME` beside the project or in the working directory; where the packages
are in the present Python, too, that one serves.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from envs.base import EnvSpec
from envs.options import EnvSetupError


def interpreter(entry: EnvSpec) -> str:
    """The executable. Raises `EnvSetupError` if the environment's own virtual environment isn't there."""
    if entry.venv is None:
        return sys.executable
    variable = f"AGENTMEM_VENV_{entry.venv.upper()}"
    named = os.environ.get(variable)
    places = [Path(named)] if named else _usual_places(entry.venv)
    for place in places:
        if (place / "bin" / "python").exists():
            return str(place / "bin" / "python")
    if not named and not missing_packages(entry.requires):
        return sys.executable
    looked = f"{variable}={named}" if named else " or ".join(map(str, places))
    raise EnvSetupError(
        f"environment {entry.name} runs in a virtual environment of its own, which isn't there ({looked}): "
        f'run `make setup-envs`, or install "agentmem[{entry.extra}]" into one and set {variable}'
    )


def runs_here(python: str) -> bool:
    """Whether this process runs that Python."""
    return python == sys.executable or Path(python).parent.parent.resolve() == Path(sys.prefix).resolve()


def missing_packages(packages: Sequence[str], python: str = sys.executable) -> list[str]:
    """Those of these modules that aren't installed there."""
    if python == sys.executable:
        return [package for package in packages if importlib.util.find_spec(package) is None]
    return list(_missing_elsewhere(tuple(packages), python))


@functools.cache
def _missing_elsewhere(packages: tuple[str, ...], python: str) -> tuple[str, ...]:
    code = "import sys, importlib.util as u; print(*[p for p in sys.argv[1:] if u.find_spec(p) is None])"
    done = subprocess.run([python, "-c", code, *packages], capture_output=True, text=True, timeout=60)
    if done.returncode:
        raise EnvSetupError(
            f"{python} doesn't run: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"
        )
    return tuple(done.stdout.split())


def _usual_places(venv: str) -> list[Path]:
    beside = Path(__file__).resolve().parent.parent / f".venv-{venv}"
    return list(dict.fromkeys([beside, Path.cwd() / f".venv-{venv}"]))


@functools.cache
def package_directory(package: str, python: str = sys.executable) -> Path:
    """Where this package's files lie there. It isn't imported."""
    if python == sys.executable:
        found = importlib.util.find_spec(package)
        places = list(found.submodule_search_locations or ()) if found else []
    else:
        code = "import sys, importlib.util as u; print(*u.find_spec(sys.argv[1]).submodule_search_locations)"
        done = subprocess.run([python, "-c", code, package], capture_output=True, text=True, timeout=60)
        places = done.stdout.splitlines()[:1]
    if not places:
        raise EnvSetupError(f"{python} has no package {package}: run `make setup-envs`")
    return Path(places[0])
