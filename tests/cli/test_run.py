"""`kogniterm run` from argv to exit status, with the scripted model and real commands."""

from __future__ import annotations

import json
import os
import pwd
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from kogniterm.host.identity import account_name
from kogniterm.sessions.session_transfer import replace_text
from tests.cli.conftest import KOGNITERM, Shell
from tests.support.fake_gemini import FakeGemini
from tests.support.forge import until
from tests.support.provider_streams import (
    anthropic_stream,
    gemini_stream,
    openai_call,
    openai_stream,
)

GREET = """
replies:
  - run: echo greetings-$((40 + 2))
  - text: It said greetings-42.
"""
AUTO = ("--auto-approve", "--no-sandbox", "--plan", "never")


def result_of(stdout: str) -> dict[str, Any]:
    (line,) = stdout.splitlines()
    loaded: dict[str, Any] = json.loads(line)
    return loaded


# --- the straight path -----------------------------------------------------------------------


def test_colours_of_a_command_stay_out_of_files(shell: Shell) -> None:
    paint = r"printf '\033[31mred\033[0m-42\n'"
    model = shell.script(json.dumps({"replies": [{"run": paint}, {"text": "Done."}]}))
    result = shell.run("run", "paint", "--model", model, *AUTO)
    assert "\nred-42\n" in result.stderr
    assert "\x1b" not in result.stderr


@pytest.mark.parametrize(
    ("options", "hint", "other"),
    [
        ((), "--auto-approve to also run", "kogniterm help rules"),
        (("-y", "--no-sandbox"), "Allow it with a rule (kogniterm help rules)", "Use --allow"),
    ],
)
def test_a_refusal_names_only_what_would_allow_more(
    shell: Shell, options: tuple[str, ...], hint: str, other: str
) -> None:
    model = shell.script("replies: [{run: rm -rf src}, {text: Not done.}]")
    shell.config.mkdir(exist_ok=True)
    (shell.config / "policy.toml").write_text('[[rule]]\ndecision = "ask"\nprogram = "rm"\n')
    result = shell.run("run", "tidy", "--model", model, "--plan", "never", *options)
    assert result.returncode == 3
    assert hint in result.stderr
    assert other not in result.stderr


# --- exit statuses ---------------------------------------------------------------------------


def test_nobody_to_ask_is_status_3_and_nothing_runs(shell: Shell) -> None:
    model = shell.script("replies:\n  - run: touch made\n  - text: I may not.\n")
    result = shell.run("run", "touch it", "--model", model, "--plan", "never", "--output", "json")
    assert result.returncode == 3, result.stderr
    final = result_of(result.stdout)
    assert (final["stop"], final["exit_code"]) == ("refused", 3)
    assert final["commands"][0]["status"] == "refused"
    assert not (shell.project / "made").exists()


def test_a_database_out_of_reach_is_told_apart_from_a_failed_task(shell: Shell) -> None:
    address = {"KOGNITERM_DATABASE_URL": "postgresql://me@127.0.0.1:9/db"}
    result = shell.run("run", "x", *AUTO, "--output", "json", environ=address)
    final = result_of(result.stdout)
    assert (result.returncode, final["stop"]) == (1, "storage_unavailable")
    assert "cannot be reached" in final["reason"]


# --- bad input -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "stdin", "sentence"),
    [
        (["run"], b"  \n", "The task is empty"),
        (["run", b"\xff"], None, "The task is not UTF-8"),
        (["run", "x", "--cwd", "missing"], None, "missing does not exist"),
        (["run", "x", "--cwd", "/dev/null"], None, "/dev/null is not a folder"),
        (["run", "x", "--model", "nonsense:x"], None, "nonsense"),
        (["run", "x", "--model", "scripted:/missing.yaml"], None, "/missing.yaml"),
        (
            ["run", "x", "--plan", "sometimes"],
            None,
            "use auto, always, never or the file of a plan",
        ),
        (["run", "x", "--env-file", "missing.env"], None, "missing.env cannot be read"),
    ],
)
def test_bad_input_is_one_sentence_and_status_2(
    shell: Shell, words: list[str | bytes], stdin: bytes | None, sentence: str
) -> None:
    result = shell.run(*words, stdin=stdin)
    assert result.returncode == 2, result.stderr
    assert sentence in result.stderr
    assert result.stderr.startswith("kogniterm: ")
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""


