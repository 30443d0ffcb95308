"""Tools over the session's own commands and data, through ports that the session provides.

`execute_command` runs a command, and `jobs` is for what it leaves running. `recall_history` reads
the session's past, `ask_user` asks its user, `recall`, `remember` and `forget` use long-term
memory. `use_skill` gives the instructions of a skill, when a task needs them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Literal, Protocol

from pydantic import Field, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from kogniterm import prompts
from kogniterm.errors import ExecutionError, ToolError
from kogniterm.tools.base import Arguments, SchemaTool
from kogniterm.types import EXECUTE_COMMAND, USE_SKILL, EffectClass, Job


class HistoryPort(Protocol):
    """The session's whole past."""

    def search(self, words: str) -> str:
        """Return the entries that hold `words`, newest first, with their numbers."""

    def entry(self, number: int) -> str:
        """Return the full text of one entry. Raises `ToolError` when there is none."""


class HistoryArguments(Arguments):
    """Search, or read one entry."""

    words: str = Field(default="", max_length=200)
    entry: int | None = Field(default=None, ge=1)


def recall_history(history: HistoryPort) -> SchemaTool[HistoryArguments]:
    """Return the tool over one session's journal."""

    async def run(arguments: HistoryArguments) -> str:
        if arguments.entry is not None:
            return history.entry(arguments.entry)
        if not arguments.words.strip():
            raise ToolError("words and entry are both missing; specify one of them.")
        found = history.search(arguments.words.strip())
        return found or f"[nothing in this session contains {arguments.words!r}]"

    return SchemaTool(
        "recall_history",
        HistoryArguments,
        run,
    )


MOST_ANSWERS = 6
LONGEST_ANSWER = 300
_CHOSE = "The user chose: "
_ANSWERED = "The user answers: "
_REPLIES = (_CHOSE, _ANSWERED, "The person chose: ", "The person answers: ")
"""The beginnings of the observations, also in sessions of older versions."""


class UserPort(Protocol):
    """The user, where there is one to ask; else raises `ToolError`."""

    async def ask(self, question: str, answers: Sequence[str]) -> str | None:
        """Return one of `answers`, or the user's own words; None without an answer."""


class QuestionArguments(Arguments):
    """A question, and answers to choose from; without any, the user answers in words."""

    question: str = Field(min_length=1, max_length=1000)
    answers: list[Annotated[str, Field(min_length=1, max_length=LONGEST_ANSWER)]] = Field(
        default=[], max_length=MOST_ANSWERS
    )


def ask_user(user: UserPort) -> SchemaTool[QuestionArguments]:
    """Return the tool that asks the user something only they can decide."""

    async def run(arguments: QuestionArguments) -> str:
        reply = await user.ask(arguments.question, arguments.answers)
        if reply is None:
            return prompts.text("execute_tool.no_answer")
        if reply in arguments.answers:
            return f"{_CHOSE}{reply}"
        return f"{_ANSWERED}{reply}"

    return SchemaTool(
        "ask_user",
        QuestionArguments,
        run,
        effect="person",
        describe=lambda arguments: (arguments.question, " / ".join(arguments.answers)),
    )


def reply_in(observation: str) -> str | None:
    """Return the user's reply in an observation of `ask_user`; None where they gave none."""
    for begin in _REPLIES:
        if observation.startswith(begin):
            return observation.removeprefix(begin)
    return None


Category = Literal["preference", "requirement", "constraint", "fact"]


class MemoryPort(Protocol):
    """Memory as tools see it; every method returns the observation or raises `ToolError`."""

    def recall(self, question: str, limit: int) -> str:
        """Return facts that answer `question`."""

    def remember(self, text: str, quote: str, category: str, everywhere: bool) -> str:
        """Store a statement that rests on the user's own words."""


class ForgetPort(Protocol):
    """Forgetting as the tool sees it. Raises `ToolError`, also where no user can be asked."""

    async def forget(self, what: str, quote: str) -> str:
        """Find what the user wants forgotten, ask them, and remove it with proof."""


class RecallArguments(Arguments):
    """A question to memory."""

    question: str = Field(min_length=1, max_length=400)
    limit: SkipJsonSchema[int] = Field(default=8, ge=1, le=30)


class RememberArguments(Arguments):
    """A statement to keep, and the user's words it rests on."""

    text: str = Field(min_length=1, max_length=400)
    quote: str = Field(min_length=1, max_length=400)
    category: SkipJsonSchema[Category] = "fact"
    everywhere: bool = False


class ForgetArguments(Arguments):
    """A thing to forget, and the user's words that ask for it."""

    what: str = Field(min_length=1, max_length=400)
    quote: str = Field(min_length=1, max_length=400)


