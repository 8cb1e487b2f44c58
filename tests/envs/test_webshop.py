"""WebShop over the official catalogue: search, pages, goals, score, and the promises of every environment."""

from __future__ import annotations

import json
import random
import statistics
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envs import registry
from envs.base import EpisodeRecord, Message, Step, View
from envs.data import data_file
from envs.options import EnvSetupError
from envs.webshop import reward
from envs.webshop.analysis import Analyzer
from envs.webshop.catalogue import Product
from envs.webshop.env import WebShop
from envs.webshop.goals import Goal
from envs.webshop.options import Options
from envs.webshop.pages import PAGE_SIZE
from envs.webshop.search import Searcher, build, byte_length
from tests.envs import contract


def made(**options: Any) -> WebShop:
    env = registry.make("webshop", options)
    assert isinstance(env, WebShop)
    return env


@pytest.fixture(scope="module")
def env() -> WebShop:
    return made()


def purchase(env: WebShop, index: int) -> list[str]:
    """The actions that buy a goal's own product with the wanted options, found by its title."""
    goal = env.shop.goal(index)
    product = env.shop.products[goal.product]
    hits = [number for number, _ in env.shop.search(product.title, 50)]
    page = hits.index(goal.product) // PAGE_SIZE
    wanted = [simplest(product, value) for value in goal.options]
    return [
        f"search[{product.title}]",
        *["click[next >]"] * page,
        f"click[{product.asin.lower()}]",
        *(f"click[{value}]" for value in wanted if value is not None),
        "click[buy now]",
    ]


def simplest(product: Product, value: str) -> str | None:
    """The product's choice that is a wanted value, or alike."""
    choices = [choice for values in product.options.values() for choice in values]
    if value in choices:
        return value
    return max(
        (choice for choice in choices if reward.options_met([choice], _wanting(value)) == 1),
        key=len,
        default=None,
    )


def _wanting(value: str) -> Goal:
    return Goal(0, "", [], [value], None, 1.0)


def a_purchase() -> tuple[int, list[str]]:
    """The index of a goal written by people, and the actions that reach a score of 1."""
    return 0, purchase(made(goals="human"), 0)


def bought(env: WebShop, index: int) -> float:
    env.reset(options={"instance": index})
    trace = contract.played(env, purchase(env, index))
    assert trace[-1][2] is True
    assert not any(step[5] for step in trace)
    assert env.parts is not None
    return env.parts.score


# --- search ---


def test_the_ten_best_are_lucenes(env: WebShop) -> None:
    lines = data_file("webshop", "webshop/lucene_bm25_golden.jsonl").read_text().splitlines()
    shared = total = first = 0
    for line in lines:
        golden = json.loads(line)
        found = [env.shop.products[n].asin for n, _ in env.shop.search(golden["query"], 10)]
        shared += len({*found} & {*golden["top10"]})
        total += len(golden["top10"])
        first += found[:1] == golden["top10"][:1]
    assert len(lines) >= 100
    assert shared / total >= 0.99
    assert first / len(lines) >= 0.98


def test_scores_are_near_lucenes(env: WebShop) -> None:
    apart = []
    for line in data_file("webshop", "webshop/lucene_bm25_golden.jsonl").read_text().splitlines():
        golden = json.loads(line)
        found = [score for _, score in env.shop.search(golden["query"], 10)]
        pairs = zip(found, golden["scores"], strict=True)
        apart.append(max(abs(ours - theirs) / theirs for ours, theirs in pairs))
    assert statistics.median(apart) < 0.005
    assert max(apart) < 0.06


def test_terms_are_those_of_an_english_analyzer() -> None:
    analyze = Analyzer()
    assert analyze("The Women's running shoes, size 7.5!") == ["women", "run", "shoe", "size", "7.5"]
    assert analyze("to be or not to be") == []
    assert analyze("U.S.A. wi-fi a_b") == ["u.s.a", "wi", "fi", "a_b"]


@pytest.mark.parametrize(("length", "kept"), [(0, 0), (31, 31), (39, 39), (40, 40), (41, 40), (100, 96)])
def test_a_documents_length_is_kept_in_one_byte(length: int, kept: int) -> None:
    assert byte_length(length) == kept


words = st.sampled_from(["red", "blue", "shoe", "lamp", "table", "chair", "with", "of", "soft", "large"])


