"""Links in the pages resolve, their lines stay short; words on pages and screens are plain."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from docs.completion_scripts import Place, places
from kogniterm.ui.locale import read_po

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "kogniterm"
WORDS = Path(__file__).with_name("words.txt")
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LONGEST = 350
MOST_LINES, MOST_WORDS = 4500, 40000
_FENCE = re.compile(r"^( *```).*?^\1`*$", re.MULTILINE | re.DOTALL)
_SPAN = re.compile(r"`[^`\n]+`|\]\([^)\n]*\)")


def prose(text: str) -> str:
    """Return `text` with code blocks emptied, so that lines keep their numbers."""
    return _FENCE.sub(lambda block: "\n" * block[0].count("\n"), text)


def anchors(text: str) -> set[str]:
    """Return the anchors of the headings, made as GitHub makes them."""
    found: set[str] = set()
    for heading in re.findall(r"^#+ +(.*?) *$", prose(text), re.MULTILINE):
        words = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).lower()
        anchor = re.sub(r"[^\w\- ]", "", words).replace(" ", "-")
        twins = sum(1 for one in found if re.fullmatch(rf"{re.escape(anchor)}(-\d+)?", one))
        found.add(f"{anchor}-{twins}" if twins else anchor)
    return found


def broken_links(page: Path, text: str) -> Iterator[str]:
    """Yield the links of a page to files or headings that do not exist."""
    for target in re.findall(r"\]\((?!https?:)([^)\s]+)\)", prose(text)):
        name, _, anchor = target.partition("#")
        file = page.parent / name if name else page
        if not file.exists():
            yield f"{page.name}: {target}: no such file"
        elif anchor and anchor not in anchors(text if file == page else file.read_text("utf-8")):
            yield f"{page.name}: {target}: no such heading"


def unknown_paths(page: Path, text: str) -> Iterator[str]:
    """Yield the code spans that name a module, a test or a folder that does not exist."""
    for path in re.findall(r"`((?:\w+/)+[\w*]+(?:\.\w+)?)`", prose(text)):
        base = PACKAGE if (PACKAGE / path.split("/")[0]).is_dir() else ROOT
        if not (base / path.split("/")[0]).is_dir() or re.search(r"/[A-Z]+\b", path):
            continue  # of another project, or with a placeholder such as NAME.py
        module = path.partition(".")[0] + ".py"
        if not any(glob for one in (path, module) for glob in base.glob(one)):
            yield f"{page.name}: {path}: no such module or folder"


def unknown_commands(page: Path, text: str) -> Iterator[str]:
    """Yield the calls of kogniterm, in code spans and blocks, with a verb or option it lacks."""
    spans = re.findall(r"`(kogniterm [^`]+)`", prose(text))
    for call in [*spans, *re.findall(r"^(?:.*\| )?(kogniterm [^#|>\n]*)", text, re.MULTILINE)]:
        path, chosen = "", None
        for word in re.sub(r"\"[^\"]*\"|'[^']*'", "TEXT", call).split()[1:]:
            if word == "--":
                break  # the words of another program follow
            place = known_places()[path]
            if path == "/help" and f"/{word}" in known_places():
                path = f"/{word}"  # the words of a command
            elif f"{path}/{word}" in known_places():
                path += f"/{word}"
            elif chosen != path and word in place.words:
                chosen = path
            elif re.fullmatch(r"[a-z]+", word) and place.words and chosen != path:
                yield f"{page.name}: {call}: {word} is no verb or action"
            option = re.match(r"\[?(-[\w-]+)", word)
            names = {name for known in ("", path) for name in option_names(known)}
            if option and option[1] not in names:
                yield f"{page.name}: {call}: no option {option[1]}"


@cache
def known_places() -> dict[str, Place]:
    """Return every place of the command line by its path."""
    return {place.path: place for place in places()}


def option_names(path: str) -> Iterator[str]:
    """Yield the options that are known after the words of `path`."""
    for flag in known_places()[path].flags:
        yield from flag.names


def long_lines(page: Path, text: str) -> Iterator[str]:
    """Yield the lines of prose that are longer than `LONGEST` characters."""
    for number, line in enumerate(prose(text).splitlines(), 1):
        if len(line) > LONGEST:
            yield f"{page.name}:{number}: {len(line)} characters"


def listed_words() -> dict[str, str]:
    """Return the words of the list with what to write instead."""
    lines = WORDS.read_text("utf-8").splitlines()
    pairs = (line.partition(" | ") for line in lines if not line.startswith("#"))
    return {word: instead for word, _, instead in pairs}


def banned_words(page: Path, text: str) -> Iterator[str]:
    """Yield each listed word that a page has outside of code and addresses."""
    words = listed_words()
    pattern = re.compile(rf"\b({'|'.join(map(re.escape, words))})\b", re.IGNORECASE)
    # A listed phrase may be broken over two lines.
    plain = _SPAN.sub("", prose(text))
    flat = re.sub(r"\n(?=\S)", " ", plain)
    for match in pattern.finditer(flat):
        around = flat[max(0, match.start() - 30) : match.end() + 30].strip()
        yield f"{page.name}: … {around} …: write {words[match[1].lower()]!r}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_to_a_file_and_a_heading(page: Path) -> None:
    assert list(broken_links(page, page.read_text("utf-8"))) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_modules_and_tests_that_pages_name_exist(page: Path) -> None:
    assert list(unknown_paths(page, page.read_text("utf-8"))) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_lines_of_prose_are_short(page: Path) -> None:
    assert list(long_lines(page, page.read_text("utf-8"))) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_words_are_plain(page: Path) -> None:
    assert list(banned_words(page, page.read_text("utf-8"))) == []


def test_words_on_screens_are_plain() -> None:
    file = PACKAGE / "ui" / "locale" / "es.po"
    catalogue = read_po(file.read_text("utf-8"))
    plurals = (form for pair in catalogue.plural.items() for forms in pair for form in forms)
    texts = [*catalogue.singular, *catalogue.singular.values(), *plurals]
    assert len(texts) > 1_000
    shown = (re.sub(r"\{[^}]*\}", "", text) for text in texts)  # names of values are not shown
    assert [found for text in shown for found in banned_words(file, text)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_pages_exist(page: Path) -> None:
    assert list(unknown_commands(page, page.read_text("utf-8"))) == []


def test_the_changelog_keeps_its_order_with_one_line_a_change() -> None:
    order = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
    text = (ROOT / "CHANGELOG.md").read_text("utf-8")
    for version in text.split("\n## ")[1:]:
        kinds = re.findall(r"^### (.*)$", version, re.MULTILINE)
        assert kinds == [kind for kind in order if kind in kinds]
        lines = version.splitlines()[1:]
        changes = [line for line in lines if line and not line.startswith(("### ", "**"))]
        assert [line for line in changes if not line.startswith("- ") or len(line) > 120] == []


def test_each_check_finds_what_it_looks_for() -> None:
    page = ROOT / "README.md"
    fenced = "```sh\n[x](nowhere.md) the person " + "x" * LONGEST + "\n```\n"
    assert list(broken_links(page, f"# A b: `c`\n[x](#a-b-c) [y](docs/cli.md)\n{fenced}")) == []
    assert len(list(broken_links(page, "# A\n[x](#b) [y](nowhere.md) [z](docs/cli.md#b)\n"))) == 3
    assert (
        list(unknown_commands(page, '`kogniterm sessions show ID` `kogniterm run -y "a --b"`'))
        == []
    )
    assert len(list(unknown_commands(page, "`kogniterm bogus`\n`kogniterm run --modle x`"))) == 2
    assert list(unknown_paths(page, "`tests/house/gates.py` `agent/graph.route` `a/b`")) == []
    assert len(list(unknown_paths(page, "`tests/none/x.py` `agent/none.route`"))) == 2
    assert list(long_lines(page, f"{'x' * LONGEST}\n{fenced}")) == []
    assert list(long_lines(page, "x" * (LONGEST + 1))) == [f"README.md:1: {LONGEST + 1} characters"]
    assert list(banned_words(page, f"`/permissions` and [it](tape.md)\n{fenced}")) == []
    assert len(list(banned_words(page, "A Lease on the\nfloor for the\nperson."))) == 3


def test_the_messages_quoted_for_troubleshooting_exist() -> None:
    """Each quoted part of a message, with … for what is filled in, is part of a catalogue entry."""
    rows = (ROOT / "docs" / "troubleshooting.md").read_text("utf-8").splitlines()
    cells = [row.split(": ")[0] for row in rows if row.startswith("- ")]
    quotes = [quote for cell in cells for quote in re.findall(r'"([^"]+)"', cell)]
    catalogue = read_po((ROOT / "kogniterm" / "ui" / "locale" / "es.po").read_text("utf-8"))
    english = [*catalogue.singular, *(one for pair in catalogue.plural for one in pair)]
    known = "\n".join(re.sub(r"\{[^}]*\}", "…", entry) for entry in english)
    assert len(quotes) > 20
    assert [quote for quote in quotes if quote.lower() not in known.lower()] == []


def test_the_pages_of_docs_together_stay_short() -> None:
    texts = [page.read_text("utf-8") for page in (ROOT / "docs").glob("*.md")]
    assert sum(len(text.splitlines()) for text in texts) <= MOST_LINES
    assert sum(len(text.split()) for text in texts) <= MOST_WORDS
