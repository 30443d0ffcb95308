"""Redaction: secrets are replaced, lookalikes are kept, and nothing is ever filled in again."""

from __future__ import annotations

import re
import string
from pathlib import Path
from random import Random

import pytest

from kogniterm.text.redact import Redactor, redact, session_label

FOLDER = Path(__file__).parent
_SECRETS = (FOLDER / "secrets.txt").read_text().splitlines()
_SHAPES = (FOLDER / "secret_shapes.txt").read_text().splitlines()
_LETTERS = {
    "A": string.ascii_letters + string.digits,
    "B": string.ascii_letters + string.digits + "+/",
    "D": string.digits,
    "H": "0123456789abcdef",
    "L": string.ascii_lowercase + string.digits,
    "U": string.ascii_uppercase + string.digits,
    "W": string.ascii_letters + string.digits + "-_",
}
_LOOK_ALIKES = (FOLDER / "look_alikes.txt").read_text().splitlines()


def test_common_secrets_are_found() -> None:
    missed = [line for line in _SECRETS if redact(line) == line]
    assert len(_SECRETS) >= 40
    assert len(missed) <= len(_SECRETS) * 0.05, missed


@pytest.mark.parametrize("seed", range(3))
def test_keys_of_every_known_shape_are_found(seed: int) -> None:
    """The table has shapes, such as `{A36}` for 36 letters and digits, instead of complete keys.

    A search of this repository for leaked keys must find none.
    """
    draw = Random(seed)

    def filled(shape: str) -> str:
        return re.sub(
            r"\{([A-Z])(\d+)\}",
            lambda part: "".join(draw.choices(_LETTERS[part[1]], k=int(part[2]))),
            shape,
        )

    keys = [filled(shape) for shape in _SHAPES]
    missed = [key for key in keys if redact(key) == key]
    assert len(keys) >= 150
    assert len(missed) <= len(keys) * 0.02, missed


def test_harmless_look_alikes_stay() -> None:
    changed = [line for line in _LOOK_ALIKES if redact(line) != line]
    assert len(_LOOK_ALIKES) >= 40
    assert len(changed) <= len(_LOOK_ALIKES) * 0.03, changed


@pytest.mark.parametrize("line", _SECRETS)
def test_redacting_twice_changes_nothing_more(line: str) -> None:
    once = redact(line)
    assert redact(once) == once


