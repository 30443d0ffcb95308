"""Messages towards the model, images included: the only place that builds a `ToolMessage`.

Every tool call gets exactly one ToolMessage, whatever became of it. Its `artifact` carries what
the evaluator needs and is never sent to a provider.

An image is a content block in LangChain's standard form, in a user's message or a tool's result.
It carries its base64 text once, and beside it what is known without decoding it: the name the
user gave and the size in pixels. A model that takes no images, a full window and a compaction get
a sentence in the image's place.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage

from kogniterm import prompts
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import whole
from kogniterm.types import (
    ActionRequest,
    CommandResult,
    Decision,
    Image,
    Job,
    ModelInfo,
    Observation,
    Phrase,
    PlanMode,
    UserAnswers,
    UserInput,
    Waiting,
    events,
)
from kogniterm.types.turn_values import NOTE, SAID

ImageBlock = Mapping[str, Any]

TILE = 768
TILE_TOKENS = 258
"""Gemini counts an image in tiles of this many pixels a side (ai.google.dev, "Image
understanding"); no other provider counts more for the sizes that are sent."""
LEAST_TOKENS = 1_600
"""The most that Anthropic and OpenAI count for one image of ordinary size (their vision guides)."""

MOST_BYTES = 15_000_000
"""Base64 of all images in one request: Gemini refuses more than 20 MB, text included."""


def image_block(image: Image) -> ImageBlock:
    """Return the block of an image."""
    return {
        "type": "image",
        "base64": base64.b64encode(image.data).decode("ascii"),
        "mime_type": image.media_type,
        "extras": {"name": image.name, "width": image.width, "height": image.height},
    }


def image_in(block: ImageBlock) -> Image:
    """Return the image that `image_block` made a block of."""
    known = block["extras"]
    data = base64.b64decode(block["base64"])
    return Image(data, block["mime_type"], known["name"], known["width"], known["height"])


def observed_images(
    observation: Observation, info: ModelInfo
) -> tuple[str, tuple[ImageBlock, ...]]:
    """Return a tool's observation as a model may keep it: words, and the images the model takes."""
    blocks, words = [], [observation.text]
    for image in observation.images:
        if image.media_type in info.images:
            blocks.append(image_block(image))
        else:
            words.append(f"[{image.name} is not shown: this model takes no such images]")
    return "\n".join(words), tuple(blocks)


def images_of(message: BaseMessage) -> list[ImageBlock]:
    """Return the image blocks of a message."""
    if isinstance(message.content, str):
        return []
    return [
        block
        for block in message.content
        if isinstance(block, dict) and block.get("type") == "image" and "base64" in block
    ]


def image_tokens(message: BaseMessage) -> int:
    """About how many tokens the images of a message take, on the safe side."""
    tokens = 0
    for block in images_of(message):
        known = block.get("extras", {})
        width, height = int(known.get("width", 0)), int(known.get("height", 0))
        tiles = -(-width // TILE) * -(-height // TILE)
        tokens += max(tiles * TILE_TOKENS, LEAST_TOKENS)
    return tokens


def with_text(message: BaseMessage, text: str) -> BaseMessage:
    """Return the message with other words; its images stay."""
    images = images_of(message)
    content: Any = [{"type": "text", "text": text}, *images] if images else text
    return message.model_copy(update={"content": content})


def without_images(message: BaseMessage, why: str) -> BaseMessage:
    """Return `message` with a sentence in place of each image; without images, the same object."""
    images = images_of(message)
    if not images:
        return message
    names = [block.get("extras", {}).get("name", "") for block in images]
    gone = "\n".join(f"[image {name}: {why}]" for name in names)
    return message.model_copy(update={"content": f"{message.text}\n\n{gone}"})


def fit_to_model(
    info: ModelInfo, messages: Sequence[BaseMessage], refused: Set[str] = frozenset()
) -> list[BaseMessage]:
    """Return the history as a model can take it.

    It holds only kinds of images that the model knows, none that its provider `refused`, and no
    more of them than one request may hold; the newest stay.
    """
    seen: list[BaseMessage] = []
    room = MOST_BYTES
    for message in reversed(messages):
        images = images_of(message)
        if not images:
            seen.append(message)
            continue
        if any(block.get("mime_type") not in info.images for block in images):
            message = without_images(message, "not shown; this model cannot take it")
        elif any(block["base64"] in refused for block in images):
            message = without_images(message, "not shown; the provider refused it")
        else:
            room -= sum(len(block["base64"]) for block in images)
            if room < 0:
                message = without_images(message, "no longer shown")
        seen.append(message)
    return seen[::-1]


def human_content(text: str, images: Sequence[ImageBlock]) -> HumanMessage:
    """Return a user's message of words and images."""
    text = whole(text)
    if not images:
        return HumanMessage(text)
    return HumanMessage([{"type": "text", "text": text}, *map(dict, images)])


JOBS = "jobs"
"""The tool whose good end says nothing of the programs that it tells of: it is no evidence."""

Observed = ToolMessage
"""A request's outcome as the model sees it."""

PLAN_FIRST = "create_plan.plan_first"
PLAN_ONLY = "create_plan.plan_only"
PLAN_MODE = "create_plan.plan_mode"
PLAN_MODE_OVER = "create_plan.plan_mode_over"
GIVEN_PLAN = "create_plan.given_plan"
FILES_RESTORED = "decide_action.files_restored"
FILES_KEPT = "decide_action.files_kept"
RESTARTED = "decide_action.restarted"
"""Names of prompts that are looked for in a history later."""

NEVER_FILLED_IN = Phrase(
    "{mark} stands for a secret, and nothing is filled in for it. Read the value inside the "
    "command, from the file it is in, or use a variable that the user gave with /secret."
)
ONLY_A_PLAN = Phrase("only a plan was requested; add this action to the plan instead.")


def note(text: str, images: Sequence[ImageBlock] = ()) -> HumanMessage:
    """Return a text that KogniTerm tells the model; never taken for the user's words."""
    message = human_content(text, images)
    message.additional_kwargs[NOTE] = True
    return message


MOST_FILES = 20
"""Names listed of files that changed behind the model's back."""


def files_restored(names: Sequence[str]) -> str:
    """Return the message about files that the user restored."""
    return prompts.text(FILES_RESTORED, files=_join_names(names))


def files_kept(names: Sequence[str]) -> str:
    """Return the message about changes whose turns the user took back."""
    return prompts.text(FILES_KEPT, files=_join_names(names))


def _join_names(names: Sequence[str]) -> str:
    more = len(names) - MOST_FILES
    return ", ".join(names[:MOST_FILES]) + (f" and {more} more" if more > 0 else "")


def steering_message(text: str) -> HumanMessage:
    """Return the user's words given while the turn ran; they steer the turn and begin none."""
    message = note(prompts.text("decide_action.user_said", text=text))
    if not any(prompts.occurs(one, text) for one in (PLAN_MODE, PLAN_MODE_OVER)):
        message.additional_kwargs[SAID] = [text]
    return message


def is_input(message: BaseMessage) -> bool:
    """Return whether this is an input of the user, which begins a turn."""
    return isinstance(message, HumanMessage) and NOTE not in message.additional_kwargs


def human_message(
    user_input: UserInput,
    plan_mode: PlanMode,
    context: str = "",
    images: Sequence[ImageBlock] = (),
    *,
    plan_only: bool = False,
    in_plan_mode: bool = False,
) -> HumanMessage:
    """Return an input as the model sees it: words, piped data as data, recalled context, images."""
    parts = [user_input.text]
    if user_input.data is not None:
        parts.append(f"<stdin>\n{user_input.data}\n</stdin>")
    if context:
        parts.append(context)
    if plan_only:
        parts.append(prompts.text(PLAN_ONLY))
    elif in_plan_mode:
        parts.append(prompts.text(PLAN_MODE))
    elif plan_mode == "always":
        parts.append(prompts.text(PLAN_FIRST))
    message = human_content("\n\n".join(part for part in parts if part), images)
    if any(parts[1:]) and user_input.text:
        message.additional_kwargs[SAID] = [user_input.text]
    return message


def told_to_plan(messages: Sequence[BaseMessage]) -> bool:
    """Return whether the model was told in this turn that it only plans, and not that it is over.

    Only messages of the user and of KogniTerm count: a file may hold the same words.
    """
    for message in reversed(messages):
        if not isinstance(message, HumanMessage):
            continue
        if prompts.occurs(PLAN_MODE, message.text):
            return True
        if prompts.occurs(PLAN_MODE_OVER, message.text) or is_input(message):
            return False
    return False


WHO_ANSWERS: Mapping[UserAnswers, str] = {
    "now": "decide_action.user_now",
    "later": "decide_action.user_later",
    "never": "decide_action.nobody_answers",
}
"""Prompts that tell when a user approves and answers."""


def known_answers(messages: Sequence[BaseMessage]) -> UserAnswers:
    """Return when a user answers as far as the model was told: at first it is now."""
    for message in reversed(messages):
        if isinstance(message, HumanMessage):
            for state, name in WHO_ANSWERS.items():
                if prompts.occurs(name, message.text):
                    return state
    return "now"


def images_behind_results(messages: Sequence[BaseMessage]) -> list[BaseMessage]:
    """Return the messages with images of tool results in a note behind their round's results.

    Providers take text from a tool and images from the user; results must stand together.
    """
    shown: list[BaseMessage] = []
    looked_at: list[ImageBlock] = []
    for message in messages:
        if isinstance(message, ToolMessage):
            if images := images_of(message):
                looked_at.extend(images)
                message = message.model_copy(update={"content": message.text})
        elif looked_at:
            shown.append(_looked_at(looked_at))
            looked_at = []
        shown.append(message)
    return [*shown, _looked_at(looked_at)] if looked_at else shown


def _looked_at(images: Sequence[ImageBlock]) -> HumanMessage:
    return note(prompts.text("decide_action.images_shown"), images)


def drop_old_images(
    messages: Sequence[BaseMessage], *, keep_newest: bool = True
) -> list[BaseMessage]:
    """Return the messages with images in what belongs to the newest input alone, or in none."""
    inputs = [index for index, message in enumerate(messages) if is_input(message)]
    newest = inputs[-1] if inputs and keep_newest else len(messages)
    why = "no longer shown; to see it, ask for it to be named again"
    older = [without_images(message, why) for message in messages[:newest]]
    return [*older, *messages[newest:]]


def shell_message(result: CommandResult) -> HumanMessage:
    """Return a command the user ran with `!`, shown to the model as such."""
    return user_ran(result.command, command_text(result))


def user_ran(command: str, observation: str) -> HumanMessage:
    """Return a command the user ran by themselves, and its observation."""
    said = prompts.text("decide_action.user_ran", command=command)
    return note(f"{said}\n{observation}")


def command_text(result: CommandResult) -> str:
    """Return a command's observation: what a screen showed, how it ended, what was left out."""
    lines = [result.text.rstrip("\n")] if result.text.strip() else []
    lines.append(f"[{'; '.join((_ending(result), *map(str, result.pipe_told)))}]")
    own = [
        job.id for job in result.jobs if job.command == result.command and job.state == "running"
    ]
    asking = own[-1] if own and result.ended == "detached" and result.waiting else ""
    if result.waiting is not None:
        told = _describe_waiting(result.waiting, asking) if asking else _diagnosis(result.waiting)
        lines.append(f"[{told}]")
    if result.omitted_bytes and result.output_path:
        copy = result.readable_path
        whole = f"read_file or grep {copy}" if copy else f"read_file {result.output_path}"
        lines.append(f"[{result.omitted_bytes} bytes left out; {whole}]")
    lines.extend(f"[{note}]" for note in result.notes)
    lines.extend(_describe_job(job) for job in result.jobs if job.id != asking)
    return "\n".join(lines)


def _describe_job(job: Job) -> str:
    ended = job.state == "ended"
    state = f"ended, {job.ending_text}" if ended else f"still runs ({job.fate_text})"
    return f"[job {job.id} {state}: {job.short_command}]"


def _ending(result: CommandResult) -> str:
    took = f" after {result.duration:.0f} s" if result.duration >= 1 else ""
    if result.ended == "exited":
        return f"exit {result.exit_code}{took}"
    if result.ended == "signaled":
        return f"killed by {result.signal}, exit {result.exit_code}{took}"
    if result.ended == "timeout":
        return f"stopped by its time limit{took}; outcome incomplete"
    if result.ended == "detached":
        return f"still running{took}"
    if result.ended == "not_started":
        return "not started"
    return f"stopped{took}; outcome incomplete"


_WAITS = {
    "terminal": "{program} was waiting for input at the terminal",
    "password": "{program} was waiting for a password",
    "sleeping": "{program} was sleeping",
    "busy": "{program} was still computing",
    "network": "{program} was waiting for the network",
    "stopped": "{program} was stopped by a signal",
}


def _diagnosis(waiting: Waiting) -> str:
    """Return why a command that was ended had not ended by itself, and what helps."""
    said = _WAITS[waiting.kind].format(program=waiting.program or "the command")
    evidence = f" ({waiting.evidence})" if waiting.evidence else ""
    asked = waiting.kind in ("terminal", "password")
    helps = f". {prompts.text('execute_tool.needs_input')}" if asked else ""
    return f"at the end {said} for {waiting.seconds:.0f} s{evidence}{helps}"


def _describe_waiting(waiting: Waiting, job: str) -> str:
    """Return a sentence on what a command that became a job waits for, and on the next steps."""
    if waiting.kind == "password":
        return f"job {job} waits for a password, which only the user may type: stop it"
    last = waiting.last_lines.rstrip("\n").rpartition("\n")[2][-200:]
    return f"job {job} waits for input: `{last}`. jobs send types an answer"


def command_message(
    request: ActionRequest,
    result: CommandResult,
    decision: Decision,
    note: str = "",
    *,
    looked: bool = False,
) -> ToolMessage:
    """Return the observation of an approved command that ran, and `looked` where it only read."""
    parts = []
    if decision.command != request.command:
        parts.append(f"[the user changed the command to: {decision.command}]")
    parts.append(command_text(result))
    if note:
        parts.append(note)
    # 1 is the answer of many commands that only read.
    good = {0, 1} if looked else {0}
    ended = result.ended == "detached" or (result.ended == "exited" and result.exit_code in good)
    artifact = {
        "request_id": request.id,
        "exit_code": result.exit_code,
        "ended": _ending(result),
        "jobs": "\n".join(map(_describe_job, result.jobs)),
        "command": result.command,
        "cwd": result.cwd,
        "output_path": result.output_path,
        "masked": result.masked,
        "failed": not ended or any(one.failed for one in result.pipe[:-1]),
    }
    return answer(request, "\n".join(parts), artifact=artifact)


_DECIDERS = {
    "person": "the user",
    "unattended": "policy",
    events.BY_KOGNITERM: "KogniTerm",
    events.BY_HOOK: "a hook of the user",
    events.BY_PROGRAM: "the program that runs you",
}
"""Deciders as the model reads them; others by the name they have in the journal."""


def refusal_message(request: ActionRequest, decision: Decision) -> ToolMessage:
    """Return the observation of a request that was refused, with the reason if there is one."""
    why = f": {decision.reason}" if decision.reason else ""
    who = _DECIDERS.get(decision.by, decision.by)
    text = prompts.text("execute_tool.refused", who=who, why=why)
    return answer(request, text, failed=True)


def changed_message(request: ActionRequest, file: str) -> ToolMessage:
    """Return the observation of an approved request that was not started because `file` changed."""
    text = prompts.text("execute_tool.file_changed", file=file)
    return answer(request, text, failed=True)


def action_message(
    request: ActionRequest,
    observation: str,
    *,
    failed: bool,
    images: Sequence[ImageBlock] = (),
    masked: str = "",
) -> ToolMessage:
    """Return the observation of an approved action that is not a command in this shell.

    `masked` is why its good end is no evidence.
    """
    artifact = None
    if not failed and request.tool != JOBS:
        artifact = {"request_id": request.id, "exit_code": 0, "masked": masked}
    return answer(request, observation, failed=failed, artifact=artifact, images=images)


AGAIN = "[the user was asked to let it run again outside the sandbox:]"


def answer(
    request: ActionRequest,
    text: str,
    *,
    failed: bool = False,
    artifact: Any = None,
    images: Sequence[ImageBlock] = (),
) -> ToolMessage:
    """Return the answer to the call of a request, which also tells of its run in the sandbox."""
    if request.refusal is not None:
        text = f"{request.refusal.observation}\n{AGAIN}\n{text}"
    name = request.called or request.tool
    return tool_message(
        request.call_id, name, text, failed=failed, artifact=artifact, images=images
    )


def tool_message(
    call_id: str,
    tool: str,
    text: str,
    *,
    failed: bool = False,
    artifact: Any = None,
    images: Sequence[ImageBlock] = (),
) -> ToolMessage:
    """Return the answer to one tool call."""
    text = whole(text)
    content: Any = [{"type": "text", "text": text}, *map(dict, images)] if images else text
    return ToolMessage(
        content=content,
        tool_call_id=call_id,
        name=tool,
        status="error" if failed else "success",
        artifact=artifact,
    )


def artifact_of(message: BaseMessage) -> Mapping[str, Any]:
    """Return the data for the evaluator in an observation; empty for any other message."""
    found = message.artifact if isinstance(message, ToolMessage) else None
    return found if isinstance(found, Mapping) else {}


def unanswered_calls(messages: Sequence[BaseMessage]) -> list[Any]:
    """Return the tool calls of the last AIMessage that have no ToolMessage yet, in call order."""
    answered = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            answered.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            return [call for call in message.tool_calls if call["id"] not in answered]
        elif is_input(message):
            return []
    return []


def failed_calls(messages: Sequence[BaseMessage], *, apart: bool = False) -> list[Any]:
    """Return the tool calls of the last AIMessage that failed, were refused or were held up.

    Of calls `apart`, which do not build on each other, only those that did not run.
    """
    failed = set()
    for message in reversed(messages):
        if isinstance(message, ToolMessage):
            if message.status == "error" or (artifact_of(message).get("failed") and not apart):
                failed.add(message.tool_call_id)
        elif isinstance(message, AIMessage):
            return [call for call in message.tool_calls if call["id"] in failed]
        elif is_input(message):
            return []
    return []


_CALL_SUBJECTS = ("path", "command", "task", "tool")


def held_up_text(name: str, arguments: Mapping[str, Any]) -> str:
    """Return the observation of an action behind a call of the same reply that failed.

    The failed call is named with its file, command or task: a reply may have several of one tool.
    """
    about = next((str(arguments[key]) for key in _CALL_SUBJECTS if arguments.get(key)), "")
    call = f"{name} {one_line(about, 100)}".strip()
    return prompts.text("execute_tool.after_failure", call=call)


def cancel_messages(messages: Sequence[BaseMessage], text: str) -> list[ToolMessage]:
    """Return answers for every unanswered call, so that the history stays valid after a stop."""
    return [
        tool_message(str(call["id"]), call["name"], text, failed=True)
        for call in unanswered_calls(messages)
    ]


def last_ai(messages: Iterable[BaseMessage]) -> AIMessage | None:
    """Return the newest AIMessage."""
    found = None
    for message in messages:
        if isinstance(message, AIMessage):
            found = message
    return found