@pytest.mark.parametrize(
    "spoil",
    [
        pytest.param(lambda shell: (shell.config / ".env").write_text("GOOGLE\n"), id="syntax"),
        pytest.param(
            lambda shell: (shell.config / "config.toml").write_text("plan = 1"), id="type"
        ),
    ],
)
def test_broken_settings_are_one_sentence(shell: Shell, spoil: Any) -> None:
    spoil(shell)
    result = shell.run("run", "x", "--model", shell.script(GREET))
    assert result.returncode == 2
    assert str(shell.config) in result.stderr
    assert result.stderr.count("\n") == 1


def test_an_unusable_state_folder_is_one_sentence(shell: Shell) -> None:
    shell.data.write_text("a file in the way")
    result = shell.run("run", "x", "--model", shell.script(GREET), *AUTO)
    assert result.returncode == 1
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("kogniterm: ")
    assert result.stderr.count("\n") == 1


def test_a_full_disk_is_one_sentence_and_keeps_what_there_was(shell: Shell) -> None:
    """A file size limit stands in for a full disk: writes fail in the same places."""
    model = shell.script("at_end: restart\nreplies:\n  - text: " + "long answer " * 9000 + "\n")
    first = result_of(shell.run("run", "one", "--model", model, "--output", "json").stdout)
    words = ["run", "two", "--model", model, "--resume", first["session_id"]]
    full = shell.run(*words, file_size=40_000)
    assert full.returncode == 1, full.stderr
    assert "Traceback" not in full.stderr
    again = shell.script(
        "replies:\n  - expect: {any_contains: long answer}\n    text: still here\n"
    )
    result = shell.run("run", "three", "--model", again, "--resume", first["session_id"])
    assert result.stdout == "still here\n", result.stderr


def test_a_full_standard_output_is_one_sentence(shell: Shell) -> None:
    words = ["run", "x", "--model", shell.script(GREET), *AUTO]
    started = shell.start(*words, out=Path("/dev/full"))
    assert started.wait() == 1
    said = started.err.read_text()
    assert said.endswith("\nkogniterm: Standard output cannot be written: no space left.\n")
    assert said.count("no space left") == 1


def test_secrets_stay_out_of_every_output_and_the_log(shell: Shell) -> None:
    key = "AIzaSyA1234567890abcdefghijklmnopqrstuvw"
    model = shell.script("replies:\n  - run: echo $GOOGLE_API_KEY $OPENAI_API_KEY\n  - text: ok\n")
    environ = {"GOOGLE_API_KEY": key, "OPENAI_API_KEY": "sk-" + "a1B2c3D4" * 6}
    words = ("run", "x", "--model", model, *AUTO, "--output", "stream-json", "--debug")
    result = shell.run(*words, environ=environ)
    assert result.returncode == 0, result.stderr
    for secret in environ.values():
        assert secret not in result.stdout
        assert secret not in result.stderr
        assert secret not in (shell.data / "logs" / "kogniterm.log").read_text()


def test_a_run_leaves_nothing_open(shell: Shell, fake_gemini: FakeGemini) -> None:
    """Python's development mode reports connections, files and processes that are left open."""
    fake_gemini.call(("execute_command", {"command": "echo hello", "purpose": "Greet"}))
    fake_gemini.say("It said hello.")
    environ = {"GOOGLE_API_KEY": "a-key", "GOOGLE_GEMINI_BASE_URL": fake_gemini.url}
    words = ("run", "greet", "--model", "google_genai:gemini-2.5-flash", *AUTO)
    kinds = ("-W", "ignore", "-W", "error::ResourceWarning", "-W", "error::RuntimeWarning")
    watched = (sys.executable, "-X", "dev", *kinds, "-m", "kogniterm")
    result = shell.run(*words, environ=environ, command=watched)
    assert (result.stdout, result.returncode) == ("It said hello.\n", 0), result.stderr
    assert "Warning" not in result.stderr
    assert "Exception ignored" not in result.stderr


