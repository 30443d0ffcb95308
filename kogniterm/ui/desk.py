"""What is open and shown in the REPL: the face that slash commands and fronts see of it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING

from kogniterm.errors import UsageError
from kogniterm.types import ActionRequest, ApprovalMode, Job, Plan, Text, UserInput
from kogniterm.ui.choice import Option
from kogniterm.ui.clean import one_line
from kogniterm.ui.commands.basic import basic_registry
from kogniterm.ui.front import Front
from kogniterm.ui.locale import _, translate
from kogniterm.ui.look import Look
from kogniterm.ui.preferences import Preferences
from kogniterm.ui.theme import Background, Theme
from kogniterm.ui.toolbar import Facts, short_folder
from kogniterm.ui.turns import Turns, Work
from kogniterm.ui.wiring import Opened, Wiring

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kogniterm.runtime.asking import Question
    from kogniterm.runtime.session import LiveSession
    from kogniterm.ui.paint import Painter
    from kogniterm.ui.render import Finished, ScreenSink


LAST_WORDS = 300
LAST_LINES = 12
"""How much of the last turn a resumed session shows: characters said, lines answered."""


class Desk:
    """The session, the screen, the preferences; `front` is set by who owns the desk."""

    front: Front
    turns: Turns

    def __init__(
        self, preferences: Preferences, folder: str, home: str, version: str, wiring: Wiring
    ) -> None:
        self.look = Look(preferences)
        self.wiring = wiring
        self.version = version
        self.registry = basic_registry(wiring.commands)
        self._folder = folder
        self._home = home
        self._session: LiveSession | None = None
        self._screen: ScreenSink | None = None
        self._early: list[RenderableType] = []
        """What commands wrote before there was a screen to draw it on."""

    # --- what commands use ----------------------------------------------------------------------

    @property
    def session(self) -> LiveSession:
        """The open session. Raises `UsageError` while it is still being opened."""
        if self._session is None:
            raise UsageError("The session is still being opened; try again in a moment.")
        return self._session

    @property
    def preferences(self) -> Preferences:
        """How the person wants the screen."""
        return self.look.preferences

    @property
    def theme(self) -> Theme:
        """The theme in use."""
        return self.look.theme

    @property
    def painter(self) -> Painter:
        """How things are drawn now."""
        return self._screen.painter if self._screen is not None else self.look.painter()

    @property
    def finished(self) -> Sequence[Finished]:
        """The commands that ended on this screen."""
        return self._screen.finished if self._screen is not None else ()

    @property
    def model_names(self) -> Callable[[], Sequence[str]] | None:
        """Lists the models, where the caller knows how."""
        return self.wiring.model_names

    @property
    def files(self) -> Callable[[], Iterable[str]] | None:
        """Lists the workspace's files for @ completion."""
        return self.wiring.files

    def jobs(self) -> Sequence[Job]:
        """What commands left running; nothing while the session is being opened."""
        return self._session.executor.jobs() if self._session is not None else ()

    def write(self, renderable: RenderableType) -> None:
        """Write something into the scrollback."""
        if self._screen is not None:
            self._screen.write(renderable)
        else:
            self._early.append(renderable)

    def say(self, text: Text, level: str = "info") -> None:
        """Write a sentence into the scrollback."""
        if self._screen is not None:
            self._screen.notice(text, level)
        else:
            self.front.commit(translate(text) + "\n")

    def prefer(self, **changes: object) -> None:
        """Change preferences, for now and, where the caller keeps them, for good."""
        self.look.change(**changes)
        self.front.use_keys(self.preferences.keys)
        self._restyle()
        if self.wiring.save_preference is not None:
            for name, value in changes.items():
                self.wiring.save_preference(name, value)

    def read_own_commands(self) -> tuple[str, ...]:
        """Offer the own commands as they are now; the names of those that are new."""
        from kogniterm.ui.commands.own import session_commands

        before = {command.name for command in self.registry.commands}
        commands, refused = session_commands(self.session)
        for text in refused:
            self.say(text, "warning")
        self.registry = basic_registry((*self.wiring.commands, *commands))
        return tuple(command.name for command in commands if command.name not in before)

    def steer(self, text: str) -> None:
        """Say something to the running turn; queued like any input while none runs."""
        running = self.turns.current
        if self._session is None or running is None or running.shell is not None:
            self.ask_model(UserInput(text))
            return
        self._session.steer(text)
        self.front.say_below(_("The running turn has it with its next step."))

    def ask_model(self, user_input: UserInput) -> None:
        """Queue an input for the model."""
        self.turns.add(Work(input=user_input))

    async def choose(self, title: str, body: Sequence[str], options: Sequence[Option]) -> str:
        """Ask a question with fixed answers; the value of the one that was chosen."""
        return await self.front.choose(title, body, options)

    async def ask_person(self, question: Question, answers: Sequence[str | Text]) -> str | None:
        """A question of the model's: an answer of its list, own words, or None for none."""
        from kogniterm.ui.model_question import meant

        return meant(await self.front.ask_person(question, answers), answers)

    async def edit_text(self, text: str) -> str | None:
        """`text` as it was saved in the person's editor; None when nothing was changed."""
        return await self.front.edit_text(text)

    async def show_file(self, path: str) -> None:
        """Open a file in the pager."""
        await self.front.show_file(path)

    # --- what the fronts use --------------------------------------------------------------------

    def queued(self) -> Sequence[str]:
        """What waits for its turn."""
        return [work.text for work in self.turns.queue if work.text]

    def facts(self) -> Facts:
        """What the toolbar tells."""
        session = self._session
        if session is None:
            return Facts(folder=short_folder(self._folder, self._home))
        usage = session.usage
        return Facts(
            model=session.model.name,
            mode=session.mode,
            plan_mode=session.plan_mode,
            session=session.id[:8],
            folder=short_folder(one_line(session.cwd), self._home),
            tokens=usage.input + usage.output,
            context=min(100 * session.context_tokens // session.model.context_window, 100),
            dollars=session.price(usage),
            jobs=sum(job.state == "running" for job in session.executor.jobs()),
        )

    def saw_background(self, background: Background | None) -> None:
        """The terminal said what its background is."""
        self.look.background = background
        self._restyle()

    def person_needed(self) -> None:
        """A question waits."""
        if self.look.attention is not None:
            self.look.attention.call(_("KogniTerm: a question waits for you"))

    def keyboard_lent(self) -> None:
        """A command got the keyboard: what it writes stands on the screen already.

        With one of the model's, the person is told how to get the keyboard back.
        """
        screen = self._screen
        if screen is None or screen.frame is None or screen.frame.lent:
            return
        if screen.frame.own:
            screen.frame.lent = True
            return
        screen.hand_over()
        self.say(
            Text("The keyboard is with the command; Ctrl-] leaves it running as a job."), "warning"
        )

    def plan_tools(self) -> Collection[str] | None:
        """The tools that the steps of a plan may name, once they are known."""
        from kogniterm.runtime.plans import tool_names

        return tool_names(self._session) if self._session is not None else None

    def plan_shown(self, plan: Plan) -> None:
        """A question has left this plan on the screen."""
        if self._screen is not None:
            self._screen.plan_was_shown(plan)

    def folder_of(self, request: ActionRequest) -> str:
        """The folder a request was proposed for."""
        folders = self._screen.folders if self._screen is not None else {}
        return folders.get(request.id, self._folder)

    @property
    def opened(self) -> bool:
        """Whether a session is open."""
        return self._session is not None

    def _greet(self, opened: Opened) -> None:
        values: dict[str, object] = {"name": opened.session.model.name}
        if opened.first_run:
            self.say(Text("Say what you want done."))
            self.say(_how_approval_works(opened.session.mode))
        if opened.model_reason is not None:
            values["why"] = opened.model_reason
            self.say(Text("Model: {name}. {why}", values))
        elif opened.first_run:
            self.say(Text("Model: {name}.", values))
        if opened.first_run:
            self.say(Text('Try "what takes the most space in this folder?", or /help.'))
        for notice in opened.notices:
            self.say(notice, "warning")
        self._show_last(*opened.last_turn)

    def _show_last(self, said: str, answer: str) -> None:
        """Where a resumed session was: what was said last, and the end of its answer."""
        from kogniterm.ui.clean import clean
        from kogniterm.ui.markdown import markdown

        if said:
            self.say(Text("You said last: {words}", {"words": one_line(said, LAST_WORDS)}))
        lines = clean(answer).strip().split("\n")
        if any(lines):
            more = ["…", ""] if len(lines) > LAST_LINES else []
            self.write(markdown("\n".join([*more, *lines[-LAST_LINES:]]), self.theme))

    def _restyle(self) -> None:
        self.look.redraw()
        self.front.restyle(self.theme)
        self.front.refresh()


def _how_approval_works(mode: ApprovalMode) -> Text:
    if mode == "auto":
        return Text(
            "Approval mode auto: what the policy does not refuse runs without asking; "
            "Shift-Tab switches to being asked."
        )
    return Text(
        "Every command is shown to you before it runs: y approves it, n rejects it, x explains it."
    )
