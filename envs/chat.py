"""A prompt style in chat messages, shared by environments that language models play.

    system      the rules and the form of the answer
    user        [attempt m of n] [earlier attempts] [hint] [tips] situation
    assistant   the answer, as it was given
    user        [what came of it] situation
    ...

Each turn's prompt is the previous turn's prompt, its answer and one more user message, and so is the prompt
that asks for a reflection or a tip: the learner can train an episode as one sequence, and an engine reads
what is new alone. That holds while the episode is no longer than `history_turns`, nothing is shown for the
present turn alone (admissible actions), and the tips stay the same: they stand before the history, since
neighbouring situations mostly recall the same ones.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence

from envs.base import EpisodeMemory, EpisodeRecord, Message, ParsedReflection, PromptStyle, Step, View

THINK_FIRST = "Think first as long as you need"
"""How every style's rules allow free thought, where they do; it is followed by `, then …`."""
_ENDINGS = {
    "success": "The attempt is over: you reached the goal.",
    "failure": "The attempt is over: you lost.",
    "step_limit": "The attempt is over: you ran out of turns without reaching the goal.",
}
_OTHER_ENDING = "The attempt was cut short before you reached the goal."
_ASK_REFLECTION = (
    "You will start again from the very same situation. Look back on this attempt: what did you learn about "
    "the situation, which choice went wrong, and what will you do instead? Be specific and short. "
    "Write what your next attempt should know between <remark> and </remark>."
)
_ASK_TIP = (
    "Write one tip for others who meet situations like these: a single sentence of fewer than 100 words that "
    "says what you learnt and how far from the goal you ended. Write the sentence only."
)


def tagged(response: str, tag: str) -> str | None:
    """The text of the last `<tag>…</tag>` outside the model's thought (`…</think>`), or None."""
    found = re.findall(rf"<{tag}>(.*?)</{tag}>", response.rpartition("</think>")[2], re.DOTALL)
    return found[-1].strip() if found else None


class ChatStyle(PromptStyle):
    """What the environments' chat styles have in common. A subclass says how its own situation reads."""

    @property
    @abstractmethod
    def history_turns(self) -> int:
        """Turns of the running attempt that a prompt shows."""

    @abstractmethod
    def rules(self, view: View) -> str:
        """The system message: the game, its signs, and the form of an answer."""

    @abstractmethod
    def situation(self, observation: str) -> str:
        """How an observation reads in a user message."""

    def outcome(self, step: Step) -> str:
        """What a turn led to, where the next observation doesn't tell. Empty: nothing to say."""
        return "Your last answer was not a possible action; nothing happened." if step.invalid else ""

    def act_prompt(self, view: View) -> tuple[Message, ...]:
        """See the module's docstring."""
        steps = view.history[-self.history_turns :] if self.history_turns else ()
        cut = len(view.history) > len(steps)
        before = view.history[-len(steps) - 1] if cut else None
        messages, last = self._conversation(view, steps, before)
        present = [*last, *self._present(view), self.situation(view.observation)]
        return (*messages, Message("user", "\n\n".join(present)))

    def reflect_prompt(self, view: View, episode: EpisodeRecord) -> tuple[Message, ...]:
        """The attempt as its last act prompt showed it, its last answer, its end, and the question."""
        return self._looking_back(view, episode, _ASK_REFLECTION)

    def tip_prompt(self, view: View, episode: EpisodeRecord) -> tuple[Message, ...]:
        """The same with another question."""
        return self._looking_back(view, episode, _ASK_TIP)

    def parse_tip(self, response: str) -> ParsedReflection:
        """The answer's first paragraph behind the model's thought, in one line, cut to `max_tip_chars`."""
        said = response.rpartition("</think>")[2].strip().partition("\n\n")[0]
        text = " ".join(said.split())[: self.max_tip_chars]
        return ParsedReflection(text, invalid=not text)

    def _looking_back(self, view: View, episode: EpisodeRecord, question: str) -> tuple[Message, ...]:
        steps = episode.steps[-self.history_turns - 1 :]
        before = episode.steps[-len(steps) - 1] if len(episode.steps) > len(steps) else None
        messages, last = self._conversation(view, steps, before)
        ending = _ENDINGS.get(episode.stop, _OTHER_ENDING)
        last += [self.situation(episode.final_observation), ending, question]
        return (*messages, Message("user", "\n\n".join(last)))

    def parse_reflection(self, response: str) -> ParsedReflection:
        """The text of the last `<remark>`, cut to `max_reflection_chars`; empty and invalid without one."""
        text = tagged(response, "remark")
        if text is None:
            return ParsedReflection("", invalid=True)
        return ParsedReflection(text[: self.max_reflection_chars])

    def _conversation(
        self, view: View, steps: Sequence[Step], before: Step | None
    ) -> tuple[list[Message], list[str]]:
        """The messages up to the last of these turns' answers, and how the next user message begins."""
        messages = [Message("system", self.rules(view))]
        start = self._start(view)
        if before is not None:
            start.append("(Earlier turns of this attempt are left out.)")
            start += filter(None, [self.outcome(before)])
        for step in steps:
            messages.append(Message("user", "\n\n".join([*start, self.situation(step.observation)])))
            messages.append(Message("assistant", step.response))
            start = list(filter(None, [self.outcome(step)]))
        return messages, start

    def _start(self, view: View) -> list[str]:
        parts = []
        if view.instruction:
            parts.append(view.instruction)
        if view.episodes > 1:
            parts.append(f"This is attempt {view.episode + 1} of {view.episodes} at the same situation.")
        if view.memory:
            parts.append("Your earlier attempts at it:")
            parts += [_remembered(episode) for episode in view.memory]
        if view.hint:
            parts.append(f"Hint: {view.hint}")
        if view.tips:
            parts.append("Lessons from situations like this:\n" + "\n".join(f"- {tip}" for tip in view.tips))
        return parts

    def _present(self, view: View) -> list[str]:
        if view.admissible is None:
            return []
        return ["Possible actions now: " + ", ".join(view.admissible)]


def _remembered(episode: EpisodeMemory) -> str:
    lines = [f"Attempt {episode.index + 1} ({'reached the goal' if episode.success else 'failed'})"]
    if episode.summary:
        lines.append(episode.summary)
    if episode.reflection:
        lines.append(f"Your remark: {episode.reflection}")
    return "\n".join(lines)
