"""MiniWoB++ tasks solved as a reader would: from the instruction and the page's accessibility tree alone.

A solution is a generator: it gets each observation and gives the next action.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

from envs.base import Info, TextEnv

Steps = Generator[str, str, None]
SOLUTIONS: dict[str, Callable[[str, str], Steps]] = {}
_LINE = re.compile(r"(\t*)(?:\[(\w+)\] )?([\w-]+) ('(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\")(.*)")


@dataclass
class Node:
    """A line of the tree."""

    bid: str | None
    role: str
    name: str
    rest: str
    children: list[Node] = field(default_factory=list)

    @property
    def text(self) -> str:
        """Its own name, or that of what is in it."""
        return self.name or " ".join(filter(None, (child.text for child in self.children)))


class Page:
    """An observation, read."""

    def __init__(self, observation: str) -> None:
        self.nodes: list[Node] = []
        path: list[Node] = []
        for line in observation.splitlines():
            found = _LINE.fullmatch(line)
            if not found:
                continue
            tabs, bid, role, name, rest = found.groups()
            node = Node(bid, role, ast.literal_eval(name), rest)
            del path[len(tabs) :]
            if path:
                path[-1].children.append(node)
            path.append(node)
            self.nodes.append(node)

    def all(self, *roles: str) -> list[Node]:
        return [node for node in self.nodes if node.role in roles and node.bid]

    def one(self, role: str, text: str) -> str:
        """The number of the first element of this role with this text."""
        return next(n.bid for n in self.all(role) if n.text.strip() == text and n.bid)

    def texts(self) -> list[str]:
        return [node.name.strip() for node in self.nodes if node.role == "StaticText"]


def solved(env: TextEnv, instance: str) -> tuple[bool, float, list[str]]:
    """Play an instance by its solution: whether it ended well, the sum of rewards, and the actions."""
    observation, info = env.reset(options={"instance": instance})
    steps = SOLUTIONS[instance.rpartition("/")[0]](info["instruction"], observation)
    actions: list[str] = []
    total, ending = 0.0, info
    action: str | None = next(steps)
    while action is not None:
        actions.append(action)
        observation, reward, over, _, ending = env.step(action)
        total += reward
        if over:
            break
        try:
            action = steps.send(observation)
        except StopIteration:
            action = None
    return _won(ending), total, actions


def _won(info: Info) -> bool:
    return bool(info["success"])


def _solution(*tasks: str) -> Callable[[Callable[[str, str], Steps]], Callable[[str, str], Steps]]:
    def add(function: Callable[[str, str], Steps]) -> Callable[[str, str], Steps]:
        SOLUTIONS.update(dict.fromkeys(tasks, function))
        return function

    return add


def click(bid: str) -> str:
    return f"click({bid!r})"


def fill(bid: str, text: str) -> str:
    return f"fill({bid!r}, {text!r})"


def quoted(instruction: str) -> list[str]:
    return re.findall(r'"([^"]*)"', instruction)


def button(page: Page, text: str) -> str:
    return click(page.one("button", text))


def wanted(instruction: str) -> list[str]:
    """What `Select A, B and click Submit.` names."""
    found = re.fullmatch(r"Select (.*?)(?: from the (?:scroll )?list)? and click Submit\.", instruction)
    assert found
    return found[1].split(", ")


@_solution("click-test")
def click_test(instruction: str, seen: str) -> Steps:
    yield button(Page(seen), "Click Me!")


@_solution("click-test-2", "click-test-transfer")
def click_test_2(instruction: str, seen: str) -> Steps:
    yield button(Page(seen), "ONE")


@_solution("click-button", "unicode-test")
def click_button(instruction: str, seen: str) -> Steps:
    yield button(Page(seen), quoted(instruction)[0])


@_solution("click-button-sequence")
def click_button_sequence(instruction: str, seen: str) -> Steps:
    seen = yield button(Page(seen), "ONE")
    yield button(Page(seen), "TWO")


@_solution("click-link")
def click_link(instruction: str, seen: str) -> Steps:
    yield click(Page(seen).one("element", quoted(instruction)[0]))


@_solution("click-dialog")
def click_dialog(instruction: str, seen: str) -> Steps:
    yield button(Page(seen), "Close")


@_solution("click-dialog-2")
def click_dialog_2(instruction: str, seen: str) -> Steps:
    label = quoted(instruction)[0]
    yield button(Page(seen), "Close" if label == "x" else label)


@_solution("click-checkboxes", "click-checkboxes-transfer", "click-checkboxes-large")
def click_checkboxes(instruction: str, seen: str) -> Steps:
    for name in wanted(instruction):
        if name != "nothing":
            seen = yield click(Page(seen).one("checkbox", name))
    yield button(Page(seen), "Submit")


@_solution("click-option")
def click_option(instruction: str, seen: str) -> Steps:
    seen = yield click(Page(seen).one("radio", wanted(instruction)[0]))
    yield button(Page(seen), "Submit")


@_solution("click-tab")
def click_tab(instruction: str, seen: str) -> Steps:
    yield click(Page(seen).one("link", instruction.removeprefix("Click on ").removesuffix(".")))


@_solution("click-tab-2", "click-tab-2-easy", "click-tab-2-medium", "click-tab-2-hard")
def click_tab_2(instruction: str, seen: str) -> Steps:
    word = quoted(instruction)[0]
    for tab in Page(seen).all("link"):
        assert tab.bid
        seen = yield click(tab.bid)
        for link in Page(seen).all("element"):
            if link.text == word and link.bid:
                yield click(link.bid)


@_solution("click-collapsible", "click-collapsible-nodelay")
def click_collapsible(instruction: str, seen: str) -> Steps:
    seen = yield click(Page(seen).all("tab")[0].bid or "")
    yield button(Page(seen), "Submit")


@_solution("click-collapsible-2", "click-collapsible-2-nodelay")
def click_collapsible_2(instruction: str, seen: str) -> Steps:
    word = quoted(instruction)[0]
    for section in Page(seen).all("tab"):
        assert section.bid
        seen = yield click(section.bid)
        for link in Page(seen).all("element"):
            if link.text == word and link.bid:
                yield click(link.bid)


@_solution("click-widget")
def click_widget(instruction: str, seen: str) -> Steps:
    role = {"text": "textbox", "textarea": "textbox"}.get(kind := quoted(instruction)[0], kind)
    found = Page(seen).all(role)
    yield click((found[-1] if kind == "textarea" else found[0]).bid or "")


@_solution("enter-text", "enter-text-dynamic")
def enter_text(instruction: str, seen: str) -> Steps:
    seen = yield fill(Page(seen).all("textbox")[0].bid or "", quoted(instruction)[0])
    yield button(Page(seen), "Submit")


@_solution("enter-text-2")
def enter_text_2(instruction: str, seen: str) -> Steps:
    word = quoted(instruction)[0]
    text = word.upper() if "upper case" in instruction else word.lower()
    seen = yield fill(Page(seen).all("textbox")[0].bid or "", text)
    yield button(Page(seen), "Submit")


@_solution("enter-password")
def enter_password(instruction: str, seen: str) -> Steps:
    for field_ in Page(seen).all("textbox"):
        seen = yield fill(field_.bid or "", quoted(instruction)[0])
    yield button(Page(seen), "Submit")


@_solution("login-user")
def login_user(instruction: str, seen: str) -> Steps:
    for field_, text in zip(Page(seen).all("textbox"), quoted(instruction), strict=True):
        seen = yield fill(field_.bid or "", text)
    yield button(Page(seen), "Login")


@_solution("enter-date")
def enter_date(instruction: str, seen: str) -> Steps:
    month, day, year = re.findall(r"(\d+)/(\d+)/(\d+)", instruction)[0]
    seen = yield fill(Page(seen).all("Date")[0].bid or "", f"{year}-{month}-{day}")
    yield button(Page(seen), "Submit")


@_solution("enter-time")
def enter_time(instruction: str, seen: str) -> Steps:
    hour, minute, half = re.findall(r"(\d+):(\d+) ([AP])M", instruction)[0]
    clock = f"{int(hour) % 12 + 12 * (half == 'P'):02}:{minute}"
    seen = yield fill(Page(seen).all("InputTime")[0].bid or "", clock)
    yield button(Page(seen), "Submit")


@_solution("focus-text", "focus-text-2")
def focus_text(instruction: str, seen: str) -> Steps:
    number = re.search(r"(\d)(?:st|nd|rd)", instruction)
    yield click(Page(seen).all("textbox")[int(number[1]) - 1 if number else 0].bid or "")


@_solution("choose-list")
def choose_list(instruction: str, seen: str) -> Steps:
    name = wanted(instruction)[0]
    page = Page(seen)
    names = [node.name for node in page.all("option")]
    chosen = next(n for n, node in enumerate(page.all("option")) if "selected=True" in node.rest)
    # The list has the focus once the button has it and the focus goes back by one.
    seen = yield "keyboard_press('Tab')"
    for _ in range(abs(names.index(name) - chosen)):
        seen = yield f"keyboard_press({'ArrowDown' if names.index(name) > chosen else 'ArrowUp'!r})"
    yield button(Page(seen), "Submit")


@_solution("click-scroll-list")
def click_scroll_list(instruction: str, seen: str) -> Steps:
    for number, name in enumerate(wanted(instruction)):
        extra = ", modifiers=['Control']" if number else ""
        seen = yield f"click({Page(seen).one('option', name)!r}{extra})"
    yield button(Page(seen), "Submit")


@_solution("simple-arithmetic")
def simple_arithmetic(instruction: str, seen: str) -> Steps:
    page = Page(seen)
    left, sign, right = re.findall(r"(-?\d+) (\S) (-?\d+) =", " ".join(page.texts()))[0]
    value = {"+": int(left) + int(right), "-": int(left) - int(right), "x": int(left) * int(right)}[sign]
    seen = yield fill(page.all("textbox")[0].bid or "", str(value))
    yield button(Page(seen), "Submit")


@_solution("read-table")
def read_table(instruction: str, seen: str) -> Steps:
    page = Page(seen)
    label = instruction.removeprefix("Enter the value of ").partition(" into")[0]
    cells = [cell.text for cell in page.all("cell")]
    seen = yield fill(page.all("textbox")[0].bid or "", cells[cells.index(label) + 1])
    yield button(Page(seen), "Submit")


@_solution("find-word")
def find_word(instruction: str, seen: str) -> Steps:
    page = Page(seen)
    place = int(re.findall(r"(\d+)(?:st|nd|rd|th)", instruction)[0])
    word = re.sub(r"\W", "", page.all("paragraph")[0].text.split()[place - 1])
    seen = yield fill(page.all("textbox")[0].bid or "", word)
    yield button(Page(seen), "Submit")


@_solution("buy-ticket")
def buy_ticket(instruction: str, seen: str) -> Steps:
    page = Page(seen)
    buttons = page.all("button")
    if "cost" in instruction:
        key = {b.bid: int(b.name.partition("$")[2]) for b in buttons}
    else:
        times = re.findall(r"(\d+)h (\d+)m", " ".join(page.texts()))
        key = {b.bid: int(h) * 60 + int(m) for b, (h, m) in zip(buttons, times, strict=True)}
    most = any(word in instruction for word in ("most expensive", "longest"))
    yield click((max if most else min)(key, key=lambda bid: key[bid]) or "")


@_solution("email-inbox-delete", "email-inbox-important")
def email_inbox(instruction: str, seen: str) -> Steps:
    name = re.findall(r"email by (\w+)", instruction)[0]
    row = next(n for n in Page(seen).all("element") if n.children and n.children[0].name == name)
    trash, star = (child for child in row.children if child.role == "image")
    yield click((trash if "trash" in instruction else star).bid or "")


@_solution("stock-market")
def stock_market(instruction: str, seen: str) -> Steps:
    limit = float(re.findall(r"\$(\d+\.\d\d)", instruction)[0])
    for _ in range(40):
        page = Page(seen)
        price = float(next(t for t in page.texts() if t.startswith("$"))[1:])
        if price <= limit:
            yield button(page, "Buy")
        seen = yield "noop(0)"


@_solution("terminal")
def terminal(instruction: str, seen: str) -> Steps:
    seen = yield "keyboard_type('ls')"
    seen = yield "keyboard_press('Enter')"
    ending = instruction.rpartition(" extension ")[2] if "ending with" in instruction else None
    files = " ".join(Page(seen).texts()).partition("ls ")[2].split()
    plain = [f for f in files if re.fullmatch(r"[\w-]+(\.\w+)?", f) and not f.startswith("user")]
    name = next(f for f in plain if (f.endswith(ending) if ending else "." not in f))
    seen = yield f"keyboard_type('rm {name}')"
    yield "keyboard_press('Enter')"


@_solution("guess-number")
def guess_number(instruction: str, seen: str) -> Steps:
    low, high = 0, 9
    while True:
        guess = (low + high) // 2
        seen = yield fill(Page(seen).all("spinbutton")[0].bid or "", str(guess))
        seen = yield button(Page(seen), "Submit")
        if "higher" in seen:
            low = guess + 1
        else:
            high = guess - 1
