"""The REPL in front of a real terminal: the prompt, plus what needs the terminal for itself."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from kogniterm.errors import UsageError
from kogniterm.ui.banner import banner
from kogniterm.ui.choice import Option
from kogniterm.ui.clipboard import ClipboardImages
from kogniterm.ui.completion import LineCompleter
from kogniterm.ui.editor import edited, run_program
from kogniterm.ui.file_index import FileIndex
from kogniterm.ui.lending import Lending
from kogniterm.ui.prompt import PromptFront
from kogniterm.ui.terminal_io import ASK_BACKGROUND, FilteredInput, make_output
from prompt_toolkit.application import in_terminal
from prompt_toolkit.application.current import set_app
from prompt_toolkit.document import Document
from prompt_toolkit.input import Input
from prompt_toolkit.output import Output

if TYPE_CHECKING:
    from kogniterm.protocols import Approver, Terminal
    from kogniterm.types import Plan, PlanReview
    from kogniterm.ui.choice_panel import ChoicePanel
    from kogniterm.ui.model_question_panel import ModelQuestionPanel
    from kogniterm.ui.plan_review_panel import PlanReviewPanel
    from kogniterm.ui.question import AskHooks
    from kogniterm.ui.repl import Repl

_QUERY_TERMS = (
    "xterm",
    "tmux",
    "screen",
    "rxvt",
    "alacritty",
    "foot",
    "kitty",
    "wezterm",
    "ghostty",
)

COPY_BYTES = 256 * 1024
ON_ITS_WAY_SECONDS = 0.05


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
        self._filtered: FilteredInput | None = None
        if input_ is None:
            input_ = self._filtered = FilteredInput(stdin)
            self._filtered.on_background = repl.saw_background
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
        files = None
        if repl.files is not None:
            files = FileIndex(
                repl.files, clock=repl.wiring.clock, arrived=self._files_arrived
            )
        self.completer = LineCompleter(repl, files)
        self._hooks: AskHooks | None = None
        self._lending: Lending | None = None
        self._pending.append(
            banner(
                repl.version,
                self.size()[1],
                repl.theme,
                unicode=preferences.unicode,
                color=preferences.color,
            )
        )

    def echo(self, text: str) -> None:
        """The sent line, with the prompt's sign."""
        from kogniterm.ui.clean import clean
        from rich.text import Text

        sign = "› " if self.preferences.unicode else "> "
        first, *rest = clean(text).split("\n")
        line = Text.assemble((sign, "prompt"), (first, "bold"))
        for more in rest:
            line.append(f"\n  {more}", "bold")
        self.commit(
            ("" if self.after_blank else "\n")
            + self._repl.painter.paint(line, self.size()[1])
        )

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

    async def choose(
        self, title: str, body: Sequence[str], options: Sequence[Option]
    ) -> str:
        """Ask a question that is answered with one key."""
        from kogniterm.ui.choice_panel import ChoicePanel

        panel = ChoicePanel(
            title,
            body,
            options,
            painter=lambda: self._repl.painter,
            changed=self.refresh,
        )
        with self._in_front(panel):
            return await panel.answer()

    async def ask_person(self, question: str, answers: Sequence[str]) -> str | None:
        """Ask what the model wants to know, with an entry line for the answer."""
        from kogniterm.ui.model_question import asked
        from kogniterm.ui.model_question_panel import ModelQuestionPanel

        panel = ModelQuestionPanel(
            asked(question, answers),
            painter=lambda: self._repl.painter,
            changed=self.refresh,
            entered=lambda: self.entry.text,
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
            if self.question_open:
                self.question_opened()

    async def edit_text(self, text: str) -> str | None:
        """`text` as it was saved in the person's editor; None when nothing was changed."""
        return await edited(text, self.preferences.editor, self._run_program)

    async def edit_outside(self) -> None:
        """Write the line in the person's editor; what was saved becomes the line."""
        with tempfile.TemporaryDirectory(prefix="kogniterm-") as folder:
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
        try:
            return await super().run()
        finally:
            self._clipboard.close()

    async def show_file(self, path: str) -> None:
        """Open a file in the pager: a copy that cannot do anything to the terminal."""
        with tempfile.TemporaryDirectory(prefix="kogniterm-") as folder:
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
            self._lending = Lending(self._keyboard_lent)
        return PersonTerminal(
            self.app.input.fileno(),
            self.app.output.fileno(),
            suspend=self._lending.suspend,
            resume=self._lending.resume,
        )

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
        async with self.lent():
            self.write_pending()
            yield

    async def _run_program(self, command: Sequence[str]) -> int:
        async with self.lent():
            return await run_program(command)

    def _files_arrived(self) -> None:
        """The list of files is new: complete again if somebody waits for it."""
        loop = self.app.loop
        if loop is not None and self.app.is_running:
            loop.call_soon_threadsafe(self._complete_again)

    def _complete_again(self) -> None:
        word = self.buffer.document.text_before_cursor.rpartition(" ")[2]
        if word.startswith("@"):
            self.buffer.start_completion(select_first=False)

    def _opened(self) -> None:
        self._repl.person_needed()
        self.question_opened()

    def _ready(self) -> None:
        preferences = self.preferences
        known = preferences.term.startswith(_QUERY_TERMS)
        if (
            self._filtered is not None
            and preferences.theme == "auto"
            and preferences.color
            and not preferences.colorfgbg
            and known
        ):
            self._filtered.expecting = True
            self.control(ASK_BACKGROUND)
        self._repl.ready()


def _safe_copy(source: Path, target: Path) -> None:
    """Copy command output without what a terminal would obey, except colours."""
    from kogniterm.approval.sanitize import Sanitizer

    cleaner = Sanitizer()
    with source.open("rb") as read, target.open("wb") as write:
        while data := read.read(COPY_BYTES):
            write.write(cleaner.feed(data).replace(b"\r\n", b"\n"))
        write.write(cleaner.flush())
