"""The names of a user: replaced in texts for others, and only as whole names."""

from __future__ import annotations

import pytest

from kogniterm.host.identity import OwnNames, without_names

ANN = OwnNames(
    homes=("/home/annabel", "/srv/homes/annabel"),
    logins=("annabel", "root"),
    hosts=("annbook.example.org", "annbook"),
    full_names=("Annabel Smith",),
    emails=("annabel@smith.example",),
)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("/home/annabel/work/a.py", "/home/user/work/a.py"),
        ("cd /srv/homes/annabel && ls", "cd /home/user && ls"),
        ("PATH=/home/annabel/bin:/usr/bin", "PATH=/home/user/bin:/usr/bin"),
        ("/home/annabella/x", "/home/annabella/x"),
        ("annabel@annbook:~$", "user@host:~$"),
        ("annbook.example.org", "host"),
        ("Author: Annabel Smith <annabel@smith.example>", "Author: User Name <user@example.com>"),
        ("-rw-r--r-- 1 annabel annabel 3 a", "-rw-r--r-- 1 user user 3 a"),
        ("the root of the tree, annabel_lee", "the root of the tree, annabel_lee"),
    ],
)
def test_names_are_replaced_wherever_they_stand(text: str, told: str) -> None:
    assert without_names(ANN)(text) == told


def test_general_and_short_names_stay() -> None:
    names = OwnNames(("/", ""), ("root", "jo"), ("localhost",), ("root",), ())
    assert without_names(names)("root jo localhost /") == "root jo localhost /"
