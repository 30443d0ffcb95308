"""Small talk is answered, knowledge is marked, and requests are split at their conjunctions."""

from __future__ import annotations

import pytest

from benchmarks.eval.table import WORK, tasks
from kogniterm.addons.local_model.bank import examples
from kogniterm.addons.local_model.commands import CommandWriter, Completion
from kogniterm.addons.local_model.conversation import (
    asks_for_judgement,
    asks_how,
    goes_on,
    is_beyond,
    is_code_work,
    is_knowledge_question,
    says_do_it,
    small_talk,
)
from kogniterm.addons.local_model.runtime import LocalPrompt
from kogniterm.addons.local_model.steps import parts_of
from kogniterm.text.language import language_of

# The later sets only measure: a test of the rules on them would tune the rules to them.
SEEN = [task for task in tasks() if task.held_out < 3]
WORK_TASKS = [task for task in SEEN if task.kind in WORK]


async def nothing(prompt: LocalPrompt) -> Completion:
    """Fail if called: these tests need no model."""
    raise AssertionError(prompt)


KNOWN = CommandWriter(nothing, tuple).known_share


def is_knowledge(text: str) -> bool:
    return is_knowledge_question(text, KNOWN)


@pytest.mark.parametrize(
    ("said", "answered"),
    [
        ("hello", "Hello"),
        ("Hi there!", "Hello"),
        ("hey KogniTerm, how are you?", "Hello"),
        ("thanks!", "welcome"),
        ("ok thank you very much", "welcome"),
        ("What can you do?", "one shell command"),
        ("help", "one shell command"),
        ("hi, what are you good at?", "one shell command"),
        ("¿de qué eres capaz?", "un comando de la terminal"),
        ("who are you", "Qwen"),
        ("bye", "Goodbye"),
        ("hola", "Hola"),
        ("¡Buenos días!", "Hola"),
        ("hola, ¿qué tal?", "Hola"),
        ("muchas gracias por la ayuda", "De nada"),
        ("¿Qué puedes hacer?", "un comando de la terminal"),
        ("¿Quién eres?", "Soy KogniTerm"),
        ("hasta luego", "Adiós"),
    ],
)
def test_talk_is_answered_in_its_language(said: str, answered: str) -> None:
    answer = small_talk(said, language_of(said))
    assert answer is not None
    assert answered in answer


@pytest.mark.parametrize(
    "asked",
    [
        "hello.txt",
        "say hello in a file",
        "help me find the big files",
        "thanks, now delete it",
        "who am i",
        "hola mundo en python",
        "¿qué hora es?",
        "what can you do about the full disk?",
    ],
)
def test_more_than_talk_is_not_talk(asked: str) -> None:
    assert small_talk(asked, language_of(asked)) is None


def _is_talk(request: str) -> bool:
    return small_talk(request, language_of(request)) is not None


def test_no_example_and_no_task_is_taken_for_anything_but_work() -> None:
    requests = [e.request for e in examples()] + [task.request for task in WORK_TASKS]
    declined = (asks_for_judgement, is_beyond, is_code_work)
    others = (_is_talk, is_knowledge, asks_how, says_do_it, *declined)
    assert [(r, rule) for r in requests for rule in others if rule(r)] == []


def test_no_talk_of_the_table_is_taken_for_work() -> None:
    talk = [task.request for task in SEEN if task.kind == "talk"]
    assert [
        said for said in talk if not (small_talk(said, language_of(said)) or is_knowledge(said))
    ] == []


@pytest.mark.parametrize(
    "asked",
    [
        "What is a symlink?",
        "what does chmod 755 mean",
        "Explain what a process is",
        "What is the difference between TCP and UDP?",
        "¿Qué es un enlace simbólico?",
        "¿Qué significa EOF?",
        "¿Por qué el cielo es azul?",
        "what is docker?",
        "what does grep do?",
        "who is the president of Peru?",
        "¿para qué sirve el comando sed?",
        "¿quién inventó Linux?",
        "tell me a joke",
    ],
)
def test_knowledge_is_recognised(asked: str) -> None:
    assert is_knowledge(asked)