def recall(memory: MemoryPort) -> SchemaTool[RecallArguments]:
    """Return the tool that looks facts up."""

    async def run(arguments: RecallArguments) -> str:
        found = await asyncio.to_thread(memory.recall, arguments.question, arguments.limit)
        return prompts.text("execute_tool.remembered_facts", facts=found)

    return SchemaTool(
        "recall",
        RecallArguments,
        run,
    )


def remember(memory: MemoryPort) -> SchemaTool[RememberArguments]:
    """Return the tool that keeps what the user asked to keep."""

    async def run(arguments: RememberArguments) -> str:
        return await asyncio.to_thread(
            memory.remember,
            arguments.text,
            arguments.quote,
            arguments.category,
            arguments.everywhere,
        )

    return SchemaTool(
        "remember",
        RememberArguments,
        run,
    )


def forget(memory: ForgetPort) -> SchemaTool[ForgetArguments]:
    """Return the tool that removes what the user wants forgotten, once they confirm it."""

    async def run(arguments: ForgetArguments) -> str:
        return await memory.forget(arguments.what, arguments.quote)

    return SchemaTool(
        "forget",
        ForgetArguments,
        run,
        effect="person",
        describe=lambda arguments: (arguments.what, ""),
    )


class SkillPort(Protocol):
    """The skills of a session."""

    async def use(self, name: str) -> str:
        """Return the instructions of a skill. Raises `ToolError` for one that cannot be used."""

    def asks(self, name: str) -> bool:
        """Return whether the user is asked for permissions when this skill is used."""

    def may_read(self, path: Path) -> bool:
        """Return whether a resolved path is a file of a usable skill, as it was trusted."""


class SkillArguments(Arguments):
    """The name of a skill."""

    name: str = Field(min_length=1, max_length=64)


def use_skill(skills: SkillPort) -> SchemaTool[SkillArguments]:
    def effect_of(arguments: SkillArguments) -> EffectClass:
        return "person" if skills.asks(arguments.name) else "none"

    async def run(arguments: SkillArguments) -> str:
        return await skills.use(arguments.name)

    return SchemaTool(
        USE_SKILL,
        SkillArguments,
        run,
        effect_of=effect_of,
        describe=lambda arguments: (f"use the skill {arguments.name}", ""),
    )


class _NoSkills:
    """The skills where none can be used: none asks anything, and no file is one of theirs."""

    async def use(self, name: str) -> str:
        raise ToolError("There is no skill {name}.", name=name)

    def asks(self, name: str) -> bool:
        """Return that the user is not asked."""
        return False

    def may_read(self, path: Path) -> bool:
        """Return that the file is none of a skill."""
        return False


NO_SKILLS = _NoSkills()


MAX_COMMAND = 100_000


class CommandArguments(Arguments):
    """One shell command and what it is for."""

    command: str
    purpose: str = ""

    @field_validator("command")
    @classmethod
    def _usable(cls, value: str) -> str:
        return usable_command(value)


def usable_command(value: str) -> str:
    """Return `value`. Raises `ValueError` for what no shell can run, or is too long."""
    if not value.strip():
        raise ValueError("is empty")
    if len(value) > MAX_COMMAND:
        raise ValueError(f"is longer than {MAX_COMMAND} characters; write a script file")
    if "\0" in value:
        raise ValueError("contains a NUL byte, which no shell can run")
    return value


async def _never(arguments: Arguments) -> str:
    raise ToolError("Commands are run by the runtime.")


def execute_command() -> SchemaTool[CommandArguments]:
    """Return the tool every session offers."""
    return SchemaTool(
        EXECUTE_COMMAND,
        CommandArguments,
        _never,
        effect="command",
        describe=lambda arguments: (arguments.command, arguments.purpose),
    )


LONGEST_WAIT = 60


class JobsPort(Protocol):
    """The jobs of a session. Methods raise `ExecutionError` for a job there is not."""

    def jobs(self) -> tuple[Job, ...]:
        """Return all jobs, oldest first."""

    def read_job(self, job_id: str) -> str:
        """Return a job's output, clipped."""

    def wait_job(self, job_id: str, timeout: float | None = None, *, or_asks: bool = False) -> Job:
        """Wait until it has ended (`or_asks` for input), at most `timeout` seconds."""

    def job_asks(self, job_id: str) -> Literal["", "terminal", "password"]:
        """Return what it reads from its terminal at this moment, if anything."""

    def stop_job(self, job_id: str) -> Job:
        """End it."""

    def send_keys(self, job_id: str, text: str) -> str:
        """Type into it, and return what it writes in reaction."""

    def keep_job(self, job_id: str) -> None:
        """Let it run on when KogniTerm ends."""


