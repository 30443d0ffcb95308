"""Compaction and the size of a request: the one place where history gets shorter.

Below the threshold history is append-only. Above it, once: the older rounds become a summary,
while every word the user said, the plan with its evidence, the instructions of skills in use, and
the last rounds stay as they were.
A round (an AIMessage with all its ToolMessages) is never cut in two, and calls that still wait
for an answer are always in the kept part. Token counts are estimates on the safe side.

`fit_messages` is the last guard before a model call, for what happens within a round: many large
results at once, an input larger than the window. It shortens the request alone; history and
journal keep the whole text.
"""

from __future__ import annotations

import re
import sys
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage, ToolMessage

from kogniterm import prompts
from kogniterm.agent.messages import (
    FILES_KEPT,
    FILES_RESTORED,
    JOBS,
    RESTARTED,
    artifact_of,
    drop_old_images,
    image_tokens,
    is_input,
    note,
    with_text,
    without_images,
)
from kogniterm.errors import ContextOverflowError
from kogniterm.text.shorten import head_and_tail
from kogniterm.types import USE_SKILL, ModelInfo, Plan, ToolSpec
from kogniterm.types.turn_values import NOTE, SAID

CHARS_PER_TOKEN = 3.0
"""Below the 3.5 to 4.5 that tokenizers reach on code and prose, so estimates err upwards."""

START_SHARE = 0.75
"""Share of the window at which history is compacted."""

KEEP_SHARE = 0.30
"""Share of the history's window that the rounds kept word for word may take."""

OLD_RESULT_CHARS = 600
"""Characters an old tool result is shortened to when even the kept part is too long."""

SAID_SHARE = 0.20
"""Share that the user's own words, and what KogniTerm added to them, may take of it."""

SUMMARY_SHARE = 0.15
"""Share that the summary may take of it."""

SUMMARY = "kogniterm_summary"
ADDED = "kogniterm_added"
DONE = "kogniterm_done_lines"
"""Keys of the summary, of what was added to the input, and of what was done, in its message."""

DONE_SHARE = 0.08
MOST_DONE = 200
"""Lines of each kind of what was done that are carried on."""
LABELS = {
    "jobs": "Background jobs",
    "asked": "Questions to the user, and refused actions",
    "sets": "Parts of commands that may have set variables",
    "files": "Files that the file tools changed, in order",
    "tools": "Other tools used",
    "commands": "Last commands, with the last end of each",
}
_SETS = re.compile(
    r"(?:^|[;&|\n({]) *((?:export|declare|typeset|readonly|unset|alias|source|set|\.) [^;&|\n]+"
    r"|[A-Za-z_]\w*=(?:'[^']*'|\"[^\"]*\"|[^\s;&|'\"]*) *(?=$|[;&|\n])|\w+ *\(\))"
)
_WROTE = re.compile(r"Wrote (.+) \([^()\n]+\)\.")
_OWN_LINES = re.compile(r"(?m)^\[(?:sandbox: |job j|\d+ bytes left out).*")
_JOB = re.compile(r"(?m)^\[?(?:job )?(j\d+) .*")

SKILLS = "kogniterm_skills"
"""The key under which a compacted message carries the skills in use, their texts by name."""

SKILLS_SHARE = 0.20
"""Share of the window that the instructions of used skills may take in the compacted part."""

SKILLS_LEAST = 5_000
"""Tokens that these may take in any case: a compaction that the user asks for has no window."""

_SKILL = re.compile(
    r'<skill name="(?P<name>[a-z0-9:_-]{1,110})" folder="[^"\n]*">\n.*?\n</skill>', re.DOTALL
)
"""The shape of the prompt `skills.used`."""

_COUNTED: dict[int, tuple[weakref.ref[BaseMessage], int]] = {}
"""Sizes of messages by identity. The whole history is measured before every model call, and
messages cannot be the keys of a dictionary."""


def estimate_tokens(messages: Sequence[BaseMessage]) -> int:
    """About how many tokens `messages` take, tool calls included."""
    return sum(message_tokens(message) for message in messages)


def message_tokens(message: BaseMessage) -> int:
    """About how many tokens one message takes. Counted once: messages never change."""
    known = _COUNTED.get(id(message))
    if known is not None and known[0]() is message:
        return known[1]
    tokens = text_tokens(message.text) + image_tokens(message) + 4
    if isinstance(message, AIMessage):
        tokens += sum(text_tokens(str(call["args"])) + 10 for call in message.tool_calls)
    key = id(message)
    _COUNTED[key] = (weakref.ref(message, lambda _gone: _COUNTED.pop(key, None)), tokens)
    return tokens


