"""Each code block of a page is read by the parser that it is written for, and its names exist.

Of SQL, only the functions of KogniTerm are checked.
"""

from __future__ import annotations

import ast
import configparser
import hashlib
import json
import re
import tomllib
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from kogniterm import prompts, settings
from kogniterm.errors import UsageError
from kogniterm.execution.command_script import read_command_script
from kogniterm.models import text_tool_calls
from kogniterm.models.catalog import price_of
from kogniterm.models.scripted_model import read_script
from kogniterm.runtime.extensions.hooks.hook_files import read_hooks
from kogniterm.runtime.extensions.session_agents import AgentFile, parse_agent
from kogniterm.runtime.inputs.custom_commands import CustomCommand, parse_command
from kogniterm.runtime.plan_edits import read_plan
from kogniterm.runtime.services.policy_service import rules_of
from kogniterm.sessions.journal import codec
from kogniterm.settings.schema import Settings, names_of
from kogniterm.tools.mcp.server_config import parse_servers
from kogniterm.ui.commands.command_table import COMMANDS
from tests.house.test_pages import FLAGS, PAGES, ROOT, unknown_words
from tests.house.test_prose import prose

ACTION = ROOT / "packaging" / "github-action" / "action.yml"
SOURCE = "\n".join(file.read_text("utf-8") for file in (ROOT / "kogniterm").rglob("*.py"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
EXTRAS = set(PROJECT["optional-dependencies"])
HELPERS = "\n".join(
    (ROOT / "tests" / file).read_text("utf-8")
    for file in ("flows/conftest.py", "ui/commands/commanded.py")
)
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text("utf-8"), re.M))


class Block(NamedTuple):
    """A fenced block of a page, with the line where it begins."""

    page: str
    line: int
    language: str
    text: str


def blocks(page: str, text: str) -> Iterator[Block]:
    """Yield the fenced blocks of a page."""
    for match in re.finditer(r"^( *)```(\w*)\n(.*?)^\1```$", text, re.M | re.S):
        lines = match[3].splitlines()
        body = "\n".join(line.removeprefix(match[1]) for line in lines) + "\n"
        yield Block(page, text.count("\n", 0, match.start()) + 1, match[2], body)


# --- what reads a block; each raises for a mistake ---


def read_shell(text: str, _folder: Path) -> None:
    """Check models and files of the repository; test_pages.py checks verbs and options."""
    models = re.findall(r"--model (\S+)", text)
    assert [one for one in models if not price_of(one) and not one.startswith("replay:")] == []
    files = re.findall(r"(?<![\w/$.~-])(?:docs|packaging|tests|benchmarks|\.ci)/[\w./-]+", text)
    assert [file for file in files if not (ROOT / file).exists()] == []


def read_settings(text: str, folder: Path) -> None:
    if "entry-points" in text:
        ((group, entries),) = tomllib.loads(text)["project"]["entry-points"].items()
        assert f'"{group}"' in SOURCE
        assert all(re.fullmatch(r"[\w.]+:\w+", one) for one in entries.values())
        return
    (folder / "config.toml").write_text(text)
    loaded = settings.load({}, environ={"HOME": str(folder), "KOGNITERM_CONFIG_DIR": str(folder)})
    assert loaded.model is None or price_of(loaded.model)


def read_rules(text: str, folder: Path) -> None:
    (folder / "policy.toml").write_text(text)
    assert rules_of(folder / "policy.toml", must_exist=True).rules


def read_json(text: str, _folder: Path) -> None:
    """Check hooks, MCP servers, or the command that an editor starts."""
    data: dict[str, Any] = json.loads(text)
    ((kind, entries),) = data.items()
    if kind == "hooks":
        assert not read_hooks(text, "hooks.json", own=True).notices
        return
    assert kind in ("mcpServers", "agent_servers")
    if kind == "mcpServers":
        assert not parse_servers(text, "mcp.json").problems
    for entry in entries.values():
        if entry.get("command") == "kogniterm":
            assert list(unknown_words(entry["args"])) == []


def read_agent(text: str, _folder: Path) -> None:
    found = parse_agent("agents/reviewer.md", text, ("read_file", "search_text", "execute_command"))
    assert isinstance(found, AgentFile)
    assert found.tools
    assert not found.notices


