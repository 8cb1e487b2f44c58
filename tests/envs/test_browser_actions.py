"""What an agent may say in a browser: one call of known form, read strictly; how it is asked for it."""

from __future__ import annotations

import ast
import json
import random
import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs.base import EpisodeRecord, Step, View
from envs.browser.actions import MOST_CHARS, NAMES, described, read, sample_action
from envs.browser.options import BrowserOptions
from envs.browser.style import BrowserStyle
from envs.options import EnvSetupError
from tests.envs.contract import HOSTILE
from tests.envs.elsewhere import python_of

STYLE = BrowserStyle(BrowserOptions(), ("click", "fill", "noop"), "A page.")


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("click('12')", "click('12')"),
        ('  click( "a12" )  ', "click('a12')"),
        ("click('1', button='right')", "click('1', 'right')"),
        ("click(bid='1', modifiers=['Shift', 'Alt'])", "click('1', modifiers=['Shift', 'Alt'])"),
        ("fill('7', 'it\\'s \"this\"\\n')", "fill('7', 'it\\'s \"this\"\\n')"),
        ("fill('7', 'so', True)", "fill('7', 'so', True)"),
        ("select_option('7', ['a', 'b'])", "select_option('7', ['a', 'b'])"),
        ("scroll(0, -200.5)", "scroll(0, -200.5)"),
        ("goto('https://shop.example/a?b=c')", "goto('https://shop.example/a?b=c')"),
        ("go_back()", "go_back()"),
        ("tab_focus(2)", "tab_focus(2)"),
        ("noop()", "noop()"),
    ],
)
def test_a_call_of_known_form_is_read(written: str, canonical: str) -> None:
    assert read(written, NAMES) == canonical
    assert read(canonical, NAMES) == canonical


@pytest.mark.parametrize(
    "written",
    [
        *HOSTILE,
        "click",
        "click(12)",
        "click('1', 'upper')",
        "click('1', modifiers=['Hyper'])",
        "click('1', '2', '3', '4')",
        "click(*['1'])",
        "click(**{'bid': '1'})",
        "click('1'), click('2')",
        "click('1')\nclick('2')",
        "click('1').real",
        "click(open('/etc/passwd').read())",
        "click(f'{__import__(\"os\")}')",
        "click('1' if True else '2')",
        "(lambda: click('1'))()",
        "page.goto('http://x')",
        "upload_file('1', '/etc/passwd')",
        "exec('1')",
        "tab_focus(True)",
        "tab_focus(1.5)",
        "scroll(1e999, 0)",
        "scroll(0, 9999999)",
        "noop(5001)",
        "noop(-1)",
        "goto('file:///etc/passwd')",
        "goto('javascript:alert(1)')",
        "goto('chrome://settings')",
        "goto('http://')",
        "fill('1', b'bytes')",
        "fill('1', '\ud83d')",
        f"fill('1', '{'x' * MOST_CHARS}')",
        "click(" + "(" * 500 + ")" * 500 + ")",
    ],
)
def test_anything_else_is_no_action(written: str) -> None:
    assert read(written, NAMES) is None


@given(st.text(), st.text(), st.sampled_from(["left", "middle", "right"]))
def test_no_text_can_break_out_of_its_quotes(bid: str, value: str, button: str) -> None:
    for written in (f"fill({bid!r}, {value!r})", f"click({bid!r}, {button!r})"):
        canonical = read(written, NAMES)
        assert canonical is not None
        call = ast.parse(canonical, mode="eval").body
        assert isinstance(call, ast.Call)
        assert ast.literal_eval(call.args[0]) == bid
        assert all(isinstance(argument, ast.Constant) for argument in call.args)


@given(st.text())
def test_reading_never_fails_and_what_is_read_reads_as_itself(text: str) -> None:
    found = read(text, NAMES)
    assert found is None or read(found, NAMES) == found


def test_only_the_benchmarks_own_actions_are_read() -> None:
    assert read("click('1')", ("click",)) == "click('1')"
    assert read("noop()", ("click",)) is None


