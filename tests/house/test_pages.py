"""Generated pages are up to date, and agree with the parsers and settings."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import generate
from docs.completion_scripts import places
from kogniterm.cli import options
from kogniterm.settings.schema import Settings, names_of

ROOT = Path(__file__).resolve().parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize(
    "page",
    [
        ".env.example",
        "docs/architecture.md",
        "docs/configuration.md",
        "docs/cli.md",
        "docs/commands.md",
        "docs/keys.md",
        "docs/kogniterm.1",
        "kogniterm/cli/completion/kogniterm.bash",
        "kogniterm/cli/completion/_kogniterm",
        "kogniterm/cli/completion/kogniterm.fish",
    ],
)
def test_a_generated_page_is_up_to_date(page: str) -> None:
    written = (ROOT / page).read_text(encoding="utf-8")
    assert written == generate.PAGES[page](), "run `make docs`"


def test_the_example_names_every_setting_and_is_a_file_we_would_accept(tmp_path: Path) -> None:
    from kogniterm import settings

    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    given = re.findall(r"^#(KOGNITERM_\w+)=", text, flags=re.MULTILINE)
    assert given == [names_of(name)[0] for name in Settings.model_fields]
    (tmp_path / ".env").write_text(re.sub(r"^#(?=KOGNITERM_)", "", text, flags=re.MULTILINE))
    environ = {"HOME": str(tmp_path), "KOGNITERM_CONFIG_DIR": str(tmp_path)}
    loaded = settings.load({}, environ=environ)
    assert all(loaded.origin(name).file == tmp_path / ".env" for name in Settings.model_fields)


def test_every_setting_is_read() -> None:
    """A setting that nothing reads would have no effect."""
    reads = ""
    for file in (ROOT / "kogniterm").rglob("*.py"):
        if "settings" not in file.parts:
            text = file.read_text(encoding="utf-8")
            # The table of options names settings too, without reading them.
            reads += re.sub(r'"\w+"', "", text) if file.name == "options.py" else text
    unread = [
        name for name in Settings.model_fields if not re.search(rf"\.{name}\b|\"{name}\"", reads)
    ]
    assert not unread


def test_every_make_target_that_pages_name_exists() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    pages = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md")
    named = {t for p in pages for t in re.findall(r"`?\bmake ([a-z-]*[a-z])", p.read_text("utf-8"))}
    assert named & targets
    assert not {t for t in named if f"make {t}" in makefile} - targets


def test_every_module_of_a_verb_is_in_the_table() -> None:
    written = {
        ".".join(file.relative_to(ROOT).with_suffix("").parts)
        for folder in ("cli", "addons")
        for file in (ROOT / "kogniterm" / folder).rglob("*.py")
        if re.search(r"^def add_parser\(", file.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    assert written == {verb.module for verb in options.VERBS}


def test_a_verb_is_described_once() -> None:
    """The table's line and the verb's own parser use the same description."""
    from kogniterm.cli.main import build_parser

    for verb in options.VERBS:
        helps = {
            pseudo.dest: pseudo.help
            for action in build_parser(verb)._actions
            for pseudo in getattr(action, "_choices_actions", [])
        }
        assert helps[verb.name] == verb.help


def test_every_verb_offers_the_same_face() -> None:
    from kogniterm.cli.main import load_verb

    for verb in options.VERBS:
        module = load_verb(verb)
        assert callable(module.add_parser), verb.name
        assert callable(module.run) if hasattr(module, "run") else module.ACTIONS, verb.name


def calls(text: str) -> Iterator[list[str]]:
    """Yield the words of each call of kogniterm in a page's code."""
    code = re.findall(r"^```sh\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    spans = re.findall(r"`(kogniterm [^`]*)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    for line in [*"".join(code).splitlines(), *spans]:
        call = re.search(r"(?:^|[|;&] *)kogniterm((?: +(?:\"[^\"]*\"|'[^']*'|[^ |;&<>#])+)*)", line)
        if call:
            yield call[1].split()


def unknown_words(words: list[str]) -> Iterator[str]:
    """Yield the verbs, actions and options of a call that the command line does not have."""
    path = ""
    flags = dict(FLAGS[""])
    left = iter(words)
    for word in left:
        name, equals, _value = word.partition("=")
        if re.match(r"--?[a-z]", word):
            if name not in flags:
                yield f"kogniterm{path.replace('/', ' ')} {name}"
            elif flags[name] and not equals:
                next(left, None)
        elif f"{path}/{word}" in FLAGS:
            path = f"{path}/{word}"
            flags |= FLAGS[path]
        elif re.fullmatch(r"[a-z]{2,}", word) and path in HOLDERS:
            yield f"kogniterm{path.replace('/', ' ')} {word}"
            return


FLAGS = {
    place.path: {name: flag.takes_value for flag in place.flags for name in flag.names}
    for place in places()
}
"""By verb and action (`/memory/add`): each option, and whether it takes a value."""
HOLDERS = {path.rpartition("/")[0] for path in FLAGS if path}
"""Places that are followed by a verb or an action."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_in_a_page_exist_with_their_options(page: Path) -> None:
    found = [word for call in calls(page.read_text("utf-8")) for word in unknown_words(call)]
    assert found == []


def test_a_wrong_command_in_a_page_is_found() -> None:
    page = "```sh\nls | kogniterm memroy list\n```\n`kogniterm memory lst` `kogniterm run --jsn`\n"
    assert len([word for call in calls(page) for word in unknown_words(call)]) == 3


def verbs_in(words: list[str]) -> tuple[str, ...]:
    """Return the verb of a call, with its action."""
    path: tuple[str, ...] = ()
    for word in words:
        if f"/{'/'.join((*path, word))}" in FLAGS:
            path = (*path, word)
        elif path:
            break
    return path


def test_every_verb_that_a_block_shows_is_run_by_a_test() -> None:
    tried = re.findall(r"Try `(?:[^`]*kogniterm )?([^`]+)`", _page("specification.md"))
    parts = ("cli", "terminal", "packages", "flows", "models", "runtime", "addons")
    tests = [file for part in parts for file in (ROOT / "tests" / part).rglob("*.py")]
    texts = [(file.name, file.read_text("utf-8")) for file in tests]
    of_verbs = {name: text for name, text in texts if name.endswith("_verb.py")}
    written = "\n".join(text for _name, text in texts)

    def is_run(verbs: tuple[str, ...]) -> bool:
        words, of_one_verb = " ".join(verbs), of_verbs.get(f"test_{verbs[0]}_verb.py", "")
        return (
            any(one.startswith(words) for one in tried)
            or f"kogniterm {words}" in written
            or '", "'.join(verbs).join('""') in written
            or f'"{verbs[-1]}"' in of_one_verb
        )

    blocks = [
        block
        for page in PAGES
        for block in re.findall(r"^```sh\n.*?^```", page.read_text("utf-8"), re.M | re.S)
    ]
    shown = {verbs_in(call) for block in blocks for call in calls(block)} - {()}
    assert len(shown) > 20
    assert not {verbs for verbs in shown if not is_run(verbs)}


def _page(name: str) -> str:
    return (ROOT / "docs" / name).read_text("utf-8")
