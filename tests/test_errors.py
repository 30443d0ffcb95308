"""Error messages for the user, without technical detail."""

from __future__ import annotations

from pathlib import Path

import pytest

from kogniterm.errors import why
from kogniterm.ui.locale import translate
from tests.support.language import in_spanish


def test_the_usual_reasons_are_told_in_both_languages(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError) as missing:
        (tmp_path / "missing").read_text()
    assert str(why(missing.value)) == "no such file or folder"
    with in_spanish():
        assert translate(why(missing.value)) == "no existe ese archivo o carpeta"


def test_an_unusual_reason_is_told_in_the_systems_words() -> None:
    assert str(why(OSError(95, "Operation not {supported}"))) == "Operation not {supported}"
    assert str(why(TimeoutError("timed out"))) == "timed out"


def test_bytes_that_are_no_text_are_told_without_their_codec(tmp_path: Path) -> None:
    file = tmp_path / "binary"
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(UnicodeDecodeError) as wrong:
        file.read_text(encoding="utf-8")
    assert str(why(wrong.value)) == "it is not UTF-8 text"
