"""Runs a composite action as GitHub does: expressions, environment, files for outputs, masks.

Only what action.yml of this project uses is understood; anything else raises.
See https://docs.github.com/actions/reference/workflows-and-actions/metadata-syntax.
"""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}", re.DOTALL)
_PATH = re.compile(r"(inputs|github|steps)((?:\.[\w-]+)+)")


@dataclass
class Outcome:
    """The end of a job: the outputs of the action, the log as it is shown, and the summary."""

    outputs: dict[str, str]
    log: str
    failed: bool
    summary: str
    raw: str = field(repr=False)


@dataclass
class Runner:
    """A runner with a checkout in `workspace`; `environment` is that of the job."""

    action: Path
    workspace: Path
    temporary: Path
    environment: Mapping[str, str]
    event: Mapping[str, Any] = field(default_factory=dict)
    secrets: tuple[str, ...] = ()

    def run(self, **given: str) -> Outcome:
        """Run all steps with the inputs; hyphens of their names are underscores here."""
        described = yaml.safe_load((self.action / "action.yml").read_text("utf-8"))
        inputs = {name: str(one.get("default", "")) for name, one in described["inputs"].items()}
        inputs |= {name.replace("_", "-"): value for name, value in given.items()}
        assert set(inputs) == set(described["inputs"]), "an input that the action has not"
        github = {"action_path": str(self.action), "token": "ghs-of-the-job", "event": self.event}
        known: dict[str, Any] = {"github": github, "inputs": {}, "steps": {}}
        known["inputs"] = {name: _filled(value, known) for name, value in inputs.items()}
        log, failed = "", False
        summary = self.temporary / "summary.md"
        summary.touch()
        for number, step in enumerate(described["runs"]["steps"]):
            if failed and "always()" not in step.get("if", ""):
                continue
            if "if" in step and not _value(step["if"].strip()[3:-2], known):
                continue
            outputs = self.temporary / f"outputs_{number}"
            outputs.touch()
            done = self._step(step, known, outputs, summary)
            log += done.stdout
            failed = failed or done.returncode != 0
            known["steps"][step["id"]] = {"outputs": _outputs(outputs.read_text("utf-8"))}
        ends = {name: _filled(one["value"], known) for name, one in described["outputs"].items()}
        return Outcome(ends, self._masked(log), failed, summary.read_text("utf-8"), log)

    def _step(
        self, step: Mapping[str, Any], known: Mapping[str, Any], outputs: Path, summary: Path
    ) -> subprocess.CompletedProcess[str]:
        assert step["shell"] == "bash"
        script = self.temporary / "step.sh"
        script.write_text(_filled(step["run"], known))
        own = {name: _filled(str(value), known) for name, value in step.get("env", {}).items()}
        files = {
            "GITHUB_OUTPUT": str(outputs),
            "GITHUB_STEP_SUMMARY": str(summary),
            "GITHUB_WORKSPACE": str(self.workspace),
            "RUNNER_TEMP": str(self.temporary),
        }
        return subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", str(script)],
            cwd=self.workspace,
            env={**self.environment, **files, **own},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def _masked(self, log: str) -> str:
        """Return the log without workflow commands, and with `***` in place of what they mask."""
        masks = {*self.secrets, *re.findall(r"^::add-mask::(.+)$", log, re.MULTILINE)}
        shown = re.sub(r"^::add-mask::.*\n", "", log, flags=re.MULTILINE)
        for mask in masks:
            shown = shown.replace(mask, "***")
        return shown


def _filled(text: str, known: Mapping[str, Any]) -> str:
    return _EXPRESSION.sub(lambda found: str(_value(found[1], known)), text)


def _value(expression: str, known: Mapping[str, Any]) -> Any:
    """Return the value of `a.b.c`, of `… || …`, `… && …`, `… != ''` and `always()`."""
    expression = expression.strip()
    if " || " in expression:
        return next(filter(None, (_value(one, known) for one in expression.split(" || "))), "")
    if " && " in expression:
        return all(_value(one, known) for one in expression.split(" && "))
    if expression == "always()":
        return True
    if expression.endswith(" != ''"):
        return _value(expression.removesuffix(" != ''"), known) != ""
    assert _PATH.fullmatch(expression), f"an expression that is not understood: {expression}"
    found: Any = known
    for name in expression.split("."):
        found = found.get(name, "") if isinstance(found, Mapping) else ""
    return found


def _outputs(text: str) -> dict[str, str]:
    """Return the outputs that a step wrote, in either form."""
    found: dict[str, str] = {}
    lines = iter(text.split("\n"))
    for line in lines:
        if match := re.fullmatch(r"([\w-]+)<<(.+)", line):
            held = []
            for inner in lines:
                if inner == match[2]:
                    break
                held.append(inner)
            else:
                raise AssertionError(f"no end of the output {match[1]}")
            found[match[1]] = "\n".join(held)
        elif "=" in line:
            name, _, value = line.partition("=")
            found[name] = value
        else:
            assert not line, f"neither output nor empty: {line}"
    return found
