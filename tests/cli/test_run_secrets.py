"""`kogniterm run --secret`: from the environment or a descriptor, never from an argument."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import KOGNITERM, Shell
from tests.support.typing_user import holding

VALUE = "hunter2-Zq81-correct-horse"
USES = 'printf %s "$TOKEN" | wc -c'


def model(shell: Shell, *commands: str) -> str:
    replies = [*({"run": command} for command in commands), {"text": "Ok.", "repeat": "forever"}]
    return shell.script(json.dumps({"replies": replies}))


def test_a_granted_secret_reaches_its_programs_and_no_other_command(shell: Shell) -> None:
    env = {"TOKEN": VALUE}
    look = r"env | tac -rs 'x\|[^x]' | grep -c " + VALUE[::-1]
    script = model(shell, USES, look, 'echo "$TOKEN"')
    grants = ["--secret", "TOKEN", "--allow-secret", "TOKEN:wc", "--allow-secret", "TOKEN:echo"]
    options = ["-y", "--no-sandbox", "--output", "stream-json", "--model", script]
    done = shell.run("run", *grants, *options, "go", environ=env)
    outputs = [
        one["result"]["text"].strip()
        for one in map(json.loads, done.stdout.splitlines())
        if one["type"] == "command_ended"
    ]
    assert outputs[:2] == [str(len(VALUE)), "0"]
    assert re.fullmatch(r"\[secret:[a-z2-7]{4}-1\]", outputs[2])
    assert VALUE not in done.stdout + done.stderr
    assert holding(shell.home, VALUE.encode()) == []


def test_a_descriptor_gives_the_value(shell: Shell, tmp_path: Path) -> None:
    (tmp_path / "value").write_text(f"{VALUE}\n")
    words = [
        str(KOGNITERM), "run", "--secret", "TOKEN=fd:3", "--allow-secret", "TOKEN:wc", "-y",
        "--no-sandbox", "--output", "json", "--model", model(shell, USES), "go",
    ]  # fmt: skip
    line = f"{shlex.join(words)} 3< {tmp_path / 'value'}"
    done = shell.run("-c", line, command=("/bin/bash",))
    assert json.loads(done.stdout)["commands"][0]["output"] == str(len(VALUE)), done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--secret", f"TOKEN={VALUE}"], "--secret takes no value"),
        (["--secret", "MISSING"], "this variable is not set"),
        (["--secret", "TOKEN=fd:77"], "descriptor 77 cannot be read"),
        (["--secret", "PATH"], "Choose another name"),
        (["--allow-secret", "curl"], "as in --allow-secret TOKEN:curl"),
    ],
)
def test_what_cannot_be_a_secret_is_one_sentence(
    shell: Shell, options: list[str], said: str
) -> None:
    done = shell.run("run", *options, "--model", model(shell), "go")
    assert done.returncode == 2
    assert said in done.stderr
    assert VALUE not in done.stdout + done.stderr
