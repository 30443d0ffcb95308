"""Files that users write: whatever is in them, each reader gives one sentence or a clean value."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

import pytest

from kogniterm.errors import KognitermError, SettingsError
from kogniterm.execution.command_script import read_command_script
from kogniterm.models.scripted_model import read_script
from kogniterm.prompts import own_files
from kogniterm.runtime.extensions.front_matter import read_document
from kogniterm.runtime.extensions.hooks.hook_files import user_hooks
from kogniterm.runtime.extensions.servers.mcp_servers import user_servers
from kogniterm.runtime.operations.mcp.mcp_actions import add_server
from kogniterm.runtime.operations.stored_data import read_lines
from kogniterm.runtime.plan_edits import read_plan
from kogniterm.runtime.services.permission_store import PermissionStore
from kogniterm.runtime.services.policy_service import rules_of
from kogniterm.settings import load, quick
from kogniterm.settings.user_files import json_values, toml_values, yaml_text, yaml_values


class Site(NamedTuple):
    """A reader of a user's file; it raises, or returns the sentences about it."""

    kind: str
    name: str
    read: Callable[[Path], object]


def at_home(path: Path) -> dict[str, str]:
    environ = {"KOGNITERM_CONFIG_DIR": str(path.parent), "HOME": str(path.parent)}
    quick(environ, {})  # never fails
    return environ


SITES = {
    "settings": Site("toml", "config.toml", lambda path: load({}, environ=at_home(path))),
    "variables": Site("", ".env", lambda path: load({}, environ=at_home(path))),
    "rules": Site("toml", "policy.toml", rules_of),
    "permissions": Site(
        "toml", "permissions.toml", lambda path: PermissionStore(path, path).permissions()
    ),
    "hooks": Site("json", "hooks.json", user_hooks),
    "servers": Site("json", "mcp.json", lambda path: user_servers(path).problems),
    "a new server": Site(
        "json", "mcp.json", lambda path: add_server(path, "a", {"command": "b"}, of_project=False)
    ),
    "script": Site("yaml", "script.yaml", read_script),
    "commands": Site("yaml", "commands.yaml", read_command_script),
    "plan": Site("yaml", "plan.yaml", read_plan),
    "prompt": Site("", "base.md", lambda path: own_files(path.parent)),
    "lines": Site("", "tasks.jsonl", lambda path: read_lines(str(path))),
}

ANY: dict[str, Callable[[Path], object]] = {
    "NUL": lambda path: path.write_bytes(b"a: b\nc\0d: e\n"),
    "not UTF-8": lambda path: path.write_bytes(b"a: caf\xe9\n"),
    "a terabyte": lambda path: (path.touch(), os.truncate(path, 1 << 40)),
    "pipe": os.mkfifo,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "link loop": lambda path: path.symlink_to(path),
    "folder": lambda path: path.mkdir(),
}
LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
    for old, new in zip("abcdefgh", "bcdefghi", strict=True)
)
DIGITS = "9" * 5000
TEXTS = {
    "yaml": {
        "not YAML": "a: [\n",
        "twice": "a: 1\na: 2\n",
        "billion laughs": LAUGHS,
        "itself": "a: &a [*a]\n",
        "list": "- a\n",
        "deep": "[\n" * 10_000,
        "quite deep": "a: " + "[" * 200 + "]" * 200,
        "nan": "a: .nan\n",
        "large": f"a: {DIGITS}\n",
        "a key that is a list": "? [a, b]\n: c\n",
        "object": "a: !!python/object/apply:os.getcwd []\n",
        "nothing": "",
    },
    "toml": {
        "not TOML": "a = [\n",
        "twice": "a = 1\na = 2\n",
        "deep": f"a = {'[' * 100_000}\n",
        "quite deep": f"a = {'[' * 200}{']' * 200}\n",
        "nan": "a = nan\n",
        "infinite": "a = 1e999\n",
        "large": f"a = {DIGITS}\n",
        "quite large": f"a = {DIGITS[:30]}\n",
    },
    "json": {
        "not JSON": '{"a": \n',
        "twice": '{"a": 1, "a": 2}',
        "list": "[]",
        "deep": "[" * 100_000,
        "quite deep": f'{{"a": {"[" * 200}{"]" * 200}}}',
        "nan": '{"a": NaN}',
        "infinite": '{"a": 1e999}',
        "large": f'{{"a": {DIGITS}}}',
        "quite large": f'{{"a": {DIGITS[:30]}}}',
        "open comments": "{" + "/* " * 100_000,
        "open texts": "{" + '\\"' * 100_000,
    },
}


