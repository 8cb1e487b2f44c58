"""Small models and trials for the learner's tests."""

from __future__ import annotations

import random
from pathlib import Path

import torch

from agentmem.sampling import Sampling
from agentmem.trajectory import Episode, Mode, StopReason, Task, Trial, Turn, TurnKind

VOCABULARY = 64


def save_model(folder: Path, *, seed: int = 0, tied: bool = False) -> str:
    """A Llama of about 30,000 parameters with random weights, on disk."""
    from transformers import AutoModelForCausalLM, LlamaConfig

    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        intermediate_size=64,
        max_position_embeddings=256,
        tie_word_embeddings=tied,
        initializer_range=0.2,
    )
    AutoModelForCausalLM.from_config(config, dtype=torch.float32).save_pretrained(folder)
    (folder / "tokenizer.json").write_text('{"version": "test"}')
    return str(folder)


def turn(
    rng: random.Random,
    *,
    prompt: tuple[int, ...] | None = None,
    response: int = 2,
    reward: float | None = 0.0,
    kind: TurnKind = TurnKind.ACT,
    sampling: Sampling | None = None,
    invalid: bool = False,
    version: int = 0,
    policy: str = "agent",
    logprob: float = -4.0,
) -> Turn:
    """A turn of random ids."""
    ids = tuple(rng.randrange(1, VOCABULARY) for _ in range(response))
    return Turn(
        kind=kind,
        policy=policy,
        prompt_ids=prompt or tuple(rng.randrange(1, VOCABULARY) for _ in range(rng.randint(3, 9))),
        response_ids=ids,
        logprobs=tuple(logprob for _ in ids),
        versions=tuple(version for _ in ids),
        sampling=sampling or Sampling(max_tokens=response),
        observation=f"board {rng.randrange(4)}",
        reward=reward,
        invalid=invalid,
    )


def trial(rng: random.Random, member: int, group: int, *, episodes: int = 2, turns: int = 3) -> Trial:
    """A trial that may succeed in its last episode; every turn's prompt extends the one before."""
    played = []
    won = rng.random() < 0.5
    for n in range(episodes):
        prompt = tuple(rng.randrange(1, VOCABULARY) for _ in range(4))
        success = won and n == episodes - 1
        steps = []
        for t in range(turns):
            last = t == turns - 1
            one = turn(
                rng, prompt=prompt, reward=1.0 if success and last else 0.0, invalid=rng.random() < 0.2
            )
            steps.append(one)
            prompt = prompt + (one.response_ids or ()) + (rng.randrange(1, VOCABULARY),)
        played.append(
            Episode(
                index=n,
                initial_observation="start",
                turns=tuple(steps),
                stop=StopReason.SUCCESS if success else StopReason.STEP_LIMIT,
                success=success,
                reward=1.0 if success else 0.0,
            )
        )
    reflections = tuple(
        turn(rng, kind=TurnKind.REFLECT, response=3, reward=None) for _ in range(episodes - 1)
    )
    return Trial(
        ticket=f"g{group}-{member}",
        task=Task(environment="test", instance=group, group=f"g{group}"),
        member=member,
        group_size=4,
        mode=Mode(episodes=episodes, memory="reflection"),
        episodes=tuple(played),
        reflections=reflections,
    )


def groups(seed: int, *, tasks: int = 3, members: int = 4, episodes: int = 2) -> list[list[Trial]]:
    """Groups of random trials."""
    rng = random.Random(seed)
    return [[trial(rng, m, g, episodes=episodes) for m in range(members)] for g in range(tasks)]
