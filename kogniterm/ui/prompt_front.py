"""The REPL in front of a real terminal: the prompt, plus what needs the terminal for itself."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from prompt_toolkit.application import in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.document import Document
from prompt_toolkit.input import Input
from prompt_toolkit.input.vt100_parser import Vt100Parser
from prompt_toolkit.key_binding.key_processor import KeyPress
from prompt_toolkit.output import Output

from kogniterm.errors import UsageError
from kogniterm.ui.background import ASK_BACKGROUND, AnswerFilter, worth_asking
from kogniterm.ui.banner import banner
from kogniterm.ui.choice import Option
from kogniterm.ui.clipboard import ClipboardImages
from kogniterm.ui.completion import LineCompleter
from kogniterm.ui.editor import edited, run_program
from kogniterm.ui.file_index import FileIndex
from kogniterm.ui.lending import Lending
from kogniterm.ui.prompt import PromptFront
from kogniterm.ui.terminal_io import FilteredInput, make_output

if TYPE_CHECKING:
    from kogniterm.protocols import Approver, Terminal
    from kogniterm.runtime.asking import Question
    from kogniterm.types import Plan, PlanReview, Text
    from kogniterm.ui.choice_panel import ChoicePanel
    from kogniterm.ui.model_question_panel import ModelQuestionPanel
    from kogniterm.ui.plan_review_panel import PlanReviewPanel
    from kogniterm.ui.question import AskHooks
    from kogniterm.ui.repl import Repl
    from kogniterm.ui.theme import Theme

COPY_BYTES = 256 * 1024
ON_ITS_WAY_SECONDS = 0.05
ANSWER_SECONDS = 1.0
"""Within which a terminal that answers at all has answered, however far away it is."""
LEAVE_SECONDS = 0.15
"""How much longer the keyboard is read for an answer before leaving."""


class TerminalFront(PromptFront):
    """A `Front` on a terminal."""

    def __init__(
        self,
        repl: Repl,
        stdin: TextIO,
        stdout: TextIO,
        *,
        input_: Input | None = None,
        output: Output | None = None,
    ) -> None:
        preferences = repl.preferences
        self._answer: AnswerFilter | None = None
        self._keyboard: FilteredInput | None = None
        if input_ is None:
            input_ = self._keyboard = FilteredInput(stdin)
            self._answer = self._keyboard.filter = AnswerFilter(repl.saw_background)
        super().__init__(
            preferences,
            repl,
            theme=repl.theme,
            input_=input_,
            output=output or make_output(stdout, preferences),
            on_ready=self._ready,
            clock=repl.wiring.clock,
        )
        self._repl = repl
        self._clipboard = ClipboardImages()
        self._asked = float("-inf")
        files = None
        if repl.files is not None:
            files = FileIndex(repl.files, clock=repl.wiring.clock, arrived=self._files_arrived)
        self.completer = LineCompleter(repl, files)
        self._hooks: AskHooks | None = None
        self._lending: Lending | None = None
        self._program_runs = False
        self._pending.append(
            banner(
                repl.version,
                self.size()[1],
                repl.theme,
                unicode=preferences.unicode,
                color=preferences.color,
            )
        )
        self.after_blank = True

    def exit(self, status: int) -> None:
        """Leave. An answer that is still on its way must not meet the shell."""
        fresh = self._clock() - self._asked < ANSWER_SECONDS
        if self._answer is not None and self._answer.expecting and fresh and self.app.loop:
            self.app.loop.call_later(LEAVE_SECONDS, super().exit, status)
        else:
            super().exit(status)

    def echo(self, text: str) -> None:
        """The sent line, with the prompt's sign; of a long paste the two ends."""
        from kogniterm.ui.sent import sent

        painter = self._repl.painter
        shown = painter.paint(sent(text, painter), self.size()[1])
        self.commit(shown if self.after_blank else f"\n{shown}")

    def use_hooks(self, hooks: AskHooks) -> None:
        """Show these with every question."""
        self._hooks = hooks
        from kogniterm.ui.ask_panel import AskPanel

        if isinstance(self.panel, AskPanel):
            self.panel.hooks = hooks

    def history_redact(self, redact: Callable[[str], str] | None) -> None:
        """Keep secrets out of the history."""
        self.history.redact = redact

    def make_approver(self, repl: Repl) -> Approver:
        """The ask panel."""
        from kogniterm.ui.ask_panel import AskPanel

        panel = AskPanel(
            changed=self.refresh,
            opened=self._opened,
            closed=self.question_closed,
            entry=self.question_entry_opened,
            stop_turn=repl.stop_turn,
            folder=repl.folder_of,
            painter=lambda: repl.painter,
            review=self._review_plan,
            hooks=self._hooks,
        )
        self.panel = panel
        return panel

    async def _review_plan(self, plan: Plan, previous: Plan | None) -> PlanReview:
        """Ask about a plan."""
        from kogniterm.runtime.plan_edits import PlanDraft
        from kogniterm.ui.plan_review_panel import PlanReviewPanel

        panel = PlanReviewPanel(
            PlanDraft(plan, previous, self._repl.plan_tools()),
            painter=lambda: self._repl.painter,
            changed=self.refresh,
            entry=self.question_entry_opened,
            edit=self.edit_text,
            stop_turn=self._repl.stop_turn,
        )
        with self._in_front(panel):
            return await panel.answer()

    async def choose(self, title: str, body: Sequence[str], options: Sequence[Option]) -> str:
        """Ask a question that is answered with one key."""
        from kogniterm.ui.choice_panel import ChoicePanel

        panel = ChoicePanel(
            title, body, options, painter=lambda: self._repl.painter, changed=self.refresh
        )
        with self._in_front(panel):
            return await panel.answer()

    async def ask_person(self, question: Question, answers: Sequence[str | Text]) -> str | None:
        """Ask what the model wants to know, with an entry line for the answer."""
        from kogniterm.ui.model_question import asked
        from kogniterm.ui.model_question_panel import ModelQuestionPanel

        panel = ModelQuestionPanel(
            asked(question, answers),
            painter=lambda: self._repl.painter,
            changed=self.refresh,
            entered=lambda: self.buffer.text,
        )
        with self._in_front(panel):
            return await panel.answer()

    @contextlib.contextmanager
    def _in_front(
        self, panel: ChoicePanel | ModelQuestionPanel | PlanReviewPanel
    ) -> Iterator[None]:
        """`panel` instead of the question that stands there now, which comes back afterwards."""
        before, self.panel = self.panel, panel
        self._opened()
        try:
            yield
        finally:
            self.entry.reset()
            self.panel = before
            self.question_closed(panel.transcript())

    async def edit_text(self, text: str) -> str | None:
        """`text` as it was saved in the person's editor; None when nothing was changed."""
        return await edited(text, self.preferences.editor, self._run_program)

    async def edit_outside(self) -> None:
        """Write the line in the person's editor; what was saved becomes the line."""
        with tempfile.TemporaryDirectory(prefix=f"kogniterm-{os.getpid()}-") as folder:
            file = Path(folder) / "input.md"
            file.write_text(self.buffer.text, encoding="utf-8")
            status = await self._run_program([*self.preferences.editor, str(file)])
            if status == 0:
                text = file.read_text(encoding="utf-8", errors="replace").rstrip("\n")
                self.buffer.document = Document(text, len(text))

    async def paste_image(self) -> None:
        """Mention the clipboard's image where the cursor stands."""
        name = await self._clipboard.take()
        before = self.buffer.document.char_before_cursor
        self.buffer.insert_text(f"{' ' if before.strip() else ''}@{name} ")

    def pasted_images(self, line: str) -> Sequence[str]:
        """The files of the pasted images that `line` mentions."""
        return self._clipboard.named(line)

    async def run(self) -> int:
        """Show the prompt until it is left; pasted images are gone then."""
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGINT, self._interrupted)
        try:
            return await super().run()
        finally:
            loop.remove_signal_handler(signal.SIGINT)
            self._clipboard.close()

    def _interrupted(self) -> None:
        """SIGINT, from outside or from a terminal that is not the prompt's and makes it of Ctrl-C.

        A pager or an editor hears the signal itself.
        """
        if not self._program_runs:
            self.conversation.interrupt()

    async def show_file(self, path: str) -> None:
        """Open a file in the pager: a copy that cannot do anything to the terminal."""
        with tempfile.TemporaryDirectory(prefix=f"kogniterm-{os.getpid()}-") as folder:
            copy = Path(folder) / "output"
            try:
                await asyncio.to_thread(_safe_copy, Path(path), copy)
            except OSError as error:
                raise UsageError("The file {path} is gone.", path=path) from error
            await self._run_program([*self.preferences.pager, str(copy)])

    def terminal(self) -> Terminal:
        """The person's terminal, for a command that needs their keyboard."""
        from kogniterm.ui.handover import PersonTerminal

        if self._lending is None:
            self._lending = Lending(self._keyboard_lent, self._late)
        return PersonTerminal(
            self.app.input.fileno(),
            self.app.output.fileno(),
            suspend=self._lending.suspend,
            resume=self._lending.resume,
            typed=self._lending.typed,
        )

    def _late(self, keys: bytes) -> None:
        """Keys that a command left unread are the prompt's, as they would be a shell's."""
        pressed: list[KeyPress] = []
        parser = Vt100Parser(pressed.append)
        parser.feed(keys.decode("utf-8", "replace"))
        parser.flush()
        self.app.key_processor.feed_multiple(pressed)
        self.app.key_processor.process_keys()

    @contextlib.asynccontextmanager
    async def lent(self) -> AsyncIterator[None]:
        """The terminal without the prompt on it, in the modes it had before."""
        with set_app(self.app):
            async with in_terminal():
                yield

    @contextlib.asynccontextmanager
    async def _keyboard_lent(self) -> AsyncIterator[None]:
        """The terminal for a running command; its person is told how to get it back."""
        # What the command wrote just now is still on its way to the screen.
        await asyncio.sleep(ON_ITS_WAY_SECONDS)
        self._repl.keyboard_lent()
        # In line mode for a moment, the terminal would echo what is typed at a hidden prompt.
        raw = self._keyboard.resting_raw() if self._keyboard else contextlib.nullcontext()
        with raw:
            async with self.lent():
                self.write_pending()
                yield

    async def _run_program(self, command: Sequence[str]) -> int:
        async with self.lent():
            self._program_runs = True
            try:
                return await run_program(command)
            finally:
                self._program_runs = False

    def _files_arrived(self) -> None:
        """The list of files is new: complete again if somebody waits for it."""
        loop = self.app.loop
        if loop is not None and self.app.is_running:
            with contextlib.suppress(RuntimeError):  # it closed in this moment: nobody waits
                loop.call_soon_threadsafe(self._complete_again)

    def _complete_again(self) -> None:
        word = self.buffer.document.text_before_cursor.rpartition(" ")[2]
        if word.startswith("@"):
            self.buffer.start_completion(select_first=False)

    def _opened(self) -> None:
        self._repl.person_needed()
        self.question_opened()

    def restyle(self, theme: Theme) -> None:
        """Use another theme from the next frame on."""
        super().restyle(theme)
        self._ask_background()

    def _ask_background(self) -> None:
        """Once, when the answer matters."""
        if (
            self._answer is not None
            and self._asked == float("-inf")
            and worth_asking(self._repl.preferences)
        ):
            self._answer.expecting = True
            self._asked = self._clock()
            self.control(ASK_BACKGROUND)

    def _ready(self) -> None:
        self._ask_background()
        self._repl.ready()


def _safe_copy(source: Path, target: Path) -> None:
    """Copy command output without what a terminal would obey, except colours."""
    from kogniterm.approval.sanitize import Sanitizer

    cleaner = Sanitizer()
    with source.open("rb") as read, target.open("wb") as write:
        while data := read.read(COPY_BYTES):
            write.write(cleaner.feed(data).replace(b"\r\n", b"\n"))
        write.write(cleaner.flush())
