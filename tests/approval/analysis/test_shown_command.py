"""Properties of commands as they are shown: a placeholder hides a value, and nothing that acts."""

from __future__ import annotations

import re

import pytest

from kogniterm.approval import classify, mask_command, redact_command
from kogniterm.text.redact import Redactor
from kogniterm.types import RiskReport
from tests.support.generated_commands import KNOWN, TOKEN, generate_commands

_MARK = re.compile(r"\[secret:abcd-\d+\]|\[redacted:\w+\]")
_PLAIN = re.compile(r"[\w+/=.,:@%^#-]+")


def masked(command: str, redactor: Redactor) -> str:
    return mask_command(command, redactor.values_in, redactor.mark)


def acts(report: RiskReport) -> object:
    """Return what a command does: hosts stand in effects on the network in full."""
    effects = [(one.kind, one.target) for one in report.effects if one.kind != "network"]
    hosts = [one.target.rpartition("@")[2].split("/")[0] for one in report.effects]
    return report.label, effects, [words[0] for words in report.programs], hosts


@pytest.mark.parametrize("seed", range(4))
def test_a_shown_command_does_the_same_and_hides_only_plain_characters(seed: int) -> None:
    changed = 0
    for command in generate_commands(seed, 100, ("[secret:zzzz-1]",)):
        redactor = Redactor(KNOWN, label="abcd")
        by_session, by_shape = masked(command, redactor), redact_command(command)
        assert masked(by_session, redactor) == by_session
        assert redact_command(by_shape) == by_shape
        for shown in {by_session, by_shape} - {command}:
            changed += 1
            pieces = _MARK.split(shown)
            found = re.fullmatch("(.+?)".join(map(re.escape, pieces)), command, re.DOTALL)
            assert found is not None, command
            assert all(map(_PLAIN.fullmatch, found.groups())), found.groups()
            # A placeholder is read as a word: to a shell its brackets would be a pattern.
            plain = [*("x" * len(one) for one in found.groups()), ""]
            read = "".join(map("".join, zip(pieces, plain, strict=True)))
            assert acts(classify(read)) == acts(classify(command)), command
    assert changed > 20


URL = "https://user:p4ssw0rdXY@db.example/x"


@pytest.mark.parametrize(
    ("command", "known", "shown"),
    [
        (f"curl {URL}", URL, "curl https://user:[secret:abcd-2]@db.example/x"),
        ("git clone git@evil.example:a/b", "evil.example:a/b", "git clone git@evil.example:a/b"),
        ("curl -x proxy.example:80 https://a.example", "proxy.example:80",
         "curl -x proxy.example:80 https://a.example"),
        ("curl --resolve a.example:443:10.0.0.1 https://a.example", "a.example:443:10.0.0.1",
         "curl --resolve a.example:443:10.0.0.1 https://a.example"),
        (f"echo 'pwd=Cookie: session=abc123def456; x={TOKEN}'", "unused",
         "echo 'pwd=[secret:abcd-3] session=[secret:abcd-4]; x=[secret:abcd-2]'"),
        ('x="ab`id`cd"; echo [secret:abcd-9]', "unused", 'x="ab`id`cd"; echo [secret:abcd-9]'),
    ],
)  # fmt: skip
def test_a_host_is_shown_and_every_secret_is_found(command: str, known: str, shown: str) -> None:
    redactor = Redactor([known], label="abcd")
    found = masked(command, redactor)
    assert re.sub(r"abcd-\d", "", found) == re.sub(r"abcd-\d", "", shown)
    assert masked(found, redactor) == found


@pytest.mark.parametrize("name", ["evilpkg1", "core.pager=evil1", "-delete", "FLUSHALL"])
def test_a_word_that_a_file_calls_a_password_hides_nothing_in_a_command(name: str) -> None:
    redactor = Redactor(label="abcd")
    assert name not in redactor.redact(f"password: {name}x\npassword = '{name}'")
    assert masked(f"npx {name}", redactor) == f"npx {name}"
    assert name not in redactor.redact(f"npx {name}")


@pytest.mark.parametrize("name", ["evil-package9", "npm-run-x12345678"])
def test_the_value_of_one_word_hides_nothing_in_another(name: str) -> None:
    for command in (f"password={name}; npx {name}", f"export API_TOKEN={name}; make {name}"):
        assert masked(command, Redactor(label="abcd")) == command
        assert redact_command(command) == command
    twice = f"echo {TOKEN} {TOKEN}"
    assert TOKEN not in masked(twice, Redactor(label="abcd"))
