"""A run's replay buffer, opened to be read from: the run may be going on, or over."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from agentmem.app.reporting.rundir import RunDir
from agentmem.failures import ConfigError

if TYPE_CHECKING:
    from agentmem.replay import ReplayBuffer

PASSWORD = "AGENTMEM_REDIS_PASSWORD"
PASSWORD_FILE = f"{PASSWORD}_FILE"
"""The path of a file that holds it, for whoever has secrets as files."""


@contextlib.contextmanager
def open_buffer(which: str, url: str | None = None) -> Iterator[ReplayBuffer]:
    """The buffer of RUN, to read from. `url`: its server, if the run can't tell it; with it, RUN may be the
    name of a run whose directory isn't on this machine. Raises AgentMemError."""
    from agentmem.replay import Settings
    from agentmem.replay.look import look

    url = with_password(url, "--redis", "write it in place of ***")
    try:
        run = RunDir.find(which)
    except ConfigError:
        if url is None or which == "last":
            raise
        with look(which, url=url) as buffer:
            yield buffer
        return
    section = _replay_section(run.config_path)
    mib = section.get("byte_budget_mib")
    settings = Settings(byte_budget=mib << 20) if isinstance(mib, int) and mib > 0 else None
    url = url or with_password(section.get("url"), "the run's buffer", "give --url")
    with look(run.name, url=url, data_dir=run.replay_dir, settings=settings) as buffer:
        yield buffer


def _replay_section(path: Path) -> dict[str, Any]:
    """The section `replay` of a run's configuration."""
    import yaml

    try:
        tree = yaml.safe_load(path.read_text(encoding="utf-8")) if path.is_file() else {}
        return dict(tree.get("replay") or {})
    except (OSError, yaml.YAMLError, AttributeError, ValueError, TypeError) as error:
        raise ConfigError(f"{path} can't be read: {str(error).splitlines()[0]}") from error


def with_password(url: Any, what: str, otherwise: str) -> str | None:
    """A configured URL; where `***` stands for its password, with the one of the environment.

    None for an embedded server. Raises ConfigError saying that `what` lacks it, and what to do `otherwise`.
    """
    if not isinstance(url, str) or "://***@" not in url:
        return url if isinstance(url, str) else None
    if not (password := _password()):
        raise ConfigError(f"{what} is at {url}, whose password isn't stored: set {PASSWORD}, or {otherwise}")
    from urllib.parse import quote

    return re.sub(r"://\*\*\*@", lambda _: f"://:{quote(password, safe='')}@", url)


def _password() -> str:
    """The environment's, or that of the file which it names. Raises ConfigError if that can't be read."""
    if password := os.environ.get(PASSWORD):
        return password
    if not (file := os.environ.get(PASSWORD_FILE)):
        return ""
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except (OSError, ValueError) as error:
        raise ConfigError(f"{PASSWORD_FILE} is {file}: can't be read ({error})") from None
