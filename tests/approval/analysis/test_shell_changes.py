"""Shell state that a command leaves, and whether its text tells all of it."""

from __future__ import annotations

import pytest

from kogniterm.approval.analysis.shell_changes import literal_changes, sets_in_shell

NOTHING = (
    "ls -la | head", "cd sub && ls", "FOO=1 ls", "(x=1; cd /; set -e)", "echo x | read y",
    "for f in *.py; do n=$(wc -l < $f); echo $n; done", "while read -r a b; do echo $a; done < f",
    "for ((i=0; i<3; i++)); do echo $i; done", "select x in a b; do echo $x; done",
    "ls | while read f; do last=$f; done", "echo $(x=1; echo $x)", "[[ a =~ b ]] && echo yes",
    "set", "set -o", "alias", "trap -p", "umask", "ulimit -a", "declare -F", "export -p", "shopt",
    "printf '%s' x", "command -v export", "jobs; hash; wait", "if true; then cd sub; fi",
    "echo $((1 + 2)) '--' a=b",
)  # fmt: skip
LASTING = (
    ("x=$(ls)", "x"), ("x=1; echo $x", "x"), ("export A=1 B; ls", "A B"), ("declare -a l=(1)", "l"),
    ("set -e; ls", "set"), ("set -- a b", "set"), ("f() { x=1; }; f", "f()"), ("read x < f", "x"),
    ("mapfile -t l < f", "l"), ("printf -v x %s y", "x"), ("let n=1", "n"), ("((n++))", "n"),
    ("echo $((n=1))", "n"), ("echo ${x:=1}", "x"), ("unset x", "unset"), ("umask 077", "umask"),
    ("trap 'ls' EXIT", "trap"), ("shopt -s nullglob", "shopt"), ("alias l=ls", "alias"),
    ("pushd sub; ls", "pushd"), ("exec 3<f", "exec"), ("eval x=1", "eval"), (". ./f", "."),
    ("if true; then x=1; fi", "x"), ("{ x=1; }", "x"), ("true && x=1", "x"), ("shift", "shift"),
    ("for f in *; do export LAST=$f; done", "LAST"), ("command export X=1", "X"),
    ("n=0; for f in *; do n=$((n+1)); done", "n"), ("! x=1", "x"), ("enable -n ls", "enable"),
    ("for f in *; do set -e; done", "set"), ("readonly x", "x"), ("getopts ab x", "x"),
)  # fmt: skip
LITERAL = (
    ("x=1", "set x 1"), ("x=", "set x "), ("a=1; b='x y'\nc=\"d\"", "set a 1,set b x y,set c d"),
    ("export A=1 && B=2", "export A 1,set B 2"), ("export A", "export A None"),
    ("set -euo pipefail", "option errexit -,option nounset -,option pipefail -"),
    ("set +e", "option errexit +"), ("f() { ls; }", "function f f() { ls; }"), ("x='é'", "set x é"),
)  # fmt: skip
NOT_LITERAL = (
    "x=$y", "x=$(ls)", "x=`ls`", "x=~", "x=a:~", "x=a\\ b", "x+=1", "x=(a b)", "a[0]=1", "x=1; ls",
    "x=1 || y=2", "x=1 & y=2", "x=1 > f", "x=1 <<< $y", "export X={a,b}", "export -n X", "! x=1",
    "export $X", "x=\"$y\"", "x=$'a'", "set -x", "set -- a", "set -o vi", "set -e -o", "unset x",
    "declare x=1", "readonly x=1", "x=1 y=2 x=3", "f() { ls; }; f", "x=1; cd sub",
    "f() { ls; } > g", "x='a b' export y", "alias l=ls", "umask 022", "trap '' INT",
    "(x=1)", "if true; then x=1; fi", "x=1 export y", "",
)  # fmt: skip


@pytest.mark.parametrize("command", NOTHING)
def test_what_leaves_nothing(command: str) -> None:
    assert sets_in_shell(command) == ()
    assert literal_changes(command) == ()


@pytest.mark.parametrize(("command", "names"), LASTING)
def test_what_lasts_is_named(command: str, names: str) -> None:
    assert " ".join(sets_in_shell(command)) == names


@pytest.mark.parametrize(("command", "changes"), LITERAL)
def test_literal_changes_are_told(command: str, changes: str) -> None:
    assert ",".join(" ".join(map(str, one)) for one in literal_changes(command)) == changes


@pytest.mark.parametrize("command", NOT_LITERAL)
def test_anything_else_is_not_literal(command: str) -> None:
    assert literal_changes(command) == ()
