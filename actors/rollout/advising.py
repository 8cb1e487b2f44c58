"""The memory policy at work: from a task and a first observation to an advice turn. Plain asyncio.

An answer is `[GENERATE] hint <eos>` or `[ABSTAIN]`, in one or two requests to the engines:

    branch     decision                                                hint
    free       asked: one token, among the two; in training it is      sampled behind the decision
               the sampled one, else the threshold decides
    generate   forced: its token is part of the prompt                 sampled behind the decision
    abstain    forced; the choice is asked all the same, since that    –
               tells the version and p(generate)

Promises:
- Every request is answered, within `timeout_s`: what takes longer is a late turn (it abstains), and counted.
- A forced token has no log-probability (NaN); all others are the engine's, bit for bit. A decision that the
  threshold made has the log-probability of that decision in the choice between the two.
- A prompt that is too long keeps its head and its tail, and a picture whole.
- A picture that the model can't take, or any if it reads text alone, is a PictureError: it is never left out.
- A hint that ran into the token limit is given to the agent up to its last full sentence; its ids are whole.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping

import msgspec
from msgspec.structs import replace

from actors.rollout.policy import Codec, Sampler, with_stops
from agentmem.chat.cut import keep_ends
from agentmem.chat.decision import Decision, DecisionTokens
from agentmem.failures import Failure, InfrastructureError
from agentmem.memory.advice_health import BINS, bin_of
from agentmem.memory.advisor import advice_of, decide, gap_of, kept_hint, late_turn
from agentmem.sampling import FinishReason, Sample, Sampling
from agentmem.trajectory import Split, Turn, TurnKind
from agentmem.vision.picture import Picture, PictureError
from agentmem.vision.prompting import picture_prompt
from agentmem.vision.reader import PictureReader
from envs.base import Prompt, PromptStyle

log = logging.getLogger(__name__)


class AdviceRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One question. `split` says whose sampling parameters count, and how a free decision is made."""

    id: str
    task: str
    observation: str
    branch: str = "free"
    split: Split = Split.EVAL
    domain: str = ""
    """Which environment of a mixture it is about: that one's style asks."""
    threshold: float | None = None
    """τ of this question alone; None, here and below: what was set at the start."""
    max_tokens: int | None = None
    """Of its hint; no more than what was set."""
    timeout_s: float | None = None
    image: Picture | None = None
    """What is seen besides the observation's text."""


