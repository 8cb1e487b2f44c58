"""From a recipe and `--set` overrides to a checked `RunConfig`, or to one clear line."""

from __future__ import annotations

import copy
import difflib
import json
import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any, TypeVar, get_args

import yaml
from pydantic import BaseModel, ValidationError

from agentmem.config.schema import SCRIPTED, RunConfig
from agentmem.failures import ConfigError

Tree = dict[str, Any]
S = TypeVar("S", bound=BaseModel)


class _Loader(yaml.SafeLoader):
    """YAML 1.1's floats need a dot before the exponent; `1e-5` must be a number, too."""


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?$"),
    list("-+0123456789."),
)


def list_recipes() -> dict[str, str]:
    """Recipe name -> its one-line description (the file's first comment line)."""
    found: dict[str, str] = {}
    for entry in sorted(resources.files("agentmem.recipes").iterdir(), key=lambda e: e.name.split(".")[0]):
        if entry.name.endswith(".yaml"):
            first = entry.read_text(encoding="utf-8").splitlines()[0]
            found[entry.name.removesuffix(".yaml")] = first.removeprefix("#").strip()
    return found


def _read_recipe(recipe: str, above: tuple[str, ...] = ()) -> Tree:
    """The tree of a recipe; `above` are the recipes that it is a base of."""
    if recipe.endswith((".yaml", ".yml")):
        path = Path(recipe)
        if not path.is_file():
            raise ConfigError(f"recipe file {recipe}: not found")
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"recipe file {recipe} can't be read: {error}") from error
    else:
        known = list_recipes()
        if recipe not in known:
            near = difflib.get_close_matches(recipe, known, n=1)
            hint = f"did you mean '{near[0]}'? " if near else ""
            where = f" (base of {above[-1]})" if above else ""
            raise ConfigError(
                f"unknown recipe '{recipe}'{where}: {hint}recipes are {', '.join(known)}, or a file *.yaml"
            )
        text = (resources.files("agentmem.recipes") / f"{recipe}.yaml").read_text(encoding="utf-8")
    try:
        tree = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"recipe {recipe} is no valid YAML: {' '.join(str(error).split())}") from error
    if not isinstance(tree, dict):
        found = "nothing" if tree is None else type(tree).__name__
        raise ConfigError(f"recipe {recipe}: a mapping of settings is needed, found {found}")
    base = tree.pop("base", None)
    if base is None:
        return tree
    if not isinstance(base, str):
        raise ConfigError(f"recipe {recipe}: base is {base!r}: the name or file of one recipe is needed")
    if base in above or base == recipe:
        raise ConfigError(f"recipe {recipe}: base is '{base}', which is based on {recipe} itself")
    return _extend(_read_recipe(base, (*above, recipe)), tree)


def _extend(base: Tree, over: Tree) -> Tree:
    """A recipe on its base. Another environment doesn't inherit the options of the base's."""
    chosen, inherited = over.get("env"), base.get("env")
    if isinstance(chosen, dict) and isinstance(inherited, dict):
        same = chosen.get("name", inherited.get("name")) == inherited.get("name")
        if not same:
            base = {**base, "env": {**inherited, "options": {}}, "pretrained": {}}
    return _merge(base, over)


def _merge(base: Tree, over: Tree) -> Tree:
    """`over` wins; mappings are merged key by key, everything else is replaced."""
    out = dict(base)
    for key, value in over.items():
        old = out.get(key)
        out[key] = _merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return out


def _apply(tree: Tree, assignment: str) -> None:
    key, sep, text = assignment.partition("=")
    key = key.strip()
    if not sep or not key:
        raise ConfigError(f"--set {assignment}: write it as key=value, for example --set learner.lr=1e-5")
    try:
        value = yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        raise ConfigError(f"--set {key}={text}: the value is no valid YAML") from error
    node = tree
    *parents, last = key.split(".")
    for part in parents:
        child = node.setdefault(part, {})
        if child is None:
            child = node[part] = {}
        if not isinstance(child, dict):
            raise ConfigError(f"--set {key}: '{part}' is a value, not a section")
        node = child
    node[last] = value


def override(tree: Tree, assignments: Iterable[str]) -> Tree:
    """A copy of `tree` with `a.b=value` applied in order. Raises ConfigError."""
    out = copy.deepcopy(tree)
    for assignment in assignments:
        _apply(out, assignment)
    return out


