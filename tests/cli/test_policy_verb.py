"""`kogniterm policy`: how rules are shown to the user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kogniterm.cli.main import dispatch
from kogniterm.cli.verbs import policy
from kogniterm.errors import SettingsError, UsageError
from kogniterm.runtime.services.policy_service import rules_of


def test_check_explains_rule_by_rule(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules = tmp_path / "policy.toml"
    rules.write_text('[[rule]]\ndecision = "deny"\nprogram = "make"\nreason = "no builds here"\n')
    words = ["policy", "check", "make all", "--file", str(rules), "--cwd", str(tmp_path)]
    assert dispatch(words) == 0
    shown = capsys.readouterr().out
    assert "no builds here" in shown
    assert "Verdict in ask mode: deny" in shown
    assert "=> [deny]" in shown
    assert "\n     hard limits: none apply\n" in shown


def test_check_tells_files_as_they_are_on_this_disk(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "there").touch()
    words = ["policy", "check", "echo x > there > new", "--cwd", str(tmp_path), "--json"]
    assert dispatch(words) == 0
    told = json.loads(capsys.readouterr().out)
    assert {one["target"]: one["kind"] for one in told["effects"]} == {
        "there": "overwrite", "new": "create",
    }  # fmt: skip


def test_check_as_json_names_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["policy", "check", "rm -rf /", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["command"], told["risk"], told["verdict"]) == ("rm -rf /", "dangerous", "deny")
    effects = [(one["kind"], one["target"], one["outside"]) for one in told["effects"]]
    assert ("delete", "/", True) in effects
    assert [(one["from"], one["matched"]) for one in told["trace"]] == [("floor", True)]


def test_test_as_json_lists_the_differences() -> None:
    report = policy.difference_report([("make", "/w", "allow")])
    difference = {"command": "make", "folder": "/w", "before": "allow", "now": "ask"}
    assert (report.data, report.status) == ([difference], 1)
    assert policy.difference_report([]).data == []


def test_check_shows_hidden_characters(capsys: pytest.CaptureFixture[str]) -> None:
    assert dispatch(["policy", "check", "ls\u200b"]) == 0
    shown = capsys.readouterr().out
    assert "\u200b" not in shown
    assert "\\u{200B}" in shown


def test_test_shows_what_would_differ() -> None:
    made = [("make", folder, "allow") for folder in ("/w", "/v")]
    history = [("ls", "/w", "ask"), *made, ("rm -rf /", "/w", "ask")]
    report = policy.difference_report(history)
    lines = list(report.lines)
    assert report.status == 1
    assert lines[:2] == ["allow => ask  make  (2 times)", "ask => deny  rm -rf /"]
    assert "     2  allow => ask" in lines
    assert not any("  ls" in line for line in lines)
    assert policy.difference_report([("ls", "/w", "ask")]).status == 0


def test_broken_files_are_told_with_their_line(tmp_path: Path) -> None:
    broken = tmp_path / "p.toml"
    broken.write_text("[[rule]]\nfoo = 1\n")
    with pytest.raises(SettingsError, match="line 2"):
        rules_of(broken)
    broken.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="line 1: the file is not UTF-8 text"):
        rules_of(broken)
    assert rules_of(tmp_path / "none").rules == ()
    with pytest.raises(UsageError, match="cannot be read: no such file"):
        rules_of(tmp_path / "none", must_exist=True)
    with pytest.raises(UsageError, match="cannot be read: it is a folder"):
        rules_of(tmp_path)
