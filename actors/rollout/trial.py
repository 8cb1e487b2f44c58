"""The trial loop: one ticket, one environment, one policy, up to N episodes.

    reset ─▶ [advice] ─▶ episode 0 ─▶ [reflection 0] ─▶ restart ─▶ episode 1 ─▶ … until success or N episodes

Promises:
- With an advisor, it is asked about the first observation before the first episode (or before each); its
  hint stands in every prompt of the episodes that it is for. Without a hint these are byte for byte those
  of a trial without an advisor. What was asked once and saved isn't asked again.
- A success ends the trial. Every other episode is followed by a reflection (where the memory reads them)
  and by the identical initial state again; the next episode's prompts carry the inter-episode memory.
- What the model does never raises: an unreadable action is sent as an empty one and is an invalid turn;
  limits of turns, tokens and context are stop reasons. The context is checked before a call, never by its
  failure.
- Memory gives way to the situation: where a prompt doesn't fit, the tip with the lowest score is left out,
  then the next, then the oldest earlier episode, …, then the hint, and each is counted in the turn. Only a
  prompt that doesn't fit without any memory ends the episode.
- A failure of environment or engine ends the attempt: `trial.failure` says which, and the episode in course
  is kept with reward None (so the trial is nobody's peer). Episodes finished before went to `progress`.
- `play_trial(saved=…)` continues behind the saved episodes; it may run in another process than before. A
  reflection that was not saved is asked for again.
- Trained ids are the sampled ids: a reply's ids go into the turn untouched.
- After an episode whose first prompt didn't fit, or with the trial's tokens spent, no further one begins.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from actors.rollout.protocols import Advisor, Environment, Policy, Reply, Situation, Tips
from actors.rollout.strategies import Strategy
from agentmem.failures import Failure
from agentmem.memory.advisor import hint_of
from agentmem.trajectory import Episode, StopReason, Ticket, Trial, Turn, TurnKind
from envs.base import EpisodeRecord, Step, View

_ACT, _REFLECT = TurnKind.ACT, TurnKind.REFLECT


@dataclass(frozen=True, slots=True)
class Limits:
    """Where an episode stops without the environment's word."""

    max_turns: int
    tokens: int | None = None
    """Tokens that the trial's policy sampled, reflections included; an advisor's aren't."""


Progress = Callable[[Trial], None]
"""Gets the trial so far after each finished episode that isn't its last. Must not block."""


async def play_trial(
    ticket: Ticket,
    env: Environment,
    policy: Policy,
    strategy: Strategy,
    limits: Limits,
    *,
    saved: Trial | None = None,
    progress: Progress | None = None,
    tips: Tips | None = None,
    advisor: Advisor | None = None,
) -> Trial:
    """Play a ticket to its end. The trial is complete if it has no failure. Only cancellation is raised.

    With `tips`, one is written on each episode, whether or not the strategy shows any.
    """
    play = _Play(ticket, env, policy, strategy, limits, saved, tips, advisor)
    try:
        await play.run(progress)
    except Exception as error:
        play.fail(error)
    return play.trial()


