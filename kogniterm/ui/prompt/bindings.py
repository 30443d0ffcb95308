"""Attaches what the keys do to the table of keys; every action of the table has one handler."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial

from prompt_toolkit.application import run_in_terminal
from prompt_toolkit.completion import CompleteEvent, get_common_complete_suffix
from prompt_toolkit.document import Document
from prompt_toolkit.filters import Condition, Filter
from prompt_toolkit.filters.app import has_completions, vi_insert_mode, vi_mode
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.keys import Keys
from prompt_toolkit.search import accept_search

from kogniterm.host.terminal_owner import user_job
from kogniterm.ui.prompt.attachments import image_mentions
from kogniterm.ui.prompt.prompt import Prompt
from kogniterm.ui.words.key_table import BUILT_IN, KEYS, sequences

Handler = Callable[[KeyPressEvent], None]
NAVIGATION = ("up", "down", "left", "right", "pageup", "pagedown")
"""Keys that move in a question; they answer nothing."""
CHORDS = ("left", "right", "c-s")
"""Keys that a question may take while words stand on the input line."""


def prompt_bindings(prompt: Prompt) -> KeyBindings:
    """Return the bindings of `prompt`: the line, the open question, and its entry line."""
    bindings = KeyBindings()
    at_keys = Condition(lambda: prompt.question_keys)
    at_entry = Condition(lambda: prompt.question_entry)
    at_line = ~at_keys & ~at_entry
    actions = prompt_actions(prompt)
    for key in KEYS:
        if key.where == "prompt" and key.action not in BUILT_IN:
            for chord in key.sequences:
                bindings.add(*chord, filter=_filter(key.action, at_line, prompt))(
                    actions[key.action]
                )
    searching = Condition(lambda: prompt.app.layout.is_searching)
    bindings.add("enter", filter=at_line & searching & vi_mode)(_accept_search)
    _question_bindings(bindings, prompt, at_keys)
    _entry_bindings(bindings, prompt, at_entry)
    _answer_bindings(bindings, prompt, at_line)
    held_down = Condition(lambda: prompt.keys.repeating)

    @bindings.add(Keys.Any, filter=~at_keys & held_down)
    def _hold_key(event: KeyPressEvent) -> None:
        """Take the key that answered while it is still held down, with the keyboard elsewhere."""
        if len(event.data) == 1 and event.data.isprintable():
            prompt.press(event.data)

    for name in ("suspend", "thoughts", "mode"):
        for chord in sequences(name):
            bindings.add(*chord, filter=at_keys | at_entry)(actions[name])
    bindings.add(Keys.BracketedPaste, filter=at_line)(_paste(prompt))
    return bindings


def prompt_actions(prompt: Prompt) -> dict[str, Handler]:
    controls = prompt.controls

    def submit(event: KeyPressEvent) -> None:
        buffer = prompt.line.buffer
        if buffer.document.text_before_cursor.endswith("\\"):
            buffer.delete_before_cursor(1)
            buffer.newline(copy_margin=False)
        else:
            prompt.send()

    def interrupt(event: KeyPressEvent) -> None:
        if prompt.line.buffer.text:
            prompt.line.buffer.reset()
            prompt.questions.line_changed("")
            prompt.focus()
        else:
            controls.interrupt()

    def escape(event: KeyPressEvent) -> None:
        event.app.vi_state.input_mode = InputMode.NAVIGATION if prompt.line.vi else InputMode.INSERT
        prompt.escape()

    def take_back(event: KeyPressEvent) -> None:
        text = controls.take_back()
        if text is not None:
            prompt.line.restore(text)
            prompt.refresh()

    def complete(event: KeyPressEvent) -> None:
        buffer = prompt.line.buffer
        wanted = CompleteEvent(completion_requested=True)
        found = list(prompt.line.completer.get_completions(buffer.document, wanted))
        if len(found) == 1:
            buffer.apply_completion(found[0])
        elif buffer.complete_state:
            buffer.complete_next()
        else:
            buffer.insert_text(get_common_complete_suffix(buffer.document, found))
            buffer.start_completion(select_first=False)

    return {
        "submit": submit,
        "newline": lambda event: prompt.line.buffer.newline(copy_margin=False),
        "interrupt": interrupt,
        "escape": escape,
        "leave": lambda event: controls.leave(),
        "send_now": lambda event: controls.send_now(),
        "steer": lambda event: controls.say_now(prompt.take_line()),
        "take_back": take_back,
        "complete": complete,
        "mode": lambda event: controls.repl.switch_mode(),
        "background": lambda event: controls.repl.session.services.runner.stopping.request_job(),
        "thoughts": lambda event: controls.repl.switch_thoughts(),
        "editor": lambda event: _spawn(prompt, _edit_line(prompt)),
        "paste_image": lambda event: _spawn(prompt, _paste_image(prompt)),
        "clear": lambda event: event.app.renderer.clear(),
        "suspend": lambda event: run_in_terminal(user_job().stop),
    }


def _spawn(prompt: Prompt, work: Awaitable[None]) -> None:
    repl = prompt.controls.repl
    repl.spawn(repl.guard(work))


async def _edit_line(prompt: Prompt) -> None:
    """Write the line in the user's editor; what was saved becomes the line."""
    saved = await prompt.edit_text(prompt.line.buffer.text, "input.md")
    if saved is not None:
        text = saved.rstrip("\n")
        prompt.line.buffer.document = Document(text, len(text))


