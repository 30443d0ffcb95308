"""Commands judged read-only change nothing when bash runs them, whatever the files hold.

Generated commands are run in a sandbox that can write one folder and reach no network; without a
sandbox nothing is run. `make faults` tries many more.
"""

from __future__ import annotations

from pathlib import Path

from tests.approval.generated import FILES, PROGRAM_FILES
from tests.approval.real_shell import RealShell, read_only_calls, read_only_rows
from tests.support.programs import needs

pytestmark = needs("bash")


def test_what_runs_code_of_a_file_is_found_out(tmp_path: Path) -> None:
    acting = [
        ("read -r n < data; ((n))",),
        ("n=$(cat data)", "[[ n -gt 5 ]]"),
        ('declare -a a="$(cat list)"',),
        ("[ $(cat words) ]",),
        ("n=$(cat output)", 'sort "$n" plain'),
        ("touch new",),
        ("rm data",),
        ("echo x >> plain",),
    ]
    harmless = [("cat data",), ("n=5", "[[ n -gt 3 ]]"), ("exit 3",)]
    shell = RealShell(tmp_path, FILES)
    assert shell.changing([*acting[:3], *harmless, *acting[3:]]) == acting


def test_generated_commands_that_only_read_change_nothing(tmp_path: Path) -> None:
    rows = read_only_rows(1, 1_500)
    assert len(rows) > 100
    assert RealShell(tmp_path, FILES).changing(rows) == []


def test_programs_that_only_read_change_nothing_with_any_option(tmp_path: Path) -> None:
    calls = read_only_calls(1, 150)
    assert RealShell(tmp_path, PROGRAM_FILES).changing(calls) == []
