"""A turn folded from its messages: the parts of the request, the commands that ran, the answer.

The model never loops by itself, so the turn is folded afresh at every call:
one command per part of the request, one more try after a failure, then the answer from the
commands' real output. Nothing is remembered between calls.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, NamedTuple

from kogniterm import prompts
from kogniterm.addons.local_model.conversation import (
    asks_to_look,
    goes_on,
    say,
    sentences,
    wording,
)
from kogniterm.addons.local_model.workspace_view import Looks, looks_of
from kogniterm.text.language import LANGUAGES, Language, fold_case, language_of
from kogniterm.types import EXECUTE_COMMAND

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

MAX_PARTS = 8
_IMPERATIVES = wording("imperatives")
_ORDER = rf"(?:{_IMPERATIVES})(?:l[oae]s?)?\b"
_ASKING = "how many|how big|how large|which|what is|cuant[oa]s?|cual|que hay"
_THEN = wording("then")
_ITEM = re.compile(r"^\s*(?:\d{1,2}[.)]|[-*•])\s+(.+)$")
_INLINE_ITEM = re.compile(rf"(?:^|[\s,;:.])\s*\d[.)]\s+(?={_ORDER})")
# "the next commit" and "el segundo cambio" name a thing; nothing is joined there.
_CONNECTIVE = re.compile(
    r"(?:\s*[,;.]\s*|(?<!\b(?:the|her|his|our))(?<!\b(?:my|el|la))(?<!\b(?:your|esta))\s+)(?:and\s+|y\s+)?"
    rf"(?:{_THEN})\s*,?\s+(?=¿?(?:{_ORDER}|(?:{_ASKING})\b))"
)
_SENTENCE = re.compile(rf"[.;]\s+(?={_ORDER})")
_FIRST = re.compile(r"^(?:first(?:ly)?|primero)(?: of all)?\s*,?\s+")
_IMPERATIVE = re.compile(_ORDER)
_QUOTED = re.compile(r"\"[^\"]*\"|`[^`]*`|«[^»]*»|“[^”]*”|(?<!\w)'[^']*'(?!\w)")
# Making a folder is a separate part, whatever follows it.
_FOLDER = (
    r"(?:create|make|crea|haz) (?:me )?(?:a |an |the |un |una |la |el )?(?:new |nueva? )?"
    r"(?:folder|directory|carpeta|directorio) (?:named |called |llamad[oa] )?"
    r"(?P<name>\"[^\"]+\"|'[^']+'|[\w./-]*\w)"
)
_FILE = r"[\w-]+(?:/[\w-]+)*(?:\.[a-z]\w{0,4})+\b"
_RESULT = (
    r"it|them|that|those|this|these|the (?:number|result|output|list|total|sum|names?|lines?|"
    r"counts?|totals?)|their|sus|el (?:numero|resultado|total)|la (?:lista|salida|suma)"
)
# "and" joins two requests where the second one names a file of its own, and no result of the first.
_AND = re.compile(
    rf"(?P<cut>,?\s+(?:and|y)\s+)(?=(?!guarda)(?:{_IMPERATIVES})\b(?!.*\b(?:{_RESULT})\b)[^,]*{_FILE})"
)
_LOOKS_AT = r"run|show|print|display|view|read|sort|ejecuta|muestra|imprime|lee|ordena"
_AND_IT = re.compile(
    rf"(?P<cut>,?\s+(?:and|y)\s+)(?=(?:{_LOOKS_AT})(?: it| the copy| la copia|l[oa])\W*$)"
)
_IT = re.compile(rf"^(?P<order>{_LOOKS_AT})(?: it| the copy| la copia|l[oa])$")
# One that changes the file that the first one makes, or that asks about what it did.
_DOES = (
    r"run|execute|make|copy|move|rename|compress|delete|remove|"
    r"ejecuta|copia|mueve|renombra|comprime|borra|elimina"
)
_AND_DOES = re.compile(
    rf"(?P<cut>,?\s+(?:and|y)\s+|,\s+)"
    rf"(?=(?:{_DOES})(?: (?:it|the (?:archive|original)|el original)|l[oa])\b)"
)
_DOES_IT = re.compile(
    rf"^(?P<order>{_DOES})(?: (?:it|the (?:archive|original)|el original)|l[oa])\b(?P<rest>.*)$"
)
_AND_TELL = re.compile(r"(?P<cut>,?\s+(?:and|y)\s+)(?=(?:tell me|show me|dime|muestrame)\s)")
_OPENS = re.compile(r"^(?:open|run|test|abre|ejecuta|prueba)\b")
_AND_ASKS = re.compile(r"(?P<cut>,?\s+(?:and|y)\s+)(?=(?:who|which|when|quien|cual|cuando)\b)")
_ASKS_FIRST = re.compile(rf"^(?:{_ASKING}|who|when|quien|cuando)\b")
_THERE_ARE = re.compile(r"\b(?P<many>how many|cuant[oa]s)(?= there are\b| are there\b| hay\W*$)")
_KIND = re.compile(r"(?<![\w*])\.[a-z]\w{0,4}\b")
_COUNTED = re.compile(r"\bhow many (\w+?)s?\b")
_FOLDER_AND = re.compile(rf"{_FOLDER}(?P<cut>,?\s+(?:and|y)\s+|,\s+)(?={_ORDER})")
_MADE = re.compile(rf"^{_FOLDER}$")
_INTO_IT = re.compile(
    r"\b(?:in|into|to|inside) (?:it|there)\b|\b(?:dentro de |en )ella\b|"
    r"\bdentro\b(?! de)|\b(?:ahi|alli)\b"
)
_OF_IT = re.compile(r"^(list|lista(?=la|lo))\s?(it|la|lo)$")


def parts_of(text: str) -> tuple[str, ...]:
    """Return the requests in `text`, in order: list items, or what explicit connectives join.

    A connective only counts when an imperative follows it, and nothing is cut inside quotes.
    "it" and "there" name the folder that an earlier part makes, or the file that it names last.
    """
    lines = [line for line in text.splitlines() if line.strip()]
    items = [match.group(1).strip() for line in lines if (match := _ITEM.match(line))]
    if len(items) >= 2 and len(items) >= len(lines) - 1:
        parts = items
    elif len(lines) >= 2 and all(_IMPERATIVE.match(fold_case(line.strip())) for line in lines):
        parts = [part for line in lines for part in _cut(line.strip())]
    else:
        parts = _cut(text)
    cleaned = [part.strip().rstrip(".;,") for part in parts]
    return _resolve_references([part for part in cleaned if part][:MAX_PARTS]) or (text,)


def _cut(text: str) -> list[str]:
    ended = fold_case(text.replace("…", "."))
    folded = _QUOTED.sub(lambda match: "_" * len(match.group()), ended)
    cuts = [m.span() for rule in (_CONNECTIVE, _SENTENCE) for m in rule.finditer(folded)]
    cuts += [match.span("cut") for match in _FOLDER_AND.finditer(folded)]
    if _IMPERATIVE.match(folded) and re.search(_FILE, folded):
        cuts += [match.span("cut") for rule in (_AND, _AND_IT) for match in rule.finditer(folded)]
        cuts += [match.span("cut") for match in _AND_DOES.finditer(folded)]
    if _IMPERATIVE.match(folded) and not (asks_to_look(text) or _OPENS.match(folded)):
        cuts += [match.span("cut") for match in _AND_TELL.finditer(folded)]
    if _ASKS_FIRST.match(folded.lstrip("¿ ")):
        cuts += [match.span("cut") for match in _AND_ASKS.finditer(folded)]
    inline = [match.span() for match in _INLINE_ITEM.finditer(folded)]
    if len(inline) >= 2:
        cuts += inline
    parts, start = [], 0
    if first := _FIRST.match(folded):
        start = first.end()
    for begin, end in sorted(cuts):
        if begin >= start:
            parts.append(text[start:begin])
            start = end
    return [*parts, text[start:]]


def _resolve_references(parts: list[str]) -> tuple[str, ...]:
    folder = ""
    resolved: list[str] = []
    for part in parts:
        folded = fold_case(part)
        named = re.findall(_FILE, resolved[-1]) if resolved else []
        if named and (it := _IT.match(folded)):
            part = f"{it['order']} {named[-1]}"
        elif named and (it := _DOES_IT.match(folded)):
            part = f"{it['order']} {named[0]}{part[it.start('rest') :]}"
        elif folder and (match := _INTO_IT.search(folded)):
            word = "en la carpeta" if match.group()[:3] in ("en ", "den", "ahi", "all") else "into"
            part = f"{part[: match.start()]}{word} {folder}{part[match.end() :]}"
        elif folder and (match := _OF_IT.match(folded)):
            part = f"{match.group(1)} {'the folder' if match.group(2) == 'it' else 'la carpeta'} "
            part += folder
        elif made := _MADE.match(folded):
            folder = part[made.start("name") : made.end("name")]
        elif resolved:
            part = _complete_part(part, resolved[-1], named)
        resolved.append(part)
    return tuple(resolved)


def _complete_part(part: str, before: str, named: Sequence[str]) -> str:
    """Return `part`, which names no file, with what the part `before` it was about."""
    if re.search(_FILE, fold_case(part)):
        return part
    kinds, counted = _KIND.findall(before), _COUNTED.search(before)
    if kinds and (many := _THERE_ARE.search(fold_case(part))):
        english = many["many"] == "how many"
        found = f"{kinds[-1]} files" if english else f"archivos {kinds[-1]}"
        return f"{part[: many.end()]} {found}{part[many.end() :]}"
    if counted:
        part = re.sub(
            r"\b(last|first|newest|oldest|biggest|latest) one\b", rf"\1 {counted[1]}", part
        )
    if named:
        part = re.sub(r"\bdel archivo$", f"de {named[-1]}", part)
        part = re.sub(r"\b(?:it|the archive)\b", named[-1], part, count=1)
    return part


_FINAL: frozenset[Ending] = frozenset({"unchanged", "not_run", "unfinished"})
"""Ends of a command after which there is no other try."""
TRIES = 2
"""Commands proposed for one part: the first, and one more when it failed."""
_APPENDED = re.compile(r"\n\n<\w+[^>\n]*>\n")
_PLAN_NOTES = ("create_plan.plan_first", "create_plan.plan_only", "create_plan.plan_mode")
_DATA = re.compile(r"<stdin>\n(.*)\n</stdin>", re.DOTALL)
_NOTE = re.compile(r"\[[^\]\n]*\]")
_EXIT = re.compile(r"\[exit (\d+)")
_CHANGED = re.compile(r"\[the (?:user|person) changed the command to: (.*)\]\n?")
_SEARCHES = re.compile(
    r"(^|[|;&(]\s*)(grep|egrep|fgrep|rg|pgrep|pidof|find|git grep|diff|cmp|test)\b"
)
_ACTS = re.compile(r"[>;&]|\s-(?:delete|exec|execdir|ok|fprint)\b|\|\s*(?:xargs|tee)\b")
_COMPARES = re.compile(r"^\s*(?:diff|cmp|git diff --no-index)\b")
_CHECKED = re.compile(r"^grep -q -- .* && sed |&& test -s [\w./-]+$")
"""A command that checks its own effect, so that its failure is no answer."""
_LOOKED_FOR = re.compile(r"grep -q -- (['\"])(.+?)\1 .* && sed ")
_HOW_MANY = re.compile(r"how many\b|count\b|cuant[oa]s\b|cuenta\b")
_NO_NUMBER = re.compile(r"-?(?:nan|inf)", re.IGNORECASE)
_TOTALS = re.compile(r"\bawk\b.*\bEND\s*\{[^{}]*\bprint")
"""Commands that print at their end what they have added up."""
_UNRUN = re.compile(r"[^\n]*\n\n```sh\n(.*)\n```")
_FAILURE_LINES = 15
_COMPLAINT = re.compile(
    r"^(?:/\S*/)?([a-z][\w.-]*): (?:.*\b(?:cannot|can't|could not|unknown|invalid|illegal|missing|"
    r"unrecognized|unexpected|not found|no such|not a|permission denied|error|bad|usage)\b)",
    re.IGNORECASE,
)

Ending = Literal["ok", "nothing", "failed", "unchanged", "unfinished", "not_run"]


class Ran(NamedTuple):
    """A command of this turn and its result. `code` is None when it did not end by itself."""

    command: str
    output: str
    code: int | None
    ending: Ending


class TurnSoFar(NamedTuple):
    """A turn: the user's words, data piped in, its parts, and the commands up to now.

    `previous` is the turn before it, as (request, command), when the words go on from there
    ("and in the tests folder?"). `shown` is the command that the turn before only told of,
    with what had been asked. `wanted` is the code of the language that the user prefers, or empty.
    `looks` is what was seen of the workspace in this turn.
    """

    request: str
    data: str | None
    parts: tuple[str, ...]
    done: tuple[Ran, ...]
    failed: tuple[Ran, ...]
    previous: tuple[str, str] | None = None
    shown: tuple[str, str] | None = None
    wanted: str = ""
    looks: Looks = Looks()

    @property
    def begun(self) -> bool:
        """Return whether a command was proposed in this turn."""
        return bool(self.done or self.failed)

    @property
    def language(self) -> Language:
        """The language of the model's own sentences: the one that is `wanted`, or the user's."""
        return answer_language(self.wanted, self.request)

    @property
    def part(self) -> str | None:
        """The part that is due, None when nothing is left to do."""
        stopped = self.failed and (len(self.failed) >= TRIES or self.failed[-1].ending in _FINAL)
        return None if stopped or len(self.done) == len(self.parts) else self.parts[len(self.done)]


def words_of_user(text: str) -> str:
    """Return the user's own words in a human message, without what was put behind them."""
    words = _APPENDED.split(f"\n\n{text}" if text.startswith("<stdin>") else text)[0]
    for name in _PLAN_NOTES:
        words = words.partition(f"\n\n{prompts.text(name)}")[0]
    return words.strip()


