"""The audit at a real terminal: manual changes to the database, and a read-only data folder."""

from __future__ import annotations

from tests.support.typing_user import scripted
from tests.terminal.conftest import OpenTerminal

SCRIPT = """replies:
  - {run: "echo seen > notes.txt", purpose: Write the notes.}
  - {text: "The notes are written, pelican."}
"""


def test_a_read_only_data_folder_is_listed_shown_searched_and_verified(
    open_terminal: OpenTerminal,
) -> None:
    terminal = open_terminal(user="ordinary", columns=160)
    model = scripted(terminal, SCRIPT)
    once = f"kogniterm run -y --no-sandbox --model {model}"
    assert terminal.run(f"{once} 'write the notes'")[0] == 0
    assert terminal.run("kogniterm memory add 'the pelican eats at noon'")[0] == 0
    data = terminal.home / ".local/share/kogniterm"
    assert terminal.run(f"find {data} -type d -exec chmod 0555 {{}} +")[0] == 0
    before = sorted(data.iterdir())
    for words, said in (
        ("sessions list", "write the notes"),
        ("sessions show last", "The notes are written, pelican."),
        ("sessions search pelic", "write the notes"),
        ("audit verify", "all as they were written"),
        ("audit show last", "echo seen"),
        ("memory list", "the pelican eats at noon"),
        ("memory search pelican", "the pelican eats at noon"),
    ):
        status, shown = terminal.run(f"kogniterm {words}")
        assert (status, said in shown) == (0, True), (words, shown)
        assert "read-only" not in shown
    for words in (
        "sessions rename last New",
        "memory add 'another fact'",
        f"run --model {model} x",
    ):
        status, shown = terminal.run(f"kogniterm {words}")
        assert status != 0, (words, shown)
        assert "kogniterm.db is read-only and nothing was written" in shown, (words, shown)
        assert "Traceback" not in shown
    assert sorted(data.iterdir()) == before
    assert terminal.run(f"find {data} -type d -exec chmod 0755 {{}} +")[0] == 0