@given(st.lists(st.lists(words, max_size=8), min_size=1, max_size=12), st.lists(words, max_size=4))
def test_a_hit_has_a_term_of_the_query_and_hits_come_best_first(
    tmp_path_factory: pytest.TempPathFactory, documents: list[list[str]], query: list[str]
) -> None:
    place = tmp_path_factory.mktemp("index")
    if not any(Analyzer()(" ".join(each)) for each in documents):
        documents = [["lamp"]]
    build([" ".join(each) for each in documents], place)
    search = Searcher(place, len(documents))
    found = search(" ".join(query), 50)
    terms = {*Analyzer()(" ".join(query))}
    holding = {n for n, each in enumerate(documents) if terms & {*Analyzer()(" ".join(each))}}
    assert {number for number, _ in found} == holding
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    assert [number for number, _ in search(" ".join(query), 3)] == [number for number, _ in found[:3]]


# --- goals ---


def test_the_catalogue_gives_the_benchmarks_number_of_goals() -> None:
    assert made().shop.goal_count == 6910
    assert made(goals="human").shop.goal_count == 13
    assert len(made().shop.products) == 1000


def test_the_first_500_goals_are_held_out() -> None:
    assert registry.instances("webshop", {}, "eval") == range(500)
    assert registry.instances("webshop", {}, "train") == range(500, 6910)
    with pytest.raises(EnvSetupError, match="eval_goals=500: of 13 goals none is left"):
        registry.instances("webshop", {"goals": "human"}, "train")
    assert registry.instances("webshop", {"goals": "human", "eval_goals": 5}, "train") == range(5, 13)


def test_every_worker_has_the_same_goals() -> None:
    random.seed(1)
    one = contract.played_elsewhere("webshop", {}, 700, ["search[lamp]"])
    random.seed(2)
    env = made()
    observation, _ = env.reset(options={"instance": 700})
    assert one[0] == observation
    assert one[1][0] == env.step("search[lamp]")[0]


def test_goal_limits_are_above_the_price(env: WebShop) -> None:
    rng = random.Random(0)
    for index in rng.sample(range(6910), 300):
        goal = env.shop.goal(index)
        product = env.shop.products[goal.product]
        assert goal.most > product.price
        assert goal.most - product.price <= 40 or goal.most == 1_000_000.0
        assert goal.option_names == sorted(product.options)
        assert all(
            value in product.options[name]
            for name, value in zip(goal.option_names, goal.options, strict=True)
        )


# --- score ---


def test_all_goals_written_by_people_can_be_bought_for_a_score_of_1() -> None:
    env = made(goals="human")
    assert [bought(env, index) for index in range(13)] == [1.0] * 13


def test_the_benchmarks_flaw_costs_some_perfect_purchases_and_the_repair_none(env: WebShop) -> None:
    chosen = random.Random(5).sample(range(6910), 60)
    published = [bought(env, index) for index in chosen]
    repaired = [bought(made(repair_option_matching=True), index) for index in chosen]
    assert repaired == [1.0] * 60
    assert 0.85 <= sum(score == 1.0 for score in published) / 60 < 1.0
    assert min(published) > 0.4


PLAIN = Product(
    "A", "red wool scarf", "warm", ["soft"], 20.0, "$20.0", {}, ["handmade"], "clothes › scarves", "scarf"
)


def nouns(title: str) -> list[str]:
    return [word for word in title.split() if word in ("wool", "scarf", "lamp", "bulb")]


def goal_of(**changed: Any) -> Goal:
    wanted: dict[str, Any] = {
        "attributes": ["handmade", "warm", "soft"], "options": [], "option_names": None, "most": 30.0,
    }  # fmt: skip
    return Goal(0, "", **{**wanted, **changed})


def test_the_score_counts_attributes_options_and_price() -> None:
    assert reward.score(PLAIN, {}, goal_of(), PLAIN, nouns).score == 1.0
    assert reward.score(PLAIN, {}, goal_of(most=19.0), PLAIN, nouns).score == 3 / 4
    assert reward.score(PLAIN, {}, goal_of(attributes=["handmade", "cold"]), PLAIN, nouns).score == 2 / 3
    wants = goal_of(options=["red clay", "large"])
    assert reward.score(PLAIN, {}, wants, PLAIN, nouns).score == 4 / 6
    assert reward.score(PLAIN, {"c": "bright red", "s": "large"}, wants, PLAIN, nouns).score == 1.0
    assert reward.score(PLAIN, {"c": "blue", "s": "large"}, wants, PLAIN, nouns).score == 5 / 6


def changed(**fields: Any) -> Product:
    return msgspec.structs.replace(PLAIN, **fields)


