"""What speaks against a command, seen from its text."""

from __future__ import annotations

import pytest

from kogniterm.models.local.bank import Example, examples
from kogniterm.models.local.commands import doubts, mended, names_in, needless_harm


@pytest.mark.parametrize(
    ("request_text", "command"),
    [
        ("which files are old?", "find . -mtime +9 -delete"),
        ("is the folder cache big?", "rm -rf cache"),
        ("what runs on port 80?", "kill $(lsof -ti :80)"),
        ("don't delete anything, only show the .old files", "rm *.old"),
        ("sin borrar nada, dime qué .bak hay", "find . -name '*.bak' -delete"),
        ("clear the screen", "rm -r screen"),
        ("show the status", "git reset --hard && git status"),
        ("list the logs", "ls *.log; > app.log"),
        ("show them all", "ls | xargs rm"),
        ("which scripts lack a header?", "find . -exec sed -i 's/a/b/' {} +"),
        ("¿qué archivos son míos?", "chown me *"),
        ("delete a folder with everything in it", "rm -rf ."),
        ("delete everything", "rm -rf / --no-preserve-root"),
        ("borra todo", "rm -r ~"),
        ("¿cuántas ramas hay?", "git branch -D vieja; git branch | wc -l"),
        ("find all empty files", "find . -name '*.o' -empty -delete"),
        ("find all empty files", "find . -type f -empty -delete"),
        ("list the empty folders", "find . -type d -empty -exec rmdir {} +"),
        ("count empty files", "find . -empty -delete -print | wc -l"),
        ("Can you show me which directories are empty?", "find . -type d -empty -delete"),
        ("I want to see the empty logs", "find . -name '*.log' -empty -delete"),
        ("print the empty lines' numbers", "grep -n '^$' a.txt; rm a.txt"),
        ("create an empty file called a.txt", "rm -f a.txt; touch a.txt"),
        ("sort the empty ones first", "find . -empty -delete"),
        ("list deleted files", "git ls-files -d | xargs rm"),
        ("find files that can be removed", "find . -name '*.tmp' -delete"),
        ("which files were deleted last week?", "find . -mtime -7 -delete"),
        ("how much memory is free?", "killall python3"),
        ("show stopped and closed jobs", "kill %1"),
        ("list the moved and the clean files", "git clean -fd"),
        ("busca los archivos vacíos", "find . -type f -empty -delete"),
        ("encuentra todas las carpetas vacías", "find . -type d -empty -delete"),
        ("¿Qué archivos están vacíos?", "find . -type f -empty -delete"),
        ("quiero ver los archivos vacíos", "find . -type f -empty -delete"),
        ("cuenta los archivos borrados", "git clean -f | wc -l"),
        ("muestra la memoria libre", "pkill -x firefox"),
        ("lista los logs", "ls *.log; : > app.log"),
        ("¿hay carpetas rotas o vacías?", "find . -type d -empty -delete"),
    ],
)
def test_harm_nobody_asked_for_is_noticed(request_text: str, command: str) -> None:
    assert needless_harm(request_text, command)
    assert doubts(request_text, command, ())[0] == "harm"


