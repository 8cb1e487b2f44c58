"""From a page to the text that an agent reads, and to a picture.

    Page: title                      (before it the tabs, if several; after it the address, if asked)
    Focus: [number]                  (if an element has it)
    the page, as its accessibility tree or as HTML, cut at a limit
    Error of the last action: …      (if it had one)

The numbers in brackets are BrowserGym's element numbers, by which actions name elements.
"""

from __future__ import annotations

import io
import re
import time
from dataclasses import dataclass
from typing import Any

from envs.browser.options import BrowserOptions
from envs.shortened import shortened as cut

_CUT = "\n(cut here: {left} more characters)"
_TRIES = 5
_PAUSE_S = 0.5
_PASSING = (
    "Frame was detached",
    "Frame has been detached",
    "Frame with the given frameId is not found",
    "Execution context was destroyed",
    "Cannot mark a child frame without a bid",
    "Cannot read properties of undefined",
)
"""What the reading of a page says when the page changed meanwhile: it can be read again."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What there is to see after a turn."""

    text: str
    picture: bytes | None = None
    """PNG, if the options ask for it."""


def observe(raw: dict[str, Any], options: BrowserOptions, *, address: bool) -> Seen:
    """Read the active page. `raw` is BrowserGym's observation with `use_raw_page_output`."""
    page = raw["page"]
    tree, focused = _read_page(page, options)
    parts = [*_head(raw, address=address)]
    if focused and (f"[{focused}]" in tree or f'bid="{focused}"' in tree):
        parts.append(f"Focus: [{focused}]")
    parts.append(shortened(tree, options.observation_chars))
    error = brief_error(raw["last_action_error"])
    if error:
        parts.append(f"Error of the last action: {error}")
    return Seen("\n".join(parts), _picture(page) if options.screenshot else None)


def shortened(text: str, most: int) -> str:
    """The text, cut to this many characters, with a note of how much is left out."""
    return cut(text, most, _CUT)


def brief_error(error: str) -> str:
    """The first line of an action's error; what follows tells of the times it took, which differ."""
    return re.sub(r"\s+", " ", error.partition("\n")[0])[:300].strip()


def _head(raw: dict[str, Any], *, address: bool) -> list[str]:
    titles, urls, active = raw["open_pages_titles"], raw["open_pages_urls"], int(raw["active_page_index"][0])
    lines = []
    if len(titles) > 1:
        lines.append("Tabs:")
        for number, (title, url) in enumerate(zip(titles, urls, strict=True)):
            here = " (this one)" if number == active else ""
            lines.append(f"{number}: {title}{f' at {url}' if address else ''}{here}")
    lines.append(f"Page: {titles[active]}")
    if address:
        lines.append(f"Address: {urls[active]}")
    return lines


def _read_page(page: Any, options: BrowserOptions) -> tuple[str, str]:
    """The page as text, and the number of the element that has the focus."""
    import playwright.sync_api
    from browsergym.core import observation as reading
    from browsergym.utils import obs as telling

    html = options.observation == "html"
    for left in reversed(range(_TRIES)):
        try:
            reading._pre_extract(page, lenient=left == 0, tags_to_mark="all" if html else "standard_html")
            snapshot = reading.extract_dom_snapshot(page)
            tree = {} if html else reading.extract_merged_axtree(page)
            focused = reading.extract_focused_element_bid(page)
        except (playwright.sync_api.Error, reading.MarkingError) as error:
            if not left or not any(passing in str(error) for passing in _PASSING):
                raise
            reading._post_extract(page)
            time.sleep(_PAUSE_S)
        else:
            reading._post_extract(page)
            break
    scale = getattr(page, "_bgym_scale_factor", 1.0)
    properties = reading.extract_dom_extra_properties(snapshot, scale_factor=scale)
    shown = {"extra_properties": properties, "with_center_coords": options.coordinates}
    if html:
        return telling.prune_html(telling.flatten_dom_to_str(snapshot, **shown)), focused
    _tidy(tree["nodes"], properties)
    roles = [*telling.IGNORED_AXTREE_ROLES, *_NOISE]
    said = [*telling.IGNORED_AXTREE_PROPERTIES, "url"]  # a link's address says little and is long
    text = telling.flatten_axtree_to_str(tree, ignored_roles=roles, ignored_properties=said, **shown)
    return text, focused


_NOISE = ("InlineTextBox", "blank")
"""Roles that aren't shown: newer browsers than BrowserGym knows repeat the lines of each text, and tell of
the space between texts (see `_tidy`)."""


def _tidy(nodes: list[dict[str, Any]], properties: dict[str, Any]) -> None:
    """Rename nodes: BrowserGym leaves out every generic one, but one that can be clicked must be shown."""
    for node in nodes:
        role, name = node["role"], node.get("name", {}).get("value", "")
        told = properties.get(node.get("browsergym_id", ""), {})
        if role["value"] == "generic" and told.get("clickable"):
            role["value"] = "element"
        elif role["value"] == "StaticText" and not name.strip():
            role["value"] = "blank"


def _picture(page: Any) -> bytes:
    """The page as BrowserGym's agents see it, in PNG."""
    from browsergym.core.observation import extract_screenshot
    from PIL import Image

    file = io.BytesIO()
    Image.fromarray(extract_screenshot(page)).save(file, "PNG")
    return file.getvalue()
