"""The last turns of a resumed session look as the live screen did, and fit the screen."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from kogniterm.runtime.replay.recorded_events import PastTurns, past_turns
from kogniterm.types import Plan, PlanReview, UserInput, events
from kogniterm.ui.locale import use_language
from kogniterm.ui.past_turns import FOLD, draw_past_turns
from kogniterm.ui.screen.paint import Painter, paint_input
from kogniterm.ui.screen.renderer import ScreenOptions, ScreenSink
from kogniterm.ui.screen.surface import LineSurface
from tests.flows.conftest import Flow, MakeFlow, change_to, make_flow, no, yes
from tests.ui.face import PLAIN
from tests.ui.golden_screens import without_figures

__all__ = ["make_flow"]

COLUMNS = 70
TALL = (200, COLUMNS)

COMMANDS = """replies:
  - text: "I **count** first.\\n\\n"
    calls: [{tool: execute_command, arguments: {command: seq 1 40, purpose: Count.}}]
  - {run: "echo oops >&2; exit 3", purpose: Fail.}
  - calls: [{tool: read_file, arguments: {path: notes.txt}}]
  - calls: [{tool: read_file, arguments: {path: nowhere.txt}}]
  - {text: "## Done\\n\\nForty numbers."}
"""
PLANNED = """replies:
  - plan: {goal: look around, steps: [{what: list the files}, {what: count them}]}
  - {run: ls, purpose: List.}
  - calls:
      - {tool: complete_step, arguments: {step: s1}}
      - {tool: execute_command, arguments: {command: ls | wc -l, purpose: Count.}}
  - calls: [{tool: complete_step, arguments: {step: s2}}]
  - {text: There is one file.}
"""
DELEGATED = """replies:
  - when: {turn: 1, last_contains: Compare them}
    calls: [{tool: delegate, arguments: {task: Look at notes.txt, tools: run}}]
  - when: {last_contains: Look at notes.txt}
    calls: [{tool: execute_command, arguments: {command: cat notes.txt}}]
  - {when: {last_contains: one two}, text: It has two words.}
  - {when: {last_contains: It has two words}, text: Two words.}
