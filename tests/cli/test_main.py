"""Entry point: help, version, verbs, error messages, and exit statuses."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kogniterm.cli import options
from kogniterm.cli.main import build_parser
from kogniterm.cli.options import CallOptions
from kogniterm.cli.streams_and_signals import hold_standard_streams
from kogniterm.errors import UsageError
from kogniterm.host.checkout import running_version
from tests.cli.conftest import KOGNITERM, Shell

STAND_INS = {"langsmith", "langgraph_sdk", "requests"}
LOADED = (  # The real ones load many others
    "import sys, runpy, contextlib, io\n"
    "sys.argv = ['kogniterm', *sys.argv[1:]]\n"
    "before = set(sys.modules)\n"
    "from kogniterm.__main__ import main\n"
    "with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):\n"
    "    main()\n"
    "new = {m.partition('.')[0] for m in set(sys.modules) - before}\n"
    f"print(sorted(new - set(sys.stdlib_module_names) - {{'kogniterm', *{STAND_INS}}}))\n"
)

VERSION = f"kogniterm {running_version()}\n"


@pytest.mark.parametrize("word", ["--version", "--help", "help"])
def test_what_cannot_be_written_is_one_sentence(shell: Shell, word: str) -> None:
    started = shell.start(word, out=Path("/dev/full"))
    assert started.wait() == 1
    assert re.fullmatch(r"kogniterm: [^\n]*writ[^\n]*: no space left\.\n", started.err.read_text())


def test_version(shell: Shell) -> None:
    result = shell.run("--version")
    assert (result.stdout, result.returncode) == (VERSION, 0)


def test_version_works_after_other_options(shell: Shell) -> None:
    assert shell.run("--debug", "-V").stdout == VERSION


def test_help_is_translated_to_spanish(shell: Shell) -> None:
    english = shell.run("run", "--help").stdout
    assert english == shell.run("run", "--help", environ={"LANG": "fr_FR.UTF-8"}).stdout
    for spanish in (
        shell.run("--lang", "es", "run", "--help").stdout,
        shell.run("run", "--help", environ={"LANG": "es_MX.UTF-8"}).stdout,
    ):
        assert "modelo" in spanish
        for word in ("Usage:", "Options:", "Arguments:", "Examples:", "Show this help"):
            assert word not in spanish


def test_error_messages_are_translated_to_spanish(shell: Shell) -> None:
    result = shell.run("--lang", "es", "modles")
    assert "¿Querías decir models?" in result.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["run", "x", "--model"], "--model needs a value; see kogniterm run --help."),
        (
            ["config", "show", "--nonsense"],
            "Unknown option --nonsense; see kogniterm config show --help.",
        ),
        (["--modle", "x"], "Unknown option --modle. Did you mean --model?"),
        (["run", "x", "--modle=y"], "Unknown option --modle. Did you mean --model?"),
        (["config", "show", "--jsno"], "Unknown option --jsno. Did you mean --json?"),
        (["config", "path", "more"], "Unexpected argument more; see kogniterm config path --help."),
        (["greetings"], 'To give a task, put it in quotes: kogniterm "greetings …".'),
        (["config"], "Missing argument ACTION; see kogniterm config --help."),
        (["--yes"], "Unknown option --yes. Did you mean --auto-approve?"),
        (["run", "x", "--max-turns", "3"], "Unknown option --max-turns. Did you mean --max-steps?"),
        (["--dangerously-skip-permissions"], "Did you mean --auto-approve?"),
        (["-m", "x"], "Unknown option -m. Did you mean --model?"),
        (["exec", "x"], "Unknown command exec. Did you mean run?"),
        (["arregla"], 'put it in quotes: kogniterm "arregla …".'),
        (["--moed"], "Unknown option --moed. Did you mean --mode?"),
        (["ayuda"], "Unknown command ayuda. Did you mean help?"),
        (["version"], "Unknown command version. Did you mean --version?"),
        (["config", "shwo"], "Unknown command config shwo. Did you mean config show?"),
        (["config", "zzz"], "Unknown command config zzz; choose from show, path, prompts."),
        (["run", "x", "--output", "xml"], "Invalid value xml for --output; choose from text,"),
        (["sessions", "list", "--limit", "abc"], "--limit is abc, but must be a whole number."),
        (["sessions", "list", "--limit", "0"], "--limit is 0, but must be greater than 0."),
        (["sessions", "delete", "--older-than", "x"], "--older-than is x, but must be a number."),
        (["sessions", "delete", "--older-than", "-3"], "--older-than is -3, but must be at least"),
        (["sessions", "delete", "--older-than", "nan"], "--older-than is nan, but must be at"),
        (["sessions", "fork", "last", "--turn", "x"], "--turn is x, but must be a whole number."),
        (
            ["sessions", "delete"],
            "Specify the sessions to delete: their IDs, or --older-than DAYS.",
        ),
        (
            ["sessions", "delete", "last", "--older-than", "3"],
            "--older-than cannot be combined with SESSION.",
        ),
        (["trust", "--show", "--revoke"], "--revoke cannot be combined with --show."),
        (["run", "-c", "--resume", "x", "hi"], "--continue cannot be combined with --resume."),
        (["resume", "a", "--resume", "b"], "SESSION cannot be combined with --resume."),
        (["resume", "a", "-c"], "SESSION cannot be combined with --continue."),
        (
            ["run", "--session=a", "--continue", "x"],
            "--session cannot be combined with --continue.",
        ),
        (["policy", "check", "rm", "-r", "draft"], "put the whole command in quotes"),
        (["policy", "check", "ls", "-C", "nowhere"], "nowhere does not exist."),
        (["--debug=1"], "--debug takes no value; see kogniterm --help."),
    ],
)
def test_wrong_use_is_said_in_our_words(shell: Shell, words: list[str], sentence: str) -> None:
    result = shell.run(*words)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("kogniterm: ")
    assert result.stderr.count("\n") == 1
    assert sentence in result.stderr


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["sessions", "list", "--limit="], "--limit"),
        (["sessions", "show", ""], "SESSION"),
        (["sessions", "export", "last", "--to", ""], "--to"),
        (["sessions", ""], "ACTION"),
        (["login", ""], "PROVIDER"),
        (["memory", "add", "x", "--slot", " "], "--slot"),
        (["memory", "search", ""], "WORD"),
        (["models", "pull", ""], "NAME"),
        (["policy", "check", ""], "COMMAND"),
        (["storage", "check", ""], "DATABASE"),
        (["trust", "-C", ""], "--cwd"),
        (["run", "--model", "", "hi"], "--model"),
        (["run", "--timeout=", "hi"], "--timeout"),
        (["--env-file", "", "run", "hi"], "--env-file"),
    ],
)
def test_an_empty_value_is_named(shell: Shell, words: list[str], name: str) -> None:
    result = shell.run(*words)
    assert result.returncode == 2
    assert f"kogniterm: {name} has an empty value; see kogniterm" in result.stderr


def test_words_may_stand_on_both_sides_of_an_option(shell: Shell) -> None:
    model = shell.script("replies: [{when: {last_contains: greet me}, text: Hello.}]")
    assert shell.run("run", "greet", "--model", model, "me").stdout == "Hello.\n"
    apart = shell.run("policy", "check", "git", "--mode", "auto", "push")
    assert apart.stdout == shell.run("policy", "check", "git push", "--mode", "auto").stdout


@pytest.mark.parametrize(
    "words",
    [
        ["--version"],
        ["--help"],
        ["run", "--help"],
        ["help", "keys"],
        ["config", "path"],
        ["nonsense"],
    ],
)
def test_the_light_path_loads_no_third_party_package(shell: Shell, words: list[str]) -> None:
    result = shell.run(*words, command=(sys.executable, "-c", LOADED))
    assert result.stdout == "[]\n"


def test_a_task_without_a_terminal_is_told_how(shell: Shell) -> None:
    result = shell.run("list the files here")
    assert result.returncode == 2
    assert 'For one task without it: kogniterm run "…".' in result.stderr


def test_p_is_the_verb_run(shell: Shell) -> None:
    model = shell.script("replies: [{text: Hello.}]")
    for words in (["-p", "greet me"], ["--prompt", "greet me"], ["--prompt=greet me"]):
        result = shell.run("--model", model, *words)
        assert result.stdout == shell.run(*words, "--model", model).stdout
        assert (result.returncode, result.stdout) == (0, "Hello.\n"), result.stderr


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["sessions", "show", "nope", "--json"], "Session nope not found"),
        (["memory", "show", "nope", "--json"], "nope is not a fact ID"),
        (["--lang", "es", "audit", "verify", "nope", "--json"], "Session nope not found"),
        (["storage", "copy", "--json"], "Missing argument FROM, TO"),
    ],
)
def test_who_asked_for_json_gets_the_failure_as_json(
    shell: Shell, words: list[str], sentence: str
) -> None:
    done = shell.run(*words)
    failure = json.loads(done.stdout)
    assert sentence in failure["error"]
    assert failure["exit_code"] == done.returncode == 2
    assert done.stderr.count("\n") == 1


def test_the_prompt_needs_a_terminal(shell: Shell) -> None:
    result = shell.run()
    assert result.returncode == 2
    assert "needs a terminal" in result.stderr


def test_options_mean_the_same_before_and_after_the_verb() -> None:
    verb = options.find("run")
    before = build_parser(verb).parse_args(["--model", "local", "--debug", "run", "x"])
    after = build_parser(verb).parse_args(["run", "x", "--model", "local", "--debug"])
    assert vars(before) == vars(after)


def test_without_home_there_is_a_sentence(shell: Shell) -> None:
    result = subprocess.run(
        [KOGNITERM, "config", "path"],
        env={"PATH": os.environ["PATH"]},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 2
    assert result.stderr.startswith("kogniterm: HOME is not set")


def test_debug_shows_the_traceback_and_nothing_else_does(shell: Shell) -> None:
    (shell.config / "config.toml").write_text("nonsense = 1\n")
    assert "Traceback" not in shell.run("config", "show").stderr
    result = shell.run("--debug", "config", "show")
    assert "Traceback" in result.stderr
    assert result.returncode == 2


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_closed_standard_streams_are_no_trouble(shell: Shell, closed: str) -> None:
    line = f'exec "$0" config show {closed}'
    assert shell.run(str(KOGNITERM), command=("sh", "-c", line)).returncode == 0


def test_an_input_that_can_only_be_written_to_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nohup replaces a terminal by such an input."""
    before, only_written = os.dup(0), os.open(os.devnull, os.O_WRONLY)
    os.dup2(only_written, 0)
    try:
        with os.fdopen(0, closefd=False) as stdin:
            monkeypatch.setattr(sys, "stdin", stdin)
            hold_standard_streams()
            assert sys.stdin.buffer.read() == b""
    finally:
        os.dup2(before, 0)
        os.close(before)
        os.close(only_written)


