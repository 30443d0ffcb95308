"""Help: groups, examples that work, and topics that are correct and fit a screen."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs.completion_scripts import places
from kogniterm.approval import load_rules
from kogniterm.cli import options
from kogniterm.cli.main import EXAMPLES, Parser, build_parser
from kogniterm.errors import UsageError
from kogniterm.settings.schema import Settings
from kogniterm.settings.user_files import toml_values
from kogniterm.ui.commands.command_table import COMMANDS
from kogniterm.ui.commands.help_topics import TOPICS, Topic, screen
from kogniterm.ui.locale import LANGUAGES, use_language
from tests.cli.conftest import Shell

ROOT = Path(__file__).resolve().parents[2]
COLUMNS, ROWS = 80, 24
EVERYWHERE = [place.path for place in places()]
WANTED = {
    "approvals", "sandbox", "models", "keys", "memory", "sessions", "scripts", "rules", "plans",
    "costs", "privacy",
}  # fmt: skip


@pytest.fixture(autouse=True)
def _terminal_of_80_columns(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    yield
    use_language("en")


def help_of(path: str) -> str:
    """Return the help that `kogniterm PATH --help` shows."""
    words = path.strip("/").split("/")
    parser: Parser = build_parser(options.find(words[0]))
    for word in filter(None, words):
        parser = next(
            action.choices[word] for action in parser._actions if word in (action.choices or ())
        )
    return parser.format_help()


def calls(line: str) -> Iterator[list[str]]:
    """Yield the words of each call of kogniterm in a line that a user would type."""
    for call in re.findall(r"(?<![\w/])kogniterm(?![.\w])((?: \"[^\"]*\"| [^ |<>,)]+)*)", line):
        yield shlex.split(call)


def parse(words: list[str]) -> None:
    """Parse a call as the program does. Raises `UsageError`."""
    verb = next((options.find(word) for word in words if options.find(word)), None)
    task = [word for word in words if verb is None and " " in word]
    build_parser(verb).parse_args([word for word in words if word not in task])


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("path", EVERYWHERE)
def test_every_help_fits_and_ends_with_examples(path: str, language: str) -> None:
    use_language(language)
    text = help_of(path)
    title = {"en": "Examples:", "es": "Ejemplos:"}[language]
    assert [line for line in text.splitlines() if len(line) > COLUMNS] == []
    assert f"\n\n{title}\n  " in text
    assert "kogniterm" in text.partition(title)[2]
    assert "  -h, --help" in text


@pytest.mark.parametrize("path", EVERYWHERE)
def test_the_examples_of_help_parse(path: str) -> None:
    lines = next(place.examples for place in places() if place.path == path)
    assert lines
    for line in lines:
        found = list(calls(line))
        assert found, line
        for words in found:
            parse(words)
            assert path != "" or line in {example.line for example in EXAMPLES}
            assert words[: path.count("/")] == path.strip("/").split("/")[: path.count("/")], line


def test_an_example_with_a_wrong_option_would_be_found() -> None:
    for words in calls('git diff | kogniterm run "review this" --modle x'):
        with pytest.raises(UsageError, match="--modle"):
            parse(words)


def test_commands_and_options_are_in_named_groups() -> None:
    text = help_of("")
    titles = re.findall(r"^(\S.*):$", text, re.MULTILINE)
    assert titles == [
        "Work", "Memory and recipes", "Safety", "Set-up", "Options", "Model", "Plan",
        "Approval and safety", "Session", "Limits", "General", "Examples",
    ]  # fmt: skip
    for verb in options.VERBS:
        assert len(re.findall(rf"^  {verb.name} +[A-Z]", text, re.MULTILINE)) == 1


def test_help_follows_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "50")
    assert max(map(len, help_of("").partition("Examples:")[0].splitlines())) <= 50


@pytest.mark.parametrize(
    "option",
    [option for option in options.SESSION if option.field in Settings.model_fields],
    ids=lambda option: option.name,
)
def test_a_default_in_help_is_the_setting_s(option: options.Argument) -> None:
    default = Settings.model_fields[option.field].default
    if not option.takes_value:  # a switch changes its setting, so help names no default for it
        assert option.default is None
    elif option.default is None:
        assert default is None
    else:  # as a user calls it
        assert getattr(Settings(**{option.field: option.default}), option.field) == default


def test_the_topics_that_users_look_for_exist() -> None:
    names = [name for topic in TOPICS for name in (topic.name, *topic.also)]
    assert {topic.name for topic in TOPICS} == WANTED
    assert len(names) == len(set(names))
    assert not {name for topic in TOPICS for name in topic.also} & {v.name for v in options.VERBS}


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_a_topic_is_one_screen(topic: Topic, language: str) -> None:
    use_language(language)
    lines = list(screen(topic, COLUMNS))
    assert len(lines) <= ROWS
    assert [line for line in lines if len(line) > COLUMNS] == []
    assert lines[1].startswith(f"  {topic.commands[0][0]}  ")


@pytest.mark.parametrize("topic", TOPICS, ids=lambda topic: topic.name)
def test_what_a_topic_names_exists(topic: Topic) -> None:
    notes = [str(note) for note in topic.notes]
    for line in (*(shown for shown, _help in topic.commands), *notes, topic.more):
        for words in calls(line):
            if "--help" not in words:
                parse(words)
    slash = re.findall(r"(?:^|\s)/([a-z]+)\b", " ".join(shown for shown, _help in topic.commands))
    assert set(slash) <= {command.name for command in COMMANDS}
    for page in re.findall(r"docs/\S+\.md", topic.more):
        assert (ROOT / page).is_file()
    variables = set(re.findall(r"\b[A-Z]+_(?:API_KEY|HOST)\b", " ".join(notes)))
    assert all(name in (ROOT / ".env.example").read_text("utf-8") for name in variables)


def test_the_sample_of_the_rules_is_a_rule() -> None:
    sample = next(topic.sample for topic in TOPICS if topic.name == "rules")
    (rule,) = load_rules(toml_values("policy.toml", "\n".join(sample))).rules
    assert rule.decision == "allow"


def test_help_lists_topics_and_shows_commands(shell: Shell) -> None:
    listed = shell.run("help")
    assert listed.returncode == 0
    assert all(f"  {topic.name} " in listed.stdout for topic in TOPICS)
    assert shell.run("help", "run").stdout == shell.run("run", "--help").stdout
    both = shell.run("help", "sessions", "list").stdout
    assert both == shell.run("sessions", "list", "--help").stdout
    assert shell.run("help", "limits").stdout == shell.run("help", "costs").stdout
    assert "Zona" in shell.run("--lang", "es", "help", "sandbox").stdout.title()


@pytest.mark.parametrize(
    ("word", "sentence"),
    [
        ("aprovals", "Help topic aprovals not found. Did you mean approvals?"),
        ("doctr", "Help topic doctr not found. Did you mean doctor?"),
        ("qqqq", "Help topic qqqq not found; kogniterm help lists the topics."),
    ],
)
def test_an_unknown_topic_is_one_sentence(shell: Shell, word: str, sentence: str) -> None:
    result = shell.run("help", word)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == f"kogniterm: {sentence}\n"