class _Play:
    """The state of one trial while it is played."""

    __slots__ = (
        "_advice",
        "_advisor",
        "_began",
        "_env",
        "_episodes",
        "_failure",
        "_instruction",
        "_limits",
        "_observation",
        "_policy",
        "_recalled",
        "_reflections",
        "_remarks",
        "_sampled",
        "_saved_wall_s",
        "_strategy",
        "_style",
        "_ticket",
        "_tips",
        "_turns",
    )

    def __init__(
        self,
        ticket: Ticket,
        env: Environment,
        policy: Policy,
        strategy: Strategy,
        limits: Limits,
        saved: Trial | None,
        tips: Tips | None,
        advisor: Advisor | None,
    ) -> None:
        self._ticket, self._env, self._policy = ticket, env, policy
        self._style = env.style.of(ticket.task.domain)
        self._strategy, self._limits, self._tips = strategy, limits, tips
        self._advisor = advisor
        self._advice: list[Turn] = list(saved.advice) if saved else []
        self._began = time.monotonic()
        self._failure: Failure | None = None
        self._episodes: list[Episode] = list(saved.episodes) if saved else []
        self._reflections: list[Turn] = list(saved.reflections) if saved else []
        self._saved_wall_s = saved.wall_s if saved else 0.0
        self._remarks = [self._style.parse_reflection(turn.response).text for turn in self._reflections]
        counts = saved.token_counts() if saved else {}
        self._sampled = sum(count for kind, count in counts.items() if kind != TurnKind.ADVISE)
        self._turns: list[Turn] = []
        self._observation = ""
        self._recalled: tuple[str, ...] = ()
        """The tips in the latest act prompt."""
        self._instruction = saved.instruction if saved else ""

    async def run(self, progress: Progress | None) -> None:
        if self._over():
            return
        reflects = self._strategy.memory.needs_reflection
        situation = await self._env.reset(self._ticket.task.instance)
        self._instruction = situation.instruction
        at_start = True
        while True:
            if reflects and len(self._reflections) < len(self._episodes):
                await self._reflect(situation.instruction)
            if not at_start:
                situation = await self._env.restart()
            await self._take_advice(situation)
            await self._episode(situation)
            at_start = False
            if self._over():
                return
            if progress is not None:
                progress(self.trial())

    def trial(self) -> Trial:
        """The trial so far."""
        ticket = self._ticket
        return Trial(
            ticket=ticket.id,
            task=ticket.task,
            member=ticket.member,
            group_size=ticket.group_size,
            mode=ticket.mode,
            episodes=tuple(self._episodes),
            instruction=self._instruction,
            reflections=tuple(self._reflections),
            advice=tuple(self._advice),
            wall_s=self._saved_wall_s + time.monotonic() - self._began,
            failure=self._failure,
            attempt=ticket.attempt,
        )

    def fail(self, error: Exception) -> None:
        """Keep the episode in course, without reward."""
        task = self._ticket.task
        self._failure = Failure.of(error, where=f"{task.environment} {task.instance}")
        if not self._over():
            failed = Episode(
                index=len(self._episodes),
                initial_observation=self._observation,
                turns=tuple(self._turns),
                stop=StopReason.ENV_FAILURE,
            )
            self._episodes.append(failed)

    def _over(self) -> bool:
        if not self._episodes:
            return False
        last = self._episodes[-1]
        return (
            last.success
            or len(self._episodes) >= self._strategy.episodes
            or last.stop is StopReason.TOKEN_LIMIT
            or (last.stop is StopReason.CONTEXT_EXHAUSTED and not last.turns)
            or self._tokens_spent()
        )

    def _tokens_spent(self) -> bool:
        return self._limits.tokens is not None and self._sampled >= self._limits.tokens

    async def _episode(self, situation: Situation) -> None:
        env, policy, style = self._env, self._policy, self._style
        index, limit, max_turns = len(self._episodes), self._limits.tokens, self._limits.max_turns
        episodes, instruction = self._strategy.episodes, situation.instruction
        domain = self._ticket.task.domain
        memory, hint = self._strategy.memory.recall(self._episodes, self._remarks), self._hint(index)
        observation, admissible = situation.observation, situation.admissible
        self._observation, self._recalled = observation, ()
        book = self._tips if self._strategy.recalls_tips else None
        if book is not None:
            await book.open()
        turns = self._turns = []
        steps: tuple[Step, ...] = ()
        reward, score = 0.0, None
        while True:
            if len(turns) >= max_turns:
                stop = StopReason.STEP_LIMIT
                break
            if limit is not None and self._sampled >= limit:
                stop = StopReason.TOKEN_LIMIT
                break
            view = View(
                observation, steps, admissible, index, episodes, memory, (), hint, instruction, domain
            )
            snapshot = ""
            if book is not None:
                found, snapshot = await book.recall(view)
                view = replace(view, tips=found)
            reply, dropped = await self._ask(view)
            if reply is None:
                stop = StopReason.CONTEXT_EXHAUSTED
                break
            if reply.response_ids is not None:
                self._sampled += len(reply.response_ids)
            parsed = style.parse_action(reply.text, admissible)
            outcome = await env.step(parsed.text)
            invalid = parsed.invalid or outcome.invalid
            turns.append(
                Turn(
                    kind=_ACT,
                    policy=policy.name,
                    prompt_ids=reply.prompt_ids,
                    student_prompt_ids=reply.student_prompt_ids,
                    response_ids=reply.response_ids,
                    logprobs=reply.logprobs,
                    versions=reply.versions,
                    sampling=reply.sampling,
                    forced=reply.forced,
                    finish_reason=reply.finish_reason,
                    memory_snapshot=snapshot,
                    memory_dropped=dropped,
                    observation=observation,
                    response=reply.text,
                    actions=parsed.actions,
                    reward=outcome.reward,
                    invalid=invalid,
                    admissible=admissible,
                )
            )
            steps = (*steps, Step(observation, reply.text, parsed.actions, outcome.reward, invalid))
            reward += outcome.reward
            score = outcome.score if outcome.score is not None else score
            observation, admissible = outcome.observation, outcome.admissible
            if outcome.success:
                stop = StopReason.SUCCESS
                break
            if outcome.over:
                stop = StopReason.FAILURE
                break
            if outcome.truncated:
                stop = StopReason.STEP_LIMIT
                break
        success = stop is StopReason.SUCCESS
        summary = ""
        if self._strategy.memory.needs_summary and not success and index + 1 < episodes:
            summary = await env.summarise(EpisodeRecord(index, steps, observation, success, stop.value))
        self._episodes.append(
            Episode(
                index=index,
                initial_observation=situation.observation,
                turns=tuple(turns),
                stop=stop,
                success=success,
                reward=reward,
                score=score,
                summary=summary,
                final_observation=observation,
            )
        )
        self._turns = []
        if self._tips is not None:
            self._tips.finished(self._episodes[-1], self._looking_back(instruction))

    async def _ask(self, view: View) -> tuple[Reply | None, int]:
        """The reply to a view, and how many pieces of memory had to be left out of its prompt."""
        style, policy, dropped = self._style, self._policy, 0
        student = None
        while True:
            if self._strategy.student_prompts:
                student = style.act_prompt(replace(view, tips=()))
            reply = await policy.respond(style.act_prompt(view), _ACT, student, view)
            if reply is not None or not (view.tips or view.memory or view.hint):
                self._recalled = view.tips
                return reply, dropped
            if view.tips:  # best first
                view = replace(view, tips=view.tips[:-1])
            elif view.memory:  # oldest first
                view = replace(view, memory=view.memory[1:])
            else:
                view = replace(view, hint=None)
            dropped += 1

    async def _take_advice(self, situation: Situation) -> None:
        """Ask for what hasn't been asked yet: before the first episode, or before the next."""
        if self._advisor is None:
            return
        wanted = len(self._episodes) + 1 if self._advisor.every_episode else 1
        if len(self._advice) < wanted:
            self._advice.append(await self._advisor.advise(situation))

    def _hint(self, episode: int) -> str | None:
        """For the prompts of an episode: of the advice before it, or of the only one."""
        return hint_of(self._advice[min(episode, len(self._advice) - 1)]) if self._advice else None

    def _looking_back(self, instruction: str) -> View:
        """The last episode as it ended, with the tips that its last turn saw: the conversation goes on."""
        episode = self._episodes[-1]
        return View(
            observation=episode.final_observation,
            history=record_of(episode).steps,
            episode=episode.index,
            episodes=self._strategy.episodes,
            memory=self._strategy.memory.recall(self._episodes[:-1], self._remarks),
            tips=self._recalled,
            hint=self._hint(episode.index),
            instruction=instruction,
            domain=self._ticket.task.domain,
        )

    async def _reflect(self, instruction: str) -> None:
        """The turn between the last finished episode and the next."""
        style, episode = self._style, self._episodes[-1]
        record, view = record_of(episode), self._looking_back(instruction)
        # A reflection that doesn't fit stays as an empty, invalid turn: later ones keep their places.
        reply = await self._policy.respond(style.reflect_prompt(view, record), _REFLECT)
        reply = reply or Reply(text="", response_ids=(), logprobs=(), versions=())
        parsed = style.parse_reflection(reply.text)
        self._sampled += len(reply.response_ids or ())
        self._remarks.append(parsed.text)
        self._reflections.append(
            Turn(
                kind=_REFLECT,
                policy=self._policy.name,
                prompt_ids=reply.prompt_ids,
                response_ids=reply.response_ids,
                logprobs=reply.logprobs,
                versions=reply.versions,
                sampling=reply.sampling,
                forced=reply.forced,
                finish_reason=reply.finish_reason,
                observation=episode.final_observation,
                response=reply.text,
                invalid=parsed.invalid,
            )
        )


def record_of(episode: Episode) -> EpisodeRecord:
    """A finished episode as its readers see it."""
    return EpisodeRecord(
        index=episode.index,
        steps=tuple(
            Step(turn.observation, turn.response, turn.actions, turn.reward or 0.0, turn.invalid)
            for turn in episode.turns
        ),
        final_observation=episode.final_observation,
        success=episode.success,
        stop=episode.stop.value,
    )