"""


def live(flow: Flow, *inputs: str) -> str:
    """Draw the events of the flow, each turn after its input, as the REPL does."""
    page = io.StringIO()
    options = ScreenOptions(fold=FOLD, live=False)
    sink = ScreenSink(PLAIN, LineSurface(page, COLUMNS), clock=lambda: 0.0, options=options)
    left = list(inputs)
    for event in flow.events:
        own = isinstance(event, events.CommandStarted) and not sink.running
        if own or isinstance(event, events.TurnStarted):
            if page.getvalue():
                sink.write("")
            sink.write(paint_input(left.pop(0), PLAIN))
        sink(event)
    return page.getvalue()


def replayed(flow: Flow, size: tuple[int, int] = TALL) -> str:
    assert flow.session is not None
    return draw_past_turns(past_turns(flow.session), PLAIN, size, [])


def same_but_for_figures(one: str, other: str) -> None:
    assert without_figures(one).strip() == without_figures(other).strip()


@pytest.fixture(params=["en", "es"])
def each_language(request: pytest.FixtureRequest) -> Iterator[None]:
    use_language(request.param)
    yield
    use_language("en")


@pytest.mark.parametrize(
    ("script", "task"),
    [(COMMANDS, "Count them"), (PLANNED, "Look around"), (DELEGATED, "Compare them")],
)
@pytest.mark.usefixtures("each_language")
async def test_a_resumed_session_looks_as_it_did(
    make_flow: MakeFlow, script: str, task: str
) -> None:
    flow = make_flow(script)
    (flow.folder / "notes.txt").write_text("one two\n")
    await flow.run(task)
    assert flow.session is not None
    await flow.session.run_shell("echo mine", sink=flow.tell)
    same_but_for_figures(replayed(flow), live(flow, task, "!echo mine"))


async def test_it_looks_the_same_in_another_process(make_flow: MakeFlow) -> None:
    flow = make_flow(COMMANDS)
    (flow.folder / "notes.txt").write_text("one two\n")
    await flow.run("Count them")
    before, key = replayed(flow), flow.session.id  # type: ignore[union-attr]
    flow.close()
    started = len(flow.events)
    flow.open(key)
    assert replayed(flow) == before
    # Showing the turns executed nothing.
    assert len(flow.events) == started


async def test_refusals_and_changed_commands_are_told(make_flow: MakeFlow) -> None:
    script = """replies:
      - {run: "echo one", purpose: First.}
      - {run: "echo two", purpose: Second.}
      - {text: Fine.}
    """
    flow = make_flow(script, decisions=[change_to("echo changed"), yes, no("not today")])
    await flow.run("Say it")
    text = replayed(flow)
    assert "$ echo changed" in text
    assert "echo one" not in text
    assert "Run this command?" in text
    assert "Rejected: echo two\n  not today" in text
    assert text.index("$ echo two") < text.index("Rejected: echo two")


async def test_plans_that_were_rejected_and_questions_of_the_model_stay(
    make_flow: MakeFlow,
) -> None:
    script = """replies:
      - plan: {goal: paint it, steps: [{what: paint it red}]}
      - calls: [{tool: ask_user, arguments: {question: "Which colour?", answers: [red, blue]}}]
      - {text: Blue it is.}
    """

    def never(plan: Plan) -> PlanReview:
        return PlanReview("reject", plan, "person", "red is wrong")

    flow = make_flow(script, decisions=[])
    assert flow.user is not None
    flow.user.reviews.append(never)
    session = flow.open()

    async def answer(_question: object, _answers: object) -> str:
        return "blue"

    await session.run(UserInput("Paint"), approver=flow.user, sink=flow.tell, ask=answer)
    text = replayed(flow)
    assert "paint it red" in text
    assert "You rejected the plan: red is wrong" in text
    assert text.index("Which colour?") < text.index("→ blue") < text.index("Blue it is.")


async def test_only_the_last_turns_are_shown_with_how_to_read_the_rest(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow("replies: [{text: 'Answer {N}.', repeat: forever}]")
    for number in range(1, 6):
        await flow.run(f"Question {number}")
    session = flow.session
    assert session is not None
    first, *_rest = text = replayed(flow).splitlines()
    assert first == f"… 3 earlier turns · kogniterm sessions show {session.id[:8]}"
    assert [line for line in text if "Question" in line] == ["› Question 4", "› Question 5"]


async def test_a_long_turn_keeps_its_input_and_its_end(make_flow: MakeFlow) -> None:
    lines = "\\n\\n".join(f"line {number}" for number in range(100))
    flow = make_flow(f'replies: [{{text: Short.}}, {{text: "{lines}"}}]')
    await flow.run("first")
    await flow.run("Tell me all")
    shown = replayed(flow, (24, COLUMNS)).splitlines()
    assert len(shown) <= 24 * 1.5 + 4
    assert "1 earlier turn ·" in shown[0]
    assert "› first" not in shown
    assert shown[2] == "› Tell me all"
    assert "more lines · kogniterm sessions show" in shown[3]
    assert "line 99" in shown


async def test_commands_that_are_shown_can_be_opened(make_flow: MakeFlow) -> None:
    flow = make_flow(COMMANDS)
    (flow.folder / "notes.txt").write_text("one two\n")
    await flow.run("Count them")
    assert flow.session is not None
    finished: list[object] = []
    text = draw_past_turns(past_turns(flow.session), PLAIN, TALL, finished)  # type: ignore[arg-type]
    assert "lines folded · /output 1" in text
    assert [one.command for one in finished] == [  # type: ignore[attr-defined]
        "seq 1 40",
        "echo oops >&2; exit 3",
    ]


async def test_a_session_without_a_turn_shows_nothing(make_flow: MakeFlow) -> None:
    flow = make_flow()
    flow.open()
    assert replayed(flow) == ""


def test_a_narrow_plain_screen_holds_every_line() -> None:
    painter = Painter(PLAIN.theme, attributes=False, unicode=False)
    past = PastTurns(((UserInput("Hello"),),), 7, "0123abcd")
    text = draw_past_turns(past, painter, (24, 60), [])
    assert text == "... 7 earlier turns · kogniterm sessions show 0123abcd\n\n> Hello\n\n"