@pytest.mark.parametrize(
    "unit",
    [
        *("sk-", "password=", "a=", "http://a:", "eyJaaaaaaaa-", "secret:env:", "app password "),
        *("password is ", "password a ", "clave ", "la contraseña del wifi ", "as the password "),
        *(
            "4111 ",
            "41",
            "ES91 ",
            "12.345.",
            "pin code ",
            "credentials are a/",
            "cvv on the ",
            "dni ",
        ),
        *("iban a", "identified by '", "0123456789abcdef", "zip -P", "social security number is "),
    ],
)
def test_hostile_repetition_ends_soon(unit: str) -> None:
    # Quadratic matching would take minutes here, not a fraction of a second.
    assert isinstance(redact(unit * (300_000 // len(unit))), str)


@pytest.mark.parametrize("text", ['the password is "ab"', 'my password is "foo()"'])
def test_a_quoted_word_that_can_be_no_password_stays(text: str) -> None:
    assert redact(text) == text


def test_names_and_hosts_stay_readable() -> None:
    line = "postgres://bob:s3cr3tP4ss@db.example.com/app DB_PASSWORD=hunter22 end"
    shown = redact(line)
    assert "postgres://bob:" in shown
    assert "@db.example.com/app DB_PASSWORD=" in shown
    assert "s3cr3t" not in shown
    assert "hunter22" not in shown


def test_a_redactor_knows_values_and_numbers_them() -> None:
    redactor = Redactor(["correct-horse", "short"], label="ab2c")
    text = "use correct-horse and password=hunter22 then correct-horse, hunter22, short"
    shown = redactor.redact(text)
    one, two = "[secret:ab2c-1]", "[secret:ab2c-2]"
    assert shown == f"use {one} and password={two} then {one}, {two}, short"
    assert redactor.redact(shown) == shown


@pytest.mark.parametrize(
    "text",
    [
        "git clone https://user:s3cr3tPASSw0rd@host/x",
        "my secret is not redacted, it is the password: hunter22",
        "password=hunter22 token: hunter22 hunter22",
        "secret [secret:1] [secret:ab2c-7] [redacted:value]",
    ],
)
def test_redacting_twice_changes_nothing_more_where_values_are_known(text: str) -> None:
    redactor = Redactor(["secret", "redacted", "hunter22"], label="ab2c")
    once = redactor.redact(text)
    assert redactor.redact(once) == once
    assert "[secret:[" not in once
    assert redact(redact(text)) == redact(text)


def test_only_placeholders_of_the_session_are_placeholders() -> None:
    redactor = Redactor(label="ab2c", others=["zz22"])
    assert redactor.placeholder("see [secret:1], [secret:qqqq-1]") == ""
    assert redactor.placeholder("x [secret:ab2c-12] y") == "[secret:ab2c-12]"
    assert redactor.placeholder("x [secret:zz22-999999999999] y") == "[secret:zz22-999999999999]"
    assert session_label("a") != session_label("b")


def test_an_edit_carries_a_value_only_where_it_stands() -> None:
    redactor = Redactor(label="ab2c")
    file = "API_TOKEN=s3cr3tT0ken99\nPORT=1\nOTHER_TOKEN=0therT0ken88\n"
    shown = redactor.redact(file)
    assert redactor.carry(shown, shown.replace("PORT=1", "PORT=2")) == (
        file,
        file.replace("PORT=1", "PORT=2"),
    )
    first, second = "[secret:ab2c-1]", "[secret:ab2c-2]"
    wrong = (
        shown.replace("API_TOKEN=", "echo "),  # another text before it
        shown.replace(second, first),  # another secret in its place
        shown + f"COPY={first}\n",  # once more
        shown.replace(f"API_TOKEN={first}\n", ""),  # less often
        shown.replace(first, "x").replace(second, first).replace("x", second),  # exchanged
    )
    for new in wrong:
        assert redactor.carry(shown, new) is None
    assert redactor.carry("A=[secret:ab2c-9]", "A=[secret:ab2c-9]") is None
    assert redactor.carry("A=[secret:1]", "B=[secret:1]") == ("A=[secret:1]", "B=[secret:1]")


def test_what_a_program_acts_on_is_never_covered() -> None:
    redactor = Redactor(label="ab2c")
    code = 'x = "password: "; import os; os.system("rm"); y = ""\nAPI_TOKEN=s3cr3tT0ken99'
    assert redactor.redact_runs(code) == code.replace("s3cr3tT0ken99", "[secret:ab2c-1]")
    frame = "-----{} PRIVATE KEY-----".format
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSj"
    key = "\n".join([frame("BEGIN"), line, "$(rm -rf src)", line[::-1], frame("END")])
    shown = redactor.redact_runs(key)
    assert "$(rm -rf src)" in shown
    assert line not in shown
    assert line[::-1] not in shown


def test_a_value_inside_another_is_replaced_whole() -> None:
    redactor = Redactor(["abcdef", "abcdefghij"])
    assert redactor.redact("abcdefghij abcdef") == "[secret:2] [secret:1]"


def test_private_keys_go_whole() -> None:
    head, tail = "-----BEGIN OPENSSH PRIVATE KEY-----", "-----END OPENSSH PRIVATE KEY-----"
    key = f"{head}\nb3BlbnNzaC1rZXktdjEAAAAA\nAAAB\n{tail}"
    shown = redact(f"before\n{key}\nafter")
    assert "b3Blbn" not in shown
    assert "AAAB" not in shown
    assert shown.startswith("before\n")
    assert shown.endswith("\nafter")


@pytest.mark.parametrize(
    "text",
    [
        "-----BEGIN RSA PRIVATE KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0A\n\n{}\n"
        "-----END RSA PRIVATE KEY-----",
        "---- BEGIN SSH2 ENCRYPTED PRIVATE KEY ----\n{}\n---- END SSH2 ENCRYPTED PRIVATE KEY ----",
        "PuTTY-User-Key-File-3: ssh-ed25519\nPrivate-Lines: 2\n{}\n{}\nPrivate-MAC: 00",
        '{{"private_key": "-----BEGIN PRIVATE KEY-----\\n{}\\n-----END PRIVATE KEY-----\\n"}}',
    ],
)
def test_private_keys_of_every_format_go(text: str) -> None:
    body = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7"
    assert body not in redact(text.format(body, body))


@pytest.mark.parametrize("kind", ["RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "PRIVATE KEY"])
@pytest.mark.parametrize("newline", ["\n", "\r\n", "\\n"])
@pytest.mark.parametrize("kept_lines", [1, 2, 20])
def test_the_rest_of_a_private_key_goes(kind: str, newline: str, kept_lines: int) -> None:
    line = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7+VJT0Xyz1234"
    body = newline.join([line] * kept_lines)
    text = f"[… 90000 bytes left out …]{newline}{body}{newline}-----END {kind}-----{newline}after"
    shown = redact(text)
    assert "MIIEvQ" not in shown
    assert shown.startswith(f"[… 90000 bytes left out …]{newline}[redacted:private_key]")
    assert shown.endswith("after")


def test_words_before_the_end_of_a_private_key_stay() -> None:
    text = "a key ends with a line\nof its own:\n-----END PRIVATE KEY-----\n"
    assert redact(text) == text


def test_the_words_of_a_wallet_go() -> None:
    words = "legal winner thank year wave sausage worth useful legal winner thank yellow"
    assert words not in redact(f'mnemonic="{words}"')