class JobArguments(Arguments):
    """An action on a job."""

    action: Literal["list", "read", "wait", "stop", "send", "keep"]
    id: str = ""
    keys: str = Field(default="", max_length=2000)
    sandboxed: SkipJsonSchema[bool] = False
    """True for a job in the sandbox; the tool sets it, whatever the model gives."""

    @field_validator("keys")
    @classmethod
    def _decode_keys(cls, value: str) -> str:
        return decode_keys(value)

    @model_validator(mode="after")
    def _complete(self) -> JobArguments:
        if self.action != "list" and not self.id:
            raise ValueError("id is missing")
        if (self.action == "send") != bool(self.keys):
            raise ValueError("keys are required for send, and only allowed there")
        return self


NAMED_KEYS = {
    "enter": "\r", "tab": "\t", "esc": "\x1b", "backspace": "\x7f", "up": "\x1b[A",
    "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D",
}  # fmt: skip
_NAMED = re.compile(r"<(enter|tab|esc|backspace|up|down|right|left|c-([a-z]))>", re.IGNORECASE)


def decode_keys(keys: str) -> str:
    r"""Return the characters that `keys` stand for: named keys, and `\n` as two characters.

    Where the keys end with a backslash and an n and hold no line break, these are line breaks.
    """
    if keys.endswith("\\n") and "\n" not in keys:
        keys = keys.replace("\\n", "\n")
    return _NAMED.sub(
        lambda one: chr(ord(one[2].lower()) - 96) if one[2] else NAMED_KEYS[one[1].lower()], keys
    )


def job_tool(
    jobs: JobsPort, explained: Callable[[Job, str], str] = lambda job, output: ""
) -> SchemaTool[JobArguments]:
    """Return the one tool for background jobs; `explained` adds to an ended job why it failed."""

    def settle(arguments: JobArguments) -> JobArguments:
        job = _found(jobs, arguments.id)
        inside = job is not None and job.fate == "sandbox"
        return arguments.model_copy(update={"sandboxed": inside})

    def act(arguments: JobArguments) -> str:
        text, job = _act(jobs, arguments), _found(jobs, arguments.id)
        if job is None or job.state != "ended":
            return text
        why = explained(job, jobs.read_job(job.id))
        return f"{text}\n{why}" if why else text

    async def run(arguments: JobArguments) -> str:
        try:
            return await asyncio.to_thread(act, arguments)
        except ExecutionError as error:
            raise ToolError(error.text.template, **error.text.values) from error

    def command_of(name: str) -> str:
        if (job := _found(jobs, name)) is None:
            raise ToolError("Job {job} not found.", job=name)  # before anybody is asked
        return job.command

    def describe(arguments: JobArguments) -> tuple[str, str]:
        if arguments.action == "send":
            return (
                f"type into {arguments.id}: {arguments.keys!r}",
                f"{arguments.id} is: {command_of(arguments.id)}",
            )
        if arguments.action == "keep":
            return (
                f"keep {arguments.id} running when KogniTerm ends: {command_of(arguments.id)}",
                "",
            )
        return f"{arguments.action} {arguments.id}: {command_of(arguments.id)}", ""

    return SchemaTool(
        "jobs",
        JobArguments,
        run,
        describe=describe,
        effect_of=_effect,
        may="keystrokes",
        settle=settle,
    )


def _found(jobs: JobsPort, name: str) -> Job | None:
    return next((job for job in jobs.jobs() if job.id == name), None)


def _act(jobs: JobsPort, arguments: JobArguments) -> str:
    match arguments.action:
        case "list":
            return "\n".join(_line(jobs, job) for job in jobs.jobs()) or "[no background job]"
        case "read":
            return jobs.read_job(arguments.id) or "[nothing written yet]"
        case "wait":
            return _line(jobs, jobs.wait_job(arguments.id, LONGEST_WAIT, or_asks=True))
        case "stop":
            jobs.stop_job(arguments.id)
            # Waiting tells the executor that this caller, unlike /jobs stop, reports the end.
            return _line(jobs, jobs.wait_job(arguments.id, 0))
        case "keep":
            jobs.keep_job(arguments.id)
            return f"[{arguments.id} keeps running when KogniTerm ends]"
        case "send":
            reaction, job = jobs.send_keys(arguments.id, arguments.keys), _found(jobs, arguments.id)
            assert job is not None
            return f"{reaction}\n[{_line(jobs, job)}]".lstrip("\n")


def _effect(arguments: JobArguments) -> EffectClass:
    """Return "keystrokes" for typing, stopping and keeping; listing and reading have no effect."""
    return "keystrokes" if arguments.action in ("send", "stop", "keep") else "none"


def _line(jobs: JobsPort, job: Job) -> str:
    asks = jobs.job_asks(job.id) if job.state == "running" else ""
    if asks:
        last = (jobs.read_job(job.id).splitlines() or [""])[-1][-200:]
        what = "a password, which only the user may type" if asks == "password" else "input"
        return f"{job.id} waits for {what}: `{last}`"
    ended = job.state == "ended"
    state = f"ended, {job.ending_text}" if ended else f"running, {job.fate_text}"
    return f"{job.id} {state}: {job.short_command}"
