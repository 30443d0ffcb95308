"""Forgetting removes every copy, proves it on the raw bytes, and is permanent."""

from __future__ import annotations

import json
import os
import threading
import tracemalloc
import unicodedata
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kogniterm.memory import Memory, Origin, open_memory
from kogniterm.memory.file_purge import FilePurge, Purged, scan
from kogniterm.memory.forgetter import BESIDE_FACTS
from kogniterm.memory.short_term import Mention
from kogniterm.memory.statements import forget_request
from kogniterm.text.matching import BORDER, Matcher
from kogniterm.types import Phrase
from tests.memory.conftest import OpenMemory
from tests.support.databases import prefer_note

SECRETIVE = "Ana is fond of peanuts and ñandú eggs"


class ListStore:
    """A store outside of memory: a list of lines."""

    def __init__(self, *lines: str) -> None:
        self.lines = list(lines)

    def purge(self, terms: Sequence[str]) -> Purged:
        kept = [
            line for line in self.lines if not any(term.lower() in line.lower() for term in terms)
        ]
        removed = len(self.lines) - len(kept)
        self.lines = kept
        return Purged(Phrase("the list"), removed, (Phrase("a copy of the list"),))


def test_every_store_takes_part_and_the_receipt_says_so(tmp_path: Path) -> None:
    data = tmp_path / "data"
    outputs = data / "outputs"
    outputs.mkdir(parents=True)
    (data / "history").write_text(f"hello\n{SECRETIVE.upper()}\nbye\n", encoding="utf-8")
    (outputs / "1.out").write_bytes(b"\x00\x01" + SECRETIVE.encode() + b"\xff")
    (data / "log").write_text(json.dumps({"text": SECRETIVE}) + "\n", encoding="utf-8")
    journal = ListStore("hello", f"I said: {SECRETIVE}")
    stores = [journal, FilePurge(Phrase("files"), [data / "history", data / "log", outputs])]
    with open_memory(data, user="ana", project="shop", stores=stores, paths=[data]) as memory:
        fact = memory.add(SECRETIVE, origin=Origin("s1", 1, SECRETIVE))
        memory.learnings.record(SECRETIVE, "ls", ok=True)
        prefer_note(memory, SECRETIVE)
        receipt = memory.forget(fact)
        assert receipt.proved, receipt.found
        assert {str(part.place): part.removed for part in receipt.parts} == {
            "memory": 2,
            "the list": 1,
            "files": 3,
        }
        assert "a copy of the list" in [str(text) for text in receipt.unreachable]
        assert receipt.scanned_files >= 5
    assert journal.lines == ["hello"]
    history = (data / "history").read_text(encoding="utf-8").splitlines()
    assert (history[0], history[1].strip(), history[2]) == ("hello", "[forgotten]", "bye")
    assert json.loads((data / "log").read_text())["text"].strip() == "[forgotten]"
    for file in data.rglob("*"):
        if file.is_file():
            assert b"peanuts" not in file.read_bytes().lower()


def test_what_is_still_there_is_told(tmp_path: Path) -> None:
    left = tmp_path / "data" / "notes.txt"
    left.parent.mkdir()
    left.write_text(SECRETIVE, encoding="utf-8")
    with open_memory(tmp_path / "data", user="ana", paths=[tmp_path / "data"]) as memory:
        receipt = memory.forget(memory.add(SECRETIVE, scope="everywhere"))
    assert receipt.found == (left,)
    assert not receipt.proved