@pytest.mark.parametrize(
    "asked",
    [
        "is it safe to delete build?",
        "Can I delete the folder cache?",
        "what happens if I run rm -rf /?",
        "the disk is full, what should I do?",
        "¿puedo borrar la carpeta tmp?",
        "¿es seguro apagar el equipo?",
        "¿qué pasa si mato el proceso 1?",
    ],
)
def test_what_asks_for_a_judgement_gets_no_command(asked: str) -> None:
    assert asks_for_judgement(asked)


@pytest.mark.parametrize(
    "asked",
    [
        "Write an e-mail to Anna about the meeting",
        "please call the bank",
        "Order a taxi to the airport",
        "will it rain on Sunday?",
        "who won the match yesterday?",
        "remind me to water the plants",
        "Envíale un correo a Marta",
        "compra dos entradas para el teatro",
        "¿va a llover el domingo?",
        "¿cuál es la cotización del dólar?",
        "pon una alarma a las siete",
    ],
)
def test_what_no_command_does_is_declined(asked: str) -> None:
    assert is_beyond(asked)


@pytest.mark.parametrize(
    "asked",
    [
        "write a chess game",
        "create a mobile app for my gym",
        "fix the failing tests",
        "refactor the parser",
        "programa un videojuego de carreras",
        "arregla los errores del proyecto",
    ],
)
def test_software_and_work_on_code_are_declined(asked: str) -> None:
    assert is_code_work(asked)


@pytest.mark.parametrize(
    "asked",
    [
        "write the line mail=no into web.conf",
        "order the files by size",
        "get the emails in contacts.txt",
        "what does weather.csv contain?",
        "create a folder app",
        "make a game folder",
        "find bugs.txt",
        "crea una carpeta web",
        "busca el precio del oro en tabla.csv",
        "muestra los correos de la carpeta bandeja",
    ],
)
def test_work_with_files_is_not_declined(asked: str) -> None:
    assert not is_beyond(asked)
    assert not is_code_work(asked)


@pytest.mark.parametrize(
    "asked",
    [
        "how do I list hidden files?",
        "How can I delete a branch?",
        "what is the command to see open ports?",
        "¿cómo puedo ver los puertos abiertos?",
        "¿Cómo borro una rama?",
        "¿con qué comando se cuenta?",
    ],
)
def test_questions_how_are_told_from_requests(asked: str) -> None:
    assert asks_how(asked)
    assert not asks_how("how many files are here?")
    assert not asks_how("¿cómo se llama la rama?")


@pytest.mark.parametrize("said", ["do it", "Yes, run it please!", "hazlo", "sí, ejecútalo"])
def test_word_to_run_what_was_shown(said: str) -> None:
    assert says_do_it(said)
    assert not says_do_it(f"{said} again in the other folder")


@pytest.mark.parametrize(
    "asked",
    [
        "what is the largest file here?",
        "what is in /etc/hosts?",
        "explain what main.py does",
        "what are my own processes?",
        "¿qué es lo que ocupa más?",
        "¿qué es setup.cfg?",
    ],
)
def test_questions_about_this_machine_are_not_knowledge(asked: str) -> None:
    assert not is_knowledge(asked)