def turn_so_far(messages: Sequence[BaseMessage], language: str = "") -> TurnSoFar:
    """Fold the last turn of `messages`; `language` is the one wanted of answers, if any."""
    start = max((n for n, message in enumerate(messages) if message.type == "human"), default=0)
    text = messages[start].text if messages else ""
    data = _DATA.search(text)
    request = words_of_user(text)
    parts = parts_of(request)
    done: list[Ran] = []
    failed: list[Ran] = []
    for ran in commands_run(messages[start:]):
        part = parts[min(len(done), len(parts) - 1)]
        if ran.ending == "ok" and _lacks_number(part, ran.output):
            ran = ran._replace(ending="failed")
        if ran.ending == "failed" and _had_nothing_to_replace(part, ran):
            ran = ran._replace(ending="unchanged")
        if ran.ending in ("ok", "nothing"):
            done.append(ran)
            failed.clear()
        else:
            failed.append(ran)
    return TurnSoFar(
        request,
        data.group(1) if data else None,
        parts,
        tuple(done[: len(parts)]),
        tuple(failed),
        _previous(messages[:start]) if goes_on(request) else None,
        _shown(messages[:start]),
        language,
        looks_of(messages[start:]),
    )


def _lacks_number(part: str, output: str) -> bool:
    """Return whether `part` asks how many, and something else was printed."""
    asked = bool(output.strip()) and _HOW_MANY.match(fold_case(part).lstrip("¿ "))
    return bool(asked) and not any(character.isdigit() for character in output)