@pytest.mark.parametrize(
    ("bought", "wanted", "factor"),
    [
        (changed(title="silk scarf"), PLAIN, 1.0),
        (changed(title="lamp"), PLAIN, 0.0),
        (changed(title="scarf", query="hat", category="toys"), changed(title="lamp " * 5 + "scarf"), 0.5),
        (changed(title="scarf", category="toys"), changed(title="lamp " * 5 + "scarf"), 1.0),
        (changed(title="scarf"), changed(title="lamp " * 11 + "scarf"), 0.1),
        (changed(title="a thing"), changed(title="another"), 1.0),
        (changed(title="a thing", query="hat", category="toys"), changed(title="another"), 0.5),
    ],
)
def test_another_kind_of_product_scores_less(bought: Product, wanted: Product, factor: float) -> None:
    assert reward.kind_factor(bought, wanted, nouns) == factor


def test_synthetic_options_are_compared_as_the_benchmark_does_unless_repaired() -> None:
    wants = goal_of(options=["black2626"], option_names=["color"])
    assert reward.options_met(["black2626"], wants) == 0
    assert reward.options_met(["black2626"], wants, repaired=True) == 1
    assert reward.options_met(["blue"], wants, repaired=True) == 0


def test_the_reward_of_a_purchase_is_an_option(env: WebShop) -> None:
    index = next(i for i in range(500, 600) if bought(env, i) == 1.0)
    for kind, amount in (("score", 1.0), ("win", 10.0)):
        shop = made(reward=kind)
        shop.reset(options={"instance": index})
        trace = contract.played(shop, purchase(shop, index))
        assert [step[1] for step in trace] == [0.0] * (len(trace) - 1) + [amount]
        assert trace[-1][4] is True
        shop.reset(options={"instance": index})
        shop.step("search[nothing like it at all lamp]")
        first = next(iter(shop.admissible_actions() or ["click[back to search]"]))
        assert shop.step(first)[1] == 0.0


# --- pages ---


def test_the_pages_lead_to_each_other(env: WebShop) -> None:
    start, info = env.reset(options={"instance": 500})
    assert start == f"WebShop [SEP] Instruction: [SEP] {info['instruction']} [SEP] Search"
    results = env.step("search[lamp]")[0]
    assert "Page 1 (Total results: " in results
    second = env.step("click[next >]")[0]
    assert "Page 2" in second
    assert env.step("click[< prev]")[0] == results
    asin = next(part for part in results.split(" [SEP] ") if part.startswith("B0"))
    item = env.step(f"click[{asin.lower()}]")[0]
    assert "Buy Now" in item
    assert "Price: $" in item
    assert "No reviews found" in env.step("click[reviews]")[0]
    assert env.step("click[< prev]")[0] == item
    assert env.step("click[features]")[4]["invalid"] is False
    assert env.step("click[back to search]")[0] == start


@pytest.mark.parametrize(
    "action", ["click[buy now]", "click[next >]", "click[search]", "search lamp", "buy[x]"]
)
def test_an_action_that_the_page_does_not_have_changes_nothing(env: WebShop, action: str) -> None:
    start, _ = env.reset(options={"instance": 500})
    observation, gained, over, _, info = env.step(action)
    assert (observation, gained, over, info["invalid"]) == (start, 0.0, False, True)


def test_a_rich_page_marks_what_can_be_clicked_and_what_is_chosen() -> None:
    env = made(observation="text_rich")
    index = next(i for i in range(500, 700) if env.shop.goal(i).options)
    env.reset(options={"instance": index})
    actions = purchase(env, index)
    page = contract.played(env, actions[:-1])[-1][0]
    assert "[button] Buy Now [button_]" in page
    assert page.startswith("You have clicked ")
    assert "[clicked button] " in page


def test_listed_actions_are_possible() -> None:
    env = made(admissible=True)
    rng = random.Random(3)
    for index in range(500, 520):
        env.reset(options={"instance": index})
        for _ in range(10):
            offered = env.admissible_actions()
            assert offered
            _, _, over, _, info = env.step(rng.choice(offered))
            assert info["invalid"] is False
            if over:
                break


# --- the contract ---


def test_the_start_comes_back_whatever_was_played(env: WebShop) -> None:
    for index in (500, 501, 3000):
        contract.check_restart(env, index, purchase(env, index))


def test_hostile_actions_leave_it_usable(env: WebShop) -> None:
    contract.check_hostile(env, 500, purchase(env, 500))
    env.reset(options={"instance": 500})
    for text in contract.HOSTILE:
        observation, *_ = env.step(f"search[{text}]")
        assert isinstance(observation, str)
        env.restart()


