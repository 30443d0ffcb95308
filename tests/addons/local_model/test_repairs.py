"""Repairs of a command by its request, and by the error that it ended with."""

from __future__ import annotations

import pytest

from kogniterm.addons.local_model.commands import doubts
from kogniterm.addons.local_model.repairs import folder_of, repaired, with_names_of

SWAPPED = "test ! -e b.txt.new && mv a.txt b.txt.new && mv b.txt a.txt && mv b.txt.new b.txt"
CODE = 'import json; [x for x in json.load(open("a.json"))]'
PRINTED = 'import json; print(*[x for x in json.load(open("a.json"))], sep="\\n")'


@pytest.mark.parametrize(
    ("request_text", "folder"),
    [
        ("how many logs are in the folder tools, with subfolders", "tools"),
        ("list the biggest files of the Reports folder", "Reports"),
        ("borra los .tmp de la carpeta álbum", "álbum"),
        ("which file in drafts is the oldest?", "drafts"),
        ("list the folder names in this directory", ""),
        ("delete the empty ones, also in subfolders", ""),
        ("how full is the disk in percent", ""),
        ("list the files in the folder -delete", ""),
        # Characters that become several and others that become none must not move the name.
        ("\ufb01" * 8 + " in the folder drafts12; rm b #" + "a\u0301" * 8, "drafts12"),
    ],
)
def test_the_folder_of_a_request(request_text: str, folder: str) -> None:
    assert folder_of(request_text) == folder


@pytest.mark.parametrize(
    ("request_text", "command", "made"),
    [
        ("count the jpg files in the folder art", "find . -name '*.jpg'", "find art -name '*.jpg'"),
        ("cuál pesa más en descargas", "find downloads -type f", "find descargas -type f"),
        ("which is the newest in drafts?", "ls -t | head -n 1", "ls -t drafts | head -n 1"),
        ("who says hi in the notes folder", "grep -rl hi .", "grep -rl hi notes"),
        ("copy it into the folder art", "cp a.txt art/", "cp a.txt art/"),
        ("files in the folder a newer than b", "find a -newer b", "find a -newer b"),
        ("use commas in a.csv", "sed 's/;/,/g' a.csv", "sed -i 's/;/,/g' a.csv"),
        ("show a.csv with commas", "sed 's/;/,/g' a.csv", "sed 's/;/,/g' a.csv"),
        ("print line 2 of a", "sed -n '2p' a", "sed -n '2p' a"),
        ("lines of all logs", "wc -l < *.log", "cat *.log | wc -l"),
        ("swap a.txt and b.txt", "mv a.txt b.txt && mv b.txt a.txt", SWAPPED),
        ("files before 2024", "find . -mtime +2024", "find . ! -newermt 2024-01-01"),
        ("files since 2024", "find . -mtime -2024", "find . -newermt 2024-01-01"),
        ("not touched since 2020", "find . -mtime +2020 -delete", "find . -mtime +2020 -delete"),
        ("files of 20 days", "find . -mtime -20", "find . -mtime -20"),
        ("list them", f"python3 -c '{CODE}'", f"python3 -c '{PRINTED}'"),
        ("list them", f"python3 -c '{PRINTED}'", f"python3 -c '{PRINTED}'"),
        ("how much is 3", "python3 -c '3'", "python3 -c 'print(3)'"),
        ("write it", "echo 'a $(rm b) < *.c'", "echo 'a $(rm b) < *.c'"),
        ("what is in the notes folder", "grep -r 'a . b' .", "grep -r 'a . b' notes"),
        ("save it", "sort a | tr '\\n' ' ' > b", "sort a > b"),
        ("save it on one line", "sort a | tr '\\n' ' ' > b", "sort a | tr '\\n' ' ' > b"),
    ],
)
def test_what_the_request_makes_certain_is_in_the_command(
    request_text: str, command: str, made: str
) -> None:
    assert with_names_of(request_text, command) == made
    assert with_names_of(request_text, made) == made


@pytest.mark.parametrize(
    ("command", "output", "made"),
    [
        ("grep hi notes", "grep: notes: Is a directory", "grep -r hi notes"),
        ("cp a b", "cp: -r not specified; omitting directory 'a'", "cp -r a b"),
        ("rm a", "rm: cannot remove 'a': Is a directory", "rm -r a"),
        ("mkdir a/b", "mkdir: cannot create directory 'a/b': No such file", "mkdir -p a/b"),
        ("mv *.a b/", "mv: target 'b/': No such file or directory", "mkdir -p b/ && mv *.a b/"),
        ("rm *.log", "rm: cannot remove 'a.log': Is a directory", None),
        ("cp *.log b", "cp: -r not specified; omitting directory 'a.log'", None),
        ("./a.py", "bash: line 1: ./a.py: Permission denied", None),
        ("cat ./a.txt", "cat: ./a.txt: Permission denied", None),
        ("cat grep.txt", "grep: a: Is a directory", None),
        ("echo x >> log; grep x a", "grep: a: Is a directory", None),
        ("grep x a > b && test -s b", "grep: a: Is a directory", "grep -r x a > b"),
        ("cat a", "mv: target 'b': No such file or directory", None),
        (
            "grep 'sort of' <(sort a)",
            "sort: read failed: a: Is a directory",
            "grep 'sort of' <(ls a)",
        ),
        ("comm <(sort a) b", "sort: read failed: a: Is a directory", "comm <(ls a) b"),
        ("mv *.a b/", "mv: target 'b; rm c/': No such file or directory", None),
        ("grep x n | grep y", "grep: n: Is a directory", "grep -r x n | grep y"),
        ("cat a.txt", "cat: a.txt: No such file or directory", None),
        ("ls", "", None),
    ],
)
def test_an_error_that_names_its_remedy_is_followed(
    command: str, output: str, made: str | None
) -> None:
    assert repaired(command, output) == made


def test_python_code_with_a_warning_writes_nothing(capfd: pytest.CaptureFixture[str]) -> None:
    assert doubts("is it", "python3 -c 'print(1 is 1, \"\\d\")'", ()) == ()
    assert capfd.readouterr() == ("", "")