def _had_nothing_to_replace(part: str, ran: Ran) -> bool:
    """Return whether no file of the command holds the text that `part` wants replaced."""
    looked = _LOOKED_FOR.match(ran.command)
    silent = ran.code == 1 and not ran.output.strip()
    return (
        silent
        and looked is not None
        and re.search(rf"(?<!\w){re.escape(looked[2])}(?!\w)", part) is not None
    )


def _previous(messages: Sequence[BaseMessage]) -> tuple[str, str] | None:
    """Return the last request before this turn that led to a command, with that command."""
    ran = commands_run(messages)
    asked = [message for message in messages if message.type == "human"]
    return (words_of_user(str(asked[-1].text)), ran[-1].command) if ran and asked else None


def answer_language(wanted: str, text: str) -> Language:
    """Return the language `wanted` if the model has its sentences in it, else that of `text`."""
    return next((one for one in LANGUAGES if one == wanted), None) or language_of(text)


def unrun_answer(command: str, language: Language) -> str:
    """Return the answer to "how do I …?": the command, not run."""
    return f"{say('would', language)}\n\n```sh\n{command}\n```\n\n{say('do_it', language)}"


def _shown(messages: Sequence[BaseMessage]) -> tuple[str, str] | None:
    """Return the last request and the command that its answer showed without running it."""
    asked = [message for message in messages if message.type == "human"]
    if not asked or messages[-1].type != "ai":
        return None
    text = str(messages[-1].text)
    found = _UNRUN.match(text)
    if found is None or not any(text.startswith(one) for one in sentences("would").values()):
        return None
    return words_of_user(str(asked[-1].text)), found.group(1)


