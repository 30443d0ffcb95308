"""Secrets that the user gives: set for a command that names them, and for nothing else."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kogniterm import approval
from kogniterm.errors import UsageError
from kogniterm.runtime.unattended.named_session import given_before
from kogniterm.runtime.unattended.parked_turn import Parking
from kogniterm.runtime.user_secrets import UserSecrets, without_own
from kogniterm.types import UserInput
from tests.flows.conftest import Flow, MakeFlow, yes

VALUE = "hunter2-Zq81-correct-horse"
KEY = "sk-own-a1B2c3D4e5F6g7H8i9J0"


def script(*commands: str) -> str:
    replies = [{"run": command} if command else {"text": "Ok."} for command in commands]
    return json.dumps({"replies": [*replies, {"text": "Ok.", "repeat": "forever"}]})


async def asked(flow: Flow, *, text: str = "go", value: str | None = None) -> list[str]:
    """Run a turn in which the user approves everything; return the commands that were asked."""

    async def ask_secret(name: str) -> str | None:
        return value

    session = flow.session or flow.open()
    await session.run(
        UserInput(text), approver=flow.user, sink=flow.tell, at_prompt=True, ask_secret=ask_secret
    )
    return [request.command for request, _report, _verdict in flow.user.asked]


LATER = r"""{ echo later; declare -p; env; tr '\0' '\n' < /proc/$PPID/environ; X; cat <&7; jobs
trap -p; alias; declare -f; set; echo "$*"; cat < job; pwd; } 2>&1 | tac -rs 'x\|[^x]'"""
HOARDING = {
    "variable": "export X=$SECRET_1",
    "array": "declare -A X=([a]=$SECRET_1); export SECRET_1",
    "readonly": "readonly X=$SECRET_1 SECRET_1",
    "function": 'eval "X() { echo $SECRET_1; }"',
    "alias": 'shopt -s expand_aliases; alias X="echo $SECRET_1"',
    "trap": 'trap "echo $SECRET_1 >&2" EXIT DEBUG',
    "shell": 'builtin() { echo "$SECRET_1"; }; pwd() { echo "$SECRET_1"; }; PWD=$SECRET_1',
    "descriptor": 'exec 7< <(echo "$SECRET_1"); coproc cat; echo "$SECRET_1" >&${COPROC[1]}',
    "positional": 'set -- "$SECRET_1"; umask 077; : "$SECRET_1"',
    "tracing": 'set -x; : "$SECRET_1"; history -s "$SECRET_1"',
    "job": 'sleep 30 & (echo "$SECRET_1"; sleep 30) & disown -a',
}


@pytest.mark.parametrize("command", HOARDING.values(), ids=HOARDING)
async def test_no_later_command_job_or_file_has_the_value(
    make_flow: MakeFlow, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    (tmp_path / "work" / "sub").mkdir()
    before = r"mkfifo go; (read -r x < go; env | tac -rs 'x\|[^x]') > job & echo first"
    using = f"{command}; cd sub; echo > ../go"
    flow = make_flow(script(before, using, LATER), [yes] * 3, end_jobs=True)
    session = flow.open()
    assert session.journal.given.give(VALUE) == "SECRET_1"
    assert await asked(flow) == [before, using, LATER]
    after = flow.results[-1].text
    assert "retal" in after
    assert VALUE[::-1] not in after
    assert session.executor.cwd.endswith("work" if "pwd()" in command else "work/sub")
    assert not any(VALUE in text for text in (*map(repr, flow.events), *flow.shown))
    assert flow.files_with(VALUE.encode()) == []
    assert flow.files_with(VALUE[::-1].encode()) == []
    await session.finish()
    flow.close()
    assert flow.files_with(VALUE.encode()) == []


RULES = """
[[rule]]
decision = "allow"
program = ["printf", "wc", "curl"]
"""
USES = 'printf %s "$SECRET_1" | wc -c'


async def test_only_the_user_allows_it_and_no_permission_is_offered(
    make_flow: MakeFlow, tmp_path: Path
) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "policy.toml").write_text(RULES)
    flow = make_flow(
        script(USES, "printf a | wc -c"), [yes], approval_mode="auto", allow_reads=True
    )
    session = flow.open()
    assert await asked(flow, text=f"The token is {VALUE}, password={VALUE}") == [USES]
    ((request, report, verdict),) = flow.user.asked if flow.user else []
    assert report.label == "needs_approval"
    assert str(verdict.reasons[0]) == "Gives the secret SECRET_1 to wc."
    assert session.policy.offers(request, report, session.executor.cwd) == ()
    assert [result.text.strip() for result in flow.results] == [str(len(VALUE)), "1"]
    assert "The token is $SECRET_1, password=$SECRET_1" in flow.shown[0]
    assert "whose value is never shown to you" in flow.shown[0]
    assert flow.files_with(VALUE.encode()) == []


@pytest.mark.parametrize(
    ("command", "granted", "ran"),
    [
        (USES, [], False),
        (USES, ["wc"], True),
        (USES, ["printf"], False),
        ('printf %s "$SECRET_1" | wc -c | tail -1', ["wc"], False),
        ('wc -c <<< "$SECRET_1" | tail -1', ["wc"], True),
        ('wc -c <<< "$SECRET_1"; touch other', ["wc"], False),
        ('wc -c <<< "$SECRET_1"; python3 -V', ["wc"], False),
        ('./wc -c <<< "$SECRET_1"', ["wc"], False),
        ('wc -c <<< "$SECRET_1" "$(', ["wc"], False),
    ],
)
async def test_without_a_user_it_runs_only_with_a_grant(
    make_flow: MakeFlow, command: str, granted: list[str], *, ran: bool
) -> None:
    flow = make_flow(script(command), approval_mode="auto")
    session = flow.open()
    session.journal.given.give(VALUE)
    for program in granted:
        session.journal.given.allow("SECRET_1", program)
    await flow.run()
    assert bool(flow.results) == ran
    if not ran:
        assert "SECRET_1" in flow.shown[-2]


async def test_a_rule_that_denies_wins_over_a_grant(make_flow: MakeFlow, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    (tmp_path / "config" / "policy.toml").write_text(RULES.replace("allow", "deny"))
    flow = make_flow(script(USES))
    given = flow.open().journal.given
    given.allow(given.give(VALUE), "wc")
    await flow.run()
    assert flow.results == []


async def test_a_later_process_asks_for_the_value_or_tells_that_it_is_missing(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(script(USES, USES, USES), [yes] * 4)
    await asked(flow, text=f"password={VALUE}")
    assert [result.text.strip() for result in flow.results] == [str(len(VALUE))] * 3
    flow.close()
    other = make_flow(script(USES, "", USES), [yes] * 4)
    assert given_before(other.open("last").journal, UserInput(f"password={VALUE}")) is not None
    other.close()
    other.open("last")
    await asked(other, text="again", value=None)
    assert "The value of the secret SECRET_1 is not known" in other.shown[-2]
    await asked(other, text="again", value=VALUE + "!")
    assert other.results[-1].text.strip() == str(len(VALUE) + 1)
    assert other.session.journal.given.give("another-value") == "SECRET_3"
    other.close()
    last = make_flow(script(USES))
    last.open("last")
    await last.run()
    assert last.results == []
    assert "/secret SECRET_1" in last.shown[-2]
    assert last.files_with(VALUE.encode()) == []


async def test_no_key_of_the_settings_reaches_a_command_by_any_name(
    make_flow: MakeFlow, tmp_path: Path
) -> None:
    profile = tmp_path / "work" / "profile"
    profile.write_text(f"export BY_PROFILE={KEY} FINE=1\n")
    look = r"env | tac -rs 'x\|[^x]'"
    flow = make_flow(script(look, ". ./profile", look), [yes] * 3)
    flow.environ |= {
        "OPENAI_API_KEY": KEY, "MY_KEY": KEY, "HEADER": f"Bearer {KEY}", "KEPT": "kept",

    }  # fmt: skip
    assert await asked(flow) == [look, ". ./profile", look]
    texts = [result.text for result in flow.results]
    assert "tpek=TPEK" in texts[0]
    assert "1=ENIF" in texts[2]
    assert not any(KEY[::-1] in text for text in texts)
    given = flow.session.journal.given
    for value in (KEY, f"Bearer {KEY}"):
        with pytest.raises(UsageError, match="own settings"):
            given.give(value, "MINE")


def test_the_address_of_a_database_and_its_password_are_left_out_too() -> None:
    url = "postgresql://me:p%40ssw0rd-long@127.0.0.1:1/x"
    environ = {
        "A": url, "B": f"{url}?a", "C": "p%40ssw0rd-long", "D": "p@ssw0rd-long", "E": "me",
    }  # fmt: skip
    assert without_own(environ, [url]) == {"E": "me"}


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "LD_PRELOAD",
        "BASH_ENV",
        "GIT_DIR",
        "KOGNITERM_MODEL",
        "PS1",
        "IFS",
        "HOME",
        "LC_ALL",
        "SSH_ASKPASS",
        "PROMPT_COMMAND",
        "1A",
        "A-B",
        "A=B",
        "OPENAI_API_KEY",
    ],
)
def test_names_that_others_read_are_refused(name: str) -> None:
    given = UserSecrets((), {"OPENAI_API_KEY"})
    with pytest.raises(UsageError):
        given.give(VALUE, name)
    assert given.names == ()


def test_nothing_shows_the_values() -> None:
    given = UserSecrets()
    for name in ("", "", "PGPASSWORD", "AWS_SECRET_ACCESS_KEY", "SECRET_7"):
        given.give(VALUE, name)
    assert given.names == (
        "SECRET_1",
        "SECRET_2",
        "PGPASSWORD",
        "AWS_SECRET_ACCESS_KEY",
        "SECRET_7",
    )
    assert given.next_name() == "SECRET_8"
    assert VALUE not in repr(given) + str(given)


async def test_what_earlier_commands_left_in_the_shell_does_not_get_it(
    make_flow: MakeFlow, tmp_path: Path
) -> None:
    (tmp_path / "work" / "wc").write_text("#!/bin/sh\nenv > stolen\n")
    (tmp_path / "work" / "wc").chmod(0o755)
    before = """chmod +x wc; export PATH=$PWD:$PATH SECRET_1=mine BASH_ENV=$PWD/wc ENV=$PWD/wc