@pytest.mark.parametrize(
    ("request_text", "command"),
    [
        ("delete the .tmp files", "rm -- *.tmp"),
        ("get rid of old logs", "find . -name '*.log' -mtime +30 -delete"),
        ("borra la carpeta x", "rm -r x"),
        ("how do I make run.sh executable?", "chmod +x run.sh"),
        ("replace a with b in x.txt", "sed -i 's/a/b/g' x.txt"),
        ("which files are in move?", "ls mv; sort -i x"),
        ("delete everything in here", "rm -rf ./* && rm -r ../old"),
        ("empty app.log without deleting it", "truncate -s 0 app.log"),
        ("stop the process 71", "kill 71"),
        ("undo my changes in a.c", "git restore a.c"),
        ("write hi into a.txt", "echo hi > a.txt"),
        ("list the files", "ls 2> /dev/null"),
        ("show rm.txt", "cat rm.txt"),
        ("empty the trash", "rm -rf trash/*"),
        ("please empty my downloads folder", "rm downloads/*"),
        ("empty old.log", "truncate -s 0 old.log"),
        ("stop the server and empty the cache folder", "rm -r cache/*"),
        ("create an empty file called todo.txt", "> todo.txt"),
        ("crea un archivo vacío llamado x.txt", ": > x.txt"),
        ("find the .tmp files and delete them", "find . -name '*.tmp' -delete"),
        ("find and remove all .bak files", "find . -name '*.bak' -delete"),
        ("list the empty folders, then delete them", "find . -type d -empty -print -delete"),
        ("can you delete the empty files?", "find . -type f -empty -delete"),
        ("could you please get rid of core?", "rm core"),
        ("how do I delete the empty files?", "find . -type f -empty -delete"),
        ("find what listens on port 80 and kill it", "kill $(lsof -ti :80)"),
        ("vacía la papelera", "rm -rf papelera/*"),
        ("vacía registro.log", "truncate -s 0 registro.log"),
        ("por favor vacíalo", "truncate -s 0 registro.log"),
        ("busca los .tmp y bórralos", "find . -name '*.tmp' -delete"),
        ("encuentra y elimina las carpetas vacías", "find . -type d -empty -delete"),
        ("borra los archivos vacíos", "find . -type f -empty -delete"),
        ("¿puedes borrar los archivos vacíos?", "find . -type f -empty -delete"),
        ("muestra los logs y luego bórralos", "ls *.log; rm *.log"),
    ],
)
def test_what_was_asked_for_is_no_harm(request_text: str, command: str) -> None:
    assert not needless_harm(request_text, command)


def test_the_bank_gives_hardly_any_doubt() -> None:
    doubtful = [e.request for e in examples() if doubts(e.request, e.command, ())]
    assert len(doubtful) <= 0.02 * len(examples()), doubtful
    assert [e.request for e in examples() if needless_harm(e.request, e.command)] == []
    assert [e.request for e in examples() if mended(e.request, e.command) != e.command] == []


def test_names_of_a_request() -> None:
    asked = "put 'two words' into src/a.txt and the last 20 lines of .bashrc, version 1.2"
    assert set(names_in(asked)) == {"two words", "src/a.txt", "20", ".bashrc", "1.2"}
    assert names_in("don't list it, that's all") == ()


def test_name_copied_from_an_example_is_noticed() -> None:
    shown = (Example("count lines of old.csv", "wc -l < old.csv", "en"),)
    assert doubts("count the lines in there", "wc -l < old.csv", shown) == ("copied old.csv",)
    assert doubts("count the lines of old.csv", "wc -l < old.csv", shown) == ()
    assert doubts("count the lines in there", "wc -l < settings.py", shown) == ()


@pytest.mark.parametrize(
    ("request_text", "command", "made"),
    [
        ("how many logs are here?", "ls *.log", "ls *.log | wc -l"),
        ("¿cuántos enlaces hay?", "find . -type l", "find . -type l | wc -l"),
        ("how many lines say x?", "grep -c x a.txt", "grep -c x a.txt"),
        ("how many files?", "find . -type f | wc -l", "find . -type f | wc -l"),
        ("list the logs", "ls *.log", "ls *.log"),
        ("largest folders", "du -sh */ | sort -nr | head", "du -sh */ | sort -hr | head"),
        ("largest folders", "du -sh */ | sort -n", "du -sh */ | sort -h"),
        ("largest folders", "du -s */ | sort -nr", "du -s */ | sort -nr"),
        ("how many bytes?", "ls -l a.txt", "ls -l a.txt"),
        ("how many did you delete?", "find . -name x -delete", "find . -name x -delete"),
    ],
)
def test_slips_that_can_be_mended_for_certain_are(
    request_text: str, command: str, made: str
) -> None:
    assert mended(request_text, command) == made
