"""The screen as a sink of the runtime's events: the REPL and one-shot text mode share it.

What is finished is written for good, in order; what is in progress (the open block of an
answer, a running command, the plan, the status line) is the live region, drawn on demand.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from kogniterm.installed import part
from kogniterm.text.shorten import one_line
from kogniterm.text.visible import code_block, render_request
from kogniterm.types import RUN_ON_HOSTS, Phrase, Plan, Usage
from kogniterm.types import events as ev
from kogniterm.ui.locale import _, plural, translate
from kogniterm.ui.screen import plan_panel, status_line
from kogniterm.ui.screen.command_frame import CommandFrame
from kogniterm.ui.screen.diffs import diff
from kogniterm.ui.screen.markdown import MarkdownStream, markdown_lines
from kogniterm.ui.screen.paint import Painter, Readable
from kogniterm.ui.screen.screen_preferences import ThoughtsName
from kogniterm.ui.screen.status_line import Retry, Status
from kogniterm.ui.screen.surface import Attention, Surface
from kogniterm.ui.screen.thoughts import Thoughts
from kogniterm.ui.screen.tool_lines import DELEGATE, AgentLines, tool_line
from kogniterm.ui.words.approval_words import refused_text
from kogniterm.ui.words.turn_words import QUIET_TOOLS, again, left_texts

_LEVELS = {"info": "muted", "warning": "warn", "error": "bad"}
_PLAN_ROWS = 8
_MAIN_ROWS = 5
"""Rows that the live one of several commands gets at least."""


class FinishedCommand(NamedTuple):
    """A command that ended, for `/output`."""

    number: int
    command: str
    output_path: str | None
    text: str
    bytes: int


NOTIFY_AFTER = 20.0
"""Seconds after which the end of a turn calls the user."""


class ScreenOptions(NamedTuple):
    """Options of a screen. `fold` is in lines of output.

    Without `answers` the last response of a turn is left out: it is printed elsewhere.
    `unfold_key` is what the user can press or type to unfold thoughts, if anything.
    """

    fold: int = 16
    live: bool = True
    answers: bool = True
    thoughts: ThoughtsName = "folded"
    unfold_key: str = ""


class _TurnState:
    """The state of one turn."""

    def __init__(self) -> None:
        self.streamed = ""
        self.held: list[str] = []
        self.usage = Usage()


class ScreenSink(ev.EventVisitor):
    """Call it with every event of `kogniterm.types.events`, on the loop's thread."""

    def __init__(
        self,
        painter: Painter,
        surface: Surface,
        *,
        clock: Callable[[], float],
        options: ScreenOptions | None = None,
        attention: Attention | None = None,
    ) -> None:
        self.painter = painter
        self.surface = surface
        self.options = options or ScreenOptions()
        self.plan: Plan | None = None
        self.plan_shown: Plan | None = None
        self.frames: dict[str, CommandFrame] = {}
        self._keyboard = ""
        self._held: list[str] = []
        self.finished: list[FinishedCommand] = []
        self.running = False
        self.folders: dict[str, str] = {}
        self._unasked: dict[str, str] = {}
        self._hosts: Any = None
        self.agents = AgentLines()
        self.thoughts = Thoughts(clock, self.options.thoughts, self.options.unfold_key)
        self._attention = attention
        self._clock = clock
        self._status = Status(clock)
        self._stream = MarkdownStream()
        self._turn = _TurnState()
        surface.attach(self.live)

    # --- for the rest of the interface ---------------------------------------------------------

    @property
    def frame(self) -> CommandFrame | None:
        """The running command: of several, the one with the keyboard, or that needs most notice."""
        frames = self.frames.values()
        if self._keyboard in self.frames:
            return self.frames[self._keyboard]
        asking = (frame for frame in frames if frame.asks)
        running = (frame for frame in frames if not frame.done)
        return next(asking, next(running, next(iter(frames), None)))

    def write(self, renderable: RenderableType) -> None:
        """Write something for good, between the events."""
        self.surface.commit(self.painter.paint(renderable, self._columns()))

    def hand_over(self) -> None:
        """Write what the command wrote so far for good: the user gets its keyboard."""
        if self.frame is not None:
            rows, columns = self.surface.size()
            self.surface.commit(self.frame.hand_over(self.painter, columns, rows - 6))

    def use_thoughts(self, name: ThoughtsName) -> None:
        """Show thoughts in this way from now on; "shown" unfolds the last ones."""
        self.thoughts.name = name
        if name == "shown" and self.thoughts.folded:
            self.show_thoughts()
        self.surface.refresh()

    def show_thoughts(self) -> bool:
        """Write the last thoughts whole; return False if there are none."""
        text = self.thoughts.last(self.painter, self._columns())
        if text:
            self.surface.commit(text)
        return bool(text)

    def settle(self) -> None:
        """Leave no spinner and no frame behind, however the turn ended."""
        self._finish_block()
        frames, self.frames, self._keyboard = self.frames, {}, ""
        self._write_held_back()
        for frame in frames.values():
            if not frame.has_keyboard:
                lines = frame.header(self.painter, self._columns())
                self.surface.commit("\n".join(lines) + "\n")
        if self.running:
            self._set_running(False)

    def live(self, columns: int, rows: int) -> list[str]:
        """Return the live region: at most `rows` lines of at most `columns` cells."""
        if not self.running and self.frame is None:
            return []
        timed = self.frame is None
        status = [self._status.line(self.painter, columns, timed=timed)] if self.running else []
        room = rows - len(status)
        plan: list[str] = []
        if self.plan is not None and self.running and room >= 6:
            plan = plan_panel.window(self.plan, self.painter, columns, min(_PLAN_ROWS, room // 2))
        body = self._body(columns, room - len(plan))
        return [*body, *plan, *status]

    # --- events --------------------------------------------------------------------------------

    def on_turn_started(self, event: ev.TurnStarted) -> None:
        self._turn = _TurnState()
        self.agents.clear()
        self.plan = None
        self._status.start()
        self._status.now(_("Thinking"))
        self._set_running(True)

    def on_model_called(self, event: ev.ModelCalled) -> None:
        self._nothing_is_asked()
        self._response_was_not_last()
        self._turn.streamed = ""
        if event.purpose == "judge":
            self._status.now(_("Checking the step against its output"))
        elif event.purpose == "compact":
            self._status.now(_("Compacting the history"))
        elif event.agent:
            self._status.now(_("Sub-agent thinking"))
        else:
            planning = event.purpose == "create_plan"
            self._status.now(_("Understanding the task") if planning else _("Thinking"))
        self.surface.refresh()

    def on_thought_delta(self, event: ev.ThoughtDelta) -> None:
        self.thoughts.feed(event.text)
        self.surface.refresh()

    def on_answer_delta(self, event: ev.AnswerDelta) -> None:
        self._end_thoughts()
        self._turn.streamed += event.text
        for source in self._stream.feed(event.text):
            self._write_response(source)
        self._status.activity = _("Writing")
        self.surface.refresh()

    def on_model_loading(self, event: ev.ModelLoading) -> None:
        self._status.now(_("Thinking") if event.done else _("Loading the local model"))

    def on_model_retried(self, event: ev.ModelRetried) -> None:
        self._finish_block()
        before, due = self._status.retry, self._clock() + event.wait
        self._status.retry = Retry(event.attempt, event.of, due, event.reason)
        line = Text(f"{self.painter.symbol('warn')} ", "warn")
        if event.attempt == 1 or before is None or before.reason != event.reason:
            line.append(f"{one_line(translate(event.reason))} ", "muted")
        line.append(again(event.wait, event.attempt, event.of), "muted")
        self.write(line)

    def on_model_answered(self, event: ev.ModelAnswered) -> None:
        self._finish_block()
        self._turn.usage = self._turn.usage + event.usage
        self._status.usage = self._turn.usage
        self._status.retry = None
        self.surface.refresh()

    def on_budget_used(self, event: ev.BudgetUsed) -> None:
        self._status.budgets = event.budgets

    def on_plan_reviewed(self, event: ev.PlanReviewed) -> None:
        self._nothing_is_asked()
        if event.kind == "reject":
            self.write(plan_panel.refusal(event.by, event.reason, self.painter))

    def on_plan_changed(self, event: ev.PlanChanged) -> None:
        self._response_was_not_last()
        previous, self.plan = self.plan or event.previous, event.plan
        shown, self.plan_shown = self.plan_shown, None
        if shown is not None and plan_panel.same_steps(shown, event.plan):
            return
        if previous is None or not plan_panel.same_steps(previous, event.plan):
            self.write(plan_panel.whole(event.plan, self.painter, event.previous))
        else:
            for line in plan_panel.changes(previous, event.plan, self.painter):
                self.write(line)
        self.surface.refresh()

    def on_tool_ran(self, event: ev.ToolRan) -> None:
        self._nothing_is_asked()
        self._response_was_not_last()
        if event.name in QUIET_TOOLS and not event.failed:
            return
        ended = self.agents.ended(event, self.painter) if event.name == DELEGATE else None
        if ended is None:
            ran = event.name, event.arguments, event.observation
            line = tool_line(self.painter, *ran, failed=event.failed, malformed=event.malformed)
            ended = self.agents.inside(event.agent, line)
        self.write(ended)

    def on_agent_started(self, event: ev.AgentStarted) -> None:
        self._response_was_not_last()
        self._finish_block()
        self.write(self.agents.started(event, self.painter))

    def on_action_proposed(self, event: ev.ActionProposed) -> None:
        self._response_was_not_last()
        self._finish_block()
        self.folders[event.request.id] = event.cwd
        begun = self.agents.proposed(event.request, self.painter)
        if begun is not None:
            self.write(begun)
        if event.verdict.kind == "ask":
            self._status.wait()
        if event.verdict.kind == "allow" and event.request.detail:
            self._unasked[event.request.id] = event.request.detail
        if event.verdict.kind != "deny":
            return
        line = Text()
        line.append(f"{self.painter.symbol('failed')} ", "bad")
        line.append(refused_text(event.verdict), "bad")
        line.append(f" {render_request(event.request)}", "command")
        # What a hard limit refuses, the report may have said in the same words.
        said = dict.fromkeys(map(translate, event.verdict.reasons))
        reasons = [Text(f"  {reason}", "muted") for reason in said]
        self.write(Group(line, *reasons))

    def on_action_decided(self, event: ev.ActionDecided) -> None:
        self._nothing_is_asked()
        self._status.go_on()
        if event.decision.kind == "reject" and event.decision.by == ev.START_CHECK:
            # An approved command was not started, as it would run something else.
            line = Text()
            line.append(f"{self.painter.symbol('failed')} ", "bad")
            line.append(_("Not run: "), "bad")
            line.append(translate(event.decision.why), "")
            self.write(self.agents.inside_action(event.request.id, line))
            return
        if event.decision.kind != "reject" or event.decision.by != "person":
            return
        line = Text(f"{self.painter.symbol('failed')} ", "muted")
        line.append(_("Rejected: "), "muted")
        line.append(render_request(event.request), "muted")
        self.write(self.agents.inside_action(event.request.id, line))
        if event.decision.reason:
            reason = Text(f"  {one_line(event.decision.reason)}", "muted")
            self.write(self.agents.inside_action(event.request.id, reason))

    def on_command_started(self, event: ev.CommandStarted) -> None:
        self._finish_block()
        own = not self.running
        self.frames[event.request_id] = CommandFrame(
            event.command,
            event.cwd,
            self._clock(),
            clock=self._clock,
            own=own,
            indent=self.agents.indent(event.request_id),
        )
        self._tell_running()
        if own:
            self.surface.animate(self.options.live)
        self.surface.refresh()

    def on_command_output(self, event: ev.CommandOutput) -> None:
        if (frame := self.frames.get(event.request_id)) is not None:
            frame.output.feed(event.data)
            self.surface.refresh()

    def on_command_waiting(self, event: ev.CommandWaiting) -> None:
        if (frame := self.frames.get(event.request_id)) is not None:
            frame.waiting = event.waiting
            self.surface.refresh()

    def on_keyboard_moved(self, event: ev.KeyboardMoved) -> None:
        self._keyboard = event.request_id

    def on_command_done(self, event: ev.CommandDone) -> None:
        """Show that a command has ended whose result is told after those before it."""
        if (frame := self.frames.get(event.request_id)) is not None:
            frame.end(event.exit_code)
        if self._keyboard == event.request_id:
            self._keyboard = ""
            self._write_held_back()
        self._tell_running()
        self.surface.refresh()

    def _tell_running(self) -> None:
        running = sum(not frame.done for frame in self.frames.values())
        several = plural("Running the command", "Running {count} commands", running)
        self._status.now(several if running else _("Thinking"))

    def _write_held_back(self) -> None:
        """Write what ended while another command had the keyboard and the screen."""
        held, self._held = self._held, []
        for drawn in held:
            self.surface.commit(drawn)

    def on_command_ended(self, event: ev.CommandEnded) -> None:
        result = event.result
        started = self._clock() - result.duration
        frame = self.frames.pop(event.request_id, None)
        if frame is None:
            frame = CommandFrame(result.command, result.cwd, started, clock=self._clock)
        if self._keyboard == event.request_id:
            self._keyboard = ""
        number = len(self.finished) + 1
        self.finished.append(
            FinishedCommand(
                number, result.command, result.output_path, result.text, result.output_bytes
            )
        )
        drawn = frame.ended(result, self.painter, self.options.fold, self._columns(), number)
        self._tell_running()
        if not self.running:
            self.surface.animate(False)
        for other in self.frames.values():
            other.cut_off = other.has_keyboard
        if self._keyboard:
            self._held.append(drawn)
        else:
            self.surface.commit(drawn)

    def on_hosts_started(self, event: ev.HostsStarted) -> None:
        self._finish_block()
        self._hosts = part("DRAWN", "hosts_started")(event.groups)
        self._status.now(self._hosts.text())
        self.surface.refresh()

    def on_host_answered(self, event: ev.HostAnswered) -> None:
        if self._hosts is not None:
            self._hosts.answered.add(event.answer.host)
            self._status.now(self._hosts.text())
        self.surface.refresh()

    def on_hosts_ended(self, event: ev.HostsEnded) -> None:
        self._hosts = None
        self._status.now(_("Thinking"))
        draw = part("DRAWN", "hosts_ended")
        for line in draw(event.command, event.groups, self.painter.symbol, self.options.fold):
            self.write(self.agents.inside_action(event.request_id, line))

    def on_action_progress(self, event: ev.ActionProgress) -> None:
        self._status.now(one_line(f"{event.tool}: {event.text}", 100))
        self.surface.refresh()

    def on_action_ended(self, event: ev.ActionEnded) -> None:
        self._nothing_is_asked()
        if event.tool == "ask_user" and not event.failed:
            return  # whoever asked has shown question and answer
        if event.tool == RUN_ON_HOSTS:
            return  # the answers were shown
        change = self._unasked.pop(event.request_id, "")
        ended = event.tool, event.arguments, event.observation
        folder = self.folders.get(event.request_id, "")
        line = tool_line(self.painter, *ended, failed=event.failed, folder=folder)
        self.write(self.agents.inside_action(event.request_id, line))
        if change and not event.failed:  # nobody has seen it at a question
            limit, columns = self.options.fold, self._columns()
            unnamed = change.split("\n", 2)[-1]
            self.write(diff(unnamed, limit=limit, columns=columns))

    def on_notice(self, event: ev.Notice) -> None:
        self._finish_block()
        self.notice(event.text, event.level)

    def on_jobs_left(self, event: ev.JobsLeft) -> None:
        self._finish_block()
        for text in left_texts(event.programs):
            self.notice(text)

    def notice(self, text: Phrase, level: str = "info") -> None:
        """Write a sentence for the user."""
        style = _LEVELS.get(level, "muted")
        sign = self.painter.symbol("bullet" if style == "muted" else "warn")
        row = Table.grid(padding=(0, 1))
        row.add_column()
        row.add_column(overflow="fold")  # a long path stays whole
        row.add_row(Text(sign, style), Text(translate(text), style))
        self.write(Readable(row))

    def on_turn_ended(self, event: ev.TurnEnded) -> None:
        self._finish_block()
        answer = event.answer
        self.plan = None
        self._set_running(False)
        text = answer.text.strip()
        streamed = text and self._turn.streamed.strip().endswith(text)
        if not streamed:
            self._write_held()
        if text and not streamed and self.options.answers:
            self._write_block(code_block(answer.text.strip("\n")) if answer.verbatim else text)
        proved = status_line.findings(answer, self.painter)
        if proved is not None:
            self.write(proved)
        seconds = answer.seconds or self._status.turn_seconds
        usage = answer.usage if answer.usage.calls else self._turn.usage
        self.write(Readable(status_line.last_line(answer, self.painter, usage, seconds)))
        if self._attention is not None and seconds >= NOTIFY_AFTER:
            self._attention.call(_("KogniTerm: turn finished"))

    # --- pieces --------------------------------------------------------------------------------

    def _nothing_is_asked(self) -> None:
        if self._attention is not None:
            self._attention.waiting(False)

    def _response_was_not_last(self) -> None:
        """Write what is not the answer of the turn, which is printed elsewhere."""
        if not self.options.answers:
            self._finish_block()
            self._write_held()

    def _end_thoughts(self) -> None:
        over = self.thoughts.end(self.painter, self._columns())
        if over:
            self.surface.commit(over)

    def _finish_block(self) -> None:
        self._end_thoughts()
        rest = self._stream.finish()
        if rest:
            self._write_response(rest)

    def _write_response(self, source: str) -> None:
        """Write a finished piece of a response; it may be the answer that is printed elsewhere."""
        if self.options.answers:
            self._write_block(source)
        else:
            self._turn.held.append(source)

    def _write_held(self) -> None:
        held, self._turn.held = self._turn.held, []
        for source in held:
            self._write_block(source)

    def _write_block(self, source: str) -> None:
        """Write a finished piece of Markdown, with one blank line after it."""
        lines = markdown_lines(source, self.painter, self._columns())
        if lines:
            self.surface.commit("\n".join(lines) + "\n\n")

    def _body(self, columns: int, rows: int) -> list[str]:
        if rows <= 0:
            return []
        if len(self.frames) > 1:
            return self._several(columns, rows)
        if self.frame is not None:
            return self.frame.live(self.painter, columns, rows)
        source = self._stream.open_tail(rows)
        if not source.strip():
            return self.thoughts.live(self.painter, columns, rows)
        return markdown_lines(source, self.painter, columns)[-rows:]

    def _several(self, columns: int, rows: int) -> list[str]:
        """Return the commands that run at once: one live, the others in two lines, in their order.

        Where there is no room for all, those that were started last are only counted.
        """
        main = self.frame
        assert main is not None
        others = [frame for frame in self.frames.values() if frame is not main]
        room = max((rows - _MAIN_ROWS) // 2, 0)
        left_out = others[room:]
        extra = 1 if left_out else 0
        lines: list[str] = []
        for frame in self.frames.values():
            if frame is main:
                height = rows - 2 * (len(others) - len(left_out)) - extra
                lines += frame.live(self.painter, columns, height)
            elif frame not in left_out:
                lines += frame.brief(self.painter, columns)
        if left_out:
            more = plural("{count} more command", "{count} more commands", len(left_out))
            lines.append(self.painter.lines(Text(f"  {more}", "muted"), columns)[0])
        return lines[:rows]

    def _set_running(self, on: bool) -> None:
        self.running = on
        self.surface.animate(on and self.options.live)
        if self._attention is not None:
            self._attention.working(on)

    def _columns(self) -> int:
        return self.surface.size()[1]
