"""Where the ServiceNow instance is, and who may administer it: three environment variables."""

from __future__ import annotations

import os

from envs.options import EnvSetupError

VARIABLES = ("SNOW_INSTANCE_URL", "SNOW_INSTANCE_UNAME", "SNOW_INSTANCE_PWD")


def missing() -> list[str]:
    """Those of the variables that are empty or not set."""
    return [name for name in VARIABLES if not os.environ.get(name, "").strip()]


def address() -> str:
    """The instance's address. Raises `EnvSetupError` naming the variables that lack.

    Without this WorkArena would ask the model hub for one of its own instances.
    """
    lacking = missing()
    if lacking:
        raise EnvSetupError(
            f"workarena: no {', '.join(lacking)}: set {', '.join(VARIABLES)} to the address of a ServiceNow "
            "instance and its administrator's name and password (see docs/environments/workarena.md)"
        )
    return os.environ[VARIABLES[0]].strip().rstrip("/")
