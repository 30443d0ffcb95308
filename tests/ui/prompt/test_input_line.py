"""The history of the input line, and its completion."""

from __future__ import annotations

import json
from pathlib import Path

from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from kogniterm.types import Job
from kogniterm.ui.commands.command_table import COMMANDS
from kogniterm.ui.prompt.file_completion import RankedFiles
from kogniterm.ui.prompt.input_line import KEPT, LineCompleter, PrivateHistory
from kogniterm.ui.slash_commands import Registry
from tests.ui.face import PlayedSession, nothing


def test_history_is_private_bounded_and_survives_damage(tmp_path: Path) -> None:
    file = tmp_path / "history"
    lines = [json.dumps(f"entry {n}") for n in range(2 * KEPT + 5)]
    file.write_text("\n".join([*lines, "{broken", "7"]) + "\n")
    history = PrivateHistory(file)
    newest = list(history.load_history_strings())
    assert newest[0] == f"entry {2 * KEPT + 4}"
    assert len(file.read_text().splitlines()) == KEPT
    assert file.stat().st_mode & 0o777 == 0o600
    assert list(PrivateHistory(tmp_path / "none" / "x").load_history_strings()) == []


def test_history_goes_on_without_a_file_it_may_write(tmp_path: Path) -> None:
    file = tmp_path / "folder"
    file.mkdir()
    history = PrivateHistory(file)
    history.append_string("kept in memory")
    assert history.get_strings() == ["kept in memory"]


def test_files_with_spaces_are_quoted_and_commands_wait_for_a_slash() -> None:
    class Enough:
        """The part of a REPL that completion uses."""

        registry = Registry(COMMANDS)
        opened = True
        session = PlayedSession(nothing)

    job = Job("7", "make all", "running", (1,), 0.0, output_path="/tmp/out")
    Enough.session.executor.running = (job,)

    files = RankedFiles([("my file.txt", 0.0), ("other.txt", 0.0), ("my\nfile.txt", 0.0)])
    completer = LineCompleter(Enough(), lambda: files)  # type: ignore[arg-type]  # enough of it

    def complete(text: str) -> list[str]:
        found = completer.get_completions(Document(text), CompleteEvent())
        return [completion.text for completion in found]

    assert complete("look at @my") == ['@"my file.txt"']
    assert complete("/the") == ["/theme"]
    assert complete("/theme d") == ["dark"]
    assert complete("/nonsense x") == []
    assert complete("the") == []
    assert complete("what says @jo") == ["@jobs", "@job:7"]
    assert complete("what says @job:") == ["@job:7"]