def test_the_file_holds_no_word_of_it_while_open_or_closed(tmp_path: Path) -> None:
    with open_memory(tmp_path, user="ana", project="shop") as memory:
        kept = [memory.add(f"Fact {number} about the billing service") for number in range(50)]
        fact = memory.add("Quetzalcoatl lives in Xochimilco", keywords=["axolotl"])
        memory.updater.edit(memory.get(fact), "Quetzalcoatl moved to Teotihuacan")
        assert memory.search("Quetzalcoatl", 3)
        memory.forget(max(one.id for one in memory.facts()))
        words = ("quetzalcoatl", "xochimilco", "teotihuacan", "axolotl", "quetzal")
        for _moment in ("open", "closed"):
            for file in tmp_path.iterdir():
                content = file.read_bytes().lower()
                assert [word for word in words if word.encode() in content] == []
            memory.close()
    with open_memory(tmp_path, user="ana", project="shop") as memory:
        assert [fact.id for fact in memory.facts()] == kept


def test_stores_can_join_later(memory: Memory) -> None:
    fact = memory.add(SECRETIVE)
    journal = ListStore(SECRETIVE)
    receipt = memory.forgetter.joined(journal).forget([memory.get(fact)])
    assert journal.lines == []
    assert "the list" in {str(part.place) for part in receipt.parts}


def test_forgetting_by_words_takes_what_holds_them(memory: Memory) -> None:
    memory.add("Ana likes tea")
    one = memory.add("Ana lives in Calle Mayor 3", keywords=["address"])
    two = memory.add("The spare key is at Calle Mayor 5")
    named = memory.forgetter.matches("calle mayor")
    assert [fact.id for fact in named] == [one, two]
    assert [fact.id for fact in memory.forgetter.matches(f"[m{one}]")] == [one]
    assert [fact.id for fact in memory.forgetter.matches("address")] == [one]
    assert memory.forgetter.matches("m99999") == []
    assert memory.forgetter.matches("?!") == []
    receipt = memory.forgetter.forget(named, phrases=["Calle Mayor"])
    assert receipt.facts == (one, two)
    assert [fact.text for fact in memory.facts()] == ["Ana likes tea"]


def test_a_project_or_a_session_can_be_forgotten_whole(open_here: OpenMemory) -> None:
    shop, blog = open_here("ana", "shop"), open_here("ana", "blog")
    shop.add("The shop uses Helm", origin=Origin("s1"))
    from_two = shop.add("The shop uses Debian", origin=Origin("s2"))
    everywhere = shop.add("Ana likes tea", scope="everywhere")
    shop.preferences.set("editor", "vim", scope="project")
    shop.learnings.record("deploy", "helm upgrade", ok=True, session_id="s1")
    other = blog.add("The blog uses Hugo")
    shop.forgetter.forget_all(session_id="s1")
    assert [fact.id for fact in shop.facts()] == [from_two, everywhere]
    assert shop.learnings.all() == []
    shop.forgetter.forget_all()
    assert [fact.id for fact in shop.facts()] == [everywhere]
    assert shop.preferences.all() == {}
    assert [fact.id for fact in blog.facts()] == [everywhere, other]


def test_the_audit_trail_tells_what_was_done_but_not_what_it_said(memory: Memory) -> None:
    fact = memory.add(SECRETIVE)
    memory.forget(fact)
    assert [(one.operation, one.fact_id) for one in memory.audit()] == [
        ("forget", fact),
        ("add", fact),
    ]
    columns = memory.sql.execute("SELECT * FROM memory_audit") + memory.sql.execute(
        "SELECT * FROM tombstones"
    )
    assert "peanuts" not in repr(columns)


def test_a_sentence_of_a_fact_goes_without_the_others(memory: Memory, tmp_path: Path) -> None:
    """A line such as "Remember that X. Then show …" holds the fact, and X was repeated alone."""
    log = tmp_path / "log"
    log.write_text("I note: the door code is TANGERINE nine!\nThen I wait.\nThen show me all.\n")
    fact = memory.add("the door code is tangerine nine. Then show me all. Thanks!")
    forgetter = memory.forgetter.joined(FilePurge(Phrase("log"), [log]))
    receipt = forgetter.forget([memory.get(fact)])
    assert receipt.proved
    left = log.read_text()
    assert "angerine" not in left.lower()
    assert "Then I wait." in left


