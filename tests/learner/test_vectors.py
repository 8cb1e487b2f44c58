"""The check of a vectors file: it passes on right answers and on nothing else."""

import copy
import json
import math
from pathlib import Path

import pytest

from learner.vector_sections import SECTIONS
from learner.vectors import TOLERANCE, VectorsError, check

FILE = Path(__file__).parents[1] / "vectors" / "credit.json"
CONTENT = json.loads(FILE.read_text())


def check_content(tmp_path, content):
    path = tmp_path / "vectors.json"
    path.write_text(json.dumps(content))
    return {result.name: result for result in check(path)}


def numbers(value, path=()):
    """Where a nested value holds numbers, as paths of keys."""
    if isinstance(value, bool):
        return
    if isinstance(value, int | float):
        yield path
    elif isinstance(value, dict | list):
        for key in value if isinstance(value, dict) else range(len(value)):
            yield from numbers(value[key], (*path, key))


def test_every_section_of_the_shared_file_is_right():
    results = check(FILE)
    assert [result.name for result in results] == list(CONTENT)
    assert [result.cases for result in results] == [len(cases) for cases in CONTENT.values()]
    assert [(r.name, r.max_error, r.problem) for r in results if not r.passed] == []


def test_every_section_that_we_can_run_is_in_the_shared_file():
    assert set(SECTIONS) == set(CONTENT)


OUTPUTS = {
    "trial_returns": ["returns", "reflection_returns", "chained_returns", "chained_reflection_returns"],
    "gigpo": ["advantages"],
    "group_advantages": ["grpo_mean_std", "grpo_mean", "rloo"],
    "gae": ["advantages"],
    "trial_group_advantages": ["grpo", "rloo"],
    "ppo_trial": ["expected"],
    "truncated_importance": ["weights", "surrogate"],
    "novelty": ["intrinsic"],
    "empo2": ["surrogate", "mask"],
    "mempi": ["expected"],
    "pass_at_k": ["p_at_k"],
}


@pytest.mark.parametrize(("section", "output"), [(s, o) for s, outputs in OUTPUTS.items() for o in outputs])
def test_a_wrong_number_in_any_expected_field_is_found_with_its_size(tmp_path, section, output):
    content = copy.deepcopy({section: CONTENT[section]})
    case = next(case for case in content[section] if any(numbers(case[output])))
    *way, last = next(iter(numbers(case[output])))
    place = case[output]
    for key in way:
        place = place[key]
    place[last] += 1e-3
    result = check_content(tmp_path, content)[section]
    assert not result.passed
    assert result.max_error == pytest.approx(1e-3, rel=1e-6)


@pytest.mark.parametrize("section", list(OUTPUTS))
def test_a_field_that_is_missing_is_named_and_never_passed_over(tmp_path, section):
    for field in CONTENT[section][0]:
        content = copy.deepcopy({section: CONTENT[section]})
        del content[section][0][field]
        result = check_content(tmp_path, content)[section]
        assert not result.passed
        assert result.problem == f"case 0: missing field '{field}'"


def test_an_unknown_section_is_reported_beside_the_known_ones(tmp_path):
    results = check_content(tmp_path, {"gae": CONTENT["gae"], "dreams": [{}]})
    assert results["gae"].passed
    assert not results["dreams"].passed
    assert results["dreams"].max_error == math.inf
    assert "no function for this section" in results["dreams"].problem


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"colour": 1}, "unknown fields colour"),
        ({"advantages": [1.0]}, "advantages has 1 entries, computed 2"),
        ({"advantages": None}, "advantages is null, computed a list"),
        ({"advantages": [None, 0.0]}, r"advantages\[0\] is null"),
        ({"advantages": [math.nan, 0.0]}, r"advantages\[0\] is nan"),
        ({"values": [0.0]}, "1 values for 2 rewards"),
        ({"rewards": "no"}, "case 0"),
    ],
)
def test_a_case_of_another_shape_is_a_problem_with_its_place(tmp_path, change, problem):
    case = {
        "rewards": [0.0, 1.0],
        "values": [0.0, 0.0],
        "gamma": 1.0,
        "lambda": 1.0,
        "advantages": [1.0, 1.0],
    }
    assert check_content(tmp_path, {"gae": [case]})["gae"].passed
    result = check_content(tmp_path, {"gae": [case | change]})["gae"]
    assert not result.passed
    with pytest.raises(AssertionError, match=problem):
        raise AssertionError(result.problem)


def test_log_probs_of_different_lengths_are_a_problem(tmp_path):
    case = CONTENT["truncated_importance"][-1] | {"logp_old": [-1.0, -1.0]}
    result = check_content(tmp_path, {"truncated_importance": [case]})["truncated_importance"]
    assert not result.passed
    assert result.problem.startswith("case 0: ")


@pytest.mark.parametrize("cases", [[], {}, None, "text", [3]])
def test_a_section_that_holds_no_cases_does_not_pass(tmp_path, cases):
    assert not check_content(tmp_path, {"gae": cases})["gae"].passed


def test_an_error_at_the_tolerance_passes_and_one_beyond_it_does_not(tmp_path):
    def with_error(error):
        case = {"rewards": [0.0], "values": [0.0], "gamma": 1.0, "lambda": 1.0, "advantages": [error]}
        return check_content(tmp_path, {"gae": [case]})["gae"]

    assert with_error(TOLERANCE).passed
    assert not with_error(2 * TOLERANCE).passed


@pytest.mark.parametrize(
    ("text", "message"), [("{", "not JSON"), ("[]", "not an object"), ("{}", "not an object")]
)
def test_a_file_that_is_no_vectors_file_is_refused(tmp_path, text, message):
    path = tmp_path / "vectors.json"
    path.write_text(text)
    with pytest.raises(VectorsError, match=message):
        check(path)


def test_a_file_that_is_not_there_is_refused_by_name(tmp_path):
    with pytest.raises(VectorsError, match=r"cannot read .*absent\.json"):
        check(tmp_path / "absent.json")
