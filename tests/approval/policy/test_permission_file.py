"""Saved permissions: what the file may say, and what a later session makes of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import date

import pytest

from kogniterm.approval import Circumstances, classify, grant, judge, load_rules, offers
from kogniterm.approval.policy.leases import Lease, LeaseKind
from kogniterm.approval.policy.permission_file import (
    Permission,
    can_be_saved,
    load_permissions,
    without,
)
from kogniterm.errors import SettingsError
from kogniterm.settings.user_files import toml_values
from kogniterm.types import ActionRequest, Effect, RiskReport
from tests.approval.corpus import commands

W = "/home/dev/work"


def report(command: str) -> RiskReport:
    found = classify(command, cwd=W, workspace=W)
    url = Effect("network", "https://example.org/me/x.git")
    git = Effect("network", "git")
    return replace(found, effects=tuple(url if e == git else e for e in found.effects))


def saved(command: str, kind: LeaseKind = "exact") -> Lease:
    """Return the lease as a later session reads it."""
    granted = grant(report(command), kind, id="p1", folder=W)
    text = Permission(granted, "1:2", date(2026, 11, 24)).toml
    ((again),) = load_permissions(toml_values("permissions.toml", f"# heading\n\n{text}\n"))
    assert again.lease.origin == "permissions.toml:3"
    assert again.granted == date(2026, 11, 24)
    return again.lease


@pytest.mark.parametrize("folder", ["/home/dev", f"{W}/sub", "/home/dev/work2", "/"])
def test_a_saved_command_covers_no_other_folder(folder: str) -> None:
    assert saved("npm test").mismatch(report("npm test"), folder=folder) is not None


def test_every_text_is_read_back_as_it_was() -> None:
    for command in ('echo "a\\n\tb" > "é"', "cat > a <<'E'\n[[permission]]\n\\\nE"):
        lease = saved(command)
        assert lease.report.command == command
        assert lease.mismatch(report(command), folder=W) is None


def test_nothing_dangerous_can_be_written_into_the_file() -> None:
    text = Permission(saved("npm test"), "1:2", date(2026, 11, 24)).toml
    for command in commands("dangerous"):
        quoted = command.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        quoted = "".join(c if c.isprintable() else f"\\U{ord(c):08X}" for c in quoted)
        edited = text.replace('"npm test"', f'"{quoted}"')
        with pytest.raises(SettingsError, match="delete this table"):
            load_permissions(toml_values("permissions.toml", edited))


def test_rules_are_stronger_than_a_saved_permission() -> None:
    lease = saved("npm test")
    now = Circumstances(folder=W)
    assert judge(report("npm test"), leases=[lease], circumstances=now).kind == "allow"
    for decision in ("ask", "deny"):
        text = f'[[rule]]\ndecision = "{decision}"\nprogram = "npm"\n'
        rules = load_rules(toml_values("policy.toml", text))
        verdict = judge(report("npm test"), leases=[lease], rules=rules, circumstances=now)
        assert verdict.kind == decision
    unknown = now._replace(unknown_outcome=True)
    assert judge(report("npm test"), leases=[lease], circumstances=unknown).kind == "ask"


def test_edits_are_covered_in_the_workspace_and_only_there() -> None:
    lease = load_permissions(
        toml_values(
            "permissions.toml",
            f'[[permission]]\nid = "p1"\nworkspace = "{W}"\nfolder = "{W}"\nkind = "edits"\n'
            "granted = 2026-11-24\n",
        )
    )[0].lease
    edit = ActionRequest("1", "c", "write_file", "write b", effect="edit")
    now = Circumstances(folder=f"{W}/sub")

    def decided(target: str, *, guarded: bool = False) -> str:
        changed = classify(f"echo x > {target}", cwd=W, workspace=W)
        at = now._replace(guarded=guarded)
        return judge(changed, edit, leases=[lease], circumstances=at).kind

    assert decided("src/main.py") == "allow"
    assert decided("src/main.py", guarded=True) == "ask"
    for target in (
        "../x", "/etc/x", "~/x", ".bashrc", ".git/hooks/pre-commit", ".git/config", ".env",
        "id_rsa", ".kogniterm/policy.toml", ".envrc", ".vscode/tasks.json", "secrets.json",
        "~/.config/kogniterm/permissions.toml",
    ):  # fmt: skip
        assert decided(target) == "ask", target
    command = classify("echo x > b", cwd=W, workspace=W)
    assert judge(command, leases=[lease], circumstances=now._replace(folder=W)).kind == "ask"
    for command_lease in ("exact", "effect"):
        one = saved("echo x > b", command_lease)  # type: ignore[arg-type]
        assert judge(command, edit, leases=[one], circumstances=now).kind == "ask"


def test_what_a_later_session_would_read_otherwise_cannot_be_saved() -> None:
    for command in (
        "npm test", "git push origin main", "touch a", "pip install x", "curl -s https://a.example/b"
    ):  # fmt: skip
        for offer in offers(report(command), folder=W):
            assert can_be_saved(
                grant(report(command), offer.kind, id="s1", folder=W), toml_values
            ), command
    for command in (
        "curl -H 'Authorization: [secret:1]' https://a.example", "make $TARGET", "rm $X",
        'echo "$(date)" > a',
    ):  # fmt: skip
        assert not can_be_saved(grant(report(command), "exact", id="s1", folder=W), toml_values), (
            command
        )


TABLE = Permission(
    grant(classify("make", cwd=W), "exact", id="p1", folder=W), "1:2", date(2026, 1, 1)
).toml
MISTAKES = (
    ("[[rule]]\n", "line 1: unknown key 'rule'; this file contains only [[permission]] tables"),
    ("permission = 1\n", "line 1: write each permission as a [[permission]] table"),
    (f"{TABLE}\ncolour = 1\n", "line 11: unknown key 'colour'"),
    (TABLE.replace('"p1"', '"s1"'), "line 3: id must be p and a number, such as p1"),
    (TABLE.replace('"p1"', "1"), "line 3: id must be a string"),
    (
        TABLE.replace('"exact"', '"all"'),
        "line 6: kind must be exact, program, effect, edits, calls or server",
    ),
    (TABLE.replace('"exact"', '"program"'), "line 7: no permission of this kind can cover this"),
    (TABLE.replace(f'workspace = "{W}"', 'workspace = "."'), "line 4: workspace must be an"),
    (TABLE.replace("granted = 2026-01-01", 'granted = "x"'), "line 10: granted must be a date"),
    (TABLE.replace('"execute"', '"fly"'), "line 9: effects must be tables with kind, target"),
    (f"{TABLE}\noutside = 1\n", "line 11: outside must be true or false"),
    (f"{TABLE}\n\n{TABLE}\n", "line 14: this id is used twice"),
    ("[[permission]\n", "line 1: not valid TOML"),
)


@pytest.mark.parametrize(("text", "told"), MISTAKES)
def test_a_mistake_names_file_line_and_reason(text: str, told: str) -> None:
    with pytest.raises(SettingsError) as found:
        load_permissions(toml_values("permissions.toml", text))
    assert "permissions.toml" in str(found.value)
    assert told in str(found.value)


def test_the_rules_of_a_project_cannot_grant_a_permission() -> None:
    with pytest.raises(SettingsError, match=r"only \[\[rule\]\] tables"):
        load_rules(toml_values(".kogniterm/policy.toml", TABLE), tighten_only=True)


def test_one_table_is_removed_and_the_others_stay_as_they_are() -> None:
    second = TABLE.replace('"p1"', '"p2"')
    third = TABLE.replace('"p1"', '"p3"')
    text = f"# mine\n{TABLE}\n\n# why\n{second}\n{third}\n"
    assert without(text, toml_values("f", text), "p2") == f"# mine\n{TABLE}\n\n# why\n{third}\n"
    assert without(text, toml_values("f", text), "p3") == f"# mine\n{TABLE}\n\n# why\n{second}\n"