def test_every_project_is_forgotten_with_what_it_has_beside_facts(open_here: OpenMemory) -> None:
    shop, blog = open_here("ana", "shop"), open_here("ana", "blog")
    other = open_here("ben", "shop")
    shop.add("The shop uses Helm")
    blog.learnings.record("look for my xylophone collection", "ls", ok=True)
    blog.sessions.mention("s1", [Mention("name", "xylophone")], blog.clock.now())
    other.learnings.record("play the xylophone", "ls", ok=True)
    receipt = shop.forgetter.forget_everything()
    assert blog.learnings.all() == []
    assert blog.sessions.recent(blog.clock.now()) == []
    assert [lesson.task for lesson in other.learnings.all()] == ["play the xylophone"]
    assert {str(part.place): part.removed for part in receipt.parts}[str(BESIDE_FACTS)] == 2
    assert len(receipt.facts) == 1


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("Forget that we deploy on Fridays.", "we deploy on Fridays"),
        ("please forget about the staging server", "the staging server"),
        ("Could you forget what I said about my cat?", "my cat"),
        ("olvida que usamos fish", "usamos fish"),
        ("Por favor, olvídate de que vivo en Soria", "vivo en Soria"),
        ("Olvida lo que te dije de mi gato", "mi gato"),
        ("forget m7", "m7"),
        ("forget it", None),
        ("Forget that.", None),
        ("Forget that. Show the files.", None),
        ("don't forget that we deploy on Fridays", None),
        ("no olvides que usamos fish", None),
        ("show me what you would forget", None),
    ],
)
def test_a_sentence_that_asks_to_forget_names_what(said: str, what: str | None) -> None:
    found = forget_request(said)
    assert (None if found is None else found[0]) == what


@pytest.mark.parametrize(
    ("said", "every"),
    [
        ("Forget that we deploy on Fridays.", False),
        ("forget m7", False),
        ("forget [l3]", False),
        ("olvida lo de mi gato", False),
        ("please forget everything about heron", True),
        ("Olvida todo lo que sabes de garza", True),
        ("delete everything you know about heron", True),
        ("borra lo que sabes sobre garza", True),
        ("forget what I told you about heron", True),
    ],
)
def test_a_sentence_about_memory_is_told_from_one_about_all(said: str, every: bool) -> None:
    found = forget_request(said)
    assert found is not None
    assert found[1] == every


@pytest.mark.parametrize(
    "said",
    [
        "forget the cache",
        "forget the m7 branch",
        "olvida los cambios de git",
        "forget my home address",
        "forget the cache and rebuild",
        "forget that file, then run the tests",
        "forget about the linter and just push",
        "olvida los cambios y ejecuta las pruebas",
        "olvida la rama y luego borra el directorio",
        "delete everything",
        "delete the file you know",
        "borra los archivos temporales",
        "forget it, try again",
    ],
)
def test_a_task_that_begins_with_forget_is_a_task(memory: Memory, said: str) -> None:
    memory.add("the cache, the linter, the changes and the branch are on heron")
    memory.learnings.record(said, "make clean", ok=True)
    found = forget_request(said)
    assert found is None or memory.forgetter.meant(*found) is None


def test_everything_about_a_word_needs_no_match(memory: Memory) -> None:
    about = forget_request("forget everything about quetzal")
    assert about is not None
    unknown = memory.forgetter.meant(*about)
    assert unknown is not None
    assert (unknown.phrases, unknown.labels) == (("quetzal",), [])


