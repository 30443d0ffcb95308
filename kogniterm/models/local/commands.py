"""One part of a request → one command: examples as turns of a chat, and a check of the reply.

A small model copies names out of the examples it was shown, forgets those of the request, lists
where it should count, and now and then deletes unasked. All of that shows in the
text of the command. After such a finding there is one more try with the next-best examples, and the
better command is taken. A command with harm that was not requested is never proposed.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from kogniterm import prompts
from kogniterm.errors import ModelReplyError
from kogniterm.models.local.bank import Bank, Example, examples
from kogniterm.models.local.conversation import asks_how, asks_to_look, wording
from kogniterm.models.local.runtime import Chat, Prompt, chat_text
from kogniterm.models.local.steps import TurnSoFar
from kogniterm.text.language import LANGUAGES, Language, language_of, plain
from kogniterm.types import Usage

_NAME = re.compile(r"[\w~/-]*\.?[\w-]+(?:[./][\w-]+)+/?|(?<![\w.])\.[a-z]\w*|[\w-]+/(?!\w)")
_QUOTED = re.compile(r"\"([^\"\n]+)\"|«([^»\n]+)»|“([^”\n]+)”|(?<!\w)'([^'\n]+)'(?!\w)|`([^`\n]+)`")
_NUMBER = re.compile(r"(?<![\w.,])\d+(?![\w.,]*\w)")
# A name inside a sentence; names of tools and kinds of file need not stand in the command.
_PROPER = re.compile(r"(?<=[\w,] )[A-ZÁÉÍÓÚÑ][a-záéíóúñ]{2,}\b")
_NO_NAME = re.compile(wording("no_name"))
_COMMAND_NAME = re.compile(r"(?<![\w.*?/-])[\w-]+(?:/[\w.-]+)*\.[a-z]\w{0,5}\b")

_DESTROYS = re.compile(
    r"(^|[;&|({]|\b(?:do|then|else|xargs|sudo|exec|-execdir|-exec)\b)\s*(?:-\S+\s+)*"
    r"(rm|rmdir|unlink|shred|wipe|truncate\s+-s\s*0|mkfs\S*|dd|fdisk|kill|pkill|killall|shutdown|reboot|"
    r"poweroff|halt|userdel|crontab\s+-r)\b"
    r"|\s-delete\b|\bgit\s+(clean|reset\s+--hard|branch\s+-[dD]|push\s+\S*-f|stash\s+(drop|clear)|restore(?!\s+--staged)|"
    r"checkout\s+(--\s|\.|-f))|\bgit\s+push\s+.*--(delete|force)"
)
_EMPTIES = re.compile(r"(^|[;&|]\s*):?\s*>\s*[\w./]")
_CHANGES = re.compile(
    r"(^|[;&|({]|\b(?:do|then|else|xargs|sudo|exec|-execdir|-exec)\b)\s*(?:-\S+\s+)*"
    r"(mv|chmod|chown|chgrp|ln|install|tee|patch|git\s+(commit|add|merge|rebase|push|mv|rm|init))\b"
    r"|\b(sed|perl)\s+(?:\S+\s+)*?-(?:\w*i\b|-in-place)|\bsort\s+(?:\S+\s+)*?-o\b"
)
_QUESTION = re.compile(wording("question"))
_SWEEPS = re.compile(
    r"\brm\s+(?:-\S+\s+)*(?:\.{1,2}|/|~|/\*|\"?\$HOME\"?)/?(?=\s|$|[;&|)])|"
    r"\b(?:mkfs\S*|dd)\b.*/dev/[a-z]|:\(\)\s*\{"
)
_WANTS_IT_GONE = re.compile(wording("wants_it_gone"))
_WANTS_IT_EMPTY = re.compile(wording("wants_it_empty"))
_ORDERS_IT_GONE = re.compile(wording("orders_it_gone"))
_CREATES = re.compile(
    r"\b(creat|mak|touch|generat|sav|put|stor|writ|crea|haz|hacer|gener|guard|escrib|pon)\w*"
)
_NOT_MEANT = re.compile(
    r"\b(clear|limpia|borra) (the |my |la )?(screen|terminal|console|pantalla|consola)\b"
)
_FORBIDS = re.compile(
    r"\b(do not|don'?t|never|without|sin|no|nunca) (los |las |lo |la )?"
    r"(delet|remov|eras|overwrit|borr|elimin|quit|suprim|sobrescrib)\w*"
)

_HOW_MANY = re.compile(
    r"\b(how many|the number of|cuant[oa]s|el numero de (?!linea\b)|cantidad de)\b"
)
_COUNTS = re.compile(
    r"\bwc\b|\buniq\b|\bawk\b|\bpython3?\b|\bjq\b|\bbc\b|\bexpr\b|\bseq\b|\bdate\b|\bnproc\b|"
    r"\bgetconf\b|\bdu\b|\bdf\b|\bstat\b|\bnl\b|\btail\b|\bhead\b|\bsort\b|\bsed\b|\becho\b|"
    r"--count|\s-[a-zA-Z]*c\b|\bfree\b|\buptime\b|\$\(\(|<\(|[;>]|&&"
)
_LISTS = re.compile(r"^(find|ls|grep|pgrep|git (ls-files|branch|tag|log --oneline|stash list))\b")
_LONG = re.compile(r"^ls\b(?=.*\s-\w*l)|\s-(print0|exec|ls|delete)\b|^grep\b.*\s-\w*q")

_COUNTS_LINES = re.compile(r"\bwc -l$|\bgrep (-\w+ )*-\w*c\b")
_WANTS_NUMBER = re.compile(wording("wants_number"))

_SORTS_SIZES = re.compile(r"(\b(?:du|ls)\s+-\w*h\w*\b[^;&]*\|\s*sort\s+-r?)n")

HARM = "harm"


def doubts(request: str, command: str, shown: Sequence[Example]) -> tuple[str, ...]:
    """Return the reasons against `command` for `request`, worst first."""
    found = []
    if needless_harm(request, command):
        found.append(HARM)
    if _COUNTS_LINES.search(command) and not _WANTS_NUMBER.search(plain(request)):
        found.append("counts")
    found += [f"forgot {name}" for name in _forgotten(request, command)]
    found += [f"copied {name}" for name in _copied(request, command, shown)]
    return tuple(found)


def needless_harm(request: str, command: str) -> bool:
    """Return whether `command` deletes, overwrites or ends something `request` wants to keep.

    A question wants nothing changed at all, and a request to find, list or count something
    wants it gone only where that is ordered too; the current, the root and the home folder are
    never meant.
    """
    if _SWEEPS.search(command):
        return True
    if _QUESTION.match(plain(request)) and not asks_how(request) and _CHANGES.search(command):
        return True
    if _DESTROYS.search(command):
        return not _wants_it_gone(request)
    if _EMPTIES.search(command):
        return not (_CREATES.search(plain(request)) or _wants_it_gone(request))
    return False


def _wants_it_gone(request: str) -> bool:
    asked = _FORBIDS.sub("", _NOT_MEANT.sub("", plain(request)))
    if _WANTS_IT_EMPTY.search(asked):
        return True
    if asks_to_look(request) and not asks_how(request):
        return bool(_ORDERS_IT_GONE.search(asked))
    return bool(_WANTS_IT_GONE.search(asked))


def mended(request: str, command: str) -> str:
    """Return `command` with two mistakes corrected whose correction is certain.

    A list is counted when `request` asks how many; sizes like 4.0K are sorted as sizes.
    """
    return _counted(request, _SORTS_SIZES.sub(r"\1h", command))


def _counted(request: str, command: str) -> str:
    if not _HOW_MANY.search(plain(request)) or _COUNTS.search(command):
        return command
    if not _LISTS.match(command) or _LONG.search(command):
        return command
    return f"{command} | wc -l"


def names_in(request: str) -> tuple[str, ...]:
    """Return the names in `request` that its command must contain."""
    quoted = ["".join(groups) for groups in _QUOTED.findall(request)]
    rest = _QUOTED.sub(" ", request)
    files = [name.strip("/") for name in _NAME.findall(rest)]
    numbers = _NUMBER.findall(_NAME.sub(" ", rest))
    proper = [word for word in _PROPER.findall(rest) if not _NO_NAME.fullmatch(word.lower())]
    return tuple(dict.fromkeys([*filter(None, files), *quoted, *numbers, *proper]))


def _forgotten(request: str, command: str) -> Iterable[str]:
    folded = plain(command)
    return [name for name in names_in(request) if not _holds(folded, plain(name))]


def _holds(command: str, name: str) -> bool:
    """Return whether the name is in the command, where a quoted text may be escaped or cut up."""
    if name.isdigit():
        return bool(re.search(rf"(?<!\d){name}(?!\d)", command))
    words = re.findall(r"\w+", name)
    return bool(words) and all(re.search(rf"(?<!\w){word}(?!\w)", command) for word in words)


def _copied(request: str, command: str, shown: Collection[Example]) -> Iterable[str]:
    asked = plain(request)
    theirs = {
        name
        for example in shown
        for name in _COMMAND_NAME.findall(example.command)
        if name in example.request and plain(name) not in asked
    }
    return [name for name in dict.fromkeys(_COMMAND_NAME.findall(command)) if name in theirs]


EXAMPLES = 5
MAX_COMMAND_TOKENS = 160
CANDIDATES = 2
"""Commands written for one proposal: a second one only if there are reasons against the first."""
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
    """The best command found, the remaining reasons against it, and the usage."""

    command: str
    doubts: tuple[str, ...]
    usage: Usage

    @property
    def harmful(self) -> bool:
        """Return whether it deletes or ends something that the user did not ask to lose."""
        return HARM in self.doubts

    @property
    def repeated(self) -> bool:
        """Return whether nothing better was found than the command that just failed."""
        return _REPEATED in self.doubts

    @property
    def weight(self) -> tuple[bool, bool, int]:
        """Return a sort key; the better of two proposals weighs less."""
        return self.harmful, self.repeated, len(self.doubts)


class CommandWriter:
    """Writes commands with the completions of `write` and the examples of the bank.

    `extra` gives the user's own examples as they are now: one learned a moment ago counts.
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
        """Return the examples in `language`, the user's first; built anew when those changed."""
        extra = tuple(self._extra())
        if self._banks is None or extra != self._built:
            everything = (*extra, *examples())
            self._banks = {language: Bank(everything, language) for language in LANGUAGES}
            self._built = extra
        return self._banks[language]

    def known(self, text: str, language: Language) -> float:
        return self.bank(language).known(text)

    async def propose(self, turn: TurnSoFar, part: str) -> Proposal:
        """Return a command for `part`. Raises `ModelReplyError` without any usable reply."""
        found: list[Proposal] = []
        usage = Usage()
        # After a failure the next-best examples: the best ones led to what failed.
        first = len(turn.failed) * EXAMPLES
        for number in range(CANDIDATES):
            shown = self._examples(turn, part, first + number * EXAMPLES)
            # The model sometimes repeats a failed command that it is shown; then it is not shown.
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
                "The local model found no usable command; rephrase the "
                "request, or split it into smaller ones."
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
    """Return the chat for `part`: examples, earlier parts, the request, the error."""
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
