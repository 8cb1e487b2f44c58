"""A mixture at play: the environment of the domain that the present instance belongs to.

Each domain's environment is made when its first instance is started, and used again for later ones.
"""

from __future__ import annotations

from typing import ClassVar

from envs import registry
from envs.base import EpisodeRecord, Info, PromptStyle, TextEnv
from envs.domains import parted
from envs.mixture.options import Options, environment
from envs.options import EnvSetupError


class Mixture(TextEnv):
    """See the module's docstring. An episode longer than its domain's `max_turns` is truncated."""

    name: ClassVar[str] = "mixture"

    def __init__(self, options: Options, style: PromptStyle) -> None:
        self.options = options
        self.style = style
        self._envs: dict[str, TextEnv] = {}
        self._at = ""
        self._turns = 0

    def reset(self, *, seed: int | None = None, options: Info | None = None) -> tuple[str, Info]:
        """Start `options["instance"]`, called as `envs.domains` says."""
        instance = (options or {}).get("instance", seed)
        domain, own = parted(instance) if isinstance(instance, str | int) else ("", 0)
        if domain not in self.options.domains:
            raise EnvSetupError(
                f"mixture has no instance {instance!r}: one is called @DOMAIN/INSTANCE or @DOMAIN#NUMBER; "
                f"domains are {', '.join(self.options.domains)}"
            )
        self._at, self._turns = domain, 0
        return self._present().reset(options={"instance": own})

    def restart(self) -> tuple[str, Info]:
        """As the domain's environment does it."""
        if not self._at:
            raise EnvSetupError("mixture: restart before the first reset")
        self._turns = 0
        return self._present().restart()

    def step(self, action: str) -> tuple[str, float, bool, bool, Info]:
        """As the domain's environment does it; its last turn is the one that `max_turns` allows."""
        observation, reward, over, cut, info = self._present().step(action)
        self._turns += 1
        most = self.options.domains[self._at].max_turns
        return observation, reward, over, cut or (not over and 0 < most <= self._turns), info

    def admissible_actions(self) -> tuple[str, ...] | None:
        """The domain's."""
        return self._present().admissible_actions()

    def summarise(self, episode: EpisodeRecord) -> str:
        """The domain's."""
        return self._present().summarise(episode)

    def close(self) -> None:
        """End all domains' environments, the later ones also where an earlier one's end fails."""
        while self._envs:
            _, env = self._envs.popitem()
            try:
                env.close()
            except Exception:
                self.close()
                raise

    def _present(self) -> TextEnv:
        if self._at not in self._envs:
            domain = self.options.domains[self._at]
            self._envs[self._at] = registry.make(environment(self._at, domain), domain.options)
        return self._envs[self._at]