def text_tokens(text: str) -> int:
    """About how many tokens `text` takes, on the safe side for any script.

    Counted in UTF-8 bytes, since a Chinese character or an emoji is a token or more; a digit
    counts as a token, since several tokenizers split numbers into digits.
    """
    size = len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
    digits = sum(map(text.count, "0123456789"))
    return int((size - digits) / CHARS_PER_TOKEN) + digits + 1


def needs_compaction(tokens: int, window: int) -> bool:
    """Return whether a history of `tokens` nears its own window."""
    return tokens > window * START_SHARE


def split_history(
    messages: Sequence[BaseMessage], window: int
) -> tuple[list[BaseMessage], list[BaseMessage]]:
    """Return (older part, part kept unchanged), split between rounds."""
    budget = int(window * KEEP_SHARE)
    starts = [i for i, m in enumerate(messages) if not isinstance(m, ToolMessage)]
    cut = len(messages)
    used = 0
    for end, start in pairwise([len(messages), *reversed(starts)]):
        used += estimate_tokens(messages[start:end])
        if used > budget and cut < len(messages):
            break
        cut = start
    return list(messages[:cut]), list(messages[cut:])


def one_line(text: str, limit: int) -> str:
    """Return `text` clipped, as one line."""
    return " ".join(head_and_tail(" ".join(text.split()), limit).split())


def compact_history(
    older: Sequence[BaseMessage],
    kept: Sequence[BaseMessage],
    summary: str,
    plan: Plan | None,
    window: int,
    facts: Sequence[str] = (),
) -> tuple[BaseMessage, ...]:
    """Return the new history: what the user said, the summary, the plan, and the kept rounds.

    `facts` are true of the session now, whatever the messages show.
    """
    limit = int(window * CHARS_PER_TOKEN)
    said = within(what_was_said(older), int(limit * SAID_SHARE))
    parts = [prompts.text("compact.summary_follows")]
    parts.extend(f"The user said:\n{words}" for words in said)
    room = int(limit * SAID_SHARE) - sum(map(len, said))
    added = (
        ""
        if any(map(is_input, kept))
        else head_and_tail(_texts_beside(older), max(room, OLD_RESULT_CHARS))
    )
    if added:
        parts.append(f"Beside the last of these came:\n{added}")
    summary = head_and_tail(summary, int(limit * SUMMARY_SHARE))
    parts.append(f"What happened:\n{summary}")
    done = what_was_done(older, kept)
    if lines := [*facts, *_done_lines(done, int(limit * DONE_SHARE))]:
        parts.append(prompts.text("compact.done", done="\n".join(lines)))
    if plan is not None:
        parts.append(plan_text(plan))
    there = used_skills(kept)
    skills = {name: text for name, text in used_skills(older).items() if name not in there}
    shown = skills_within(skills, max(int(window * SKILLS_SHARE), SKILLS_LEAST))
    if shown:
        parts.extend((prompts.text("skills.kept"), *shown.values()))
    if dropped := [name for name in skills if name not in shown]:
        parts.append(prompts.text("skills.dropped", names=", ".join(dropped)))
    told: dict[str, Any] = {SAID: said, ADDED: added, SUMMARY: summary, DONE: done, NOTE: True}
    if shown:
        told[SKILLS] = shown
    head = HumanMessage("\n\n".join(parts), additional_kwargs=told)
    if kept and isinstance(kept[0], HumanMessage):
        # Providers want human and model to take turns.
        return (head, AIMessage("Understood."), *kept)
    return (head, *kept)


def what_was_done(
    messages: Sequence[BaseMessage], kept: Sequence[BaseMessage] = ()
) -> list[tuple[str, str, str]]:
    """Return the actions in `messages`, those gathered by earlier compactions included.

    These are (kind, subject, line), the newest last, one line for a subject: the edit of a file, a
    question to the user or a refusal, how a command ended last, what set variables, and the jobs
    as the `kept` messages behind them leave them.
    """
    done, calls = dict[tuple[str, str], str](), dict[str, Any]()
    for number, message in enumerate((*messages, *kept)):
        if isinstance(message, AIMessage):
            calls |= {str(one["id"]): one["args"] for one in message.tool_calls}
        anew = isinstance(message, HumanMessage) and prompts.occurs(RESTARTED, message.text)
        if anew or artifact_of(message).get("command"):  # which tells of all jobs that run
            gone = ("jobs", "sets") if anew else ("jobs",)
            done = {key: line for key, line in done.items() if key[0] not in gone}
        for kind, subject, line in _shown_by(message, calls):
            if number < len(messages) or kind == "jobs":
                done.pop((kind, subject), None)
                done[kind, subject] = line
    of = {kind: [(*key, line) for key, line in done.items() if key[0] == kind] for kind in LABELS}
    return [one for lines in of.values() for one in lines[-MOST_DONE:]]


