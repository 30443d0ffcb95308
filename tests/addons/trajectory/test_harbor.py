"""A real run of Harbor with KogniTerm as its agent, on tasks in bubblewraps instead of Docker.

Only the model is scripted. The container has no network: what KogniTerm needs comes in its wheel,
and the packages it depends on are in the image, as far as there is one.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kogniterm.addons.trajectory.atif_export import trajectory
from kogniterm.sessions.session_database import SESSIONS
from kogniterm.sessions.store import SessionStore
from kogniterm.storage.database import Database
from tests.support.conversation import eventful_session
from tests.support.programs import needs, require_sandbox
from tests.support.registry_packages import HARBOR, python_programs

pytestmark = needs("bwrap", "git")
ROOT = Path(__file__).parents[3]
SUPPORT = ROOT / "tests" / "support"
SERVER = SUPPORT / "mcp_demo" / "demo_server.py"
SECONDS = 500
Json = dict[str, Any]

TASKS = {
    "solved": (
        "/app/hello.txt must say hello, as @greeting does.",
        "grep -qx hello /app/hello.txt",
    ),
    "unsolved": ("Write bye into bye.txt.", "test -e /app/bye.txt"),
    "broken": ("Ask the provider that is down.", "test -e /app/hello.txt"),
}
"""The instruction and the check of each task."""
SKILL = """---
name: greeting
description: Write greetings into files.
---
The greeting is hello.
"""
SCRIPT = """
replies:
  - when: {last_contains: provider that is down}
    error: unavailable
    message: The provider is down.
  - when: {last_contains: must say hello}
    run: git init -q . && git reset --hard -q; echo hello > hello.txt
    purpose: Write the file.
    usage: {input: 1000, output: 50, cached: 400}
  - when: {tool: execute_command}
    calls:
      - tool: use_skill
        arguments: {name: greeting}
      - tool: call_tool
        arguments: {tool: mcp__demo__add, arguments: {a: 2, b: 3}}
    usage: {input: 1100, output: 10, cached: 900}
  - when: {tool: call_tool}
    text: Done.
    usage: {input: 1200, output: 10, cached: 900}
  - when: {last_contains: Write bye}
    text: I did it.
"""
VALIDATE = """
import sys
from harbor.utils.trajectory_validator import TrajectoryValidator
for name in sys.argv[1:]:
    validator = TrajectoryValidator()
    print(name, *([] if validator.validate(name) else validator.errors))
"""

CONNECT = """
import json, pathlib, sys
from kogniterm_harbor import KogniTerm
def variables(name, options):
    agent = KogniTerm(logs_dir=pathlib.Path("."), model_name=name, **options)
    return {key: value for key, value in agent._environment().items() if key in sys.argv[1]}
def failure(status, log):
    agent = KogniTerm(logs_dir=pathlib.Path("."), model_name="openai/x")
    return type(agent._failure(status, log)).__name__
told = []
for name, options in json.loads(sys.argv[2]):
    try:
        told.append(variables(name, options))
    except ValueError as error:
        told.append(str(error))