def test_two_processes_see_the_same(env: WebShop) -> None:
    contract.check_determinism("webshop", {}, 777, purchase(env, 777))


def test_close_leaves_no_process(env: WebShop) -> None:
    contract.check_close(made, 500, ["search[lamp]"])


def test_two_hundred_episodes_do_not_grow(env: WebShop) -> None:
    def play(env: Any, index: int) -> None:
        env.reset(options={"instance": 500 + index})
        contract.played(env, purchase(env, 500 + index))

    contract.check_many_episodes(env, play)


@pytest.mark.parametrize("instance", [-1, 6910, "lamp", True])
def test_an_instance_that_does_not_exist_is_named(env: WebShop, instance: Any) -> None:
    with pytest.raises(EnvSetupError, match=f"no instance {instance!r}: goals go from 0 to 6909"):
        env.reset(options={"instance": instance})


def test_nothing_happens_after_the_end(env: WebShop) -> None:
    bought(env, 500)
    after = env.step("click[back to search]")
    assert after[1:4] == (0.0, True, False)
    assert after[4]["invalid"] is True


def test_reset_without_an_instance_or_restart_before_reset_is_refused() -> None:
    fresh = made()
    with pytest.raises(EnvSetupError, match="reset"):
        fresh.restart()
    with pytest.raises(EnvSetupError, match="instance"):
        fresh.reset()


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"goals": "mine"}, "goals='mine'"),
        ({"eval_goals": 0}, "eval_goals=0"),
        ({"reward": "money"}, "reward='money'"),
        ({"max_page_chars": 5}, "max_page_chars=5"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, Any], named: str) -> None:
    with pytest.raises(EnvSetupError) as error:
        registry.validate_options("webshop", options)
    assert named in str(error.value)


def test_missing_data_are_reported_with_the_remedy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert registry.check("webshop") == []
    monkeypatch.setenv("AGENTMEM_DATA", str(tmp_path))
    missing = registry.check("webshop")
    assert len(missing) == 3
    assert all("agentmem data fetch webshop" in line for line in missing)


def test_a_damaged_catalogue_is_named(tmp_path: Path) -> None:
    broken = tmp_path / "items.json"
    broken.write_text('[{"asin": "B01"}]')
    with pytest.raises(EnvSetupError, match="items.json isn't in the benchmark's form"):
        made(catalogue=str(broken))
    broken.write_text('[{"asin": ')
    with pytest.raises(EnvSetupError, match="items.json can't be read as JSON"):
        made(catalogue=str(broken))


# --- prompts ---


def test_each_prompt_extends_the_one_before_and_its_answer(env: WebShop) -> None:
    observation, info = env.reset(options={"instance": 503})
    steps: list[Step] = []
    before: tuple[Message, ...] = ()
    for action in [*purchase(env, 503)[:-1], "click[nowhere]"]:
        view = View(observation, tuple(steps), episodes=3, instruction=info["instruction"])
        prompt = env.style.act_prompt(view)
        assert isinstance(prompt, tuple)
        assert prompt[: len(before)] == before
        response = f"I see. <action>{action}</action>"
        parsed = env.style.parse_action(response)
        observation, gained, _, _, after = env.step(parsed.text)
        steps.append(Step(view.observation, response, parsed.actions, gained, after["invalid"]))
        before = (*prompt, Message("assistant", response))
    assert sum(message.content.count(info["instruction"]) for message in before) == 1
    record = EpisodeRecord(0, tuple(steps), observation, False, "failure")
    reflection = env.style.reflect_prompt(
        View(observation, tuple(steps), episodes=3, instruction=info["instruction"]), record
    )
    assert isinstance(reflection, tuple)
    assert reflection[: len(before)] == before
    account = env.summarise(record)
    assert steps[-1].invalid
    assert all(action in account for step in steps[:-1] for action in step.actions)


def test_a_long_page_is_cut_in_its_middle_and_says_so() -> None:
    env = made(max_page_chars=300)
    env.reset(options={"instance": 500})
    page = env.step("search[lamp]")[0]
    style = registry.style("webshop", {"max_page_chars": 300})
    prompt = style.act_prompt(View(page))
    assert isinstance(prompt, tuple)
    assert "characters left out" in prompt[-1].content
    assert len(prompt[-1].content) < 420


def test_options_are_the_published_setting_by_default() -> None:
    options = registry.validate_options("webshop", {})
    assert isinstance(options, Options)
    assert (options.goals, options.eval_goals, options.observation) == ("synthetic", 500, "text")
    assert (options.reward, options.repair_option_matching, options.max_turns) == ("score", False, 15)
