"""A small memory policy and advised trials for the tests of Mem-π's learner."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from pathlib import Path

from agentmem.chat.decision import DecisionTokens
from agentmem.chat.decision_model import write_memory_model
from agentmem.failures import Failure, FailureKind
from agentmem.sampling import FinishReason, Sampling
from agentmem.trajectory import Episode, Mode, StopReason, Task, Trial, Turn, TurnKind

WORDS = tuple(f"w{i}" for i in range(40))
EOS = 2
FIRST_WORD = 4
"""The id of WORDS[0]."""
TOKENS = DecisionTokens(FIRST_WORD + len(WORDS), FIRST_WORD + len(WORDS) + 1)
PROMPT = (1, 5, 6, 7, 8)
SAMPLING = Sampling(max_tokens=8)


def save_memory_model(
    folder: Path, *, seed: int = 0, tied: bool = False, words: Sequence[str] = WORDS
) -> str:
    """A Llama of about 60,000 parameters with a tokenizer and the decision tokens, on disk."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    from agentmem.app.models.resolve import write
    from agentmem.app.models.tiny import word_tokenizer

    tokenizer = word_tokenizer(words)
    torch.manual_seed(seed)
    model = LlamaForCausalLM(
        LlamaConfig(
            vocab_size=len(tokenizer),
            hidden_size=64,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            head_dim=32,
            intermediate_size=64,
            max_position_embeddings=256,
            tie_word_embeddings=tied,
            initializer_range=0.1,
            pad_token_id=0,
            bos_token_id=1,
            eos_token_id=EOS,
        )
    )
    plain = folder / "plain"
    plain.mkdir(parents=True)
    write(model, tokenizer, plain)
    tokens = write_memory_model(plain, folder / "memory")
    assert tokens == TOKENS or words != WORDS
    return str(folder / "memory")


def advice(
    branch: str,
    hint: Sequence[int] = (9, 10),
    *,
    prompt: tuple[int, ...] = PROMPT,
    policy: str = "memory",
    ended: bool = True,
    logprob: float = -2.0,
    generate: bool | None = None,
) -> Turn:
    """An advice turn. `generate` is the decision of branch `free`."""
    speaks = branch == "generate" if generate is None else generate
    forced = int(branch != "free")
    ids = [TOKENS.generate, *hint, *([EOS] if ended else [])] if speaks else [TOKENS.abstain]
    return Turn(
        kind=TurnKind.ADVISE,
        policy=policy,
        prompt_ids=prompt,
        response_ids=tuple(ids),
        logprobs=tuple([math.nan] * forced + [logprob] * (len(ids) - forced)),
        versions=(0,) * len(ids),
        sampling=SAMPLING,
        forced=forced,
        finish_reason=FinishReason.STOP if ended else FinishReason.LENGTH,
    )


def advised(
    branch: str,
    wins: Sequence[bool] | bool | None,
    turns: Sequence[Turn] | Turn | None = None,
    *,
    member: int = 0,
    group: int = 0,
    score: float | None = None,
) -> Trial:
    """A trial of one episode (or one for each of `wins`); `wins` None: its infrastructure failed."""
    played = [wins] if isinstance(wins, bool) else list(wins or ())
    given = advice(branch) if turns is None else turns
    return Trial(
        ticket=f"g{group}-{member}",
        task=Task(environment="test", instance=group, group=f"g{group}"),
        member=member,
        group_size=9,
        mode=Mode(method="mempi", advice=branch),
        episodes=tuple(
            Episode(
                index=n,
                initial_observation="start",
                turns=(),
                stop=StopReason.SUCCESS if win else StopReason.STEP_LIMIT,
                success=win,
                reward=float(win),
                score=score,
            )
            for n, win in enumerate(played)
        ),
        advice=(given,) if isinstance(given, Turn) else tuple(given),
        failure=Failure(kind=FailureKind.INFRASTRUCTURE, what="lost") if wins is None else None,
    )


def structured(
    abstain: Sequence[bool | None], generate: Sequence[bool | None], *, group: int = 0
) -> list[Trial]:
    """A group: what the runs of the abstention won, and what each hint won. Every hint is another one."""
    trials = [advised("abstain", win, member=m, group=group) for m, win in enumerate(abstain)]
    for j, win in enumerate(generate):
        words = random.Random(j).choices(range(FIRST_WORD, FIRST_WORD + len(WORDS)), k=2 + j % 3)
        turn = advice("generate", words)
        trials.append(advised("generate", win, turn, member=len(trials), group=group))
    return trials