def test_lessons_and_preferences_are_candidates_too(memory: Memory) -> None:
    memory.preferences.set("editor", "quetzal")
    memory.learnings.record("start quetzal", "quetzal --new", ok=False)
    fact = memory.add("quetzal runs on heron")
    sentence = forget_request("please forget everything about quetzal")
    assert sentence is not None
    request = memory.forgetter.meant(*sentence)
    assert request is not None
    assert [one.id for one in request.facts] == [fact]
    assert {type(one).__name__ for one in request.beside} == {"Lesson", "Preference"}
    assert memory.forgetter.carry_out(request).proved
    assert memory.facts() == []
    assert memory.learnings.all() == []
    assert memory.preferences.stored() == []


def test_a_sentence_finds_the_fact_it_is_about_and_no_other(memory: Memory) -> None:
    told = memory.add(
        "Ana deploys on Fridays only", origin=Origin("s1", 1, "we deploy on Fridays only")
    )
    memory.add("Ana drinks tea on Mondays")
    for said in ("we deploy on Fridays only", "we only deploy on a Friday", f"m{told}"):
        wish = memory.forgetter.candidates(said)
        assert wish is not None
        assert [fact.id for fact in wish.facts] == [told]
    for said in ("we eat on Sundays", "error and go on", "m99"):
        assert memory.forgetter.candidates(said) is None


def test_what_is_too_short_to_be_found_elsewhere_is_told(memory: Memory) -> None:
    fact = memory.get(memory.add("Bo pays the bill"))
    receipt = memory.forgetter.forget([fact], phrases=["Bo"])
    assert "Bo" in str(receipt.unreachable[0])


# --- files ---


@given(st.text(min_size=4, max_size=40), st.binary(max_size=60), st.binary(max_size=60))
def test_a_purged_file_has_its_size_and_lost_the_term(
    tmp_path_factory: pytest.TempPathFactory, term: str, before: bytes, after: bytes
) -> None:
    written = term.encode("utf-8", "replace")
    if written.decode("utf-8", "replace") != term or b"-" in written or b"[" in written:
        return
    file = tmp_path_factory.mktemp("purge") / "file"
    file.write_bytes(before + written + after)
    assert FilePurge(Phrase("file"), [file]).purge([term]).removed == 1
    content = file.read_bytes()
    assert len(content) == len(before + written + after)
    assert written not in content or written.isspace()


def test_a_file_that_is_open_elsewhere_keeps_working(tmp_path: Path) -> None:
    file = tmp_path / "log"
    with file.open("a") as log:
        log.write("about peanuts\n")
        log.flush()
        FilePurge(Phrase("log"), [file]).purge(["peanuts"])
        log.write("the next line\n")
    assert file.read_text().splitlines() == ["about -------", "the next line"]