class Advised(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: a turn, and the difference of the decision's logits if the choice was asked."""

    id: str
    turn: Turn
    gap: float | None = None


class Refusal(msgspec.Struct, frozen=True, kw_only=True):
    """A question that can't be answered (a bug, an impossible branch)."""

    id: str
    failure: Failure


class AdviceReplies(msgspec.Struct, frozen=True, array_like=True):
    """What has finished since the last time."""

    samples: list[Advised]
    failures: list[Refusal]


class AdvisingStats(msgspec.Struct, frozen=True, kw_only=True):
    """Counters since the start, and gauges."""

    name: str
    requests: int = 0
    generated: int = 0
    abstained: int = 0
    """By the policy or by the group's structure; late ones aren't among them."""
    late: int = 0
    refused: int = 0
    cut: int = 0
    """Hints that ran into the token limit."""
    prompt_cut: int = 0
    """Prompts of which only head and tail were kept."""
    hint_tokens: int = 0
    sampled_tokens: int = 0
    wait_s: float = 0.0
    """Seconds of all answered requests together."""
    would_generate: int = 0
    """Asked choices by what the policy itself would do, whatever the group's structure wanted ..."""
    would_abstain: int = 0
    """... which is what tells whether it still decides."""
    p_generate: list[int] = msgspec.field(default_factory=lambda: [0] * BINS)
    """Asked choices by the probability of [GENERATE]."""
    version: int = -1
    """Newest that an answer came from; -1: none yet."""
    in_flight: int = 0
    cpu_s: float = 0.0


class Advising:
    """See the module's docstring. `hints`: sampling parameters of hints, by split. `reader`: of a model that
    sees."""

    def __init__(
        self,
        name: str,
        sampler: Sampler,
        codec: Codec,
        tokens: DecisionTokens,
        style: PromptStyle,
        hints: Mapping[Split, Sampling],
        *,
        policy: str = "memory",
        context_length: int,
        threshold: float = 0.0,
        timeout_s: float = 30.0,
        reader: PictureReader | None = None,
    ) -> None:
        self.name, self.policy = name, policy
        self._reader = reader
        self._sampler, self._codec, self._tokens, self._style = sampler, codec, tokens, style
        self._stops = frozenset(codec.stop_token_ids)
        self._hints = {split: with_stops(s, codec.stop_token_ids) for split, s in hints.items()}
        self._choices = {
            split: Sampling(
                temperature=s.temperature, max_tokens=1, allowed_ids=(tokens.generate, tokens.abstain)
            )
            for split, s in hints.items()
        }
        # Room for the decision and the hint.
        self._longest = context_length - 1 - max(s.max_tokens for s in hints.values())
        self._threshold, self._timeout_s = threshold, timeout_s
        self._stats = AdvisingStats(name=name)
        self._in_flight = 0

    def stats(self) -> AdvisingStats:
        """As they stand."""
        return replace(self._stats, in_flight=self._in_flight, cpu_s=time.process_time())

    async def advise(self, request: AdviceRequest) -> Advised:
        """The answer to one question. Raises what no waiting mends (ModelError, a bug)."""
        began = time.monotonic()
        self._in_flight += 1
        limit_s = self._timeout_s if request.timeout_s is None else request.timeout_s
        try:
            turn, gap = await asyncio.wait_for(self._answer(request), limit_s)
        except (TimeoutError, InfrastructureError) as error:
            log.warning("advice is late: %s: %s", type(error).__name__, error)
            turn, gap = late_turn(request.observation), None
        except Exception:
            self._count(refused=1)
            raise
        finally:
            self._in_flight -= 1
        self._note(turn, gap, self._threshold_of(request), time.monotonic() - began)
        return Advised(id=request.id, turn=turn, gap=gap)

    async def _answer(self, request: AdviceRequest) -> tuple[Turn, float | None]:
        style = self._style.of(request.domain)
        asked_in = style.advise_prompt(request.task, request.observation)
        prompt, tokens, split = self._prompt(request, asked_in), self._tokens, request.split
        decision, logprob, gap, forced = Decision.GENERATE, math.nan, None, 1
        choice = self._choices[split]
        versions: tuple[int, ...] = ()
        if request.branch != Decision.GENERATE:
            asked = await self._sampled(prompt, choice, request.image)
            versions = asked.versions
            drawn, _ = tokens.split(asked.response_ids)
            logprob = asked.logprobs[0]
            gap = gap_of(logprob, drawn, choice.temperature)
            decision, forced = drawn, 0
            if request.branch == Decision.ABSTAIN:
                decision, logprob, forced = Decision.ABSTAIN, math.nan, 1
            elif split is Split.EVAL:
                decision = decide(gap, self._threshold_of(request))
                if decision is not drawn:
                    logprob = _other(logprob)
        if decision is Decision.ABSTAIN:
            turn = self._turn(
                request, prompt, decision, (tokens.abstain,), (logprob,), versions, choice, forced, gap=gap
            )
            return turn, gap
        sampling = self._hints[split]
        if request.max_tokens is not None:  # a longer one has no room: prompts are cut for the longest
            sampling = replace(sampling, max_tokens=min(request.max_tokens, sampling.max_tokens))
        hint = await self._sampled((*prompt, tokens.generate), sampling, request.image)
        said = hint.response_ids
        text = self._codec.decode(said[:-1] if said and said[-1] in self._stops else said)
        turn = self._turn(
            request,
            prompt,
            decision,
            (tokens.generate, *said),
            (logprob, *hint.logprobs),
            ((versions or hint.versions)[0], *hint.versions),
            sampling,
            forced,
            gap=gap,
            finish=hint.finish_reason,
            # Formats of raw text are made of words for small models.
            text=kept_hint(text, hint.finish_reason, sentences=not isinstance(asked_in, str)),
        )
        return turn, gap

    def _prompt(self, request: AdviceRequest, prompt: Prompt) -> tuple[int, ...]:
        if self._reader is None:
            if request.image is not None:
                raise PictureError(
                    f"policy {self.policy!r} reads text alone, and was asked with a picture: take a model "
                    "that sees, or give the observation in words"
                )
            ids = self._codec.encode(prompt)
            kept, cut = keep_ends(ids, self._longest), len(ids) > self._longest
        else:
            told = prompt if isinstance(prompt, str) else [(each.role, each.content) for each in prompt]
            kept, cut = picture_prompt(self._codec, told, request.image, self._reader, self._longest)
        if cut:
            self._count(prompt_cut=1)
        return kept

    async def _sampled(self, prompt: tuple[int, ...], sampling: Sampling, image: Picture | None) -> Sample:
        if image is None:
            return await self._sampler.sample(prompt, sampling)
        return await self._sampler.sample(prompt, sampling, image)

    def _turn(
        self,
        request: AdviceRequest,
        prompt: tuple[int, ...],
        decision: Decision,
        ids: tuple[int, ...],
        logprobs: tuple[float, ...],
        versions: tuple[int, ...],
        sampling: Sampling,
        forced: int,
        *,
        gap: float | None,
        finish: FinishReason = FinishReason.STOP,
        text: str = "",
    ) -> Turn:
        return Turn(
            kind=TurnKind.ADVISE,
            policy=self.policy,
            prompt_ids=prompt,
            response_ids=ids,
            logprobs=logprobs,
            versions=versions,
            sampling=sampling,
            forced=forced,
            finish_reason=finish,
            observation=request.observation,
            response=text,
            actions=(decision.value,),
            gap=gap,
            image=request.image,
        )

    def _threshold_of(self, request: AdviceRequest) -> float:
        return self._threshold if request.threshold is None else request.threshold

    def _note(self, turn: Turn, gap: float | None, threshold: float, seconds: float) -> None:
        advice = advice_of(turn, seconds, gap)
        if advice.late:
            self._count(requests=1, late=1)
            return
        speaks = advice.decision is Decision.GENERATE
        would = None if gap is None else decide(gap, threshold)
        self._count(
            requests=1,
            generated=int(speaks),
            abstained=int(not speaks),
            cut=int(turn.finish_reason is FinishReason.LENGTH),
            hint_tokens=advice.tokens,
            sampled_tokens=len(turn.response_ids or ()) - turn.forced,
            would_generate=int(would is Decision.GENERATE),
            would_abstain=int(would is Decision.ABSTAIN),
        )
        histogram = list(self._stats.p_generate)
        if advice.p_generate is not None:
            histogram[bin_of(advice.p_generate)] += 1
        self._stats = replace(
            self._stats,
            wait_s=self._stats.wait_s + seconds,
            p_generate=histogram,
            version=max(self._stats.version, advice.version or 0),
        )

    def _count(self, **more: int) -> None:
        self._stats = replace(
            self._stats, **{name: getattr(self._stats, name) + count for name, count in more.items()}
        )


def _other(logprob: float) -> float:
    """The log-prob of the decision that wasn't drawn."""
    return math.log(-math.expm1(logprob)) if logprob < 0 else -math.inf