def cases(sites: Mapping[str, Site]) -> list[tuple[str, str]]:
    """Return each site with each fault that a file of its kind can have."""
    return [(name, fault) for name in sites for fault in (*ANY, *TEXTS.get(sites[name].kind, ()))]


CASES = cases(SITES)
CASES.remove(("lines", "a terabyte"))  # an export may have 500 MB, and would be read


@pytest.mark.parametrize(("site", "fault"), CASES, ids=[f"{one}-{two}" for one, two in CASES])
def test_each_reader_says_in_one_sentence_what_is_wrong(
    site: str, fault: str, tmp_path: Path
) -> None:
    check_sentence(SITES[site], fault, tmp_path)


def check_sentence(reader: Site, fault: str, folder: Path) -> None:
    """Check that a reader says in one sentence what is wrong with a file."""
    path = folder / reader.name
    if fault in ANY:
        ANY[fault](path)
    else:
        path.write_text(TEXTS[reader.kind][fault])
    try:
        found = reader.read(path)
        assert isinstance(found, tuple | list), "it was read"
        (said,) = map(str, found)
    except KognitermError as error:
        said = str(error)
    assert path.name in said
    assert said.endswith(".")
    assert "\n" not in said
    assert len(said) < 250 + len(str(path))


@pytest.mark.parametrize("fault", TEXTS["yaml"])
def test_front_matter_that_is_no_yaml_is_text(fault: str) -> None:
    document = read_document(f"---\nname: b\n{TEXTS['yaml'][fault]}\n---\nbody\n")
    assert document.text("name").startswith("b")
    assert document.body == "body\n"


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1}', {"a": 1}),
        ('\ufeff{"a": 1}', {"a": 1}),
        ('{"a": 1, // one\n}', {"a": 1}),
        ('{"a": [1, 2, /* , */ ], }', {"a": [1, 2]}),
        ('// first\n{"a": "http://x//y"}', {"a": "http://x//y"}),
        ('{"a": "/* no */, }",}', {"a": "/* no */, }"}),
        ('{"a": "\\"// no", /* yes */}', {"a": '"// no'}),
        ('{"a": 1, /* a\n b */ "b": 2}', {"a": 1, "b": 2}),
        ('{"a": [\n1,\n\n// last\n]}', {"a": [1]}),
    ],
)
def test_comments_and_trailing_commas_are_ignored(text: str, value: object) -> None:
    assert json_values("f", text, comments=True).data == value


def test_the_line_of_a_mistake_counts_comments() -> None:
    with pytest.raises(SettingsError, match="f, line 5: not valid JSON"):
        json_values("f", '{\n// one\n/* two\nthree */\n"a": wrong,\n}', comments=True)


def test_lines_of_toml_are_found_below_tables_and_long_texts() -> None:
    text = '''a = 1
b = """
[[rule]]
c = 2
"""
[[rule]]
"x y" = 1 # [table]
[[rule]]
z.w = [
  "a",
]
[rule.inner]
v = 2
'''
    found = toml_values("f", text)
    assert found.line(("b",)) == 2
    assert ("c",) not in found.lines
    assert found.line(("rule", 0)) == 6
    assert found.line(("rule", 0, "x y")) == 7
    assert found.line(("rule", 1, "z", "w")) == 9
    assert found.line(("rule", 1, "inner", "v")) == 13
    assert found.line(("rule", 1, "unknown")) == 8


def test_standard_input_is_read_on_from_where_it_is(tmp_path: Path) -> None:
    """A file that was read from does not begin anew, and a socket cannot be opened by its path."""
    (file := tmp_path / "tasks").write_text("read before\none\ntwo\n")
    kept, given = os.dup(0), os.open(file, os.O_RDONLY)
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    try:
        os.dup2(given, 0)
        assert os.read(0, 12) == b"read before\n"
        assert read_lines("-") == ["one\n", "two\n"]
        os.dup2(ours.fileno(), 0)
        threading.Timer(0.05, lambda: (theirs.sendall(b"three\n"), theirs.close())).start()
        assert read_lines("/dev/stdin") == ["three\n"]
    finally:
        os.dup2(kept, 0)
        for one in (kept, given):
            os.close(one)
        ours.close()


def test_dates_are_text_and_names_of_keys_are_as_they_stand() -> None:
    assert toml_values("f", "a = 2026-01-02").data == {"a": "2026-01-02"}
    assert yaml_values("f", "a: 2026-01-02\n1: b\nyes: =").data == {
        "a": "2026-01-02", "1": "b", "yes": "=",
    }  # fmt: skip


def test_yaml_is_written_as_it_is_read() -> None:
    data = {"b": ["2026-01-02", "yes", "1"], "a": {"c": True, "d": None, "e": "ñ"}}
    assert yaml_values("f", yaml_text(data)).data == data
