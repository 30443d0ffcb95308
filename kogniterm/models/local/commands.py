"""From one part of a request to one command: examples as turns of a chat, the reply looked over.

What speaks against a reply (doubts.py) makes for another try with the next-best examples; of
both the better one is taken. One that would do harm unasked is never proposed.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass

from kogniterm import prompts
from kogniterm.errors import ModelReplyError
from kogniterm.models.local.bank import Bank, Example, examples
from kogniterm.models.local.doubts import HARM, doubts, mended
from kogniterm.models.local.runtime import Chat, Prompt, chat_text
from kogniterm.models.local.steps import TurnSoFar
from kogniterm.text.language import LANGUAGES, Language, language_of
from kogniterm.types import Usage

EXAMPLES = 5
MAX_COMMAND_TOKENS = 160
CANDIDATES = 2
"""Commands written for one proposal: another one only when something speaks against the first."""
_ONE_LINE = "root ::= [^ \\t\\r\\n`#] [^\\r\\n]*"
_ERROR_LINES = 3
_REPEATED = "repeated what failed"


@dataclass(frozen=True, slots=True)
class Completion:
    """A finished completion."""

    text: str
    usage: Usage
    cut: bool


@dataclass(frozen=True, slots=True)
class Proposal:
    """The best command found, what still speaks against it, and what finding it took."""

    command: str
    doubts: tuple[str, ...]
    usage: Usage

    @property
    def harmful(self) -> bool:
        """Whether it deletes or ends something nobody asked to lose."""
        return HARM in self.doubts

    @property
    def repeated(self) -> bool:
        """Whether nothing better was found than the command that just failed."""
        return _REPEATED in self.doubts

    @property
    def weight(self) -> tuple[bool, bool, int]:
        """The better of two proposals weighs less."""
        return self.harmful, self.repeated, len(self.doubts)


class CommandWriter:
    """Writes commands with the completions of `write` and the examples of the bank.

    `extra` gives a person's own examples as they are now: what was learnt a moment ago counts.
    """

    def __init__(
        self,
        write: Callable[[Prompt], Awaitable[Completion]],
        extra: Callable[[], Sequence[Example]],
    ) -> None:
        self._write = write
        self._extra = extra
        self._built: Sequence[Example] = ()
        self._banks: Mapping[Language, Bank] | None = None

    def bank(self, language: Language) -> Bank:
        """The examples in `language`, a person's own in front; built anew when those changed."""
        extra = tuple(self._extra())
        if self._banks is None or extra != self._built:
            everything = (*extra, *examples())
            self._banks = {language: Bank(everything, language) for language in LANGUAGES}
            self._built = extra
        return self._banks[language]

    def known(self, text: str, language: Language) -> float:
        """The share of the words of `text` that the bank has."""
        return self.bank(language).known(text)

    async def propose(self, turn: TurnSoFar, part: str) -> Proposal:
        """A command for `part`. Raises `ModelReplyError` when there is no usable reply at all."""
        found: list[Proposal] = []
        usage = Usage()
        # After a failure the next-best examples: the best ones led to what failed.
        first = len(turn.failed) * EXAMPLES
        for number in range(CANDIDATES):
            shown = self._examples(turn, part, first + number * EXAMPLES)
            # Shown what failed, the model sometimes says it again; then it is not shown.
            text = chat_text(command_chat(turn, part, shown, with_failure=number == 0))
            prompt = Prompt(text, MAX_COMMAND_TOKENS, stop=("\n",), grammar=_ONE_LINE)
            written = await self._write(prompt)
            usage += written.usage
            command = mended(part, written.text.strip())
            if written.cut or not command:
                continue
            against = doubts(part, command, shown)
            if turn.failed and command == turn.failed[-1].command:
                against = (_REPEATED, *against)
            found.append(Proposal(command, against, usage))
            if not against:
                break
        if not found:
            raise ModelReplyError(
                "The local model found no usable command; say it in other words, or in "
                "smaller pieces."
            )
        best = min(found, key=lambda proposal: proposal.weight)
        return Proposal(best.command, best.doubts, usage)

    def _examples(self, turn: TurnSoFar, part: str, rank: int) -> tuple[Example, ...]:
        asked = f"{turn.previous[0]} {part}" if turn.previous else part
        similar = self.bank(language_of(turn.request)).nearest(asked, rank + EXAMPLES)
        return similar[rank:] or similar[-EXAMPLES:]


def command_chat(
    turn: TurnSoFar, part: str, shown: Sequence[Example], *, with_failure: bool = True
) -> Chat:
    """What the model is shown for `part`: examples, earlier parts, the request, the error."""
    chat = [("system", prompts.load("local_command"))]
    for example in reversed(shown):
        chat += [("user", example.request), ("assistant", example.command)]
    if turn.previous is not None:
        chat += [("user", turn.previous[0]), ("assistant", turn.previous[1])]
    for earlier, ran in zip(turn.parts, turn.done, strict=False):
        chat += [("user", earlier), ("assistant", ran.command)]
    chat.append(("user", part))
    if turn.failed and with_failure:
        said = "\n".join(turn.failed[-1].output.splitlines()[-_ERROR_LINES:])
        chat.append(("assistant", turn.failed[-1].command))
        chat.append(("user", f"That failed: {said}\nWrite a different command for: {part}"))
    return chat
