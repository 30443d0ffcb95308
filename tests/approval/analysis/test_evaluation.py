"""Text that the shell evaluates is never judged read-only: arithmetic, subscripts, arrays."""

from __future__ import annotations

from random import Random

import pytest

from kogniterm.approval import ShellValues, classify, values_after
from tests.approval.corpus import WORKSPACE
from tests.approval.generated import evaluated


def _label(*commands: str) -> str:
    """Return the label of the last of `commands`, which run one after another in one shell."""
    values = ShellValues()
    for command in commands[:-1]:
        values = values_after(command, cwd=WORKSPACE, values=values)
    return classify(commands[-1], cwd=WORKSPACE, values=values).label


@pytest.mark.parametrize(
    "command",
    [
        "mapfile -C'rm -rf src #' -c1 <<< x",
        "printf -v'a[$(rm -rf src)]' x",
        *(
            f"{name} -a a='($(rm src/a))'"
            for name in ("declare", "local", "readonly", "typeset", "export")
        ),
        "declare -A a='($(rm src/a))'",
        'read -r x < note.txt; declare -a a="$x"',
        "n=$(cat count.txt); [[ n -gt 5 ]]",
        "n=$(cat f); echo ${HOME:0:n}",
        "n=$(cat f); echo ${@:n}",
        "n=$(cat f); RANDOM=$n",
        "mapfile -t < f; v=${MAPFILE[0]}; ((v))",
        "[[ $(cat f) =~ .* ]]; ((BASH_REMATCH))",
        ': "$(cat f)"; n=$_; ((n))',
        "shopt -s lastpipe; cat f | read n; ((n))",
        "pytest --help",
        "pytest --version",
        "cloc --vcs='CMD' .",
        "echo $[n]",
        "let x",
        "! ((x=n))",
        "a[n]=1",
        "unset 'a[n]'",
        "wait -p'a[n]' 1",
        "read 'a[n]' < f",
        "[ $x ]",
        '[ "$a" "$b" ]',
        "test $x",
        "[[ -v $x ]]",
        'printf "$x"',
        "getopts a 'b[n]'",
        "complete -C x y",
        "bind -x x",
        "enable -f ./x x",
        "hash -p ./x ls",
        "trap 'x' EXIT",
        "compgen -C x",
        "a1=$(cat f); x=1; a=5; ((a$x))",
        "declare -n r=x",
        "command -p read 'a[n]'",
        "builtin printf -v'a[n]' x",
        "ls | xargs --max-lines rm",
        "xxd -ps in out",
        "grep -e -m .env x",
        "grep --color x .env",
        "diff --unified .env x",
        "gzip -c --rm x; zstd -c --rm x",
        "tar -tf x.tar --to-comm=./x",
        "7z l x -o/tmp",
        "sort --compress-p=./x f",
        "rg --pre ./x y",
        "rg --pr ./x y",
        "man --pag=./x ls",
        "zstdcat x -o y",
        "yarn --help",
        "nice -n $x ls",
        "env -u $x ls",
        "find . -name $x",
        "awk -v n=$x 1 f",
        "rpm -q $x",
        "dpkg -l $x",
        "pip show $x",
        "uniq -f $x",
        'sort "$(date +-oout)" f',
        "p='xx-oout'; sort \"${p#xx}\" f",
        "a=([$1]=1)",
        "xxd plain -3",
    ],
)
def test_what_can_act_is_asked_about(command: str) -> None:
    assert _label(command) not in {"safe_readonly", "workspace_write"}


@pytest.mark.parametrize(
    "commands",
    [
        ("read -r n < count.txt", "[[ n -gt 5 ]]"),
        ("[[ n -gt 5 ]]",),
        ("ls", "((n))"),
        ("n=5", "read -r n < f", "echo $((n))"),
        ("n=$(cat f)", "false && n=5", "echo $((n))"),
        ("mapfile -t n < f", "echo ${n:0:n}"),
        ("x='$(rm a)'", 'declare -a "b=$x"'),
        ("n=5 & wait", "((n))"),
        ("n=5; exit", "((n))"),
        ("source f", "((n))"),
        ("n=5; setup", "((n))"),
        ("/bin/ls() { ls; }", "/bin/ls"),
        ("declare -i n", "n=$(cat f)"),
        ("declare -n r=x", "r=$(cat f)"),
        ("readonly n=$(cat f)", "export n=5; ((n))"),
        ("ls() { rm x; }", "ls"),
        ("alias ls='rm x'", "ls"),
        ("n=$(cat f); unset n", "((n))"),
    ],
)
def test_an_earlier_command_may_have_left_data(commands: tuple[str, ...]) -> None:
    assert _label(*commands) != "safe_readonly"


@pytest.mark.parametrize(
    "commands",
    [
        ("n=5", "[[ $n -gt 3 ]]"),
        ("n=$(wc -l < f)", "echo $((n*2))"),
        ("d=src", "find $d -name x"),
        ("n=5", "n=$((n+1)); echo $n", "((n))"),
        ("for i in 1 2 3; do :; done", "echo $((i))"),
        ("n=2", "ls", "echo ${PWD:0:n}"),
    ],
)
def test_what_an_earlier_command_set_to_a_known_text_is_known(commands: tuple[str, ...]) -> None:
    assert _label(*commands) == "safe_readonly"


def test_a_command_that_did_not_complete_shows_nothing_new() -> None:
    known = values_after("n=5")
    assert known.literal == {("n", "5")}
    assert values_after("m=6", values=known, completed=False) == known
    assert values_after("n=6", values=known, completed=False).literal == frozenset()


def test_what_differs_between_two_shells_is_not_known() -> None:
    outside, inside = values_after("n=5; m=1"), values_after("n=6; m=1; declare -i k")
    assert outside.both(inside) == ShellValues(frozenset({("m", "1")}), frozenset({"k"}))


def test_no_generated_use_of_data_is_read_only() -> None:
    found = list(evaluated())
    assert len(found) > 6_000
    tried = Random(35).sample(found, 6_800)
    assert [one for one in tried if classify(one, cwd=WORKSPACE).label == "safe_readonly"] == []
