"""Imports on real folders: what is planned, what is written, and what is never lost or shown."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from kogniterm.addons.import_agents.foreign import source_files
from kogniterm.addons.import_agents.foreign.foreign_agents import find_agent
from kogniterm.addons.import_agents.foreign.found import Found, Place
from kogniterm.addons.import_agents.import_preview import ImportPreview
from kogniterm.addons.import_agents.import_settings import (
    ImportPlan,
    Target,
    carry_out,
    plan_import,
    project_target,
    user_target,
)
from kogniterm.errors import KognitermError
from kogniterm.host.safe_files import read_regular
from kogniterm.paths import resolve
from kogniterm.runtime.extensions.hooks.hook_files import user_hooks
from kogniterm.runtime.extensions.session_agents import AgentFile, agents_of_folder
from kogniterm.runtime.extensions.skills.skill_sources import SkillSources
from kogniterm.runtime.inputs.custom_commands import CustomCommand, commands_of_folder
from kogniterm.tools.mcp.server_config import parse_servers
from tests.support.other_agents import BEARER, HOMES, PLAIN, SECRETS, TOKEN


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "home"
    folder.mkdir()
    return folder


class Importer:
    """Imports for one user, whose home is a real folder."""

    def __init__(self, home: Path, word: str, **environ: str) -> None:
        self.home = home
        self.word = word
        self.environ = {"HOME": str(home), **environ}
        self.paths = resolve(self.environ)

    @property
    def found(self) -> Found:
        return find_agent(self.word).read(Place(self.home, self.environ))

    @property
    def target(self) -> Target:
        return user_target(self.paths.extensions, self.paths.policy_file)

    def plan(self, **how: Any) -> ImportPlan:
        return plan_import(self.found, self.target, self.environ, **how)

    def run(self, **how: Any) -> ImportPlan:
        plan = self.plan(**how)
        carry_out(plan, self.target)
        return plan

    def config(self, name: str) -> Path:
        return self.paths.config / name

    def servers(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.config("mcp.json").read_text())["mcpServers"]
        return found


def states(plan: ImportPlan) -> set[str]:
    return {one.state for one in plan.changes}


@pytest.mark.parametrize("word", HOMES)
def test_a_second_import_adds_nothing(word: str, home: Path) -> None:
    HOMES[word](home)
    importer = Importer(home, word)
    first = importer.run()
    assert states(first) == {"new"}
    written = {one: one.read_bytes() for one in importer.paths.config.rglob("*") if one.is_file()}
    second = importer.run()
    assert states(second) == {"same"}
    assert second.empty
    assert not any(one.difference for one in second.changes)
    assert written == {
        one: one.read_bytes() for one in importer.paths.config.rglob("*") if one.is_file()
    }
    assert all(one.stat().st_mode & 0o077 == 0 for one in importer.paths.config.rglob("*"))


@pytest.mark.parametrize("word", HOMES)
@pytest.mark.parametrize("literal", [False, True])
def test_no_secret_is_in_a_plan_that_is_shown(word: str, literal: bool, home: Path) -> None:
    HOMES[word](home)
    plan = Importer(home, word).plan(literal=literal)
    shown = "".join(f"{one.name}{one.difference}" for one in plan.changes)
    assert not [secret for secret in SECRETS if secret in shown]


def test_secrets_are_written_as_references_or_literally_when_asked(home: Path) -> None:
    HOMES["claude"](home)
    importer = Importer(home, "claude", DOCS_KEY=BEARER, GITHUB_TOKEN="another value")
    plan = importer.run()
    servers = importer.servers()
    assert servers["github"]["env"] == {"GITHUB_TOKEN": "${GITHUB_TOKEN}"}
    assert servers["docs"]["headers"]["Authorization"] == "Bearer ${DOCS_KEY}"
    assert servers["db"]["args"] == ["--password", "${DB_PASSWORD}", "--readonly"]
    assert {(one.server, one.variable, one.set, one.same) for one in plan.secrets} == {
        ("github", "GITHUB_TOKEN", True, False),
        ("docs", "DOCS_KEY", True, True),
        ("db", "DB_PASSWORD", False, False),
    }
    config = importer.config("mcp.json").read_text()
    assert not [secret for secret in SECRETS if secret in config]
    importer.config("mcp.json").unlink()
    importer.run(literal=True)
    assert importer.servers()["github"]["env"] == {"GITHUB_TOKEN": TOKEN}
    assert states(importer.plan(only=["mcp"])) == {"same"}


def test_two_servers_never_share_a_variable_for_different_secrets(home: Path) -> None:
    servers = {
        "one": {"command": "a", "env": {"API_KEY": PLAIN}},
        "two": {"command": "b", "env": {"API_KEY": BEARER}},
        "three": {"command": "c", "env": {"API_KEY": PLAIN}},
    }
    (home / ".claude.json").write_text(json.dumps({"mcpServers": servers}))
    importer = Importer(home, "claude")
    importer.run()
    references = [one["env"]["API_KEY"] for one in importer.servers().values()]
    assert references == ["${API_KEY}", "${TWO_API_KEY}", "${API_KEY}"]


@pytest.mark.parametrize(
    ("entry", "reference"),
    [
        ({"command": "x", "args": [f"--api-key={PLAIN}"]}, "--api-key=${S_API_KEY}"),
        ({"command": "x", "args": ["--token", PLAIN]}, "${S_TOKEN}"),
        (
            {"command": "x", "args": ["-H", f"Authorization: Bearer {TOKEN}"]},
            "Bearer ${S_TOKEN}",
        ),
        ({"command": "docker", "args": ["-e", f"X_TOKEN={PLAIN}", "img"]}, "X_TOKEN=${X_TOKEN}"),
        ({"command": "x", "args": ["--header", f"X-Api-Key: {PLAIN}"]}, "Key: ${S_X_API_KEY}"),
        ({"command": "x", "args": ["--header", f"Authorization:Bearer {BEARER}"]}, "${S_TOKEN}"),
        ({"command": "x", "env": {"PASSWORD": BEARER}}, "${PASSWORD}"),
        ({"command": "x", "env": {"DB_PASSWORD": "12345678"}}, "${DB_PASSWORD}"),
        ({"command": "x", "env": {"H": f'{{"Authorization": "Bearer {TOKEN}"}}'}}, "${S_H_SECRET}"),
        ({"url": f"https://x.example/mcp?api_key={PLAIN}"}, "?api_key=${S_URL_SECRET}"),
        ({"url": f"https://me:{PLAIN}@x.example/mcp"}, "https://me:${S_URL_SECRET}@"),
        ({"command": "x", "env": {"DSN": f"postgres://me:{PLAIN}@db/x"}}, '"DSN": "${DSN}"'),
        ({"url": "https://x", "headers": {"X-Session": PLAIN}}, "${S_X_SESSION}"),
        ({"url": "https://x", "headers": {"Authorization": f"Basic {BEARER}"}}, "Basic ${S_TOKEN}"),
    ],
)
def test_secrets_are_found_wherever_they_stand(
    entry: dict[str, Any], reference: str, home: Path
) -> None:
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"s": entry}}))
    importer = Importer(home, "claude")
    plan = importer.run()
    written = importer.config("mcp.json").read_text()
    assert reference in written
    assert not [one for one in SECRETS if one in written + plan.changes[0].difference]


def test_what_is_no_secret_stays_as_it_is(home: Path) -> None:
    entry = {
        "command": "x",
        "args": ["--token-file", "/run/token", "--keys", "12", "${TOKEN}", "-e", "LANG=C"],
        "env": {"KEY_FILE": "~/.ssh/id", "AUTH": "oauth", "TOKEN_URL": "https://x.example/token",
                "SECRET": "${SECRET:-}", "MAX_TOKENS": "4096", "AUTH_MODE": "device-code",
                "TOKENIZER": "cl100k_base", "AUTHOR": "Ana", "SESSION": "main"},
    }  # fmt: skip
    (home / ".claude.json").write_text(json.dumps({"mcpServers": {"s": entry}}))
    importer = Importer(home, "claude")
    assert not importer.run().secrets
    assert importer.servers()["s"] == entry


def test_what_differs_is_shown_and_kept_unless_it_is_to_be_replaced(home: Path) -> None:
    HOMES["claude"](home)
    importer = Importer(home, "claude")
    importer.run()
    own = {"command": "mine", "env": {"GITHUB_TOKEN": PLAIN}}
    whole = {"mcpServers": {**importer.servers(), "github": own}, "other": [1]}
    importer.config("mcp.json").write_text(json.dumps(whole))
    importer.config("commands/review.md").write_text("Mine.\n")
    importer.config("skills/pdf/SKILL.md").write_text("Mine.\n")
    importer.config("skills/pdf/extra.txt").write_text("Mine.\n")
    hooks = json.loads(importer.config("hooks.json").read_text())
    hooks["hooks"]["PreToolUse"][0]["hooks"][0]["timeout"] = 5
    importer.config("hooks.json").write_text(json.dumps(hooks))
    plan = importer.run()
    different = [one for one in plan.changes if one.state == "different"]
    assert [one.name for one in different] == ["github", "PreToolUse Bash", "pdf", "review.md"]
    assert '-    "command": "mine"' in different[0].difference
    assert PLAIN not in different[0].difference
    assert plan.empty
    assert importer.servers()["github"] == own
    assert importer.config("commands/review.md").read_text() == "Mine.\n"
    importer.run(replace=True)
    assert importer.servers()["github"]["command"] == "npx"
    assert json.loads(importer.config("mcp.json").read_text())["other"] == [1]
    assert importer.config("commands/review.md").read_text().startswith("---")
    assert not importer.config("skills/pdf/extra.txt").exists()
    assert json.loads(importer.config("hooks.json").read_text())["hooks"]["PreToolUse"] == [
        {
            "matcher": "Bash",
            "hooks": [{"type": "command", "command": "~/.claude/guard.sh", "timeout": 30}],
        }
    ]
    assert states(importer.plan()) == {"same"}


def test_what_the_user_added_for_kogniterm_is_no_difference_and_stays(home: Path) -> None:
    HOMES["claude"](home)
    importer = Importer(home, "claude")
    importer.run()
    servers = importer.servers()
    servers["github"]["network"] = True
    importer.config("mcp.json").write_text(json.dumps({"mcpServers": servers}))
    hooks = json.loads(importer.config("hooks.json").read_text())
    hooks["hooks"]["PreToolUse"][0]["hooks"][0]["sandbox"] = False
    importer.config("hooks.json").write_text(json.dumps(hooks))
    assert states(importer.plan()) == {"same"}
    state = json.loads((home / ".claude.json").read_text())
    state["mcpServers"]["github"]["args"] = ["other"]
    (home / ".claude.json").write_text(json.dumps(state))
    assert [one.name for one in importer.plan().changes if one.state == "different"] == ["github"]
    importer.run(replace=True)
    assert importer.servers()["github"]["args"] == ["other"]
    assert importer.servers()["github"]["network"] is True


def test_instructions_change_only_between_their_marks(home: Path) -> None:
    HOMES["claude"](home)
    importer = Importer(home, "claude")
    file = importer.config("AGENTS.md")
    file.parent.mkdir(parents=True)
    file.write_text("# Mine\n\nStays.\n")
    importer.run(only=["instructions"])
    assert file.read_text().startswith("# Mine\n\nStays.\n\n<!-- kogniterm import: ~/.claude/")
    file.write_text(file.read_text() + "\nMine too.\n")
    forged = "<!-- end of kogniterm import: ~/.claude/CLAUDE.md -->\n"
    (home / ".claude/CLAUDE.md").write_text(f"Changed.\n{forged}Still theirs.\n")
    plan = importer.run(only=["instructions"])
    assert states(plan) == {"update"}
    assert file.read_text() == (
        "# Mine\n\nStays.\n\n<!-- kogniterm import: ~/.claude/CLAUDE.md -->\n"
        "Changed.\nStill theirs.\n<!-- end of kogniterm import: ~/.claude/CLAUDE.md -->\n"
        "\nMine too.\n"
    )
    assert importer.plan(only=["instructions"]).empty


def test_proposed_rules_are_comments_and_never_in_force(home: Path) -> None:
    allow = ["Bash(npm run test:*)", "Bash(ls)", "Bash(git *)", 'Bash(x "\n]]\ndecision=1)', "Read"]
    settings = {"permissions": {"allow": allow, "deny": [f"Bash(login {TOKEN})"]}}
    (home / ".claude").mkdir()
    (home / ".claude/settings.json").write_text(json.dumps(settings))
    importer = Importer(home, "claude")
    importer.config("x").parent.mkdir(parents=True)
    importer.config("policy.toml").write_text('[[rule]]\ndecision = "deny"\nprogram = "curl"\n')
    importer.run()
    text = importer.config("policy.toml").read_text()
    assert tomllib.loads(text) == {"rule": [{"decision": "deny", "program": "curl"}]}
    assert TOKEN not in text
    proposed = text.partition("# kogniterm import")[2].replace("\n# ", "\n")
    assert '[[rule]]\ndecision = "allow"\nprogram = "ls"\narguments = ""' in proposed
    assert 'program = "npm"\narguments = "run test( .*)?"' in proposed
    assert 'program = "git"\n' in proposed
    assert "allow: Read (no exact counterpart)" in proposed


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("{ // mine\n}", "not valid JSON"),
        ("[]", "must be a mapping"),
        ('{"mcpServers": 1}', "an object mcp"),
    ],
)
def test_a_file_that_cannot_be_added_to_stays_and_the_rest_is_imported(
    content: str, reason: str, home: Path
) -> None:
    HOMES["claude"](home)
    importer = Importer(home, "claude")
    importer.config("x").parent.mkdir(parents=True)
    importer.config("mcp.json").write_text(content)
    plan = importer.run()
    assert importer.config("mcp.json").read_text() == content
    assert [reason in str(one) for one in plan.problems] == [True]
    assert importer.config("skills/pdf/SKILL.md").exists()


def test_only_names_what_is_imported(home: Path) -> None:
    HOMES["claude"](home)
    importer = Importer(home, "claude")
    importer.run(only=["skills", "commands"])
    there = sorted(one.name for one in importer.paths.config.iterdir())
    assert there == ["commands", "skills"]


def test_a_file_that_changed_after_it_was_shown_is_not_overwritten(home: Path) -> None:
    HOMES["claude"](home)
    importer = Importer(home, "claude")
    plan = importer.plan(only=["mcp"])
    importer.config("x").parent.mkdir(parents=True)
    importer.config("mcp.json").write_text("{}")
    with pytest.raises(KognitermError, match="changed in the meantime"):
        carry_out(plan, importer.target)
    assert importer.config("mcp.json").read_text() == "{}"


def test_a_skill_that_appeared_after_the_plan_is_not_lost(home: Path) -> None:
    HOMES["claude"](home)
    importer = Importer(home, "claude")
    plan = importer.plan(only=["skills"])
    mine = importer.config("skills/pdf/SKILL.md")
    mine.parent.mkdir(parents=True)
    mine.write_text("Mine.\n")
    with pytest.raises(KognitermError, match="changed in the meantime"):
        carry_out(plan, importer.target)
    assert mine.read_text() == "Mine.\n"


def test_a_linked_file_is_written_where_it_is_kept(home: Path) -> None:
    HOMES["claude"](home)
    importer = Importer(home, "claude")
    kept = home / "dotfiles"
    (kept / "skills").mkdir(parents=True)
    importer.config("x").parent.mkdir(parents=True)
    (kept / "mcp.json").write_text("{}")
    importer.config("mcp.json").symlink_to(kept / "mcp.json")
    importer.config("skills").symlink_to(kept / "skills")
    importer.run()
    assert importer.config("mcp.json").is_symlink()
    assert "github" in (kept / "mcp.json").read_text()
    assert (kept / "skills/pdf/SKILL.md").exists()


def test_what_a_killed_import_left_is_removed_and_no_skill(home: Path) -> None:
    HOMES["claude"](home)
    importer = Importer(home, "claude")
    left = importer.config("skills/.kogniterm-import-abc/new")
    left.mkdir(parents=True)
    (left / "SKILL.md").write_text("half")
    importer.run()
    assert sorted(one.name for one in importer.config("skills").iterdir()) == ["pdf"]


def test_a_project_gets_files_of_its_own_and_nothing_leads_out_of_it(
    home: Path, tmp_path: Path
) -> None:
    project, elsewhere = tmp_path / "shop", tmp_path / "elsewhere"
    (project / ".gemini").mkdir(parents=True)
    elsewhere.mkdir()
    entry = {"command": "shop-mcp", "env": {"SHOP_KEY": PLAIN}}
    hooks = {"AfterTool": [{"hooks": [{"type": "command", "command": "tidy"}]}]}
    (project / ".gemini/settings.json").write_text(
        json.dumps({"mcpServers": {"shop": entry}, "hooks": hooks})
    )
    environ = {"HOME": str(home)}
    found = find_agent("gemini").read(Place(home, environ, project))
    target = project_target(project)
    plan = plan_import(found, target, environ)
    carry_out(plan, target)
    assert json.loads((project / ".mcp.json").read_text())["mcpServers"]["shop"]["env"] == {
        "SHOP_KEY": "${SHOP_KEY}"
    }
    assert "PostToolUse" in (project / ".kogniterm/hooks.json").read_text()
    assert not list(home.iterdir())
    (project / ".kogniterm/hooks.json").unlink()
    (project / ".kogniterm").rmdir()
    (project / ".kogniterm").symlink_to(elsewhere)
    plan = plan_import(found, target, environ)
    carry_out(plan, target)
    assert "leads out of the folder" in str(plan.problems[0])
    assert not list(elsewhere.iterdir())


def test_binary_files_of_a_skill_are_copied_and_shown_by_their_hash(home: Path) -> None:
    HOMES["claude"](home)
    (home / ".claude/skills/pdf/logo.png").write_bytes(b"\x89PNG\0\xff")
    importer = Importer(home, "claude")
    plan = importer.run()
    assert importer.config("skills/pdf/logo.png").read_bytes() == b"\x89PNG\0\xff"
    shown = next(one.difference for one in plan.changes if one.kind == "skills")
    assert "+(binary: 6 bytes, SHA-256 " in shown


def test_the_preview_of_very_many_skills_is_bounded(home: Path) -> None:
    names = [f"skill-{number:03}" for number in range(150)]
    for name in names:
        folder = home / ".claude" / "skills" / name
        folder.mkdir(parents=True)
        text = f"---\nname: {name}\ndescription: Does it.\n---\n" + "A line of its text.\n" * 500
        (folder / "SKILL.md").write_text(text)
        (folder / "data.txt").write_text("A row of data.\n" * 5_000)
    importer = Importer(home, "claude")
    plan = importer.run()
    changes = [one for one in plan.changes if one.kind == "skills"]
    assert [one.name for one in changes] == names
    assert "+(text: 75000 bytes, SHA-256 " in changes[0].difference
    assert "+A line of its text." in changes[0].difference
    assert "+A line of its text." not in changes[-1].difference
    assert sum(len(one.difference) for one in changes) < 2_000_000
    screen = StringIO()
    place = Place(home, importer.environ)
    ImportPreview(None, 1_000, screen).show(find_agent("claude"), importer.found, plan, place)
    shown = screen.getvalue()
    assert "\n+ skill-099\nand 50 more\n" in shown
    assert "more entries is not shown." in shown
    assert "the first 100 by name are used" in shown
    assert shown.count("\n") < 2_200
    written = importer.config("skills/skill-149/data.txt").read_text()
    assert written == "A row of data.\n" * 5_000


def test_no_file_of_another_agent_is_read_twice(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    HOMES["claude"](home)
    (home / ".claude" / "rules").mkdir(exist_ok=True)
    (home / ".claude" / "rules" / "style.md").write_text("Write plainly.\n")
    opened: list[Path] = []

    def noted(path: Path, most: int) -> bytes:
        opened.append(path)
        return read_regular(path, most)

    monkeypatch.setattr(source_files, "read_regular", noted)
    assert "Write plainly.\n" in Importer(home, "claude").found.instructions.values()
    assert len(opened) > 5
    assert sorted(opened) == sorted(set(opened))


def test_what_is_written_is_read_by_the_rest_of_the_program(home: Path) -> None:
    for word, write in HOMES.items():
        write(home)
        Importer(home, word).run()
    paths = resolve({"HOME": str(home)})
    servers = parse_servers(paths.extensions.mcp_servers.read_text(), "mcp.json")
    assert not servers.problems
    assert len(servers.servers) == 11
    names = [
        one.name
        for one in commands_of_folder(paths.extensions.commands)
        if isinstance(one, CustomCommand)
    ]
    assert names == ["deploy", "fix", "git:commit", "git:fix", "review", "test"]
    sources = SkillSources(paths, home, home)
    own = {one.name: one.state for one in sources.find() if one.where == "user"}
    assert own == dict.fromkeys(("maps", "notes", "pdf", "sql", "web"), "ready")
    hooks = user_hooks(paths.extensions.hooks)
    assert not hooks.notices
    assert sorted((one.event, one.matcher) for one in hooks.hooks) == [
        ("PostToolUse", "apply_patch"),
        ("PreToolUse", "Bash"),
        ("PreToolUse", "Bash"),
        ("PreToolUse", "Bash|Write"),
        ("Stop", ""),
    ]
    agents = {
        one.name: one
        for one in agents_of_folder(paths.extensions.agents, ())
        if isinstance(one, AgentFile)
    }
    assert set(agents) == {"reviewer", "tester", "writer"}
    assert not any(one.notices for one in agents.values())
    assert "write_file" not in agents["reviewer"].tools


def test_hooks_beside_a_mistake_are_not_added(home: Path) -> None:
    HOMES["claude"](home)
    importer = Importer(home, "claude")
    importer.config("x").parent.mkdir(parents=True)
    wrong = json.dumps({"hooks": {"Stop": [{"hooks": [{"type": "command", "command": 1}]}]}})
    importer.config("hooks.json").write_text(wrong)
    plan = importer.run()
    assert importer.config("hooks.json").read_text() == wrong
    assert "hooks" not in {one.kind for one in plan.changes}
    assert "Stop[0].hooks[0].command" in str(plan.problems[0])


def test_a_killed_import_can_be_run_again(home: Path) -> None:
    HOMES["claude"](home)
    for number in range(120):
        skill = home / f".claude/skills/skill-{number}"
        skill.mkdir()
        (skill / "SKILL.md").write_text(f"The skill {number}.\n")
        (skill / "more.md").write_text("x" * 1_000)
    importer = Importer(home, "claude")
    command = [sys.executable, "-m", "kogniterm", "import", "claude", "--yes"]
    environ = {**importer.environ, "PATH": os.environ["PATH"]}
    skills = importer.config("skills")
    with subprocess.Popen(command, env=environ, cwd=home, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and len(list(skills.glob("skill-*"))) < 5:
            pass
        process.kill()
    assert process.returncode == -signal.SIGKILL
    for path in skills.glob("skill-*"):
        assert sorted(one.name for one in path.iterdir()) == ["SKILL.md", "more.md"]
    importer.run()
    assert states(importer.plan()) == {"same"}
    assert len(list(skills.iterdir())) == 121