def test_under_umask_0_everything_is_the_users_alone(shell: Shell) -> None:
    model = shell.script("replies: [{run: 'echo hello > made.txt'}, {text: Done.}]")
    words = ("run", "-y", "--no-sandbox", "--model", model, "hello")
    open_to_all = ("bash", "-c", 'umask 0; exec "$@"', "-", KOGNITERM)
    assert shell.run(*words, command=open_to_all).returncode == 0
    # The mode of files that the command creates is the user's own choice.
    assert (shell.project / "made.txt").stat().st_mode & 0o777 == 0o666
    made = [shell.data, *shell.data.rglob("*")]
    assert len(made) > 5
    assert [path for path in made if path.lstat().st_mode & 0o077] == []


def test_root_in_the_home_of_another_is_told(shell: Shell) -> None:
    """With `sudo -E`, for example. Only root can give the home to another account."""
    model = shell.script("replies: [Done.]")
    own = {"KOGNITERM_DATA_DIR": "", "XDG_DATA_HOME": ""}
    words = ("run", "hello", "--model", model)
    if os.geteuid() == 0:
        os.chown(shell.home, 12_345, -1)
        result = shell.run(*words, environ=own)
        assert "You are running as root in the home folder of 12345" in result.stderr
        assert (result.stdout, result.returncode) == ("Done.\n", 0)
        os.chown(shell.home, 0, -1)
    assert "root" not in shell.run(*words, environ=own).stderr


