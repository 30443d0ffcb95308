"""Redaction: secrets are replaced, lookalikes are kept, and this process can restore them."""

from __future__ import annotations

import re
import string
from pathlib import Path
from random import Random

import pytest

from kogniterm.text.redact import Redactor, redact

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


def test_names_and_hosts_stay_readable() -> None:
    line = "postgres://bob:s3cr3tP4ss@db.example.com/app DB_PASSWORD=hunter22 end"
    shown = redact(line)
    assert "postgres://bob:" in shown
    assert "@db.example.com/app DB_PASSWORD=" in shown
    assert "s3cr3t" not in shown
    assert "hunter22" not in shown


def test_a_redactor_knows_values_and_can_undo() -> None:
    redactor = Redactor(["correct-horse", "short"])
    text = "use correct-horse and password=hunter22 then correct-horse, hunter22, short"
    shown = redactor.redact(text)
    assert shown == ("use [secret:1] and password=[secret:2] then [secret:1], [secret:2], short")
    assert redactor.restore(shown) == text
    assert redactor.redact(shown) == shown
    assert Redactor().restore(shown) == shown


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