def _shown_by(message: BaseMessage, calls: Mapping[str, Any]) -> Iterator[Sequence[str]]:
    """Yield the actions in one message."""
    artifact, text, name = artifact_of(message), message.text, message.name
    if not isinstance(message, ToolMessage):
        yield from (carried := message.additional_kwargs.get(DONE, ()))
        if not carried and any(prompts.occurs(one, text) for one in (FILES_RESTORED, FILES_KEPT)):
            yield "files", text, text
        return
    given = calls.get(message.tool_call_id) or {}
    asked = given.get("command") or given.get("question") or f"{name} {[*given.values()]}"
    what, failed = one_line(str(asked), 300), message.status == "error"
    if name == "ask_user" or (failed and prompts.occurs("execute_tool.refused", text)):
        yield "asked", what, f"{what} -> {one_line(text, 300)}"
    elif name == JOBS and given.get("action") != "read":
        yield from (("jobs", one[1], one[0]) for one in _JOB.finditer(text))
    elif command := artifact.get("command"):
        ended = artifact.get("ended") or f"exit {artifact.get('exit_code')}"
        masked = " (proves nothing)" if artifact.get("masked") else ""
        for one in _SETS.findall(command):
            yield "sets", one, f"{one_line(one, 200)} -> {ended}"
        yield from (("jobs", one[1], one[0]) for one in _JOB.finditer(artifact.get("jobs", "")))
        yield "commands", command, f"{one_line(command, 200)} -> {ended}{masked}"
    elif wrote := _WROTE.match(text) if artifact else None:
        yield "files", wrote[1], wrote[0]
    elif "request_id" in artifact:
        yield "tools", what, what


def _done_lines(done: Sequence[Sequence[str]], limit: int) -> list[str]:
    """Return the newest lines of each kind of what was done, about `limit` characters in all."""
    parts = list[str]()
    for number, (kind, label) in enumerate(LABELS.items()):
        lines, room = [line for of, _, line in done if of == kind], limit // (len(LABELS) - number)
        shown = next((n for n in range(len(lines), 1, -1) if len("".join(lines[-n:])) <= room), 1)
        limit -= len("".join(lines[-shown:]))
        left = f" ({len(lines) - shown} older ones are left out)" if len(lines) > shown else ""
        parts += [f"{label}{left}:", *(f"- {one}" for one in lines[-shown:])] if lines else []
    return parts


def used_skills(messages: Sequence[BaseMessage]) -> dict[str, str]:
    """Return the instructions of the skills used in `messages` by name, the newest use last."""
    found: dict[str, str] = {}
    for message in messages:
        carried = message.additional_kwargs.get(SKILLS)
        if isinstance(carried, dict):
            texts = [(str(name), str(text)) for name, text in carried.items()]
        elif is_input(message) or (isinstance(message, ToolMessage) and message.name == USE_SKILL):
            texts = [(one["name"], one[0]) for one in _SKILL.finditer(message.text)]
        else:
            continue
        for name, text in texts:
            found.pop(name, None)
            found[name] = text
    return found


def skills_within(skills: Mapping[str, str], tokens: int) -> dict[str, str]:
    """Return the most recently used of `skills` that fit, whole, in the order of their use."""
    chosen: dict[str, str] = {}
    for name, text in reversed(list(skills.items())):
        tokens -= text_tokens(text)
        if tokens < 0:
            break
        chosen[name] = text
    return dict(reversed(list(chosen.items())))


def what_was_said(messages: Sequence[BaseMessage]) -> list[str]:
    """Return the user's inputs in `messages`, also those an earlier compaction has gathered."""
    said: list[str] = []
    for message in messages:
        if SAID in message.additional_kwargs:
            said.extend(message.additional_kwargs[SAID])
        elif is_input(message):
            said.append(message.text)
    # The instructions of a skill are kept by themselves, in full.
    return [_SKILL.sub(lambda skill: f"/{skill['name']}", words) for words in said]


def _texts_beside(messages: Sequence[BaseMessage]) -> str:
    """Return the texts beside the newest input: piped data, files, memories, who can approve."""
    for message in reversed(messages):
        if SUMMARY in message.additional_kwargs:
            return str(message.additional_kwargs[ADDED])
        if is_input(message):
            (words,) = message.additional_kwargs.get(SAID, (message.text,))
            return _SKILL.sub("", message.text.removeprefix(words)).strip()
    return ""