def parse_assignments(assignments: Iterable[str]) -> Tree:
    """`["a.b=1", "c=x"]` -> {"a": {"b": 1}, "c": "x"}. Raises ConfigError."""
    return override({}, assignments)


def _section(path: tuple[int | str, ...], model: type[BaseModel]) -> type[BaseModel] | None:
    """The model whose field stands at the end of `path` from `model`, as far as it is one of ours."""
    for part in path:
        field = model.model_fields.get(str(part))
        kinds = [field.annotation, *get_args(field.annotation)] if field else []
        models = [k for k in kinds if isinstance(k, type) and issubclass(k, BaseModel)]
        if models:
            model = models[0]
        elif field:
            return None
    return model


def _line(error: ValidationError, kind: type[BaseModel]) -> str:
    """The first problem as one line: key, what was found, what is allowed."""
    problem = error.errors()[0]
    path = tuple(problem["loc"])
    key = ".".join(str(p) for p in path)
    if problem["type"] == "extra_forbidden":
        model = _section(path[:-1], kind)
        names = sorted(model.model_fields) if model else []
        near = difflib.get_close_matches(str(path[-1]), names, n=1)
        hint = f"did you mean '{near[0]}'? " if near else ""
        return f"unknown key '{key}' (value {problem['input']!r}): {hint}allowed are {', '.join(names)}"
    if problem["type"] == "missing":
        return f"{key} is missing: it has no default"
    if problem["type"] == "value_error":  # a section's own words, which begin with the key in it
        return ".".join(filter(None, [key, problem["msg"].removeprefix("Value error, ")]))
    found = problem["input"]
    return f"{key} is {found!r} ({type(found).__name__}): {problem['msg'][0].lower()}{problem['msg'][1:]}"


def _model_of(tree: Tree) -> object:
    node: Any = tree
    for part in ("policies", "agent", "model"):
        node = node.get(part) if isinstance(node, dict) else None
    return node


def _is_tiny(model: object) -> bool:
    """`tiny`, or a directory with a model that was made as one (and trained on, perhaps). A script plays what
    tiny models play."""
    if model in (None, "tiny") or str(model).partition(":")[0] == SCRIPTED:
        return True
    config = Path(str(model)) / "config.json"
    try:
        return bool(json.loads(config.read_text(encoding="utf-8")).get("agentmem_tiny"))
    except (OSError, ValueError, AttributeError):
        return False  # no such directory, or no model: said when the model is looked at


def load_config(recipe: str, overrides: Iterable[str] = ()) -> RunConfig:
    """Recipe (name or YAML file) with overrides `a.b=value`, later ones winning. Raises ConfigError.

    A recipe's section `pretrained` holds what it changes when the agent's model isn't `tiny`.
    """
    assignments = list(overrides)
    tree = _read_recipe(recipe)
    # What a recipe changes for a model that isn't made for its short prompts; overrides come after it.
    pretrained = tree.pop("pretrained", {})
    chosen = _merge(tree, parse_assignments(assignments))
    if not _is_tiny(_model_of(chosen)):
        tree = _merge(tree, pretrained)
    for assignment in assignments:
        _apply(tree, assignment)
    tree["recipe"] = Path(recipe).stem
    return from_tree(tree)


def from_tree(tree: Tree) -> RunConfig:
    """A plain mapping -> RunConfig. Raises ConfigError."""
    return checked(tree, RunConfig)


def checked(tree: Tree, kind: type[S]) -> S:
    """A plain mapping -> settings of this kind. Raises ConfigError."""
    try:
        return kind.model_validate(tree)
    except ValidationError as error:
        raise ConfigError(_line(error, kind)) from error


def to_yaml(config: RunConfig) -> str:
    """The resolved tree; `from_tree(yaml.safe_load(...))` gives the same configuration back.

    The password of a replay URL is left out: what is printed and stored must not hold secrets.
    """
    return yaml.safe_dump(without_secrets(config), sort_keys=False, allow_unicode=True)


def without_secrets(config: RunConfig) -> Tree:
    """The tree as it may be printed, stored and published."""
    tree = config.model_dump(mode="json")
    if config.replay.url is not None:
        tree["replay"]["url"] = hidden(config.replay.url)
    return tree


def hidden(text: str) -> str:
    """A text with `***` for user and password of every URL in it."""
    return re.sub(r"(://)[^@/\s]*@", r"\1***@", text)
