"""A trial's turns are one sequence of tokens as long as its messages go on from each other."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from actors.rollout.local_env import LocalEnvs
from actors.rollout.policy import EnginePolicy
from actors.rollout.strategies import strategy_of
from actors.rollout.trial import Limits, play_trial
from agentmem.chat import ChatCodec
from agentmem.sampling import FinishReason, Sample, Sampling
from agentmem.trajectory import Trial, Turn, TurnKind
from envs import registry
from envs.base import Message
from learner.batching.merge import merge_rows
from learner.row import Row
from tests.chat.test_continuation import EOS, codec_of
from tests.rollout.worlds import ticket

TURNS = 6
SAMPLING = {TurnKind.ACT: Sampling(max_tokens=12), TurnKind.REFLECT: Sampling(max_tokens=20)}


class Babbler:
    """Samples uniformly from all tokens."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary, self.rng = vocabulary, random.Random(0)
        self.given: list[tuple[tuple[int, ...], tuple[int, ...]]] = []

    async def sample(self, prompt_ids: tuple[int, ...], sampling: Sampling) -> Sample:
        ids: tuple[int, ...] = ()
        while len(ids) < sampling.max_tokens and ids[-1:] != (EOS,):
            # Every other letter an end or a part of `haha`: short answers and long ones, never as encoded.
            ids += (self.rng.choice([EOS, self.vocabulary - 2, *range(self.vocabulary)]),)
        self.given.append((prompt_ids, ids))
        ended = FinishReason.STOP if ids[-1] in sampling.stop_token_ids else FinishReason.LENGTH
        return Sample(
            id="1",
            response_ids=ids,
            logprobs=(-1.0,) * len(ids),
            versions=(0,) * len(ids),
            finish_reason=ended,
        )


async def babbled(codec: ChatCodec, *, history_turns: int = 7) -> tuple[Trial, Babbler]:
    engine = Babbler(codec.vocabulary_size)
    policy = EnginePolicy("agent", engine, codec, SAMPLING, context_length=20_000)
    options = {"size": 6, "boxes": 2, "history_turns": history_turns}
    order = ticket(registry.instances("sokoban", options, "train")[0], episodes=2, env="sokoban")
    env = await LocalEnvs(lambda: registry.make("sokoban", options)).open()
    strategy, limits = strategy_of(order.mode), Limits(max_turns=TURNS)
    trial = await play_trial(order, env, policy.conversation(), strategy, limits)
    assert trial.failure is None
    return trial, engine


def row(turn: Turn) -> Row:
    assert turn.response_ids is not None
    assert turn.logprobs is not None
    assert turn.versions is not None
    return Row(
        prompt=turn.prompt_ids,
        response=turn.response_ids,
        engine=turn.logprobs,
        versions=turn.versions,
        sampling=Sampling(),
        advantage=1.0,
        trial=0,
    )


async def test_an_episode_of_garbage_and_its_reflection_are_one_sequence(tmp_path: Path) -> None:
    codec = codec_of(tmp_path)
    trial, engine = await babbled(codec)
    first, second = trial.episodes
    assert len(first.turns) == len(second.turns) == TURNS
    turns = [*first.turns, *trial.reflections, *second.turns]
    assert [(turn.prompt_ids, turn.response_ids) for turn in turns] == engine.given
    assert {turn.finish_reason for turn in turns} == set(FinishReason)
    encoded_again = [codec.encode(turn.response)[: len(turn.response_ids or ())] for turn in turns]
    assert encoded_again != [turn.response_ids for turn in turns]
    assert len(merge_rows([row(turn) for turn in first.turns])) == 1
    assert [sequence.rows for sequence in merge_rows([row(turn) for turn in turns])] == [
        tuple(range(TURNS + 1)),
        tuple(range(TURNS + 1, 2 * TURNS + 1)),
    ]


async def test_when_older_turns_fall_out_of_the_history_the_prompt_is_rendered_afresh(tmp_path: Path) -> None:
    trial, _ = await babbled(codec_of(tmp_path), history_turns=3)
    sequences = merge_rows([row(turn) for turn in trial.episodes[0].turns])
    # The first prompt shows no turn, the fourth three; from then on each shows others.
    assert [sequence.rows for sequence in sequences] == [(0, 1, 2, 3), (4,), (5,)]


async def test_two_trials_of_one_policy_do_not_hear_each_other(tmp_path: Path) -> None:
    codec = codec_of(tmp_path)
    engine = Babbler(codec.vocabulary_size)
    policy = EnginePolicy("agent", engine, codec, SAMPLING, context_length=20_000)
    one, other = policy.conversation(), policy.conversation()
    assert one.name == other.name == policy.name
    prompt = (Message("user", "now"),)
    reply = await one.respond(prompt, TurnKind.ACT)
    assert reply is not None
    longer = (*prompt, Message("assistant", reply.text), Message("user", "and now"))
    heard = await one.respond(longer, TurnKind.ACT)
    afresh = await other.respond(longer, TurnKind.ACT)
    assert heard is not None
    assert afresh is not None
    assert heard.prompt_ids[: len(reply.prompt_ids) + len(reply.response_ids or ())] == (
        *reply.prompt_ids,
        *(reply.response_ids or ()),
    )
    assert afresh.prompt_ids == codec.encode(longer)


@pytest.mark.parametrize("prompt", ["haha", "ha ha"])
async def test_raw_prompts_are_encoded_as_they_are(tmp_path: Path, prompt: str) -> None:
    codec = codec_of(tmp_path)
    policy = EnginePolicy(
        "agent", Babbler(codec.vocabulary_size), codec, SAMPLING, context_length=20_000
    ).conversation()
    for _ in range(2):
        reply = await policy.respond(prompt, TurnKind.ACT)
        assert reply is not None
        assert reply.prompt_ids == codec.encode(prompt)
