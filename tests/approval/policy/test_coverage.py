"""Coverage of allowing rules and permissions, and the programs that denying rules find."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from itertools import product

import pytest

from kogniterm.approval import Circumstances, RuleSet, classify, grant, judge, load_rules, offers
from kogniterm.approval.policy.leases import Lease, LeaseKind
from kogniterm.approval.policy.permission_file import Permission, can_be_saved, load_permissions
from kogniterm.settings.user_files import toml_values
from kogniterm.types import RiskReport
from tests.approval.corpus import commands

W = "/home/dev/work"
ASK = Circumstances(folder=W)
BOXED = Circumstances(sandboxed=True, folder=W)
AUTO = Circumstances(mode="auto", sandboxed=True, at_prompt=True, folder=W)


def report(command: str) -> RiskReport:
    return classify(command, cwd=W, workspace=W)


def rules(decision: str, body: str) -> RuleSet:
    return load_rules(toml_values("u", f'[[rule]]\ndecision = "{decision}"\n{body}\n'))


def decided(command: str, granted: RuleSet | Lease, now: Circumstances = ASK) -> str:
    if isinstance(granted, RuleSet):
        return judge(report(command), rules=granted, circumstances=now).kind
    return judge(report(command), leases=[granted], circumstances=now).kind


def lease(command: str, kind: LeaseKind, *, anywhere: bool = False) -> Lease:
    return grant(report(command), kind, id="s1", folder=W, workspace=W, anywhere=anywhere)


def named(pattern: str) -> Lease:
    return grant(RiskReport(pattern, "needs_approval"), "words", id="s1", folder=W, workspace=W)


# --- what is granted covers no more ---------------------------------------------------------------

REDIRECTIONS = """
@ > out.txt|@ > ~/.bashrc|@ > ~/test|@ > test|@ >> out|@ &> out|@ &>> out|@ >| out|@ <> f|@ 2> err
@ 3> f|@ {fd}> f|@ >& out|@ < data|@ < ~/.ssh/id_rsa|@ 2>&1 > out|@ > "$F"|@ > "$(date)"|@ >&3|@ <&4
> f @|< f @|{ @; } > f|(@) > f|(@) < f|for i in 1; do @; done > f|while @; do :; done < f
if @; then :; fi > f|@; > f|@; echo x > f|@ & echo x > f|@ || echo x > f|@ | cat > f|timeout 5 @ > f
@ > >(cat)|@ < <(cat f)|exec > f; @|f() { @ > out; }; f|f() { @; } > out; f|time @ 2> f
"""
AROUND = """
@ | tee f|@ | sh|@ | xargs rm|@ | sort -o f|@ | sed -n 'w f'|@ | awk '{print > "f"}'|@ | sed e
@ | grep x | tee f|@; rm x|@; ./x|@; curl http://h|@; cat .env|mkdir x; @|@; kill 5|exec @|nohup @
setsid @|sudo @|env @|env X=1 @|watch @|coproc @|xargs @|echo x | xargs @|bash -c '@'|eval '@'
trap '@' EXIT|find . -exec @ \\;|flock f @|time -o f @|timeout 5 sh -c '@'|. ./x; @|FOO=1 @|PATH=. @
NODE_OPTIONS=--require=./x @|LD_PRELOAD=./x @|FOO=1; @|export FOO=1; @|declare -x FOO=1; @
set -a; FOO=1; @|unset PATH; @|alias q=x; @|hash -p ./x q; @|umask 0; @|ulimit -n 5; @
printf -v x y; @
read -r n < c; @; [[ n -gt 5 ]]|x='a[$(rm y)]'; @; ((x))|n=$(@); [[ $n -gt 5 ]]|@; [[ -v x ]]
cd sub && @|cd /tmp && @|cd .. && @|cd; @|cd - && @|cd $X && @|pushd sub && @|popd; @|(cd sub; @)
@; cd sub|@; cd /tmp|@ && pushd sub|f() { cd sub; }; f; @
cd-x; @|@ ${x@P}|cd s* && @|cd "$(cat f)" && @|cd sub || true; @
"""
INPUT = """
cat f | @|echo x | @|cat f | (@)|cat f | { @; }|cat f | while read l; do @; done|cat f | echo $(@)
@ <<< x|{ @; } <<< x|cat f | timeout 5 @|tail -f x | @|echo x | (cd .; @)
"""
GRANTED = [
    ("npm test", rules("allow", 'program = "npm"\narguments = "test"')),
    ("npm test", rules("allow", 'program = "npm"\narguments = "test( -- .*)?"')),
    ("npm test", lease("npm test", "exact")),
    ("npm run test", named("npm run test *")),
    ("touch test", lease("touch a", "program")),
    ("git commit -m x", lease("git commit -m y", "program")),
]


def filled(text: str, command: str) -> list[str]:
    """Return the forms of a text, divided by lines or bars, with the command for each @."""
    forms = re.split(r"(?<![ |>])\|(?![ |&])|\n+", text.strip())
    return [
        form.replace('"$@"', "\1").replace("[@]", "\2").replace("@", command)
        .replace("\1", '"$@"').replace("\2", "[@]").replace("~", "\n" if "<<E" in form else "~")
        for form in forms
    ]  # fmt: skip


@pytest.mark.parametrize(("command", "granted"), GRANTED)
def test_a_grant_covers_a_program_and_its_arguments_and_nothing_more(
    command: str, granted: RuleSet | Lease
) -> None:
    assert decided(command, granted) == "allow"
    wanted = (
        "cd sub && @", "pushd sub && @", "(cd sub; @)", "cd sub || true; @", "@; cd sub",
        "@ && pushd sub", "f() { cd sub; }; f; @",
    )  # fmt: skip
    reading = isinstance(granted, Lease) and granted.kind == "program"
    tried = filled(REDIRECTIONS + AROUND + ("" if reading else INPUT), command)
    if isinstance(granted, Lease) and granted.kind == "words":  # holds in all of the workspace
        tried = [one for one in tried if one not in filled("|".join(wanted), command)]
    assert len(tried) > 100
    assert [one for one in tried if decided(one, granted) == "allow"] == []


def test_a_hook_and_a_rule_for_every_command_cover_no_redirection() -> None:
    for body in (
        'tool = "execute_command"',
        'arguments = ".*"',
        'program = ["npm", "echo", "cat"]',
    ):
        granted = rules("allow", body)
        assert decided("npm test | cat", granted) == "allow"
        through = [c for c in filled(REDIRECTIONS, "npm test") if decided(c, granted) == "allow"]
        assert through == []


SURROUNDINGS = """
@ | tail|@ | head -50|@ 2>&1 | tail -20|@ | grep -c x|@ || true|@ > /dev/null 2>&1|@ 2>/dev/null
@ </dev/null|time @|time -p @|nice @|nice -n 5 @|timeout 60 @|timeout -k 5 1m @
timeout --signal=INT 9 @
timeout 60 @ 2>&1 | tail -5|ls && @|@; echo "exit: $?"|@ && echo done|@ | cat | sort | uniq -c
set -o pipefail; @ | tail|set -e; @|CI=1 @|LANG=C @|out=$(@); echo "$out"|cd . && @
cd /home/dev/work && @
(@)|if @; then echo yes; fi|! @|@ >&2|/usr/bin/timeout 5 @
"""


@pytest.mark.parametrize(("command", "granted"), GRANTED)
def test_a_grant_covers_what_only_reads_beside_it(command: str, granted: RuleSet | Lease) -> None:
    tried = filled(SURROUNDINGS, command)
    assert len(tried) > 30
    assert [one for one in tried if decided(one, granted) != "allow"] == []


def test_what_only_reads_is_covered_by_no_grant_alone() -> None:
    for _, granted in GRANTED:
        assert decided("ls | tail", granted) == "ask"
        assert decided("cd sub", granted) == "ask"


def test_wrappers_and_redirections_in_every_order_widen_no_grant() -> None:
    harmless = ("@", "time @", "timeout 9 @", "nice @", "@ | tail", "@ 2>&1", "@ || true", "CI=1 @")
    harmful = (
        "@ > f",
        "@ < f",
        "@ | tee f",
        "sudo @",
        "X=1 @",
        "@; rm x",
        "cd /etc && @",
        "(@) >> f",
    )
    tried = 0
    for (command, granted), *layers in product(GRANTED, harmless, (*harmless, *harmful), harmless):
        text, wanted = command, "allow"
        for layer in layers:
            # A prefix is for a simple command.
            if not layer.endswith("@") or not set(text) & set("|&<>;(="):
                text = layer.replace("@", text)
                wanted = "ask" if layer in harmful else wanted
        tried += 1
        assert decided(text, granted) == wanted, text
    assert tried > 5000


def test_a_rule_with_a_path_covers_redirections_to_its_files_and_only_changes_of_files() -> None:
    granted = rules("allow", 'path = "out/*"')
    for command in ("echo x > out/a", "cp out/a out/b", "rm out/a", "sort out/a | tee out/b"):
        assert decided(command, granted) == "allow", command
    for command in (
        "echo x > a", "./x > out/a", "python3 x.py > out/a", "npm test > out/a", "ls", "cp a out/b",
        "curl -o out/a http://h", "sed -n 1e out/a", "sudo touch out/a", "rm out/a; eval $x",
        f"rm {' '.join(f'out/{n}' for n in range(30))}; sed 1e out/a", "cat < a > out/a",
    ):  # fmt: skip
        assert decided(command, granted) == "ask", command
    both = rules("allow", 'program = "npm"\npath = "out/*"')
    assert decided("npm test > out/log 2>&1", both) == "allow"
    assert decided("npm test > log", both) == "ask"
    moving = rules("allow", 'program = ["cd", "npm"]\narguments = "sub|test"')
    assert decided("cd sub && npm test", moving) == "allow"
    assert decided("cd other && npm test", moving) == "ask"


def test_a_word_that_is_not_known_is_covered_where_every_word_is() -> None:
    tests = rules("allow", 'program = "npm"\narguments = "test \\\\w*"')
    assert decided("npm test one", tests) == "allow"
    assert decided('npm test "$X"', tests) == "ask"
    everything = rules("allow", 'program = "git"\narguments = "commit .*"')
    assert decided("git commit -m \"$(cat <<'E'\none\n\ntwo\nE\n)\"", everything) == "allow"


def test_the_trace_says_why_an_allowing_rule_does_not_cover() -> None:
    granted = rules("allow", 'program = "npm"')
    for command, why in (
        ("npm test > f", "(> f)"),
        ("npm test; make", "running make"),
        ("cd sub && npm test", "other folders (cd sub)"),
        ("ls", "no program"),
    ):
        trace = judge(report(command), rules=granted, circumstances=ASK).trace
        assert why in str(trace[1].reason), command


# --- any folder of the workspace -----------------------------------------------------------------


def test_a_permission_for_any_folder_of_the_workspace_covers_a_change_of_folder() -> None:
    for command, kind in (("npm test", "exact"), ("touch a", "program"), ("touch a", "exact")):
        wide = lease(command, kind, anywhere=True)  # type: ignore[arg-type]
        narrow = lease(command, kind)  # type: ignore[arg-type]
        for text in (
            "cd sub && @",
            "cd ./a/b && timeout 9 @ | tail",
            "(cd sub; @)",
            f"cd {W}/sub; @",
        ):
            assert decided(text.replace("@", command), wide) == "allow", text
            assert decided(text.replace("@", command), narrow) == "ask", text
        for text in filled(
            "cd .. && @|cd /tmp && @|cd $X && @|cd s* && @|cd - && @|cd; @|cd ~ && @|popd; @"
            "|cd sub/../.. && @|cd sub && @ > f|cd sub && sudo @|cd sub && rm x && @"
            "|cd -P a/../b && @|CDPATH=/x; cd sub && @",
            command,
        ):
            assert decided(text, wide) == "ask", text
        inside, outside = f"{W}/sub", "/home/dev"
        found = classify(command, cwd=inside, workspace=W)
        assert wide.mismatch(found, folder=inside) is None
        assert narrow.mismatch(found, folder=inside) is not None
        assert (
            wide.mismatch(classify(command, cwd=outside, workspace=W), folder=outside) is not None
        )


def test_it_is_an_offer_of_its_own_that_names_the_program_alone() -> None:
    assert [(one.kind, one.anywhere) for one in offers(report("touch a"), folder=W)] == [
        ("exact", False), ("program", False), ("effect", False), ("exact", True), ("program", True),
    ]  # fmt: skip
    (_, wide) = offers(report("cd sub && npm test 2>&1 | tail"), folder=W)
    assert str(wide.text) == f"exactly npm test, in any folder of {W}"
    for script in ("./run.sh", "bash run.sh", "python3 tools/run.py --fast"):
        assert [one.anywhere for one in offers(report(script), folder=W)] == [False]
    assert [one.kind for one in offers(report("touch a > log"), folder=W)] == ["exact", "effect"]


def test_every_offer_covers_the_command_that_it_was_made_for() -> None:
    tried = 0
    for command in (*commands("write"), *commands("asked")):
        for one in offers(report(command), folder=W):
            granted = lease(command, one.kind, anywhere=one.anywhere)
            now = BOXED if one.kind == "runs" else ASK
            assert decided(command, granted, now) in ("allow", "deny"), (command, one)
            tried += 1
    assert tried > 1500


def test_a_saved_permission_without_the_word_means_its_own_folder() -> None:
    wide = lease("npm test", "exact", anywhere=True)
    assert can_be_saved(wide, toml_values)
    text = Permission(replace(wide, id="p1"), "1:2", date(2026, 11, 24)).toml
    assert "anywhere = true" in text
    assert "any folder of" in text
    (again,) = load_permissions(toml_values("f", text))
    assert decided("cd sub && npm test", again.lease) == "allow"
    (older,) = load_permissions(toml_values("f", text.replace("anywhere = true\n", "")))
    assert decided("cd sub && npm test", older.lease) == "ask"


def test_an_older_permission_with_a_redirection_loads_and_covers_none() -> None:
    text = (
        f'[[permission]]\nid = "p1"\nworkspace = "{W}"\nfolder = "{W}"\nkind = "program"\n'
        'command = "touch a > log"\ngranted = 2026-11-24\n'
        'effects = [{ kind = "overwrite", target = "log", outside = false }, '
        '{ kind = "write", target = "a", outside = false }]\n'
    )
    (saved,) = load_permissions(toml_values("f", text))
    assert decided("touch b", saved.lease) == "allow"
    assert decided("touch a > log", saved.lease) == "ask"


# --- what is denied is found ----------------------------------------------------------------------

SEEN = r"""
@|FOO=1 @|PATH=. @|env @|env -i @|env -u X A=1 @|env -C sub @|env - @|env -S '@'|command @
command -p @
command -- @|builtin @|exec @|exec -a foo @|exec -c @|nohup @ &|setsid @|nice @|nice -n 5 @
ionice -c 3 @|stdbuf -o0 @|chrt -b 0 @|taskset 1 @|flock f @|flock f -c '@'|time @|time -p @
\time -f %e @|timeout 5 @|timeout -k 1 5 @|timeout --signal=KILL 5 @|watch @|watch -x @|watch '@'
sudo @|sudo -u me @|sudo -n -- @|sudo A=1 @|doas @|su -c '@'|su - me -c '@'|runuser -c '@' me
pkexec @
setpriv --reuid 0 @|gosu me @|busybox @|toybox @|unbuffer @|chronic @|ssh h @|ssh h '@'
ssh -o ProxyCommand='@' h|bash -c '@'|bash -ec '@'|bash -c "@"|bash -lc '@'|sh -c '@'|dash -c '@'
zsh -c '@'|bash --norc -c '@'|bash -c 'bash -c "@"'|bash -c '"$@"' _ @|bash <<< '@'|bash -s <<< '@'
bash <<E~@~E|echo '@' | bash|echo @ | bash|printf '@' | sh|printf '%s\n' '@' | sh|bash < <(echo '@')
source /dev/stdin <<< '@'|eval '@'|eval @|$(@)|`@`|x=$(@)|x=`@`|echo "$(@)"|echo "`@`"|echo <(@)
cat < <(@)|tee >(@)|: ${X:=$(@)}|: $((1+$(@)))|[[ -n $(@) ]]|[ -n "$(@)" ]|export A=$(@)
cat <<E~$(@)~E|cat <<< $(@)|cat $(@) > f|f() { @; }; f|f() { "$@"; }; f @|function f { @; }; f
trap '@' EXIT|trap "@" INT|if true; then @; fi|if @; then :; fi|if false; then :; else @; fi
while @; do :; done|until @; do :; done|for i in 1; do @; done|for i in $(@); do :; done
for ((i=0;i<1;i++)); do @; done|case x in x) @;; esac|select i in 1; do @; done|cd x && @|cd x; @
(@)
(cd x && @)|{ @; }|! @|@ &|true && @|false || @|ls; @|ls | @|@ | ls|ls |& @|@ > f|@ 2>&1
@ >/dev/null 2>&1|> f @|< f @|2>/dev/null @|{ @; } > f|coproc @|/bin/@|/usr/bin/@|../../bin/@|./@
~/bin/@|xargs -I{} @|find . -exec env @ \;|git submodule foreach '@'|git -c alias.x='!@' x
git rebase --exec '@' main|git bisect run @|git config alias.x '!@'|GIT_PAGER='@' git log
PAGER='@' man ls|PROMPT_COMMAND='@'|man -P '@' ls|rsync -e '@' a b|split --filter='@' x|sed '1e @' x
tar xf a --to-command='@'|crontab -l | @|nohup bash -c '@' >/dev/null 2>&1 &|mapfile -C '@' -c 1 a
if ls; then cd x && { timeout 3 @ 2>&1 | head; }; fi|timeout 5 env nice sudo @|time bash -c 'env @'
"""
"""Forms in which KogniTerm sees the call itself."""
MENTIONED = r"""
unshare @|chroot / @|nsenter -t 1 @|systemd-run @|runuser -u me -- @|strace @|ltrace @|perf stat @
valgrind @|gdb --args @|script -c '@'|fakeroot @|xvfb-run @|entr @|docker run i @|docker exec c @
kubectl exec p -- @|poetry run @|uv run @|npx @|nix-shell --run '@'|mise exec -- @|tmux new '@'
screen -dm @|echo '@' | at now|echo '@' | batch|at now <<< '@'|cat <<E | at now~@~E|fish -c '@'
echo '@' | tee f | bash|bash <(echo '@')|. <(echo '@')|parallel ::: '@'|awk 'BEGIN{system("@")}'
vim -c '!@'|complete -C '@' x|python3 -c 'import os; os.system("@")'|perl -e 'system("@")'
git filter-branch --tree-filter '@' HEAD|coproc N { @; }|ld.so @
python3 <<E~import os; os.system("@")~E
"""
"""Forms that only mention it to a program that KogniTerm does not see through."""
SPELT = r"""
x=rm; $x y|x=rm; "$x" y|x=r; ${x}m y|x='rm y'; $x|r''m y|"rm" y|'rm' y|\rm y|r\m y|$'rm' y
$'\x72m' y|`echo rm` y|"$(printf r)m" y|alias q=rm; q y|echo rm y | xargs env
echo rm | xargs -I{} {} y|sort --compress-program=rm y|rg --pre rm y|find . -exec rm {} +|fd y -x rm
"""
UNKNOWN = r"""
$(which rm) y|${X:-rm} y|$X y|"$X" y|$(cat f) y|{rm,y}|a=(rm y); "${a[@]}"|hash -p /bin/rm q; q y
/usr/bin/r? y|/bin/[r]m y|r* y|time -p while read l; do $l; done < f|! until $X; do :; done
cat f | sh|bash < f|exec < f; sh|git pu?h|git -C sub p*
rm ${x@P}|git $X|git -C sub $X|xargs git
"""
RULES = [
    ("rm x", 'program = "rm"'),
    ("rm x", 'program = ["unlink", "rm"]\narguments = ".*x.*"'),
    ("git push", 'program = "git"\narguments = "push.*"'),
    ("git -C sub push origin", 'program = "git"\narguments = "push.*"'),
    ("git --config-env a.b=C push", 'program = "git"\narguments = "push.*"'),
    ("git --attr-source x -c a=b push -u", 'program = "git"\narguments = "push.*"'),
    ("npm --prefix x publish", 'program = "npm"\narguments = "publish.*"'),
]


@pytest.mark.parametrize(("command", "body"), RULES)
def test_a_rule_that_denies_or_asks_finds_its_program_wherever_it_stands(
    command: str, body: str
) -> None:
    seen = filled(SEEN, command)
    assert len(seen) > 150
    denies, asks = rules("deny", body), rules("ask", body)
    assert [one for one in seen if decided(one, denies, AUTO) != "deny"] == []
    assert [one for one in seen if decided(one, asks, AUTO) == "allow"] == []
    mentioned = filled(MENTIONED, command)
    assert [one for one in mentioned if decided(one, denies, AUTO) == "allow"] == []


def test_no_spelling_hides_a_denied_program() -> None:
    denies = rules("deny", 'program = "rm"')
    assert {one: decided(one, denies, AUTO) for one in filled(SPELT, "rm y")} == dict.fromkeys(
        filled(SPELT, "rm y"), "deny"
    )
    both = denies + rules("deny", 'program = "git"\narguments = "push.*"')
    assert [one for one in filled(UNKNOWN, "") if decided(one, both, AUTO) == "allow"] == []


def test_a_rule_that_denies_leaves_other_commands_alone() -> None:
    denies = rules("deny", 'program = ["rm", "terraform", "shutdown"]')
    denies += rules("deny", 'program = "git"\narguments = "push.*"')
    wrong = [c for kind in ("safe", "write") for c in commands(kind)
             if decided(c, denies, AUTO) != decided(c, RuleSet(), AUTO)]  # fmt: skip
    assert wrong == []
    for command in ('git commit -m "$(cat f)"', "git log --grep push", "make", "npm run rm-cache"):
        assert decided(command, denies, AUTO) == "allow", command


def test_a_denial_is_stronger_than_any_grant_and_says_why_it_may_apply() -> None:
    granted = lease("python3 a.py rm", "exact")
    denies = rules("deny", 'program = "rm"\nreason = "use trash"')
    assert decided("python3 a.py rm", granted) == "allow"
    verdict = judge(report("python3 a.py rm"), rules=denies, leases=[granted], circumstances=ASK)
    assert verdict.kind == "ask"
    assert "use trash" in str(verdict.reasons[0])