def within(said: Sequence[str], limit: int) -> list[str]:
    """Return the first input and as many of the newest as fit in `limit` characters, in order.

    The first names the task, the newest correct it. Only inputs that are longer than the limit,
    or than half of it beside others, are clipped.
    """
    if not said:
        return []
    first, *rest = [head_and_tail(words, limit // min(len(said), 2)) for words in said]
    chosen: list[str] = []
    used = len(first)
    for words in reversed(rest):
        used += len(words)
        if used > limit:
            break
        chosen.append(words)
    return [first, *reversed(chosen)]


def plan_text(plan: Plan) -> str:
    """Return the plan with its evidence, as the model may rely on it."""
    lines = [f"The plan ({plan.goal}):"]
    for step in plan.walk():
        proof = "; ".join(
            f"{e.note or e.request_id} exit {e.exit_code}" if e.exit_code is not None else e.note
            for e in step.evidence
        )
        check = f" | check: {step.check.kind} {step.check.value}" if step.check else ""
        told = (check if step.open else "") + (f" ({proof})" if proof else "")
        lines.append(f"- {step.id} [{step.status}] {step.what}{told}")
    return "\n".join(lines)


def plain_summary(messages: Sequence[BaseMessage]) -> str:
    """Return a summary without a model: the one before, each call with the end of its result."""
    lines, before = list[str](), ""
    calls: dict[str, str] = {}
    for message in messages:
        if SUMMARY in message.additional_kwargs:
            before = head_and_tail(message.additional_kwargs[SUMMARY], 3000) + "\n"
        elif isinstance(message, AIMessage):
            if message.text.strip():
                lines.append(f"Model: {head_and_tail(message.text.strip(), 300)}")
            for call in message.tool_calls:
                shown = call["args"].get("command") or call["args"]
                calls[str(call["id"])] = one_line(f"{call['name']}: {shown}", 200)
        elif isinstance(message, ToolMessage):
            ended = one_line(_OWN_LINES.sub("", message.text), 200)
            lines.append(f"{calls.get(message.tool_call_id, message.name)} -> {ended}")
    return before + head_and_tail("\n".join(lines), 6000 - len(before))


def transcript(messages: Sequence[BaseMessage], tokens: int) -> str:
    """Return the older part as text for the summary call, in about `tokens` at most."""
    text = ""
    for size in (tokens * 3, *RESULT_SIZES[:2], 1_500):
        lines = []
        for message in messages:
            if isinstance(message, AIMessage):
                calls = "; ".join(f"{c['name']}({c['args']})" for c in message.tool_calls)
                lines.append(f"MODEL: {message.text} {calls}".rstrip())
            elif isinstance(message, ToolMessage):
                shown = "[its instructions]" if message.name == USE_SKILL else message.text
                lines.append(f"RESULT: {head_and_tail(shown, size)}")
            elif SUMMARY in message.additional_kwargs:
                lines.append(f"SUMMARY SO FAR: {message.additional_kwargs[SUMMARY]}")
            else:
                said = is_input(message) or SAID in message.additional_kwargs
                lines.append(f"{'USER' if said else 'KOGNITERM'}: {message.text}")
        text = "\n".join(lines)
        if text_tokens(text) <= tokens:
            return text
    return head_and_tail(text, len(text) * tokens // text_tokens(text))


RESULT_SIZES = (8_000, 2_000, 600, 200, 80)
"""Characters that tool results are shortened to in turn until the request fits."""

TEXT_SIZES = (8_000, 2_000, 600, 150, 60)
"""Characters that everything else is shortened to when that was not enough."""


_DESCRIBED: dict[int, tuple[ToolSpec, int]] = {}
"""Tokens of tools' descriptions, by the identity of the tool: asked twice a step, of all tools."""
_MOST_DESCRIBED = 1_000


def tools_tokens(tools: Sequence[ToolSpec]) -> int:
    """About how many tokens the tools' descriptions take in every request."""
    return sum(map(_tool_tokens, tools))


def _tool_tokens(spec: ToolSpec) -> int:
    known = _DESCRIBED.get(id(spec))
    if known is not None and known[0] is spec:
        return known[1]
    if len(_DESCRIBED) >= _MOST_DESCRIBED:
        _DESCRIBED.clear()
    tokens = text_tokens(f"{spec.name} {spec.description} {spec.parameters}")
    _DESCRIBED[id(spec)] = (spec, tokens)
    return tokens


def observation_limit(window: int) -> int:
    """Return the most characters one observation may have, for a model with a `window` in tokens.

    An eighth of the window at three characters a token: even several observations of one round
    fit beside the rest of a compacted history.
    """
    return max(1_000, min(24_000, window * 3 // 8))


REFUSED_SHARE = 0.7
"""Share of a history that a provider refused as too long which the next request may have.
Estimates err upwards (`compaction.CHARS_PER_TOKEN`), but less for text that tokenizers split
finely."""


@dataclass(slots=True)
class Window:
    """The number of tokens that a request to a session's model may have.

    As the model's tables say, until its provider refuses a request as too long: then less.
    `refused` are the images that its provider does not take.
    """

    most: int = sys.maxsize
    refused: frozenset[str] = frozenset()

    def tokens(self, info: ModelInfo) -> int:
        """Return the tokens that a request may take beside the reply."""
        return min(info.context_window - info.max_output, self.most)

    def history(self, info: ModelInfo, fixed: int) -> int:
        """Return the window of a history beside `fixed` tokens that every request has."""
        return max(int(self.tokens(info) - fixed / START_SHARE), 1)

    def room(self, info: ModelInfo, tools: Sequence[ToolSpec]) -> int:
        """Return the tokens for system text and history, beside the tools and the reply."""
        return self.tokens(info) - tools_tokens(tools)

    def refuse(self, messages: Sequence[BaseMessage], tools: Sequence[ToolSpec]) -> None:
        """Note that the provider refused a request with these as too long: system text first."""
        system, *history = messages
        fixed = message_tokens(system) + tools_tokens(tools)
        self.most = fixed + int(estimate_tokens(history) * REFUSED_SHARE)


def fit_messages(
    system: SystemMessage, messages: Sequence[BaseMessage], limit: int
) -> tuple[BaseMessage, ...]:
    """Return `system` and `messages` within `limit` tokens, unchanged if they fit.

    Images of earlier inputs give way first, then tool results, long texts and arguments, the
    other images, and the oldest rounds. Raises `ContextOverflowError` when the window is too
    small even for what is left.
    """
    left = limit - message_tokens(system)
    kept = list(messages)
    if estimate_tokens(kept) <= left:
        return (system, *kept)
    shorten: list[Callable[[BaseMessage], BaseMessage]] = []
    shorten += [lambda m, size=size: _short_result(m, size) for size in RESULT_SIZES]  # type: ignore[misc]  # mypy cannot infer a lambda's default
    shorten += [lambda m, size=size: _short_text(m, size) for size in TEXT_SIZES]  # type: ignore[misc]  # as above
    shorten.append(lambda m: without_images(m, "not shown; it does not fit this model's window"))
    kept = drop_old_images(kept)
    for step in shorten:
        if estimate_tokens(kept) <= left:
            return (system, *kept)
        kept = [step(message) for message in kept]
    kept = _newest_rounds(kept, left)
    if estimate_tokens(kept) > left:
        raise ContextOverflowError(
            "This request does not fit the model's context window of "
            "{window} tokens; choose a model with a larger one.",
            window=limit,
        )
    return (system, *kept)


def _short_result(message: BaseMessage, size: int) -> BaseMessage:
    if isinstance(message, ToolMessage) and len(message.text) > size:
        return message.model_copy(update={"content": head_and_tail(message.text, size)})
    return message


def _short_text(message: BaseMessage, size: int) -> BaseMessage:
    update: dict[str, Any] = {}
    if len(message.text) > size:
        message = with_text(message, head_and_tail(message.text, size))
    if isinstance(message, AIMessage) and message.tool_calls:
        update["tool_calls"] = [
            {**call, "args": {key: _short_value(v, size) for key, v in call["args"].items()}}
            for call in message.tool_calls
        ]
    return message.model_copy(update=update) if update else message


def _short_value(value: Any, size: int) -> Any:
    if isinstance(value, str):
        return head_and_tail(value, size)
    return value if len(str(value)) <= size else head_and_tail(str(value), size)


def _newest_rounds(messages: Sequence[BaseMessage], limit: int) -> list[BaseMessage]:
    """Return the newest whole rounds within `limit`, behind a note on what was left out."""
    starts = [i for i, m in enumerate(messages) if not isinstance(m, ToolMessage)]
    for start in starts[1:]:
        summary = head_and_tail(plain_summary(messages[:start]), 600)
        earlier = note(prompts.text("compact.earlier_rounds", summary=summary))
        kept = [earlier, *messages[start:]]
        if estimate_tokens(kept) <= limit:
            return kept
    return list(messages[starts[-1] :]) if starts else []