@pytest.mark.parametrize(
    ("asked", "parts"),
    [
        ("count the files", ("count the files",)),
        (
            "create a.txt, then copy it to b.txt and then delete a.txt",
            ("create a.txt", "copy a.txt to b.txt", "delete a.txt"),
        ),
        (
            "First make a folder x. After that, move y there; finally list x",
            ("make a folder x", "move y there", "list x"),
        ),
        ("Extract a.tar. Tell me its size.", ("Extract a.tar", "Tell me its size")),
        (
            "crea la carpeta x y luego mueve los txt a x, después cuenta los archivos",
            ("crea la carpeta x", "mueve los txt a x", "cuenta los archivos"),
        ),
        ("Primero borra a.txt. Por último, lista la carpeta", ("borra a.txt", "lista la carpeta")),
        ("1. make a\n2) copy b\n3. run c", ("make a", "copy b", "run c")),
        ("Do this:\n- make a\n- copy b", ("make a", "copy b")),
        ("1) make a 2) copy b 3) list a", ("make a", "copy b", "list a")),
        ("copy a.c to b.c\nlist it", ("copy a.c to b.c", "list b.c")),
        (
            "create folder x and put a file y with the word hello into it, then list it",
            ("create folder x", "put a file y with the word hello into x", "list the folder x"),
        ),
        (
            "crea la carpeta x y pon en ella un archivo y.txt, luego lístala",
            ("crea la carpeta x", "pon en la carpeta x un archivo y.txt", "lista la carpeta x"),
        ),
        ("sort x.txt and then how many lines has it?", ("sort x.txt", "how many lines has x.txt?")),
        (
            "write a script go.sh, make it executable and run it",
            ("write a script go.sh", "make go.sh executable", "run go.sh"),
        ),
        ("unpack a.tar.gz and delete the archive", ("unpack a.tar.gz", "delete a.tar.gz")),
        ("crea a.md, luego cópialo a la carpeta b", ("crea a.md", "copia a.md a la carpeta b")),
        (
            "rename all .htm to .html and tell me how many there are",
            ("rename all .htm to .html", "tell me how many .html files there are"),
        ),
        (
            "how many files are here and which is the biggest one?",
            ("how many files are here", "which is the biggest file?"),
        ),
        (
            'crea una carpeta "mis cosas" y mete dentro los txt',
            ('crea una carpeta "mis cosas"', 'mete en la carpeta "mis cosas" los txt'),
        ),
        ("don't list it; make it's folder", ("don't list it", "make it's folder")),
    ],
)
def test_explicit_connectives_and_lists_split(asked: str, parts: tuple[str, ...]) -> None:
    assert parts_of(asked) == parts


@pytest.mark.parametrize(
    "whole",
    [
        "find lines with if x then y",
        "echo 'first this. Then delete nothing' into note.txt",
        "show files older than 3 days",
        "what happened back then",
        "write “wake up, then run” into plan.txt",
        "count words in a.txt and b.txt",
        "archivos creados después del lunes",
        "muéstrame lo que pasó luego del error",
        "create version 1.2. of the file",
        "- only one item",
        "count the lines of each log and save the counts to n.txt",
        "open a.txt and show me the end",
    ],
)
def test_sentences_are_not_broken(whole: str) -> None:
    assert parts_of(whole) == (whole,)


def test_only_the_tasks_in_several_parts_are_split() -> None:
    for task in WORK_TASKS:
        assert (len(parts_of(task.request)) > 1) == (task.kind == "multi"), task.id


def test_no_example_is_split() -> None:
    assert [e.request for e in examples() if len(parts_of(e.request)) > 1] == []


@pytest.mark.parametrize("text", ["and in docs?", "what about .js files", "¿Y en la carpeta docs?"])
def test_follow_ups_are_recognised(text: str) -> None:
    assert goes_on(text)


def _is_talk(request: str) -> bool:
    return small_talk(request, language_of(request)) is not None


def test_no_example_and_no_task_is_taken_for_a_follow_up() -> None:
    requests = [e.request for e in examples()] + [task.request for task in WORK_TASKS]
    assert [request for request in requests if goes_on(request)] == []


def test_parts_are_bounded() -> None:
    assert len(parts_of("\n".join(f"{n}. list files" for n in range(1, 30)))) == 8


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("list files", "en"),
        ("lista archivos", "es"),
        ("mueve martillo.txt a taller", "es"),
        ("¿hora?", "es"),
        ("git log", "en"),
        ("", "en"),
    ],
)
def test_language(text: str, language: str) -> None:
    assert language_of(text) == language