def read_command(text: str, _folder: Path) -> None:
    found = parse_command("review.md", text)
    assert isinstance(found, CustomCommand)
    assert found.description
    assert found.arguments


def read_prompt(text: str, _folder: Path) -> None:
    assert any(text.strip() in file.source for file in prompts.shipped_files().values())


def read_yaml_recipe(text: str, _folder: Path) -> None:
    if not (ROOT / "kogniterm" / "addons" / "recipes").is_dir():
        pytest.skip("the add-on for recipes was deleted")
    from kogniterm.addons.recipes.recipe_schema import read_recipe

    read_recipe(text)


def read_yaml_plan(text: str, folder: Path) -> None:
    (folder / "plan.yaml").write_text(text)
    read_plan(folder / "plan.yaml")


def read_yaml_script(text: str, folder: Path) -> None:
    file = folder / "script.yaml"
    file.write_text(text)
    if "\ncommands:" in f"\n{text}":
        read_command_script(file)
    else:
        read_script(file)


def read_workflow(text: str, _folder: Path) -> None:
    """Check what a workflow gives to the action, and what it takes from it."""
    action = yaml.safe_load(ACTION.read_text("utf-8"))
    jobs = yaml.safe_load(text)["jobs"].values()
    steps = [
        step for job in jobs for step in job["steps"] if "github-action" in step.get("uses", "")
    ]
    assert steps
    for step in steps:
        assert set(step["with"]) - set(action["inputs"]) == set()
        assert price_of(step["with"]["model"])
    assert set(re.findall(r"steps\.kogniterm\.outputs\.([\w-]+)", text)) <= set(action["outputs"])


def read_hook_of_git(text: str, _folder: Path) -> None:
    ((repo,),) = yaml.safe_load(text).values()
    page = (ROOT / "docs" / "recipes" / "pre-commit.md").read_text("utf-8")
    assert all(f"`{hook['entry']}`" in page for hook in repo["hooks"])


UNIT_KEYS = {
    "Unit": {"Description"},
    "Service": {"Type", "ExecStart", "SuccessExitStatus", "TimeoutStartSec"},
    "Timer": {"OnCalendar", "Persistent"},
    "Install": {"WantedBy"},
}
"""Keys of systemd.unit(5), systemd.service(5) and systemd.timer(5) that the pages use."""


def read_unit(text: str, _folder: Path) -> None:
    unit = configparser.RawConfigParser()
    unit.optionxform = str  # type: ignore[assignment, method-assign]  # keys keep their capitals
    unit.read_string(text)
    for name in unit.sections():
        assert set(unit[name]) - UNIT_KEYS[name] == set()


def read_sql(text: str, _folder: Path) -> None:
    """Check that the functions that a user calls are made by a migration."""
    for name in re.findall(r"SELECT (\w+)\(", text):
        assert f"FUNCTION {name}(" in SOURCE


