"""`kogniterm config`: values and their sources, and never a key."""

from __future__ import annotations

import json

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
    }


def test_show_as_json_is_complete_and_masked(shell: Shell) -> None:
    result = shell.run("config", "show", "--json", environ={"OPENAI_API_KEY": KEY})
    table = json.loads(result.stdout)
    assert table["openai_api_key"] == {"value": "********", "from": "environment OPENAI_API_KEY"}
    assert table["plan"] == {"value": "auto", "from": "default"}
    assert KEY not in result.stdout + result.stderr


def test_path_names_the_folders_in_use(shell: Shell) -> None:
    out = shell.run("config", "path").stdout
    assert str(shell.config / "config.toml") in out
    assert str(shell.data / "kogniterm.db") in out


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


def test_an_env_file_that_cannot_be_read(shell: Shell) -> None:
    result = shell.run("--env-file", "missing.env", "config", "show")
    assert result.returncode == 2
    assert "missing.env cannot be read: no such file or folder." in result.stderr


def test_a_read_only_state_folder_does_not_stop_it(shell: Shell) -> None:
    """Root ignores permissions, so a file stands where the folder should be."""
    shell.data.write_text("in the way")
    assert shell.run("config", "show").returncode == 0
