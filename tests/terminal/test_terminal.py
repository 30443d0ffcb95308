"""The terminals of other tests are real ones, and their users are as described."""

from __future__ import annotations

import os
from pathlib import Path

from kogniterm import __version__
from tests.support.ordinary import ORDINARY
from tests.support.real_terminal import User
from tests.terminal.conftest import OpenTerminal


def test_the_shell_leads_the_session_and_programs_do_not(open_terminal: OpenTerminal) -> None:
    terminal = open_terminal()
    status, said = terminal.run("awk '{print $6}' /proc/$$/stat; echo $$; (exit 7)")
    assert status == 7
    leader, shell = said.split()[-2:]
    assert leader == shell


def test_an_ordinary_user_has_no_privileges(
    open_terminal: OpenTerminal, user: User, place: Path
) -> None:
    terminal = open_terminal(user=user)
    expected = ORDINARY if user == "ordinary" and os.geteuid() == 0 else os.geteuid()
    _, said = terminal.run("id -u; touch ~/mine && ls ~")
    assert said.split()[-2:] == [str(expected), "mine"]
    assert (place / "home" / "mine").stat().st_uid == expected
    status, said = terminal.run("kogniterm --version")
    name, version, at, folder, *_commit = said.splitlines()[-1].replace(",", "").split()
    assert (status, name, version, at) == (0, "kogniterm", __version__, "from")
    assert folder.endswith("/kogniterm")