async def _paste_image(prompt: Prompt) -> None:
    """Mention the clipboard's image where the cursor stands."""
    name = await prompt.clipboard.take()
    before = prompt.line.buffer.document.char_before_cursor
    prompt.line.buffer.insert_text(f"{' ' if before.strip() else ''}@{name} ")


def _accept_search(event: KeyPressEvent) -> None:
    """Take the found line in insert mode, also with vi's keys: it is to be edited."""
    accept_search()
    event.app.vi_state.input_mode = InputMode.INSERT


def _filter(action: str, at_line: Filter, prompt: Prompt) -> Filter:
    """Return when an action applies: some keys mean something else in a menu or in vi's modes."""
    if action == "leave":
        return at_line & Condition(lambda: not prompt.line.buffer.text)
    if action == "escape":
        empty = Condition(lambda: not prompt.line.buffer.text)
        return at_line & (~vi_mode | ~vi_insert_mode | empty)
    if action == "mode":
        return at_line & ~has_completions
    if action == "background":
        return at_line & Condition(prompt.controls.display.command_running)
    if action in ("submit", "newline"):
        searching = Condition(lambda: prompt.app.layout.is_searching)
        return at_line & ~searching
    return at_line


def _question_bindings(bindings: KeyBindings, prompt: Prompt, at_keys: Filter) -> None:
    """Bind the empty line while a question is open: single keys answer, others begin the line."""

    def give(name: str) -> Handler:
        return lambda event: prompt.navigate(name)

    for name in NAVIGATION:
        bindings.add(name, filter=at_keys, eager=True)(give(name))

    # Not eager: Ctrl-C and Esc below are keys too.
    @bindings.add(Keys.Any, filter=at_keys)
    def _key(event: KeyPressEvent) -> None:
        if len(event.data) == 1 and event.data.isprintable():
            if event.data == " " and not prompt.keys.held:
                prompt.read_on()
            else:
                prompt.press(event.data)

    @bindings.add("enter", filter=at_keys, eager=True)
    def _enter(event: KeyPressEvent) -> None:
        prompt.press("enter")

    @bindings.add("escape", filter=at_keys)
    def _back(event: KeyPressEvent) -> None:
        if prompt.keys.held:
            prompt.keys.held = ""
            prompt.refresh()
        elif not prompt.back():
            prompt.controls.escape()

    @bindings.add("escape", "escape", filter=at_keys)
    def _twice(event: KeyPressEvent) -> None:
        """Take two presses that came as one sequence; they must not count as a letter with Alt."""
        _back(event)
        _back(event)

    @bindings.add("c-c", filter=at_keys)
    @bindings.add("c-d", filter=at_keys)
    def _stop(event: KeyPressEvent) -> None:
        _leave_question(prompt)

    @bindings.add(Keys.BracketedPaste, filter=at_keys, eager=True)
    def _insert_paste(event: KeyPressEvent) -> None:
        prompt.press("paste")
        if event.data.strip():
            _paste(prompt)(event)

    @bindings.add("c-j", filter=at_keys, eager=True)
    @bindings.add("escape", Keys.Any, filter=at_keys)
    def _nothing(event: KeyPressEvent) -> None:
        """Answer nothing: a letter with Alt is no answer."""
        prompt.keys.typed()


def _leave_question(prompt: Prompt) -> None:
    """Take Ctrl-C and Ctrl-D at a question: stop the turn; without one, do what Esc does."""
    prompt.keys.typed()
    if prompt.controls.repl.turns.running or not prompt.back():
        prompt.controls.interrupt()


def _entry_bindings(bindings: KeyBindings, prompt: Prompt, at_entry: Filter) -> None:
    """Bind the entry line of a question: a reason, another command, the word that confirms."""

    @bindings.add("enter", filter=at_entry, eager=True)
    def _enter(event: KeyPressEvent) -> None:
        text = prompt.entry.text
        prompt.entry.reset()
        prompt.questions.enter(text)
        prompt.asked_again()

    @bindings.add("escape", filter=at_entry)
    @bindings.add("c-c", filter=at_entry)
    def _back(event: KeyPressEvent) -> None:
        prompt.entry.reset()
        prompt.questions.back()
        prompt.asked_again()


def _answer_bindings(bindings: KeyBindings, prompt: Prompt, at_line: Filter) -> None:
    """Bind arrows and page keys, which reach a question whose answer is on the input line."""

    def give(name: str) -> Handler:
        return lambda event: prompt.navigate(name)

    free = at_line & Condition(lambda: prompt.questions.free)
    one_line = Condition(lambda: "\n" not in prompt.line.buffer.text)
    for key in CHORDS:
        taken = Condition(partial(_takes, prompt, key))
        bindings.add(key, filter=taken, eager=True)(give(key))
    for (key,) in sequences("answer_pick"):
        when = free & one_line if key in ("up", "down") else free
        bindings.add(key, filter=when, eager=True)(give(key))


def _takes(prompt: Prompt, key: str) -> bool:
    """Return whether the open question takes this key beside the input line."""
    return prompt.questions.free and key in prompt.questions.chords


def _paste(prompt: Prompt) -> Handler:
    def handler(event: KeyPressEvent) -> None:
        if not event.data.strip():
            # Some terminals paste an image as nothing at all.
            _spawn(prompt, _paste_image(prompt))
            return
        command = prompt.line.buffer.text.startswith(("!", "/"))
        mentions = None if command else image_mentions(event.data)
        prompt.line.buffer.insert_text(mentions or prompt.line.pastes.take(event.data))

    return handler
