"""Runs one playbook through ansible-runner, and writes what hosts report as lines of JSON.

Run as a file by an interpreter of its own, because Ansible (GPL) is used as a program and never as
a library: this file imports ansible-runner (Apache licence), which starts `ansible-playbook`. The
input is one JSON object; passwords come with it, so that they are in no file, argument or variable.
The output has a line for each result of a host, and in the end one with the exit code of Ansible
and, if it failed, the end of what it wrote.
"""

from __future__ import annotations

import json
import os
import shlex
import sys

# Set here and not imported: this runs before every play.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_RESULTS = {
    "runner_on_ok": "ok",
    "runner_on_failed": "failed",
    "runner_on_unreachable": "unreachable",
}
_PROMPTS = {"become": r"^BECOME password.*:\s*?$", "vault": r"^Vault password.*:\s*?$"}
_OPTIONS = {"become": "--ask-become-pass", "vault": "--ask-vault-pass"}
_WORDS = 4_000
_FIELDS = ("msg", "stdout", "stderr", "ansible_facts", "module_stdout", "module_stderr")
"""Fields of a result that are passed on; others, as `invocation`, hold what nobody reads."""


def main() -> int:
    """Run the playbook of the job on standard input."""
    job = json.load(sys.stdin)
    # ansible-runner itself writes to standard output.
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace")
    os.dup2(2, 1)
    from ansible_runner.interface import init_runner

    words: list[str] = []

    def write(line: dict[str, Any]) -> None:
        lines.write(json.dumps(line) + "\n")
        lines.flush()

    def on_event(event: dict[str, Any]) -> bool:
        data = event.get("event_data") or {}
        kind = _RESULTS.get(event.get("event", ""))
        if kind is not None:
            result = data.get("res") or {}
            kept = {name: result[name] for name in _FIELDS if name in result}
            write({"host": data.get("host"), "task": data.get("task"), "result": kind, **kept})
        elif event.get("event") in ("verbose", "error", "deprecated", "warning"):
            words.append(str(event.get("stdout") or ""))
            del words[:-200]
        return False  # nothing is kept in a file

    options = [_OPTIONS[name] for name in job["passwords"]]
    for file in job["vault_files"]:
        options += ["--vault-password-file", file]
    runner = init_runner(
        private_data_dir=job["private"],
        playbook=job["playbook"],
        inventory=job["inventory"] or None,
        limit=job["limit"] or None,
        forks=job["forks"],
        cmdline=shlex.join(options) or "--diff",  # an empty one would be read from a file
        passwords={_PROMPTS[name]: word for name, word in job["passwords"].items()},
        event_handler=on_event,
        settings={"suppress_output_file": True, "pexpect_timeout": 1},
        suppress_env_files=True,
        fact_cache_type="none",
        quiet=True,
    )
    # ansible-runner checks no host keys, keeps facts in files, and starts in its own folder.
    runner.config.cwd = job["folder"]
    for name in job["taken_back"]:
        runner.config.env.pop(name, None)
    _status, code = runner.run()
    text = "" if code == 0 else "\n".join(words)[-_WORDS:]
    write({"end": code, "words": text})
    return 0


if __name__ == "__main__":
    sys.exit(main())