def commands_run(messages: Sequence[BaseMessage]) -> list[Ran]:
    """Every command in `messages` that has its observation, in order."""
    proposed: dict[str, str] = {}
    ran = []
    for message in messages:
        if message.type == "ai":
            for call in getattr(message, "tool_calls", ()):
                if call["name"] == EXECUTE_COMMAND:
                    proposed[str(call["id"])] = str(call["args"].get("command", ""))
        elif message.type == "tool":
            call_id = str(getattr(message, "tool_call_id", ""))
            if call_id in proposed:
                ran.append(_ran(proposed[call_id], message))
    return ran


def _ran(command: str, message: BaseMessage) -> Ran:
    """Read an observation: the output, then bracketed lines that say how the command ended."""
    text = str(message.text)
    if changed := _CHANGED.match(text):
        command, text = changed.group(1), text[changed.end() :]
    lines = text.splitlines()
    notes: list[str] = []
    while lines and _NOTE.match(lines[-1]):
        notes.append(lines.pop())
        if _EXIT.match(notes[-1]):
            break
    output = "\n".join(lines)
    artifact = getattr(message, "artifact", None)
    code = artifact.get("exit_code") if isinstance(artifact, dict) else None
    if code is None and notes and (found := _EXIT.match(notes[-1])):
        code = int(found.group(1))
    return Ran(command, output, code, _ending(command, output, code, message))


