"""Run one task with `kogniterm run --output json` in a job of GitHub Actions.

Reads the inputs from the environment and writes the outputs of the step. The key reaches
KogniTerm's own process and nothing else: KogniTerm takes it from the environment of its commands.
Ends with the exit status of KogniTerm, 2 for inputs that cannot be used.
"""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

WRONG_USAGE = 2
KEYS = {
    "anthropic": "ANTHROPIC_API_KEY",
    "google_genai": "GOOGLE_API_KEY",
    "openai": "OPENAI_API_KEY",
}
"""The variable of each provider's key, by the prefix of its models."""
WITHOUT_KEY = ("local", "ollama", "scripted")
SHORTEST_KEY = 8
"""Characters; what is shorter is a mistake, and masking it would garble the log."""
MODES = {
    "ask": ("--mode", "ask", "--allow-reads"),
    "auto": ("--mode", "auto"),
    "plan": ("--mode", "plan"),
}
LIMITS = {
    "MAX_COST": "--max-cost",
    "MAX_STEPS": "--max-steps",
    "MAX_TOKENS": "--max-tokens",
    "TIMEOUT": "--timeout",
}
PASSED_ON = re.compile(
    r"PATH|HOME|USER|LOGNAME|LANG|LC_\w+|TZ|TERM|TMPDIR|SHELL|SSL_CERT_\w+|\w+_BASE_URL|OLLAMA_HOST"
    r"|KOGNITERM_\w+|https?_proxy|no_proxy|HTTPS?_PROXY|NO_PROXY|LD_LIBRARY_PATH|JAVA_HOME|GOROOT"
    r"|CI|GITHUB_ACTIONS|RUNNER_OS|RUNNER_ARCH"
)
"""Variables that KogniTerm gets: none of the job's tokens, and none of the files it writes."""


def fail(text: str) -> NoReturn:
    """End the step with an annotation that shows `text`."""
    print(f"::error title=KogniTerm::{escaped(text)}")
    sys.exit(WRONG_USAGE)


def escaped(text: str) -> str:
    """Return `text` as the value of a workflow command, which is one line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def key_variable(model: str, key: str) -> str:
    """Return the variable that the key is passed in; "" where the model needs none."""
    provider = model.partition(":")[0]
    if provider in WITHOUT_KEY:
        return ""
    if not key:
        fail(
            "No API key: the input api-key is empty. Workflows of pull requests from forks and of "
            "Dependabot get no secrets; run such a task by another event, or with a model that "
            "needs no key."
        )
    if len(key) < SHORTEST_KEY:
        fail("The input api-key is too short to be a key.")
    if provider not in KEYS:
        known = ", ".join(f"{name}:NAME" for name in KEYS)
        fail(f"With an api-key, the input model names its provider: {known}.")
    return KEYS[provider]


def arguments(given: Mapping[str, str]) -> list[str]:
    """Return the arguments of `kogniterm` for the inputs."""
    mode = given["MODE"]
    if mode not in MODES:
        fail(f"The input mode is {mode}, but must be one of {', '.join(MODES)}.")
    words = ["run", "--output", "json", *MODES[mode]]
    if given["MODEL"]:
        words += ["--model", given["MODEL"]]
    for name, option in LIMITS.items():
        if given[name]:
            words += [option, given[name]]
    if not given["TASK"].strip():
        fail("The input task is empty.")
    # A task is words for the model: a leading space keeps it from being a command of KogniTerm.
    return [*words, "--", f" {given['TASK']}"]


def environment(given: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the environment of KogniTerm, without the key."""
    kept = {name: value for name, value in given.items() if PASSED_ON.fullmatch(name)}
    for kind in ("config", "data", "cache"):
        kept.setdefault(f"KOGNITERM_{kind.upper()}_DIR", str(home / kind))
    return kept


def warn_of_credentials(folder: Path) -> None:
    """Warn of a token that actions/checkout left in the checkout, where commands can read it."""
    command = ["git", "-C", str(folder), "config", "--local", "--get-regexp"]
    try:
        found = subprocess.run(
            [*command, r"^http\..*extraheader$"], capture_output=True, check=False
        )
    except OSError:
        return
    if found.returncode == 0:
        print(
            "::warning title=KogniTerm::The checkout contains a token of GitHub, which commands of "
            "the task can read. Use actions/checkout with persist-credentials: false."
        )


def write_outputs(file: Path, values: Mapping[str, str]) -> None:
    """Append the outputs; no text can end the block that holds it, for nobody knows its end."""
    with file.open("a", encoding="utf-8") as stream:
        for name, value in values.items():
            end = f"end_{secrets.token_hex(16)}"
            stream.write(f"{name}<<{end}\n{value}\n{end}\n")


def result_of(printed: str, status: int) -> dict[str, Any]:
    """Return the object that KogniTerm printed, or one that says that there was none."""
    try:
        found = json.loads(printed)
    except ValueError:
        found = None
    if isinstance(found, dict):
        return found
    reason = "KogniTerm printed no result; the log of the step shows why."
    return {"answer": "", "stop": "not_done", "exit_code": status, "reason": reason}


def main() -> int:
    """Run the task; return the exit status of the step."""
    given = dict(os.environ)
    key = given.pop("API_KEY", "").strip()
    if key:
        for line in key.splitlines():
            print(f"::add-mask::{escaped(line)}", flush=True)
    folder = Path(given["FOLDER"] or given.get("GITHUB_WORKSPACE") or ".")
    if not folder.is_dir():
        fail(f"The input folder names {folder}, which is not a folder.")
    words = arguments(given)
    variable = key_variable(given["MODEL"], key)
    warn_of_credentials(folder)
    home = Path(given["RUNNER_TEMP"]) / "kogniterm"
    home.mkdir(parents=True, exist_ok=True)
    kept = environment(given, home)
    if variable:
        kept[variable] = key
    done = subprocess.run(
        [given["PROGRAM"], *words],
        check=False,
        cwd=folder,
        env=kept,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        errors="replace",
    )
    result = result_of(done.stdout, done.returncode)
    text = json.dumps(result)
    answer = str(result.get("answer") or "")
    if key:  # KogniTerm redacts it; here it is certain
        text, answer = (one.replace(key, "[redacted]") for one in (text, answer))
    file = home / "result.json"
    file.write_text(text, encoding="utf-8")
    cost = result.get("cost")
    outputs = {
        "answer": answer,
        "stop": str(result.get("stop") or ""),
        "exit-code": str(done.returncode),
        "cost": "" if cost is None else f"{cost:.6f}",
        "session": str(result.get("session_id") or ""),
        "result": str(file),
    }
    write_outputs(Path(given["GITHUB_OUTPUT"]), outputs)
    if done.returncode:
        reason = str(result.get("reason") or "no reason is given")
        print(f"::error title=KogniTerm stopped ({outputs['stop']})::{escaped(reason)}")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