told += [failure(*each) for each in json.loads(sys.argv[3])]
print(json.dumps(told))
"""
VARIABLES = "KOGNITERM_MODEL ANTHROPIC_API_KEY GOOGLE_API_KEY OPENAI_API_KEY OPENAI_BASE_URL"
MODELS: list[tuple[str, Json, Json | str]] = [
    (
        "anthropic/claude-sonnet-5",
        {},
        {"KOGNITERM_MODEL": "anthropic:claude-sonnet-5", "ANTHROPIC_API_KEY": "key 1"},
    ),
    (
        "google/gemini-3-pro",
        {},
        {"KOGNITERM_MODEL": "google_genai:gemini-3-pro", "GOOGLE_API_KEY": "key 2"},
    ),
    (
        "deepseek/chat",
        {},
        {
            "KOGNITERM_MODEL": "openai:chat",
            "OPENAI_API_KEY": "key 3",
            "OPENAI_BASE_URL": "https://api.deepseek.com",
        },
    ),
    (
        "mine/model",
        {"base_url": "http://127.0.0.1:9/v1"},
        {"KOGNITERM_MODEL": "openai:mine/model", "OPENAI_BASE_URL": "http://127.0.0.1:9/v1"},
    ),
    ("mine/model", {}, "KogniTerm has no provider for mine/model."),
    ("openai/x", {"max_dollars": 1}, "Unknown option 'max_dollars'"),
]
FAILURES = [
    (
        5,
        "kogniterm: OpenAI rejected the API key (401); set a valid one.",
        "AgentAuthenticationError",
    ),
    (5, "kogniterm: Rate limit or quota of x at OpenAI reached (429).", "ApiRateLimitError"),
    (5, "kogniterm: The reply made no sense.", "UnknownApiError"),
    (70, "ValueError: Rate limit or quota", "NonZeroAgentExitCodeError"),
]
"""Exit status and last words of KogniTerm, and the error that Harbor is told."""


@dataclass(frozen=True, slots=True)
class Job:
    """The results of the trials in a run of Harbor and their folders, by task."""

    results: dict[str, Json]
    folders: dict[str, Path]
    harbor: Path

    def trajectory(self, task: str) -> Json:
        found: Json = json.loads((self.folders[task] / "agent" / "trajectory.json").read_text())
        return found


def _write_tasks(folder: Path) -> None:
    for name, (instruction, check) in TASKS.items():
        task = folder / name
        (task / "environment").mkdir(parents=True)
        (task / "environment" / "Dockerfile").write_text("FROM scratch\n")
        (task / "tests").mkdir()
        (task / "tests" / "test.sh").write_text(
            f"if {check}; then echo 1; else echo 0; fi >/logs/verifier/reward.txt\n"
        )
        (task / "instruction.md").write_text(f"{instruction}\n")
        (task / "task.toml").write_text(
            'schema_version = "1.4"\n[agent]\ntimeout_sec = 300\n[verifier]\ntimeout_sec = 300\n'
        )


def _image(folder: Path) -> Path:
    """Return a folder with the packages of this Python, without KogniTerm itself."""
    folder.mkdir()
    site = next(Path(sys.prefix).glob("lib/python3*/site-packages"))
    for entry in site.iterdir():
        if "kogniterm" not in entry.name:
            (folder / entry.name).symlink_to(entry)
    return folder


def _environment(scratch: Path) -> dict[str, str]:
    reads = [sys.prefix, sys.base_prefix, SUPPORT / "mcp_demo", scratch]
    return {
        **os.environ,
        "CONTAINER_PACKAGES": str(_image(scratch / "image")),
        "CONTAINER_PATH": f"{sys.base_prefix}/bin:/usr/bin:/bin",
        "CONTAINER_READS": ":".join(map(str, reads)),
        "HARBOR_TELEMETRY": "0",
        "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        # pip's word for building with the packages that are installed.
        "PIP_NO_BUILD_ISOLATION": "0",
        "PYTHONPATH": f"{ROOT / 'packaging' / 'harbor'}:{SUPPORT}",
    }


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Job:
    """Run Harbor once, on all tasks."""
    require_sandbox("bubblewrap")
    programs = python_programs(*HARBOR, least=(3, 12))
    scratch = tmp_path_factory.mktemp("harbor")
    _write_tasks(scratch / "tasks")
    (scratch / "script.yaml").write_text(SCRIPT)
    (scratch / "greeting").mkdir()
    (scratch / "greeting" / "SKILL.md").write_text(SKILL)
    server = {"command": sys.executable, "args": [str(SERVER), "/tmp/calls"]}
    (scratch / "mcp.json").write_text(json.dumps({"mcpServers": {"demo": server}}))
    words = ["run", "--path", scratch / "tasks", "--jobs-dir", scratch / "jobs", "--quiet", "--yes",
             "--job-name", "job", "--agent", "kogniterm_harbor:KogniTerm", "--model",
             f"scripted:{scratch / 'script.yaml'}", "--env", "harbor_environment:Bubblewrap",
             "--mcp-config", scratch / "mcp.json", "--skill", scratch / "greeting"]  # fmt: skip
    done = subprocess.run(
        [programs / "harbor", *map(str, words)], env=_environment(scratch), cwd=scratch,
        capture_output=True, text=True, timeout=SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    results = {}
    folders = {}
    for file in (scratch / "jobs" / "job").glob("*/result.json"):
        task = file.parent.name.partition("__")[0]
        results[task], folders[task] = json.loads(file.read_text()), file.parent
    assert set(results) == set(TASKS), done.stdout
    return Job(results, folders, programs)


def test_a_solved_task_is_rewarded_and_has_its_tokens_cost_and_session(job: Job) -> None:
    result = job.results["solved"]
    assert result["exception_info"] is None
    assert result["verifier_result"]["rewards"] == {"reward": 1.0}
    used = result["agent_result"]
    assert (used["n_input_tokens"], used["n_cache_tokens"], used["n_output_tokens"]) == (
        3300, 2200, 70,
    )  # fmt: skip
    assert used["cost_usd"] == 0.0
    told = used["metadata"]
    assert (told["exit_status"], told["stop"], told["refused_actions"]) == (0, "done", 0)
    document = job.trajectory("solved")
    assert document["session_id"] == told["session_id"]
    assert document["agent"]["version"] == result["agent_info"]["version"]
    assert (job.folders["solved"] / "agent" / "session.jsonl").stat().st_size > 0


def test_the_harness_approves_what_a_user_would_be_asked(job: Job) -> None:
    """The container is the sandbox: what would be refused without a user runs there."""
    first = next(step for step in job.trajectory("solved")["steps"] if "tool_calls" in step)
    (request,) = first["tool_calls"][0]["extra"]["requests"]
    assert request["label"] == "dangerous"
    assert request["decision"] == {"kind": "approve", "by": "program"}


def test_skills_and_mcp_servers_of_harbor_are_used(job: Job) -> None:
    results = [
        result["content"]
        for step in job.trajectory("solved")["steps"]
        for result in step.get("observation", {"results": ()})["results"]
    ]
    assert any("The greeting is hello." in text for text in results)
    assert re.search(r"\b5\b", results[-1])


def test_an_unsolved_task_is_no_error(job: Job) -> None:
    result = job.results["unsolved"]
    assert result["exception_info"] is None
    assert result["verifier_result"]["rewards"] == {"reward": 0.0}


def test_a_failed_provider_is_an_error_and_no_clean_run(job: Job) -> None:
    result = job.results["broken"]
    assert result["exception_info"]["exception_type"] == "UnknownApiError"
    assert "The provider is down." in result["exception_info"]["exception_message"]
    assert result["exception_info"]["policy"]["has_valid_reward"] is False
    assert result["agent_result"]["metadata"]["exit_status"] == 5


def test_harbor_accepts_the_trajectories(job: Job, tmp_path: Path) -> None:
    store = SessionStore(Database(tmp_path / "kogniterm.db", SESSIONS), version="1.0")
    journal = store.create(folder="/home/ana/project", model="openai:gpt-4o")
    eventful_session(journal)
    journal.close()
    parts = trajectory(store, journal.state.session_id)
    (tmp_path / "eventful.json").write_text("".join(parts))
    store.close()
    files = [str(tmp_path / "eventful.json")]
    files += [str(folder / "agent" / "trajectory.json") for folder in job.folders.values()]
    done = subprocess.run(
        [job.harbor / "python", "-c", VALIDATE, *files], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == files, done.stdout + done.stderr


def test_harbor_is_told_models_and_failures_in_its_own_terms() -> None:
    """Only the key of the provider that is asked goes into the container."""
    python = python_programs(*HARBOR, least=(3, 12)) / "python"
    keys = {"ANTHROPIC_API_KEY": "key 1", "GOOGLE_API_KEY": "key 2", "DEEPSEEK_API_KEY": "key 3"}
    given = [(name, options) for name, options, _variables in MODELS]
    failed = [(status, log) for status, log, _error in FAILURES]
    done = subprocess.run(
        [python, "-c", CONNECT, VARIABLES, json.dumps(given), json.dumps(failed)],
        env={**os.environ, **keys, "PYTHONPATH": str(ROOT / "packaging" / "harbor")},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    told = json.loads(done.stdout or "[]")
    for (_name, _options, expected), found in zip(MODELS, told, strict=False):
        assert found == expected if isinstance(expected, dict) else expected in found
    assert told[len(MODELS) :] == [error for _status, _log, error in FAILURES], done.stderr


def test_an_installed_kogniterm_is_packed_as_it_is(tmp_path: Path) -> None:
    """Packing the files of an installation gives the wheel it was installed from."""
    python = python_programs(*HARBOR, least=(3, 12)) / "python"
    pip = [python, "-m", "pip", "--disable-pip-version-check", "--quiet"]
    making = (
        "import kogniterm_harbor.wheel as w, shutil, sys; shutil.copy(w.local_wheel(), sys.argv[1])"
    )
    found = []
    source = ROOT / "packaging" / "harbor"
    for name in ("built", "packed"):
        folder = tmp_path / name
        folder.mkdir()
        environment = {**os.environ, "PYTHONPATH": str(source), "PIP_NO_BUILD_ISOLATION": "0"}
        subprocess.run([python, "-P", "-c", making, folder], env=environment, check=True)
        (wheel,) = folder.glob("*.whl")
        source = folder / "installed"
        subprocess.run([*pip, "install", "--no-deps", "--target", source, wheel], check=True)
        files = {str(file.relative_to(source)): file for file in source.rglob("kogniterm*/**/*")}
        found.append({
            name: file.read_bytes() for name, file in files.items()
            if file.is_file() and "dist-info" not in name and "__pycache__" not in name
        })  # fmt: skip
    built, packed = found
    assert "kogniterm/_prompts/compact.md" in built
    assert "kogniterm_harbor/install.sh" in built
    assert packed == built


def test_without_curl_and_wget_the_harness_is_told_what_is_missing(tmp_path: Path) -> None:
    for name in ("mkdir", "sh"):
        (tmp_path / name).symlink_to(str(shutil.which(name)))
    script = ROOT / "packaging" / "harbor" / "kogniterm_harbor" / "install.sh"
    done = subprocess.run(
        ["sh", script, tmp_path / "installed", "kogniterm.whl"], env={"PATH": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (3, "uv cannot be downloaded without curl or wget\n")