@pytest.mark.parametrize("words", [["--help"], ["config", "show"], ["config", "path"]])
def test_a_reader_that_leaves_is_no_error(shell: Shell, words: list[str]) -> None:
    process = subprocess.Popen(
        [KOGNITERM, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=shell.environ,
        cwd=shell.project,
    )
    assert process.stdout is not None
    process.stdout.close()
    _out, err = process.communicate()
    assert err == b""
    assert process.returncode in (0, 141)


def test_a_hostile_folder_cannot_replace_modules(shell: Shell) -> None:
    """`python -m` and an empty PYTHONPATH entry would put the folder first on the path."""
    witness = shell.home / "witness"
    for name in ("rich", "pydantic", "pydantic_settings", "dotenv", "prompt_toolkit", "yaml"):
        evil = shell.project / f"{name}.py"
        evil.write_text(f"open({str(witness)!r}, 'w').close()\nraise SystemExit(99)\n")
    for environ in ({}, {"PYTHONPATH": ":"}):
        result = shell.run(
            "config", "show", command=(sys.executable, "-m", "kogniterm"), environ=environ
        )
        assert result.returncode == 0, result.stderr
        result = shell.run("config", "show", environ=environ, fresh=True)
        assert result.returncode == 0, result.stderr
    assert not witness.exists()


def test_importing_the_entry_point_has_no_effect(tmp_path: Path) -> None:
    program = "import sys; p = list(sys.path); import kogniterm.__main__; print(p == sys.path)"
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, check=True
    )
    assert result.stdout == "True\n"


def test_an_interrupt_while_modules_are_read_ends_it_without_a_word() -> None:
    program = (
        "import os, signal, sys\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "class Interrupting:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'kogniterm.cli.options':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.meta_path.insert(0, Interrupting())\n"
        "from kogniterm.__main__ import main\n"
        "main()\n"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False
    )
    assert (result.returncode, result.stdout, result.stderr) == (-signal.SIGINT, "", "")


def test_a_folder_that_was_removed_under_us_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    for given in (None, "inner"):
        with pytest.raises(UsageError, match="working folder no longer exists"):
            CallOptions({}, cwd=given).folder()
    assert CallOptions({}, cwd=str(tmp_path)).folder() == str(tmp_path)
    with pytest.raises(UsageError, match="/~nobody-of-this-name does not exist"):
        CallOptions({}, cwd=f"{tmp_path}/~nobody-of-this-name").folder()
