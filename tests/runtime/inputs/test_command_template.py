"""Templates of custom commands: parts, and arguments that can do nothing in them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kogniterm.errors import UsageError
from kogniterm.runtime.inputs.command_template import Format, Template

HOSTILE = """a b $(touch x) `touch x` "q" 'r' ;touch x|& > x \\ !`touch x` @{x} $1 {{args}}"""


def parts(body: str, argument: str = "", kind: Format = "markdown") -> list[str]:
    return [part.text for part in Template(body, kind).fill(argument)]


@pytest.mark.parametrize(
    ("body", "argument", "expected"),
    [
        ("Fix $1 in $2.", "'the bug' main more", ["Fix the bug in main."]),
        ("Fix $ARGUMENTS[1] and $ARGUMENTS.", "a b", ["Fix b and a b."]),
        ("It costs $10.", "", ["It costs $10."]),
        ("Only $1 and $3", "one", ["Only one and"]),
        ("It's $1", "it's fine", ["It's it's"]),
        ("$10 and $ARGUMENTSX", "a", ["$10 and $ARGUMENTSX\n\na"]),
        ("Say hello", "to Ana", ["Say hello\n\nto Ana"]),
        ("Diff: !`git diff`!", "", ["Diff: ", "git diff", "!"]),
        ("Not a command: x!`ls`", "", ["Not a command: x!`ls`"]),
        ("A\n```!\ngit status\ngit diff\n```\nB", "", ["A\n", "git status\ngit diff", "\nB"]),
        ("!`gh pr view $1`", "", ["", "gh pr view", ""]),
        ('!`gh pr view "$1"`', "", ["", "gh pr view ''", ""]),
        ("!`ls | awk '{print $1}'`", "x", ["", "ls | awk '{print $1}'", ""]),
    ],
)
def test_markdown_is_read_as_in_claude_code(body: str, argument: str, expected: list[str]) -> None:
    assert [one.rstrip(" ") for one in parts(body, argument)] == [x.rstrip(" ") for x in expected]


@pytest.mark.parametrize(
    ("body", "argument", "expected"),
    [
        ("Fix {{args}}.", "a 'b", ["Fix a 'b."]),
        ("Why?\n!{git show {{args}} | head}", "HEAD~1", ["Why?\n", "git show 'HEAD~1' | head", ""]),
        ("By @{docs/rules.md} and @{a b.md}", "", ['By @docs/rules.md and @"a b.md"']),
        ("Plain", "words", ["Plain\n\nwords"]),
        ("Plain !`ls` $1", "", ["Plain !`ls` $1"]),
    ],
)
def test_toml_is_read_as_in_gemini(body: str, argument: str, expected: list[str]) -> None:
    assert parts(body, argument, "gemini") == expected


@pytest.mark.parametrize(
    "body",
    [
        "!`printf '%s|' $ARGUMENTS`",
        '!`printf "%s|" "$ARGUMENTS"`',
        "!`printf '%s|' 'x$ARGUMENTS'`",
        '!`printf "%s|" "x $ARGUMENTS y"`',
        '!`printf "%s|" "$(printf %s $ARGUMENTS)"`',
        '!`printf "%s|" "$(printf %s "$ARGUMENTS")"`',
        "!`(printf '%s|' $ARGUMENTS) # $ARGUMENTS`",
    ],
)
def test_no_argument_runs_anything(body: str, tmp_path: Path) -> None:
    command = parts(body, HOSTILE)[1]
    done = subprocess.run(["bash", "-c", command], cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, command
    assert b"touch" in done.stdout
    assert not list(tmp_path.iterdir()), command


def test_a_quoted_place_gets_everything_as_one_word() -> None:
    assert parts('!`f "$ARGUMENTS"`', "a b")[1] == "f 'a b'"
    assert parts("!`f $ARGUMENTS`", "a b")[1] == "f a b"
    assert parts("!`f --x=$1 $2`", "'a b' c")[1] == "f --x='a b' c"
    assert parts("!{f {{args}}}", "a b", "gemini")[1] == "f 'a b'"


@pytest.mark.parametrize(
    "body",
    [
        "!{cat <<END\n{{args}}\nEND\n}",
        "!{echo $(( {{args}} ))}",
        "!{(( {{args}} ))}",
        "!{echo `ls {{args}}`}",
        "!{echo ${x:-{{args}}} }",
        '!{echo "${x:-\'}{{args}}"}',
        "!{echo $'{{args}}'}",
        '!{echo "$(case x in x) echo {{args}};; esac)"}',
        "!{ls",
        "!{}",
    ],
)
def test_what_cannot_be_put_safely_is_refused(body: str) -> None:
    with pytest.raises(UsageError):
        Template(body, "gemini").fill("a")
