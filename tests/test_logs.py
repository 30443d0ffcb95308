"""The log file: private, redacted, one record per line, and nothing on the screen."""

from __future__ import annotations

import logging
import stat
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest

from kogniterm import logs
from kogniterm.cli.options import CallOptions

SECRET = "sk-do-not-log-me"


@pytest.fixture(autouse=True)
def _restore() -> Iterator[None]:
    root, own = logging.getLogger(), logging.getLogger("kogniterm")
    handlers, levels = list(root.handlers), (root.level, own.level)
    # A program that ran in this process before left the capture on; a second call has no effect.
    logging.captureWarnings(False)
    yield
    for handler in [h for h in root.handlers if h not in handlers]:
        root.removeHandler(handler)
        handler.close()
    root.setLevel(levels[0])
    own.setLevel(levels[1])
    logging.captureWarnings(False)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "data" / "logs" / "kogniterm.log"


def redact(text: str) -> str:
    return text.replace(SECRET, "[redacted]")


def test_records_reach_the_file_and_not_the_screen(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert logs.set_up(file)
    logging.getLogger("kogniterm.x").info("hello %s", "there")
    assert "INFO" in file.read_text()
    assert "kogniterm.x: hello there" in file.read_text()
    assert capsys.readouterr() == ("", "")


def test_only_the_owner_can_read_it(file: Path) -> None:
    logs.set_up(file)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


def test_secrets_are_removed_from_arguments_and_tracebacks(file: Path) -> None:
    logs.set_up(file, redact=redact)
    logger = logging.getLogger("kogniterm.x")
    logger.warning("key %s", SECRET)
    try:
        raise ValueError(f"bad key {SECRET}")
    except ValueError:
        logger.exception("failed")
    text = file.read_text()
    assert SECRET not in text
    assert text.count("[redacted]") >= 2


def test_one_record_cannot_pass_for_two(file: Path) -> None:
    logs.set_up(file)
    logging.getLogger("kogniterm.x").info("first\n2026-01-01 00:00:00,000 INFO 1 forged: second")
    starts = [line for line in file.read_text().splitlines() if not line.startswith("    ")]
    assert len(starts) == 1


def test_foreign_loggers_are_tamed_until_debugging(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    logs.set_up(file)
    logging.getLogger("httpx").info("GET https://host/?key=1")
    assert "httpx" not in file.read_text()
    logs.set_up(file, debug=True, on_screen=True)
    logging.getLogger("httpx").info("GET https://host/")
    logging.getLogger("markdown_it.rules_block").debug("entering heading")
    assert "httpx" in file.read_text()
    assert "heading" not in file.read_text()
    assert "httpx" in capsys.readouterr().err


def test_the_screen_of_the_prompt_gets_no_lines(
    file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for at_prompt in (False, True):
        CallOptions({}, debug=True, at_prompt=at_prompt).set_up_logs(file, "info")
        logging.getLogger("kogniterm.x").debug("step %s", at_prompt)
    assert "step True" in file.read_text()
    shown = capsys.readouterr().err
    assert ("step False" in shown, "step True" in shown) == (True, False)


def test_setting_up_again_does_not_double_the_records(file: Path) -> None:
    logs.set_up(file)
    logs.set_up(file)
    logging.getLogger("kogniterm.x").info("once")
    assert file.read_text().count("once") == 1


def test_the_level_is_kept(file: Path) -> None:
    logs.set_up(file, level="error")
    logging.getLogger("kogniterm.x").warning("quiet")
    logging.getLogger("kogniterm.x").error("loud")
    assert "quiet" not in file.read_text()
    assert "loud" in file.read_text()


def test_an_unwritable_folder_is_no_failure(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "data").write_text("a file in the way")
    assert not logs.set_up(tmp_path / "data" / "logs" / "kogniterm.log")
    logging.getLogger("kogniterm.x").error("nobody hears this")
    assert capsys.readouterr() == ("", "")


def test_warnings_go_to_the_log(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs.set_up(file)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn("old thing", UserWarning, stacklevel=1)
    assert "old thing" in file.read_text()
    assert capsys.readouterr().err == ""


def test_the_file_rotates(file: Path) -> None:
    logs.set_up(file)
    logger = logging.getLogger("kogniterm.x")
    for _ in range(13):
        logger.info("x" * (logs.MAX_BYTES // 10))
    assert file.with_name("kogniterm.log.1").exists()
    assert file.stat().st_size < logs.MAX_BYTES
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