_FORMS = """
import inspect, json
from browsergym.core.action import functions
forms = {}
for name, function in inspect.getmembers(functions, inspect.isfunction):
    if function.__module__ == functions.__name__:
        forms[name] = [[p.name, None if p.default is p.empty else repr(p.default)]
                       for p in inspect.signature(function).parameters.values()]
print(json.dumps(forms))
"""


def test_the_actions_have_the_forms_of_browsergyms() -> None:
    done = subprocess.run(
        [python_of("miniwob"), "-c", _FORMS], capture_output=True, text=True, check=True, timeout=120
    )
    theirs = json.loads(done.stdout.splitlines()[-1])
    ours = {}
    for line in described(NAMES).splitlines():
        call = ast.parse(line.partition(": ")[0], mode="eval").body
        assert isinstance(call, ast.Call)
        names = [[argument.id, None] for argument in call.args if isinstance(argument, ast.Name)]
        ours[call.func.id] = names + [[k.arg, ast.unparse(k.value)] for k in call.keywords]  # type: ignore[attr-defined]
    assert ours == {name: form for name, form in theirs.items() if name in ours}
    assert set(NAMES) == set(ours)


def test_a_random_action_is_one_on_the_page() -> None:
    page = "Page: x\nRootWebArea 'x'\n\t[13] textbox ''\n\t[14] button 'Go'"
    rng = random.Random(0)
    made = {sample_action(rng, page) for _ in range(50)}
    assert made == {"click('13')", "click('14')", "fill('13', 'some text')"}
    assert all(read(action, NAMES) for action in made)


@pytest.mark.parametrize(
    "answer",
    [
        "I will. <action>click('3')</action>",
        "<think><action>click('9')</action></think> <action> `click('3')` </action>",
    ],
)
def test_the_call_in_the_last_tag_counts(answer: str) -> None:
    assert STYLE.parse_action(answer).text == "click('3')"


@pytest.mark.parametrize(
    "answer", ["click('3')", "<action>press 3</action>", "<action>goto('http://x')</action>"]
)
def test_an_answer_without_a_known_call_in_the_tag_is_invalid(answer: str) -> None:
    assert STYLE.parse_action(answer).invalid


def test_each_turns_prompt_extends_the_one_before() -> None:
    first = View("Page: a", instruction="Do it.")
    step = Step("Page: a", "<action>click('1')</action>", ("click('1')",), 0.0)
    start, later = STYLE.act_prompt(first), STYLE.act_prompt(View("Page: b", (step,), instruction="Do it."))
    assert later[: len(start)] == start
    assert later[2].content == step.response
    assert later[1].content == "Do it.\n\nPage: a"
    assert later[-1].content == "Page: b"
    assert "click(bid, button='left', modifiers=[]): click an element" in start[0].content


def test_the_account_tells_what_was_done_and_what_was_not_possible() -> None:
    steps = (
        Step("Page: a", "x", ("click('1')",), 0.0),
        Step("Page: a", "y", (), 0.0, invalid=True),
        Step("Page: a", "z", ("click('77')",), 0.0, invalid=True),
    )
    account = STYLE.summarise(EpisodeRecord(0, steps, "Page: b " + "x" * 1000, False, "step_limit"))
    lines = account.splitlines()
    assert lines[1] == "Turn 1: click('1')"
    assert lines[2] == "Turn 2: nothing (no action in the asked form)"
    assert lines[3] == "Turn 3: click('77') (not possible)"
    assert lines[-1].startswith("Page: b x")
    assert len(lines[-1]) < 700


@pytest.mark.parametrize(
    "options",
    [{"max_turns": 0}, {"observation_chars": 5}, {"pre_observation_delay_s": -1.0}, {"history_turns": -1}],
)
def test_an_impossible_option_is_named(options: dict[str, float]) -> None:
    (key,) = options
    with pytest.raises(EnvSetupError, match=f"{key}="):
        BrowserOptions(**options)  # type: ignore[arg-type]
