"""Equality of commands: when a new command counts as one that was asked about before."""

from __future__ import annotations

import pytest

from kogniterm.approval import repeats, same_command


@pytest.mark.parametrize(
    "other",
    [
        "echo ran >>count; make deploy",
        "  echo   ran  >> count ;make deploy  ",
        "echo ran >>count\nmake deploy\n",
        "echo 'ran' >>\"count\"; make de'ploy'",
        "cd /work && echo ran >>count; make deploy",
        "cd .; echo ran >>count; make deploy",
        "echo ran >>count; make deploy # again",
    ],
)
def test_the_same_in_other_spacing_is_the_same(other: str) -> None:
    assert same_command(other, "/work", "echo ran >>count; make deploy", "/work")
    assert repeats(other, "/work", "echo ran >>count; make deploy", "/work")


@pytest.mark.parametrize(
    "other",
    [
        "make deploy",
        "make deploy 2>&1 | tail -5",
        "timeout 60 make deploy",
        "ls; make deploy && echo fine",
        "bash -c 'make deploy'",
    ],
)
def test_the_same_program_in_other_company_repeats_and_settles_nothing(other: str) -> None:
    assert repeats(other, "/work", "echo ran >>count; make deploy", "/work")
    assert not same_command(other, "/work", "echo ran >>count; make deploy", "/work")


@pytest.mark.parametrize(
    ("other", "folder"),
    [
        ("make test", "/work"),
        ("make deploy", "/work/other"),
        ("cd other && make deploy", "/work"),
        ("echo ran", "/work"),
        ("cat count", "/work"),
        ("ls", "/work"),
        ("echo ran >>other", "/work"),
    ],
)
def test_another_command_is_another(other: str, folder: str) -> None:
    assert not repeats(other, folder, "echo ran >>count; make deploy; ls", "/work")


def test_spaces_inside_quotes_and_patterns_are_no_spacing() -> None:
    assert not same_command("echo 'a  b' >x", "/w", "echo 'a b' >x", "/w")
    assert not same_command("rm '*'", "/w", "rm *", "/w")
    assert same_command("rm  *", "/w", "rm *", "/w")


def test_what_cannot_be_read_is_compared_as_text() -> None:
    assert same_command("if  then (", "/w", "if then (", "/w")
    assert not repeats("if then )", "/w", "if then (", "/w")


def test_a_change_of_folder_that_is_read_counts() -> None:
    assert repeats("make deploy", "/work/sub", "cd sub && make deploy", "/work")
    assert repeats("cd sub; make deploy", "/work", "make deploy", "/work/sub")
    assert same_command("cd sub; make deploy", "/work", "make deploy", "/work/sub")


WRITES = "echo ran >>count"


@pytest.mark.parametrize(
    "other",
    [
        "echo ran >>count; echo ok",
        "echo ran >>count || true",
        "(echo ran >>count)",
        "if true; then echo ran >>count; fi",
        "sh -c 'echo ran >>count' &",
        "eval 'echo ran >>count'",
        "echo ran >>./count",
        "echo ran >>/work/count",
        "f=count; echo ran >>$f",
        "echo ran | tee -a count",
        'cd "$PWD" && echo ran >>count',
        "(cd /work && echo ran >>count)",
    ],
)
def test_a_file_written_again_with_the_same_words_repeats(other: str) -> None:
    assert repeats(other, "/work", WRITES, "/work")
    assert repeats(WRITES, "/work", other, "/work")


@pytest.mark.parametrize("other", ["echo ran >>sub/count", "date >>count", "cat count; echo ran"])
def test_a_file_written_otherwise_repeats_nothing(other: str) -> None:
    assert not repeats(other, "/work", WRITES, "/work")


@pytest.mark.parametrize(
    "other",
    [
        "cd missing; make deploy",
        "cd missing || make deploy",
        "(cd /tmp && ls); make deploy",
        "cd /tmp && cd - && make deploy",
        "cd $OLDPWD && make deploy",
        "/usr/bin/make deploy",
    ],
)
def test_a_folder_that_cannot_be_told_counts_as_each_it_may_be(other: str) -> None:
    assert repeats(other, "/work", "make deploy", "/work")


def test_the_numbers_of_secrets_make_no_difference() -> None:
    assert repeats("login [secret:2]", "/w", "login [secret:1]", "/w")
    assert not repeats("logout [secret:2]", "/w", "login [secret:1]", "/w")
