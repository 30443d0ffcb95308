"""`kogniterm policy`: how rules are shown to the user."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from kogniterm.cli.argument_parser import Parser
from kogniterm.cli.verbs import policy
from kogniterm.errors import SettingsError, UsageError
from kogniterm.runtime.services.policy_service import rules_of


def _parse(*words: str) -> argparse.Namespace:
    parser = Parser()
    policy.add_parser(parser.add_subparsers())
    return parser.parse_args(["policy", *words])


def test_check_explains_rule_by_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "policy.toml"
    rules.write_text('[[rule]]\ndecision = "deny"\nprogram = "make"\nreason = "no builds here"\n')
    args = _parse("check", "make all", "--file", str(rules), "--cwd", str(tmp_path))
    assert policy.run(args) == 0
    shown = capsys.readouterr().out
    assert "no builds here" in shown
    assert "=> [deny]" in shown
    assert "\n     hard limits: none apply\n" in shown


def test_check_as_json_names_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert policy.run(_parse("check", "rm -rf /", "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["command"], told["risk"], told["verdict"]) == ("rm -rf /", "dangerous", "deny")
    effects = [(one["kind"], one["target"], one["outside"]) for one in told["effects"]]
    assert ("delete", "/", True) in effects
    assert [(one["from"], one["matched"]) for one in told["trace"]] == [("floor", True)]


def test_test_as_json_lists_the_differences(capsys: pytest.CaptureFixture[str]) -> None:
    assert policy.run(_parse("test", "--json"), history=[("make", "/w", "allow")]) == 1
    difference = {"command": "make", "folder": "/w", "before": "allow", "now": "ask"}
    assert json.loads(capsys.readouterr().out) == [difference]
    assert policy.run(_parse("test", "--json"), history=[]) == 0
    assert json.loads(capsys.readouterr().out) == []


def test_check_shows_hidden_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert policy.run(_parse("check", "ls\u200b")) == 0
    shown = capsys.readouterr().out
    assert "\u200b" not in shown
    assert "\\u{200B}" in shown


def test_test_shows_what_would_differ(capsys: pytest.CaptureFixture[str]) -> None:
    made = [("make", folder, "allow") for folder in ("/w", "/v")]
    history = [("ls", "/w", "ask"), *made, ("rm -rf /", "/w", "ask")]
    assert policy.run(_parse("test"), history=history) == 1
    shown = capsys.readouterr().out
    assert shown.count("allow => ask  make") == 1
    assert "allow => ask  make  (2 times)\n" in shown
    assert "     2  allow => ask\n" in shown
    assert "ask => deny  rm -rf /" in shown
    assert "  ls\n" not in shown
    assert policy.run(_parse("test"), history=[("ls", "/w", "ask")]) == 0


def test_broken_files_are_told_with_their_line(tmp_path: Path) -> None:
    broken = tmp_path / "p.toml"
    broken.write_text("[[rule]]\nfoo = 1\n")
    with pytest.raises(SettingsError, match="line 2"):
        rules_of(broken)
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="cannot be read"):
        rules_of(broken)
    assert rules_of(tmp_path / "none").rules == ()
    with pytest.raises(UsageError, match="cannot be read: no such file"):
        rules_of(tmp_path / "none", must_exist=True)
    with pytest.raises(UsageError, match="cannot be read: it is a folder"):
        rules_of(tmp_path)
