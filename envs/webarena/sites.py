"""Where the sites of WebArena are: one environment variable for each, as BrowserGym reads them."""

from __future__ import annotations

import os
from collections.abc import Iterable

from envs.options import EnvSetupError

SITES = {
    "shopping": "the shop",
    "shopping_admin": "the shop's administration",
    "reddit": "the forum",
    "gitlab": "the code host",
    "wikipedia": "the encyclopedia",
    "map": "the map",
}
_NOT_HERE = "todo"
"""BrowserGym's own word for a site that isn't there."""


def variable(site: str) -> str:
    """The environment variable that holds the address of a site (or of `homepage`)."""
    return f"WA_{site.upper()}"


def missing(sites: Iterable[str]) -> list[str]:
    """The variables of those that have no address."""
    return [variable(site) for site in sites if not os.environ.get(variable(site), "").strip()]


def addresses(needed: Iterable[str]) -> dict[str, str]:
    """The address of every site that has one. Raises `EnvSetupError` naming all that lack of those needed."""
    lacking = missing(needed)
    if lacking:
        raise EnvSetupError(
            f"webarena: no address for {', '.join(lacking)}: set the environment variable to where the site "
            "is, such as http://127.0.0.1:8023 (see docs/environments/webarena.md)"
        )
    known = {site: os.environ.get(variable(site), "").strip().rstrip("/") for site in SITES}
    return {site: address for site, address in known.items() if address and address != _NOT_HERE}


def fill_surroundings() -> None:
    """Give a word to every address that isn't known: BrowserGym insists on all of them, needed or not."""
    for site in (*SITES, "homepage"):
        name = variable(site)
        os.environ[name] = os.environ.get(name, "").strip().rstrip("/") or _NOT_HERE


def site_in(text: str, known: dict[str, str], otherwise: str) -> str:
    """The site whose address is in this text, such as an error of the browser."""
    found = [site for site, address in known.items() if address in text]
    return max(found, key=lambda site: len(known[site]), default=otherwise)