trap 'echo "$SECRET_1" > stolen' DEBUG EXIT; printf() { echo "$2" > stolen; }; alias wc=./wc
wc() { ./wc; }
set -x; exec 9> stolen; coproc cat > stolen; readonly SECRET_1; IFS=2; umask 000"""
    flow = make_flow(script(before, USES), [yes] * 2, end_jobs=True)
    flow.open().journal.given.give(VALUE)
    assert await asked(flow) == [before, USES]
    assert flow.results[-1].text.strip() == str(len(VALUE))
    assert flow.files_with(VALUE.encode()) == []


async def test_in_the_sandbox_too_only_the_folder_is_carried_over(
    make_flow: MakeFlow, tmp_path: Path
) -> None:
    (tmp_path / "work" / "sub").mkdir()
    using = 'export X=$SECRET_1; cd sub; printf %s "$SECRET_1" | wc -c'
    flow = make_flow(script(using, LATER), approval_mode="auto", sandbox="auto")
    session = flow.open()
    if session.policy.sandbox.box is None:
        pytest.skip("no sandbox works here")
    session.journal.given.allow(session.journal.given.give(VALUE), "wc")
    await flow.run()
    first, after = flow.results
    assert first.text.strip() == str(len(VALUE))
    assert "retal" in after.text
    assert after.cwd.endswith("work/sub")
    assert VALUE[::-1] not in after.text


async def test_a_turn_that_waits_for_answers_refuses_instead_of_parking(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow(script(USES), [])
    session = flow.open()
    session.journal.given.give(VALUE)
    parking = Parking(session)
    await session.run(
        UserInput("go"), approver=parking, sink=flow.tell, at_prompt=True, park=parking.ask
    )
    assert (flow.results, parking.question) == ([], None)
    assert "no user is there to approve that" in flow.shown[-2]


def test_no_command_on_another_machine_gets_it() -> None:
    given = UserSecrets()
    given.give(VALUE)
    given.answers = "now"
    report = approval.classify(USES, cwd="/w", workspace="/w")
    assert given.use_in(report)[1] is None
    _use, why = given.use_in(report, on_hosts=True)
    assert "only commands on this machine get" in str(why)


async def test_a_short_key_keeps_no_other_variables_from_later_commands(
    make_flow: MakeFlow,
) -> None:
    flow = make_flow("replies: [{run: 'A=1'}, {run: 'echo $HOME'}, {text: Done.}]", sandbox="off")
    flow.environ["OPENAI_API_KEY"] = "x"  # as servers of one's own take it
    await flow.run()
    assert flow.results[-1].text.strip() == flow.environ["HOME"]