def test_an_account_without_a_name_is_known_by_its_number() -> None:
    """As in a container that runs under any number; only root can become another account."""
    if os.geteuid() != 0:
        assert account_name() == pwd.getpwuid(os.getuid()).pw_name
        return
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(54_321)
            os.write(write, account_name().encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as said:
        assert said.read() == "54321"


def test_what_the_encoding_has_not_does_not_cost_the_answer(shell: Shell) -> None:
    model = shell.script("replies: [S\u00ed \u6f22\u5b57 done.]")
    ascii_only = {"PYTHONIOENCODING": "ascii"}
    result = shell.run("run", "hello", "--model", model, environ=ascii_only, fresh=True)
    assert (result.stdout, result.returncode) == ("S\\xed \\u6f22\\u5b57 done.\n", 0)


def test_half_a_character_in_a_name_does_not_cost_the_file(tmp_path: Path) -> None:
    with replace_text(tmp_path / "out.md") as file:
        file.write(os.fsdecode(b"caf\xe9"))
    assert (tmp_path / "out.md").read_text() == "caf\\udce9"


def test_why_a_command_could_not_start_is_shown(shell: Shell) -> None:
    """An earlier command removed the folder that every command needs."""
    (shell.home / "tmp").mkdir()
    away = 'mv "$TMPDIR"/kogniterm-* "$TMPDIR"/away'
    model = shell.script(f"replies: [{{run: '{away}'}}, {{run: echo two}}, {{text: Done.}}]")
    place = {"TMPDIR": str(shell.home / "tmp")}
    result = shell.run("run", "hello", "--model", model, *AUTO, environ=place)
    assert (result.stdout, result.returncode) == ("Done.\n", 0), result.stderr
    assert " cannot be written: no such file or folder.\n[not started, 0.0 s]" in result.stderr


# --- a session with an ID of one's own ----------------------------------------------------------

COUNT = "replies: [{run: 'echo x >>count'}, {text: Counted.}]"


def test_a_named_session_does_the_same_task_once(shell: Shell) -> None:
    """Killed at a boundary, finished, or repeated afterwards: the command runs once."""
    model = shell.script(COUNT)
    words = ["run", "--session", "job-7", "count", "--model", model, *AUTO]
    started = shell.start(*words, environ={"KOGNITERM_FAULTS": "kill:before-intent"})
    assert started.wait() == -signal.SIGKILL
    shell.script("replies: [{text: Counted.}]")  # a new process reads its script from the start
    other = shell.run("run", "--session", "job-7", "other", "--model", model, *AUTO)
    assert (other.returncode, "in the middle of another task" in other.stderr) == (2, True)
    results = [shell.run(*words, "--output", "json") for _ in range(2)]
    finals = [result_of(result.stdout) for result in results]
    assert [(one["answer"], one["session_id"]) for one in finals] == [("Counted.", "job-7")] * 2
    assert (shell.project / "count").read_text() == "x\n"
    assert "ended before" in finals[1]["notices"][0]
    assert finals[1]["usage"]["calls"] == 0
    # Another task is the next turn of the same session.
    more = shell.script("replies: [{expect: {any_contains: Counted.}, text: More.}]")
    later = shell.run("run", "--session", "job-7", "more", "--model", more, *AUTO)
    assert later.stdout == "More.\n", later.stderr


def test_a_failed_task_of_a_named_session_keeps_its_status(shell: Shell) -> None:
    model = shell.script("replies: [{run: touch x}, {text: No.}]")
    words = ["run", "--session", "s", "go", "--model", model, "--plan", "never"]
    assert [shell.run(*words).returncode for _ in range(2)] == [3, 3]


def test_a_named_session_that_is_open_elsewhere_is_refused(shell: Shell) -> None:
    model = shell.script("replies: [{run: 'touch begun; sleep 600'}]")
    words = ["run", "--session", "one", "wait", "--model", model, *AUTO]
    first = shell.start(*words)
    until((shell.project / "begun").exists)
    second = shell.run(*words, fresh=True)
    assert second.returncode == 1
    assert "Session one is open in another terminal" in second.stderr
    os.kill(first.pid, signal.SIGTERM)
    assert first.wait() == 128 + signal.SIGTERM


@pytest.mark.parametrize("name", ["last", "a b"])
def test_an_id_that_cannot_be_one_is_refused(shell: Shell, name: str) -> None:
    result = shell.run("run", f"--session={name}", "x", "--model", shell.script(GREET))
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "cannot be the ID of a session" in result.stderr


FIND = {
    "openai:m": openai_stream(openai_call(0, "c", "find_files", "{}"), finish="tool_calls"),
    "anthropic:m": anthropic_stream({"name": "find_files", "json": "{}"}, stop="tool_use"),
    "google_genai:m": gemini_stream({"functionCall": {"name": "find_files", "args": {}}}),
}
SEEN = {
    "openai:m": openai_stream({"content": "seen"}),
    "anthropic:m": anthropic_stream({"text": "seen"}),
    "google_genai:m": gemini_stream({"text": "seen"}),
}


@pytest.mark.parametrize("model", FIND)
def test_bytes_in_names_that_are_no_text_are_shown(
    shell: Shell, fake_gemini: FakeGemini, model: str
) -> None:
    folder = shell.project / os.fsdecode(b"d\xff")
    folder.mkdir()
    (folder / os.fsdecode(b"caf\xe9.txt")).touch()
    names = ("OPENAI", "ANTHROPIC", "GOOGLE_GEMINI")
    environ = {f"{name}_BASE_URL": fake_gemini.url for name in names}
    environ |= {f"{name}_API_KEY": "key" for name in ("OPENAI", "ANTHROPIC", "GOOGLE")}
    fake_gemini.raw(*FIND[model])
    fake_gemini.raw(*SEEN[model])
    fake_gemini.raw(*SEEN[model])
    words = ("--model", model, "--plan", "never")
    for more in ((), ("--continue",)):
        done = shell.run("run", *more, "go", *words, environ=environ, cwd=folder)
        assert (done.returncode, done.stdout) == (0, "seen\n"), done.stderr
    sent = json.dumps(fake_gemini.last.body)
    assert r"caf\\xe9.txt" in sent
    assert r"d\\xff" in sent
    assert shell.run("memory", "list", cwd=folder).returncode == 0


@pytest.mark.parametrize("words", [("--resume", "moving"), ("--continue",)])
def test_a_session_goes_on_where_its_folder_went(shell: Shell, words: tuple[str, ...]) -> None:
    model = shell.script("replies: [{run: pwd, repeat: 1}, {text: Hi., repeat: forever}]")
    words = ("run", *words, "--model", model, *AUTO)
    folder, other = shell.project / "p", shell.project / "q"
    folder.mkdir()
    assert shell.run("run", "moving", "--model", model, *AUTO, cwd=folder).returncode == 0
    folder.rename(other)
    done = shell.run(*words, "more", "-C", str(other))
    if "--continue" in words:
        assert "for those of others: kogniterm sessions list" in done.stderr
        return
    assert done.returncode == 0, done.stderr
    assert f"{folder} does not exist any more; the session now works in {other}." in done.stderr
    again = shell.run(*words, "and more", "-C", str(shell.project))
    assert (again.returncode, "any more" in again.stderr) == (0, False)
    assert str(other) in shell.run("sessions", "list").stdout
