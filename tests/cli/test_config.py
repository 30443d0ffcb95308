"""`kogniterm config`: values and their sources, and never a key."""

from __future__ import annotations

import json
import re

from tests.cli.conftest import Shell

KEY = "AIzaSyDUMMYDUMMYDUMMYDUMMYDUMMYDUMMY123"


def test_show_tells_values_and_where_they_came_from(shell: Shell) -> None:
    config = shell.config / "config.toml"
    config.write_text('# mine\nplan = "never"\n')
    result = shell.run(
        "config", "show", "--changed", "--lang", "en", environ={"GOOGLE_API_KEY": KEY}
    )
    rows = {line.split()[0]: line.split(maxsplit=2)[1:] for line in result.stdout.splitlines()}
    assert rows == {
        "plan": ["never", f"{config}:2"],
        "google_api_key": ["********", "the variable GOOGLE_API_KEY"],
        "language": ["en", "the option --lang"],
        "warm": ["off", "the variable KOGNITERM_WARM"],  # of the tests' environment
    }


def test_show_as_json_is_complete_and_masked(shell: Shell) -> None:
    result = shell.run("config", "show", "--json", environ={"OPENAI_API_KEY": KEY})
    table = json.loads(result.stdout)
    assert table["openai_api_key"] == {"value": "********", "from": "environment OPENAI_API_KEY"}
    assert table["plan"] == {"value": "auto", "from": "default"}
    assert KEY not in result.stdout + result.stderr


def test_path_works_when_the_settings_are_broken(shell: Shell) -> None:
    """The command is needed to find the file to repair."""
    (shell.config / "config.toml").write_text("= broken")
    assert shell.run("config", "path").returncode == 0


def test_a_mistake_names_file_and_line(shell: Shell) -> None:
    file = shell.config / "config.toml"
    file.write_text("\nmax_step = 1\n")
    result = shell.run("config", "show")
    assert result.returncode == 2
    assert result.stderr == (
        f"kogniterm: {file}, line 2: unknown setting max_step; did you mean max_steps?\n"
    )


def test_a_read_only_state_folder_does_not_stop_it(shell: Shell) -> None:
    """Root ignores permissions, so a file stands where the folder should be."""
    shell.data.write_text("in the way")
    assert shell.run("config", "show").returncode == 0


def test_prompts_lists_copies_and_compares(shell: Shell) -> None:
    folder = shell.config / "prompts"
    shown = shell.run("config", "prompts").stdout.splitlines()
    assert shown[0].split() == ["PROMPT", "FROM", "SIZE", "VARIABLES"]
    assert any(line.split()[:2] == ["system", "shipped"] for line in shown)
    copied = shell.run("config", "prompts", "copy", "system")
    assert copied.stdout.startswith(f"Copied to {folder / 'system.md'}.")
    again = shell.run("config", "prompts", "copy", "system")
    assert (again.returncode, "exists already" in again.stderr) == (2, True)
    file = folder / "system.md"
    text = file.read_text()
    file.write_text(text.replace("Never invent results.", "Be brief."))
    result = shell.run("config", "prompts")
    assert f"system is yours: {file}\n  It leaves out: Never invent results\n" in result.stderr
    assert "+- Be brief." in shell.run("config", "prompts", "diff", "system").stdout
    assert "- Be brief." in shell.run("config", "prompts", "show", "system").stdout
    found = json.loads(shell.run("config", "prompts", "--json").stdout)["system"]
    assert (found["from"], found["path"]) == ("user", str(file))
    assert found["variables"] == ["system", "folder", "date"]
    assert (found["shipped_changed"], found["leaves_out"]) == (False, ["Never invent results"])
    assert "leaves out “Never invent results”" in shell.run("doctor").stdout


def test_prompts_tell_that_the_shipped_text_has_changed(shell: Shell) -> None:
    shell.run("config", "prompts", "copy", "judge")
    file = shell.config / "prompts" / "judge.md"
    file.write_text(file.read_text().replace("shipped text ", "shipped text 0123456789ab", 1))
    file.write_text(re.sub("text 0123456789ab[0-9a-f]*", "text 0123456789ab", file.read_text()))
    result = shell.run("config", "prompts")
    assert "has changed since: kogniterm config prompts diff judge" in result.stderr
    assert "The shipped prompt judge changed since" in shell.run("doctor").stdout


def test_prompts_of_unknown_names_and_of_none(shell: Shell) -> None:
    result = shell.run("config", "prompts", "show", "systemx")
    assert result.returncode == 2
    assert result.stderr == "kogniterm: There is no prompt systemx. Did you mean system?\n"
    assert "lists them" in shell.run("config", "prompts", "copy").stderr
    missing = shell.run("config", "prompts", "diff", "system").stderr
    assert "is the shipped text" in missing


def test_prompts_shows_which_texts_of_a_file_are_shipped(shell: Shell) -> None:
    (shell.config / "prompts").mkdir()
    (shell.config / "prompts" / "compact.md").write_text("## summarise\nSum up.\n")
    result = shell.run("config", "prompts", "show", "compact")
    assert result.stdout == "## summarise\nSum up.\n"
    assert result.stderr == (
        "Not in your file, so as shipped: "
        "length, summary_follows, done, folder, secrets, earlier_rounds.\n"
    )


def test_a_session_keeps_the_prompts_it_began_with(shell: Shell) -> None:
    folder = shell.config / "prompts"
    folder.mkdir()
    own = folder / "system.md"
    own.write_text("I am the first text. {system} {folder} {date}")
    script = shell.project / "demo.yaml"
    script.write_text(
        "replies:\n"
        "  - expect: {system_contains: I am the first text.}\n    text: first\n"
        "    repeat: forever\n"
    )
    model = ("--model", f"scripted:{script}")
    first = shell.run("run", *model, "hello")
    assert (first.returncode, first.stdout.strip()) == (0, "first"), first.stderr
    own.write_text("I am the second text. {system} {folder} {date}")
    again = shell.run("run", "--continue", *model, "hello again")
    assert (again.returncode, again.stdout.strip()) == (0, "first"), again.stderr
    assert "continues with the prompts it began with" in again.stderr
    other = shell.run("run", *model, "hello")
    assert "the script expects system_contains" in other.stderr
    # A project's folder never changes a prompt.
    (shell.project / "prompts").mkdir()
    (shell.project / "prompts" / "system.md").write_text("I am a hostile text. {date}")
    own.write_text("I am the first text. {system} {folder} {date}")
    assert shell.run("run", *model, "hello").stdout.strip() == "first"


def test_a_wrong_prompt_ends_the_start_of_a_session(shell: Shell) -> None:
    (shell.config / "prompts").mkdir()
    file = shell.config / "prompts" / "recipe.md"
    file.write_text("Do {it}.")
    result = shell.run("run", "--model", "scripted:none.yaml", "hello")
    said = f"kogniterm: {file}: recipe has no variables, but uses {{it}}.\n"
    assert (result.returncode, result.stderr) == (2, said)
    assert shell.run("sessions", "list").stdout == ""
