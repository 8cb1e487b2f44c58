"""The tiny model for environments that speak in chat messages: byte-level BPE, and imitation of random play.

The tokenizer's merges are learned from the environment's own prompts, so that its rules take few tokens; any
other text still has a spelling in bytes. The demonstrator makes random admissible moves and writes a fixed
remark after a failed attempt: the model learns to answer in the asked form, not to play. Environments that
don't list their admissible actions get the tokenizer and fresh weights.

The warm-up is short whatever the settings say (`MOST_...`): prompts are long, and form is easy.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

    from agentmem.app.models.resolve import Surroundings
    from envs.base import PromptStyle, TextEnv

Demo = tuple[tuple[tuple[str, str], ...], str]
"""Messages (role, content) and the answer."""

MOST_STEPS = 120
MOST_ROWS = 8
MOST_EPISODES, MOST_TURNS = 2, 3
VOCABULARY = 1024
#: A role's token opens a message, <eos> closes it.
ROLES = ("<|system|>", "<|user|>", "<|assistant|>")
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ '<|' + m['role'] + '|>' + m['content'] + eos_token }}"
    "{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"
)
REMARK = "<remark>Try another way.</remark>"
BOARDS = 32
"""Different instances that are played: making one can be slow."""


def demonstrations(around: Surroundings, seed: int, most: int) -> list[Demo]:
    """Prompts with answers from random play; if no actions are listed, the first prompts, answers empty."""
    from envs import registry
    from envs.domains import domain_of

    env = registry.make(around.env, registry.listing_actions(around.env, around.options))
    try:
        style = registry.style(around.env, around.options)
        rng = random.Random(seed)
        known = registry.instances(around.env, around.options, "train")
        chosen = [known[i] for i in sorted(rng.sample(range(len(known)), min(BOARDS, len(known))))]
        demos: list[Demo] = []
        while len(demos) < most:
            before = len(demos)
            for instance in chosen:
                demos.extend(_trial(env, style.of(domain_of(instance)), around, instance, rng))
            if len(demos) == before or any(not answer for _, answer in demos):
                break
        return demos[:most]
    finally:
        env.close()


def tokenizer(demos: Sequence[Demo], specials: Sequence[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE over the demonstrations' texts. Ids of `specials` come first, then the roles'."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    from agentmem.app.models.tiny import fast_tokenizer

    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCABULARY,
        special_tokens=[*specials, *ROLES],
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    texts = [content for messages, answer in demos for content in (*(m[1] for m in messages), answer)]
    backend.train_from_iterator(texts, trainer)
    return fast_tokenizer(backend, TEMPLATE)


def rendered(demos: Sequence[Demo], fast: PreTrainedTokenizerFast) -> list[tuple[str, str]]:
    """Prompt and answer as the text that the tokenizer is given, for demonstrations that have an answer."""
    return [
        (
            fast.apply_chat_template(
                [{"role": role, "content": content} for role, content in messages],
                tokenize=False,
                add_generation_prompt=True,
            ),
            answer + "<eos>",
        )
        for messages, answer in demos
        if answer
    ]


def _trial(
    env: TextEnv, style: PromptStyle, around: Surroundings, instance: str | int, rng: random.Random
) -> Iterator[Demo]:
    """The turns of one trial: episodes until one succeeds, a remark after each that didn't."""
    from envs.base import EpisodeMemory, EpisodeRecord, Step, View

    remembered: tuple[EpisodeMemory, ...] = ()
    observation, info = env.reset(options={"instance": instance})
    instruction = str(info.get("instruction", ""))
    for episode in range(min(around.episodes, MOST_EPISODES)):
        steps: list[Step] = []
        stop = "step_limit"
        for _ in range(min(around.max_turns or MOST_TURNS, MOST_TURNS)):
            view = View(
                observation, tuple(steps), None, episode, around.episodes, remembered, instruction=instruction
            )
            answer = _answer(env, style, rng)
            yield _messages(style.act_prompt(view)), answer
            if not answer:
                return
            parsed = style.parse_action(answer)
            after, reward, ended, cut, info = env.step(parsed.text)
            steps.append(Step(observation, answer, parsed.actions, float(reward)))
            observation = after
            if ended or cut:
                stop = "success" if info.get("success") else "failure"
                break
        if stop == "success":
            return
        record = EpisodeRecord(episode, tuple(steps), observation, False, stop)
        view = View(
            observation, tuple(steps), None, episode, around.episodes, remembered, instruction=instruction
        )
        note = style.parse_reflection(REMARK)
        if not note.invalid:
            yield _messages(style.reflect_prompt(view, record)), REMARK
        remembered += (EpisodeMemory(episode, False, style.summarise(record), note.text or None),)
        observation, info = env.restart()


def _answer(env: TextEnv, style: PromptStyle, rng: random.Random) -> str:
    """A random admissible action in the asked form, or nothing where none is known."""
    actions = env.admissible_actions()
    if not actions:
        return ""
    action = rng.choice(actions)
    for form in (f"<action>{action}</action>", action):
        if not style.parse_action(form, actions).invalid:
            return form
    return ""


def _messages(prompt: Any) -> tuple[tuple[str, str], ...]:
    if isinstance(prompt, str):
        return (("user", prompt),)
    return tuple((m.role, m.content) for m in prompt)