def _ending(command: str, output: str, code: int | None, message: BaseMessage) -> Ending:
    if getattr(message, "status", "success") == "error":
        return "not_run"
    if code is None:
        return "unfinished"
    if code == 0:
        no_number = _NO_NUMBER.fullmatch(output.strip()) or (
            not output.strip() and _TOTALS.search(command)
        )
        return "failed" if no_number or _only_complaints(command, output) else "ok"
    # A comparison reports differences with exit code 1.
    if code == 1 and output.strip() and _COMPARES.match(command):
        return "ok"
    # A search that finds nothing says so with exit code 1; that is an answer, not a failure.
    if (
        code == 1
        and not output.strip()
        and not checks_itself(command)
        and _SEARCHES.search(command)
    ):
        return "nothing"
    return "failed"


def checks_itself(command: str) -> bool:
    """Return whether the command fails unless it had the effect that was asked for."""
    return bool(_CHECKED.search(command))


def _only_complaints(command: str, output: str) -> bool:
    """Return whether the output is nothing but error messages of the command's own programs.

    A pipe ends with the exit code of its last program, however the first one failed. A zero beside
    them is the count of what that one did not print.
    """
    lines = [line for line in output.splitlines() if line.strip()]
    if len(lines) > 1 and lines[-1].strip() == "0":
        lines.pop()
    if not lines or len(lines) > _FAILURE_LINES:
        return False
    said = [_COMPLAINT.match(line) for line in lines]
    return all(one and (one[1] in ("bash", "sh") or one[1] in command) for one in said)


def answer(turn: TurnSoFar) -> str:
    """Return the answer: the real output of the commands, and the parts that were not done."""
    language = turn.language
    blocks = [_block(ran, language) for ran in turn.done]
    if turn.failed:
        blocks.append(_block(turn.failed[-1], language))
        left = turn.parts[len(turn.done) + 1 :]
        if left:
            blocks.append(say("left", language, requests="; ".join(left)))
    return "\n\n".join(blocks)


def _block(ran: Ran, language: Language) -> str:
    """One command's result. The output stands as it is, in a fence longer than any in it."""
    empty = not ran.output.strip()
    if ran.ending in ("ok", "nothing"):
        # That nothing was found, or that all is done, cannot be told from silence.
        looked = _SEARCHES.search(ran.command) and not _ACTS.search(ran.command)
        silent = "silent" if looked or checks_itself(ran.command) else "unchecked"
        name = silent if empty else "gave"
        sentence = say(name, language, command=ran.command, code=ran.code)
    elif ran.ending == "unchanged":
        sentence = say("unchanged", language, command=ran.command)
    elif ran.ending == "unfinished":
        sentence = say("not_finished", language, command=ran.command)
    elif ran.ending == "failed" and ran.code == 0:
        sentence = say("complained", language, command=ran.command)
    else:
        name = "failed" if ran.ending == "failed" else "not_run"
        sentence = say(name, language, command=ran.command, code=ran.code)
    if empty or ran.ending == "not_run":
        return sentence
    output = ran.output
    if ran.ending == "failed":
        output = "\n".join(output.splitlines()[-_FAILURE_LINES:])
    fence = "```"
    while fence in output:
        fence += "`"
    return f"{sentence}\n\n{fence}text\n{output}\n{fence}"