def read_python(text: str, _folder: Path) -> None:
    """Check the syntax, what is imported, and that each class is one."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom):
            module = import_module(node.module or "")
            assert all(hasattr(module, one.name) for one in node.names)
        elif isinstance(node, ast.Name) and node.id[0].isupper():
            assert re.search(rf"^(?:class )?{node.id}\b", SOURCE + HELPERS, re.M)


def read_layers(text: str, _folder: Path) -> None:
    """Check that each package of the architecture is one."""
    names = set(re.findall(r"[a-z_]+", text)) - {"domains"}
    known = {file.stem for file in (ROOT / "kogniterm").iterdir()}
    assert names - known == set()


def read_call(text: str, _folder: Path) -> None:
    found = text_tool_calls.parse(text)
    assert found.calls
    assert not found.problem


def read_chain(text: str, _folder: Path) -> None:
    """Check that records are chained by the formula."""
    digest = hashlib.sha256(b"saltpayload").hexdigest()
    chained = hashlib.sha256(f"1\n2.5\ninput\n{digest}\nbefore".encode()).hexdigest()
    assert codec.payload_digest("salt", "payload") == digest
    assert codec.record_hash(1, 2.5, "input", digest, "before") == chained
    assert "sha256(seq \\n time \\n kind \\n digest \\n hash of the record before)" in text


def read_error(text: str, folder: Path) -> None:
    """Check that the mistake gives the error that the page shows."""
    (folder / "demo.yaml").write_text("replies:\n  - text: One.\n\n  - txet: Two.\n")
    with pytest.raises(UsageError) as raised:
        read_script(folder / "demo.yaml")
    assert str(raised.value).removeprefix(f"{folder}/") == text.strip()


def read_table(text: str, _folder: Path) -> None:
    """Check the lines of a table of cron."""
    for line in text.splitlines():
        assert re.match(r"[A-Z]+=\S|(?:[\d*,/-]+ +){5}\S", line)


Reader = Callable[[str, Path], object]
READERS: dict[str, Reader] = {
    "sh": read_shell,
    "python": read_python,
    "sql": read_sql,
    "json": read_json,
    "ini": read_unit,
    "docs/agents.md markdown": read_agent,
    "docs/approval.md toml": read_rules,
    "docs/architecture.md ": read_layers,
    "docs/commands.md markdown": read_command,
    "docs/configuration.md toml": read_settings,
    "docs/library.md toml": read_settings,
    "docs/models.md toml": read_settings,
    "docs/models.md ": read_call,
    "docs/plans.md yaml": read_yaml_plan,
    "docs/prompts.md markdown": read_prompt,
    "docs/recipes.md yaml": read_yaml_recipe,
    "docs/recipes/cron.md ": read_table,
    "docs/recipes/github-action.md yaml": read_workflow,
    "docs/recipes/pre-commit.md yaml": read_hook_of_git,
    "docs/sessions.md ": read_chain,
    "docs/scripted.md yaml": read_yaml_script,
    "docs/scripted.md ": read_error,
}
"""Readers by language, or by page and language."""
ELSEWHERE = {
    "docs/library.md pycon": "tests/test_library.py",
}
"""Blocks that another test runs."""
EVERY = [
    block
    for page in PAGES
    for block in blocks(str(page.relative_to(ROOT)), page.read_text("utf-8"))
]


def read_block(block: Block, folder: Path) -> None:
    """Read a block; raise `KeyError` where nothing reads blocks of its kind."""
    kind = f"{block.page} {block.language}"
    if kind not in ELSEWHERE:
        (READERS.get(block.language) or READERS[kind])(block.text, folder)


@pytest.mark.parametrize("block", EVERY, ids=lambda block: f"{block.page}:{block.line}")
def test_a_block_is_read_by_what_it_is_written_for(block: Block, tmp_path: Path) -> None:
    read_block(block, tmp_path)


@pytest.mark.parametrize(
    "planted",
    [
        ("docs/agents.md", "markdown", "---\ntools: Reada\n---\nLook.\n"),
        ("docs/approval.md", "toml", '[[rule]]\ndecision = "allowx"\nprogram = "npm"\n'),
        ("docs/commands.md", "markdown", "---\ndescripton: Review\n---\n"),
        ("docs/configuration.md", "toml", "max_setps = 80\n"),
        ("docs/hooks.md", "json", '{"hooks": {"PreToolUze": []}}'),
        ("docs/mcp.md", "json", '{"mcpServers": {"files": {"comand": "npx"}}}'),
        (
            "docs/mcp.md",
            "json",
            '{"mcpServers": {"k": {"command": "kogniterm", "args": ["mpc"]}}}',
        ),
        ("docs/models.md", "", "<tool_call>ls</tool_call>\n"),
        ("docs/plans.md", "yaml", "goal: Upgrade\nsteps:\n  - {waht: Test it}\n"),
        ("docs/recipes.md", "yaml", "name: check\nnodes:\n  - {id: a, comand: make}\n"),
        ("docs/scripted.md", "yaml", "replies:\n  - txet: One\n"),
        ("docs/scripted.md", "", "demo.yaml, line 4: no such key\n"),
        ("docs/recipes/cron.md", "ini", "[Service]\nExecStrat=/bin/true\n"),
        ("docs/recipes/cron.md", "ini", "[Service]\nexecstart=/bin/true\n"),
        ("docs/recipes/cron.md", "ini", "[Timmer]\nPersistent=true\n"),
        ("docs/storage.md", "sql", "SELECT queue_grant('operator');\n"),
        ("docs/executor.md", "python", "from kogniterm.execution import open_shell\n"),
        ("docs/packages.md", "sh", "docker build -f packaging/docker/Containerfile .\n"),
        ("docs/models.md", "sh", "kogniterm --model antropic:claude\n"),
        ("docs/memory.md", "xml", "<a/>\n"),
    ],
    ids=lambda planted: f"{planted[0]} {planted[1]}",
)
def test_a_mistake_in_a_block_is_found(planted: tuple[str, str, str], tmp_path: Path) -> None:
    page, language, text = planted
    with pytest.raises((AssertionError, KeyError, ImportError, UsageError)):
        read_block(Block(page, 1, language, text), tmp_path)


# --- names in the text and in the blocks ---

SLASH = {name: command for command in COMMANDS for name in (command.name, *command.aliases)}
VARIABLES = {name for field in Settings.model_fields for name in names_of(field)}
OPTIONS = {name for flags in FLAGS.values() for name in flags}
OTHER_PROGRAMS = {
    "README.md": {"--compile-bytecode"},
    "docs/benchmarks.md": {
        "--ak", "--base-url", "--allow-agent-host", "--mcp-config", "--skill", "--max-retries",
    },
    "docs/commands.md": {"/he", "/review", "--save"},
    "docs/editors.md": {"/continue"},
    "docs/models.md": {"--save"},
    "docs/migrating.md": {"/review", "/copy", "/ide"},
    "docs/packages.md": {"--compile-bytecode", "--user", "--rm"},
    "docs/recipes/cron.md": {"--close"},
    "docs/skills.md": {"/release-notes"},
    "CONTRIBUTING.md": {"/id"},
}  # fmt: skip
"""Names of other programs, of slash commands of the user, and words of slash commands, by page."""
FOLDERS = {"/tmp", "/proc"}
OF_OTHER_AGENTS = "docs/migrating.md"
"""A page whose tables name, in the first column, what other agents have."""


def unknown_names(page: str, text: str) -> Iterator[str]:
    """Yield the names of a page that are no option, slash command, variable, target or extra."""
    text = re.sub(r"^\|[^|]*\|(.*)", r"\1", text, flags=re.M) if page == OF_OTHER_AGENTS else text
    known = OTHER_PROGRAMS.get(page, set()) | FOLDERS
    for span in re.findall(r"`([^`]+)`", prose(text)):
        slash = re.match(r"/([a-z-]+)(?= |$)(?: ([a-z-]+)\b)?", span)
        if slash and f"/{slash[1]}" not in known and not takes(slash[1], slash[2]):
            yield span
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", span):
            if option not in OPTIONS | known:
                yield option
        target = re.match(r"make ([a-z][a-z-]*)$", span)
        if target and target[1] not in TARGETS:
            yield span
    for name in re.findall(r"\bKOGNITERM_[A-Z_]*[A-Z]\b", text):
        if name not in VARIABLES and f'"{name}"' not in SOURCE:
            yield name
    for extra in re.findall(r"\.\[(\w[\w-]*)\]'|\bextra `([\w-]+)`", text):
        if "".join(extra) not in EXTRAS:
            yield "".join(extra)


def takes(name: str, word: str | None) -> bool:
    """Return whether there is a slash command that takes a first word, if its usage lists them."""
    command = SLASH.get(name)
    if command is None or word is None:
        return command is not None
    usage = re.sub(r"^\[(.*?)\](?: .*)?$", r"\1", command.arguments)
    listed = [one.split()[0] for one in usage.split("|") if one]
    return word in listed or not all(re.fullmatch(r"[a-z-]+", one) for one in listed)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_names_in_a_page_exist(page: Path) -> None:
    if page.name != "CHANGELOG.md":  # it names what was removed
        name = str(page.relative_to(ROOT))
        assert list(unknown_names(name, page.read_text("utf-8"))) == []


def test_a_wrong_name_in_a_page_is_found() -> None:
    planted = "`/forgetx` `/keys vim` `--plan-olny` `make tets` KOGNITERM_MODLE the extra `otle`"
    assert len(list(unknown_names("README.md", planted))) == 6
    assert list(unknown_names("README.md", "`/keys vi` `--plan-only` `make test`")) == []
