"""Sensitive text typed at the prompt, which must not be stored anywhere."""

from __future__ import annotations

import re
from pathlib import Path

from tests.support.real_terminal import User
from tests.support.typing_user import answer, holding, leave, open_prompt, say, scripted
from tests.terminal.conftest import OpenTerminal

SCRIPT = """replies:
  - when: {last_contains: receipt}
    run: "cat receipt.txt"
  - {text: "All right.", repeat: forever}
"""
TOLD = {
    "Remember that my card is 4111 1111 1111 1111": ("4111", "1111 1111"),
    "recuerda que la contraseña del wifi es girasolazul": ("girasolazul",),
    "remember that my wifi password is cactusverde": ("cactusverde",),
    "remember that the PIN of my card is 739164": ("739164",),
    "recuerda que mi IBAN es ES91 2100 0418 4502 0005 1332": ("0418 4502",),
    "remember that my DNI is 12345678Z": ("12345678Z",),
}


def test_secrets_that_are_said_are_in_no_file_below_the_home(
    open_terminal: OpenTerminal, user: User
) -> None:
    terminal = open_terminal(user=user, columns=120)
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, SCRIPT)}")
    for line in TOLD:
        say(terminal, line, "memory does not store secrets")
    say(terminal, "remember that I have diabetes", "memory does not store such facts")
    say(terminal, "/memory add my mother suffers from epilepsy", "memory does not store such facts")
    say(terminal, "remember that the staging server is heron", "All right.")
    assert leave(terminal) == 0
    _, shown = terminal.run("kogniterm memory list --all --json")
    assert "heron" in shown
    assert "diabetes" not in shown
    assert "epilepsy" not in shown
    assert "secret" not in shown
    for pieces in TOLD.values():
        for piece in pieces:
            assert holding_said(terminal.home, piece.encode()) == [], piece
    status, shown = terminal.run("kogniterm memory add my PIN is 739164")
    assert (status, "memory does not store secrets" in shown) == (2, True)


def holding_said(folder: Path, piece: bytes) -> list[Path]:
    """Return the files that contain `piece`, except as a chance part of a hash or a fraction.

    Four digits do so in one run of six.
    """
    said = re.compile(rb"(?<![0-9a-f.])%s(?![0-9a-f])" % piece if piece.isdigit() else piece)
    return [file for file in holding(folder, piece) if said.search(file.read_bytes())]


def test_a_secret_in_an_edited_command_reaches_the_command_alone(
    open_terminal: OpenTerminal, user: User
) -> None:
    token = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
    terminal = open_terminal(user=user, columns=120)
    script = "replies: [{run: echo start}, {text: All right., repeat: forever}]"
    open_prompt(terminal, f"kogniterm --model {scripted(terminal, script)}")
    say(terminal, "go")
    answer(terminal, "echo start", "e")
    terminal.send(f"; printf %s {token} | wc -c\r")
    answer(terminal, "-1] | wc -c", "v")
    answer(terminal, f"printf %s {token} | wc -c", "y")
    terminal.until(f"│ {len(token)}")
    terminal.until("All right.")
    say(terminal, f"!printf %s {token} | wc -c", "✓")
    assert leave(terminal) == 0
    assert holding(terminal.home, token.encode()) == []
