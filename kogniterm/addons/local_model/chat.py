"""The embedded local model behind the `Model` protocol.

Too small to drive the loop, it does one thing: turn one request into one command, shown the most
similar examples of the bank as earlier turns of the chat (as a list in the prompt it copies
them). Everything else is decided by rules: what is talk, what comes next, what the answer is.

Imports LangChain's messages inside functions, so that opening the model costs nothing.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kogniterm import prompts
from kogniterm.addons.local_model.bank import CommandExample
from kogniterm.addons.local_model.commands import CommandWriter, Completion, checked_command
from kogniterm.addons.local_model.conversation import (
    asks_for_judgement,
    asks_how,
    is_beyond,
    is_code_work,
    is_knowledge_question,
    say,
    says_do_it,
    small_talk,
)
from kogniterm.addons.local_model.runtime import (
    Chat,
    FinishedReply,
    LocalPrompt,
    Runtime,
    chat_text,
)
from kogniterm.addons.local_model.steps import (
    TurnSoFar,
    answer,
    answer_language,
    turn_so_far,
    unrun_answer,
)
from kogniterm.addons.local_model.weights import DEFAULT_NAME, Weights, find, weights_called
from kogniterm.addons.local_model.workspace_view import calls_due
from kogniterm.errors import ContextOverflowError, ModelReplyError, ModelUnavailableError
from kogniterm.text.language import LANGUAGES
from kogniterm.types import (
    EXECUTE_COMMAND,
    AnswerDelta,
    ModelEvent,
    ModelInfo,
    ModelLoading,
    ModelRequest,
    Reply,
    Usage,
)

if TYPE_CHECKING:
    from langchain_core.messages import BaseMessage

MAX_PROSE_TOKENS = 400
MAX_ANSWER_TOKENS = 160
MAX_JSON_TOKENS = 800
_CHARACTERS_PER_TOKEN = 3
ONE_CALL = Usage(calls=1)
ToolArguments = tuple[str, dict[str, Any]]
"""The name of a tool, and the arguments of a call."""


def open_local(
    name: str = DEFAULT_NAME,
    weights_folder: Path | None = None,
    *,
    weights_file: Path | None = None,
    extra_examples: Callable[[], Sequence[CommandExample]] = tuple,
) -> LocalModel:
    """Return the local model called `name`, from `weights_file` or the verified file in the folder.

    `extra_examples` gives the user's own examples as they are by then. Nothing is loaded yet.
    Raises `UsageError` for an unknown name, and `ModelUnavailableError` that says how to
    fetch the weights when they are not there.
    """
    entry = weights_called(name)
    if weights_file is not None:
        if not weights_file.is_file():
            raise ModelUnavailableError(
                "{path} not found; correct the setting local_weights.", path=weights_file
            )
        file: Path | None = weights_file
    else:
        file = find(entry, weights_folder) if weights_folder is not None else None
    if file is None:
        raise ModelUnavailableError(
            "The weights of {title} are not on this machine. Download them "
            "with `kogniterm models pull {name}` ({size} MB; the official "
            "file is {url}, sha256 {sha256}).",
            title=entry.title,
            name=entry.name,
            size=entry.size // 1_000_000,
            url=entry.url,
            sha256=entry.sha256,
        )
    return LocalModel(entry, file, extra_examples=extra_examples)


class LocalModel:
    """One request, one command. Loads at the first request that needs it, or at `preload`."""

    def __init__(
        self,
        entry: Weights,
        file: Path,
        *,
        extra_examples: Callable[[], Sequence[CommandExample]] = tuple,
    ) -> None:
        self._info = ModelInfo(
            name=entry.name,
            provider="local",
            context_window=entry.context_window,
            max_output=MAX_JSON_TOKENS,
            calls_tools=True,
            local=True,
            one_command=True,
        )
        self._looks_first = entry.looks_first
        self._runtime = Runtime(file, context=entry.context_window)
        self._writer = CommandWriter(self._write, extra_examples)

    @property
    def info(self) -> ModelInfo:
        return self._info

    def preload(self) -> None:
        """Start loading the weights in the background; returns at once."""
        self._runtime.preload()

    def close(self) -> None:
        """Free the memory; a later request loads again."""
        self._runtime.close()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Ask; see the module's docstring. Raises `ModelError` kinds only; cancel by task."""
        if request.schema is not None:
            text = self._fitting(_chat(request.messages), MAX_JSON_TOKENS)
            written = await self._write(LocalPrompt(text, MAX_JSON_TOKENS, schema=request.schema))
            try:
                json.loads(written.text)
            except ValueError as error:
                raise ModelReplyError("The local model's reply was cut off.") from error
            yield _reply(written.text, usage=written.usage)
        elif EXECUTE_COMMAND not in {tool.name for tool in request.tools}:
            async for event in self._prose(_chat(request.messages), mark=None):
                yield event
        else:
            async for event in self._act(request):
                yield event

    # --- one command -----------------------------------------------------------------------

    async def _act(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        turn = turn_so_far(request.messages, request.language)
        fixed = None if turn.begun or turn.data is not None else self._fixed_answer(turn)
        if turn.data is not None or (
            not (turn.begun or fixed)
            and is_knowledge_question(turn.request, self._writer.known_share)
        ):
            mark = say("unverified", turn.language)
            async for event in self._prose(_question(turn), mark=mark, short=turn.data is None):
                yield event
            return
        if turn.part is None:
            reply = _reply(answer(turn), done=not turn.failed)
        elif fixed is not None:
            text, declined = fixed
            reply = _reply(text, done=not declined)
        elif not turn.begun and says_do_it(turn.request) and turn.shown is not None:
            asked, command = turn.shown
            purpose = say("purpose", answer_language(turn.wanted, asked), request=asked)
            reply = _reply("", [_shell_call(command, purpose)])
        elif looks := self._looks_due(turn, request):
            reply = _reply("", looks)
        else:
            async for notice in self._loading():
                yield notice
            reply = await self._command(turn, turn.part)
        if not reply.message.tool_calls:
            yield AnswerDelta(str(reply.message.text))
        yield reply

    def _looks_due(self, turn: TurnSoFar, request: ModelRequest) -> Sequence[ToolArguments]:
        """Return the calls that show the workspace, where a command is to be run there."""
        if turn.begun or asks_how(turn.request) or not self._looks_first:
            return ()
        return calls_due(turn.request, turn.looks, {tool.name for tool in request.tools})

    def _fixed_answer(self, turn: TurnSoFar) -> tuple[str, bool] | None:
        """Return an answer that needs no model, and whether it declines a task; or None."""
        language = turn.language
        if asks_for_judgement(turn.request):
            return say("judgement", language), False
        if says_do_it(turn.request) and turn.shown is None:
            return say("nothing_shown", language), False
        if is_beyond(turn.request):
            return say("beyond", language), True
        if is_code_work(turn.request):
            return say("code_work", language), True
        said = small_talk(turn.request, language)
        return (said, False) if said is not None else None

    async def _command(self, turn: TurnSoFar, part: str) -> Reply:
        """Propose a command for `part`, or answer with it, or say why there is none."""
        language = turn.language
        found = await self._writer.propose(turn, part)
        if found.harmful:
            said = [answer(turn)] if turn.done or turn.failed else []
            said.append(say("harmful", language, command=found.command))
            return _reply("\n\n".join(said), usage=found.usage, done=False)
        if asks_how(turn.request):
            return _reply(unrun_answer(found.command, language), usage=found.usage)
        if found.repeated:
            return _reply(answer(turn), usage=found.usage, done=False)
        purpose = say("purpose", language, request=part)
        command = checked_command(part, found.command)
        return _reply("", [_shell_call(command, purpose)], usage=found.usage)

    # --- text ------------------------------------------------------------------------------

    async def _prose(
        self, chat: Chat, *, mark: str | None, short: bool = False
    ) -> AsyncIterator[ModelEvent]:
        """Ask for plain text; `mark` goes above it if it is not supported by output.

        A short answer ends with its paragraph: the longer this model talks, the more it invents.
        """
        before = f"{mark}\n\n" if mark else ""
        if before:
            yield AnswerDelta(before)
        pieces: list[str] = []
        usage = ONE_CALL
        most = MAX_ANSWER_TOKENS if short else MAX_PROSE_TOKENS
        prompt = LocalPrompt(self._fitting(chat, most), most, stop=("\n\n",) if short else ())
        async for notice in self._loading():
            yield notice
        async with aclosing(self._runtime.complete(prompt)) as events:
            async for event in events:
                if isinstance(event, FinishedReply):
                    usage = _usage(event)
                    if event.cut:
                        pieces.append(" …")
                        yield AnswerDelta(" …")
                else:
                    pieces.append(event)
                    yield AnswerDelta(event)
        yield _reply(before + "".join(pieces).strip(), usage=usage)

    async def _loading(self) -> AsyncIterator[ModelEvent]:
        """Announce the wait before the first request."""
        if not self._runtime.loaded:
            yield ModelLoading()
            await self._runtime.load()
            yield ModelLoading(done=True)

    def _fitting(self, chat: Chat, reserve: int) -> str:
        """Return `chat` as text. Raises `ContextOverflowError` early if it cannot fit."""
        text = chat_text(chat)
        if len(text) > (self._info.context_window - reserve) * 2 * _CHARACTERS_PER_TOKEN:
            raise ContextOverflowError(
                "The request is too long for the local model; shorten it, or "
                "choose a model with a larger context window."
            )
        return text

    async def _write(self, prompt: LocalPrompt) -> Completion:
        pieces: list[str] = []
        async with aclosing(self._runtime.complete(prompt)) as events:
            async for event in events:
                if isinstance(event, FinishedReply):
                    return Completion("".join(pieces), _usage(event), event.cut)
                pieces.append(event)
        raise ModelReplyError("The local model sent no reply; try again.")


def _question(turn: TurnSoFar) -> Chat:
    asked = turn.request if turn.data is None else f"{turn.request}\n\n{turn.data}"
    if turn.wanted in LANGUAGES:
        # Beside the question: what stands in the system text counts less for a small model.
        asked = f"{asked}\n\n{say('answer_in', turn.language)}"
    return [("system", prompts.text("local_model.answer")), ("user", asked)]


def _chat(messages: Sequence[BaseMessage]) -> Chat:
    """Return LangChain's messages as (role, text) pairs; observations count as the user's."""
    roles = {"system": "system", "ai": "assistant"}
    return [(roles.get(message.type, "user"), message.text) for message in messages]


def _usage(finished: FinishedReply) -> Usage:
    return Usage(finished.input, finished.output, finished.cached, calls=1)


def _shell_call(command: str, purpose: str) -> ToolArguments:
    return EXECUTE_COMMAND, {"command": command, "purpose": purpose}


def _reply(
    text: str,
    calls: Sequence[ToolArguments] = (),
    *,
    usage: Usage = ONE_CALL,
    done: bool = True,
) -> Reply:
    """Return the reply's message: text, or tool calls; `task_done` if the task succeeded."""
    from langchain_core.messages import AIMessage
    from langchain_core.messages.tool import tool_call

    asked = [
        tool_call(name=name, args=arguments, id=f"local-{uuid.uuid4().hex[:12]}")
        for name, arguments in calls
    ]
    message = AIMessage(text, tool_calls=asked, response_metadata={"task_done": done})
    return Reply(message, usage)
