"""MiniWoB++'s tasks by name, and which page is which instance."""

from __future__ import annotations

from collections.abc import Sequence

from envs.options import EnvSetupError

_ALL = """
ascending-numbers bisect-angle book-flight book-flight-nodelay buy-ticket choose-date
choose-date-easy choose-date-medium choose-date-nodelay choose-list circle-center click-button
click-button-sequence click-checkboxes click-checkboxes-large click-checkboxes-soft
click-checkboxes-transfer click-collapsible click-collapsible-2 click-collapsible-2-nodelay
click-collapsible-nodelay click-color click-dialog click-dialog-2 click-link click-menu click-menu-2
click-option click-pie click-pie-nodelay click-scroll-list click-shades click-shape click-tab
click-tab-2 click-tab-2-easy click-tab-2-hard click-tab-2-medium click-test click-test-2
click-test-transfer click-widget copy-paste copy-paste-2 count-shape count-sides daily-calendar
drag-box drag-circle drag-cube drag-items drag-items-grid drag-shapes drag-shapes-2
drag-single-shape drag-sort-numbers draw-circle draw-line email-inbox email-inbox-delete
email-inbox-forward email-inbox-forward-nl email-inbox-forward-nl-turk email-inbox-important
email-inbox-nl-turk email-inbox-noscroll email-inbox-reply email-inbox-star-reply enter-date
enter-password enter-text enter-text-2 enter-text-dynamic enter-time find-greatest find-midpoint
find-word focus-text focus-text-2 form-sequence form-sequence-2 form-sequence-3 generate-number
grid-coordinate guess-number highlight-text highlight-text-2 hot-cold identify-shape login-user
login-user-popup multi-layouts multi-orderings navigate-tree number-checkboxes odd-or-even
order-food phone-book read-table read-table-2 resize-textarea right-angle scroll-text scroll-text-2
search-engine sign-agreement simple-algebra simple-arithmetic social-media social-media-all
social-media-some stock-market terminal text-editor text-transform tic-tac-toe unicode-test
use-autocomplete use-autocomplete-nodelay use-colorwheel use-colorwheel-2 use-slider use-slider-2
use-spinner visual-addition
"""
TASKS = tuple(_ALL.split())
"""All of the benchmark, in BrowserGym's order."""

_BASIC = """
buy-ticket click-button click-button-sequence click-checkboxes click-checkboxes-transfer click-collapsible
click-dialog click-dialog-2 click-link click-option click-tab click-tab-2 click-test click-test-2
click-widget email-inbox-delete email-inbox-important enter-date enter-password enter-text enter-text-2
enter-time find-word focus-text focus-text-2 login-user read-table simple-arithmetic unicode-test
"""
BASIC = tuple(_BASIC.split())
"""Those that a few clicks and entries on numbered elements do, on pages that can be read as text."""

FIRST_EVAL_SEED = 10_000


def chosen(tasks: str) -> tuple[str, ...]:
    """The tasks that the option means. KeyError of the first that there isn't."""
    if tasks in ("all", "basic"):
        return TASKS if tasks == "all" else BASIC
    names = tuple(dict.fromkeys(name.strip() for name in tasks.split(",")))
    for name in names:
        if name not in TASKS:
            raise KeyError(name)
    return names


def instances(tasks: Sequence[str], seeds: range) -> list[str]:
    """`task/seed` for each, task by task for each seed: the first ones are of different tasks."""
    return [f"{task}/{seed}" for seed in seeds for task in tasks]


def parsed(instance: object) -> tuple[str, int]:
    """Task and seed of an instance. Raises `EnvSetupError` if it isn't one."""
    task, _, seed = str(instance).rpartition("/")
    if task not in TASKS or not (seed.isascii() and seed.isdigit() and int(seed) < 2**32):
        raise EnvSetupError(
            f"miniwob: no instance {str(instance)[:80]!r}: must be task/seed, as in click-test/7"
        )
    return task, int(seed)