def test_pipes_and_links_are_left_alone(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.write_text("about peanuts")
    inside = tmp_path / "inside"
    inside.mkdir()
    (inside / "link").symlink_to(outside)
    os.mkfifo(inside / "pipe")
    done = threading.Event()

    def purge() -> None:
        FilePurge(Phrase("files"), [inside]).purge(["peanuts"])
        assert scan([inside], Matcher(["peanuts"])) == (0, 0, ())
        done.set()

    worker = threading.Thread(target=purge, daemon=True)
    worker.start()
    worker.join()
    assert done.is_set()
    assert outside.read_text() == "about peanuts"


def test_a_long_file_is_read_once_and_piece_by_piece(tmp_path: Path) -> None:
    """Removal is proved in the same pass, with a few pieces of the file in memory."""
    long = tmp_path / "data" / "1.out"
    long.parent.mkdir()
    line = b"\x1b[32mok\x1b[0m blue things stand on many shelves of this house\n" * 1000
    with long.open("wb") as file:
        for number in range(60_000_000 // len(line)):
            file.write(line)
            if number % 300 == 0:
                file.write(b"The blue \x1b[31mpeanut\x1b[0m butter\n")
    size = long.stat().st_size
    forgets = FilePurge(Phrase("outputs"), [long.parent])
    with open_memory(
        tmp_path / "kept", user="ana", stores=[forgets], paths=[long.parent]
    ) as memory:
        fact = memory.get(memory.add("The blue peanut butter", scope="everywhere"))
        read = _read_bytes()
        tracemalloc.start()
        receipt = memory.forgetter.forget([fact])
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert receipt.proved
        assert receipt.scanned_bytes >= size
        assert _read_bytes() - read < 1.5 * size
    assert peak < 24_000_000
    assert b"nut butter" not in long.read_bytes()
    assert long.stat().st_size == size


def _read_bytes() -> int:
    """Return the number of bytes this process has read so far, from any file."""
    fields = Path("/proc/self/io").read_text().split()
    return int(fields[fields.index("rchar:") + 1])


def test_the_scan_finds_terms_across_chunks_and_escapes(tmp_path: Path) -> None:
    edge = (1 << 20) - 3
    (tmp_path / "big").write_bytes(b"x" * edge + b"PEANUTS" + b"y" * 10)
    (tmp_path / "json").write_text(json.dumps({"a": "ñandú egg"}))
    (tmp_path / "clean").write_text("nothing")
    files, size, found = scan([tmp_path], Matcher(["peanuts", "ñandú egg"]))
    assert files == 3
    assert size >= edge
    assert {file.name for file in found} == {"big", "json"}


def test_the_scan_finds_what_is_written_in_other_ways(tmp_path: Path) -> None:
    term = "blue peanut butter"
    forms = {
        "two-lines": b"Blue peanut\n+butter",
        "json": json.dumps({"text": "blue\npeanut\tbutter"}).encode(),
        "colours": b"\x1b[34mblue\x1b(B\x1b[m \x1b[01;33m\x1b[Kpeanut\x1b[m\x1b[Kbutter",
    }
    for name, content in forms.items():
        (tmp_path / name).write_bytes(content)
    (tmp_path / "clean").write_bytes(b"blue walnut butter and blue pea nut butter")
    _, _, found = scan([tmp_path], Matcher([term]))
    assert {file.name for file in found} == set(forms)


def test_a_text_with_colour_codes_is_found_as_it_is_and_without_them(tmp_path: Path) -> None:
    said = "error: \x1b[1mblue\x1b[0m pea\x1b[31mnut\x1b[m butter"
    for text in (
        said,
        said.replace("\x1b[", "\x1b("),
        json.dumps(said),
        "error blue pea nut butter",
    ):
        assert Matcher([said]).holds(text)
    assert not Matcher([said]).holds("error: blue peanut jelly")


def test_what_is_written_in_other_ways_is_purged(tmp_path: Path) -> None:
    term = "blue peanut butter"
    history = tmp_path / "history"
    history.write_text("# then\n+I like blue\n+peanut  butter\n+a lot\n")
    log = tmp_path / "log"
    kept = {"said": ["blue", "peanut", "butter ñandú"], "blue": "peanut\nbutter"}
    log.write_text(json.dumps(kept))
    FilePurge(Phrase("files"), [tmp_path]).purge([term, "butter ñandú"])
    assert scan([tmp_path], Matcher([term, "ñandú"]))[2] == ()
    assert [line[0] for line in history.read_text().splitlines()] == ["#", "+", "+", "+"]
    assert [*json.loads(log.read_text())] == ["said", "----"]


WRITTEN = (
    str,
    str.upper,
    json.dumps,
    lambda text: unicodedata.normalize("NFD", text),
    lambda text: "\\n".join(text.split()),
    lambda text: "\x1b(1m ".join(text.split()),
)
"""Ways in which a text may stand in a value."""

_TERM = st.text("ñaéBœ7 .-", min_size=1, max_size=12)
_EDGE = st.sampled_from(
    ("", "a", "\\", "\\u00", "\x1b[", "\x1b[12", "\0", "\\ud8", "\u0301", " ", "x")
)


@given(
    st.lists(_TERM, min_size=1, max_size=3),
    st.lists(st.tuples(_EDGE, _TERM, st.sampled_from(WRITTEN), _EDGE), max_size=6),
    st.data(),
)
def test_values_searched_at_once_lose_and_add_nothing(
    terms: list[str],
    values: list[tuple[str, str, Callable[[str], str], str]],
    data: st.DataObject,
) -> None:
    texts = [
        before + write(data.draw(st.sampled_from([text, *terms, *terms[0].split()]))) + after
        for before, text, write, after in values
    ]
    matcher = Matcher(terms)
    assert matcher.holds(BORDER.join(texts)) == any(map(matcher.holds, texts))


def test_the_proof_names_each_column_among_many_rows(memory: Memory) -> None:
    ids = [memory.add(f"Fact {number} is of no interest") for number in range(80)]
    shouted = json.dumps(SECRETIVE.upper())
    memory.sql.run("UPDATE facts SET keywords = ? WHERE id = ?", (shouted, ids[70]))
    split = ("Ana is fond of", "peanuts and ñandú eggs")
    memory.sql.run("UPDATE facts SET keywords = ?, language = ? WHERE id < ?", (*split, ids[60]))
    receipt = memory.forgetter.forget([], phrases=[SECRETIVE])
    assert receipt.found_columns == ("facts.keywords",)


def test_the_proof_holds_few_long_rows_at_once(memory: Memory) -> None:
    for number in range(64):
        fact = memory.add(f"Fact {number} is of no interest")
        memory.sql.run("UPDATE facts SET keywords = ? WHERE id = ?", ("dull " * 20_000, fact))
    tracemalloc.start()
    try:
        assert memory.forgetter.forget([], phrases=[SECRETIVE]).proved
        assert tracemalloc.get_traced_memory()[1] < 50_000_000  # 109 million with all as one text
    finally:
        tracemalloc.stop()


def test_the_proof_reads_damaged_values(tmp_path: Path) -> None:
    with open_memory(tmp_path, user="ana") as memory:
        memory.add("Ana likes tea")
        damaged = b"\xc3\0\xff" + SECRETIVE.encode() + b"\xe2\x82"
        memory.sql.run(
            "UPDATE facts SET confidence = ?, claim = CAST(? AS TEXT)", (damaged, b"\xf0")
        )
        receipt = memory.forgetter.forget([], phrases=[SECRETIVE])
        assert receipt.found_columns == ("facts.confidence",)


def test_a_server_is_searched_for_proof(postgres_url: str, tmp_path: Path) -> None:
    with ExitStack() as stack:

        def opened(user: str, project: str) -> Memory:
            key = tmp_path / "memory-key"
            memory = open_memory(postgres_url, user=user, project=project, key_file=key)
            return stack.enter_context(memory)

        shop, blog, other = opened("ana", "shop"), opened("ana", "blog"), opened("ben", "shop")
        other.add(SECRETIVE)
        blog.add(f"In the blog, too: {SECRETIVE}")
        receipt = shop.forget(shop.add(SECRETIVE))
        assert receipt.scanned_columns > 20
        assert "facts.text" in receipt.found_columns
        assert not receipt.proved
        blog.forgetter.forget(blog.forgetter.matches("peanuts"))
        assert shop.forgetter.forget([], phrases=[SECRETIVE]).found_columns == ()
        assert [one.text for one in other.facts()] == [SECRETIVE]


def test_several_ids_are_forgotten_at_once(memory: Memory) -> None:
    one, two = memory.add("Ana likes tea"), memory.add("Ana likes gin")
    kept = memory.add("Ana likes rum")
    memory.learnings.record("list all", "ls -l", ok=True)
    request = memory.forgetter.read_request(f"m{one} [m{two}] l1")
    assert request.labels == [f"m{one}", f"m{two}", "l1"]
    assert request.phrases == ()
    assert memory.forgetter.carry_out(request).proved
    assert [fact.id for fact in memory.facts()] == [kept]
    assert memory.learnings.all() == []
